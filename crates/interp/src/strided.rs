//! Strided copies: the loop behind every operation that only moves elements.
//!
//! A [`Walk`] visits elements of an array: those at `offset + sum(index[d] * strides[d])` for every
//! index of `dims`, the last dimension fastest. Reading along a walk into a dense array is a
//! transposition, a broadcast, a slice or a reversal; writing a dense array along one is a pad, a
//! concatenation or an update.

use crate::error::{OpError, invalid};
use smallvec::{SmallVec, smallvec};
use tegula_ir::Literal;

/// Sizes or positions, by dimension.
pub(crate) type Sizes = SmallVec<[usize; 6]>;
/// Distances in elements, by dimension.
pub(crate) type Strides = SmallVec<[isize; 6]>;

/// The elements of an array that are visited, and their order.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) dims: Sizes,
    pub(crate) offset: isize,
    pub(crate) strides: Strides,
}

/// The sizes of a literal's dimensions.
pub(crate) fn sizes(literal: &Literal) -> Sizes {
    let dims = literal.shape().dims.iter();
    dims.map(|dim| dim.as_static().map_or(0, |size| size.max(0) as usize))
        .collect()
}

/// The strides of a dense row-major array.
pub(crate) fn row_major(dims: &[usize]) -> Strides {
    let mut strides: Strides = smallvec![0; dims.len()];
    let mut step = 1isize;
    for (stride, &size) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        step = step.saturating_mul(size.max(1) as isize);
    }
    strides
}

