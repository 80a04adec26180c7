//! Programs that check themselves, on every target: our own (`tests/data/checks.mlir`), and with
//! `TEGULA_STABLEHLO=FOLDER` those of a checkout of StableHLO: its folders `stablehlo/testdata`,
//! `stablehlo/tests/interpret` and `stablehlo/tests/math`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tegula::Target;
use tegula_tests::stablehlo_checks::checked_functions;

const TARGETS: [Target; 3] = [Target::Interp, Target::Plan, Target::Cpu];

#[test]
fn own_programs_pass_their_checks() {
    let text = include_str!("../data/checks.mlir");
    let functions = checked_functions(text);
    assert!(functions.len() > 5);
    for function in functions {
        for target in TARGETS {
            let result = function.run(target, 0.0);
            if function.name.starts_with("fails_") {
                assert!(result.is_err(), "{} passes its checks", function.name);
            } else {
                result.unwrap_or_else(|error| panic!("{} {target:?}: {error}", function.name));
            }
        }
    }
}

/// How far apart numbers may be in units of their type's precision, of the largest number
/// expected: the checks are those of an interpreter that sums in one fixed order and has the
/// library of functions that the expected values were made with.
const UNITS: f64 = 32.0;

/// Functions that fail, by a part of `file:function: cause`, and why.
const EXPECTED: &[(&str, &str)] = &[
    (
        "quantized types are not supported",
        "listed in docs/stablehlo.md",
    ),
    (
        "all_gather:main: Interp: element 2: Int(5) instead of Int(1)",
        "cross_replica_and_partition: XLA orders a group by replica, the interpreter by partition",
    ),
    (
        "expect_serialized_eq",
        "compares with what another tool has written",
    ),
    (
        "reduce_precision_op_test_f64_zero_mantissa",
        "XLA keeps a NaN, the interpreter does not",
    ),
    (
        "sqrt_complex128",
        "magnitudes beyond the largest number, as in XLA:CPU",
    ),
    (
        "log_complex128",
        "magnitudes beyond the largest number, as in XLA:CPU",
    ),
    (
        "log_plus_one_complex128",
        "magnitudes beyond the largest number, as in XLA:CPU",
    ),
];

#[test]
fn programs_of_stablehlo_pass_their_checks() {
    let Some(folder) = std::env::var_os("TEGULA_STABLEHLO").map(PathBuf::from) else {
        println!("skipped: TEGULA_STABLEHLO is not set");
        return;
    };
    let mut files = Vec::new();
    for part in ["testdata", "tests/interpret", "tests/math"] {
        texts(&folder.join("stablehlo").join(part), &mut files);
    }
    files.sort();
    let only = std::env::var("TEGULA_ONLY").unwrap_or_default();
    let (mut passed, mut failed) = (0, BTreeMap::<String, Vec<String>>::new());
    for file in files.iter().filter(|f| f.to_string_lossy().contains(&only)) {
        let text = std::fs::read_to_string(file).expect("a text");
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        for function in checked_functions(&text) {
            let results = TARGETS.map(|target| (target, function.run(target, UNITS)));
            match results.into_iter().find(|(_, result)| result.is_err()) {
                Some((target, Err(error))) => {
                    let cause = format!("{target:?}: {error}");
                    let place = format!("{name}:{}", function.name);
                    failed.entry(cause).or_default().push(place);
                }
                _ => passed += 1,
            }
        }
    }
    let refused: usize = failed.values().map(Vec::len).sum();
    println!("{passed} functions pass their checks, {refused} do not");
    let mut unexpected = 0;
    for (cause, places) in &failed {
        let is_expected = |place: &String| {
            let line = format!("{place}: {cause}");
            EXPECTED.iter().any(|(known, _)| line.contains(known))
        };
        if !places.iter().all(is_expected) {
            unexpected += 1;
            println!("{} {cause}: {}", places.len(), places[0]);
        }
    }
    assert_eq!(unexpected, 0, "causes that are not expected");
}

fn texts(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => texts(&path, files),
            false if path.extension().is_some_and(|end| end == "mlir") => files.push(path),
            false => {}
        }
    }
}
