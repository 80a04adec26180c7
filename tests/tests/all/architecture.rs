//! The structure of the code: which crate imports which, and that files import each other in no
//! circle.
//!
//! A circle of files is one that is left when imports between a module and those inside it are
//! not counted: a parent may use its children, and they what it shares with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// By crate, the crates of this workspace that it may import.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("expr", &[]),
    ("arena", &[]),
    ("ir", &["arena", "expr"]),
    ("target", &["ir"]),
    ("compile-cache", &[]),
    ("limits", &[]),
    ("linalg", &["ir", "limits", "target"]),
    ("rt", &[]),
    ("stablehlo", &["expr", "ir"]),
    ("import-onnx", &["expr", "ir"]),
    ("devices", &["ir"]),
    ("mosaic", &["arena", "stablehlo"]),
    ("scalar", &["ir"]),
    ("custom-call", &["ir", "linalg", "scalar"]),
    (
        "interp",
        &["arena", "custom-call", "devices", "ir", "limits", "scalar"],
    ),
    ("indexing", &["expr", "ir"]),
    ("partition", &["expr", "indexing", "ir"]),
    (
        "fusion",
        &["arena", "devices", "expr", "indexing", "ir", "scalar"],
    ),
    ("plan", &["arena", "expr", "fusion", "ir"]),
    (
        "plan-interp",
        &[
            "custom-call",
            "expr",
            "fusion",
            "interp",
            "ir",
            "plan",
            "scalar",
            "limits",
        ],
    ),
    (
        "layout",
        &["arena", "expr", "fusion", "indexing", "ir", "target"],
    ),
    (
        "tpu-schedule",
        &["expr", "fusion", "indexing", "ir", "layout", "target"],
    ),
    (
        "codegen-cpu",
        &[
            "custom-call",
            "expr",
            "fusion",
            "ir",
            "linalg",
            "plan",
            "rt",
            "scalar",
            "target",
            "limits",
        ],
    ),
    (
        // What a GPU has no function for is evaluated on the host.
        "codegen-cuda",
        &[
            "compile-cache",
            "custom-call",
            "expr",
            "fusion",
            "ir",
            "plan",
            "plan-interp",
            "scalar",
            "sim-ptx",
            "limits",
        ],
    ),
    ("sim-ptx", &["limits"]),
    ("sim-cuda", &["sim-ptx"]),
    (
        // What a computation on a slice gives is the reference evaluator's to say.
        "sim-tpu",
        &[
            "arena", "expr", "indexing", "interp", "ir", "layout", "mosaic", "scalar", "target",
            "limits",
        ],
    ),
    (
        "codegen-tpu",
        &[
            "expr",
            "fusion",
            "indexing",
            "ir",
            "layout",
            "sim-tpu",
            "target",
            "tpu-schedule",
        ],
    ),
    (
        "sim-slice",
        &["devices", "fusion", "ir", "layout", "target"],
    ),
    (
        "draw",
        &[
            "expr",
            "indexing",
            "ir",
            "layout",
            "sim-slice",
            "sim-tpu",
            "target",
        ],
    ),
    (
        // As the command line, it looks at what the facade and the crates below it give.
        "explorer",
        &[
            "codegen-cpu",
            "draw",
            "expr",
            "fusion",
            "indexing",
            "ir",
            "layout",
            "plan",
            "scalar",
            "sim-tpu",
            "target",
            "tpu-schedule",
        ],
    ),
    ("pjrt", &["custom-call", "ir", "stablehlo"]),
];

/// A module's path inside its crate.
type ModulePath = Vec<String>;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

#[test]
fn crates_import_what_they_may() {
    for (name, allowed) in MAY_IMPORT {
        let manifest = crates().join(name).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).expect("the manifest is there");
        let text = text.split("\n[dependencies]").nth(1).unwrap_or_default();
        let text = text.split("\n[").next().unwrap_or_default();
        let imported = text.lines().filter_map(|line| {
            let name = line.strip_prefix("tegula-")?;
            name.split(['.', ' ']).next()
        });
        for other in imported {
            assert!(
                allowed.contains(&other),
                "crates/{name} imports crates/{other}: change the design before MAY_IMPORT"
            );
        }
    }
}

/// Crates whose library has no tests say so (`test = false`), and cargo does not compile them once more.
#[test]
fn libraries_without_tests_say_so() {
    for (name, _) in MAY_IMPORT {
        let folder = crates().join(name);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a crate");
        let says_so = manifest.contains("\n[lib]\ntest = false\n");
        let mut files = BTreeMap::new();
        collect(&folder.join("src"), &mut Vec::new(), &mut files);
        files.insert(Vec::new(), folder.join("src/lib.rs"));
        let has_tests = files.values().any(|file| {
            let text = std::fs::read_to_string(file).expect("a file");
            text.contains("#[test]")
        });
        let expected = match has_tests {
            true => "there are tests in src: delete `test = false` in its Cargo.toml",
            false => "there are no tests in src: expected `test = false` in its Cargo.toml",
        };
        assert_ne!(has_tests, says_so, "crates/{name}: {expected}");
    }
}

