//! A cache of compiled programs: a folder that several processes may use at the same time.
//!
//! An entry is identified by a [`Key`], a hash of everything that the entry depends on. A file is
//! written under a temporary name and renamed, so no process sees an incomplete file. Files contain
//! machine code, so the folder must belong to the user, and nobody else may be able to write to it.
//! The total size of all files is limited: the least recently used are removed first. A failure to
//! write an entry is only logged; the program is then compiled again.
//!
//! ```
//! use tegula_compile_cache::{Cache, Key};
//!
//! # let folder = std::env::temp_dir().join(format!("tegula-front-page-{}", std::process::id()));
//! let cache = Cache::at(&folder)?;
//! // All that the entry depends on is part of its key.
//! let key = Key::of([b"the program".as_slice(), b"the compiler's version"]);
//! assert!(cache.get(&key).is_none());
//! cache.put(&key, b"machine code");
//! assert_eq!(cache.get(&key).as_deref(), Some(b"machine code".as_slice()));
//! # std::fs::remove_dir_all(&folder).expect("the folder goes");
//! # Ok::<(), tegula_compile_cache::Error>(())
//! ```

#[cfg(unix)]
#[path = "private_unix.rs"]
mod private;
#[cfg(not(unix))]
#[path = "private_missing.rs"]
mod private;

use memmap2::Mmap;
use private::{create_folder, is_private, open_entry, write_new};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The reason why a folder cannot be a cache.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder cannot be created or examined.
    #[error("the cache {folder} cannot be opened: {cause}")]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The operating system's error.
        #[source]
        cause: std::io::Error,
    },
    /// Other users could put machine code there.
    #[error(
        "the cache {folder} is not safe for machine code: it must be a folder that you own and nobody else can write to (`chmod go-w {folder}`)"
    )]
    NotPrivate {
        /// The folder.
        folder: PathBuf,
    },
    /// The environment does not say where the user's caches are.
    #[error("no folder for the cache is known: set XDG_CACHE_HOME or HOME")]
    NoHome,
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// The key of all these parts, in this order.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().to_hex().to_string())
    }
}

/// The setting for a cache in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environment {
    /// There is no setting.
    Silent,
    /// Caching is disabled.
    Off,
    /// This cache is selected.
    On(Cache),
}

impl Environment {
    /// The selected cache, if any.
    pub fn asked(self) -> Option<Cache> {
        match self {
            Self::On(cache) => Some(cache),
            Self::Silent | Self::Off => None,
        }
    }

    /// The selected cache, or the user's without a setting.
    ///
    /// # Errors
    /// As [`Cache::of_user`].
    pub fn or_of_user(self) -> Result<Option<Cache>, Error> {
        match self {
            Self::On(cache) => Ok(Some(cache)),
            Self::Silent => Cache::of_user().map(Some),
            Self::Off => Ok(None),
        }
    }
}

/// A folder of compiled programs. See [`Cache::at`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
    most_bytes: u64,
}

/// The age of an unfinished file after which its writer is assumed to be gone.
const ABANDONED: Duration = Duration::from_secs(3600);
/// The age of a file's time stamp after which a use renews it.
const USED_AGAIN: Duration = Duration::from_secs(600);
/// The extension of program files.
const ENDING: &str = "tegula";

impl Cache {
    /// The default limit of the total size of all files, in bytes: 4 GiB.
    pub const DEFAULT_BYTES: u64 = 4 << 30;

    /// A cache in a folder. A missing folder is created, for this user only.
    ///
    /// # Errors
    /// The folder cannot be created, belongs to another user, or other users can write to it.
    pub fn at(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        let made = create_folder(&folder);
        let found = match made.and_then(|()| std::fs::metadata(&folder)) {
            Ok(found) => found,
            Err(cause) => return Err(Error::Io { folder, cause }),
        };
        if !found.is_dir() || !is_private(&found) {
            return Err(Error::NotPrivate { folder });
        }
        Ok(Self {
            folder,
            most_bytes: Self::DEFAULT_BYTES,
        })
    }

