//! `rng-bit-generator` and `rng` on arrays, with the random words of [`tegula_scalar::random`].

use crate::error::{OpError, invalid, unsupported};
use crate::strided::sizes;
use tegula_ir::{ArrayShape, Literal, RngAlgorithm, RngDistribution};
use tegula_scalar::random::{draw, element_of_word, has_random_bits, join, random_words};
use tegula_scalar::{Bits, BitsMut};

/// Evaluates `rng-bit-generator(state)`: the new state and an array of random bits.
pub(crate) fn bit_generator(
    algorithm: RngAlgorithm,
    state: &Literal,
    shape: &ArrayShape,
) -> Result<(Literal, Literal), OpError> {
    let mut words = state_words(state)?;
    let ty = shape.element_type;
    if !has_random_bits(ty) {
        return Err(unsupported(format!("random bits of type {ty}")));
    }
    let mut bits = Literal::zeros(shape)?;
    let random = random_words(algorithm, &mut words, &sizes(&bits), ty.bits() == 64);
    let mut out = BitsMut::of(&mut bits);
    for (i, &word) in random.iter().enumerate() {
        out.set(i, element_of_word(ty, word));
    }
    Ok((store_state(state, &words)?, bits))
}

/// The state as 64-bit words, whichever type it has.
fn state_words(state: &Literal) -> Result<Vec<u64>, OpError> {
    let bits = Bits::of(state);
    let words: Vec<u64> = match state.element_type().bits() {
        64 => (0..state.len()).map(|i| bits.get(i) as u64).collect(),
        32 => (0..state.len() / 2)
            .map(|i| join([bits.get(2 * i) as u32, bits.get(2 * i + 1) as u32]))
            .collect(),
        _ => return Err(invalid("expected a state of 32-bit or 64-bit words")),
    };
    if words.len() < 2 {
        return Err(invalid("expected a state of at least two 64-bit words"));
    }
    Ok(words)
}

fn store_state(state: &Literal, words: &[u64]) -> Result<Literal, OpError> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(Literal::from_bytes(state.shape(), &bytes)?)
}

/// Evaluates `rng(a, b)`: uniform in `[a, b)`, or normal with mean `a` and standard deviation `b`.
pub(crate) fn rng(
    distribution: RngDistribution,
    a: &Literal,
    b: &Literal,
    shape: &ArrayShape,
) -> Result<Literal, OpError> {
    let ty = shape.element_type;
    if a.len() != 1 || b.len() != 1 || a.element_type() != ty || b.element_type() != ty {
        return Err(invalid(
            "expected parameters that are scalars of the result's element type",
        ));
    }
    let (a, b) = (Bits::of(a).get(0), Bits::of(b).get(0));
    if draw(distribution, ty, a, b, 0).is_none() {
        return Err(unsupported(format!("random numbers of type {ty}")));
    }
    crate::elementwise::fill(shape, |i| draw(distribution, ty, a, b, i).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_ir::ElementType;
    use tegula_scalar::random::{halves, philox, threefry};

    #[test]
    fn counters_and_states_follow_the_array() {
        let state = Literal::from_u64s(&[2], &[5, 7]).unwrap();
        let shape = |dims: &[i64]| ArrayShape::new(ElementType::U32, dims);
        let words = |c: u64| threefry([5, 0], halves(c));
        let (next, bits) = bit_generator(RngAlgorithm::ThreeFry, &state, &shape(&[3, 2])).unwrap();
        // The second dimension is even: pairs are formed along it.
        let expected: Vec<u32> = (7..10).flat_map(words).collect();
        assert_eq!(bits.as_u32s(), Some(&expected[..]));
        assert_eq!(next.as_u64s(), Some(&[5, 10][..]));
        // No dimension is even: pairs are formed along the largest one, and its last word is
        // dropped.
        let (next, bits) = bit_generator(RngAlgorithm::ThreeFry, &state, &shape(&[3])).unwrap();
        assert_eq!(
            bits.as_u32s(),
            Some(&[words(7)[0], words(7)[1], words(8)[0]][..])
        );
        assert_eq!(next.as_u64s(), Some(&[5, 9][..]));

        let state = Literal::from_u64s(&[3], &[5, u64::MAX, 1]).unwrap();
        let (next, bits) = bit_generator(RngAlgorithm::Philox, &state, &shape(&[6])).unwrap();
        let a = philox([5, 0], [u32::MAX, u32::MAX, 1, 0]);
        let b = philox([5, 0], [0, 0, 2, 0]);
        assert_eq!(
            bits.as_u32s(),
            Some(&[a[0], a[1], a[2], a[3], b[0], b[1]][..])
        );
        assert_eq!(next.as_u64s(), Some(&[5, 1, 2][..]));
    }
}
