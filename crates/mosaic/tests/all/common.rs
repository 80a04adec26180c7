//! Kernels to test with.

use std::path::{Path, PathBuf};

/// The folder of the kernels that are not part of the project, if it is there.
pub(crate) fn outside() -> Option<PathBuf> {
    std::env::var_os("TEGULA_PALLAS").map(PathBuf::from)
}

/// All files of a name below a folder.
pub(crate) fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|own| own == name) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
