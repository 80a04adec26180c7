//! Damaged inputs give errors: no panic, and memory in proportion to the input.

use super::{PROGRAMS, data};
use tegula_stablehlo::{Form, print, read, to_module};

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
fn damaged_programs_are_errors_or_programs() {
    let sweep = std::env::var("TEGULA_SWEEP").ok();
    let rounds: usize = sweep.and_then(|text| text.parse().ok()).unwrap_or(300);
    for (place, name) in PROGRAMS.iter().enumerate() {
        let original = data(name);
        for round in 0..rounds {
            let mut numbers = Numbers(0x9e37_79b9 + 977 * round as u64 + 31 * place as u64);
            let mut bytes = original.clone();
            mutate(&mut bytes, &mut numbers);
            if let Ok(module) = read(bytes) {
                // Whoever reads without an error can be printed and translated.
                let printed = print(&module, Form::Pretty);
                assert!(!printed.is_empty());
                let _ = to_module(&module);
            }
        }
    }
}
