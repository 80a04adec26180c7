//! Reading and printing: every program comes back as it was.
//!
//! The small programs lie in `tests/data/hlo` at the root of the repository;
//! `TEGULA_CORPUS` names a folder of more.

use std::path::{Path, PathBuf};
use tegula_ir::{PrintStyle, parse_module, print_module};

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
