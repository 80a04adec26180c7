//! Constants in a separate file, which the caller of the program maps or reads.
//!
//! The file begins with a header: [`MAGIC`], the version number, and a hash of the contents after
//! the header. The object contains the same header and rejects a file with another one. Constants
//! are aligned to 64 bytes.

use rustc_hash::FxHashMap;
use tegula_ir::{ALIGNMENT, Literal};

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"TEGULAW\x01";
/// The bytes of the header.
pub(super) const HEAD: usize = 64;
/// The bytes of the hash that a call compares.
pub(super) const HASH: usize = 16;
/// The minimum bytes of a constant in the file; smaller ones stay in the object.
const LEAST: usize = 1 << 10;

/// The constants of the file.
#[derive(Default)]
pub(super) struct Weights {
    /// The offset of each constant, by number.
    placed: FxHashMap<usize, usize>,
    bytes: Vec<u8>,
}

impl Weights {
    /// Adds a constant and returns its offset in the file; `None` for a small one.
    pub(super) fn place(&mut self, number: usize, constant: &Literal) -> Option<usize> {
        let bytes = constant.bytes();
        if bytes.len() < LEAST {
            return None;
        }
        Some(*self.placed.entry(number).or_insert_with(|| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(bytes);
            self.bytes
                .resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
            HEAD + start
        }))
    }

    /// The hash in the header, which comes after the magic bytes.
    pub(super) fn hash(&self) -> [u8; HASH] {
        let hash = blake3::hash(&self.bytes);
        let mut first = [0; HASH];
        first.copy_from_slice(&hash.as_bytes()[..HASH]);
        first
    }

    /// The contents of the file.
    pub(super) fn file(&self) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend(self.hash());
        file.resize(HEAD, 0);
        file.extend_from_slice(&self.bytes);
        file
    }
}
