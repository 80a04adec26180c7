//! Damaged inputs give errors, without panics, and with memory in proportion to the input.

use super::damage::{Numbers, mutate, rounds};
use super::{PROGRAMS, data};
use tegula_stablehlo::{Form, print, read, to_module};

#[test]
fn damaged_programs_are_errors_or_programs() {
    for (place, name) in PROGRAMS.iter().enumerate() {
        let original = data(name);
        for round in 0..rounds() {
            let mut numbers = Numbers(0x9e37_79b9 + 977 * round as u64 + 31 * place as u64);
            let mut bytes = original.clone();
            mutate(&mut bytes, &mut numbers);
            if let Ok(module) = read(bytes) {
                // A module that is read without an error can be printed and lowered.
                let printed = print(&module, Form::Pretty);
                assert!(!printed.is_empty());
                let _ = to_module(&module);
            }
        }
    }
}
