//! The builtin dialect's encoding of attributes and types.
//!
//! Codes: `mlir/include/mlir/IR/BuiltinDialectBytecode.td` of LLVM.

use super::Table;
use crate::bytecode::cursor::Cursor;
use crate::mlir::{
    Attribute, Elements, FloatKind, FunctionType, Location, MemRefType, Signedness, TensorType,
    Type, VectorType,
};
use crate::{Bytes, Error};
use std::sync::Arc;

/// Decodes an attribute.
pub(super) fn attribute(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Attribute, Error> {
    Ok(match bytes.varint()? {
        0 => Attribute::Array(table.attributes(bytes)?.into()),
        1 => {
            let count = bytes.count()?;
            let mut entries = Vec::with_capacity(count);
            for _ in 0..count {
                let name = string_attribute(table, bytes)?;
                entries.push((name, table.attribute(bytes)?));
            }
            Attribute::Dictionary(Arc::new(entries))
        }
        2 => Attribute::String(table.string(bytes)?),
        3 => {
            let text = table.string(bytes)?;
            table.ty(bytes)?;
            Attribute::String(text)
        }
        4 => Attribute::Symbol([string_attribute(table, bytes)?].into()),
        5 => {
            let mut names = vec![string_attribute(table, bytes)?];
            for nested in table.attributes(bytes)? {
                let Attribute::Symbol(nested) = nested else {
                    return Err(bytes.error("expected a nested symbol"));
                };
                names.extend(nested.iter().cloned());
            }
            Attribute::Symbol(names.into())
        }
        6 => Attribute::Type(table.ty(bytes)?),
        7 => Attribute::Unit,
        8 => {
            let ty = table.ty(bytes)?;
            let value = integer(&ty, bytes)?;
            Attribute::Integer { value, ty }
        }
        9 => {
            let ty = table.ty(bytes)?;
            let bits = float_bits(&ty, bytes)?;
            Attribute::Float { bits, ty }
        }
        code @ (10..=15 | 22) => Attribute::Location(Arc::new(location(code, table, bytes)?)),
        16 => {
            let ty = table.ty(bytes)?;
            resource(ty, table, bytes)?
        }
        17 => {
            let element = table.ty(bytes)?;
            let count = bytes.varint()?;
            dense_array(element, count, bytes)?
        }
        18 => {
            let ty = table.ty(bytes)?;
            let blob = bytes.blob()?;
            Attribute::Elements(Arc::new(elements(ty, blob, bytes)?))
        }
        19 => {
            return Err(
                Error::unsupported("a dense constant of strings is not supported")
                    .at_byte(bytes.offset()),
            );
        }
        20 => {
            return Err(
                Error::unsupported("a sparse constant is not supported").at_byte(bytes.offset())
            );
        }
        21 => table.attribute(bytes)?,
        23 => identity_map(bytes)?,
        code => return Err(bytes.error(format!("unknown code {code} of a builtin attribute"))),
    })
}

/// Reads an affine map that is the identity, as in layouts of memory references: its rank, shifted
/// left by two bits that give the kind of map (as LLVM 24 writes it; found in files of jax 0.12).
fn identity_map(bytes: &mut Cursor) -> Result<Attribute, Error> {
    const MOST_DIMENSIONS: u64 = 64;
    let code = bytes.varint()?;
    let (rank, which) = (code >> 2, code & 3);
    if which != 0 || rank > MOST_DIMENSIONS {
        return Err(Error::unsupported(format!(
            "an affine map of code {code} is not supported: expected an identity of at most {MOST_DIMENSIONS} dimensions"
        ))
        .at_byte(bytes.offset()));
    }
    let dims: Vec<String> = (0..rank).map(|d| format!("d{d}")).collect();
    let dims = dims.join(", ");
    Ok(Attribute::Opaque {
        dialect: "".into(),
        body: format!("affine_map<({dims}) -> ({dims})>").into(),
    })
}

fn location(code: u64, table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Location, Error> {
    Ok(match code {
        10 => Location::CallSite {
            callee: table.location(bytes)?,
            caller: table.caller(bytes)?,
        },
        11 => Location::File {
            file: string_attribute(table, bytes)?,
            range: [line(bytes)?, line(bytes)?, 0, 0],
        },
        12 | 13 => {
            let count = bytes.count()?;
            let locations: Result<Vec<_>, _> = (0..count).map(|_| table.location(bytes)).collect();
            let metadata = match code {
                13 => Some(table.attribute(bytes)?),
                _ => None,
            };
            Location::Fused {
                locations: locations?.into(),
                metadata,
            }
        }
        14 => Location::Name {
            name: string_attribute(table, bytes)?,
            child: table.location(bytes)?,
        },
        22 => {
            let file = string_attribute(table, bytes)?;
            // The numbers are the first line, first column, last column and last line; trailing
            // ones may be missing.
            let count = bytes.count()?;
            let mut stated = [0; 4];
            for index in 0..count {
                let number = line(bytes)?;
                if let Some(place) = stated.get_mut(index) {
                    *place = number;
                }
            }
            let [line, column, last_column, last_line] = stated;
            Location::File {
                file,
                range: [line, column, last_line, last_column],
            }
        }
        _ => Location::Unknown,
    })
}

fn line(bytes: &mut Cursor) -> Result<u32, Error> {
    let number = bytes.varint()?;
    u32::try_from(number).map_err(|_| bytes.error(format!("the line number {number} is invalid")))
}

fn string_attribute(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Arc<str>, Error> {
    match table.attribute(bytes)? {
        Attribute::String(text) => Ok(text),
        _ => Err(bytes.error("expected a string attribute")),
    }
}

/// Reads an integer of its type's width: one byte for up to 8 bits, a signed number for up to 64.
pub(super) fn integer(ty: &Type, bytes: &mut Cursor) -> Result<i64, Error> {
    let width = match ty {
        Type::Integer { width, .. } => *width,
        Type::Index => 64,
        _ => return Err(bytes.error("expected an integer type")),
    };
    match width {
        0..=8 => {
            let byte = bytes.byte()?;
            let signed = !matches!(
                ty,
                Type::Integer {
                    signedness: Signedness::Unsigned,
                    ..
                }
            );
            Ok(match signed && width > 1 {
                // In the file, bits above the width are zero.
                true => i64::from((byte << (8 - width)) as i8 >> (8 - width)),
                false => i64::from(byte),
            })
        }
        9..=64 => bytes.signed(),
        _ => Err(Error::unsupported(format!(
            "an integer of {width} bits is not supported: expected at most 64"
        ))
        .at_byte(bytes.offset())),
    }
}

/// Reads the bits of a floating-point number, encoded as an integer of the same width.
pub(super) fn float_bits(ty: &Type, bytes: &mut Cursor) -> Result<u64, Error> {
    let Type::Float(kind) = ty else {
        return Err(bytes.error("expected a floating-point type"));
    };
    let bits = kind.bits();
    match bits {
        0..=8 => Ok(u64::from(bytes.byte()?)),
        9..=64 => {
            let value = bytes.signed()? as u64;
            Ok(match bits {
                64 => value,
                _ => value & ((1 << bits) - 1),
            })
        }
        _ => Err(Error::unsupported(format!(
            "a constant of type {} is not supported",
            kind.name()
        ))
        .at_byte(bytes.offset())),
    }
}

/// A dense constant with these raw bytes.
pub(super) fn elements(ty: Type, blob: Bytes, place: &Cursor) -> Result<Elements, Error> {
    Elements::from_raw(ty, blob).map_err(|why| place.error(why))
}

/// Reads `dense_resource<key>`: the constant, if the file contains it.
fn resource(ty: Type, table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Attribute, Error> {
    let index = bytes.index()?;
    let Some(key) = table.file.resource_keys.get(index) else {
        return Err(bytes.error(format!("resource {index} does not exist")));
    };
    let Some(blob) = table.file.resources.get(key) else {
        return Err(bytes.error(format!(
            "the resource `{key}` has no content: it was elided, or is in another file"
        )));
    };
    let blob = blob.clone();
    Ok(Attribute::Elements(Arc::new(elements(ty, blob, bytes)?)))
}

fn dense_array(element: Type, count: u64, bytes: &mut Cursor) -> Result<Attribute, Error> {
    let blob = bytes.blob()?;
    let Some(size) = element.storage_bytes() else {
        return Err(bytes.error("the elements of an array are not numbers"));
    };
    if count.checked_mul(size as u64) != Some(blob.len() as u64) {
        return Err(bytes.error(format!(
            "an array of {count} elements of {size} bytes has {} bytes",
            blob.len()
        )));
    }
    let numbers = blob.chunks_exact(size).map(|chunk| {
        let mut wide = [0_u8; 8];
        let length = chunk.len().min(8);
        wide[..length].copy_from_slice(&chunk[..length]);
        u64::from_le_bytes(wide)
    });
    Ok(match &element {
        Type::Float(_) => Attribute::FloatArray {
            values: numbers.collect(),
            element,
        },
        Type::Integer { width, .. } if *width > 1 => {
            let shift = 64 - 8 * size.min(8) as u32;
            let values = numbers.map(|bits| ((bits << shift) as i64) >> shift);
            Attribute::IntegerArray {
                values: values.collect(),
                element,
            }
        }
        _ => Attribute::IntegerArray {
            values: numbers.map(|bits| bits as i64).collect(),
            element,
        },
    })
}

/// Decodes a type.
pub(super) fn ty(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Type, Error> {
    Ok(match bytes.varint()? {
        0 => {
            let code = bytes.varint()?;
            let width = u32::try_from(code >> 2)
                .ok()
                .filter(|width| *width < 1 << 24);
            let width = width.ok_or_else(|| bytes.error("an integer type is too wide"))?;
            let signedness = match code & 3 {
                0 => Signedness::Signless,
                1 => Signedness::Signed,
                2 => Signedness::Unsigned,
                _ => return Err(bytes.error("an integer type of unknown signedness")),
            };
            Type::Integer { width, signedness }
        }
        1 => Type::Index,
        2 => Type::Function(Arc::new(FunctionType {
            inputs: table.types(bytes)?,
            results: table.types(bytes)?,
        })),
        3 => Type::Float(FloatKind::BF16),
        4 => Type::Float(FloatKind::F16),
        5 => Type::Float(FloatKind::F32),
        6 => Type::Float(FloatKind::F64),
        7 => Type::Float(FloatKind::F80),
        8 => Type::Float(FloatKind::F128),
        9 => Type::Complex(Arc::new(table.ty(bytes)?)),
        code @ (10 | 11) => {
            let space = match code {
                11 => Some(table.attribute(bytes)?),
                _ => None,
            };
            let dims = Some(sizes(bytes)?);
            let element = table.ty(bytes)?;
            let layout = table.attribute(bytes)?;
            let identity = matches!(&layout, Attribute::Opaque { body, .. } if is_identity(body));
            Type::MemRef(Arc::new(MemRefType {
                dims,
                element,
                layout: (!identity).then_some(layout),
                space,
            }))
        }
        12 => Type::None,
        13 => Type::tensor(sizes(bytes)?, table.ty(bytes)?),
        14 => {
            let encoding = Some(table.attribute(bytes)?);
            Type::Tensor(Arc::new(TensorType {
                dims: sizes(bytes)?,
                element: table.ty(bytes)?,
                encoding,
            }))
        }
        15 => Type::Tuple(table.types(bytes)?.into()),
        code @ (16 | 17) => {
            let space = match code {
                17 => Some(table.attribute(bytes)?),
                _ => None,
            };
            Type::MemRef(Arc::new(MemRefType {
                dims: None,
                element: table.ty(bytes)?,
                layout: None,
                space,
            }))
        }
        18 => Type::UnrankedTensor(Arc::new(table.ty(bytes)?)),
        19 => Type::Vector(Arc::new(VectorType {
            dims: bytes.signed_list()?,
            scalable: Vec::new(),
            element: table.ty(bytes)?,
        })),
        20 => {
            let count = bytes.count()?;
            let scalable: Result<Vec<bool>, Error> =
                (0..count).map(|_| Ok(bytes.byte()? != 0)).collect();
            Type::Vector(Arc::new(VectorType {
                scalable: scalable?,
                dims: bytes.signed_list()?,
                element: table.ty(bytes)?,
            }))
        }
        // Since LLVM 24, narrow floats have their own codes.
        21 => Type::Float(FloatKind::TF32),
        22 => Type::Float(FloatKind::F8E5M2),
        23 => Type::Float(FloatKind::F8E4M3),
        24 => Type::Float(FloatKind::F8E4M3FN),
        25 => Type::Float(FloatKind::F8E5M2FNUZ),
        26 => Type::Float(FloatKind::F8E4M3FNUZ),
        27 => Type::Float(FloatKind::F8E4M3B11FNUZ),
        28 => Type::Float(FloatKind::F8E3M4),
        29 => Type::Float(FloatKind::F4E2M1FN),
        30 => Type::Float(FloatKind::F6E2M3FN),
        31 => Type::Float(FloatKind::F6E3M2FN),
        32 => Type::Float(FloatKind::F8E8M0FNU),
        code => return Err(bytes.error(format!("unknown code {code} of a builtin type"))),
    })
}

/// Whether the text of an affine map, such as `affine_map<(d0, d1) -> (d0, d1)>`, is the identity.
fn is_identity(body: &str) -> bool {
    let inner = body
        .strip_prefix("affine_map<")
        .and_then(|rest| rest.strip_suffix('>'));
    let sides = inner.and_then(|inner| inner.split_once("->"));
    sides.is_some_and(|(from, to)| from.trim() == to.trim())
}

/// Reads the sizes of a shaped type; the smallest number represents `?`.
pub(super) fn sizes(bytes: &mut Cursor) -> Result<Vec<Option<i64>>, Error> {
    let sizes = bytes.signed_list()?;
    let known = |size: i64| match size {
        i64::MIN => Ok(None),
        0.. => Ok(Some(size)),
        _ => Err(bytes.error(format!("a dimension has the invalid size {size}"))),
    };
    sizes.into_iter().map(known).collect()
}
