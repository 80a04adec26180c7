//! Files and folders that only this user can write to.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{Result, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Creates a folder and its missing parents.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

/// Opens a file for reading. It does not follow a symbolic link, and does not block if the path is
/// not a regular file.
pub(crate) fn open_entry(path: &Path) -> Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Writes a new file.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    // Sets the mode explicitly, whatever the user's umask is.
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Whether something belongs to this user, and nobody else can write to it.
pub(crate) fn is_private(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}
