//! Computes an identifier of the build, because builds from different sources cannot exchange
//! compiled programs.
//!
//! Compiled programs on disk name the build that wrote them, and no other build loads them. In a
//! checkout, the identifier is a hash of the sources of all crates that take part in compilation; a
//! published crate uses its version.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The crates that take part in compiling a module to machine code.
const CRATES: [&str; 11] = [
    "codegen-cpu",
    "custom-call",
    "expr",
    "fusion",
    "indexing",
    "ir",
    "layout",
    "linalg",
    "plan",
    "scalar",
    "target",
];

fn main() {
    let mut files = vec![PathBuf::from("../../Cargo.lock")];
    for name in CRATES {
        let folder = PathBuf::from(format!("../{name}/src"));
        if folder.is_dir() {
            println!("cargo::rerun-if-changed={}", folder.display());
            collect(&folder, &mut files);
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.hash(&mut hasher);
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/executable_file.rs");
    println!("cargo::rustc-env=TEGULA_BUILD={:016x}", hasher.finish());
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
