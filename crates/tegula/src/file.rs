//! The contents of files.

use crate::{Error, ErrorKind};
use std::fs;
use std::path::Path;
use tegula_stablehlo::Bytes;

/// The largest program that is read: 4 GiB, most of which are constants.
const MAX_PROGRAM: u64 = 1 << 32;
/// Files of so many bytes are mapped: weights in them are never copied.
const MAPPED: u64 = 16 << 20;

/// The content of a file. A large one is mapped, so it must not be shortened while it is in use.
///
/// # Errors
/// There is no such file, it is a folder, it has more than 4 GiB, or it cannot be read.
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
    // SAFETY: a mapping is read as bytes, which are valid whatever they are. Whoever shortens a
    // file while a program is read from it ends this process with a signal, as with any tool that
    // maps its input.
    let mapping = unsafe { memmap2::Mmap::map(&file) }.map_err(unreadable)?;
    Ok(Bytes::new(mapping))
}
