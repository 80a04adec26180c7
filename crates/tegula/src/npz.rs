//! `.npz` and `.npy` files: arrays on disk in numpy's formats.
//!
//! An `.npz` file is a ZIP archive of `.npy` files, stored or deflated. An `.npy` file consists of
//! a magic number, a header (a Python dictionary with `descr`, `fortran_order` and `shape`) and the
//! elements. Input is untrusted: every offset and size is checked against the file before anything
//! is allocated, and an entry may not inflate beyond what its array needs.
//!
//! numpy has no names for some element types. `bf16` is stored as `uint16` bits or as ml_dtypes'
//! 2-byte void type, other small floats as `uint8` bits. A reader that expects such a type
//! reinterprets the bits with [`NpyArray::to_literal`].
//!
//! Specifications: APPNOTE.TXT (PKWARE, 6.3.10) for ZIP without ZIP64; numpy's `numpy.lib.format`
//! for versions 1 to 3.

use std::io::{Read, Write};
use tegula_ir::{ArrayShape, Category, ElementType, Literal, LiteralError, MAX_LITERAL_BYTES};

/// The reason why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpzError {
    /// The archive is damaged, or uses an unsupported feature.
    #[error("not a readable npz archive: {0}")]
    Archive(String),
    /// The header of an array is damaged, or names an unknown element type.
    #[error("{name}: {reason}")]
    Array {
        /// The entry's name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// An array is too large for memory, or its size does not match its shape.
    #[error("{name}: {source}")]
    Size {
        /// The entry's name.
        name: String,
        /// The reason.
        source: LiteralError,
    },
    /// Reading or writing the underlying file failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// One array, with the type that the file states.
#[derive(Clone, Debug, PartialEq)]
pub struct NpyArray {
    /// The name of the entry, without `.npy`.
    pub name: String,
    /// numpy's name of the type, without its byte order: `f4`, `i8`, `b1`, `V2`.
    pub descr: String,
    /// The elements, row-major, with the element type that `descr` names; `V2` and `V1` are read as
    /// `u16` and `u8`.
    pub literal: Literal,
}

impl NpyArray {
    /// The array with elements of type `ty`.
    ///
    /// Unsigned integers are reinterpreted as floats of the same width. Bytes are converted to
    /// `pred` and to types narrower than a byte. Otherwise, the array must have the type already.
    pub fn to_literal(&self, ty: ElementType) -> Result<Literal, NpzError> {
        let from = self.literal.element_type();
        let same_width = from.storage_bytes() == ty.storage_bytes();
        let bits = from.category() == Category::Unsigned && ty.is_float();
        let byte = from.storage_bytes() == 1 && (ty.bits() < 8 || ty == ElementType::Pred);
        if from != ty && !(same_width && (bits || byte)) {
            return Err(NpzError::Array {
                name: self.name.clone(),
                reason: format!("holds {from} ({}), not {ty}", self.descr),
            });
        }
        let shape = self.literal.shape().with_element_type(ty);
        Literal::from_bytes(&shape, self.literal.bytes()).map_err(|source| NpzError::Size {
            name: self.name.clone(),
            source,
        })
    }
}

/// An archive whose arrays are read one at a time.
pub struct NpzArchive<B> {
    bytes: B,
    entries: Vec<Entry>,
}

impl<B: AsRef<[u8]>> NpzArchive<B> {
    /// Reads the directory of an archive, but none of its arrays.
    ///
    /// # Errors
    /// The bytes are not an archive, or it uses an unsupported feature.
    pub fn new(bytes: B) -> Result<Self, NpzError> {
        let entries = directory(bytes.as_ref())?;
        Ok(Self { bytes, entries })
    }

    /// The names of the entries, without `.npy`, in the order of the directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(Entry::array_name)
    }

    /// Reads the array of this name; `None` if there is no such entry. Other entries are not read,
    /// whatever they contain.
    ///
    /// # Errors
    /// The entry is damaged or is not an array.
    pub fn read(&self, name: &str) -> Result<Option<NpyArray>, NpzError> {
        let mut entries = self.entries.iter();
        let Some(entry) = entries.find(|entry| entry.array_name() == name) else {
            return Ok(None);
        };
        let content = entry_reader(self.bytes.as_ref(), entry)?;
        read_npy(name, content).map(Some)
    }
}

