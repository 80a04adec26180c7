//! The encoding of attributes and types by VHLO, the versioned form of StableHLO.
//!
//! They are decoded to StableHLO's own attributes and types: `#vhlo.bool_v1<true>` becomes `true`,
//! a VHLO tensor type the builtin one. Codes: `stablehlo/dialect/VhloBytecode.cpp`; their meaning
//! never changes, and new versions only add codes.

use super::{Table, builtin};
use crate::Error;
use crate::bytecode::cursor::Cursor;
use crate::mlir::{Attribute, Attributes, FloatKind, FunctionType, Signedness, TensorType, Type};
use std::sync::Arc;

/// The cases of an enumeration, by number; unused numbers have empty names.
pub(super) type Cases = &'static [&'static str];

pub(super) const COMPARISON_DIRECTION: Cases = &["EQ", "NE", "GE", "GT", "LE", "LT"];
pub(super) const COMPARISON_TYPE: Cases = &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"];
pub(super) const FFT_TYPE: Cases = &["FFT", "IFFT", "RFFT", "IRFFT"];
pub(super) const PRECISION: Cases = &["DEFAULT", "HIGH", "HIGHEST"];
pub(super) const RNG_ALGORITHM: Cases = &["DEFAULT", "THREE_FRY", "PHILOX"];
pub(super) const RNG_DISTRIBUTION: Cases = &["", "UNIFORM", "NORMAL"];
pub(super) const TRANSPOSE: Cases = &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
pub(super) const RESULT_ACCURACY_MODE: Cases = &["DEFAULT", "HIGHEST", "TOLERANCE"];

