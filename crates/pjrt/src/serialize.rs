//! Serialisation of executables.
//!
//! The bytes contain the program with its options, and its machine code. Where the code cannot run
//! (another CPU, another build), the program is compiled again. The bytes begin with a magic word,
//! the version that wrote them, and a fingerprint of the rest, so bytes that are damaged or from
//! another version are refused.

use crate::client::VERSION;
use crate::error::{Code, Error};
use crate::fingerprint;
use crate::program::Source;

const MAGIC: &[u8] = b"tegula program 2\n";

/// Serialises a program and its [machine code](tegula::Executable::serialize).
pub(crate) fn write(source: &Source, machine_code: &[u8]) -> Vec<u8> {
    let parts = [
        source.format.as_bytes(),
        &source.options,
        &source.code,
        machine_code,
    ];
    let mut bytes = MAGIC.to_vec();
    put(&mut bytes, VERSION.as_bytes());
    bytes.extend(fingerprint::of(&parts).to_le_bytes());
    for part in parts {
        put(&mut bytes, part);
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend((part.len() as u64).to_le_bytes());
    bytes.extend(part);
}

/// Reads the program and its machine code from bytes.
///
/// # Errors
/// Bytes in another format, from another version, or damaged.
pub(crate) fn read(bytes: &[u8]) -> Result<(Source, Vec<u8>), Error> {
    let refused =
        |why: &str| Error::new(Code::InvalidArgument, format!("serialised program: {why}"));
    let mut rest = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| refused("it was not written by Tegula"))?;
    let cut = || refused("it is truncated");
    let version = take(&mut rest).ok_or_else(cut)?;
    if version != VERSION.as_bytes() {
        let version = String::from_utf8_lossy(version);
        return Err(refused(&format!(
            "it was written by {version}, but this is {}",
            *VERSION
        )));
    }
    let (sum, mut rest) = rest.split_at_checked(8).ok_or_else(cut)?;
    let format = take(&mut rest).ok_or_else(cut)?;
    let options = take(&mut rest).ok_or_else(cut)?;
    let code = take(&mut rest).ok_or_else(cut)?;
    let machine_code = take(&mut rest).ok_or_else(cut)?;
    if fingerprint::of(&[format, options, code, machine_code]).to_le_bytes() != sum
        || !rest.is_empty()
    {
        return Err(refused("it is damaged"));
    }
    let source = Source {
        format: String::from_utf8_lossy(format).into_owned(),
        options: options.to_vec(),
        code: code.to_vec(),
    };
    Ok((source, machine_code.to_vec()))
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_at_checked(8)?;
    let len = usize::try_from(u64::from_le_bytes(len.try_into().ok()?)).ok()?;
    let (part, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_found() {
        let source = Source {
            format: "mlir".to_owned(),
            code: b"func".to_vec(),
            options: vec![1, 2],
        };
        let bytes = write(&source, b"code");
        assert_eq!(read(&bytes), Ok((source, b"code".to_vec())));
        for place in 0..bytes.len() {
            assert!(read(&bytes[..place]).is_err());
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(read(&damaged).is_err(), "byte {place}");
        }
    }
}
