//! Comparison of a result with a reference.

use tegula_ir::{Literal, Scalar};

/// The tolerance when a result is compared with a reference. Regardless of it, integers and `pred`
/// must be equal, and NaN and infinities must be in the same places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// This factor times the largest finite magnitude in the reference.
    Scaled(f64),
    /// For each element, `absolute + relative * |reference|`.
    Each {
        /// The tolerance relative to the reference element.
        relative: f64,
        /// The absolute tolerance.
        absolute: f64,
    },
}

/// The result of a comparison with a reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The largest absolute difference; infinite if a NaN or infinity is in only one of the arrays.
    pub max_abs: f64,
    /// The largest difference relative to the reference element.
    pub max_rel: f64,
    /// Whether every element is within the tolerance.
    pub ok: bool,
}

/// The reason why two arrays cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The element types differ.
    #[error("the result has elements of type {0}, and the reference of type {1}")]
    Types(tegula_ir::ElementType, tegula_ir::ElementType),
    /// The reference has neither all elements of the result nor every k-th of them.
    #[error("the result has {0} elements, and the reference has {1}")]
    Sizes(usize, usize),
}

/// Compares a result with a reference that has all of its elements, or every k-th.
///
/// # Errors
/// The types or the numbers of elements do not match.
pub fn compare(
    ours: &Literal,
    reference: &Literal,
    tolerance: Tolerance,
) -> Result<Comparison, CheckError> {
    let step = sample_step(ours.len(), reference.len())
        .ok_or(CheckError::Sizes(ours.len(), reference.len()))?;
    compare_every(step, ours, reference, tolerance)
}

/// Compares every `step`-th element of a result with a reference. [`compare`] finds the step from
/// the numbers of elements, which is not always unique.
///
/// # Errors
/// The types or the numbers of elements do not match.
pub fn compare_every(
    step: usize,
    ours: &Literal,
    reference: &Literal,
    tolerance: Tolerance,
) -> Result<Comparison, CheckError> {
    let element_type = ours.element_type();
    if element_type != reference.element_type() {
        return Err(CheckError::Types(element_type, reference.element_type()));
    }
    if step == 0 || ours.len().div_ceil(step) != reference.len() {
        return Err(CheckError::Sizes(ours.len(), reference.len()));
    }
    let finite = reference
        .scalars()
        .flat_map(parts)
        .map(f64::abs)
        .filter(|m| m.is_finite());
    let scale = finite.fold(0.0, f64::max);
    let exact = !element_type.is_float() && !element_type.is_complex();
    let mut out = Comparison {
        max_abs: 0.0,
        max_rel: 0.0,
        ok: true,
    };
    for (i, want) in reference.scalars().enumerate() {
        let Some(got) = ours.scalar(i * step) else {
            return Err(CheckError::Sizes(ours.len(), reference.len()));
        };
        for (got, want) in parts(got).into_iter().zip(parts(want)) {
            if got == want || (got.is_nan() && want.is_nan()) {
                continue;
            }
            let difference = (got - want).abs();
            if !difference.is_finite() {
                out = Comparison {
                    max_abs: f64::INFINITY,
                    max_rel: f64::INFINITY,
                    ok: false,
                };
                continue;
            }
            let allowed = match tolerance {
                Tolerance::Scaled(factor) => factor * scale,
                Tolerance::Each { relative, absolute } => absolute + relative * want.abs(),
            };
            out.max_abs = out.max_abs.max(difference);
            out.max_rel = out
                .max_rel
                .max(difference / want.abs().max(f64::MIN_POSITIVE));
            out.ok &= !exact && difference <= allowed;
        }
    }
    Ok(out)
}

/// The smallest step at which `whole` elements have `sampled` samples.
fn sample_step(whole: usize, sampled: usize) -> Option<usize> {
    if whole == sampled {
        return Some(1);
    }
    let first = whole.checked_div(sampled)?.max(1);
    (first..=first + 1).find(|&k| whole.div_ceil(k) == sampled)
}

/// The parts of a scalar that are compared. A 64-bit integer is split into halves, because it does
/// not fit a float exactly.
fn parts(scalar: Scalar) -> [f64; 2] {
    let halves = |bits: u64| [f64::from((bits >> 32) as u32), f64::from(bits as u32)];
    match scalar {
        Scalar::Bool(b) => [f64::from(u8::from(b)), 0.0],
        Scalar::Int(i) => halves(i.cast_unsigned()),
        Scalar::Uint(u) => halves(u),
        Scalar::Float(x) => [x, 0.0],
        Scalar::Complex(re, im) => [re, im],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Literal {
        Literal::from_f32s(&[values.len() as i64], values).unwrap()
    }

    #[test]
    fn scaled_tolerance_is_relative_to_the_largest() {
        let (ours, reference) = (floats(&[1.0, 0.001]), floats(&[1.0, 0.0]));
        assert!(
            compare(&ours, &reference, Tolerance::Scaled(2e-3))
                .unwrap()
                .ok
        );
        assert!(
            !compare(&ours, &reference, Tolerance::Scaled(5e-4))
                .unwrap()
                .ok
        );
    }

    #[test]
    fn nan_and_infinity_must_be_in_the_same_places() {
        let nan = floats(&[f32::NAN, f32::INFINITY]);
        assert!(compare(&nan, &nan, Tolerance::Scaled(0.0)).unwrap().ok);
        let moved = floats(&[f32::INFINITY, f32::NAN]);
        assert!(!compare(&moved, &nan, Tolerance::Scaled(1.0)).unwrap().ok);
    }

    #[test]
    fn integers_are_exact() {
        let (a, b) = (
            Literal::from_value(i64::MAX),
            Literal::from_value(i64::MAX - 1),
        );
        assert!(!compare(&a, &b, Tolerance::Scaled(1.0)).unwrap().ok);
        assert!(compare(&a, &a, Tolerance::Scaled(0.0)).unwrap().ok);
    }

    #[test]
    fn a_sample_is_every_kth_element() {
        let ours = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let sample = floats(&[0.0, 3.0, 6.0]);
        assert!(compare(&ours, &sample, Tolerance::Scaled(0.0)).unwrap().ok);
        let ends = floats(&[0.0, 5.0]);
        assert!(!compare(&ours, &ends, Tolerance::Scaled(0.0)).unwrap().ok);
        assert!(
            compare_every(5, &ours, &ends, Tolerance::Scaled(0.0))
                .unwrap()
                .ok
        );
        assert!(compare_every(2, &ours, &ends, Tolerance::Scaled(0.0)).is_err());
        assert!(compare_every(0, &ours, &ends, Tolerance::Scaled(0.0)).is_err());
    }
}