/// Reads every array of an archive, in the order of its directory.
pub fn read_npz(bytes: &[u8]) -> Result<Vec<NpyArray>, NpzError> {
    let read = |entry: &Entry| read_npy(entry.array_name(), entry_reader(bytes, entry)?);
    directory(bytes)?.iter().map(read).collect()
}

fn archive(reason: impl Into<String>) -> NpzError {
    NpzError::Archive(reason.into())
}

struct Entry {
    name: String,
    method: u16,
    compressed: usize,
    local_header: usize,
    crc: u32,
}

impl Entry {
    fn array_name(&self) -> &str {
        self.name.strip_suffix(".npy").unwrap_or(&self.name)
    }
}

fn bytes_at(bytes: &[u8], start: usize, len: usize) -> Result<&[u8], NpzError> {
    start
        .checked_add(len)
        .and_then(|end| bytes.get(start..end))
        .ok_or_else(|| archive("it ends early"))
}

fn u16_at(bytes: &[u8], start: usize) -> Result<u16, NpzError> {
    let bytes = bytes_at(bytes, start, 2)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], start: usize) -> Result<u32, NpzError> {
    let bytes = bytes_at(bytes, start, 4)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// The archive's central directory.
fn directory(bytes: &[u8]) -> Result<Vec<Entry>, NpzError> {
    const END: &[u8] = b"PK\x05\x06";
    const END_LEN: usize = 22;
    let last = bytes.len().checked_sub(END_LEN);
    let last = last.ok_or_else(|| archive("it is shorter than an empty archive"))?;
    // The end record comes last, followed only by a comment of at most 64 KiB.
    let first = last.saturating_sub(usize::from(u16::MAX));
    let end = (first..=last)
        .rev()
        .find(|&at| bytes[at..].starts_with(END));
    let end = end.ok_or_else(|| archive("it has no end record"))?;
    let count = u16_at(bytes, end + 10)?;
    let mut at = u32_at(bytes, end + 16)? as usize;
    let mut entries = Vec::new();
    for _ in 0..count {
        if bytes_at(bytes, at, 4)? != b"PK\x01\x02" {
            return Err(archive("its directory is damaged"));
        }
        let name_len = usize::from(u16_at(bytes, at + 28)?);
        let skip = usize::from(u16_at(bytes, at + 30)?) + usize::from(u16_at(bytes, at + 32)?);
        let name = bytes_at(bytes, at + 46, name_len)?;
        let name = std::str::from_utf8(name).map_err(|_| archive("a name is not UTF-8"))?;
        let compressed = u32_at(bytes, at + 20)?;
        let local_header = u32_at(bytes, at + 42)?;
        if u16_at(bytes, at + 8)? & 1 != 0 {
            return Err(archive("an entry is encrypted"));
        }
        if compressed == u32::MAX || local_header == u32::MAX {
            return Err(archive("it needs ZIP64, which is not supported"));
        }
        entries.push(Entry {
            name: name.to_owned(),
            method: u16_at(bytes, at + 10)?,
            compressed: compressed as usize,
            local_header: local_header as usize,
            crc: u32_at(bytes, at + 16)?,
        });
        at += 46 + name_len + skip;
    }
    Ok(entries)
}

/// A reader of an entry's content, which inflates while reading.
fn entry_reader<'a>(bytes: &'a [u8], entry: &Entry) -> Result<Checked<'a>, NpzError> {
    let at = entry.local_header;
    if bytes_at(bytes, at, 4)? != b"PK\x03\x04" {
        return Err(archive(format!("the entry {} is damaged", entry.name)));
    }
    let skip = 30 + usize::from(u16_at(bytes, at + 26)?) + usize::from(u16_at(bytes, at + 28)?);
    let content = bytes_at(bytes, at + skip, entry.compressed)?;
    let reader: Box<dyn Read + 'a> = match entry.method {
        0 => Box::new(content),
        8 => Box::new(flate2::read::DeflateDecoder::new(content)),
        method => {
            return Err(archive(format!(
                "the entry {} uses compression method {method}",
                entry.name
            )));
        }
    };
    Ok(Checked {
        reader,
        crc: flate2::Crc::new(),
        expected: entry.crc,
    })
}

