//! Random numbers. They are generated from a node's `seed`, or else from the name of its result, so
//! each run gives the same numbers.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value, sizes};
use crate::tensor::element_type;
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType, Op, RngAlgorithm, Shape, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "RandomUniform" | "RandomUniformLike" | "RandomNormal" | "RandomNormalLike" => numbers,
        "Bernoulli" => bernoulli,
        "Multinomial" => multinomial,
        _ => return None,
    };
    Some(lowering)
}

/// Uniform f32 numbers from 0 inclusive to 1 exclusive: the upper 24 bits of a counter-based
/// generator.
pub(super) fn uniform<'a>(
    lower: &mut Lowerer<'a>,
    call: &Call<'_, 'a>,
    dims: &[Term],
    stream: u64,
) -> Result<Value> {
    let seed = match call.attribute("seed").and_then(|a| a.float) {
        Some(seed) => u64::from(seed.to_bits()),
        // Without a seed, FNV-1a hashes the name of the result.
        None => {
            let name = call.node.outputs.first().map_or("", |name| name);
            let start = 0xcbf2_9ce4_8422_2325u64;
            (name.bytes()).fold(start, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        }
    };
    let state = Value::of_integers(
        ElementType::U64,
        &[2],
        &[seed.cast_signed(), stream.cast_signed()],
    )?;
    let bits = crate::lower::shape_of(ElementType::U32, dims);
    let shape = Shape::Tuple([state.shape(), bits].into());
    let operand = lower.local(&state)?;
    let op = Op::RngBitGenerator(RngAlgorithm::ThreeFry);
    let tuple = lower.push_local(op, &[operand], Some(shape))?;
    let bits = lower.elements(tuple)?.pop();
    let bits = bits.ok_or_else(|| Error::input("a generator has two results"))?;
    let shift = lower.scalar(ElementType::U32, 8.0)?;
    let upper = lower.binary(Binary::ShiftRightLogical, &bits, &shift)?;
    let upper = lower.convert(&upper, ElementType::F32)?;
    lower.scaled(&upper, 1.0 / f64::from(1 << 24))
}

/// Numbers of the standard normal distribution (Box and Muller, 1958).
fn normal<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>, dims: &[Term]) -> Result<Value> {
    let (radius, angle) = (
        uniform(lower, call, dims, 0)?,
        uniform(lower, call, dims, 1)?,
    );
    // The radius is below 1, so 1 minus it is above 0.
    let negative = lower.unary(Unary::Negate, &radius)?;
    let log = lower.unary(Unary::Log1p, &negative)?;
    let square = lower.scaled(&log, -2.0)?;
    let radius = lower.unary(Unary::Sqrt, &square)?;
    let angle = lower.scaled(&angle, std::f64::consts::TAU)?;
    let cosine = lower.unary(Unary::Cos, &angle)?;
    lower.mul(&radius, &cosine)
}

fn numbers<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let like = call.optional(0);
    let dims = match &like {
        Some(like) => like.dims.clone(),
        None => sizes(&call.ints("shape").unwrap_or_default()),
    };
    let ty = match (call.int("dtype", 0), &like) {
        (0, Some(like)) => like.ty,
        (0, None) => ElementType::F32,
        (number, _) => element_type(number)?,
    };
    let number = match call.node.op {
        "RandomUniform" | "RandomUniformLike" => {
            let (low, high) = (call.float("low", 0.0), call.float("high", 1.0));
            let number = uniform(lower, call, &dims, 0)?;
            let number = lower.scaled(&number, high - low)?;
            lower.shifted(&number, low)?
        }
        _ => {
            let number = normal(lower, call, &dims)?;
            let number = lower.scaled(&number, call.float("scale", 1.0))?;
            lower.shifted(&number, call.float("mean", 0.0))?
        }
    };
    one(lower.convert(&number, ty)?)
}

fn bernoulli<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let ty = match call.int("dtype", 0) {
        0 => x.ty,
        number => element_type(number)?,
    };
    let number = uniform(lower, call, &x.dims, 0)?;
    let chance = lower.convert(&x, ElementType::F32)?;
    let hit = lower.compare(Direction::Lt, &number, &chance)?;
    one(lower.convert(&hit, ty)?)
}

/// Draws classes with given log-probabilities: the class with the largest sum of log-probability
/// and Gumbel noise.
fn multinomial<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    if x.rank() != 2 {
        return Err(Error::input("expected [batch, classes]"));
    }
    let count = Term::constant(call.int("sample_size", 1).max(0));
    let dims = [x.dims[0].clone(), count, x.dims[1].clone()];
    let number = uniform(lower, call, &dims, 0)?;
    let number = lower.unary(Unary::Negate, &number)?;
    let log = lower.unary(Unary::Log1p, &number)?;
    let least = lower.like(&log, -f64::from(f32::MIN_POSITIVE))?;
    let log = lower.min(&log, &least)?;
    let log = lower.unary(Unary::Negate, &log)?;
    let log = lower.unary(Unary::Log, &log)?;
    let logits = lower.convert(&x, ElementType::F32)?;
    let logits = lower.unsqueeze(&logits, 1)?;
    let keys = lower.sub(&logits, &log)?;
    let drawn = lower.arg_extreme(&keys, 2, true, false)?;
    let ty = element_type(call.int("dtype", 6))?;
    one(lower.convert(&drawn, ty)?)
}
