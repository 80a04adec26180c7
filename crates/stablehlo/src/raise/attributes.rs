//! Converts dimension numbers, windows and other attributes.

use crate::mlir::{Attribute, Attributes, Elements, FloatKind, Type};
use std::sync::Arc;
use tegula_ir::{
    ArrayShape, Collective, ConvDims, DimNumbers, DotDims, GatherDims, Layout, Precision,
    ReplicaGroups, ScatterDims, WindowDim,
};

fn structure<const N: usize>(name: &str, fields: [(&str, &[i64]); N]) -> Attribute {
    let fields = fields.into_iter();
    let fields = fields.map(|(key, values)| (key.into(), Attribute::i64s(values)));
    Attribute::stablehlo_struct(name, fields.collect())
}

pub(super) fn dot_dims(dims: &DotDims) -> Attribute {
    structure(
        "dot",
        [
            ("lhs_batching_dimensions", &dims.lhs_batch),
            ("rhs_batching_dimensions", &dims.rhs_batch),
            ("lhs_contracting_dimensions", &dims.lhs_contracting),
            ("rhs_contracting_dimensions", &dims.rhs_contracting),
        ],
    )
}

pub(super) fn ragged_dot_dims(
    dims: &DotDims,
    ragged: &DimNumbers,
    group: &DimNumbers,
) -> Attribute {
    let lists = [
        ("lhs_batching_dimensions", &dims.lhs_batch),
        ("rhs_batching_dimensions", &dims.rhs_batch),
        ("lhs_contracting_dimensions", &dims.lhs_contracting),
        ("rhs_contracting_dimensions", &dims.rhs_contracting),
        ("lhs_ragged_dimensions", ragged),
        ("rhs_group_dimensions", group),
    ];
    let fields = lists.map(|(key, values)| (key.into(), Attribute::i64s(values)));
    Attribute::Struct {
        dialect: "chlo".into(),
        name: "ragged_dot".into(),
        fields: Arc::new(fields.into_iter().collect()),
    }
}

/// The alias of a custom call's result and operand, which share memory.
pub(super) fn alias((result, operand, inner): &(Vec<i64>, i64, Vec<i64>)) -> Attribute {
    let fields = [
        ("output_tuple_indices", Attribute::i64s(result)),
        ("operand_index", Attribute::i64(*operand)),
        ("operand_tuple_indices", Attribute::i64s(inner)),
    ];
    let fields = fields.map(|(key, value)| (key.into(), value));
    Attribute::stablehlo_struct("output_operand_alias", fields.into_iter().collect())
}

fn push_number(attribute: &mut Attribute, key: &str, value: i64) {
    if let Attribute::Struct { fields, .. } = attribute {
        Arc::make_mut(fields).push((key.into(), Attribute::i64(value)));
    }
}

pub(super) fn gather_dims(dims: &GatherDims) -> Attribute {
    let mut attribute = structure(
        "gather",
        [
            ("offset_dims", &dims.offset_dims),
            ("collapsed_slice_dims", &dims.collapsed_slice_dims),
            ("operand_batching_dims", &dims.operand_batching_dims),
            (
                "start_indices_batching_dims",
                &dims.start_indices_batching_dims,
            ),
            ("start_index_map", &dims.start_index_map),
        ],
    );
    push_number(&mut attribute, "index_vector_dim", dims.index_vector_dim);
    attribute
}

pub(super) fn scatter_dims(dims: &ScatterDims) -> Attribute {
    let mut attribute = structure(
        "scatter",
        [
            ("update_window_dims", &dims.update_window_dims),
            ("inserted_window_dims", &dims.inserted_window_dims),
            ("input_batching_dims", &dims.input_batching_dims),
            (
                "scatter_indices_batching_dims",
                &dims.scatter_indices_batching_dims,
            ),
            (
                "scatter_dims_to_operand_dims",
                &dims.scatter_dims_to_operand_dims,
            ),
        ],
    );
    push_number(&mut attribute, "index_vector_dim", dims.index_vector_dim);
    attribute
}

pub(super) fn conv_dims(dims: &ConvDims) -> Attribute {
    let number = |value: i64| Attribute::i64(value);
    let list = |values: &[i64]| Attribute::i64s(values);
    let fields: Attributes = vec![
        ("input_batch_dimension".into(), number(dims.input_batch)),
        ("input_feature_dimension".into(), number(dims.input_feature)),
        ("input_spatial_dimensions".into(), list(&dims.input_spatial)),
        (
            "kernel_input_feature_dimension".into(),
            number(dims.kernel_input_feature),
        ),
        (
            "kernel_output_feature_dimension".into(),
            number(dims.kernel_output_feature),
        ),
        (
            "kernel_spatial_dimensions".into(),
            list(&dims.kernel_spatial),
        ),
        ("output_batch_dimension".into(), number(dims.output_batch)),
        (
            "output_feature_dimension".into(),
            number(dims.output_feature),
        ),
        (
            "output_spatial_dimensions".into(),
            list(&dims.output_spatial),
        ),
    ];
    Attribute::stablehlo_struct("conv", fields)
}

/// `[DEFAULT, HIGHEST]`; `None` if no precision is stated.
pub(super) fn precision(precision: &[Precision]) -> Option<Attribute> {
    let case = |precision: &Precision| {
        let case = match precision {
            Precision::Default => "DEFAULT",
            Precision::High => "HIGH",
            Precision::Highest => "HIGHEST",
        };
        Attribute::stablehlo_enum("precision", case)
    };
    let cases: Vec<Attribute> = precision.iter().map(case).collect();
    (!cases.is_empty()).then(|| Attribute::Array(cases.into()))
}

