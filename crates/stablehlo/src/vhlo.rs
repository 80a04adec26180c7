//! Converts VHLO operations of every version to StableHLO.
//!
//! VHLO is the stable form of StableHLO: each change of an operation is a new version of it
//! (`dot_general_v2`), and files keep the versions that they were written with. All versions of an
//! operation are converted to the newest; attributes that an older version lacks are omitted, which
//! means their default. VHLO has flat lists of numbers where StableHLO has structured attributes,
//! which are assembled here.

use crate::Error;
use crate::mlir::{Attribute, Attributes, Module, Operation, Type};
use std::sync::Arc;

/// The newest supported version of VHLO.
pub const NEWEST: &str = "1.20.0";

/// The operations of VHLO whose newest version is not the first, with that version.
const NEWEST_VERSIONS: &[(&str, u32)] = &[
    ("all_gather", 2),
    ("all_reduce", 2),
    ("all_to_all", 2),
    ("cbrt", 2),
    ("collective_broadcast", 2),
    ("composite", 2),
    ("cosine", 2),
    ("custom_call", 2),
    ("dot_general", 2),
    ("dynamic_conv", 2),
    ("dynamic_gather", 2),
    ("exponential", 2),
    ("exponential_minus_one", 2),
    ("gather", 2),
    ("log", 2),
    ("log_plus_one", 2),
    ("logistic", 2),
    ("recv", 2),
    ("rsqrt", 2),
    ("scatter", 2),
    ("send", 2),
    ("sine", 2),
    ("sqrt", 2),
    ("tan", 2),
    ("tanh", 2),
];

/// A structured attribute of StableHLO: its operations, its name, the name of its kind, and its
/// fields as pairs of StableHLO's and VHLO's names.
struct Structured {
    operations: &'static [&'static str],
    attribute: &'static str,
    kind: &'static str,
    fields: &'static [(&'static str, &'static str)],
}

const STRUCTURED: &[Structured] = &[
    Structured {
        operations: &["dot_general"],
        attribute: "dot_dimension_numbers",
        kind: "dot",
        fields: &[
            ("lhs_batching_dimensions", "lhs_batching_dimensions"),
            ("rhs_batching_dimensions", "rhs_batching_dimensions"),
            ("lhs_contracting_dimensions", "lhs_contracting_dimensions"),
            ("rhs_contracting_dimensions", "rhs_contracting_dimensions"),
        ],
    },
    Structured {
        operations: &["dot_general"],
        attribute: "algorithm",
        kind: "dot_algorithm",
        fields: &[
            ("lhs_precision_type", "lhs_precision_type"),
            ("rhs_precision_type", "rhs_precision_type"),
            ("accumulation_type", "accumulation_type"),
            ("lhs_component_count", "lhs_component_count"),
            ("rhs_component_count", "rhs_component_count"),
            ("num_primitive_operations", "num_primitive_operations"),
            (
                "allow_imprecise_accumulation",
                "allow_imprecise_accumulation",
            ),
        ],
    },
    Structured {
        operations: &["convolution", "dynamic_conv"],
        attribute: "dimension_numbers",
        kind: "conv",
        fields: &[
            ("input_batch_dimension", "input_batch_dimension"),
            ("input_feature_dimension", "input_feature_dimension"),
            ("input_spatial_dimensions", "input_spatial_dimensions"),
            (
                "kernel_input_feature_dimension",
                "kernel_input_feature_dimension",
            ),
            (
                "kernel_output_feature_dimension",
                "kernel_output_feature_dimension",
            ),
            ("kernel_spatial_dimensions", "kernel_spatial_dimensions"),
            ("output_batch_dimension", "output_batch_dimension"),
            ("output_feature_dimension", "output_feature_dimension"),
            ("output_spatial_dimensions", "output_spatial_dimensions"),
        ],
    },
    Structured {
        operations: &["gather", "dynamic_gather"],
        attribute: "dimension_numbers",
        kind: "gather",
        fields: &[
            ("offset_dims", "offset_dims"),
            ("collapsed_slice_dims", "collapsed_slice_dims"),
            ("operand_batching_dims", "operand_batching_dims"),
            ("start_indices_batching_dims", "start_indices_batching_dims"),
            ("start_index_map", "start_index_map"),
            ("index_vector_dim", "index_vector_dim"),
        ],
    },
    Structured {
        operations: &["scatter"],
        attribute: "scatter_dimension_numbers",
        kind: "scatter",
        fields: &[
            ("update_window_dims", "update_window_dims"),
            ("inserted_window_dims", "inserted_window_dims"),
            ("input_batching_dims", "input_batching_dims"),
            (
                "scatter_indices_batching_dims",
                "scatter_indices_batching_dims",
            ),
            (
                "scatter_dims_to_operand_dims",
                "scatter_dims_to_operand_dims",
            ),
            ("index_vector_dim", "index_vector_dim"),
        ],
    },
    Structured {
        operations: &["send", "recv"],
        attribute: "channel_handle",
        kind: "channel_handle",
        fields: &[("handle", "channel_id"), ("type", "channel_type")],
    },
];

/// Converts every VHLO operation of a module.
///
/// # Errors
/// Unknown versions of operations.
pub fn legalize(module: &mut Module) -> Result<(), Error> {
    legalize_operation(&mut module.operation, false)
}

fn legalize_operation(operation: &mut Operation, in_function: bool) -> Result<(), Error> {
    let is_function = matches!(&*operation.name, "vhlo.func_v1" | "func.func");
    let name = Arc::clone(&operation.name);
    if let Some(versioned) = name.strip_prefix("vhlo.") {
        let name = unversioned(versioned).map_err(|error| error.at_byte(operation.offset))?;
        rename(operation, name, in_function);
    }
    for region in &mut operation.regions {
        for block in &mut region.blocks {
            for nested in &mut block.operations {
                legalize_operation(nested, is_function)?;
            }
        }
    }
    Ok(())
}

