//! Builds the Rust example, which contains a model compiled by its build script, and runs it.

use std::path::Path;
use std::process::Command;

#[test]
fn it_is_built_and_runs() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rust");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust_example");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--offline", "--locked", "--quiet", "--manifest-path"])
        .arg(example.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(build)
        .env("TEGULA", env!("CARGO_BIN_EXE_tegula"))
        .output()
        .expect("cargo is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    for line in ["batch 5: the same as one by one", "batch -1: status 1"] {
        assert!(said.contains(line), "{line}: {said}");
    }
}
