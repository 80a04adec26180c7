//! The table of attributes and types, which are decoded at their first use.

mod builtin;
mod sdy;
mod stablehlo;
mod vhlo;

use super::MAX_DEPTH;
use super::cursor::{Cursor, text};
use super::sections::File;
use crate::Error;
use crate::mlir::{Attribute, LEVELS_OF_A_PLACE, Location, Type};
use std::sync::Arc;

/// The maximum number of parts of an attribute, counting repeated parts each time: parts are shared
/// in memory, but printing writes all of them.
const MAX_PARTS: u64 = 1 << 24;

/// A decoded entry, and its number of parts.
type Decoded<T> = Option<(T, u64)>;

/// Decodes attributes and types, each once.
#[derive(Debug)]
pub(super) struct Table<'f> {
    pub(super) file: &'f File,
    attributes: Vec<Decoded<Attribute>>,
    types: Vec<Decoded<Type>>,
    depth: usize,
    /// The number of parts so far of the entry that is being decoded.
    parts: u64,
}

impl<'f> Table<'f> {
    /// A table for a file, with nothing decoded yet.
    pub(super) fn new(file: &'f File) -> Self {
        Self {
            file,
            attributes: vec![None; file.attributes.len()],
            types: vec![None; file.types.len()],
            depth: 0,
            parts: 0,
        }
    }

    /// Reads the index of an attribute and returns the attribute.
    pub(super) fn attribute(&mut self, cursor: &mut Cursor) -> Result<Attribute, Error> {
        let index = cursor.index()?;
        self.attribute_at(index, cursor)
    }

    /// Reads a flag and, if it is set, the index of an attribute.
    pub(super) fn optional_attribute(
        &mut self,
        cursor: &mut Cursor,
    ) -> Result<Option<Attribute>, Error> {
        let (index, present) = cursor.flagged()?;
        if !present {
            return Ok(None);
        }
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.attribute_at(index, cursor).map(Some)
    }

    /// Reads the index of a type and returns the type.
    pub(super) fn ty(&mut self, cursor: &mut Cursor) -> Result<Type, Error> {
        let index = cursor.index()?;
        self.type_at(index, cursor)
    }

    /// Reads a count, and then as many types.
    pub(super) fn types(&mut self, cursor: &mut Cursor) -> Result<Vec<Type>, Error> {
        let count = cursor.count()?;
        (0..count).map(|_| self.ty(cursor)).collect()
    }

    /// Reads a count, and then as many attributes.
    pub(super) fn attributes(&mut self, cursor: &mut Cursor) -> Result<Vec<Attribute>, Error> {
        let count = cursor.count()?;
        (0..count).map(|_| self.attribute(cursor)).collect()
    }

    /// Reads the index of a string and returns the string.
    pub(super) fn string(&mut self, cursor: &mut Cursor) -> Result<Arc<str>, Error> {
        self.file.string(cursor)
    }

    /// Reads a location.
    pub(super) fn location(&mut self, cursor: &mut Cursor) -> Result<Arc<Location>, Error> {
        match self.attribute(cursor)? {
            Attribute::Location(location) => Ok(location),
            _ => Err(cursor.error("expected a location, found another attribute")),
        }
    }

    /// The place of a call. Of a deep stack of calls the outermost are left out.
    pub(super) fn caller(&mut self, cursor: &mut Cursor) -> Result<Arc<Location>, Error> {
        if self.depth + LEVELS_OF_A_PLACE > MAX_DEPTH {
            cursor.varint()?;
            return Ok(Arc::new(Location::Unknown));
        }
        self.location(cursor)
    }

