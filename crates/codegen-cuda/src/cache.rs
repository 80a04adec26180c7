//! Compiled programs on disk, by everything that they depend on.
//!
//! An entry holds its whole key, which is compared: two programs never share one
//! because of a hash. A cache that cannot be read or written is no cache and no
//! error. It is in the folder that `TEGULA_CACHE` names (empty: there is none), or
//! `tegula` in the user's folder of caches. Where entries take more than a gigabyte
//! together, those that were not used for longest are removed until they take half of it.

use crate::error::Error;
use crate::nvrtc::{Arch, Compiler, Form};
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes of all entries together, and of what is left where they take more.
const MOST: u64 = 1 << 30;
const KEPT: u64 = MOST / 2;

/// Compiles a source, or finds what it was compiled to before.
///
/// # Errors
/// As [`Compiler::compile`].
pub(crate) fn compile(
    compiler: &Compiler,
    source: &str,
    arch: Arch,
    form: Form,
) -> Result<Vec<u8>, Error> {
    let Some(folder) = folder() else {
        return compiler.compile(source, arch, form);
    };
    compile_in(&folder, compiler, source, arch, form)
}

fn compile_in(
    folder: &Path,
    compiler: &Compiler,
    source: &str,
    arch: Arch,
    form: Form,
) -> Result<Vec<u8>, Error> {
    let key = key(compiler, source, arch, form);
    let path = folder.join(file_name(&key));
    if let Some(found) = read(&path, &key) {
        tracing::debug!(path = %path.display(), "found in the cache");
        note_use(&path);
        return Ok(found);
    }
    let compiled = compiler.compile(source, arch, form)?;
    if let Err(error) = write(&path, &key, &compiled) {
        tracing::debug!(path = %path.display(), %error, "the cache cannot be written");
    } else if let Err(error) = trim(folder, MOST, KEPT) {
        tracing::debug!(folder = %folder.display(), %error, "the cache cannot be trimmed");
    }
    Ok(compiled)
}

fn folder() -> Option<PathBuf> {
    match std::env::var_os("TEGULA_CACHE") {
        Some(named) if named.is_empty() => None,
        Some(named) => Some(named.into()),
        None => {
            let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
            Some(own?.join("tegula"))
        }
    }
}

fn key(compiler: &Compiler, source: &str, arch: Arch, form: Form) -> Vec<u8> {
    let (major, minor) = compiler.version();
    let options = Compiler::options(arch, form).join(" ");
    format!("nvrtc {major}.{minor}\n{options}\n{source}").into_bytes()
}

fn file_name(key: &[u8]) -> String {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    format!("{:016x}-{:x}.nvrtc", hasher.finish(), key.len())
}

/// An entry is the length of the key in eight bytes, the key, and the result.
fn read(path: &Path, key: &[u8]) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (known, result) = rest.split_at_checked(length)?;
    (known == key && !result.is_empty()).then(|| result.to_vec())
}

/// Writes beside the place and renames, so that no reader sees a part.
fn write(path: &Path, key: &[u8], result: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut bytes = Vec::with_capacity(8 + key.len() + result.len());
    bytes.extend_from_slice(&(key.len() as u64).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(result);
    let beside = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&beside, bytes)?;
    std::fs::rename(&beside, path).inspect_err(|_| {
        // A part that stays behind does no harm.
        let _ = std::fs::remove_file(&beside);
    })
}

/// An entry's time is that of its last use.
fn note_use(path: &Path) {
    let file = std::fs::File::options().append(true).open(path);
    if let Err(error) = file.and_then(|file| file.set_modified(SystemTime::now())) {
        tracing::debug!(path = %path.display(), %error, "the entry's time cannot be set");
    }
}

/// Removes entries, those that were not used for longest first, until they take no more
/// than `kept` bytes, if they take more than `most`.
fn trim(folder: &Path, most: u64, kept: u64) -> std::io::Result<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // What another process wrote in part and left behind is an entry, too.
        let ours = path
            .extension()
            .is_some_and(|end| end == "nvrtc" || end == "part");
        // Another process may have removed it.
        if let Ok(known) = path.metadata()
            && ours
            && known.is_file()
        {
            entries.push((known.modified()?, known.len(), path));
        }
    }
    let mut all: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    if all <= most {
        return Ok(());
    }
    entries.sort();
    for (_, bytes, path) in entries {
        if all <= kept {
            break;
        }
        // An open file stays readable to whoever reads it.
        std::fs::remove_file(&path)?;
        all -= bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_by_its_whole_key() {
        let folder = std::env::temp_dir().join(format!("tegula-cache-test-{}", std::process::id()));
        let path = folder.join("entry.nvrtc");
        write(&path, b"key", b"result").unwrap();
        assert_eq!(read(&path, b"key"), Some(b"result".to_vec()));
        assert_eq!(read(&path, b"other"), None);
        std::fs::write(&path, [255u8; 9]).unwrap();
        assert_eq!(read(&path, b"key"), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn entries_that_were_not_used_for_longest_are_removed() {
        let folder = std::env::temp_dir().join(format!("tegula-cache-trim-{}", std::process::id()));
        let paths: Vec<PathBuf> = (0..5).map(|i| folder.join(format!("{i}.nvrtc"))).collect();
        for (age, path) in paths.iter().enumerate() {
            write(path, b"key", &[1; 100]).unwrap();
            let time = SystemTime::now() - std::time::Duration::from_secs(1000 + age as u64);
            let file = std::fs::File::options().append(true).open(path).unwrap();
            file.set_modified(time).unwrap();
        }
        let other = folder.join("another.file");
        std::fs::write(&other, [0; 1000]).unwrap();
        // An entry takes 111 bytes. The oldest was used now.
        note_use(&paths[4]);
        trim(&folder, 600, 300).unwrap();
        assert!(paths.iter().all(|path| path.exists()), "not yet");
        trim(&folder, 500, 300).unwrap();
        let left: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [true, false, false, false, true]);
        assert!(other.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
