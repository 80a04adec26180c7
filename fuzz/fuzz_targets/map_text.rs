//! Indexing maps: what is read is simplified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tegula_indexing::{Simplifier, parse_map};

fuzz_target!(|text: &str| {
    if let Ok(map) = parse_map(text) {
        let _ = Simplifier::new().simplify_map(&map);
    }
});
