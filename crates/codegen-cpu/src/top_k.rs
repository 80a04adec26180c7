//! The first elements by rank along the last dimension.

use tegula_ir::{Category, ElementType};

/// A selection of `k` of each row of `length` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopK {
    pub element_type: ElementType,
    pub length: usize,
    pub k: usize,
    pub largest: bool,
}

impl TopK {
    /// Selects. Floats are compared in the total order; of equal elements the one
    /// in front comes first.
    pub(crate) fn run(&self, input: &[u8], values: &mut [u8], places: &mut [i32]) {
        let size = self.element_type.storage_bytes();
        if self.k == 0 || self.length == 0 {
            return;
        }
        let rows = input.chunks_exact(self.length * size);
        let outputs = values
            .chunks_exact_mut(self.k * size)
            .zip(places.chunks_exact_mut(self.k));
        let mut ranked: Vec<(u64, u32)> = Vec::with_capacity(self.length);
        for (row, (values, places)) in rows.zip(outputs) {
            ranked.clear();
            ranked.extend(
                (0..)
                    .zip(row.chunks_exact(size))
                    .map(|(i, e)| (self.rank(e), i)),
            );
            if self.k < self.length {
                ranked.select_nth_unstable(self.k - 1);
                ranked.truncate(self.k);
            }
            ranked.sort_unstable();
            for (i, &(_, place)) in ranked.iter().enumerate() {
                let from = place as usize * size;
                values[i * size..][..size].copy_from_slice(&row[from..from + size]);
                places[i] = place as i32;
            }
        }
    }

    /// A number that is the smaller the earlier the element comes.
    fn rank(&self, element: &[u8]) -> u64 {
        let mut bytes = [0u8; 8];
        bytes[..element.len()].copy_from_slice(element);
        let bits = u64::from_le_bytes(bytes);
        let top = 1u64 << (8 * element.len() - 1);
        let ascending = match self.element_type.category() {
            Category::Signed => bits ^ top,
            // Negative floats are ordered by falling magnitude.
            Category::Float if bits & top != 0 => !bits & (top | (top - 1)),
            Category::Float => bits | top,
            _ => bits,
        };
        if self.largest { !ascending } else { ascending }
    }
}
