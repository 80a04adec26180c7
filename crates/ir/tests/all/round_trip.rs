//! Programs that are read and printed are unchanged.
//!
//! The small programs are in `tests/data/hlo` at the root of the repository; `TEGULA_CORPUS` names
//! a folder of more.

use std::path::{Path, PathBuf};
use tegula_ir::{PrintStyle, parse_module, print_module, verify};

fn programs() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hlo")];
    folders.extend(std::env::var_os("TEGULA_CORPUS").map(PathBuf::from));
    let mut programs = Vec::new();
    for folder in folders {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "hlo") {
                let text = std::fs::read_to_string(&path).expect("text");
                programs.push((path, text));
            }
        }
    }
    programs.sort();
    assert!(programs.len() >= 30);
    programs
}

fn style_of(text: &str) -> PrintStyle {
    match text.contains("ENTRY %") {
        true => PrintStyle::Canonical,
        false => PrintStyle::Short,
    }
}

#[test]
fn prints_what_xla_printed() {
    for (path, text) in programs() {
        let module =
            parse_module(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let printed = print_module(&module, style_of(&text));
        for (number, (ours, theirs)) in printed.lines().zip(text.lines()).enumerate() {
            assert_eq!(ours, theirs, "{}:{}", path.display(), number + 1);
        }
        assert_eq!(printed.trim_end(), text.trim_end(), "{}", path.display());
    }
}

#[test]
fn both_styles_read_back_the_same() {
    for (path, text) in programs() {
        let module = parse_module(&text).expect("reads");
        for style in [PrintStyle::Canonical, PrintStyle::Short] {
            let printed = print_module(&module, style);
            let again = parse_module(&printed)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(module.same_as(&again), "{}", path.display());
            assert_eq!(print_module(&again, style), printed, "{}", path.display());
        }
    }
}

#[test]
fn programs_verify() {
    for (path, text) in programs() {
        let module = parse_module(&text).expect("reads");
        if let Err(errors) = verify(&module) {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            panic!("{}: {}", path.display(), errors.join("\n"));
        }
    }
}

/// Removes the shapes that shape functions can infer, and expects them to be inferred.
#[test]
fn missing_shapes_are_inferred() {
    let mut inferred = 0;
    for (path, text) in programs() {
        let module = parse_module(&text).expect("reads");
        let mut short = String::new();
        for line in text.lines() {
            short.push_str(&without_shape(line).unwrap_or_else(|| line.to_owned()));
            short.push('\n');
        }
        let again =
            parse_module(&short).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (ours, theirs) in again
            .instructions
            .values()
            .zip(module.instructions.values())
        {
            let (ours, theirs) = (format!("{:#}", ours.shape), format!("{:#}", theirs.shape));
            assert_eq!(ours, theirs, "{}", path.display());
            inferred += 1;
        }
    }
    assert!(inferred > 1000);
}

fn without_shape(line: &str) -> Option<String> {
    const KEPT: &[&str] = &[
        "parameter",
        "constant",
        "iota",
        "broadcast",
        "reshape",
        "convert",
        "bitcast-convert",
        "custom-call",
        "dot",
        "convolution",
        "rng-bit-generator",
    ];
    let (name, rest) = line.split_once(" = ")?;
    let (before, _) = rest
        .split_once('(')
        .filter(|(before, _)| !before.is_empty())?;
    let (_, opcode) = before.rsplit_once(' ')?;
    let start = rest.find(&format!(" {opcode}("))?;
    match KEPT.contains(&opcode) {
        true => None,
        false => Some(format!("{name} = {}", rest.get(start + 1..)?)),
    }
}
