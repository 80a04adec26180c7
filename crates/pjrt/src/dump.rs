//! Copies of the programs that arrive, for `tegula` on the command line and for reports of errors: what
//! JAX sends differs from what `lower().as_text()` prints.

use crate::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable that names the folder.
const VARIABLE: &str = "TEGULA_DUMP";

/// Writes a program's code to a file of its own, if the environment names a folder.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn dump(format: &str, code: &[u8]) -> Result<(), Error> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) else {
        return Ok(());
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let file = std::path::Path::new(&folder).join(format!("{process}-{number:04}.{format}"));
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&file, code))
        .map_err(|error| {
            let file = file.display();
            Error::invalid(format!("{VARIABLE}: cannot write `{file}`: {error}"))
        })
}
