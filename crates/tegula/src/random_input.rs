//! Pseudo-random inputs for programs that are run without inputs. The same seed gives the same
//! inputs on every machine.

use crate::{Error, Tensor};
use tegula_ir::{ArrayShape, Category, Literal, Module, Scalar, Shape};

/// One input for each array among the entry's parameters. Floats are approximately normally
/// distributed with deviation 1, integers are small, and both values of `pred` are equally likely.
///
/// # Errors
/// A parameter whose size is unknown or does not fit in memory.
pub fn random_inputs(module: &Module, seed: u64) -> Result<Vec<Tensor>, Error> {
    let entry = module.entry_computation();
    let mut inputs = Vec::new();
    for &parameter in &entry.parameters {
        for shape in tegula_fusion::array_leaves(&module[parameter].shape) {
            let stream = stream(seed, inputs.len() as u64);
            let array = random_array(shape, stream).map_err(|error| {
                let instruction = &module[parameter];
                let message = match shape.static_dims() {
                    Some(_) => format!("`{}`: {}", instruction.name, error.message),
                    None => format!(
                        "`{}` is {}: random inputs need known sizes; specify the size (`--dim NAME=SIZE`) or the inputs",
                        instruction.name,
                        tegula_ir::display_shape(&Shape::Array(shape.clone()), &module.symbols)
                    ),
                };
                Error {
                    message,
                    span: instruction.span,
                    ..error
                }
            })?;
            inputs.push(Tensor::from(array));
        }
    }
    Ok(inputs)
}

/// The seed for array `number` of a program.
pub(crate) fn stream(seed: u64, number: u64) -> u64 {
    seed.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN))
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// An array of pseudo-random numbers; see [`random_inputs`]. It is counted permanently in the
/// memory limit of this thread's work.
///
/// # Errors
/// The size is unknown or does not fit in memory; a limit is exceeded.
pub fn random_array(shape: &ArrayShape, seed: u64) -> Result<Literal, Error> {
    let bytes = shape.byte_size().unwrap_or(0);
    tegula_limits::claim(u64::try_from(bytes).unwrap_or(0))?.keep();
    let mut literal = Literal::zeros(shape)?;
    for i in 0..literal.len() {
        tegula_limits::check()?;
        let word = mix(seed.wrapping_add((i as u64).wrapping_mul(GOLDEN)));
        let scalar = match shape.element_type.category() {
            Category::Boolean => Scalar::Bool(word & 1 == 1),
            Category::Signed => Scalar::Int((word >> 32) as i64 % 8 - 3),
            Category::Unsigned => Scalar::Uint((word >> 32) % 8),
            Category::Float => Scalar::Float(normal(word)),
            Category::Complex => Scalar::Complex(normal(word), normal(mix(word))),
        };
        literal.set_scalar(i, scalar)?;
    }
    Ok(literal)
}

/// The sum of the word's four 16-bit lanes, centred and scaled to deviation 1.
fn normal(word: u64) -> f64 {
    let lanes: u64 = (0..4).map(|lane| (word >> (16 * lane)) & 0xffff).sum();
    (lanes as f64 - 131_070.0) / 37_837.227_5
}

/// The output function of splitmix64 (Steele, Lea, Flood 2014).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
