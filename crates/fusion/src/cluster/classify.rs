//! Classifies operations for fusion: what fusing one costs, and how many elements of each operand
//! it reads for one element of its result.

use crate::analysis::cost::{is_call, unary_cost};
use crate::analysis::scan::as_scan;
use crate::kernel::ScalarOp;
use crate::program::contraction::is_product_of;
use crate::program::{Node, NodeId, NodeKind, Program, ValueId};
use std::cmp::Ordering;
use tegula_ir::{ArrayShape, Binary, Dim, ElementType, Module, Op};

/// What kind of computation an operation is, as far as fusion is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Each element is computed from a few elements of the operands. The number is the cost: 0
    /// moves data, 1 is arithmetic, 2 is a transcendental function or a division.
    Pointwise(u8),
    /// Each element is computed by a loop.
    Loop,
    /// One loop along a dimension computes all elements along it.
    Scan,
    /// Overwrites part of an array in place.
    Update,
    /// A library routine.
    Library,
}

/// Classifies an operation that is not control flow.
pub fn classify(module: &Module, program: &Program, node: NodeId) -> Class {
    let node = &program.nodes[node];
    if matches!(node.kind, NodeKind::Contraction(_)) {
        return Class::Library;
    }
    match &module[node.origin].op {
        Op::Unary(op) => Class::Pointwise(unary_cost(*op)),
        Op::Binary(Binary::Divide | Binary::Remainder | Binary::Power | Binary::Atan2) => {
            Class::Pointwise(2)
        }
        Op::Binary(_)
        | Op::Compare { .. }
        | Op::Select
        | Op::Clamp
        | Op::Convert
        | Op::ReducePrecision { .. } => Class::Pointwise(1),
        Op::BitcastConvert if is_reinterpretation(program, node) => Class::Library,
        Op::BitcastConvert => Class::Pointwise(1),
        Op::Map { .. } => Class::Pointwise(2),
        Op::Gather { .. } | Op::DynamicSlice(_) => Class::Pointwise(1),
        Op::Iota(_)
        | Op::GetDimensionSize(_)
        | Op::SetDimensionSize(_)
        | Op::Broadcast(_)
        | Op::Reshape
        | Op::Bitcast
        | Op::Transpose(_)
        | Op::Reverse(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Concatenate(_) => Class::Pointwise(0),
        Op::ReduceWindow { .. } if as_scan(module, program, node).is_some() => Class::Scan,
        // Dots of types that a library routine supports are contractions, which were handled above.
        Op::Reduce { .. } | Op::ReduceWindow { .. } | Op::Dot { .. } => Class::Loop,
        Op::Convolution { .. } => {
            let ty = |v: Option<&ValueId>| v.map(|&v| program.values[v].shape.element_type);
            let [lhs, rhs] = [node.operands.first(), node.operands.get(1)].map(ty);
            match (lhs, rhs, ty(node.results.first())) {
                (Some(lhs), Some(rhs), Some(out)) if is_product_of(lhs, rhs, out) => Class::Library,
                _ => Class::Loop,
            }
        }
        Op::DynamicUpdateSlice | Op::Scatter { .. } | Op::SelectAndScatter { .. } => Class::Update,
        _ => Class::Library,
    }
}

/// Whether reading an element of the result costs no more than reading one of the operand, however
/// often that happens: true for a broadcast, and for a reshape that adds or drops dimensions of
/// size 1.
pub(super) fn is_view(module: &Module, program: &Program, node: NodeId) -> bool {
    let node = &program.nodes[node];
    match &module[node.origin].op {
        Op::Broadcast(_) => true,
        Op::Reshape | Op::Bitcast => {
            let (Some(&from), Some(&to)) = (node.operands.first(), node.results.first()) else {
                return false;
            };
            let [from, to] = [from, to].map(|v| &program.values[v].shape);
            fn long(shape: &ArrayShape) -> impl Iterator<Item = &Dim> {
                shape.dims.iter().filter(|dim| **dim != Dim::Static(1))
            }
            from.element_type == to.element_type && long(from).eq(long(to))
        }
        _ => false,
    }
}

/// Whether a `bitcast-convert` changes the width of the elements.
fn is_reinterpretation(program: &Program, node: &Node) -> bool {
    let bits = |v: Option<&ValueId>| v.map(|&v| program.values[v].shape.element_type.bits());
    bits(node.operands.first()) != bits(node.results.first())
}

/// Whether an operation gathers single elements, each with an index of its own. When slices of two
/// or more elements are gathered, loading the indices costs little in comparison.
pub(super) fn gathers_singly(module: &Module, program: &Program, node: NodeId) -> bool {
    let node = &program.nodes[node];
    matches!(module[node.origin].op, Op::Gather { .. })
        && reads_per_element(module, program, node, 1) > 0.5
}

/// Whether an operation gathers at most [`MIN_WINDOW`] adjacent elements of this operand at each
/// index.
pub(super) fn gathers_few(module: &Module, program: &Program, node: &Node, operand: usize) -> bool {
    operand == 0
        && matches!(module[node.origin].op, Op::Gather { .. })
        && reads_per_element(module, program, node, 1) * MIN_WINDOW >= 1.0
}

/// The least number of elements per index for which a gather or scatter is worth vectorising.
const MIN_WINDOW: f64 = 4.0;

/// The role of an operand in a scatter that updates few elements at each index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Scattered {
    /// Neither of the following: no operand of a scatter, or the array that is updated.
    #[default]
    No,
    /// The indices.
    Index,
    /// The elements that are combined into the array.
    Update,
}