/// The product of sizes.
pub(crate) fn product(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Sizes as `i64`, as shapes store them.
pub(crate) fn to_i64s(dims: &[usize]) -> SmallVec<[i64; 6]> {
    dims.iter().map(|&size| size as i64).collect()
}

impl Walk {
    /// A walk over every element of a dense array, in order.
    pub(crate) fn dense(dims: &[usize]) -> Self {
        Self {
            dims: dims.into(),
            offset: 0,
            strides: row_major(dims),
        }
    }

    /// Fails unless every visited element is among the first `len`.
    fn check(&self, len: usize) -> Result<(), OpError> {
        if self.dims.contains(&0) {
            return Ok(());
        }
        let (mut low, mut high) = (self.offset, self.offset);
        for (&size, &stride) in self.dims.iter().zip(&self.strides) {
            let reach = stride.saturating_mul(size as isize - 1);
            low = low.saturating_add(reach.min(0));
            high = high.saturating_add(reach.max(0));
        }
        if self.dims.len() == self.strides.len() && low >= 0 && (high as usize) < len {
            Ok(())
        } else {
            Err(invalid("an index is out of bounds of the array"))
        }
    }

    /// The same walk with adjacent dimensions merged where they are contiguous.
    fn merged(&self) -> Self {
        let mut merged = Self {
            dims: smallvec![],
            offset: self.offset,
            strides: smallvec![],
        };
        for (&size, &stride) in self.dims.iter().zip(&self.strides) {
            match (merged.dims.last_mut(), merged.strides.last_mut()) {
                _ if size == 1 => {}
                (Some(last), Some(last_stride)) if *last_stride == stride * size as isize => {
                    *last *= size;
                    *last_stride = stride;
                }
                _ => {
                    merged.dims.push(size);
                    merged.strides.push(stride);
                }
            }
        }
        if merged.dims.is_empty() {
            merged.dims.push(1);
            merged.strides.push(1);
        }
        merged
    }

    /// Calls `row(offset)` for each run along the last dimension, in order.
    pub(crate) fn for_each_row(&self, mut row: impl FnMut(isize)) {
        if self.dims.contains(&0) {
            return;
        }
        let outer = self.dims.len().saturating_sub(1);
        let mut index: Sizes = smallvec![0; outer];
        let mut offset = self.offset;
        loop {
            row(offset);
            let mut dim = outer;
            loop {
                if dim == 0 {
                    return;
                }
                dim -= 1;
                index[dim] += 1;
                offset += self.strides[dim];
                if index[dim] < self.dims[dim] {
                    break;
                }
                offset -= self.strides[dim] * self.dims[dim] as isize;
                index[dim] = 0;
            }
        }
    }

    /// The visited offsets, in order.
    pub(crate) fn offsets(&self) -> Vec<isize> {
        let mut offsets = Vec::with_capacity(product(&self.dims));
        let (len, stride) = self.row();
        self.for_each_row(|start| offsets.extend((0..len).map(|i| start + i as isize * stride)));
        offsets
    }

    fn row(&self) -> (usize, isize) {
        match (self.dims.last(), self.strides.last()) {
            (Some(&len), Some(&stride)) => (len, stride),
            _ => (1, 1),
        }
    }
}

/// Copies the elements (of `size` bytes) that a walk visits in `src` to the front of `dst`,
/// densely.
pub(crate) fn read_along(
    dst: &mut [u8],
    src: &[u8],
    size: usize,
    walk: &Walk,
) -> Result<(), OpError> {
    walk.check(src.len() / size)?;
    Walk::dense(&walk.dims).check(dst.len() / size)?;
    let walk = walk.merged();
    match size {
        1 => read_chunks::<1>(dst, src, &walk),
        2 => read_chunks::<2>(dst, src, &walk),
        4 => read_chunks::<4>(dst, src, &walk),
        8 => read_chunks::<8>(dst, src, &walk),
        _ => read_chunks::<16>(dst, src, &walk),
    }
    Ok(())
}

/// Copies the elements (of `size` bytes) of a dense `src` to the positions that a walk visits in
/// `dst`.
pub(crate) fn write_along(
    dst: &mut [u8],
    src: &[u8],
    size: usize,
    walk: &Walk,
) -> Result<(), OpError> {
    walk.check(dst.len() / size)?;
    Walk::dense(&walk.dims).check(src.len() / size)?;
    let walk = walk.merged();
    match size {
        1 => write_chunks::<1>(dst, src, &walk),
        2 => write_chunks::<2>(dst, src, &walk),
        4 => write_chunks::<4>(dst, src, &walk),
        8 => write_chunks::<8>(dst, src, &walk),
        _ => write_chunks::<16>(dst, src, &walk),
    }
    Ok(())
}

fn read_chunks<const N: usize>(dst: &mut [u8], src: &[u8], walk: &Walk) {
    let (dst, src) = (dst.as_chunks_mut::<N>().0, src.as_chunks::<N>().0);
    let (len, stride) = walk.row();
    let mut done = 0;
    walk.for_each_row(|start| {
        let row = &mut dst[done..done + len];
        match stride {
            1 => row.copy_from_slice(&src[start as usize..start as usize + len]),
            0 => row.fill(src[start as usize]),
            _ => {
                for (i, element) in row.iter_mut().enumerate() {
                    *element = src[(start + i as isize * stride) as usize];
                }
            }
        }
        done += len;
    });
}

fn write_chunks<const N: usize>(dst: &mut [u8], src: &[u8], walk: &Walk) {
    let (dst, src) = (dst.as_chunks_mut::<N>().0, src.as_chunks::<N>().0);
    let (len, stride) = walk.row();
    let mut done = 0;
    walk.for_each_row(|start| {
        let row = &src[done..done + len];
        if stride == 1 {
            dst[start as usize..start as usize + len].copy_from_slice(row);
        } else {
            for (i, element) in row.iter().enumerate() {
                dst[(start + i as isize * stride) as usize] = *element;
            }
        }
        done += len;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_transpose_reverse_and_broadcast() {
        let src: Vec<u8> = (0..6).collect();
        let read = |dims: &[usize], offset, strides: &[isize]| {
            let walk = Walk {
                dims: dims.into(),
                offset,
                strides: strides.into(),
            };
            let mut dst = vec![0; product(dims)];
            read_along(&mut dst, &src, 1, &walk).map(|()| dst)
        };
        assert_eq!(read(&[3, 2], 0, &[1, 3]).unwrap(), [0, 3, 1, 4, 2, 5]);
        assert_eq!(read(&[2, 3], 2, &[3, -1]).unwrap(), [2, 1, 0, 5, 4, 3]);
        assert_eq!(read(&[2, 3], 1, &[0, 2]).unwrap(), [1, 3, 5, 1, 3, 5]);
        assert_eq!(read(&[2, 2, 1], 0, &[3, 1, 9]).unwrap(), [0, 1, 3, 4]);
        assert_eq!(read(&[], 4, &[]).unwrap(), [4]);
        assert_eq!(read(&[0, 2], 99, &[1, 1]).unwrap(), []);
        assert!(read(&[2], 5, &[1]).is_err());
        assert!(read(&[2], 0, &[-1]).is_err());
    }

    #[test]
    fn writes_go_where_reads_come_from() {
        let walk = Walk {
            dims: smallvec![2, 2],
            offset: 1,
            strides: smallvec![4, 2],
        };
        let mut dst = vec![9u8; 8];
        write_along(&mut dst, &[0, 1, 2, 3], 1, &walk).unwrap();
        assert_eq!(dst, [9, 0, 9, 1, 9, 2, 9, 3]);
        assert_eq!(walk.offsets(), [1, 3, 5, 7]);
    }
}
