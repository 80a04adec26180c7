//! Kernels with a known bug, and the same kernels without it: every bug is found with its code and
//! line, and correct kernels have no finding.
//!
//! The head of a file states what is expected, one finding a line: `// expect: TG040 line 12`, or
//! `// expect: nothing`. `// chip: v5e` names the chip; `// input 0: 3 1 2`, `iota` or `zeros`
//! states an input, which is pseudo-random otherwise.

use crate::common::{expectations, folder, load, run};
use std::collections::BTreeSet;
use tegula_sim_tpu::{Code, PrintForm, print_kernel, read_kernel};

fn kernels(kind: &str) -> Vec<(String, String)> {
    let mut files: Vec<_> = std::fs::read_dir(folder().join(kind))
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "kernel"))
        .collect();
    files.sort();
    let name = |path: &std::path::Path| {
        let stem = path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    };
    files.iter().map(|path| (name(path), load(path))).collect()
}

/// The codes and lines of the findings, or the error.
fn found(text: &str, functional: bool) -> Result<BTreeSet<(String, u32)>, String> {
    let report = run(text, functional)?;
    let findings = report.findings.iter();
    Ok(findings
        .map(|f| (f.code.name().to_owned(), f.line))
        .collect())
}

#[test]
fn every_bug_is_found_at_its_line() {
    let mut failures = Vec::new();
    let bugs = kernels("bugs");
    for (name, text) in &bugs {
        let expected = expectations(text);
        assert!(!expected.is_empty(), "{name} states nothing to expect");
        match found(text, true) {
            Ok(found) if found == expected => {}
            Ok(found) => failures.push(format!("{name}: expected {expected:?}, found {found:?}")),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let mut failures = Vec::new();
    for (name, text) in kernels("clean") {
        for functional in [true, false] {
            match run(&text, functional) {
                Ok(report) if report.findings.is_empty() => {
                    let valued = functional && !text.contains("// needs: no values");
                    if valued && report.results.is_empty() {
                        failures.push(format!("{name}: no result"));
                    }
                }
                Ok(report) => failures.push(format!("{name}: {:#?}", report.findings)),
                Err(error) => failures.push(format!("{name}: {error}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn without_values_the_same_is_found_but_for_what_needs_them() {
    let mut failures = Vec::new();
    for (name, text) in kernels("bugs") {
        let mut expected = expectations(&text);
        if text.contains("// needs: values") {
            continue;
        }
        expected.retain(|(code, _)| code != Code::Padding.name());
        match found(&text, false) {
            Ok(found) if found == expected => {}
            Ok(found) => failures.push(format!("{name}: expected {expected:?}, found {found:?}")),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A grid is equivalent to its expansion: findings, results and time are the same.
#[test]
fn grids_are_what_they_expand_to() {
    for (name, text) in kernels("clean") {
        let program = read_kernel(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expanded = print_kernel(&program, PrintForm::Expanded);
        let short = run(&text, true).unwrap_or_else(|error| panic!("{name}: {error}"));
        let heads: String = text
            .lines()
            .filter(|l| l.starts_with("//"))
            .map(|l| format!("{l}\n"))
            .collect();
        let long = run(&format!("{heads}{expanded}"), true);
        let long = long.unwrap_or_else(|error| panic!("{name}: {error}\n{expanded}"));
        assert_eq!(long.findings, [], "{name}");
        assert_eq!(short.results, long.results, "{name}");
        assert_eq!(short.seconds.to_bits(), long.seconds.to_bits(), "{name}");
        assert_eq!(short.copied_bytes, long.copied_bytes, "{name}");
    }
}

/// The content beyond an array's edge changes no result of a correct kernel.
#[test]
fn results_do_not_depend_on_padding() {
    for (name, text) in kernels("clean") {
        if text.contains("// needs: no values") {
            continue;
        }
        let first = crate::common::run_filled(&text, 0xff);
        let first = first.unwrap_or_else(|error| panic!("{name}: {error}"));
        for fill in [0, 1, 0x3f] {
            let other = crate::common::run_filled(&text, fill);
            let other = other.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(first.results, other.results, "{name}");
        }
    }
}

#[test]
fn every_code_has_a_kernel() {
    let bugs = kernels("bugs");
    let seen: BTreeSet<String> = bugs
        .iter()
        .flat_map(|(_, text)| expectations(text))
        .map(|(code, _)| code)
        .collect();
    // Only Pallas kernels contain assertions; `pallas.rs` tests one.
    let of_texts = Code::ALL.iter().filter(|code| **code != Code::CheckFailed);
    for code in of_texts {
        assert!(seen.contains(code.name()), "no kernel has {}", code.name());
    }
    assert!(bugs.len() >= 60, "{} kernels with bugs", bugs.len());
    assert!(kernels("clean").len() >= 60);
}

#[test]
fn what_is_printed_reads_back() {
    for kind in ["bugs", "clean"] {
        for (name, text) in kernels(kind) {
            let program = read_kernel(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            for form in [PrintForm::Short, PrintForm::Expanded] {
                let printed = print_kernel(&program, form);
                let again = read_kernel(&printed);
                let again = again.unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
                assert_eq!(print_kernel(&again, form), printed, "{name}");
            }
        }
    }
}
