//! Random programs: valid HLO text with inputs, the same for the same seed.
//!
//! Two regimes. In [`Regime::Dyadic`] every float is a small multiple of a power of two and stays
//! exactly representable (the generator tracks how many bits a value may need), so every correct
//! target gives the same bits. In [`Regime::General`] values may be rounded, and targets are judged
//! by the evaluator's envelope.

mod expressions;
mod fresh;
mod groups;
mod library;
mod ops;
mod recurrences;
mod rows;
mod structure;
mod types;
mod windows;
mod wrappers;

pub use expressions::random_expression;
pub use rows::random_rows;
use std::fmt::Write;
use tegula_ir::{ArrayShape, Category, ElementType, Layout, Literal, Module, Scalar, Shape};

/// How exact a random program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// Every value is exact in its type.
    Dyadic,
    /// Rounding happens.
    General,
}

/// A random program.
#[derive(Clone, Debug)]
pub struct RandomProgram {
    /// HLO text.
    pub text: String,
    /// One array per parameter.
    pub inputs: Vec<Literal>,
}

/// A pseudo-random stream (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    /// The next word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n.max(1) as u64) as usize
    }

    /// A number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.word() % ((high - low).max(0) as u64 + 1)) as i64
    }

    /// True with probability `1 / n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Gives the parameters and results of a program random dimension orders (as stated layouts), drawn
/// from a seed.
pub fn state_layouts(module: &mut Module, seed: u64) {
    let entry = module.entry_computation();
    let mut parameters: Vec<Shape> = entry
        .parameters
        .iter()
        .map(|&id| module[id].shape.clone())
        .collect();
    let mut result = module[entry.root].shape.clone();
    let mut random = Random::new(seed ^ 0x1A_0705);
    let all = parameters.iter_mut().chain([&mut result]);
    all.for_each(|shape| state_layout(shape, &mut random));
    module.attributes.entry_layout = Some((parameters, result));
}

fn state_layout(shape: &mut Shape, random: &mut Random) {
    match shape {
        Shape::Array(array) => {
            let mut layout = Layout::row_major(array.rank());
            for place in (1..array.rank()).rev() {
                layout.minor_to_major.swap(place, random.below(place + 1));
            }
            array.layout = Some(Box::new(layout));
        }
        Shape::Tuple(parts) => parts.iter_mut().for_each(|part| state_layout(part, random)),
        _ => {}
    }
}

/// A value that the program under construction has.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    name: String,
    ty: ElementType,
    dims: Vec<i64>,
    /// In the dyadic regime: the number of significand bits that the value may need.
    bits: u32,
}

impl Known {
    fn shape(&self) -> String {
        shape_text(self.ty, &self.dims)
    }

    fn elements(&self) -> i64 {
        self.dims.iter().product()
    }
}

fn shape_text(ty: ElementType, dims: &[i64]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("{ty}[{}]", dims.join(","))
}

fn list(numbers: &[i64]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("{{{}}}", texts.join(","))
}

/// Types that random programs use.
const TYPES: &[ElementType] = &[
    ElementType::F32,
    ElementType::F32,
    ElementType::F32,
    ElementType::S32,
    ElementType::S32,
    ElementType::Pred,
    ElementType::F64,
    ElementType::BF16,
    ElementType::F16,
    ElementType::S8,
    ElementType::U8,
    ElementType::S16,
    ElementType::U16,
    ElementType::U32,
    ElementType::S64,
    ElementType::U64,
    ElementType::S4,
    ElementType::U4,
    ElementType::F8E4M3FN,
    ElementType::F8E5M2,
];

/// Elements that one value may have.
const MAX_ELEMENTS: i64 = 4096;

/// Significand bits of a float type.
fn significand(ty: ElementType) -> u32 {
    match ty {
        ElementType::F64 | ElementType::C128 => 52,
        ElementType::F32 | ElementType::C64 => 23,
        ElementType::F16 => 10,
        ElementType::BF16 => 7,
        ElementType::F8E4M3FN => 3,
        ElementType::F8E5M2 => 2,
        _ => 64,
    }
}

/// The random program for a seed.
pub fn random_program(seed: u64, regime: Regime) -> RandomProgram {
    let mut generator = Generator::of(seed, regime);
    let mut body = Body::default();
    // A few programs have no inputs, so that constant folding can evaluate them.
    let count = match generator.random.once_in(30) {
        true => 0,
        false => 1 + generator.random.below(4),
    };
    let mut inputs = Vec::new();
    for i in 0..count {
        let ty = *generator.random.pick(TYPES);
        let dims = generator.dims();
        let bits = if ty.is_float() { 4 } else { 64 };
        let name = format!("p{i}");
        let known = Known {
            name,
            ty,
            dims,
            bits,
        };
        body.push(known.clone(), &format!("parameter({i})"));
        inputs.push(input(&mut generator.random, regime, &known));
    }
    if count == 0 {
        let known = Known {
            name: generator.name(),
            ty: ElementType::F32,
            dims: vec![3, 4],
            bits: 4,
        };
        body.push(known, "iota(), iota_dimension=1");
    }
    let steps = 3 + generator.random.below(14);
    for _ in 0..steps {
        generator.step(&mut body);
    }
    let chosen = generator.results(&body);
    let header = generator.aliases(&body.known[..count], &chosen);
    let results = root(&chosen);
    let mut text = format!(
        "HloModule random_{seed}{header}\n\n{}",
        generator.computations
    );
    let _ = writeln!(text, "ENTRY main {{\n{}{results}}}", body.text);
    RandomProgram { text, inputs }
}

