//! Builds the C and C++ examples, which contain a compiled model, with their Makefile and runs
//! them.

use std::path::Path;
use std::process::Command;

#[test]
fn they_are_built_and_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_examples");
    let _ = std::fs::remove_dir_all(&build);
    let output = Command::new("make")
        .arg("-C")
        .arg(examples)
        .arg(format!("BUILD={}", build.display()))
        .arg(format!("TEGULA={}", env!("CARGO_BIN_EXE_tegula")))
        .output()
        .expect("make is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    for line in [
        "attention, batch 7: the same as one by one",
        "batch -1: p0_d0 is not between 0 and 2147483647",
        "image 1: class",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}
