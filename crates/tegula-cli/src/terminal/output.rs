//! Prints to standard output and standard error, and remembers failed writes.
//!
//! A reader that closes the pipe early (`tegula ... | head`) causes no error. Any other failure,
//! such as a full disk, is remembered and reported once, when the command ends.

use std::fmt::Arguments;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tegula_ir::Literal;

/// Writes named arrays to an npz file.
pub(crate) fn write_npz_file(path: &Path, named: &[(String, &Literal)]) -> anyhow::Result<()> {
    super::result_file::write_with(path, |file| {
        let arrays = named
            .iter()
            .map(|(name, literal)| (name.as_str(), *literal));
        Ok(tegula::npz::write_npz(file, arrays)?)
    })
}

/// The first failed write.
static FAILED: Mutex<Option<Error>> = Mutex::new(None);

/// Remembers a failed write.
pub(crate) fn note(result: Result<()>) {
    let Err(error) = result else {
        return;
    };
    if error.kind() != ErrorKind::BrokenPipe {
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
    }
}

/// Prints a line to standard output.
pub(crate) fn line(text: Arguments<'_>) {
    super::progress::clear();
    note(writeln!(anstream::stdout(), "{text}"));
}

/// Prints a line to standard error. A failure of that is ignored, because there is nowhere to
/// report it.
pub(crate) fn complain(text: Arguments<'_>) {
    super::progress::clear();
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Flushes standard output and returns the first failure of all writes.
fn finish() -> Result<()> {
    note(std::io::stdout().flush());
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    failed.take().map_or(Ok(()), Err)
}

/// Reports that standard output could not be written; returns the exit code in that case.
pub(crate) fn report() -> Option<u8> {
    let error = finish().err()?;
    complain(format_args!(
        "error: standard output cannot be written: {error}"
    ));
    Some(crate::exit_code::BAD_USAGE)
}
