//! The device functions that generated source calls.
//!
//! Each is the CUDA form of a function of `tegula_scalar`, with the same rounding. They use no
//! headers. A program includes those that its source names, and those that they depend on.

use rustc_hash::FxHashSet;

/// Definitions separated by empty lines; some depend on earlier ones.
const FILES: &[&str] = &[
    include_str!("device/vector.cuh"),
    include_str!("device/tensor.cuh"),
    include_str!("device/index.cuh"),
    include_str!("device/integer.cuh"),
    include_str!("device/float.cuh"),
    include_str!("device/trigonometry.cuh"),
    include_str!("device/half.cuh"),
    include_str!("device/narrow.cuh"),
    include_str!("device/reduce_precision.cuh"),
    include_str!("device/complex.cuh"),
    include_str!("device/complex_functions.cuh"),
];

/// The definitions that a source text needs, in a valid order.
pub(crate) fn needed(text: &str) -> String {
    let all: Vec<&str> = FILES
        .iter()
        .flat_map(|file| file.trim_end().split("\n\n"))
        .collect();
    let mut wanted: FxHashSet<&str> = names(text).collect();
    let mut kept = vec![false; all.len()];
    // Definitions depend only on earlier ones, so one backward pass finds all.
    for (definition, kept) in all.iter().zip(&mut kept).rev() {
        if defined(definition).is_some_and(|name| wanted.contains(name)) {
            *kept = true;
            wanted.extend(names(definition));
        }
    }
    let kept = all.iter().zip(kept).filter(|(_, kept)| *kept);
    kept.map(|(definition, _)| format!("{definition}\n\n"))
        .collect()
}

const PREFIX: &str = "tegula_";

/// The names of our device functions in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices(PREFIX).map(|(start, _)| start);
    starts.map(move |start| {
        let rest = &text[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// The name that a definition defines: the name of a struct, or the first name followed by an
/// opening bracket, round or square.
fn defined(definition: &str) -> Option<&str> {
    let code = definition.lines().find(|line| !line.starts_with("//"))?;
    let mut all = names(code);
    if code.contains("struct ") {
        return all.next();
    }
    all.find(|name| {
        let end = name.as_ptr() as usize - code.as_ptr() as usize + name.len();
        code[end..].starts_with(['(', '['])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_has_a_name_and_needs_only_what_stands_before_it() {
        let mut before: FxHashSet<&str> = FxHashSet::default();
        for definition in FILES.iter().flat_map(|file| file.trim_end().split("\n\n")) {
            let name = defined(definition).unwrap_or_else(|| panic!("no name: {definition}"));
            before.insert(name);
            for used in names(definition) {
                assert!(before.contains(used), "{name} needs {used}");
            }
        }
    }

    #[test]
    fn a_text_gets_what_it_names() {
        assert_eq!(needed("int x = 1;"), "");
        let text = needed("x = tegula_c_cbrt(y);");
        assert!(text.contains("tegula_c128 tegula_c_power("));
        assert!(text.contains("struct __align__(16) tegula_c128"));
        assert!(!text.contains("tegula_c_asin"));
    }
}
