//! Positions of elements as sums over dimensions.
//!
//! Without `*` in its tiles, a layout never mixes dimensions: the position of an element is a sum
//! of one contribution per dimension, which is itself a sum of digits of the index, each times a
//! stride. Code that copies boxes of an array derives the contiguous runs from them.

use super::{Change, PhysicalLayout, Sizes};
use smallvec::SmallVec;

/// A digit of a dimension's index: `(index / divisor) mod modulus * stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// The number of the dimension.
    pub dimension: usize,
    /// The divisor of the index (rounding down).
    pub divisor: i64,
    /// The number of values. The most major digit of a dimension has as many as its indices need.
    pub modulus: i64,
    /// The distance between adjacent values, in elements.
    pub stride: i64,
}

impl Digit {
    /// The contribution of this digit of an index to the position.
    pub fn offset(&self, index: i64) -> i64 {
        index / self.divisor % self.modulus.max(1) * self.stride
    }
}

impl PhysicalLayout {
    /// The digits, whose offsets add up to [`Self::linear_index`]; `None` if a tile combines
    /// dimensions.
    pub fn digits(&self) -> Option<Vec<Digit>> {
        // A leading 1 belongs to no dimension: its index is always 0.
        let nobody = usize::MAX;
        let mut places: SmallVec<[(usize, i64); 8]> = self.order.iter().map(|&d| (d, 1)).collect();
        for change in &self.changes {
            match change {
                Change::Lead(count) => {
                    places.insert_many(0, std::iter::repeat_n((nobody, 1), *count));
                }
                Change::Combine { .. } => return None,
                Change::Tile { tile, .. } => {
                    let first = places.len() - tile.len();
                    for (d, &t) in tile.iter().enumerate() {
                        let (dimension, divisor) = places[first + d];
                        places.push((dimension, divisor));
                        places[first + d] = (dimension, divisor.saturating_mul(t));
                    }
                }
            }
        }
        let mut stride = 1i64;
        let mut strides: Sizes = SmallVec::from_elem(1, places.len());
        for (slot, &size) in strides.iter_mut().zip(&self.physical).rev() {
            *slot = stride;
            stride = stride.saturating_mul(size);
        }
        let digits = places.iter().zip(&self.physical).zip(&strides);
        let digits = digits.map(|((&(dimension, divisor), &modulus), &stride)| Digit {
            dimension,
            divisor,
            modulus,
            stride,
        });
        Some(digits.filter(|digit| digit.dimension != nobody).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_ir::{Shape, parse_shape};
    #[test]
    fn they_add_up_to_the_position() {
        for text in [
            "f32[5,300]{1,0:T(8,128)}",
            "bf16[3,20,130]{2,1,0:T(8,128)(2,1)}",
            "bf16[3,20,130]{1,2,0:T(8,128)(2,1)}",
            "s8[40,200]{1,0:T(32,128)(4,1)}",
            "bf16[2048]{0:T(1024)(128)(2,1)}",
            "f32[7]{0:T(4,2)}",
            "f32[3,4,5]",
        ] {
            let Ok(Shape::Array(shape)) = parse_shape(text) else {
                panic!("{text} is a shape")
            };
            let layout = PhysicalLayout::new(&shape).expect("a layout");
            let digits = layout.digits().expect("no dimension is combined");
            let dims = shape.static_dims().expect("static");
            let mut index = vec![0; dims.len()];
            'all: loop {
                let sum: i64 = digits.iter().map(|d| d.offset(index[d.dimension])).sum();
                assert_eq!(Ok(sum), layout.linear_index(&index), "{text} at {index:?}");
                for d in (0..dims.len()).rev() {
                    index[d] += 1;
                    if index[d] < dims[d] {
                        continue 'all;
                    }
                    index[d] = 0;
                }
                break;
            }
        }
    }

    #[test]
    fn combined_dimensions_have_none() {
        let Ok(Shape::Array(shape)) = parse_shape("f32[2,3,4]{2,1,0:T(*,8,2)}") else {
            panic!("a shape")
        };
        let layout = PhysicalLayout::new(&shape);
        assert_eq!(layout.map(|layout| layout.digits()), Ok(None));
    }
}
