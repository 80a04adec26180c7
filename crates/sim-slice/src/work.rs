//! The amount of work of an operation: matrix products, elementwise operations, bytes.

use crate::Speeds;
use tegula_fusion::{Class, Node, NodeId, Program, ValueId, classify};
use tegula_ir::{Annotations, ArrayShape, CustomCall, ElementType, Module, Op, Precision};

/// The mean number of vector operations for a transcendental function: range reduction and a
/// polynomial.
const FUNCTION: f64 = 10.0;

/// The amount of work of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Operations in matrix products; a multiply-add counts as two.
    pub flops: f64,
    /// The time of the matrix units, in seconds.
    pub products: f64,
    /// Operations of the vector units.
    pub vector: f64,
    /// The bytes read from and written to HBM.
    pub bytes: f64,
}

impl Work {
    pub(crate) fn add(&mut self, other: Self) {
        self.flops += other.flops;
        self.products += other.products;
        self.vector += other.vector;
        self.bytes += other.bytes;
    }
}

/// The number of elements of an array, estimated if a size is unknown.
pub(crate) fn elements(program: &Program, value: ValueId) -> f64 {
    let dims = &program.values[value].shape.dims;
    dims.iter().map(|dim| dim.representative() as f64).product()
}

/// The number of bytes of an array, without the padding of tiles.
pub(crate) fn bytes(program: &Program, value: ValueId) -> f64 {
    let bits = f64::from(program.values[value].shape.element_type.bits());
    elements(program, value) * bits / 8.0
}

/// The arithmetic of a node; the bytes are counted for its kernel.
pub(crate) fn of_node(module: &Module, program: &Program, id: NodeId, speeds: &Speeds) -> Work {
    let node = &program.nodes[id];
    let result: f64 = node
        .results
        .first()
        .map_or(0.0, |&value| elements(program, value));
    match &module[node.origin].op {
        Op::Dot {
            dims, precision, ..
        } => {
            let lhs = sizes(program, node, 0);
            let rhs = sizes(program, node, 1);
            let product = |sizes: &[f64], dims: &[i64]| -> f64 {
                dims.iter().map(|&dim| size(sizes, dim)).product()
            };
            let batch = product(&lhs, &dims.lhs_batch);
            let depth = product(&lhs, &dims.lhs_contracting);
            let rows = lhs.iter().product::<f64>() / (batch * depth).max(1.0);
            let columns = rhs.iter().product::<f64>() / (batch * depth).max(1.0);
            let flops = 2.0 * result * depth;
            // The units hold the smaller operand, and the larger one streams through them.
            let unit = speeds.mxu_dim;
            let (wide, narrow) = (rows.max(columns), rows.min(columns));
            let rounded = |size: f64, to: f64| (size / to).ceil() * to;
            let padded =
                2.0 * batch * rounded(wide, 8.0) * rounded(narrow, unit) * rounded(depth, unit);
            Work {
                flops,
                products: padded / rate(program, node, speeds) * passes(precision, program, node),
                ..Work::default()
            }
        }
        Op::Convolution {
            dims, precision, ..
        } => {
            let kernel = sizes(program, node, 1);
            let own: f64 = kernel.iter().product();
            let flops = 2.0 * result * own / size(&kernel, dims.kernel_output_feature).max(1.0);
            Work {
                flops,
                products: flops / rate(program, node, speeds) * passes(precision, program, node),
                ..Work::default()
            }
        }
        Op::Reduce { .. } | Op::ReduceWindow { .. } => Work {
            vector: node.operands.first().map_or(0.0, |&v| elements(program, v)),
            ..Work::default()
        },
        Op::Sort { .. } => {
            let all: f64 = node.operands.iter().map(|&v| elements(program, v)).sum();
            Work {
                // A sorting network.
                vector: all * all.max(2.0).log2().powi(2) / 2.0,
                ..Work::default()
            }
        }
        _ => Work {
            vector: match classify(module, program, id) {
                Class::Pointwise(0) | Class::Library => 0.0,
                Class::Pointwise(1) => result,
                Class::Pointwise(_) => FUNCTION * result,
                Class::Loop | Class::Scan | Class::Update => result,
            },
            ..Work::default()
        },
    }
}

/// The speed of a product in operations per second, for the wider of its operands' types.
fn rate(program: &Program, node: &Node, speeds: &Speeds) -> f64 {
    let ty = |operand: usize| {
        let value = node.operands.get(operand)?;
        Some(program.values[*value].shape.element_type)
    };
    let wide = |ty: ElementType| ty.bits() > 8;
    let peak = match (ty(0), ty(1)) {
        (Some(a), Some(b)) if !wide(a) && !wide(b) && a.is_integer() => speeds.int8,
        (Some(a), Some(b)) if !wide(a) && !wide(b) => speeds.fp8,
        _ => speeds.bf16,
    };
    (peak * speeds.product_efficiency).max(1.0)
}

