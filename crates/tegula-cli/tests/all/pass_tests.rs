//! Checks that every transform of the pipeline has file tests.

use std::path::Path;
use std::process::Command;

/// Passes that translate between two program forms. They need no file tests of their own: every run
/// tests them, and the tests of transforms show their output.
const TRANSLATIONS: &[&str] = &[
    "flatten",
    "choose-layouts",
    "emit-kernels",
    "build-plan",
    "lower-to-clif",
];

/// The minimum number of tests of a pass: one in which it applies, one in which it does not, and
/// one at the boundary.
const AT_LEAST: usize = 3;

#[test]
fn every_transform_has_three_file_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join("tests/filetests/compile/passes.hlo");
    let output = Command::new(env!("CARGO_BIN_EXE_tegula"))
        .args(["compile", "--passes"])
        .arg(program)
        .output()
        .expect("the program starts");
    let passes = String::from_utf8(output.stdout).expect("names");
    let folders = ["tests/filetests/passes", "crates/codegen-cpu/filetests"];
    let count = |pass: &str| -> usize {
        let files = folders
            .iter()
            .map(|folder| std::fs::read_dir(root.join(folder).join(pass)));
        files.flatten().map(Iterator::count).sum()
    };
    let few: Vec<&str> = passes
        .lines()
        .filter(|pass| !TRANSLATIONS.contains(pass) && count(pass) < AT_LEAST)
        .collect();
    assert!(
        passes.lines().count() > TRANSLATIONS.len(),
        "no passes: {passes}"
    );
    assert!(
        few.is_empty(),
        "fewer than {AT_LEAST} file tests: {}",
        few.join(", ")
    );
}
