//! The container: sections, tables of strings and dialects, resources.

use super::{MAGIC, cursor::Cursor, cursor::text};
use crate::{Bytes, Error};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The newest supported version of the format.
const NEWEST_FORMAT: u64 = 6;

/// The versions of the format that introduced features.
pub(super) mod since {
    /// Dialects may state a version.
    pub(in super::super) const DIALECT_VERSIONS: u64 = 1;
    /// The regions of isolated operations are sections.
    pub(in super::super) const LAZY_REGIONS: u64 = 2;
    /// Use-list orders may be stored.
    pub(in super::super) const USE_ORDERS: u64 = 3;
    /// Block arguments say whether a location follows.
    pub(in super::super) const OPTIONAL_ARGUMENT_LOCATIONS: u64 = 4;
    /// Properties have a section of their own.
    pub(in super::super) const PROPERTIES: u64 = 5;
}

/// Numbers of sections.
const STRINGS: usize = 0;
const DIALECTS: usize = 1;
const ENTRIES: usize = 2;
const ENTRY_SIZES: usize = 3;
const OPERATIONS: usize = 4;
const RESOURCES: usize = 5;
const RESOURCE_SIZES: usize = 6;
const PROPERTIES: usize = 8;
const SECTIONS: usize = 9;

/// The name of an operation.
#[derive(Debug)]
pub(super) struct OperationName {
    /// The name, including the dialect.
    pub(super) name: Arc<str>,
    /// Whether the operation was registered with the writer, so that its properties have their own
    /// encoding.
    pub(super) registered: bool,
}

/// The encoded form of an attribute or a type.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The index of the dialect.
    pub(super) dialect: usize,
    /// Whether the dialect encoded it; otherwise the bytes are text.
    pub(super) encoded: bool,
    /// The encoded bytes.
    pub(super) bytes: Cursor,
}

/// The tables of a file.
#[derive(Debug)]
pub(super) struct File {
    /// The version of the format.
    pub(super) version: u64,
    /// The tool that wrote the file.
    pub(super) producer: Arc<str>,
    /// All strings.
    pub(super) strings: Vec<Arc<str>>,
    /// The names of the dialects.
    pub(super) dialects: Vec<Arc<str>>,
    /// The names of all operations.
    pub(super) operation_names: Vec<OperationName>,
    /// Attributes.
    pub(super) attributes: Vec<Entry>,
    /// Types.
    pub(super) types: Vec<Entry>,
    /// The encoded properties of operations.
    pub(super) properties: Vec<Cursor>,
    /// The contents of resources, by key.
    pub(super) resources: FxHashMap<Arc<str>, Bytes>,
    /// The keys of resources in the order of the dialects' declarations; handles refer to them by
    /// index.
    pub(super) resource_keys: Vec<Arc<str>>,
    /// The section of operations.
    pub(super) operations: Cursor,
}

impl File {
    /// Reads everything except for attributes, types and operations.
    pub(super) fn read(bytes: &Bytes) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.take(MAGIC.len().min(cursor.left()))?;
        if *magic != MAGIC {
            return Err(Error::input(
                "not MLIR bytecode: expected the bytes 4d 4c ef 52 at the start",
            )
            .at_byte(0));
        }
        let version = cursor.varint()?;
        if version > NEWEST_FORMAT {
            return Err(Error::unsupported(format!(
                "version {version} of the bytecode format is newer than {NEWEST_FORMAT}, the \
                 newest that is known"
            ))
            .at_byte(4));
        }
        let producer = text(&cursor.zero_terminated()?);
        let mut sections: [Option<Cursor>; SECTIONS] = Default::default();
        while !cursor.is_empty() {
            let at = cursor.offset();
            let (id, section) = read_section(&mut cursor)?;
            let Some(slot) = sections.get_mut(id) else {
                return Err(Error::input(format!("unknown section {id}")).at_byte(at));
            };
            if slot.replace(section).is_some() {
                return Err(Error::input(format!("section {id} occurs twice")).at_byte(at));
            }
        }
        let mut take = |id: usize, name: &str| {
            let section = sections[id].take();
            section.ok_or_else(|| Error::input(format!("the section of {name} is missing")))
        };
        let strings = read_strings(take(STRINGS, "strings")?)?;
        let entries = take(ENTRIES, "attributes and types")?;
        let sizes = take(ENTRY_SIZES, "sizes of attributes and types")?;
        let operations = take(OPERATIONS, "operations")?;
        let (dialects, operation_names) =
            read_dialects(take(DIALECTS, "dialects")?, version, &strings)?;
        let (attributes, types) = read_entries(entries, sizes, dialects.len())?;
        let mut file = Self {
            version,
            producer,
            strings,
            dialects,
            operation_names,
            attributes,
            types,
            properties: Vec::new(),
            resources: FxHashMap::default(),
            resource_keys: Vec::new(),
            operations,
        };
        if let Some(section) = sections[PROPERTIES].take() {
            file.properties = read_properties(section)?;
        }
        if let (Some(data), Some(sizes)) =
            (sections[RESOURCES].take(), sections[RESOURCE_SIZES].take())
        {
            file.read_resources(data, sizes)?;
        }
        Ok(file)
    }

    /// Reads the index of a string and returns the string.
    pub(super) fn string(&self, cursor: &mut Cursor) -> Result<Arc<str>, Error> {
        let index = cursor.index()?;
        string(&self.strings, index, cursor)
    }

    fn read_resources(&mut self, mut data: Cursor, mut sizes: Cursor) -> Result<(), Error> {
        /// The kind of a resource: 0 is a blob, 1 a truth value, 2 a string.
        const BLOB: u8 = 0;
        // External resources come first, then those of dialects.
        let external_groups = sizes.count()?;
        let mut group = 0;
        while !sizes.is_empty() {
            sizes.index()?;
            let count = sizes.count()?;
            for _ in 0..count {
                let key = self.string(&mut sizes)?;
                let size = sizes.index()?;
                let kind = sizes.byte()?;
                let mut content = data.part(size)?;
                let is_external = group < external_groups;
                if !is_external {
                    self.resource_keys.push(Arc::clone(&key));
                }
                if kind == BLOB && !content.is_empty() {
                    let alignment = content.varint()?;
                    let length = content.index()?;
                    content.align(alignment)?;
                    let blob = content.take(length)?;
                    self.resources.insert(key, blob);
                }
            }
            group += 1;
        }
        Ok(())
    }
}

