//! The encoding of attributes and types by StableHLO itself and CHLO, without versions. It occurs
//! in files that are not portable artifacts, such as those of `mlir-opt --emit-bytecode` and
//! `write_bytecode`.
//!
//! Codes: `stablehlo/dialect/StablehloBytecode.cpp` and `ChloBytecode.cpp`.

use super::vhlo::{self, case, fields};
use super::{Table, builtin};
use crate::Error;
use crate::bytecode::cursor::Cursor;
use crate::mlir::{Attribute, Attributes, FloatKind, Type};

/// The fields of a structured attribute, in the order of the file: lists of numbers, or single
/// numbers if the name ends in an exclamation mark.
type Numbers = &'static [&'static str];

const CONV: Numbers = &[
    "input_batch_dimension!",
    "input_feature_dimension!",
    "input_spatial_dimensions",
    "kernel_input_feature_dimension!",
    "kernel_output_feature_dimension!",
    "kernel_spatial_dimensions",
    "output_batch_dimension!",
    "output_feature_dimension!",
    "output_spatial_dimensions",
];
const DOT: Numbers = &[
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
];
const GATHER: Numbers = &[
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
    "index_vector_dim!",
];
const SCATTER: Numbers = &[
    "update_window_dims",
    "inserted_window_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
    "index_vector_dim!",
];
const OUTPUT_OPERAND_ALIAS: Numbers = &[
    "output_tuple_indices",
    "operand_index!",
    "operand_tuple_indices",
];

/// Decodes an attribute of StableHLO.
pub(super) fn attribute(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Attribute, Error> {
    Ok(match bytes.varint()? {
        1 => numbers("channel_handle", &["handle!", "type!"], bytes)?,
        2 => case("comparison_direction", vhlo::COMPARISON_DIRECTION, bytes)?,
        3 => case("comparison_type", vhlo::COMPARISON_TYPE, bytes)?,
        4 => numbers("conv", CONV, bytes)?,
        5 => numbers("dot", DOT, bytes)?,
        6 => case("fft_type", vhlo::FFT_TYPE, bytes)?,
        7 => numbers("gather", GATHER, bytes)?,
        8 => case("precision", vhlo::PRECISION, bytes)?,
        9 => case("rng_algorithm", vhlo::RNG_ALGORITHM, bytes)?,
        10 => case("rng_distribution", vhlo::RNG_DISTRIBUTION, bytes)?,
        11 => numbers("scatter", SCATTER, bytes)?,
        12 => case("transpose", vhlo::TRANSPOSE, bytes)?,
        13 => numbers("bounds", &["bounds"], bytes)?,
        14 => numbers("output_operand_alias", OUTPUT_OPERAND_ALIAS, bytes)?,
        15 => dot_algorithm(table, bytes)?,
        16 => case("result_accuracy_mode", vhlo::RESULT_ACCURACY_MODE, bytes)?,
        17 => {
            let (atol, rtol) = (tolerance(bytes)?, tolerance(bytes)?);
            let ulps = Attribute::i64(bytes.signed()?);
            let mode = table.attribute(bytes)?;
            let entries = [
                ("atol", atol),
                ("rtol", rtol),
                ("ulps", ulps),
                ("mode", mode),
            ];
            fields("result_accuracy", entries)
        }
        18 => {
            let mesh = table.attribute(bytes)?;
            let axes = Attribute::Array(table.attributes(bytes)?.into());
            fields("replica_group_mesh_axes", [("mesh", mesh), ("axes", axes)])
        }
        19 => numbers("sub_axis_info", &["pre_size!", "size!"], bytes)?,
        20 => {
            let name = Attribute::String(table.string(bytes)?);
            let mut entries: Attributes = vec![("name".into(), name)];
            if bytes.byte()? != 0 {
                entries.push(("sub_axis_info".into(), table.attribute(bytes)?));
            }
            Attribute::stablehlo_struct("axis_ref", entries)
        }
        21 => {
            let name = Attribute::String(table.string(bytes)?);
            let size = Attribute::i64(bytes.signed()?);
            fields("mesh_axis", [("name", name), ("size", size)])
        }
        22 => {
            let axes = table.attribute(bytes)?;
            let mut entries: Attributes = vec![("axes".into(), axes)];
            if bytes.byte()? != 0 {
                entries.push(("device_ids".into(), table.attribute(bytes)?));
            }
            Attribute::stablehlo_struct("mesh", entries)
        }
        code => return Err(bytes.error(format!("unknown code {code} of a StableHLO attribute"))),
    })
}

/// Decodes an attribute of CHLO; all others of its attributes are written as text.
pub(super) fn chlo_attribute(bytes: &mut Cursor) -> Result<Attribute, Error> {
    let (kind, cases) = match bytes.varint()? {
        0 => ("comparison_direction", vhlo::COMPARISON_DIRECTION),
        1 => ("comparison_type", vhlo::COMPARISON_TYPE),
        code => return Err(bytes.error(format!("unknown code {code} of a CHLO attribute"))),
    };
    match case(kind, cases, bytes)? {
        Attribute::Enum { kind, case, .. } => Ok(Attribute::Enum {
            dialect: "chlo".into(),
            kind,
            case,
        }),
        other => Ok(other),
    }
}

/// Decodes a type of StableHLO.
pub(super) fn ty(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Type, Error> {
    match bytes.varint()? {
        0 => Ok(Type::dialect("stablehlo", "token")),
        1 => {
            let types = table.types(bytes)?;
            let types: Vec<String> = types.iter().map(crate::print::type_text).collect();
            Ok(Type::dialect(
                "stablehlo",
                &format!("future<{}>", types.join(", ")),
            ))
        }
        code => Err(bytes.error(format!("unknown code {code} of a StableHLO type"))),
    }
}

fn numbers(kind: &str, names: Numbers, bytes: &mut Cursor) -> Result<Attribute, Error> {
    let mut entries = Attributes::new();
    for name in names {
        let (name, value) = match name.strip_suffix('!') {
            Some(name) => (name, Attribute::i64(bytes.signed()?)),
            None => (*name, Attribute::i64s(&bytes.signed_list()?)),
        };
        entries.push((name.into(), value));
    }
    Ok(Attribute::stablehlo_struct(kind, entries))
}

fn tolerance(bytes: &mut Cursor) -> Result<Attribute, Error> {
    let ty = Type::Float(FloatKind::F64);
    let bits = builtin::float_bits(&ty, bytes)?;
    Ok(Attribute::Float { bits, ty })
}

fn dot_algorithm(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Attribute, Error> {
    let mut entries = Attributes::new();
    for name in [
        "lhs_precision_type",
        "rhs_precision_type",
        "accumulation_type",
    ] {
        entries.push((name.into(), Attribute::Type(table.ty(bytes)?)));
    }
    for name in [
        "lhs_component_count",
        "rhs_component_count",
        "num_primitive_operations",
    ] {
        entries.push((name.into(), Attribute::i64(bytes.signed()?)));
    }
    let imprecise = Attribute::bool(bytes.byte()? != 0);
    entries.push(("allow_imprecise_accumulation".into(), imprecise));
    Ok(Attribute::stablehlo_struct("dot_algorithm", entries))
}