#[test]
fn files_import_each_other_in_no_circle() {
    let mut found = Vec::new();
    for (name, _) in MAY_IMPORT {
        let source = crates().join(name).join("src");
        assert!(
            source.join("lib.rs").is_file(),
            "crates/{name} has no files"
        );
        let imports = imports_of(&source);
        for circle in circles(&imports) {
            let all: Vec<String> = circle.iter().map(|path| path.join("::")).collect();
            found.push(format!("crates/{name}: {}", all.join(", ")));
        }
    }
    assert!(found.is_empty(), "circles of files:\n{}", found.join("\n"));
}

/// The imports of each module of a crate, but for tests and between a module and those inside it.
fn imports_of(root: &Path) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let mut files = BTreeMap::new();
    collect(root, &mut Vec::new(), &mut files);
    let modules: BTreeSet<ModulePath> = files.keys().cloned().collect();
    let is_test = |path: &ModulePath| {
        let tests = [
            "tests",
            "filetests",
            "test_harness",
            "interpreter",
            "emulated",
        ];
        path.iter().any(|part| tests.contains(&part.as_str()))
    };
    let mut imports = BTreeMap::new();
    for (path, file) in &files {
        let mut own = BTreeSet::new();
        if !is_test(path) {
            let text = std::fs::read_to_string(file).expect("it can be read");
            let text = text
                .split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
            for named in paths_in(text) {
                let Some(absolute) = absolute(path, &named, &modules) else {
                    continue;
                };
                let module = (1..=absolute.len()).rev().map(|n| absolute[..n].to_vec());
                let module = module.into_iter().find(|module| modules.contains(module));
                own.extend(module.filter(|m| !m.starts_with(path) && !path.starts_with(m)));
            }
        }
        imports.insert(path.clone(), own);
    }
    imports
}

fn collect(folder: &Path, path: &mut ModulePath, files: &mut BTreeMap<ModulePath, PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let file = entry.path();
        let stem = file
            .file_stem()
            .and_then(|s| s.to_str())
            .unwrap_or_default();
        if file.is_dir() {
            path.push(stem.to_owned());
            collect(&file, path, files);
            path.pop();
        } else if file.extension().is_some_and(|e| e == "rs") && !["lib", "main"].contains(&stem) {
            let mut module = path.clone();
            if stem != "mod" {
                module.push(stem.to_owned());
            }
            files.insert(module, file);
        }
    }
}

/// Every path that a file names from `crate`, `super` or one of its own modules: imports written
/// out, one by one.
fn paths_in(text: &str) -> Vec<Vec<String>> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut paths = Vec::new();
    let mut rest = String::new();
    let mut left = text.as_str();
    while let Some(at) = left.find("use ") {
        let begins = left[..at].ends_with(['\n', ' ', '\t']) || at == 0;
        let Some(end) = left[at..].find(';').filter(|_| begins) else {
            rest.push_str(&left[..at + 4]);
            left = &left[at + 4..];
            continue;
        };
        rest.push_str(&left[..at]);
        tree(&[], &left[at + 4..at + end], &mut paths);
        left = &left[at + end..];
    }
    rest.push_str(left);
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for word in rest.split(|c: char| !is_path(c)) {
        let parts: Vec<String> = word.split("::").map(str::to_owned).collect();
        if parts.len() > 1 {
            paths.push(parts);
        }
    }
    paths
}

/// The paths of a tree of imports.
fn tree(before: &[String], text: &str, out: &mut Vec<Vec<String>>) {
    let text = text.trim();
    let (head, inner) = match text.split_once('{') {
        Some((head, inner)) => (head, inner.strip_suffix('}')),
        None => (text.split(" as ").next().unwrap_or(text), None),
    };
    let mut path = before.to_vec();
    let parts = head
        .split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty());
    path.extend(parts.map(str::to_owned));
    let Some(inner) = inner else {
        out.push(path);
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                tree(&path, &inner[start..at], out);
                start = at + 1;
            }
            _ => {}
        }
    }
    tree(&path, &inner[start..], out);
}

/// A path from the crate's root, if it leads to something of this crate.
fn absolute(
    from: &ModulePath,
    named: &[String],
    modules: &BTreeSet<ModulePath>,
) -> Option<ModulePath> {
    let supers = named.iter().take_while(|part| *part == "super").count();
    match named.first()?.as_str() {
        "crate" => Some(named[1..].to_vec()),
        "self" => Some([&from[..], &named[1..]].concat()),
        "super" => {
            let around = from.get(..from.len().checked_sub(supers)?)?;
            Some([around, &named[supers..]].concat())
        }
        first => {
            let own = [&from[..], &[first.to_owned()]].concat();
            let child = modules.contains(&own);
            child.then(|| [&from[..], named].concat())
        }
    }
}

/// The circles of modules, each in order: groups of which every one leads to every other.
fn circles(imports: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> Vec<Vec<ModulePath>> {
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = imports
        .keys()
        .map(|start| {
            let mut seen = BTreeSet::new();
            let mut next: Vec<&ModulePath> = imports[start].iter().collect();
            while let Some(module) = next.pop() {
                if seen.insert(module) {
                    next.extend(&imports[module]);
                }
            }
            (start, seen)
        })
        .collect();
    let mut done = BTreeSet::new();
    let mut circles = Vec::new();
    for (&start, seen) in &reached {
        if !seen.contains(start) || done.contains(start) {
            continue;
        }
        let back = seen.iter().filter(|other| reached[*other].contains(start));
        let circle: Vec<ModulePath> = back.map(|&module| module.clone()).collect();
        done.extend(circle.iter().cloned());
        circles.push(circle);
    }
    circles
}
