//! Perturbation: moves results by as much as another correct implementation may differ, to see how
//! far the differences propagate.
//!
//! An element is moved by -1, 0 or +1 ulp, chosen by the seed, the number of operations perturbed
//! before, and the element's position. Runs form pairs, of which the second moves everything the
//! opposite way: values that tie in the unperturbed run and are moved apart occur in both orders.
//! Elements form groups of 20 adjacent ones; any two of a group are moved by different steps in at
//! least one of three pairs, and two of different groups are moved alike in all three with a
//! probability of 1 in 20. Each part of a complex number is moved by ulps of the larger part:
//! products and quotients are accurate relative to the whole number, not to each part, which may
//! cancel.
//!
//! A sum of `n` terms (dot, convolution, reduce, fft) is first moved up or down by half to all of
//! `sqrt(n) * u * sum |term|`, where `u` is half an ulp of 1 in the type in which sums are kept.
//! This is the size of the error that another order of summation makes (Higham, "Accuracy and
//! Stability of Numerical Algorithms", section 4.2, takes `n` in the worst case and `sqrt(n)` as
//! the rule of thumb). The sum is also moved by `n` of that type's smallest numbers: a product too
//! small for the type may round to one of them or to zero, or be exact in a fused multiply-add
//! (section 2.2). Zeros and infinities stay, and nothing becomes infinite.
//!
//! All NaNs of an operation, even of an exact one, may change their sign together: no
//! implementation promises a sign, and `TOTALORDER` and bit casts see it. In a format without NaN
//! this applies to the sign of the zero that stands for NaN, which quotients see.
//!
//! In the run with seed 0 sums are settled instead: every sum becomes the nearest multiple of a
//! power of two that is at least twice its error. Terms that cancel then give exactly zero, sums
//! that are meant to be integers become integers, and sums that are meant to be equal become equal.
//! The program may behave differently at these exact values than at any value nearby. Other
//! operations are not perturbed in this run, because a perturbed addend would no longer cancel such
//! a sum. A sum whose absolute terms together exceed the type's largest number becomes NaN, as
//! infinities may meet in some order, and a sum that is NaN because infinite products of `f64` met
//! becomes zero. Every NaN changes its sign.

use crate::error::OpError;
use crate::numbers::{from_f64s, to_f64s};
use crate::value::Value;
use tegula_ir::{ElementType, FloatFormat, Literal, Op, Specials};
use tegula_scalar::{Bits, BitsMut};
use tegula_scalar::{binary_f32, unary_f32};

/// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The steps by which elements are moved in three pairs of runs. All rows differ, and at most one
/// step of a row is 0, so that few elements stay unmoved in all runs: `pow(1, x)` is 1 for every
/// `x`, but can be anything for a base near 1.
const STEPS: [[i8; 3]; 20] = [
    [1, 1, 1],
    [1, 1, -1],
    [1, -1, 1],
    [1, -1, -1],
    [-1, 1, 1],
    [-1, 1, -1],
    [-1, -1, 1],
    [-1, -1, -1],
    [0, 1, 1],
    [0, 1, -1],
    [0, -1, 1],
    [0, -1, -1],
    [1, 0, 1],
    [1, 0, -1],
    [-1, 0, 1],
    [-1, 0, -1],
    [1, 1, 0],
    [1, -1, 0],
    [-1, 1, 0],
    [-1, -1, 0],
];

/// The entry at `place` of a permutation of the numbers below 20 that `word` selects: multiplying
/// by a factor coprime to 20 and adding a shift reaches every number once.
fn permuted(word: u64, place: usize) -> usize {
    let factor = [1, 3, 7, 9, 11, 13, 17, 19][(word % 8) as usize];
    let shift = (word >> 8) as usize % 20;
    (place * factor + shift) % 20
}

/// A pseudo-random sequence of -1, 0 and +1 by position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directions {
    /// The random word of this pair of runs, and that of three consecutive pairs.
    stream: u64,
    stream_of_three: u64,
    /// The number of this pair among the three.
    pair: usize,
    /// 1, or -1 in the second run of a pair; 0 if nothing moves.
    way: i8,
    /// Whether sums are settled, that is, rounded to the values that they are probably meant to
    /// have.
    pub(crate) settles: bool,
    /// Whether NaNs change their sign.
    flip_nans: bool,
}

