//! Pallas kernels on the simulated core: the kernels of `examples/pallas/kernels.py`, lowered by
//! JAX, with the results of numpy, and the same kernels with one mistake each.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tegula::npz::read_npz;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pallas/lowered")
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(data()).expect("the kernels are there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let kernels = paths.filter(|path| path.extension().is_some_and(|end| end == "mlir"));
    let names = kernels.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Simulates a kernel. Returns its report, and the largest difference of its results from numpy's
/// relative to the largest element.
fn simulate(name: &str) -> (Value, Option<f64>) {
    let (kernel, arrays) = (
        data().join(format!("{name}.mlir")),
        data().join(format!("{name}.npz")),
    );
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pallas_{name}.npz"));
    let _ = std::fs::remove_file(&out);
    let devices = if name == "all_gather" { "4" } else { "1" };
    let output = Command::new(env!("CARGO_BIN_EXE_tegula"))
        .args(["--json", "simulate", "--devices", devices])
        .arg(&kernel)
        .arg("--inputs")
        .arg(&arrays)
        .arg("--outputs")
        .arg(&out)
        .output()
        .expect("tegula runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = said
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = report.unwrap_or_else(|| panic!("{name}: {said}{errors}"));
    let Ok(results) = std::fs::read(&out) else {
        return (report, None);
    };
    let own = read_npz(&results).expect("the results");
    let wanted = read_npz(&std::fs::read(&arrays).expect("the arrays")).expect("the arrays");
    let mut worst: f64 = 0.0;
    for array in wanted.iter().filter(|array| array.name.starts_with("out")) {
        let own = own.iter().find(|own| own.name == array.name);
        let own = own.unwrap_or_else(|| panic!("{name} has no {}", array.name));
        assert_eq!(own.literal.shape(), array.literal.shape(), "{name}");
        let floats = |bytes: &[u8]| -> Vec<f32> {
            let words = bytes.chunks_exact(4);
            words
                .map(|w| f32::from_ne_bytes([w[0], w[1], w[2], w[3]]))
                .collect()
        };
        let (own, wanted) = (floats(own.literal.bytes()), floats(array.literal.bytes()));
        let scale = wanted
            .iter()
            .fold(0f32, |most, value| most.max(value.abs()));
        for (own, wanted) in own.iter().zip(&wanted) {
            let error = f64::from((own - wanted).abs() / scale.max(1e-30));
            worst = if error.is_nan() {
                f64::INFINITY
            } else {
                worst.max(error)
            };
        }
    }
    (report, Some(worst))
}

#[test]
fn kernels_give_numpys_results_and_mistakes_are_found_at_their_lines() {
    let source = data().join("../kernels.py");
    let source = std::fs::read_to_string(source).expect("the kernels' source");
    let names = names();
    assert!(names.len() >= 18, "{names:?}");
    for name in names {
        let expected = std::fs::read_to_string(data().join(format!("{name}.expected")));
        let expected = expected.expect("what is expected").trim().to_owned();
        let (report, error) = simulate(&name);
        let findings = report["findings"].as_array().expect("findings");
        if expected.is_empty() {
            assert!(findings.is_empty(), "{name}: {findings:#?}");
            let error = error.unwrap_or_else(|| panic!("{name} has no results"));
            assert!(error < 1e-5, "{name} is {error} off");
            continue;
        }
        let found = findings.iter().find(|finding| finding["code"] == *expected);
        let found = found.unwrap_or_else(|| panic!("{name}: no {expected} in {findings:#?}"));
        // If a mistake is in a line of its own, a comment marks that line.
        let mistake = name
            .split_once('_')
            .map_or("", |(_, rest)| rest)
            .replace('_', " ");
        let marked = source.lines().position(|line| {
            let mark = line.split_once("# here:").map(|(_, mark)| mark);
            mark.is_some_and(|mark| mark.split(',').any(|own| own.trim() == mistake))
        });
        if let Some(line) = marked {
            let lines = findings
                .iter()
                .filter(|finding| finding["code"] == *expected);
            let lines: Vec<u64> = lines
                .filter_map(|finding| finding["line"].as_u64())
                .collect();
            assert!(
                lines.contains(&(line as u64 + 1)),
                "{name}: {} not in {lines:?}",
                line + 1
            );
        }
        let file = found["file"].as_str().unwrap_or_default();
        assert!(
            expected == "TG002" || file.ends_with("kernels.py"),
            "{name}: {found}"
        );
    }
}

/// Runs the kernels of `examples/pallas/mistakes.py` and the same with one mistake each: every
/// mistake is found at its line, and a kernel without a mistake has no findings.
#[test]
fn mistakes_are_found_at_their_lines_and_kernels_without_one_are_silent() {
    let folder = data().join("../mistakes");
    let index = std::fs::read_to_string(folder.join("index.json")).expect("the index");
    let index: Value = serde_json::from_str(&index).expect("the index");
    let kernels = index.as_array().expect("a list");
    let mistakes = kernels.iter().filter(|kernel| !kernel["code"].is_null());
    assert!(mistakes.count() >= 70);
    for kernel in kernels {
        let text = |key: &str| kernel[key].as_str().unwrap_or_default().to_owned();
        let name = text("name");
        let output = Command::new(env!("CARGO_BIN_EXE_tegula"))
            .args(["--json", "simulate", "--devices"])
            .arg(kernel["devices"].to_string())
            .arg(folder.join(format!("{name}.mlir")))
            .arg("--inputs")
            .arg(folder.join(format!("{}.npz", text("kernel"))))
            .output()
            .expect("tegula runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let report = said
            .lines()
            .find_map(|line| serde_json::from_str::<Value>(line).ok());
        let report = report
            .unwrap_or_else(|| panic!("{name}: {said}{}", String::from_utf8_lossy(&output.stderr)));
        let findings = report["findings"].as_array().expect("findings");
        if kernel["code"].is_null() {
            assert!(findings.is_empty(), "{name}: {findings:#?}");
            continue;
        }
        let found = findings.iter().any(|finding| {
            finding["code"] == kernel["code"]
                && (kernel["line"].is_null() || finding["line"] == kernel["line"])
        });
        assert!(found, "{name}: expected {kernel} in {findings:#?}");
    }
}

/// The texts that a kernel prints come before the findings, each with its position.
#[test]
fn prints_of_a_kernel_are_printed() {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim-tpu/tests/pallas/says.mlir");
    let output = Command::new(env!("CARGO_BIN_EXE_tegula"))
        .args(["simulate", "--chip", "v5e"])
        .arg(kernel)
        .output()
        .expect("tegula runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].ends_with(": step 0 of 2"), "{said}");
    assert!(lines[0].starts_with("kernels.py:"), "{said}");
    let last = lines
        .iter()
        .position(|line| line.ends_with(": step 1 of 2"));
    let found = lines.iter().position(|line| line.contains("TG070"));
    assert!(last.is_some() && last < found, "{said}");
}