/// A reader that computes the checksum of what is read.
struct Checked<'a> {
    reader: Box<dyn Read + 'a>,
    crc: flate2::Crc,
    expected: u32,
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.crc.update(&buffer[..count]);
        Ok(count)
    }
}

/// The maximum size of a header in bytes. A header is one line; numpy's own are below 1 KiB.
const MAX_HEADER: usize = 1 << 16;

fn read_npy(name: &str, mut reader: Checked<'_>) -> Result<NpyArray, NpzError> {
    let fail = |reason: &str| NpzError::Array {
        name: name.to_owned(),
        reason: reason.to_owned(),
    };
    let mut start = [0u8; 8];
    reader
        .read_exact(&mut start)
        .map_err(|_| fail("it ends within its header"))?;
    if start[..6] != *b"\x93NUMPY" {
        return Err(fail("it is not an npy file"));
    }
    let mut len = [0u8; 4];
    let len_bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => {
            return Err(fail(&format!(
                "its format is version {version}.{}; 1 to 3 are read",
                start[7]
            )));
        }
    };
    reader
        .read_exact(&mut len[..len_bytes])
        .map_err(|_| fail("it ends within its header"))?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_HEADER {
        return Err(fail("its header is too long"));
    }
    let mut header = vec![0u8; len];
    reader
        .read_exact(&mut header)
        .map_err(|_| fail("it ends within its header"))?;
    let header = std::str::from_utf8(&header).map_err(|_| fail("its header is not text"))?;
    let header = Header::parse(header).map_err(|reason| fail(&reason))?;
    let shape = ArrayShape::new(header.element_type, &header.shape);
    let bytes = elements(&header, &mut reader).map_err(|reason| fail(&reason))?;
    let mut extra = [0u8; 1];
    if reader.read(&mut extra)? != 0 {
        return Err(fail("it has bytes after its last element"));
    }
    if reader.crc.sum() != reader.expected {
        return Err(fail("its checksum is wrong"));
    }
    let literal = Literal::from_bytes(&shape, &bytes).map_err(|source| NpzError::Size {
        name: name.to_owned(),
        source,
    })?;
    Ok(NpyArray {
        name: name.to_owned(),
        descr: header.descr,
        literal,
    })
}

/// The elements' bytes, row-major and little endian.
fn elements(header: &Header, reader: &mut impl Read) -> Result<Vec<u8>, String> {
    let size = header.element_type.storage_bytes();
    let count = header
        .shape
        .iter()
        .try_fold(size as i64, |n, &dim| n.checked_mul(dim));
    let total = count.filter(|&total| total <= MAX_LITERAL_BYTES);
    let total = total.ok_or("its shape is too large")? as usize;
    // The buffer grows while reading, so a short file cannot cause a large allocation.
    let mut bytes = Vec::new();
    let read = reader.take(total as u64).read_to_end(&mut bytes);
    read.map_err(|error| format!("it could not be inflated: {error}"))?;
    if bytes.len() != total {
        return Err("it ends before its last element".to_owned());
    }
    if header.big_endian {
        let part = header
            .element_type
            .complex_part()
            .map_or(size, ElementType::storage_bytes);
        bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    if header.fortran_order {
        bytes = row_major(&bytes, &header.shape, size);
    }
    Ok(bytes)
}

/// Converts column-major elements to row-major order.
fn row_major(bytes: &[u8], shape: &[i64], size: usize) -> Vec<u8> {
    let mut ordered = Vec::with_capacity(bytes.len());
    let mut index = vec![0i64; shape.len()];
    for _ in 0..bytes.len() / size {
        let place = (index.iter().zip(shape))
            .rev()
            .fold(0, |place, (i, n)| place * n + i);
        let start = place as usize * size;
        ordered.extend_from_slice(&bytes[start..start + size]);
        for (i, &n) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < n {
                break;
            }
            *i = 0;
        }
    }
    ordered
}

/// The contents of an `.npy` header.
#[derive(Debug, PartialEq)]
struct Header {
    descr: String,
    element_type: ElementType,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<i64>,
}

