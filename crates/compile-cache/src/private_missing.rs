//! Systems without Unix's owners and modes, such as WebAssembly: no folder is known to be private,
//! so there is no cache.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

fn unsupported<T>() -> Result<T> {
    let message = "caches of machine code need Unix's file modes";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Returns an error.
pub(crate) fn create_folder(_: &Path) -> Result<()> {
    unsupported()
}

/// Returns an error.
pub(crate) fn open_entry(_: &Path) -> Result<File> {
    unsupported()
}

/// Returns an error.
pub(crate) fn write_new(_: &Path, _: &[u8]) -> Result<()> {
    unsupported()
}

/// No file or folder is known to be private on this system.
pub(crate) fn is_private(_: &Metadata) -> bool {
    false
}
