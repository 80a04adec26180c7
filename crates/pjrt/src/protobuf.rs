//! Protocol Buffers: iterates over the fields of a message, and writes fields.

use crate::error::Error;

/// The bytes of a message.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    /// The name of the message type in errors, such as `xla.OpSharding`.
    pub(crate) name: &'static str,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// The fields in order, each with its number.
    ///
    /// # Errors
    /// The bytes are not a message.
    pub(crate) fn fields(self) -> Fields<'a> {
        Fields(self)
    }

    /// The values of a repeated number, packed or not.
    ///
    /// # Errors
    /// The bytes are not a message.
    pub(crate) fn numbers(self, wanted: u64) -> Result<Vec<i64>, Error> {
        let mut numbers = Vec::new();
        for field in self.fields() {
            match field? {
                (number, Field::Number(value)) if number == wanted => numbers.push(value as i64),
                (number, Field::Bytes(mut packed)) if number == wanted => {
                    while !packed.is_empty() {
                        let value = varint(&mut packed).ok_or_else(|| self.malformed())?;
                        numbers.push(value as i64);
                    }
                }
                _ => {}
            }
        }
        Ok(numbers)
    }

    fn malformed(self) -> Error {
        Error::invalid(format!("these bytes are not a valid {}", self.name))
    }
}

/// A field of a protocol buffer.
pub(crate) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes, which no message here uses.
    Fixed,
}

/// The remaining fields of a message.
pub(crate) struct Fields<'a>(Message<'a>);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.bytes.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0.bytes = &[];
        }
        Some(field.ok_or_else(|| self.0.malformed()))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let key = varint(&mut self.0.bytes)?;
        let value = match key & 7 {
            0 => Field::Number(varint(&mut self.0.bytes)?),
            1 => self.take(8).map(|_| Field::Fixed)?,
            2 => {
                let len = usize::try_from(varint(&mut self.0.bytes)?).ok()?;
                Field::Bytes(self.take(len)?)
            }
            5 => self.take(4).map(|_| Field::Fixed)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.bytes.split_at_checked(len)?;
        self.0.bytes = rest;
        Some(taken)
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Writes a number (a varint).
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes bytes, or a message, as a field.
pub(crate) fn put_message(bytes: &mut Vec<u8>, field: u8, message: &[u8]) {
    bytes.push(field << 3 | 2);
    put(bytes, message.len() as u64);
    bytes.extend(message);
}

/// Writes a list of numbers as a field.
pub(crate) fn put_packed(bytes: &mut Vec<u8>, field: u8, numbers: &[i64]) {
    let mut packed = Vec::new();
    for &number in numbers {
        put(&mut packed, number as u64);
    }
    put_message(bytes, field, &packed);
}