fn unversioned(versioned: &str) -> Result<&str, Error> {
    let parts = versioned
        .rsplit_once("_v")
        .and_then(|(name, version)| Some((name, version.parse::<u32>().ok()?)));
    let Some((name, version)) = parts else {
        return Err(Error::input(format!(
            "`vhlo.{versioned}` has no version: expected a name that ends as in `_v1`"
        )));
    };
    let known = NEWEST_VERSIONS.iter().find(|(known, _)| *known == name);
    let newest = known.map_or(1, |(_, newest)| *newest);
    if version == 0 || version > newest {
        return Err(Error::unsupported(format!(
            "`vhlo.{versioned}` is newer than VHLO {NEWEST}, the newest version that is known; \
             ask its writer for an older target version"
        )));
    }
    Ok(name)
}

fn rename(operation: &mut Operation, name: &str, in_function: bool) {
    operation.name = match name {
        "func" => "func.func".into(),
        "call" => "func.call".into(),
        "return" if in_function => "func.return".into(),
        _ => format!("stablehlo.{name}").into(),
    };
    let mut properties = std::mem::take(&mut operation.properties);
    for (key, value) in &mut properties {
        if let Some(plain) = plain_value(name, key, value) {
            *value = plain;
        }
        if &**key == "channel_id" && matches!(value, Attribute::Struct { .. }) {
            *key = "channel_handle".into();
        }
    }
    for structured in STRUCTURED {
        if structured.operations.contains(&name) {
            put_together(structured, &mut properties);
        }
    }
    properties.retain(|(key, value)| !is_default(key, value));
    operation.properties = properties;
}

/// StableHLO's value for a VHLO attribute, if it differs.
fn plain_value(operation: &str, key: &str, value: &Attribute) -> Option<Attribute> {
    match (operation, key, value) {
        ("constant", ..) => None,
        ("call", "callee", Attribute::String(name))
        | ("composite", "decomposition", Attribute::String(name)) => {
            Some(Attribute::Symbol([Arc::clone(name)].into()))
        }
        ("custom_call", "called_computations", Attribute::Array(names)) => {
            let symbol = |name: &Attribute| {
                let name = name.as_str().unwrap_or_default();
                Attribute::Symbol([name.into()].into())
            };
            Some(Attribute::Array(names.iter().map(symbol).collect()))
        }
        (_, "use_global_device_ids" | "has_dynamic_root", value)
            if value.as_bool() == Some(true) =>
        {
            Some(Attribute::Unit)
        }
        (_, "channel_id", Attribute::Integer { value, .. })
            if !matches!(operation, "send" | "recv") =>
        {
            let fields: Attributes = vec![
                ("handle".into(), Attribute::i64(*value)),
                ("type".into(), Attribute::i64(0)),
            ];
            Some(Attribute::stablehlo_struct("channel_handle", fields))
        }
        (_, _, Attribute::Elements(elements)) => {
            let tensor = elements.ty.as_tensor()?;
            let rank_one = tensor.dims.len() == 1;
            let is_list = rank_one && matches!(tensor.element, Type::Integer { .. });
            is_list.then(|| Attribute::IntegerArray {
                element: tensor.element.clone(),
                values: value.as_integers().unwrap_or_default().into(),
            })
        }
        _ => None,
    }
}

/// Assembles the fields of a structured attribute. It is omitted if a field is the type `none`,
/// which means that nothing was stated.
fn put_together(structured: &Structured, properties: &mut Attributes) {
    let mut fields = Attributes::new();
    for (field, flat) in structured.fields {
        let Some(at) = properties.iter().position(|(key, _)| &**key == *flat) else {
            continue;
        };
        let (_, value) = properties.remove(at);
        fields.push(((*field).into(), value));
    }
    let stated = |(_, value): &(Arc<str>, Attribute)| *value != Attribute::Type(Type::None);
    if !fields.is_empty() && fields.iter().all(stated) {
        let value = Attribute::stablehlo_struct(structured.kind, fields);
        properties.push((structured.attribute.into(), value));
    }
}

/// Whether a value is the default, which StableHLO omits.
fn is_default(key: &str, value: &Attribute) -> bool {
    match (key, value) {
        ("compare_type", value) => value.as_case() == Some("NOTYPE"),
        ("result_accuracy", value) => {
            let entries = value.as_entries();
            let mode = entries.and_then(|entries| entries.iter().find(|(key, _)| &**key == "mode"));
            mode.is_some_and(|(_, mode)| mode.as_case() == Some("DEFAULT"))
        }
        ("sym_visibility", value) => value.as_str() == Some(""),
        ("use_global_device_ids" | "has_dynamic_root" | "has_side_effect", value) => {
            value.as_bool() == Some(false)
        }
        ("channel_handle", Attribute::Struct { fields, .. }) => {
            fields.first().and_then(|(_, handle)| handle.as_integer()) == Some(0)
        }
        (
            "arg_attrs"
            | "res_attrs"
            | "called_computations"
            | "operand_layouts"
            | "result_layouts"
            | "output_operand_aliases"
            | "result_tilings",
            Attribute::Array(elements),
        ) => elements.is_empty(),
        ("precision_config", Attribute::Array(elements)) => {
            let default = |one: &Attribute| one.as_case() == Some("DEFAULT");
            elements.iter().all(default)
        }
        (_, Attribute::Type(Type::None)) => true,
        _ => false,
    }
}
