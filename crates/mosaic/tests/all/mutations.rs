//! Damaged kernels give errors: no panic, and memory in proportion to the input.

use super::common::{files, outside};

/// A small generator of numbers (xorshift): the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Changes a few bytes, takes a part away, or writes one twice.
fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
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

#[test]
fn damaged_kernels_are_errors_or_kernels() {
    let sweep = std::env::var("TEGULA_SWEEP").ok();
    let rounds: usize = sweep.and_then(|text| text.parse().ok()).unwrap_or(300);
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let folders = [Some(own), outside()];
    for path in folders
        .iter()
        .flatten()
        .flat_map(|folder| files(folder, "body.mlirbc"))
    {
        let original = std::fs::read(&path).unwrap();
        for round in 0..rounds {
            let mut numbers = Numbers(0x9e37_79b9 + 977 * round as u64 + original.len() as u64);
            let mut bytes = original.clone();
            mutate(&mut bytes, &mut numbers);
            if let Ok(Some(kernels)) = tegula_mosaic::read(bytes) {
                assert!(!kernels[0].print().is_empty());
            }
        }
    }
}
