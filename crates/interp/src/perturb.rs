//! Perturbation: moving results by what another correct implementation may
//! differ, to see how far that carries.
//!
//! An element is moved by -1, 0 or +1 ulp, chosen by a hash of the seed, the
//! number of operations perturbed before, and the element's position. A sum of
//! `n` terms (dot, convolution, reduce, fft) is first moved by -1 or +1 times
//! `sqrt(n) * u * sum |term|`, where `u` is half an ulp of 1 in the type sums are
//! kept in: the size of the error that another order of summation makes (Higham,
//! "Accuracy and Stability of Numerical Algorithms", section 4.2, takes `n` in the
//! worst case and `sqrt(n)` as the rule of thumb). Zeros and infinities stay, and
//! nothing becomes infinite. The NaNs of an operation may change their sign, all or
//! none: which they have is nobody's promise, and `TOTALORDER` and bit casts see it.
//!
//! In the run with seed 0 every sum that is no larger than its error is exactly zero
//! instead, as what a program does at zero no small number shows, and every NaN
//! changes its sign.

use crate::error::Fault;
use crate::lanes::BitsMut;
use crate::reduce::{from_f64s, to_f64s};
use tegula_ir::{ElementType, Literal};

/// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of -1, 0 and +1 by position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directions {
    stream: u64,
    /// Whether sums that cancel are exactly zero.
    cancel: bool,
    /// Whether NaNs change their sign.
    flip_nans: bool,
}

impl Directions {
    pub(crate) fn new(seed: u64, operation: u64) -> Self {
        let stream = mix(seed ^ mix(operation.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        Self {
            stream,
            cancel: seed == 0,
            flip_nans: seed == 0 || stream % 2 == 1,
        }
    }

    fn word(self, position: usize) -> u64 {
        mix(self.stream.wrapping_add(position as u64))
    }

    /// -1 or +1. What cancels must show in few runs how far it may be off.
    fn sign_at(self, position: usize) -> f64 {
        if self.word(position) % 2 == 1 {
            1.0
        } else {
            -1.0
        }
    }

    /// The bits of a float, moved by -1, 0 or +1 ulp; of a NaN, perhaps negated.
    fn moved(self, ty: ElementType, bits: u128, position: usize) -> u128 {
        let Some(format) = ty.float_format() else {
            return bits;
        };
        let nan = |negative| format.nan_code(negative).map_or(bits, u128::from);
        if self.flip_nans && (bits == nan(false) || bits == nan(true)) {
            return nan(bits == nan(false));
        }
        let sign = u128::from(format.sign_mask());
        let size = bits & !sign;
        let largest = u128::from(format.largest_code());
        if size == 0 || size > largest {
            return bits;
        }
        let steps = i128::from(self.word(position) % 3) - 1;
        let moved = size.saturating_add_signed(steps).clamp(1, largest);
        (bits & sign) | moved
    }
}

/// Moves each element of a float or complex array by -1, 0 or +1 ulp.
pub(crate) fn by_ulps(x: &mut Literal, directions: Directions) {
    let ty = x.element_type();
    if let Some(part) = ty.complex_part() {
        let size = part.storage_bytes();
        let len = x.len() * 2;
        let bytes = x.bytes_mut();
        for i in 0..len {
            let Some(bytes) = bytes.get_mut(i * size..(i + 1) * size) else {
                return;
            };
            let mut word = [0u8; 16];
            word[..size].copy_from_slice(bytes);
            let moved = directions.moved(part, u128::from_le_bytes(word), i);
            bytes.copy_from_slice(&moved.to_le_bytes()[..size]);
        }
    } else if ty.is_float() {
        let len = x.len();
        let mut bits = BitsMut::of(x);
        for i in 0..len {
            bits.set(i, directions.moved(ty, bits.get(i), i));
        }
    }
}

/// Moves sums by the error of another order of summation.
pub(crate) fn by_sums(
    x: &Literal,
    magnitudes: &[f64],
    terms: usize,
    directions: Directions,
) -> Result<Literal, Fault> {
    let ty = x.element_type();
    if ty.is_complex() {
        let parts = crate::reduce::parts(x)?;
        let twice: Vec<f64> = magnitudes.iter().flat_map(|&m| [m, m]).collect();
        let moved = by_sums(&parts, &twice, terms, directions)?;
        return Ok(Literal::from_bytes(x.shape(), moved.bytes())?);
    }
    if !ty.is_float() {
        return Ok(x.clone());
    }
    let unit = if ty == ElementType::F64 {
        f64::EPSILON
    } else {
        f64::from(f32::EPSILON)
    } / 2.0;
    let scale = (terms.max(1) as f64).sqrt() * unit;
    let mut values = to_f64s(x);
    for (i, (value, &magnitude)) in values.iter_mut().zip(magnitudes).enumerate() {
        let error = scale * magnitude;
        let moved = if directions.cancel && value.abs() <= error {
            0.0
        } else {
            *value + directions.sign_at(i) * error
        };
        if moved.is_finite() {
            *value = moved;
        }
    }
    from_f64s(x.shape(), &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_move_by_at_most_one_ulp_and_specials_stay() {
        let special = [0.0, -0.0, f32::INFINITY, f32::MAX, f32::from_bits(1)];
        let mut values = vec![1.5f32; 300];
        values.extend(special);
        let original = Literal::from_f32s(&[305], &values).unwrap();
        let mut moved = original.clone();
        by_ulps(&mut moved, Directions::new(1, 2));
        let mut seen = [0; 3];
        for (a, b) in values.iter().zip(moved.as_f32s().unwrap()) {
            let step = i64::from(b.to_bits()) - i64::from(a.to_bits());
            seen[(step + 1) as usize] += 1;
            assert!(b.is_finite() || *a == f32::INFINITY);
        }
        assert!(seen.iter().all(|&count| count > 60), "{seen:?}");
        assert_eq!(moved.as_f32s().unwrap()[300..302], special[..2]);
        let nan = Literal::from_f32s(&[1], &[f32::NAN]).unwrap();
        let mut negated = nan.clone();
        by_ulps(&mut negated, Directions::new(0, 7));
        assert_eq!(
            negated.as_f32s().unwrap()[0].to_bits(),
            nan.as_f32s().unwrap()[0].to_bits() ^ (1 << 31)
        );
        let mut again = original;
        by_ulps(&mut again, Directions::new(1, 2));
        assert_eq!(again, moved);
    }

    #[test]
    fn a_sum_below_its_error_is_zero_in_the_first_run() {
        let sums = Literal::from_f32s(&[2], &[1e-9, 1.0]).unwrap();
        let moved = by_sums(&sums, &[1.0, 1.0], 4, Directions::new(0, 0)).unwrap();
        let moved = moved.as_f32s().unwrap();
        assert!(moved[0] == 0.0 && moved[1] != 0.0, "{moved:?}");
    }

    #[test]
    fn sums_that_cancel_move_in_both_parts() {
        let shape = tegula_ir::ArrayShape::new(ElementType::C64, &[4]);
        let zeros = Literal::zeros(&shape).unwrap();
        let moved = by_sums(&zeros, &[1.0; 4], 4, Directions::new(3, 1)).unwrap();
        let parts = crate::reduce::parts(&moved).unwrap();
        assert!(parts.as_f32s().unwrap().iter().all(|&x| x != 0.0));
    }
}
