//! Counts sectors and wavefronts of a warp's memory requests.
//!
//! Global memory is transferred in sectors of 32 bytes. Shared memory has 32 banks of four bytes; a
//! wavefront serves each bank once. Requests of 8 bytes per lane are served for half of the warp at
//! a time, those of 16 bytes for a quarter.

use crate::operation::LANES;

/// The total traffic of an instruction's requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) sectors: u64,
    pub(crate) minimum_sectors: u64,
    pub(crate) wavefronts: u64,
    pub(crate) minimum_wavefronts: u64,
}

/// The pattern of a request's addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The lanes' addresses are consecutive.
    Dense,
    /// All lanes have the same address.
    Uniform,
    Other,
}

fn shape(addresses: &[u64; LANES], mask: u32, bytes: u64) -> Shape {
    if mask != u32::MAX {
        return Shape::Other;
    }
    let first = addresses[0];
    let (mut dense, mut uniform) = (true, true);
    for (lane, address) in addresses.iter().enumerate() {
        dense &= *address == first.wrapping_add(lane as u64 * bytes);
        uniform &= *address == first;
    }
    match (dense, uniform) {
        (true, _) => Shape::Dense,
        (_, true) => Shape::Uniform,
        _ => Shape::Other,
    }
}

impl Traffic {
    /// Counts a request to global memory of `bytes` bytes per lane.
    pub(crate) fn global(&mut self, addresses: &[u64; LANES], mask: u32, bytes: u64) {
        self.requests += 1;
        let first = addresses[0];
        let span = |end: u64| ((end - 1) >> 5) - (first >> 5) + 1;
        let (sectors, unique) = match shape(addresses, mask, bytes) {
            Shape::Dense if first < 1 << 60 => (span(first + 32 * bytes), 32 * bytes),
            Shape::Uniform if first < 1 << 60 => (span(first + bytes), bytes),
            _ => scattered(addresses, mask, bytes),
        };
        self.bytes += unique;
        self.sectors += sectors;
        self.minimum_sectors += unique.div_ceil(32);
    }

    /// Counts a request to shared memory.
    pub(crate) fn shared(&mut self, addresses: &[u64; LANES], mask: u32, bytes: u64) {
        self.requests += 1;
        let words = bytes.div_ceil(4);
        let group = 32 / words.clamp(1, 4) as usize;
        match shape(addresses, mask, bytes) {
            Shape::Dense => {
                self.bytes += 32 * bytes;
                let least = bytes.div_ceil(4);
                self.wavefronts += least;
                self.minimum_wavefronts += least;
            }
            Shape::Uniform => {
                // Lanes that read the same address are served together.
                self.bytes += bytes;
                self.wavefronts += words.div_ceil(4);
                self.minimum_wavefronts += words.div_ceil(4);
            }
            Shape::Other => {
                let (wavefronts, least, unique) = match near(addresses, mask) {
                    Some(unique) if words == 1 => (1, 1, unique),
                    _ => conflicts(addresses, mask, words, group),
                };
                self.bytes += if bytes < 4 {
                    unique * bytes
                } else {
                    unique * 4
                };
                self.wavefronts += wavefronts;
                self.minimum_wavefronts += least;
            }
        }
    }
}

/// The number of distinct words, if all are within 32 adjacent words and so in different banks.
fn near(addresses: &[u64; LANES], mask: u32) -> Option<u64> {
    let (mut first, mut last) = (u64::MAX, 0);
    for lane in 0..LANES {
        if mask >> lane & 1 != 0 {
            first = first.min(addresses[lane] >> 2);
            last = last.max(addresses[lane] >> 2);
        }
    }
    if last.wrapping_sub(first) >= 32 {
        return None;
    }
    let mut words = 0u32;
    for lane in 0..LANES {
        if mask >> lane & 1 != 0 {
            words |= 1 << ((addresses[lane] >> 2) - first);
        }
    }
    Some(u64::from(words.count_ones()))
}

