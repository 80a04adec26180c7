//! Damaged kernels give errors: no panic, and memory in proportion to the input.

use super::common::{files, outside};
use super::damage::{Numbers, mutate, rounds};

#[test]
fn damaged_kernels_are_errors_or_kernels() {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let folders = [Some(own), outside()];
    for path in folders
        .iter()
        .flatten()
        .flat_map(|folder| files(folder, "body.mlirbc"))
    {
        let original = std::fs::read(&path).unwrap();
        for round in 0..rounds() {
            let mut numbers = Numbers(0x9e37_79b9 + 977 * round as u64 + original.len() as u64);
            let mut bytes = original.clone();
            mutate(&mut bytes, &mut numbers);
            if let Ok(Some(kernels)) = tegula_mosaic::read(bytes) {
                assert!(!kernels[0].print().is_empty());
            }
        }
    }
}
