//! The bytes of a memory, and the transfer of boxes of arrays between them and dense host arrays.

use super::geometry::Geometry;
use super::region::Region;
use std::ops::Range;
use tegula_ir::AlignedBytes;
use tegula_layout::physical::Digit;

/// The bytes of one memory. Pages that were never touched take no host memory.
#[derive(Default)]
pub(crate) struct Image {
    bytes: AlignedBytes,
}

/// A box inside a dense row-major array: the position of its first element, and the distance
/// between elements along each dimension of the box, in elements.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    pub(crate) start: i64,
    pub(crate) strides: Vec<i64>,
}

impl Dense {
    /// All of an array.
    pub(crate) fn whole(dims: &[i64]) -> Self {
        let mut strides = vec![1i64; dims.len()];
        for d in (1..dims.len()).rev() {
            strides[d - 1] = strides[d].saturating_mul(dims[d]);
        }
        Self { start: 0, strides }
    }

    /// The part of a slice that a box covers: `sizes` are those of the dimensions `kept` of `rank`,
    /// and the box begins `lead` elements inside the slice.
    pub(crate) fn slice(rank: usize, kept: &[usize], sizes: &[i64], lead: &[i64]) -> Self {
        let own = Self::whole(sizes);
        let mut strides = vec![0; rank];
        for (&d, &stride) in kept.iter().zip(&own.strides) {
            strides[d] = stride;
        }
        let start = strides.iter().zip(lead).map(|(stride, lead)| stride * lead);
        Self {
            start: start.sum(),
            strides,
        }
    }
}

impl Image {
    /// Makes the memory at least `bytes` long.
    pub(crate) fn reserve(&mut self, bytes: i64) -> bool {
        let Ok(wanted) = usize::try_from(bytes) else {
            return false;
        };
        let present = self.bytes.as_slice().len();
        if wanted <= present {
            return true;
        }
        let Some(mut larger) = AlignedBytes::try_zeroed(wanted) else {
            return false;
        };
        larger.as_mut_slice()[..present].copy_from_slice(self.bytes.as_slice());
        self.bytes = larger;
        true
    }

    /// Copies a box of the array at byte `offset` into a dense array.
    pub(crate) fn read(
        &self,
        geometry: &Geometry,
        offset: i64,
        region: &Region,
        dense: &Dense,
        out: &mut [u8],
    ) {
        let bytes = self.bytes.as_slice();
        walk(geometry, offset, region, dense, &mut |run| {
            run.pieces(geometry, &mut |piece| match piece {
                Piece::Bits { byte, bit, place } => {
                    if let (Some(&byte), Some(slot)) = (bytes.get(byte), out.get_mut(place)) {
                        slot[0] = unpack(byte, bit, geometry);
                    }
                }
                Piece::Bytes { bytes: at, place } => {
                    if let (Some(from), Some(to)) = (bytes.get(at), out.get_mut(place)) {
                        to.copy_from_slice(from);
                    }
                }
            });
        });
    }

    /// Copies a dense array into a box of the array at byte `offset`.
    pub(crate) fn write(
        &mut self,
        geometry: &Geometry,
        offset: i64,
        region: &Region,
        dense: &Dense,
        from: &[u8],
    ) {
        let bytes = self.bytes.as_mut_slice();
        walk(geometry, offset, region, dense, &mut |run| {
            run.pieces(geometry, &mut |piece| match piece {
                Piece::Bits { byte, bit, place } => {
                    if let (Some(byte), Some(value)) = (bytes.get_mut(byte), from.get(place)) {
                        pack(byte, bit, geometry.bits, value[0]);
                    }
                }
                Piece::Bytes { bytes: at, place } => {
                    if let (Some(to), Some(from)) = (bytes.get_mut(at), from.get(place)) {
                        to.copy_from_slice(from);
                    }
                }
            });
        });
    }
}

fn dense_range(element: i64, count: i64, size: usize) -> Range<usize> {
    let start = element.max(0) as usize * size;
    start..start + count.max(0) as usize * size
}

fn unpack(byte: u8, bit: i64, geometry: &Geometry) -> u8 {
    let bits = geometry.bits as u32;
    let mask = ((1u16 << bits) - 1) as u8;
    let value = (byte >> bit) & mask;
    let negative = geometry.element_type.is_signed() && value >> (bits - 1) == 1;
    if negative { value | !mask } else { value }
}

fn pack(byte: &mut u8, bit: i64, bits: i64, value: u8) {
    let mask = ((1u16 << bits) - 1) as u8;
    *byte = (*byte & !(mask << bit)) | ((value & mask) << bit);
}

/// Elements along the box's last dimension that are evenly spaced.
struct Run {
    /// The first bit of the first element.
    bit: i64,
    /// Bits from one element to the next.
    bit_step: i64,
    /// The position of the first element in the dense array.
    element: i64,
    /// The distance between elements in the dense array.
    step: i64,
    count: i64,
}