/// Decodes an attribute.
pub(super) fn attribute(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Attribute, Error> {
    Ok(match bytes.varint()? {
        1 => Attribute::Array(table.attributes(bytes)?.into()),
        2 => match bytes.varint()? {
            value @ (0 | 1) => Attribute::bool(value != 0),
            value => {
                return Err(bytes.error(format!("expected 0 or 1 as a boolean, found {value}")));
            }
        },
        3 => case("comparison_direction", COMPARISON_DIRECTION, bytes)?,
        4 => case("comparison_type", COMPARISON_TYPE, bytes)?,
        5 => {
            let value = bytes.varint()?;
            let value = i64::try_from(value).ok().filter(|value| *value <= 4);
            let value = value.ok_or_else(|| bytes.error("unknown version of a custom call"))?;
            let ty = Type::signless(32);
            Attribute::Integer { value, ty }
        }
        6 => dictionary(table, bytes)?,
        7 => case("fft_type", FFT_TYPE, bytes)?,
        8 => {
            let ty = table.ty(bytes)?;
            let bits = builtin::float_bits(&ty, bytes)?;
            Attribute::Float { bits, ty }
        }
        9 => {
            let ty = table.ty(bytes)?;
            let value = builtin::integer(&ty, bytes)?;
            Attribute::Integer { value, ty }
        }
        10 => fields(
            "output_operand_alias",
            [
                (
                    "output_tuple_indices",
                    Attribute::i64s(&bytes.signed_list()?),
                ),
                ("operand_index", Attribute::i64(bytes.signed()?)),
                (
                    "operand_tuple_indices",
                    Attribute::i64s(&bytes.signed_list()?),
                ),
            ],
        ),
        11 => case("precision", PRECISION, bytes)?,
        12 => case("rng_algorithm", RNG_ALGORITHM, bytes)?,
        13 => case("rng_distribution", RNG_DISTRIBUTION, bytes)?,
        14 => Attribute::String(table.string(bytes)?),
        15 => {
            let ty = table.ty(bytes)?;
            let blob = bytes.blob()?;
            Attribute::Elements(Arc::new(builtin::elements(ty, blob, bytes)?))
        }
        16 => case("transpose", TRANSPOSE, bytes)?,
        17 => Attribute::Type(table.ty(bytes)?),
        18 => fields(
            "bounds",
            [("bounds", Attribute::i64s(&bytes.signed_list()?))],
        ),
        19 => case("result_accuracy_mode", RESULT_ACCURACY_MODE, bytes)?,
        20 => {
            let f64 = Type::Float(FloatKind::F64);
            let mut tolerance = || {
                let bits = builtin::float_bits(&f64, bytes)?;
                let ty = f64.clone();
                Ok::<_, Error>(Attribute::Float { bits, ty })
            };
            let (atol, rtol) = (tolerance()?, tolerance()?);
            let ulps = Attribute::i64(bytes.signed()?);
            let mode = table.attribute(bytes)?;
            fields(
                "result_accuracy",
                [
                    ("atol", atol),
                    ("rtol", rtol),
                    ("ulps", ulps),
                    ("mode", mode),
                ],
            )
        }
        21 => fields(
            "sub_axis_info",
            [
                ("pre_size", Attribute::i64(bytes.signed()?)),
                ("size", Attribute::i64(bytes.signed()?)),
            ],
        ),
        22 => {
            let name = table.attribute(bytes)?;
            let mut entries: Attributes = vec![("name".into(), name)];
            if bytes.varint()? != 0 {
                entries.push(("sub_axis_info".into(), table.attribute(bytes)?));
            }
            Attribute::stablehlo_struct("axis_ref", entries)
        }
        23 => {
            // VHLO writes the name of the mesh as a string.
            let mesh = match table.attribute(bytes)? {
                Attribute::String(name) => Attribute::Symbol([name].into()),
                other => other,
            };
            let axes = table.attribute(bytes)?;
            fields("replica_group_mesh_axes", [("mesh", mesh), ("axes", axes)])
        }
        24 => fields(
            "mesh_axis",
            [
                ("name", table.attribute(bytes)?),
                ("size", Attribute::i64(bytes.signed()?)),
            ],
        ),
        25 => {
            let mut entries: Attributes = vec![("axes".into(), table.attribute(bytes)?)];
            if let Some(ids) = table.optional_attribute(bytes)? {
                entries.push(("device_ids".into(), ids));
            }
            Attribute::stablehlo_struct("mesh", entries)
        }
        code => return Err(bytes.error(format!("unknown code {code} of a VHLO attribute"))),
    })
}

pub(super) fn case(kind: &str, cases: Cases, bytes: &mut Cursor) -> Result<Attribute, Error> {
    let number = bytes.index()?;
    match cases.get(number) {
        Some(&name) if !name.is_empty() => Ok(Attribute::stablehlo_enum(kind, name)),
        _ => Err(bytes.error(format!("unknown number {number} of `{kind}`"))),
    }
}

pub(super) fn fields<const N: usize>(name: &str, entries: [(&str, Attribute); N]) -> Attribute {
    let entries = entries.into_iter().map(|(key, value)| (key.into(), value));
    Attribute::stablehlo_struct(name, entries.collect())
}

fn dictionary(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Attribute, Error> {
    let count = bytes.count()?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let Attribute::String(name) = table.attribute(bytes)? else {
            return Err(bytes.error("expected a string as the key of a dictionary"));
        };
        entries.push((name, table.attribute(bytes)?));
    }
    Ok(Attribute::Dictionary(Arc::new(entries)))
}

/// Decodes a type.
pub(super) fn ty(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Type, Error> {
    let unsigned = |width| Type::Integer {
        width,
        signedness: Signedness::Unsigned,
    };
    Ok(match bytes.varint()? {
        0 => Type::BOOL,
        1 => Type::Complex(Arc::new(table.ty(bytes)?)),
        2 => Type::Float(FloatKind::BF16),
        3 => Type::Float(FloatKind::F16),
        4 => Type::Float(FloatKind::F32),
        5 => Type::Float(FloatKind::F64),
        6 => Type::Float(FloatKind::F8E4M3FN),
        7 => Type::Float(FloatKind::F8E5M2),
        8 => Type::Function(Arc::new(FunctionType {
            inputs: table.types(bytes)?,
            results: table.types(bytes)?,
        })),
        9 => Type::Index,
        10 => Type::signless(4),
        11 => Type::signless(8),
        12 => Type::signless(16),
        13 => Type::signless(32),
        14 => Type::signless(64),
        15 => unsigned(4),
        16 => unsigned(8),
        17 => unsigned(16),
        18 => unsigned(32),
        19 => unsigned(64),
        20 => Type::tensor(builtin::sizes(bytes)?, table.ty(bytes)?),
        21 => {
            let encoding = Some(table.attribute(bytes)?);
            Type::Tensor(Arc::new(TensorType {
                dims: builtin::sizes(bytes)?,
                element: table.ty(bytes)?,
                encoding,
            }))
        }
        22 => Type::dialect("stablehlo", "token"),
        23 => Type::Tuple(table.types(bytes)?.into()),
        24 => {
            quantized(table, bytes)?;
            Type::dialect("quant", "uniform")
        }
        25 => Type::UnrankedTensor(Arc::new(table.ty(bytes)?)),
        26 => Type::dialect("shape", "witness"),
        27 => Type::Float(FloatKind::F8E4M3FNUZ),
        28 => Type::Float(FloatKind::F8E5M2FNUZ),
        29 => Type::Float(FloatKind::F8E4M3B11FNUZ),
        30 => {
            quantized_per_axis(table, bytes)?;
            Type::dialect("quant", "uniform_per_axis")
        }
        31 => Type::signless(2),
        32 => unsigned(2),
        33 => Type::None,
        34 => Type::Float(FloatKind::TF32),
        35 => Type::Float(FloatKind::F8E4M3),
        36 => Type::Float(FloatKind::F8E3M4),
        37 => Type::Float(FloatKind::F4E2M1FN),
        38 => Type::Float(FloatKind::F6E2M3FN),
        39 => Type::Float(FloatKind::F6E3M2FN),
        40 => Type::Float(FloatKind::F8E8M0FNU),
        41 => {
            let dims = Some(builtin::sizes(bytes)?);
            let element = table.ty(bytes)?;
            Type::MemRef(Arc::new(crate::mlir::MemRefType {
                dims,
                element,
                layout: None,
                space: None,
            }))
        }
        42 => {
            let types = table.types(bytes)?;
            let types: Vec<String> = types.iter().map(crate::print::type_text).collect();
            Type::dialect("stablehlo", &format!("future<{}>", types.join(", ")))
        }
        code => return Err(bytes.error(format!("unknown code {code} of a VHLO type"))),
    })
}

/// Skips a quantized type, because no operation on such a type is supported.
fn quantized(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<(), Error> {
    bytes.varint()?;
    table.ty(bytes)?;
    table.ty(bytes)?;
    builtin::float_bits(&Type::Float(FloatKind::F64), bytes)?;
    for _ in 0..3 {
        bytes.signed()?;
    }
    Ok(())
}

/// As [`quantized`], with a scale and a zero point for each index of one dimension.
fn quantized_per_axis(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<(), Error> {
    bytes.varint()?;
    table.ty(bytes)?;
    table.ty(bytes)?;
    bytes.varint()?;
    bytes.signed()?;
    bytes.signed()?;
    for _ in 0..bytes.count()? {
        builtin::float_bits(&Type::Float(FloatKind::F64), bytes)?;
    }
    bytes.signed_list()?;
    Ok(())
}