impl Directions {
    pub(crate) fn new(seed: u64, operation: u64) -> Self {
        let pair = seed.div_ceil(2);
        let operation_word = mix(operation.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let three = pair.div_ceil(3);
        Self {
            stream: mix(pair ^ operation_word),
            stream_of_three: mix(!three ^ operation_word),
            pair: (pair % 3) as usize,
            way: if seed % 2 == 1 { 1 } else { -1 },
            settles: seed == 0,
            flip_nans: seed == 0 || Self::flips_nans(seed, operation),
        }
    }

    /// Whether the NaNs of an operation change their sign in a run. They do in three of any six
    /// runs that begin at a multiple of six, and no two of 20 consecutive operations do in the same
    /// three. So for any two of them there is a run where only the first one's change, and one
    /// where only the second one's do; operations farther apart share their three runs with a
    /// probability of 1 in 20.
    fn flips_nans(seed: u64, operation: u64) -> bool {
        let (round, run) = ((seed - 1) / 6, (seed - 1) % 6);
        let (group, place) = (operation / 20, operation % 20);
        let wanted = permuted(mix(round ^ mix(group)), place as usize);
        let mut threes = (0..1u64 << 6).filter(|runs| runs.count_ones() == 3);
        threes
            .nth(wanted)
            .is_some_and(|runs| (runs >> run) & 1 == 1)
    }

    /// The directions that change only the signs of NaNs.
    pub(crate) fn of_nans(self) -> Self {
        Self { way: 0, ..self }
    }

    /// The step -1, 0 or +1 of an element. A group has as many elements as [`STEPS`] has rows. Each
    /// element of a group uses a different row, and each group uses the rows in a different order.
    fn step_at(self, position: usize) -> i8 {
        let (group, place) = (position / STEPS.len(), position % STEPS.len());
        let word = mix(self.stream_of_three.wrapping_add(group as u64));
        STEPS[permuted(word, place)][self.pair] * self.way
    }

    /// A factor from 1/2 to 1, or from -1 to -1/2: a few runs must show how far a cancelled sum may
    /// be off, and no two sums should be off by the same amount.
    fn part_at(self, position: usize) -> f64 {
        let word = mix(self.stream.wrapping_add(position as u64));
        let size = 0.5 + (word >> 12) as f64 / 2f64.powi(53);
        let sign = if word % 2 == 1 { 1.0 } else { -1.0 };
        sign * size * f64::from(self.way)
    }

    /// The bits of one part of a complex number, moved by -1, 0 or +1 ulp of `larger`, the larger
    /// part's magnitude.
    fn moved_beside(self, ty: ElementType, bits: u128, larger: u128, position: usize) -> u128 {
        let Some(format) = ty.float_format() else {
            return bits;
        };
        let value = |bits: u128| format.decode(bits as u64);
        let step = value(larger) - value(larger.saturating_sub(1));
        let steps = f64::from(self.step_at(position));
        let moved = value(bits) + steps * step;
        if larger == magnitude(ty, bits) || steps == 0.0 || !moved.is_finite() {
            return self.moved(ty, bits, position);
        }
        u128::from(format.encode(moved))
    }

    /// The bits of a float, moved by -1, 0 or +1 ulp; a NaN may be negated instead.
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
        let steps = i128::from(self.step_at(position));
        let moved = size.saturating_add_signed(steps).clamp(1, largest);
        (bits & sign) | moved
    }
}

/// Moves each element of a float or complex array by -1, 0 or +1 ulp.
pub(crate) fn by_ulps(x: &mut Literal, directions: Directions) {
    let ty = x.element_type();
    if let Some(part) = ty.complex_part() {
        let size = part.storage_bytes();
        for (i, pair) in x.bytes_mut().chunks_exact_mut(2 * size).enumerate() {
            let (re, im) = pair.split_at_mut(size);
            let parts = [word(re), word(im)];
            let larger = magnitude(part, parts[0]).max(magnitude(part, parts[1]));
            for (k, bytes) in [re, im].into_iter().enumerate() {
                let moved = directions.moved_beside(part, parts[k], larger, 2 * i + k);
                bytes.copy_from_slice(&moved.to_le_bytes()[..size]);
            }
        }
    } else if ty.is_float() {
        let len = x.len();
        let mut bits = BitsMut::of(x);
        for i in 0..len {
            bits.set(i, directions.moved(ty, bits.get(i), i));
        }
    }
}

/// The elements of an operation's result that are zero in place of a NaN, in a format without NaN.
pub(crate) fn hidden_nans(op: &Op, ty: ElementType, operands: &[Value]) -> Vec<usize> {
    let has_none = |format: FloatFormat| format.specials == Specials::FiniteOnly;
    if !ty.float_format().is_some_and(has_none) {
        return Vec::new();
    }
    let arrays: Vec<&Literal> = operands.iter().flat_map(Value::leaves).collect();
    let number = |array: &Literal, i: usize| match array.element_type().float_format() {
        Some(format) => format.decode(Bits::of(array).get(i) as u64),
        None => 0.0,
    };
    let is_nan = |i: usize| match (op, &arrays[..]) {
        (Op::Convert, [x]) => number(x, i).is_nan(),
        (Op::Unary(op), [x]) => unary_f32(*op, number(x, i) as f32).is_nan(),
        (Op::Binary(op), [a, b]) => {
            binary_f32(*op, number(a, i) as f32, number(b, i) as f32).is_nan()
        }
        _ => false,
    };
    let len = arrays.first().map_or(0, |x| x.len());
    (0..len).filter(|&i| is_nan(i)).collect()
}