/// The number of passes of the matrix units for an f32 product. By default, operands are rounded to
/// bf16.
fn passes(precision: &[Precision], program: &Program, node: &Node) -> f64 {
    let wide = node.operands.iter().any(|&value| {
        let ty = program.values[value].shape.element_type;
        matches!(ty, ElementType::F32 | ElementType::F64)
    });
    let highest = precision.iter().map(|precision| match precision {
        Precision::Highest => 6.0,
        Precision::High => 3.0,
        Precision::Default => 1.0,
    });
    if wide {
        highest.fold(1.0, f64::max)
    } else {
        1.0
    }
}

fn sizes(program: &Program, node: &Node, operand: usize) -> Vec<f64> {
    let dims = node.operands.get(operand);
    let dims = dims.map(|&value| &program.values[value].shape.dims);
    let dims = dims.into_iter().flatten();
    dims.map(|dim| dim.representative() as f64).collect()
}

fn size(sizes: &[f64], dim: i64) -> f64 {
    let dim = usize::try_from(dim).ok();
    dim.and_then(|dim| sizes.get(dim).copied()).unwrap_or(1.0)
}

/// The work of a custom call, including bytes, if it is known.
///
/// A Pallas kernel may state its work (`cost_estimate`). For attention, it follows from the shapes:
/// two matrix products forward, for scores and values; five backward, because scores are
/// recomputed.
pub(crate) fn of_call(
    call: &CustomCall,
    annotations: Option<&Annotations>,
    operands: &[&ArrayShape],
    speeds: &Speeds,
) -> Option<Work> {
    let peak = speeds.bf16 * speeds.product_efficiency;
    match &*call.target {
        "tpu_custom_call" => {
            let config = annotations?.backend_config.as_deref()?;
            let config = config_of(config)?;
            let cost = config.get("custom_call_config")?.get("cost_estimate")?;
            let number = |name: &str| cost.get(name).and_then(serde_json::Value::as_f64);
            let flops = number("flops")?;
            Some(Work {
                flops,
                products: flops / peak,
                vector: FUNCTION * number("transcendentals").unwrap_or(0.0),
                bytes: number("bytes_accessed").unwrap_or(0.0),
            })
        }
        "te_fused_attn_forward_ffi" => attention(operands, 2.0, peak),
        "te_fused_attn_backward_ffi" => attention(operands, 5.0, peak),
        _ => None,
    }
}

/// The work of attention. The first operand of rank four has the dimensions `[batch, sequence,
/// heads, head]`.
fn attention(operands: &[&ArrayShape], products: f64, peak: f64) -> Option<Work> {
    let queries = operands.iter().find(|shape| shape.dims.len() == 4)?;
    let mut sizes = queries.dims.iter().map(|dim| dim.representative() as f64);
    let (batch, sequence) = (sizes.next()?, sizes.next()?);
    let (heads, head) = (sizes.next()?, sizes.next()?);
    // Keys may be longer than queries if the sequence is partitioned.
    let keys = operands.iter().filter_map(|shape| {
        let size = |dim: usize| shape.dims.get(dim).map(|dim| dim.representative() as f64);
        (size(0)? == batch && shape.dims.len() >= 4).then_some(size(1)?)
    });
    let keys = keys.fold(sequence, f64::max);
    let scores = batch * heads * sequence * keys;
    let flops = 2.0 * products * scores * head;
    let moved: f64 = operands.iter().map(|shape| of_shape(shape)).sum();
    Some(Work {
        flops,
        products: flops / peak,
        vector: FUNCTION * scores,
        bytes: moved,
    })
}

/// The number of bytes of a shape.
pub(crate) fn of_shape(shape: &ArrayShape) -> f64 {
    let count: f64 = shape
        .dims
        .iter()
        .map(|dim| dim.representative() as f64)
        .product();
    count * f64::from(shape.element_type.bits()) / 8.0
}

/// Parses a `backend_config=`: an object, or one in quotes, in which `"` and `\\` are escaped by a
/// backslash.
fn config_of(text: &str) -> Option<serde_json::Value> {
    let Some(quoted) = text.trim().strip_prefix('"') else {
        return serde_json::from_str(text).ok();
    };
    let quoted = quoted.strip_suffix('"')?;
    let mut plain = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                'n' => plain.push('\n'),
                't' => plain.push('\t'),
                other => plain.push(other),
            },
            other => plain.push(other),
        }
    }
    serde_json::from_str(&plain).ok()
}
