//! Reading files.

use crate::{Error, ErrorKind};
use std::fs;
use std::path::Path;
use tegula_stablehlo::Bytes;

/// The maximum size of a program file: 4 GiB, most of which are constants.
const MAX_PROGRAM: u64 = 1 << 32;
/// The size in bytes from which a file is mapped, so that weights in it are never copied.
const MAPPED: u64 = 16 << 20;

/// Reads a file. A large file is mapped, so it must not be truncated while it is in use.
///
/// # Errors
/// The file does not exist, is a folder, is larger than 4 GiB, or cannot be read.
pub fn read_file(path: &Path) -> Result<Bytes, Error> {
    let input = |message| Error::new(ErrorKind::Input, message);
    let unreadable =
        |error: std::io::Error| input(format!("{} cannot be read: {error}", path.display()));
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        let message = format!("{} is a folder, not a program", path.display());
        return Err(input(message));
    }
    if metadata.len() > MAX_PROGRAM {
        let message = format!("{} is larger than 4 GiB", path.display());
        return Err(Error::new(ErrorKind::Limit, message));
    }
    if !metadata.is_file() || metadata.len() < MAPPED {
        return Ok(Bytes::from(fs::read(path).map_err(unreadable)?));
    }
    let file = fs::File::open(path).map_err(unreadable)?;
    // SAFETY: the mapping is read as bytes, for which any value is valid. If the file is truncated
    // while it is in use, a signal ends the process, as with any tool that maps its input.
    let mapping = unsafe { memmap2::Mmap::map(&file) }.map_err(unreadable)?;
    Ok(Bytes::new(mapping))
}