impl Header {
    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
    fn parse(text: &str) -> Result<Self, String> {
        let descr = value_of(text, "descr")?;
        let quote = descr.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let quote = quote.ok_or("its element type is not a plain one")?;
        let descr = descr[1..].split(quote).next().unwrap_or("");
        let (order, name) = match descr.split_at_checked(1) {
            Some((order @ ("<" | ">" | "|" | "="), name)) => (order, name),
            _ => ("|", descr),
        };
        let order_value = value_of(text, "fortran_order")?;
        let fortran_order = match order_value {
            text if text.starts_with("False") => false,
            text if text.starts_with("True") => true,
            _ => return Err("its fortran_order is neither True nor False".to_owned()),
        };
        let shape = value_of(text, "shape")?;
        let inside = shape
            .strip_prefix('(')
            .and_then(|rest| rest.split(')').next());
        let inside = inside.ok_or("its shape is not a tuple")?;
        let sizes = inside
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let size = |part: &str| part.parse::<i64>().ok().filter(|&size| size >= 0);
        let shape: Option<Vec<i64>> = sizes.map(size).collect();
        let shape = shape.ok_or("its shape has a size that is not a number")?;
        if shape.len() > 64 {
            return Err("its shape has too many dimensions".to_owned());
        }
        Ok(Self {
            element_type: element_type(name).ok_or_else(|| format!("its type is '{descr}'"))?,
            descr: name.to_owned(),
            big_endian: order == ">",
            fortran_order,
            shape,
        })
    }
}

/// The text after `'key':`.
fn value_of<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    for quote in ['\'', '"'] {
        let key = format!("{quote}{key}{quote}");
        if let Some((_, rest)) = text.split_once(&key)
            && let Some(rest) = rest.trim_start().strip_prefix(':')
        {
            return Ok(rest.trim_start());
        }
    }
    Err(format!("its header has no {key}"))
}

/// numpy's names of types, without byte order.
const NAMES: &[(&str, ElementType)] = &[
    ("b1", ElementType::Pred),
    ("i1", ElementType::S8),
    ("i2", ElementType::S16),
    ("i4", ElementType::S32),
    ("i8", ElementType::S64),
    ("u1", ElementType::U8),
    ("u2", ElementType::U16),
    ("u4", ElementType::U32),
    ("u8", ElementType::U64),
    ("f2", ElementType::F16),
    ("f4", ElementType::F32),
    ("f8", ElementType::F64),
    ("c8", ElementType::C64),
    ("c16", ElementType::C128),
    ("V1", ElementType::U8),
    ("V2", ElementType::U16),
];

fn element_type(name: &str) -> Option<ElementType> {
    NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|&(_, ty)| ty)
}

/// The type name that elements are written with: that of their type, or of unsigned integers of the
/// same width.
fn descr_of(ty: ElementType) -> String {
    let own = NAMES
        .iter()
        .find(|(_, known)| *known == ty)
        .map(|(name, _)| *name);
    let bits = if ty.is_signed() { "i" } else { "u" };
    let size = ty.storage_bytes();
    let name = own.map_or_else(|| format!("{bits}{size}"), str::to_owned);
    let order = if size == 1 { '|' } else { '<' };
    format!("{order}{name}")
}

/// Writes an archive of arrays, deflated, with `.npy` added to the names.
pub fn write_npz<'a>(
    mut out: impl Write,
    arrays: impl IntoIterator<Item = (&'a str, &'a Literal)>,
) -> Result<(), NpzError> {
    let mut directory = Vec::new();
    let mut offset = 0u32;
    let mut count = 0u16;
    for (name, literal) in arrays {
        let content = npy(literal);
        let mut crc = flate2::Crc::new();
        crc.update(&content);
        let mut deflate =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        deflate.write_all(&content)?;
        let deflated = deflate.finish()?;
        let name = format!("{name}.npy");
        let fields = header_fields(&name, crc.sum(), deflated.len(), content.len())?;
        let mut local = b"PK\x03\x04".to_vec();
        local.extend_from_slice(&fields);
        local.extend_from_slice(name.as_bytes());
        directory.extend_from_slice(b"PK\x01\x02\x14\x00");
        directory.extend_from_slice(&fields);
        // The fields are: no comment, disk 0, binary, no attributes.
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
        out.write_all(&local)?;
        out.write_all(&deflated)?;
        let next = u32::try_from(local.len() + deflated.len()).ok();
        let next = next.and_then(|len| offset.checked_add(len));
        offset = next.ok_or_else(|| archive("it would need ZIP64"))?;
        count = count
            .checked_add(1)
            .ok_or_else(|| archive("it has too many entries"))?;
    }
    out.write_all(&directory)?;
    out.write_all(b"PK\x05\x06\x00\x00\x00\x00")?;
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&(directory.len() as u32).to_le_bytes())?;
    out.write_all(&offset.to_le_bytes())?;
    out.write_all(&[0; 2])?;
    // The last bytes in the buffer may not fit on the disk, which only a flush reports.
    out.flush()?;
    Ok(())
}

