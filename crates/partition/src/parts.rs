//! Divides whole arrays into parts, and combines parts to whole arrays.

use crate::sharding::Sharding;
use tegula_ir::{ArrayShape, Literal, LiteralError};

impl Sharding {
    /// A device's part of an array, padded with zeros.
    ///
    /// # Errors
    /// The part is too large.
    pub fn part_of(&self, whole: &Literal, device: usize) -> Result<Literal, LiteralError> {
        let shape = whole.shape();
        let dims = static_dims(shape);
        if self.is_replicated() {
            return Ok(whole.clone());
        }
        let part = self.part(&dims);
        let mut literal = Literal::zeros(&ArrayShape::new(shape.element_type, &part))?;
        let mut copy = Copy::new(&dims, &part, &self.start(&dims, device), shape);
        let from = whole.bytes();
        let to = literal.bytes_mut();
        copy.runs(&mut |outer, inner, len| {
            if let (Some(to), Some(from)) =
                (to.get_mut(inner..inner + len), from.get(outer..outer + len))
            {
                to.copy_from_slice(from);
            }
        });
        Ok(literal)
    }

    /// The whole array with these sizes, from the parts of all devices by number. If several
    /// devices have the same part, that of the first is used.
    ///
    /// # Errors
    /// The array is too large.
    pub fn whole_of(&self, parts: &[Literal], shape: &ArrayShape) -> Result<Literal, LiteralError> {
        let dims = static_dims(shape);
        if let (true, Some(first)) = (self.is_replicated(), parts.first()) {
            return Ok(first.clone());
        }
        let sizes = self.part(&dims);
        let mut literal = Literal::zeros(&ArrayShape::new(shape.element_type, &dims))?;
        for (device, part) in parts.iter().enumerate().rev() {
            let mut copy = Copy::new(&dims, &sizes, &self.start(&dims, device), shape);
            let from = part.bytes();
            let to = literal.bytes_mut();
            copy.runs(&mut |outer, inner, len| {
                if let (Some(to), Some(from)) =
                    (to.get_mut(outer..outer + len), from.get(inner..inner + len))
                {
                    to.copy_from_slice(from);
                }
            });
        }
        Ok(literal)
    }
}

fn static_dims(shape: &ArrayShape) -> Vec<i64> {
    shape
        .dims
        .iter()
        .map(tegula_ir::Dim::representative)
        .collect()
}

/// The elements that a part shares with the whole array, as runs of bytes that are contiguous in
/// both.
struct Copy {
    /// For each dimension, the number of elements to copy, and the distance in bytes between
    /// elements in each array.
    dims: Vec<(usize, usize, usize)>,
    start: usize,
    run: usize,
}

impl Copy {
    fn new(whole: &[i64], part: &[i64], start: &[i64], shape: &ArrayShape) -> Self {
        let width = shape.element_type.storage_bytes();
        let size = |n: i64| usize::try_from(n).unwrap_or(0);
        let (mut outer, mut inner, mut begin) = (width, width, 0);
        let mut dims = Vec::new();
        for ((whole, part), start) in whole.iter().zip(part).zip(start).rev() {
            let count = size((*part).min(whole - start));
            begin += size(*start) * outer;
            dims.push((count, outer, inner));
            outer *= size(*whole);
            inner *= size(*part);
        }
        // A run of the innermost dimension is copied as one piece.
        let run = match dims.is_empty() {
            true => width,
            false => dims.remove(0).0 * width,
        };
        dims.reverse();
        Self {
            dims,
            start: begin,
            run,
        }
    }

    /// Calls `copy` for each run, with its first byte in the whole array and in the part, and its
    /// number of bytes.
    fn runs(&mut self, copy: &mut dyn FnMut(usize, usize, usize)) {
        if self.run == 0 || self.dims.iter().any(|(count, ..)| *count == 0) {
            return;
        }
        let mut index = vec![0; self.dims.len()];
        loop {
            let (mut outer, mut inner) = (self.start, 0);
            for (at, (_, whole, part)) in index.iter().zip(&self.dims) {
                outer += at * whole;
                inner += at * part;
            }
            copy(outer, inner, self.run);
            let mut dim = index.len();
            loop {
                if dim == 0 {
                    return;
                }
                dim -= 1;
                index[dim] += 1;
                if index[dim] < self.dims[dim].0 {
                    break;
                }
                index[dim] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cut;

    #[test]
    fn parts_make_the_whole_again() {
        let shape = ArrayShape::new(tegula_ir::ElementType::S32, &[5, 2, 3]);
        let values = (0..30).map(tegula_ir::Scalar::Int);
        let whole = Literal::from_scalars(&shape, values).expect("an array");
        let cut = |parts, places: &[i64]| Cut::new(parts, places.to_vec());
        let sharding = Sharding::new(4, [cut(2, &[0, 0, 1, 1]), None, cut(2, &[0, 1, 0, 1])]);
        let parts: Result<Vec<Literal>, _> = (0..4)
            .map(|device| sharding.part_of(&whole, device))
            .collect();
        let parts = parts.expect("parts");
        assert_eq!(
            parts[3].as_i32s(),
            Some(&[20, 0, 23, 0, 26, 0, 29, 0, 0, 0, 0, 0][..])
        );
        assert_eq!(sharding.whole_of(&parts, &shape), Ok(whole));
    }
}