/// The numbers of sectors and of distinct bytes, for arbitrary addresses.
fn scattered(addresses: &[u64; LANES], mask: u32, bytes: u64) -> (u64, u64) {
    let mut sorted = [0u64; LANES];
    let mut count = 0;
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        sorted[count] = addresses[lane];
        count += 1;
    }
    let sorted = &mut sorted[..count];
    if !sorted.is_sorted() {
        sorted.sort_unstable();
    }
    let (mut sectors, mut unique, mut next_sector, mut end) = (0, 0, 0, 0);
    for &address in sorted.iter() {
        let last = address.saturating_add(bytes - 1);
        let from = (address >> 5).max(next_sector);
        if last >> 5 >= from {
            sectors += (last >> 5) - from + 1;
            next_sector = (last >> 5) + 1;
        }
        let fresh = address.max(end);
        if last >= fresh {
            unique += last - fresh + 1;
            end = last.saturating_add(1);
        }
    }
    (sectors, unique)
}

/// The number of wavefronts, the minimum, and the number of distinct words.
fn conflicts(addresses: &[u64; LANES], mask: u32, words: u64, group: usize) -> (u64, u64, u64) {
    let (mut wavefronts, mut least, mut unique) = (0, 0, 0);
    for first in (0..LANES).step_by(group) {
        // In the most common case, each lane uses different banks.
        let (mut banks, mut lanes) = (0u32, 0);
        for lane in (first..first + group).filter(|l| mask >> l & 1 != 0) {
            let own = (1u32 << words.min(8)) - 1;
            banks |= own.rotate_left((addresses[lane] >> 2) as u32 & 31);
            lanes += 1;
        }
        if u64::from(banks.count_ones()) == lanes * words {
            let one = u64::from(lanes != 0);
            (wavefronts, least, unique) = (wavefronts + one, least + one, unique + lanes * words);
            continue;
        }
        // The keys consist of the bank and the word.
        let mut keys = [0u64; 64];
        let mut count = 0;
        for lane in (first..first + group).filter(|l| mask >> l & 1 != 0) {
            let base = addresses[lane] >> 2;
            for word in base..base + words.min(8) {
                if count < keys.len() {
                    keys[count] = (word & 31) << 58 | word & ((1 << 58) - 1);
                    count += 1;
                }
            }
        }
        if count == 0 {
            continue;
        }
        let keys = &mut keys[..count];
        keys.sort_unstable();
        let (mut deepest, mut run, mut distinct) = (0u64, 0u64, 0u64);
        let mut previous = None;
        for &key in keys.iter() {
            if previous == Some(key) {
                continue;
            }
            run = if previous.is_some_and(|p: u64| p >> 58 == key >> 58) {
                run + 1
            } else {
                1
            };
            deepest = deepest.max(run);
            distinct += 1;
            previous = Some(key);
        }
        wavefronts += deepest;
        least += distinct.div_ceil(32);
        unique += distinct;
    }
    (wavefronts, least, unique)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(f: impl Fn(u64) -> u64) -> [u64; LANES] {
        std::array::from_fn(|lane| f(lane as u64))
    }

    #[test]
    fn known_patterns() {
        let mut t = Traffic::default();
        t.shared(&lanes(|l| l * 128), u32::MAX, 4);
        assert_eq!((t.wavefronts, t.minimum_wavefronts), (32, 1));
        let mut t = Traffic::default();
        t.shared(&lanes(|l| l * 132), u32::MAX, 4);
        assert_eq!((t.wavefronts, t.minimum_wavefronts), (1, 1));
        let mut t = Traffic::default();
        t.shared(&lanes(|l| l * 16), u32::MAX, 16);
        assert_eq!((t.wavefronts, t.minimum_wavefronts), (4, 4));
        let mut t = Traffic::default();
        t.shared(&lanes(|l| 16 * (l ^ 1)), u32::MAX, 16);
        assert_eq!((t.wavefronts, t.minimum_wavefronts), (4, 4));
        let mut t = Traffic::default();
        t.shared(&lanes(|l| 64 + l % 16 * 4), u32::MAX, 4);
        assert_eq!((t.wavefronts, t.minimum_wavefronts, t.bytes), (1, 1, 64));
        let mut t = Traffic::default();
        t.global(&lanes(|l| 4096 + l * 8), u32::MAX, 4);
        assert_eq!((t.sectors, t.minimum_sectors, t.bytes), (8, 4, 128));
        let mut t = Traffic::default();
        t.global(&lanes(|l| 4100 + l * 4), u32::MAX, 4);
        assert_eq!((t.sectors, t.minimum_sectors), (5, 4));
    }
}
