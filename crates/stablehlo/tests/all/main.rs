//! Tests of the StableHLO reader and printer.

mod damage;
mod errors;
mod lowering;
mod mutations;
mod round_trips;

/// A file of `tests/data`.
fn data(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The programs of `tests/data`.
const PROGRAMS: &[&str] = &[
    "forms.mlir",
    "mixed.mlir",
    "mixed_1_0_0.mlirbc",
    "mixed_1_9_0.mlirbc",
    "mixed_newest.mlirbc",
    "mixed_unversioned.mlirbc",
    "sharded.jaxexport",
    "symbolic.jaxexport",
];