/// Reads a section: its number, its length, and its padding if it is aligned.
pub(super) fn read_section(cursor: &mut Cursor) -> Result<(usize, Cursor), Error> {
    const ALIGNED: u8 = 0x80;
    let id = cursor.byte()?;
    let length = cursor.index()?;
    if id & ALIGNED != 0 {
        let alignment = cursor.varint()?;
        cursor.align(alignment)?;
    }
    Ok(((id & !ALIGNED) as usize, cursor.part(length)?))
}

fn string(strings: &[Arc<str>], index: usize, cursor: &Cursor) -> Result<Arc<str>, Error> {
    let count = strings.len();
    let found = strings.get(index).cloned();
    found.ok_or_else(|| cursor.error(format!("there is no string {index}: there are {count}")))
}

/// Reads strings: first all lengths, in reverse order; then the texts, each followed by a zero
/// byte.
fn read_strings(mut section: Cursor) -> Result<Vec<Arc<str>>, Error> {
    let count = section.count()?;
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(section.index()?);
    }
    let mut strings = Vec::with_capacity(count);
    for length in lengths.into_iter().rev() {
        let bytes = section.take(length)?;
        let Some((0, characters)) = bytes.split_last() else {
            return Err(section.error("expected a string that ends in a zero byte"));
        };
        strings.push(text(characters));
    }
    Ok(strings)
}

type Dialects = (Vec<Arc<str>>, Vec<OperationName>);

fn read_dialects(
    mut section: Cursor,
    version: u64,
    strings: &[Arc<str>],
) -> Result<Dialects, Error> {
    let count = section.count()?;
    let mut dialects = Vec::with_capacity(count);
    for _ in 0..count {
        if version < since::DIALECT_VERSIONS {
            let name = section.index()?;
            dialects.push(string(strings, name, &section)?);
            continue;
        }
        let (name, versioned) = section.flagged()?;
        let name = usize::try_from(name).unwrap_or(usize::MAX);
        dialects.push(string(strings, name, &section)?);
        if versioned {
            read_section(&mut section)?;
        }
    }
    let mut names = Vec::new();
    if version >= since::OPTIONAL_ARGUMENT_LOCATIONS {
        let count = section.count()?;
        names.reserve(count);
    }
    while !section.is_empty() {
        let dialect = section.index()?;
        let Some(dialect) = dialects.get(dialect) else {
            return Err(section.error(format!("dialect {dialect} does not exist")));
        };
        let count = section.count()?;
        for _ in 0..count {
            let (name, registered) = if version < since::PROPERTIES {
                (section.index()?, true)
            } else {
                let (name, registered) = section.flagged()?;
                (usize::try_from(name).unwrap_or(usize::MAX), registered)
            };
            let name = string(strings, name, &section)?;
            names.push(OperationName {
                name: format!("{dialect}.{name}").into(),
                registered,
            });
        }
    }
    Ok((dialects, names))
}

fn read_entries(
    mut entries: Cursor,
    mut sizes: Cursor,
    dialects: usize,
) -> Result<(Vec<Entry>, Vec<Entry>), Error> {
    let attributes = sizes.count()?;
    let types = sizes.count()?;
    let mut read = |count: usize| {
        let mut found = Vec::with_capacity(count);
        while found.len() < count {
            let dialect = sizes.index()?;
            if dialect >= dialects {
                return Err(sizes.error(format!("dialect {dialect} does not exist")));
            }
            let group = sizes.count()?;
            if group == 0 || group > count - found.len() {
                return Err(sizes.error(format!(
                    "a group of {group} attributes or types is too large"
                )));
            }
            for _ in 0..group {
                let (size, encoded) = sizes.flagged()?;
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                found.push(Entry {
                    dialect,
                    encoded,
                    bytes: entries.part(size)?,
                });
            }
        }
        Ok(found)
    };
    Ok((read(attributes)?, read(types)?))
}

fn read_properties(mut section: Cursor) -> Result<Vec<Cursor>, Error> {
    let count = section.count()?;
    let mut properties = Vec::with_capacity(count);
    for _ in 0..count {
        let length = section.index()?;
        properties.push(section.part(length)?);
    }
    Ok(properties)
}