    fn attribute_at(&mut self, index: usize, cursor: &Cursor) -> Result<Attribute, Error> {
        let Some(entry) = self.file.attributes.get(index) else {
            let count = self.file.attributes.len();
            return Err(cursor.error(format!("there is no attribute {index}: there are {count}")));
        };
        if let Some((attribute, parts)) = &self.attributes[index] {
            self.parts = self.parts.saturating_add(*parts);
            return Ok(attribute.clone());
        }
        let dialect = &self.file.dialects[entry.dialect];
        let encoded = entry.encoded;
        let bytes = entry.bytes.clone();
        let decoded = self.nested(bytes, |table, bytes| match (&**dialect, encoded) {
            ("builtin", true) => builtin::attribute(table, bytes),
            ("vhlo", true) => vhlo::attribute(table, bytes),
            ("stablehlo", true) => stablehlo::attribute(table, bytes),
            ("chlo", true) => stablehlo::chlo_attribute(bytes),
            ("sdy", true) => sdy::attribute(table, bytes),
            // The bytes are kept, so an unused attribute is not an error.
            (_, true) => Ok(Attribute::Opaque {
                dialect: Arc::clone(dialect),
                body: opaque_body(bytes)?,
            }),
            (_, false) => {
                let written = text(&bytes.zero_terminated()?);
                crate::text::parse_attribute(&written)
                    .map_err(|error| bytes.error(format!("in `{written}`: {}", error.message)))
            }
        })?;
        self.attributes[index] = Some(decoded.clone());
        Ok(decoded.0)
    }

    /// The type with this index.
    pub(super) fn type_at(&mut self, index: usize, cursor: &Cursor) -> Result<Type, Error> {
        let Some(entry) = self.file.types.get(index) else {
            let count = self.file.types.len();
            return Err(cursor.error(format!("there is no type {index}: there are {count}")));
        };
        if let Some((ty, parts)) = &self.types[index] {
            self.parts = self.parts.saturating_add(*parts);
            return Ok(ty.clone());
        }
        let dialect = &self.file.dialects[entry.dialect];
        let encoded = entry.encoded;
        let bytes = entry.bytes.clone();
        let decoded = self.nested(bytes, |table, bytes| match (&**dialect, encoded) {
            ("builtin", true) => builtin::ty(table, bytes),
            ("vhlo", true) => vhlo::ty(table, bytes),
            ("stablehlo", true) => stablehlo::ty(table, bytes),
            (_, true) => Ok(Type::Dialect {
                dialect: Arc::clone(dialect),
                body: opaque_body(bytes)?,
            }),
            (_, false) => {
                let written = text(&bytes.zero_terminated()?);
                crate::text::parse_type(&written)
                    .map_err(|error| bytes.error(format!("in `{written}`: {}", error.message)))
            }
        })?;
        self.types[index] = Some(decoded.clone());
        Ok(decoded.0)
    }

    /// Decodes an entry one nesting level deeper, and counts its parts.
    fn nested<T>(
        &mut self,
        mut bytes: Cursor,
        decode: impl FnOnce(&mut Self, &mut Cursor) -> Result<T, Error>,
    ) -> Result<(T, u64), Error> {
        let offset = bytes.offset();
        if self.depth == MAX_DEPTH {
            return Err(bytes.error(format!(
                "attributes and types are nested deeper than {MAX_DEPTH} levels, or recursively"
            )));
        }
        let outer = std::mem::replace(&mut self.parts, 1);
        self.depth += 1;
        let decoded = decode(self, &mut bytes);
        self.depth -= 1;
        let parts = std::mem::replace(&mut self.parts, outer);
        if parts > MAX_PARTS {
            return Err(
                Error::input(format!("an attribute has more than {MAX_PARTS} parts"))
                    .at_byte(offset),
            );
        }
        self.parts = outer.saturating_add(parts);
        let decoded = decoded?;
        if !bytes.is_empty() {
            return Err(bytes.error(format!(
                "{} bytes are left over after an attribute or type",
                bytes.left()
            )));
        }
        Ok((decoded, parts))
    }
}

/// The text of an attribute or type with an unknown encoding: `bytes<"0x...">`.
fn opaque_body(bytes: &mut Cursor) -> Result<Arc<str>, Error> {
    let bytes = bytes.take(bytes.left())?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    Ok(format!("bytes<\"0x{digits}\">").into())
}