    /// The cache in the user's standard folder for caches: `$XDG_CACHE_HOME/tegula`, or
    /// `~/.cache/tegula`.
    ///
    /// # Errors
    /// As [`Self::at`]; neither `XDG_CACHE_HOME` nor `HOME` is set.
    pub fn of_user() -> Result<Self, Error> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let base = variable("XDG_CACHE_HOME").map(PathBuf::from);
        let base = base.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
        Self::at(base.ok_or(Error::NoHome)?.join("tegula"))
    }

    /// The setting for a cache in the environment: `TEGULA_CACHE` is a folder, `user` for
    /// [`Self::of_user`], or `off` (or empty) for none.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn from_environment() -> Result<Environment, Error> {
        match std::env::var_os("TEGULA_CACHE") {
            None => Ok(Environment::Silent),
            Some(value) if value.is_empty() || value == "off" => Ok(Environment::Off),
            Some(value) => Self::named(Path::new(&value)).map(Environment::On),
        }
    }

    /// The cache with a name as users write it: `user` for [`Self::of_user`], otherwise a folder.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn named(name: &Path) -> Result<Self, Error> {
        match name.as_os_str() == "user" {
            true => Self::of_user(),
            false => Self::at(name),
        }
    }

    /// The same cache with another limit of the total size of all files, in bytes. The least
    /// recently used files are removed first.
    #[must_use]
    pub fn with_limit(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The entry for a key as a mapped file, if there is one that can be trusted. The caller must
    /// check it for damage.
    pub fn get(&self, key: &Key) -> Option<Mmap> {
        let path = self.path(key);
        let file = open_entry(&path).ok()?;
        let found = file.metadata().ok()?;
        if !found.is_file() || !is_private(&found) {
            tracing::warn!("{} is not used: others can write to it", path.display());
            return None;
        }
        let age = found.modified().ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > USED_AGAIN) {
            // If this fails, the file is only removed earlier.
            let _ = file.set_modified(SystemTime::now());
        }
        // SAFETY: files in the cache are never changed: they are written under another name and
        // then renamed, and only this user can write to the folder.
        unsafe { Mmap::map(&file) }.ok()
    }

    /// The entry for a key that [`Self::put_hashed`] wrote, if it exists and is not damaged.
    pub fn get_hashed(&self, key: &Key) -> Option<Vec<u8>> {
        let entry = self.get(key)?;
        let (hash, bytes) = entry.split_first_chunk::<{ blake3::OUT_LEN }>()?;
        (blake3::hash(bytes) == *hash).then(|| bytes.to_vec())
    }

    /// Stores an entry with a hash, which detects damage.
    pub fn put_hashed(&self, key: &Key, bytes: &[u8]) {
        let hash = blake3::hash(bytes);
        self.put(key, &[hash.as_bytes(), bytes].concat());
    }

    /// Stores an entry.
    pub fn put(&self, key: &Key, bytes: &[u8]) {
        if let Err(error) = self.try_put(key, bytes) {
            tracing::warn!("{} was not written: {error}", self.path(key).display());
        }
    }

    fn try_put(&self, key: &Key, bytes: &[u8]) -> std::io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if bytes.len() as u64 > self.most_bytes {
            return Ok(());
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}.{}.{number}", key.0, std::process::id());
        let beside = self.folder.join(name);
        let written =
            write_new(&beside, bytes).and_then(|()| std::fs::rename(&beside, self.path(key)));
        if written.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        written?;
        self.shrink()
    }

    /// Removes the least recently used files until the total size is within the limit.
    fn shrink(&self) -> std::io::Result<()> {
        let mut files = Vec::new();
        let mut total = 0;
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let (path, Ok(found)) = (entry.path(), entry.metadata()) else {
                continue;
            };
            let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if path.extension().is_some_and(|ending| ending == ENDING) {
                total += found.len();
                files.push((used, found.len(), path));
            } else if used.elapsed().is_ok_and(|age| age > ABANDONED) && is_unfinished(&path) {
                let _ = std::fs::remove_file(&path);
            }
        }
        files.sort();
        for (_, bytes, path) in files {
            if total <= self.most_bytes {
                break;
            }
            // Another process may have removed it already.
            let _ = std::fs::remove_file(&path);
            total -= bytes;
        }
        Ok(())
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.{ENDING}", key.0))
    }
}

/// Whether a name is a temporary one of [`Cache::put`].
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let mut parts = name.unwrap_or_default().split('.');
    let key = parts.nth(1).unwrap_or_default();
    key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()) && parts.count() == 2
}
