//! A best-fit allocator: assigns offsets in one memory to buffers with lifetimes.

/// A range of bytes that is occupied for a range of steps, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    steps: (usize, usize),
    offset: i64,
    bytes: i64,
}

/// A memory.
#[derive(Clone, Debug)]
pub(super) struct Heap {
    capacity: i64,
    alignment: i64,
    /// The bytes at the end that each step reserves for itself.
    reserved: Vec<i64>,
    taken: Vec<Taken>,
}

impl Heap {
    /// A memory in which each step reserves some bytes at the end for itself.
    pub(super) fn new(capacity: i64, alignment: i64, reserved: Vec<i64>) -> Self {
        Self {
            capacity,
            alignment,
            reserved,
            taken: Vec::new(),
        }
    }

    /// The gaps that are free during these steps: offset and length.
    fn gaps(&self, steps: (usize, usize)) -> Vec<(i64, i64)> {
        let own = self
            .reserved
            .get(steps.0..=steps.1)
            .unwrap_or(&self.reserved);
        let end = self.capacity - own.iter().copied().max().unwrap_or(0);
        let mut there: Vec<(i64, i64)> = self
            .taken
            .iter()
            .filter(|taken| taken.steps.0 <= steps.1 && steps.0 <= taken.steps.1)
            .map(|taken| (taken.offset, taken.offset + taken.bytes))
            .collect();
        there.sort_unstable();
        let mut gaps = Vec::new();
        let mut free = 0;
        for (from, to) in there {
            if from > free {
                gaps.push((free, from.min(end) - free));
            }
            free = free.max(to + (self.alignment - to % self.alignment) % self.alignment);
        }
        if end > free {
            gaps.push((free, end - free));
        }
        gaps
    }

    /// Allocates bytes for these steps in the smallest gap that is large enough. Returns the
    /// offset, or the length of the largest gap as an error.
    pub(super) fn take(&mut self, bytes: i64, steps: (usize, usize)) -> Result<i64, i64> {
        let gaps = self.gaps(steps);
        let fitting = gaps.iter().filter(|(_, length)| *length >= bytes);
        match fitting.min_by_key(|&&(offset, length)| (length, offset)) {
            Some(&(offset, _)) => {
                self.taken.push(Taken {
                    steps,
                    offset,
                    bytes,
                });
                Ok(offset)
            }
            None => Err(gaps.iter().map(|gap| gap.1).max().unwrap_or(0).max(0)),
        }
    }

    /// The most bytes in use at one step, including what the step reserves.
    pub(super) fn peak(&self) -> i64 {
        let at = |step: usize| {
            let live = self
                .taken
                .iter()
                .filter(|t| t.steps.0 <= step && step <= t.steps.1);
            live.map(|taken| taken.bytes).sum::<i64>() + self.reserved[step]
        };
        (0..self.reserved.len()).map(at).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_smallest_gap_is_taken_and_fragmentation_is_seen() {
        let mut heap = Heap::new(100, 10, vec![0; 4]);
        assert_eq!(heap.take(30, (0, 3)), Ok(0));
        assert_eq!(heap.take(25, (0, 1)), Ok(30));
        assert_eq!(heap.take(20, (0, 3)), Ok(60));
        // 30..60 and 80..100 are free from step 2 on: 50 bytes, but not contiguous.
        assert_eq!(heap.take(40, (2, 3)), Err(30));
        assert_eq!(heap.take(20, (2, 3)), Ok(80));
        assert_eq!(heap.take(30, (2, 3)), Ok(30));
        assert_eq!(heap.peak(), 100);
    }

    #[test]
    fn steps_keep_their_own() {
        let mut heap = Heap::new(100, 10, vec![0, 60, 0]);
        assert_eq!(heap.take(50, (0, 2)), Err(40));
        assert_eq!(heap.take(50, (2, 2)), Ok(0));
        assert_eq!(heap.take(40, (0, 1)), Ok(0));
        assert_eq!(heap.peak(), 100);
    }
}
