//! The file format of compiled programs.
//!
//! ```text
//! magic       8 bytes
//! hash       32 bytes: BLAKE3 of all that follows
//! length      8 bytes, little-endian: of the header
//! header      see `Header`
//! constants   each aligned to 64 bytes from the start of the file
//! ```
//! A file is refused if it is damaged, or if another build of Tegula wrote it, so a build executes
//! only machine code that it has generated itself.

use crate::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use tegula_ir::{ALIGNMENT, Literal, Shape, parse_shape};

const MAGIC: &[u8; 8] = b"TEGULAX\x01";
const HASH: Range<usize> = 8..40;
const LENGTH: Range<usize> = 40..48;

/// The identifier of this build of Tegula; files with another one are refused.
pub(crate) const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "-", env!("TEGULA_BUILD"));

/// Shared bytes, possibly of a mapped file.
pub(crate) type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The contents of a compiled program.
pub(crate) struct Contents<'a> {
    /// The program as the backend serialises it.
    pub code: Vec<u8>,
    /// The constants that are not part of `code`.
    pub constants: std::borrow::Cow<'a, [Literal]>,
    /// The dimension orders of parameters, then those of results.
    pub orders: [Vec<Vec<usize>>; 2],
}

#[derive(Serialize, Deserialize)]
struct Header<'a> {
    build: &'a str,
    code: &'a [u8],
    /// The shape of each constant, and its offset in the file.
    constants: Vec<(String, u64)>,
    orders: [Vec<Vec<usize>>; 2],
}

/// Encodes the contents as the bytes of a file.
pub(crate) fn write(contents: &Contents<'_>) -> Result<Vec<u8>, Error> {
    let failed = |error: postcard::Error| Error::new(ErrorKind::Bug, error.to_string());
    let constants = contents.constants.iter();
    let shapes: Vec<String> = constants.map(|c| c.shape().to_string()).collect();
    let mut header = Header {
        build: BUILD,
        code: &contents.code,
        constants: shapes.into_iter().map(|shape| (shape, 0)).collect(),
        orders: contents.orders.clone(),
    };
    // The encoding of numbers has variable length, at most ten bytes.
    let most = postcard::to_stdvec(&header).map_err(failed)?.len() + 10 * contents.constants.len();
    let mut end = (LENGTH.end + most).next_multiple_of(ALIGNMENT);
    for ((_, start), literal) in header.constants.iter_mut().zip(&*contents.constants) {
        *start = end as u64;
        end = (end + literal.bytes().len()).next_multiple_of(ALIGNMENT);
    }
    let text = postcard::to_stdvec(&header).map_err(failed)?;
    let mut bytes = Vec::with_capacity(end);
    bytes.extend_from_slice(MAGIC);
    bytes.resize(HASH.end, 0);
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&text);
    for ((_, start), literal) in header.constants.iter().zip(&*contents.constants) {
        bytes.resize(*start as usize, 0);
        bytes.extend_from_slice(literal.bytes());
    }
    let hash = blake3::hash(&bytes[HASH.end..]);
    bytes[HASH].copy_from_slice(hash.as_bytes());
    Ok(bytes)
}

/// Decodes the bytes of a file. Constants are not copied.
///
/// # Errors
/// The bytes have another format, are damaged, or are from another build.
pub(crate) fn read(bytes: &Bytes) -> Result<Contents<'static>, Error> {
    let refused = |why: String| {
        let message = format!("the compiled program cannot be loaded: {why}");
        Error::new(ErrorKind::Input, message)
    };
    let damaged = || refused("it is damaged".to_owned());
    let all: &[u8] = (**bytes).as_ref();
    if all.get(..MAGIC.len()) != Some(MAGIC) {
        return Err(refused("the bytes are not a compiled program".to_owned()));
    }
    let (hash, hashed) = (all.get(HASH), all.get(HASH.end..));
    let (hash, hashed) = hash.zip(hashed).ok_or_else(damaged)?;
    if blake3::hash(hashed).as_bytes() != hash {
        return Err(damaged());
    }
    let length = all.get(LENGTH).and_then(|word| word.try_into().ok());
    let length = length.map(u64::from_le_bytes).ok_or_else(damaged)?;
    let length = usize::try_from(length).map_err(|_| damaged())?;
    let text = all.get(LENGTH.end..).and_then(|rest| rest.get(..length));
    let header: Header<'_> =
        postcard::from_bytes(text.ok_or_else(damaged)?).map_err(|_| damaged())?;
    if header.build != BUILD {
        let build = header.build;
        return Err(refused(format!(
            "it was compiled by Tegula {build}, but this is {BUILD}"
        )));
    }
    let constants: Option<Vec<Literal>> = header
        .constants
        .iter()
        .map(|(shape, start)| constant(bytes, shape, *start))
        .collect();
    Ok(Contents {
        code: header.code.to_vec(),
        constants: constants.ok_or_else(damaged)?.into(),
        orders: header.orders,
    })
}

fn constant(bytes: &Bytes, shape: &str, start: u64) -> Option<Literal> {
    let Shape::Array(shape) = parse_shape(shape).ok()? else {
        return None;
    };
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(usize::try_from(shape.byte_size()?).ok()?)?;
    (**bytes).as_ref().get(start..end)?;
    let part = Part {
        bytes: Arc::clone(bytes),
        range: start..end,
    };
    Literal::from_shared(&shape, part).ok()
}

/// A range of a file's bytes.
struct Part {
    bytes: Bytes,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &(*self.bytes).as_ref()[self.range.clone()]
    }
}