/// A part of a run: its place in memory, and its bytes in the dense array.
enum Piece {
    /// An element of fewer than 8 bits.
    Bits {
        /// The byte that holds it.
        byte: usize,
        /// Its first bit in that byte.
        bit: i64,
        place: Range<usize>,
    },
    /// One or several whole elements.
    Bytes {
        bytes: Range<usize>,
        place: Range<usize>,
    },
}

impl Run {
    /// Calls `copy` for parts that together make up the run: one part if its elements are
    /// contiguous on both sides, else one for each element.
    fn pieces(&self, geometry: &Geometry, copy: &mut impl FnMut(Piece)) {
        let size = geometry.host_bytes();
        let at = |i: i64| (self.bit + i * self.bit_step) / 8;
        let place = |i: i64, count: i64| dense_range(self.element + i * self.step, count, size);
        if geometry.bits % 8 != 0 {
            for i in 0..self.count {
                copy(Piece::Bits {
                    byte: at(i) as usize,
                    bit: (self.bit + i * self.bit_step) % 8,
                    place: place(i, 1),
                });
            }
            return;
        }
        let is_dense = self.bit_step == geometry.bits
            && self.step == 1
            && (geometry.bits / 8) as usize == size;
        let (count, parts) = if is_dense {
            (self.count, 1)
        } else {
            (1, self.count)
        };
        for i in 0..parts {
            let place = place(i, count);
            let start = at(i) as usize;
            copy(Piece::Bytes {
                bytes: start..start + place.len(),
                place,
            });
        }
    }
}

/// Calls `visit` for runs that together make up the box.
fn walk(
    geometry: &Geometry,
    offset: i64,
    region: &Region,
    dense: &Dense,
    visit: &mut dyn FnMut(&Run),
) {
    if region.is_empty() {
        return;
    }
    let rank = region.low.len();
    let base = offset * 8;
    let Some(digits) = &geometry.digits else {
        one_by_one(geometry, base, region, dense, visit);
        return;
    };
    // The bit offset that each index contributes, by dimension.
    let tables: Vec<Vec<i64>> = (0..rank)
        .map(|d| {
            let own: Vec<&Digit> = digits.iter().filter(|digit| digit.dimension == d).collect();
            let at = |i| own.iter().map(|digit| digit.offset(i)).sum::<i64>() * geometry.bits;
            (region.low[d]..region.high[d]).map(at).collect()
        })
        .collect();
    let Some((last, outer)) = tables.split_last() else {
        visit(&Run {
            bit: base,
            bit_step: geometry.bits,
            element: dense.start,
            step: 1,
            count: 1,
        });
        return;
    };
    let runs = even_runs(last);
    let step = dense.strides[rank - 1];
    let mut index = vec![0usize; rank - 1];
    loop {
        let bit: i64 = outer.iter().zip(&index).map(|(table, &i)| table[i]).sum();
        let element: i64 = index
            .iter()
            .zip(&dense.strides)
            .map(|(&i, stride)| i as i64 * stride)
            .sum();
        for &(first, count, bit_step) in &runs {
            visit(&Run {
                bit: base + bit + last[first],
                bit_step,
                element: dense.start + element + first as i64 * step,
                step,
                count,
            });
        }
        let next = (0..rank - 1).rev().find(|&d| index[d] + 1 < outer[d].len());
        let Some(next) = next else { return };
        index[next] += 1;
        index[next + 1..].fill(0);
    }
}

/// The evenly spaced stretches of a table: first position, count, distance.
fn even_runs(table: &[i64]) -> Vec<(usize, i64, i64)> {
    let mut runs = Vec::new();
    let mut first = 0;
    while first < table.len() {
        let step = table.get(first + 1).map_or(1, |next| next - table[first]);
        let mut end = first + 1;
        while end < table.len() && table[end] - table[end - 1] == step {
            end += 1;
        }
        runs.push((first, (end - first) as i64, step));
        first = end;
    }
    runs
}

/// Visits single elements, for layouts that mix dimensions.
fn one_by_one(
    geometry: &Geometry,
    base: i64,
    region: &Region,
    dense: &Dense,
    visit: &mut dyn FnMut(&Run),
) {
    let mut index: Vec<i64> = region.low.to_vec();
    loop {
        if let Ok(position) = geometry.layout.linear_index(&index) {
            let offsets = index.iter().zip(&region.low).zip(&dense.strides);
            let element: i64 = offsets.map(|((i, low), stride)| (i - low) * stride).sum();
            visit(&Run {
                bit: base + position * geometry.bits,
                bit_step: geometry.bits,
                element: dense.start + element,
                step: 1,
                count: 1,
            });
        }
        if !region.advance(&mut index) {
            return;
        }
    }
}
