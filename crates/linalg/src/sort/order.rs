//! The order of an element type's values, as an order of unsigned integers.

use tegula_ir::{Category, ElementType};

/// The order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOrder {
    category: Category,
    /// Bytes of a key: 1, 2, 4 or 8.
    pub bytes: usize,
    /// Whether the largest goes first.
    descending: bool,
}

impl KeyOrder {
    /// The numerical order of a type; for floats, the total order.
    pub fn new(element_type: ElementType, descending: bool) -> Self {
        Self {
            category: element_type.category(),
            bytes: element_type.storage_bytes(),
            descending,
        }
    }

    /// Whether the largest goes first.
    pub fn is_descending(self) -> bool {
        self.descending
    }

    /// The rank of a key, given its bits: an integer of the same width that is smaller for keys
    /// that go first.
    #[inline(always)]
    pub fn rank(self, bits: u64) -> u64 {
        let sign = 1 << (8 * self.bytes - 1);
        let all = sign | (sign - 1);
        let ascending = match self.category {
            Category::Signed => bits ^ sign,
            Category::Float if bits & sign != 0 => !bits,
            Category::Float => bits | sign,
            _ => bits,
        };
        match self.descending {
            true => !ascending & all,
            false => ascending & all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_in_the_total_order_of_floats() {
        let negative_nan = f32::from_bits(0xffc0_0000);
        let ordered = [
            negative_nan,
            f32::NEG_INFINITY,
            -1.5,
            -f32::from_bits(1),
            -0.0,
            0.0,
            f32::from_bits(1),
            2.0,
            f32::INFINITY,
            f32::NAN,
        ];
        for descending in [false, true] {
            let rank =
                |x: &f32| KeyOrder::new(ElementType::F32, descending).rank(x.to_bits().into());
            let ranks: Vec<u64> = ordered.iter().map(rank).collect();
            assert!(
                ranks
                    .windows(2)
                    .all(|w| (w[0] < w[1]) != descending && w[0] != w[1])
            );
        }
    }

    #[test]
    fn ranks_of_integers_are_in_their_order() {
        let signed = KeyOrder::new(ElementType::S8, false);
        let ranks: Vec<u64> = (-128..128i64)
            .map(|x| signed.rank((x as u8).into()))
            .collect();
        assert!(ranks.windows(2).all(|w| w[0] + 1 == w[1]));
        let unsigned = KeyOrder::new(ElementType::U64, true);
        assert!(unsigned.rank(u64::MAX) < unsigned.rank(0));
    }
}
