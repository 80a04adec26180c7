//! Deterministic damage to files. The tests of `crates/mosaic` use this file, too.

/// A deterministic generator of pseudo-random numbers (xorshift).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Changes a few bytes, or removes or duplicates a part.
pub(crate) fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        let other = numbers.below(bytes.len());
        match numbers.below(5) {
            0 => bytes[at] = numbers.below(256) as u8,
            1 => bytes[at] ^= 1 << numbers.below(8),
            2 => bytes.truncate(at.max(1)),
            3 => {
                let end = (at + numbers.below(24)).min(bytes.len());
                bytes.drain(at..end);
                bytes.push(b'}');
            }
            _ => {
                let end = (at + numbers.below(24)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(other..other, part);
            }
        }
    }
}

/// The number of variants of each file: 300, or the value of TEGULA_SWEEP.
pub(crate) fn rounds() -> usize {
    let sweep = std::env::var("TEGULA_SWEEP").ok();
    sweep.and_then(|text| text.parse().ok()).unwrap_or(300)
}