/// The role of an operand in a scatter that updates fewer than [`MIN_WINDOW`] elements at each
/// index.
pub(super) fn scatters_singly(
    module: &Module,
    program: &Program,
    node: &Node,
    operand: usize,
) -> Scattered {
    let Op::Scatter { dims, .. } = &module[node.origin].op else {
        return Scattered::No;
    };
    let count = node.results.len();
    let what = match operand.cmp(&count) {
        Ordering::Less => return Scattered::No,
        Ordering::Equal => Scattered::Index,
        Ordering::Greater => Scattered::Update,
    };
    let Some(&update) = node.operands.get(operand.max(count + 1)) else {
        return Scattered::No;
    };
    let sizes = &program.values[update].shape.dims;
    let window = dims.update_window_dims.iter();
    let window = window.filter_map(|&dim| sizes.get(usize::try_from(dim).ok()?));
    match window
        .map(|dim| dim.representative() as f64)
        .product::<f64>()
        < MIN_WINDOW
    {
        true => what,
        false => Scattered::No,
    }
}

/// Whether an operation is fast in vector code and slow in scalar code: a transcendental function,
/// which is a polynomial there and a call here, or the conversion of a binary16 number, which is one
/// instruction there and twenty here.
pub(super) fn is_function(module: &Module, program: &Program, node: &Node) -> bool {
    let is_half = |v: &ValueId| program.values[*v].shape.element_type == ElementType::F16;
    match &module[node.origin].op {
        Op::Unary(op) => is_call(&ScalarOp::Unary(*op)),
        Op::Binary(op) => is_call(&ScalarOp::Binary(*op)),
        Op::Convert => node.operands.iter().chain(&node.results).any(is_half),
        _ => false,
    }
}

/// Whether an operand of an update is the array that is updated.
pub(super) fn is_updated(module: &Module, node: &Node, operand: usize) -> bool {
    match &module[node.origin].op {
        Op::Scatter { .. } => operand < node.results.len(),
        Op::DynamicUpdateSlice => operand == 0,
        // Select-and-scatter reads its first two operands in loops of its own.
        _ => operand < 2,
    }
}

/// How many elements of an operand are read for one element of the result, on average.
pub(super) fn reads_per_element(
    module: &Module,
    program: &Program,
    node: &Node,
    operand: usize,
) -> f64 {
    let result = node
        .results
        .first()
        .map_or(1.0, |&v| elements(program, v))
        .max(1.0);
    let size = |i: usize| node.operands.get(i).map_or(1.0, |&v| elements(program, v));
    match &module[node.origin].op {
        Op::Reduce { .. } if operand < node.operands.len() / 2 => size(operand) / result,
        Op::ReduceWindow { .. } if as_scan(module, program, node).is_some() => 1.0,
        Op::ReduceWindow { window, .. } if operand < node.operands.len() / 2 => {
            window.iter().map(|w| w.size as f64).product()
        }
        Op::Dot { dims, .. } => contracted(program, node.operands.first(), &dims.lhs_contracting),
        Op::Convolution { .. } => 1e9,
        // Each element of the update is read once.
        Op::DynamicUpdateSlice | Op::Scatter { .. } => size(operand) / result,
        // Elements along the innermost dimension of a slice share an index.
        Op::Gather { dims, .. } if operand == 1 => {
            let last = node.results.first().map(|&v| &program.values[v].shape.dims);
            let last = last.and_then(|dims| Some((dims.len() as i64 - 1, dims.last()?)));
            let along = last.filter(|(number, _)| dims.offset_dims.contains(number));
            1.0 / along.map_or(1, |(_, size)| size.representative()).max(1) as f64
        }
        Op::Pad(_) | Op::Concatenate(_) => size(operand).min(result) / result,
        _ => 1.0,
    }
}

/// The number of elements of a value; an estimate if it is known only at run time.
pub(super) fn elements(program: &Program, value: ValueId) -> f64 {
    let dims = &program.values[value].shape.dims;
    dims.iter().map(|dim| dim.representative() as f64).product()
}

fn contracted(program: &Program, lhs: Option<&ValueId>, dims: &[i64]) -> f64 {
    let Some(&lhs) = lhs else { return 1.0 };
    let shape = &program.values[lhs].shape;
    let size = |&d: &i64| Some(shape.dims.get(usize::try_from(d).ok()?)?.representative());
    dims.iter().map(|d| size(d).unwrap_or(1) as f64).product()
}
