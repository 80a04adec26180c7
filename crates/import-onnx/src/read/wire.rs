//! The wire format of Protocol Buffers: numbered fields, borrowed from the file.

use crate::Error;

/// The value of a field as it is encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    /// A variable-length integer.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A string, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

impl<'a> Field<'a> {
    pub(crate) fn integer(self) -> Result<i64, Error> {
        match self {
            Self::Varint(value) => Ok(value as i64),
            _ => Err(Error::input("expected an integer in a field of the file")),
        }
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Error::input(
                "expected a message or a string in a field of the file",
            )),
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|_| Error::input("a name in the file is not UTF-8"))
    }

    pub(crate) fn float(self) -> Result<f32, Error> {
        match self {
            Self::Fixed32(bits) => Ok(f32::from_bits(bits)),
            _ => Err(Error::input("expected a float in a field of the file")),
        }
    }

    /// Appends integers, packed or single.
    pub(crate) fn integers(self, list: &mut Vec<i64>) -> Result<(), Error> {
        match self {
            Self::Bytes(mut rest) => {
                while !rest.is_empty() {
                    list.push(varint(&mut rest)? as i64);
                }
            }
            other => list.push(other.integer()?),
        }
        Ok(())
    }

    /// Appends floats, packed or single.
    pub(crate) fn floats(self, list: &mut Vec<f32>) -> Result<(), Error> {
        match self {
            Self::Bytes(bytes) => {
                let (chunks, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(Error::input("a list of floats in the file is cut off"));
                }
                list.extend(chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }
            other => list.push(other.float()?),
        }
        Ok(())
    }

    /// Appends doubles, packed or single.
    pub(crate) fn doubles(self, list: &mut Vec<f64>) -> Result<(), Error> {
        match self {
            Self::Bytes(bytes) => {
                let (chunks, rest) = bytes.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(Error::input("a list of doubles in the file is cut off"));
                }
                list.extend(chunks.iter().map(|bytes| f64::from_le_bytes(*bytes)));
            }
            Self::Fixed64(bits) => list.push(f64::from_bits(bits)),
            _ => return Err(Error::input("expected a double in a field of the file")),
        }
        Ok(())
    }
}

/// The fields of a message, in the order of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<(u64, Field<'a>), Error> {
        let tag = varint(&mut self.rest)?;
        let field = match tag & 7 {
            0 => Field::Varint(varint(&mut self.rest)?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).unwrap_or(usize::MAX);
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(cut_off)?;
                self.rest = rest;
                Field::Bytes(bytes)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            other => {
                return Err(Error::input(format!(
                    "the file has a field of the unknown wire type {other}: is it an ONNX model?"
                )));
            }
        };
        Ok((tag >> 3, field))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(*bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

fn cut_off() -> Error {
    Error::input("the file ends in the middle of a field")
}

fn varint(rest: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or_else(cut_off)?;
        *rest = after;
        if shift < 64 {
            value |= u64::from(byte & 0x7f) << shift;
        }
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Error::input(
        "the file has an integer of more than ten bytes",
    ))
}
