//! The symbols that the library defines and needs.

use crate::api::library_path;
use std::process::Command;

fn symbols(which: &str) -> Option<Vec<String>> {
    let output = Command::new("nm")
        .args(["-D", which])
        .arg(library_path())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).expect("names");
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    Some(names.map(str::to_owned).collect())
}

#[test]
fn only_our_functions_are_exported_and_nothing_of_python_is_wanted() {
    // Without binutils, there is no way to find the symbols.
    let (Some(given), Some(wanted)) = (symbols("--defined-only"), symbols("--undefined-only"))
    else {
        return;
    };
    assert!(given.contains(&"GetPjrtApi".to_owned()), "{given:?}");
    let others: Vec<&String> = given
        .iter()
        .filter(|name| *name != "GetPjrtApi" && !name.starts_with("tegula_"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let python: Vec<&String> = wanted
        .iter()
        .filter(|name| name.starts_with("Py") || name.starts_with("_Py"))
        .collect();
    assert!(python.is_empty(), "{python:?}");
}