/// A dot's algorithm, from HLO's name such as `dot_bf16_bf16_f32_x3`.
pub(super) fn dot_algorithm(name: &str) -> Option<Attribute> {
    let name = name.strip_prefix("dot_")?;
    let (name, fast) = match name.strip_suffix("_fast_accum") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (name, operations) = match name.rsplit_once("_x") {
        Some((name, times)) => (name, times.parse().ok()?),
        None => (name, 1),
    };
    // StableHLO requires a specific 8-bit format where HLO allows any.
    let name = name.replace("any_f8", "f8E5M2");
    let kinds: Option<Vec<FloatKind>> = name.split('_').map(FloatKind::from_name).collect();
    let [lhs, rhs, sum] = kinds?.try_into().ok()?;
    let ty = |kind| Attribute::Type(Type::Float(kind));
    let fields: Attributes = vec![
        ("lhs_precision_type".into(), ty(lhs)),
        ("rhs_precision_type".into(), ty(rhs)),
        ("accumulation_type".into(), ty(sum)),
        ("lhs_component_count".into(), Attribute::i64(1)),
        ("rhs_component_count".into(), Attribute::i64(1)),
        (
            "num_primitive_operations".into(),
            Attribute::i64(operations),
        ),
        ("allow_imprecise_accumulation".into(), Attribute::bool(fast)),
    ];
    Some(Attribute::stablehlo_struct("dot_algorithm", fields))
}

/// The attributes of a window, each a list over its dimensions.
pub(super) struct Window {
    pub(super) sizes: Attribute,
    pub(super) strides: Attribute,
    pub(super) padding: Attribute,
    pub(super) base_dilations: Attribute,
    pub(super) window_dilations: Attribute,
    pub(super) reversal: Attribute,
}

pub(super) fn window(window: &[WindowDim]) -> Window {
    let list = |of: &dyn Fn(&WindowDim) -> i64| {
        let values: Vec<i64> = window.iter().map(of).collect();
        Attribute::i64s(&values)
    };
    let padding = window
        .iter()
        .flat_map(|dim| [dim.padding_low, dim.padding_high]);
    Window {
        sizes: list(&|dim| dim.size),
        strides: list(&|dim| dim.stride),
        padding: rows(2, &padding.collect::<Vec<i64>>()),
        base_dilations: list(&|dim| dim.base_dilation),
        window_dilations: list(&|dim| dim.window_dilation),
        reversal: Attribute::IntegerArray {
            element: Type::BOOL,
            values: window.iter().map(|dim| i64::from(dim.reversal)).collect(),
        },
    }
}

/// The order of an array's dimensions, the fastest-varying first, in the form of `operand_layouts`.
pub(super) fn order_of(array: &ArrayShape) -> Attribute {
    let own = Layout::row_major(array.rank());
    let layout = array.layout.as_deref().unwrap_or(&own);
    let order = layout.minor_to_major.iter();
    let bytes: Vec<u8> = order
        .flat_map(|&dim| u64::from(dim).to_le_bytes())
        .collect();
    Attribute::Elements(Arc::new(Elements {
        ty: Type::tensor(vec![Some(array.rank() as i64)], Type::Index),
        bytes: bytes.into(),
        splat: false,
    }))
}

/// A dense constant of 64-bit integers in rows of `columns`.
pub(super) fn rows(columns: usize, flat: &[i64]) -> Attribute {
    let count = flat.len().checked_div(columns).unwrap_or(0);
    let bytes: Vec<u8> = flat.iter().flat_map(|value| value.to_le_bytes()).collect();
    Attribute::Elements(Arc::new(Elements {
        ty: Type::tensor(
            vec![Some(count as i64), Some(columns as i64)],
            Type::signless(64),
        ),
        bytes: bytes.into(),
        splat: false,
    }))
}

/// The properties that all collectives have; `None` if the groups have too many devices to list.
pub(super) fn collective(collective: &Collective) -> Option<Vec<(&'static str, Attribute)>> {
    let mut properties = vec![("replica_groups", groups(&collective.replica_groups)?)];
    if let Some(channel) = collective.channel_id {
        properties.push(("channel_handle", channel_handle(channel)));
    }
    if collective.use_global_device_ids {
        properties.push(("use_global_device_ids", Attribute::Unit));
    }
    Some(properties)
}

pub(super) fn channel_handle(channel: i64) -> Attribute {
    let fields = vec![
        ("handle".into(), Attribute::i64(channel)),
        ("type".into(), Attribute::i64(1)),
    ];
    Attribute::stablehlo_struct("channel_handle", fields)
}

fn groups(groups: &ReplicaGroups) -> Option<Attribute> {
    let lists = groups.listed()?;
    let columns = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut flat = Vec::new();
    for list in &lists {
        flat.extend_from_slice(list);
        flat.resize(flat.len() + columns - list.len(), -1);
    }
    Some(rows(columns, &flat))
}

/// An f32 number.
pub(super) fn f32(value: f32) -> Attribute {
    Attribute::Float {
        bits: u64::from(value.to_bits()),
        ty: Type::Float(FloatKind::F32),
    }
}

/// A 32-bit integer.
pub(super) fn i32(value: i64) -> Attribute {
    Attribute::Integer {
        value,
        ty: Type::signless(32),
    }
}