/// Changes the signs of such zeros if NaNs change their sign in this run.
pub(crate) fn negate_hidden(x: &mut Literal, hidden: &[usize], directions: Directions) {
    let sign = x
        .element_type()
        .float_format()
        .map_or(0, FloatFormat::sign_mask);
    let mut bits = BitsMut::of(x);
    for &i in hidden.iter().filter(|_| directions.flip_nans) {
        bits.set(i, bits.get(i) ^ u128::from(sign));
    }
}

/// The bits of an element.
fn word(bytes: &[u8]) -> u128 {
    let mut word = [0u8; 16];
    word[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(word)
}

/// The bits of a float's absolute value; they are ordered like the numbers.
fn magnitude(ty: ElementType, bits: u128) -> u128 {
    let sign = ty.float_format().map_or(0, FloatFormat::sign_mask);
    bits & !u128::from(sign)
}

/// Moves sums by the error that another order of summation may make.
pub(crate) fn by_sums(
    x: &Literal,
    magnitudes: &[f64],
    terms: usize,
    directions: Directions,
) -> Result<Literal, OpError> {
    let ty = x.element_type();
    if ty.is_complex() {
        let parts = crate::numbers::parts(x)?;
        let twice: Vec<f64> = magnitudes.iter().flat_map(|&m| [m, m]).collect();
        let moved = by_sums(&parts, &twice, terms, directions)?;
        return Ok(Literal::from_bytes(x.shape(), moved.bytes())?);
    }
    if !ty.is_float() {
        return Ok(x.clone());
    }
    let (epsilon, smallest, largest) = if ty == ElementType::F64 {
        (f64::EPSILON, f64::from_bits(1), f64::MAX)
    } else {
        let single = [f32::EPSILON, f32::from_bits(1), f32::MAX].map(f64::from);
        (single[0], single[1], single[2])
    };
    let terms = terms.max(1) as f64;
    let scale = terms.sqrt() * epsilon / 2.0;
    let mut values = to_f64s(x);
    for (i, (value, &magnitude)) in values.iter_mut().zip(magnitudes).enumerate() {
        // Rounding a product that underflows changes it by at most half of the smallest subnormal
        // number. A complex term is the sum of two products.
        let underflow = if magnitude > 0.0 {
            terms * smallest
        } else {
            0.0
        };
        let error = scale * magnitude + underflow;
        // A sum of infinite terms is infinite in any order.
        let orders_differ = value.is_finite() || value.is_infinite() && magnitude.is_finite();
        // The infinities that met may be products of finite numbers, which a fused multiply-add
        // does not round to infinity; where sums are kept in a wider type this cannot happen.
        if directions.settles && value.is_nan() && magnitude.is_infinite() && ty == ElementType::F64
        {
            *value = 0.0;
            continue;
        }
        if directions.settles && magnitude > largest && orders_differ {
            *value = f64::NAN;
            continue;
        }
        let moved = match directions.settles {
            true => settled(*value, error),
            false => *value + directions.part_at(i) * error,
        };
        if moved.is_finite() {
            *value = moved;
        }
    }
    from_f64s(x.shape(), &values)
}

/// The nearest multiple of the smallest power of two that is at least twice the error.
fn settled(value: f64, error: f64) -> f64 {
    let distance = (2.0 * error).log2().ceil().exp2();
    match distance > 0.0 {
        true => (value / distance).round() * distance,
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

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
        assert!(seen[1] > 20 && seen[0] > 100 && seen[2] > 100, "{seen:?}");
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
    fn a_nan_of_a_format_without_one_is_a_zero_of_either_sign() {
        let ty = ElementType::F4E2M1FN;
        let shape = tegula_ir::ArrayShape::new(ty, &[3]);
        // 0, 1, 0 divided by 0, 0, 1.
        let [a, b] = [[0, 2, 0], [0, 0, 2]]
            .map(|codes: [u8; 3]| Value::Array(Literal::from_bytes(&shape, &codes).unwrap()));
        let divide = Op::Binary(tegula_ir::Binary::Divide);
        let hidden = hidden_nans(&divide, ty, &[a.clone(), b.clone()]);
        assert_eq!(hidden, [0]);
        assert!(hidden_nans(&divide, ElementType::F32, &[a.clone(), b]).is_empty());
        let Value::Array(mut zeros) = a else { panic!() };
        negate_hidden(&mut zeros, &hidden, Directions::new(0, 3));
        assert_eq!(zeros.bytes(), [8, 2, 0]);
    }

    #[test]
    fn what_ties_has_both_orders_in_a_pair_of_runs() {
        let sums = Literal::from_f32s(&[2], &[1.0, 1.0]).unwrap();
        for operation in 0..100 {
            let order = |seed| {
                let directions = Directions::new(seed, operation);
                let moved = by_sums(&sums, &[1e6; 2], 9, directions).unwrap();
                let moved = moved.as_f32s().unwrap();
                moved[0].partial_cmp(&moved[1]).unwrap()
            };
            for first in [1, 3] {
                assert_eq!(order(first), order(first + 1).reverse(), "{operation}");
            }
        }
    }

    #[test]
    fn neighbours_that_tie_come_apart_in_one_of_three_pairs() {
        for (operation, first) in (0..50).flat_map(|o| [(o, 0), (o, 20), (o, 400)]) {
            let steps = |position: usize| {
                [1, 3, 5].map(|seed| Directions::new(seed, operation).step_at(position))
            };
            let all: HashSet<[i8; 3]> = (first..first + 20).map(steps).collect();
            assert_eq!(all.len(), 20, "{operation}");
        }
    }

    #[test]
    fn of_two_operations_either_alone_changes_the_signs_of_nans_in_some_run() {
        let pairs = (60..80).flat_map(|a| (60..80).map(move |b| (a, b)));
        for (a, b) in pairs.filter(|(a, b)| a != b) {
            let mut runs = (1..7).map(|run| [a, b].map(|n| Directions::new(run, n).flip_nans));
            assert!(runs.any(|flips| flips == [true, false]), "{a} {b}");
        }
    }

    #[test]
    fn a_sum_below_its_error_is_zero_in_the_first_run() {
        let sums = Literal::from_f32s(&[2], &[1e-9, 1.0]).unwrap();
        let moved = by_sums(&sums, &[1.0, 1.0], 4, Directions::new(0, 0)).unwrap();
        let moved = moved.as_f32s().unwrap();
        assert!(moved[0] == 0.0 && moved[1] != 0.0, "{moved:?}");
    }

    #[test]
    fn sums_that_are_nearly_equal_or_whole_are_so_in_the_first_run() {
        let sums = Literal::from_f32s(&[3], &[-1.999_999_9, 0.333_333_2, 0.333_333_4]).unwrap();
        let moved = by_sums(&sums, &[4.0; 3], 4, Directions::new(0, 0)).unwrap();
        let moved = moved.as_f32s().unwrap();
        assert!(moved[0] == -2.0 && moved[1] == moved[2], "{moved:?}");
        assert!((moved[1] - 0.333_333_3).abs() < 1e-6, "{moved:?}");
    }

    #[test]
    fn a_sum_of_products_that_underflow_may_be_zero() {
        let smallest = f32::from_bits(1);
        let sums = Literal::from_f32s(&[2], &[smallest, 0.0]).unwrap();
        let magnitudes = [f64::from(smallest), 0.0];
        let moved = by_sums(&sums, &magnitudes, 1, Directions::new(0, 0)).unwrap();
        assert_eq!(moved.as_f32s().unwrap(), [0.0, 0.0]);
    }

    #[test]
    fn a_sum_whose_parts_overflow_is_nan_in_the_first_run() {
        let infinity = f32::INFINITY;
        let sums = Literal::from_f32s(&[4], &[0.0, 1e38, infinity, infinity]).unwrap();
        let magnitudes = [4e38, 1e38, 4e38, f64::INFINITY];
        let moved = |seed| by_sums(&sums, &magnitudes, 2, Directions::new(seed, 0)).unwrap();
        let nan = |seed| {
            moved(seed)
                .as_f32s()
                .unwrap()
                .iter()
                .map(|x| x.is_nan())
                .collect()
        };
        let [first, second]: [Vec<bool>; 2] = [nan(0), nan(1)];
        assert_eq!(first, [true, false, true, false]);
        assert_eq!(second, [false; 4]);
    }

    #[test]
    fn sums_that_cancel_move_in_both_parts() {
        let shape = tegula_ir::ArrayShape::new(ElementType::C64, &[4]);
        let zeros = Literal::zeros(&shape).unwrap();
        let moved = by_sums(&zeros, &[1.0; 4], 4, Directions::new(3, 1)).unwrap();
        let parts = crate::numbers::parts(&moved).unwrap();
        assert!(parts.as_f32s().unwrap().iter().all(|&x| x != 0.0));
    }
}
