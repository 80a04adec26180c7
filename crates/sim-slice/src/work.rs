//! How much an operation does: products, operations on elements, bytes.

use crate::Speeds;
use tegula_fusion::{Class, Node, NodeId, Program, ValueId, classify};
use tegula_ir::{Annotations, ArrayShape, CustomCall, ElementType, Module, Op, Precision};

/// Operations of the vector units for one transcendental function, in the mean: a range reduction and
/// a polynomial.
const FUNCTION: f64 = 10.0;

/// What a kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Operations of products, a multiply and an add being two.
    pub flops: f64,
    /// Seconds of the matrix units.
    pub products: f64,
    /// Operations of the vector units.
    pub vector: f64,
    /// Bytes from and to HBM.
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

/// Elements of an array; where a size is not known, a guess.
pub(crate) fn elements(program: &Program, value: ValueId) -> f64 {
    let dims = &program.values[value].shape.dims;
    dims.iter().map(|dim| dim.representative() as f64).product()
}

/// Bytes of an array, without the padding of tiles.
pub(crate) fn bytes(program: &Program, value: ValueId) -> f64 {
    let bits = f64::from(program.values[value].shape.element_type.bits());
    elements(program, value) * bits / 8.0
}

/// The arithmetic of a node; bytes are its kernel's.
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
            // The smaller operand is held by the units, the larger one goes through them.
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
                // A network of comparators.
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

/// Operations per second of a product, by the wider of its operands' types.
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

/// How often the matrix units do a product of f32: by default its operands are rounded to bf16.
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

/// The work of a custom call, if it is known, bytes among it.
///
/// A kernel of Pallas may state its work (`cost_estimate`). Calls of attention say it by their shapes:
/// two products of scores and values forward; backward five, as scores are computed again.
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

/// `[batch, sequence, heads, head]` of the first operand of four dimensions.
fn attention(operands: &[&ArrayShape], products: f64, peak: f64) -> Option<Work> {
    let queries = operands.iter().find(|shape| shape.dims.len() == 4)?;
    let mut sizes = queries.dims.iter().map(|dim| dim.representative() as f64);
    let (batch, sequence) = (sizes.next()?, sizes.next()?);
    let (heads, head) = (sizes.next()?, sizes.next()?);
    // Keys may be longer than queries, where the sequence is cut.
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

/// Bytes of a shape.
pub(crate) fn of_shape(shape: &ArrayShape) -> f64 {
    let count: f64 = shape
        .dims
        .iter()
        .map(|dim| dim.representative() as f64)
        .product();
    count * f64::from(shape.element_type.bits()) / 8.0
}

/// A `backend_config=`: an object, or one in quotes, where `"` and `\\` have a backslash before them.
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