/// The fields that local headers and directory entries share.
fn header_fields(name: &str, crc: u32, deflated: usize, size: usize) -> Result<Vec<u8>, NpzError> {
    let too_large = |_| archive("an array needs ZIP64");
    let deflated = u32::try_from(deflated).map_err(too_large)?;
    let size = u32::try_from(size).map_err(too_large)?;
    let name_len = u16::try_from(name.len()).map_err(|_| archive("a name is too long"))?;
    // Version 2.0, no flags, deflated, 1980-01-01 00:00.
    let mut fields = vec![20, 0, 0, 0, 8, 0, 0, 0, 0x21, 0];
    fields.extend_from_slice(&crc.to_le_bytes());
    fields.extend_from_slice(&deflated.to_le_bytes());
    fields.extend_from_slice(&size.to_le_bytes());
    fields.extend_from_slice(&name_len.to_le_bytes());
    fields.extend_from_slice(&[0, 0]);
    Ok(fields)
}

fn npy(literal: &Literal) -> Vec<u8> {
    let dims = literal.shape().static_dims().unwrap_or_default();
    let mut shape = String::new();
    for size in &dims {
        shape.push_str(&format!("{size}, "));
    }
    let shape = if dims.len() == 1 {
        shape.trim_end()
    } else {
        shape.trim_end_matches(", ")
    };
    let descr = descr_of(literal.element_type());
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Magic, version and length take 10 bytes; the elements start at 64.
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(literal.bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive_of(arrays: &[(&str, &Literal)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_npz(&mut bytes, arrays.iter().copied()).unwrap();
        bytes
    }

    /// An archive with one stored entry of these bytes.
    fn stored(content: &[u8]) -> Vec<u8> {
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let mut fields = header_fields("a.npy", crc.sum(), content.len(), content.len()).unwrap();
        fields[4] = 0;
        let mut bytes = [b"PK\x03\x04", &fields[..], b"a.npy", content].concat();
        let start = bytes.len() as u32;
        bytes.extend([b"PK\x01\x02\x14\x00", &fields[..], &[0; 14], b"a.npy"].concat());
        let len = bytes.len() as u32 - start;
        bytes.extend(b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00");
        bytes.extend([len.to_le_bytes(), start.to_le_bytes()].concat());
        bytes.extend([0; 2]);
        bytes
    }

    fn npy_of(header: &str, content: &[u8]) -> Vec<u8> {
        let len = (header.len() as u16).to_le_bytes();
        stored(&[b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), content].concat())
    }

    #[test]
    fn what_is_written_is_read() {
        let a = Literal::from_f32s(&[2, 3], &[1., -2., 3., f32::INFINITY, 0., 6.]).unwrap();
        let b = Literal::from_value(7i64);
        let c = Literal::from_bools(&[3], &[true, false, true]).unwrap();
        let d = Literal::from_i32s(&[0, 4], &[]).unwrap();
        let e = Literal::from_bf16s(&[2], &[half::bf16::ONE, half::bf16::NEG_ONE]).unwrap();
        let f = Literal::from_c64s(&[1], &[num_complex_pair(1.0, 2.0)]).unwrap();
        let bytes = archive_of(&[
            ("a", &a),
            ("b", &b),
            ("c", &c),
            ("d", &d),
            ("e", &e),
            ("f", &f),
        ]);
        let arrays = read_npz(&bytes).unwrap();
        let names: Vec<&str> = arrays.iter().map(|array| array.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e", "f"]);
        for (array, literal) in arrays.iter().zip([&a, &b, &c, &d, &e, &f]) {
            assert_eq!(&array.to_literal(literal.element_type()).unwrap(), literal);
        }
        assert_eq!(arrays[4].descr, "u2");
        assert!(arrays[0].to_literal(ElementType::S32).is_err());
    }

    fn num_complex_pair(re: f32, im: f32) -> num_complex::Complex32 {
        num_complex::Complex32::new(re, im)
    }

    #[test]
    fn other_writers_headers_are_read() {
        let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
        let content: Vec<u8> = [0, 3, 1, 4, 2, 5i16]
            .iter()
            .flat_map(|x| x.to_be_bytes())
            .collect();
        let arrays = read_npz(&npy_of(header, &content)).unwrap();
        assert_eq!(arrays[0].literal.as_i16s(), Some(&[0, 1, 2, 3, 4, 5][..]));
        let header = "{\"shape\": (1L,), \"fortran_order\": False, \"descr\": \"|V2\"}";
        assert!(read_npz(&npy_of(header, &[1, 2])).is_err());
        let header = "{\"shape\": (1,), \"fortran_order\": False, \"descr\": \"|V2\"}";
        let arrays = read_npz(&npy_of(header, &[0x80, 0x3f])).unwrap();
        let bf16 = arrays[0].to_literal(ElementType::BF16).unwrap();
        assert_eq!(bf16.as_bf16s(), Some(&[half::bf16::ONE][..]));
    }

    #[test]
    fn hostile_headers_are_errors() {
        let headers = [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 8), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000000), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3000000000,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 5, }",
            "{'descr': '<f4', 'fortran_order': None, 'shape': (1,), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
            "{'descr': '', 'fortran_order': False, 'shape': (1,), }",
            "{'fortran_order': False, 'shape': (1,), }",
            "",
        ];
        for header in headers {
            assert!(read_npz(&npy_of(header, &[0; 4])).is_err(), "{header}");
        }
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
        assert!(read_npz(&npy_of(good, &[0; 4])).is_ok());
        assert!(read_npz(&npy_of(good, &[0; 3])).is_err());
        assert!(read_npz(&npy_of(good, &[0; 5])).is_err());
        assert!(read_npz(&stored(b"\x93NUMPY\x02\x00\xff\xff\xff\xff")).is_err());
        assert!(read_npz(&stored(b"hello")).is_err());
    }

    #[test]
    fn only_what_is_asked_for_is_read() {
        let a = Literal::from_f32s(&[8], &[1.5; 8]).unwrap();
        let mut bytes = archive_of(&[("a", &a), ("b", &a)]);
        // The bytes are in the content of `a`: its local header has 30 bytes, and the name is
        // `a.npy`.
        bytes[40..60].fill(0xff);
        assert!(read_npz(&bytes).is_err());
        let archive = NpzArchive::new(&bytes).unwrap();
        assert_eq!(archive.names().collect::<Vec<_>>(), ["a", "b"]);
        assert!(archive.read("a").is_err());
        assert_eq!(archive.read("b").unwrap().unwrap().literal, a);
        assert_eq!(archive.read("c").unwrap(), None);
        let text = stored(b"no array");
        assert!(NpzArchive::new(&text).unwrap().read("a").is_err());
    }

    #[test]
    fn unknown_versions_are_errors() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
        let of_version = |version: u8| {
            let len = u32::try_from(header.len()).unwrap().to_le_bytes();
            let len = if version == 1 { &len[..2] } else { &len[..] };
            let start = [&b"\x93NUMPY"[..], &[version, 0], len].concat();
            stored(&[&start, header.as_bytes(), &[0; 4]].concat())
        };
        for version in 1..=3 {
            assert!(read_npz(&of_version(version)).is_ok());
        }
        for version in [0, 4, 255] {
            let error = read_npz(&of_version(version)).unwrap_err().to_string();
            assert!(error.contains(&format!("version {version}.0")), "{error}");
        }
    }

    #[test]
    fn damaged_archives_are_errors_and_never_crash() {
        let a = Literal::from_f32s(&[8], &[1.5; 8]).unwrap();
        let bytes = archive_of(&[("a", &a), ("b", &a)]);
        for len in 0..bytes.len() {
            assert!(read_npz(&bytes[..len]).is_err(), "cut at {len}");
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                // Damage in some bytes (times, versions) has no effect.
                if let Ok(arrays) = read_npz(&damaged) {
                    assert!(arrays.iter().all(|array| array.literal == a), "at {at}");
                }
            }
        }
        assert!(read_npz(b"PK\x05\x06").is_err());
        assert_eq!(read_npz(&archive_of(&[])).unwrap(), []);
    }
}
