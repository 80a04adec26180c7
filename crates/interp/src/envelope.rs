//! Bounds on how far correct results may differ from the evaluator's; tests judge other targets by
//! them.

use crate::error::Error;
use crate::eval::{Evaluator, Options};
use crate::value::Value;
use tegula_ir::{InstructionId, Literal, Module};
use tegula_scalar::{Number, decode};

/// The range of one element in several perturbed runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The smallest value seen (for a complex element, of either part).
    pub low: f64,
    /// The largest value seen.
    pub high: f64,
    /// Whether the runs differ in something discrete: an integer or `pred`, or whether a float is
    /// NaN or infinite. Such an element cannot be judged.
    pub flipped: bool,
}

/// The ranges of a program's results in several perturbed runs.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The result of the run without perturbation.
    pub result: Value,
    /// The bounds by flattened result, then by element, row-major. A complex element has two
    /// entries, one for each part.
    pub bounds: Vec<Vec<Bounds>>,
    /// Discontinuous instructions (compare, floor, sort, convert to integer, ...) whose result in
    /// some run differs from the unperturbed one. Results that depend on them may differ by more
    /// than `bounds` shows.
    pub unstable: Vec<InstructionId>,
}

/// Evaluates once unperturbed and `runs` times perturbed, and bounds the results.
pub fn envelope(module: &Module, arguments: &[Value], runs: usize) -> Result<Envelope, Error> {
    let (result, steady) = recorded(module, arguments, None)?;
    let mut bounds: Vec<Vec<Bounds>> = result.leaves().into_iter().map(start).collect();
    let mut unstable = Vec::new();
    for seed in 0..runs as u64 {
        let (other, choices) = recorded(module, arguments, Some(seed))?;
        for (bounds, leaf) in bounds.iter_mut().zip(other.leaves()) {
            for (bounds, value) in bounds.iter_mut().zip(numbers(leaf)) {
                widen(bounds, value, is_exact(leaf));
            }
        }
        let pairs = steady.iter().zip(&choices);
        unstable.extend(pairs.filter(|(a, b)| a != b).map(|(a, _)| a.0));
    }
    unstable.sort_unstable();
    unstable.dedup();
    Ok(Envelope {
        result,
        bounds,
        unstable,
    })
}

type Choices = Vec<(InstructionId, u64)>;

fn recorded(
    module: &Module,
    arguments: &[Value],
    perturb: Option<u64>,
) -> Result<(Value, Choices), Error> {
    let options = Options {
        perturb,
        ..Options::default()
    };
    let mut evaluator = Evaluator::new(module, options);
    evaluator.discrete = Some(Vec::new());
    let value = evaluator.run(arguments)?;
    Ok((value, evaluator.discrete.take().unwrap_or_default()))
}

fn is_exact(literal: &Literal) -> bool {
    !literal.element_type().is_float() && !literal.element_type().is_complex()
}

/// The elements as real numbers; a complex element gives both parts.
fn numbers(literal: &Literal) -> Vec<f64> {
    let (ty, bits) = (literal.element_type(), tegula_scalar::Bits::of(literal));
    let mut numbers = Vec::with_capacity(literal.len());
    for i in 0..literal.len() {
        match decode(ty, bits.get(i)) {
            Number::Pred(x) => numbers.push(f64::from(u8::from(x))),
            Number::Signed(x) => numbers.push(x as f64),
            Number::Unsigned(x) => numbers.push(x as f64),
            Number::Single(x) => numbers.push(x.into()),
            Number::Double(x) => numbers.push(x),
            Number::ComplexSingle(x) => numbers.extend([f64::from(x.re), f64::from(x.im)]),
            Number::ComplexDouble(x) => numbers.extend([x.re, x.im]),
        }
    }
    numbers
}

fn start(literal: &Literal) -> Vec<Bounds> {
    let bounds = |value| Bounds {
        low: value,
        high: value,
        flipped: false,
    };
    numbers(literal).into_iter().map(bounds).collect()
}

fn widen(bounds: &mut Bounds, value: f64, exact: bool) {
    let same_kind = if value.is_finite() {
        bounds.low.is_finite() && bounds.high.is_finite()
    } else {
        bounds.low.to_bits() == value.to_bits() || (bounds.low.is_nan() && value.is_nan())
    };
    bounds.flipped |= !same_kind || (exact && value != bounds.low);
    bounds.low = bounds.low.min(value);
    bounds.high = bounds.high.max(value);
}
