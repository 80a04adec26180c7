//! Writes the files of a command atomically: each appears complete or not at all.
//!
//! The contents are written to a temporary file beside the target, which is renamed at the end. If
//! the target exists and is not a regular file, such as `/dev/stdout`, it is written directly.

use anyhow::Context;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The temporary file that is being written.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

fn unfinished(path: Option<PathBuf>) -> Option<PathBuf> {
    let mut known = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *known, path)
}

/// Removes the incomplete file before the process ends.
pub(crate) fn remove_unfinished() {
    if let Some(path) = unfinished(None) {
        // A failure is ignored: there is nowhere to report it.
        let _ = std::fs::remove_file(path);
    }
}

/// Writes bytes to a file.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    write_with(path, |file| Ok(file.write_all(bytes.as_ref())?))
}

/// Writes a file whose contents the function `content` writes.
pub(crate) fn write_with(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let written = match path.metadata() {
        Ok(known) if !known.is_file() => fill(path, content),
        _ => replace(path, content),
    };
    written.with_context(|| format!("{} cannot be written", path.display()))
}

fn replace(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Symbolic links are kept: the file that they lead to is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(format!(".part-{}", std::process::id()));
    let beside = path.with_file_name(name);
    unfinished(Some(beside.clone()));
    let done = fill(&beside, content).and_then(|()| Ok(std::fs::rename(&beside, &path)?));
    if done.is_err() {
        remove_unfinished();
    }
    unfinished(None);
    done
}

fn fill(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    content(&mut file)?;
    Ok(file.flush()?)
}
