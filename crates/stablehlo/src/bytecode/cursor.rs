//! A reader of bytecode's elements: numbers and byte ranges.

use crate::{Bytes, Error};

/// A position in a file, with the end of the range that may be read.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    bytes: Bytes,
    at: usize,
    end: usize,
}

impl Cursor {
    /// A cursor over all of the bytes.
    pub(super) fn new(bytes: &Bytes) -> Self {
        Self {
            bytes: bytes.clone(),
            at: 0,
            end: bytes.len(),
        }
    }

    /// The position in the file of the next byte.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// The number of bytes left.
    pub(super) fn left(&self) -> usize {
        self.end - self.at
    }

    /// Whether no bytes are left.
    pub(super) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// An error of the input at this position.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::input(message).at_byte(self.at)
    }

    /// Reads a byte.
    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        if self.is_empty() {
            return Err(self.error("the section ends too early: expected one more byte"));
        }
        let byte = self.bytes[self.at];
        self.at += 1;
        Ok(byte)
    }

    /// A cursor over the next `length` bytes, which are skipped here.
    pub(super) fn part(&mut self, length: usize) -> Result<Self, Error> {
        if length > self.left() {
            let left = self.left();
            return Err(self.error(format!(
                "expected {length} more bytes, but only {left} are left"
            )));
        }
        let part = Self {
            bytes: self.bytes.clone(),
            at: self.at,
            end: self.at + length,
        };
        self.at += length;
        Ok(part)
    }

    /// Takes the next `length` bytes, without copying them.
    pub(super) fn take(&mut self, length: usize) -> Result<Bytes, Error> {
        let part = self.part(length)?;
        let taken = part.bytes.slice(part.at..part.end);
        taken.ok_or_else(|| self.error("a range of bytes is outside the file"))
    }

    /// Reads a number of up to 64 bits. The number of trailing zero bits of its first byte is the
    /// number of bytes that follow.
    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let first = self.byte()?;
        let following = (first.trailing_zeros() as usize).min(8);
        let mut wide = [0_u8; 8];
        if following == 8 {
            for byte in &mut wide {
                *byte = self.byte()?;
            }
            return Ok(u64::from_le_bytes(wide));
        }
        wide[0] = first;
        for byte in &mut wide[1..=following] {
            *byte = self.byte()?;
        }
        Ok(u64::from_le_bytes(wide) >> (following + 1))
    }

    /// Reads a signed number in zigzag encoding: 0, -1, 1, -2, ...
    pub(super) fn signed(&mut self) -> Result<i64, Error> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a number whose lowest bit is a flag.
    pub(super) fn flagged(&mut self) -> Result<(u64, bool), Error> {
        let value = self.varint()?;
        Ok((value >> 1, value & 1 != 0))
    }

    /// Reads the number of entries that follow. It is an error if it exceeds the number of bytes
    /// left, because each entry has at least one.
    pub(super) fn count(&mut self) -> Result<usize, Error> {
        let count = self.varint()?;
        self.checked_count(count)
    }

    /// `count` as a number of entries, unless it exceeds the number of bytes left.
    pub(super) fn checked_count(&self, count: u64) -> Result<usize, Error> {
        match usize::try_from(count) {
            Ok(count) if count <= self.left() => Ok(count),
            _ => Err(self.error(format!(
                "{count} entries cannot follow: only {} bytes are left",
                self.left()
            ))),
        }
    }

    /// Reads an index into a table, or a number of bytes.
    pub(super) fn index(&mut self) -> Result<usize, Error> {
        let value = self.varint()?;
        usize::try_from(value)
            .map_err(|_| self.error(format!("{value} is not a position in a table")))
    }

    /// Reads a number of bytes, and then the bytes.
    pub(super) fn blob(&mut self) -> Result<Bytes, Error> {
        let length = self.index()?;
        self.take(length)
    }

    /// Reads a count, and then as many signed numbers.
    pub(super) fn signed_list(&mut self) -> Result<Vec<i64>, Error> {
        let count = self.count()?;
        (0..count).map(|_| self.signed()).collect()
    }

    /// Reads bytes up to and including a zero byte; returns them without it.
    pub(super) fn zero_terminated(&mut self) -> Result<Bytes, Error> {
        let rest = &self.bytes[self.at..self.end];
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            return Err(self.error("expected a string that ends in a zero byte"));
        };
        let text = self.take(length)?;
        self.byte()?;
        Ok(text)
    }

    /// Skips to a multiple of `alignment` bytes from the start of the file.
    pub(super) fn align(&mut self, alignment: u64) -> Result<(), Error> {
        if !alignment.is_power_of_two() || alignment > 1 << 30 {
            return Err(self.error(format!(
                "expected an alignment that is a power of two, found {alignment}"
            )));
        }
        let aligned = self.at.next_multiple_of(alignment as usize);
        if aligned > self.end {
            return Err(self.error("alignment padding extends beyond the end of the section"));
        }
        self.at = aligned;
        Ok(())
    }
}

/// Converts bytes to text.
pub(super) fn text(bytes: &[u8]) -> std::sync::Arc<str> {
    crate::mlir::text_of_bytes(bytes).into()
}
