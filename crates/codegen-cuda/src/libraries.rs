//! Finds CUDA libraries when they are first needed.
//!
//! They are searched for in the folders named by `TEGULA_CUDA_LIBS`, in `nvrtc` of the build folder
//! (`scripts/get-nvrtc` puts them there), and in the system's library folders. Building this crate
//! needs nothing of CUDA.

use libloading::Library;
use std::path::{Path, PathBuf};

/// The folders that are searched before the system's.
fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(named) = std::env::var_os("TEGULA_CUDA_LIBS") {
        folders.extend(std::env::split_paths(&named));
    }
    let build = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    folders.push(build.join("nvrtc"));
    // A test runs in its package's folder, but a program may run anywhere.
    if let Ok(program) = std::env::current_exe() {
        folders.extend(
            program
                .ancestors()
                .skip(1)
                .take(3)
                .map(|folder| folder.join("nvrtc")),
        );
    }
    if let Some(toolkit) = std::env::var_os("CUDA_HOME").or_else(|| std::env::var_os("CUDA_PATH")) {
        folders.push(Path::new(&toolkit).join("lib64"));
    }
    folders.push("/usr/local/cuda/lib64".into());
    folders
}

/// Opens the first available library of these names, the preferred one first. If none can be
/// opened, returns the last error of a file that was found, or else the system's first error.
pub(crate) fn first<T>(
    names: &[&str],
    open: impl Fn(&Path) -> Result<T, String>,
) -> Result<T, Option<String>> {
    let mut last = None;
    let folders = folders();
    let found = folders
        .iter()
        .flat_map(|folder| names.iter().map(|name| folder.join(name)));
    for path in found.filter(|path| path.exists()) {
        match open(&path) {
            Ok(library) => return Ok(library),
            Err(reason) => last = Some(format!("{}: {reason}", path.display())),
        }
    }
    for name in names {
        match open(Path::new(name)) {
            Ok(library) => return Ok(library),
            Err(reason) => last = last.or(Some(reason)),
        }
    }
    Err(last)
}

/// Looks up a function of a library.
///
/// # Safety
/// `T` must be the type of the function with this name.
pub(crate) unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: the caller promises that `T` is the type of the function with this name.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|f| *f).map_err(|e| e.to_string())
}