/// A tuple of values as the root.
fn root(chosen: &[Known]) -> String {
    let shapes: Vec<String> = chosen.iter().map(Known::shape).collect();
    let names: Vec<&str> = chosen.iter().map(|k| k.name.as_str()).collect();
    format!(
        "  ROOT out = ({}) tuple({})\n",
        shapes.join(", "),
        names.join(", ")
    )
}

/// An array for a parameter.
fn input(random: &mut Random, regime: Regime, known: &Known) -> Literal {
    let shape = ArrayShape::new(known.ty, &known.dims);
    let elements = (0..known.elements()).map(|_| match known.ty.category() {
        Category::Boolean => Scalar::Bool(random.once_in(2)),
        Category::Signed if random.once_in(16) => Scalar::Int(random.word() as i64),
        Category::Signed => Scalar::Int(random.between(-6, 6)),
        Category::Unsigned if random.once_in(16) => Scalar::Uint(random.word()),
        Category::Unsigned => Scalar::Uint(random.word() % 9),
        Category::Float | Category::Complex => match regime {
            Regime::Dyadic => Scalar::Float(random.between(-8, 8) as f64 / 4.0),
            Regime::General => Scalar::Float(random.between(-4000, 4000) as f64 / 1024.0),
        },
    });
    let elements: Vec<Scalar> = elements.collect();
    Literal::from_scalars(&shape, elements).expect("the shape is static and small")
}

/// The instructions of one computation as text, and the values that they define.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    text: String,
    known: Vec<Known>,
}

impl Body {
    fn push(&mut self, known: Known, operation: &str) {
        let _ = writeln!(
            self.text,
            "  {} = {} {operation}",
            known.name,
            known.shape()
        );
        self.known.push(known);
    }
}

pub(crate) struct Generator {
    regime: Regime,
    /// Finished computations.
    computations: String,
    next: usize,
    /// The current nesting depth of loops and branches.
    depth: usize,
    random: Random,
}

impl Generator {
    fn of(seed: u64, regime: Regime) -> Self {
        wrappers::register_custom_calls();
        Self {
            regime,
            computations: String::new(),
            next: 0,
            depth: 0,
            random: Random::new(Random::new(seed).word()),
        }
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    /// Dimensions of a small array; now and then with a size of 0 or 1.
    fn dims(&mut self) -> Vec<i64> {
        let rank = *self.random.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4]);
        let mut dims = Vec::new();
        for _ in 0..rank {
            let size = *self.random.pick(&[1, 2, 3, 3, 4, 5, 7, 8, 13]);
            dims.push(if self.random.once_in(60) { 0 } else { size });
        }
        dims
    }

    /// Writes an instruction, and adds its result to the known values.
    fn define(
        &mut self,
        body: &mut Body,
        ty: ElementType,
        dims: &[i64],
        bits: u32,
        operation: &str,
    ) {
        let name = self.name();
        body.push(
            Known {
                name,
                ty,
                dims: dims.to_vec(),
                bits,
            },
            operation,
        );
    }

    /// Whether a value with this many significand bits is exact in the type, if the regime requires
    /// that.
    fn fits(&self, ty: ElementType, bits: u32) -> bool {
        (!ty.is_float() && !ty.is_complex())
            || self.regime == Regime::General
            || bits <= significand(ty)
    }

    fn any(&mut self, body: &Body) -> Known {
        // Later values are likelier: programs become deep rather than wide.
        let count = body.known.len();
        let from = if self.random.once_in(3) { 0 } else { count / 2 };
        body.known[from + self.random.below(count - from)].clone()
    }

    fn any_where(&mut self, body: &Body, wanted: impl Fn(&Known) -> bool) -> Option<Known> {
        let fitting: Vec<&Known> = body.known.iter().filter(|k| wanted(k)).collect();
        (!fitting.is_empty()).then(|| (*self.random.pick(&fitting)).clone())
    }

    /// A few of the last values.
    fn results(&mut self, body: &Body) -> Vec<Known> {
        if self.random.once_in(40) {
            // A wide tuple, which contains some values several times.
            let width = 20 + self.random.below(60);
            return body
                .known
                .iter()
                .rev()
                .cycle()
                .take(width)
                .cloned()
                .collect();
        }
        let count = (1 + self.random.below(3)).min(body.known.len());
        body.known[body.known.len() - count..].to_vec()
    }

    /// Lets some parameters share memory with results (`input_output_alias`), and makes others
    /// donors for any result (`buffer_donor`).
    fn aliases(&mut self, parameters: &[Known], results: &[Known]) -> String {
        let mut aliases = Vec::new();
        let mut donors = Vec::new();
        for (p, parameter) in parameters.iter().enumerate() {
            if self.random.once_in(4) {
                donors.push(format!("({p}, {{}})"));
                continue;
            }
            let fits = |r: &usize| {
                results[*r].shape() == parameter.shape()
                    && !aliases.iter().any(|(other, _)| other == r)
            };
            let result = (0..results.len()).find(fits);
            if let Some(r) = result.filter(|_| !self.random.once_in(3)) {
                aliases.push((r, p));
            }
        }
        let mut header = String::new();
        if !aliases.is_empty() {
            let list: Vec<String> = (aliases.iter())
                .map(|(r, p)| format!("{{{r}}}: ({p}, {{}}, may-alias)"))
                .collect();
            let _ = write!(header, ", input_output_alias={{ {} }}", list.join(", "));
        }
        if !donors.is_empty() {
            let _ = write!(header, ", buffer_donor={{ {} }}", donors.join(", "));
        }
        header
    }
}
