//! The first elements by rank along the last dimension.

use crate::sort::KeyOrder;
use tegula_ir::ElementType;

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
        let order = KeyOrder::new(self.element_type, self.largest);
        let mut best: Vec<(u64, u32)> = Vec::with_capacity(self.length);
        for (row, (values, places)) in rows.zip(outputs) {
            match size {
                4 => self.select(ranks::<4>(row, order), &mut best),
                2 => self.select(ranks::<2>(row, order), &mut best),
                1 => self.select(ranks::<1>(row, order), &mut best),
                _ => self.select(ranks::<8>(row, order), &mut best),
            }
            for (i, &(_, place)) in best.iter().enumerate() {
                let from = place as usize * size;
                values[i * size..][..size].copy_from_slice(&row[from..from + size]);
                places[i] = place as i32;
            }
        }
    }

    /// The first `k` by rank and place.
    fn select(&self, mut ranks: impl Iterator<Item = u64>, best: &mut Vec<(u64, u32)>) {
        best.clear();
        if self.k > FEW {
            best.extend(ranks.zip(0..));
            if self.k < self.length {
                best.select_nth_unstable(self.k - 1);
                best.truncate(self.k);
            }
            return best.sort_unstable();
        }
        best.extend(ranks.by_ref().take(self.k).zip(0..));
        best.sort_unstable();
        let mut last = best.last().map_or(0, |&(rank, _)| rank);
        for (rank, place) in ranks.zip(self.k as u32..) {
            // Seldom: of random elements the n-th with a chance of k in n. An equal one
            // comes later.
            if rank < last {
                best.pop();
                let at = best.partition_point(|&(other, _)| other <= rank);
                best.insert(at, (rank, place));
                last = best[best.len() - 1].0;
            }
        }
    }
}

/// Up to so many are kept in order while the row is read.
const FEW: usize = 64;

/// Numbers that are the smaller the earlier the elements, of `N` bytes each, come.
fn ranks<const N: usize>(row: &[u8], order: KeyOrder) -> impl Iterator<Item = u64> {
    row.as_chunks::<N>().0.iter().map(move |element| {
        let mut bytes = [0u8; 8];
        bytes[..N].copy_from_slice(element);
        order.rank(u64::from_le_bytes(bytes))
    })
}
