//! Files and folders that this user alone can write to.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{Result, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Makes a folder, and those around it, where they are missing.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

/// Opens a file for reading: not through a link, and without waiting, should it be no file.
pub(crate) fn open_entry(path: &Path) -> Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Writes a file that is not there yet.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    // Whatever the user's mask takes away or leaves.
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Whether something belongs to this user and nobody else can write to it.
pub(crate) fn is_private(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}
