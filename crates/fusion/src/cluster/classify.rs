//! What fusing an operation costs and how it reads: its class, and how often it asks
//! for the elements of its operands.

use crate::analysis::cost::{is_call, unary_cost};
use crate::analysis::scan::as_scan;
use crate::kernel::ScalarOp;
use crate::program::contraction::is_product_of;
use crate::program::{Node, NodeId, NodeKind, Program, ValueId};
use std::cmp::Ordering;
use tegula_ir::{ArrayShape, Binary, Dim, Module, Op};

/// What a backend-independent view of an operation says about fusing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Each element is computed from a few elements of the operands; the number
    /// is how expensive that is: 0 moves data, 1 is arithmetic, 2 transcendental.
    Pointwise(u8),
    /// Each element is computed by a loop.
    Loop,
    /// A loop along one dimension gives all elements along it.
    Scan,
    /// Writes part of an array in place.
    Update,
    /// A named routine.
    Library,
}

/// The class of an operation. Control flow is not asked for.
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
        // Dots that a routine computes are contractions.
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

/// Whether reading an element of the result costs what reading one of the operand does,
/// however often: a broadcast, or a reshape that adds or drops dimensions of size 1.
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

/// Whether a bitcast-convert changes the width of elements: the bytes stay.
fn is_reinterpretation(program: &Program, node: &Node) -> bool {
    let bits = |v: Option<&ValueId>| v.map(|&v| program.values[v].shape.element_type.bits());
    bits(node.operands.first()) != bits(node.results.first())
}

/// Whether an operation gathers elements by an index each. Of slices of two or more the
/// indices are few beside what is read.
pub(super) fn gathers_singly(module: &Module, program: &Program, node: NodeId) -> bool {
    let node = &program.nodes[node];
    matches!(module[node.origin].op, Op::Gather { .. })
        && reads_per_element(module, program, node, 1) > 0.5
}

/// Whether an operand is looked up a few neighbouring elements at a time.
pub(super) fn gathers_few(module: &Module, program: &Program, node: &Node, operand: usize) -> bool {
    operand == 0
        && matches!(module[node.origin].op, Op::Gather { .. })
        && reads_per_element(module, program, node, 1) * MIN_WINDOW >= 1.0
}

/// Updates at one index that are worth lanes, and elements that are looked up at one.
const MIN_WINDOW: f64 = 4.0;

/// What an operand is to a scatter of a few elements at each index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Scattered {
    /// Nothing, or the array that is updated.
    #[default]
    No,
    /// The index of each.
    Index,
    /// What is combined into the array.
    Update,
}

/// What an operand is to a scatter, if it has a few elements at each index.
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

/// Whether an operation is a function that lanes compute as a polynomial.
pub(super) fn is_function(module: &Module, node: &Node) -> bool {
    match &module[node.origin].op {
        Op::Unary(op) => is_call(&ScalarOp::Unary(*op)),
        Op::Binary(op) => is_call(&ScalarOp::Binary(*op)),
        _ => false,
    }
}

/// Whether an operand of an update is the array that is updated.
pub(super) fn is_updated(module: &Module, node: &Node, operand: usize) -> bool {
    match &module[node.origin].op {
        Op::Scatter { .. } => operand < node.results.len(),
        Op::DynamicUpdateSlice => operand == 0,
        // Select-and-scatter walks its operands with loops of its own.
        _ => operand < 2,
    }
}

/// How many elements of an operand one element of the result reads.
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
        // The update's own elements are visited once each.
        Op::DynamicUpdateSlice | Op::Scatter { .. } => size(operand) / result,
        // What runs along the slice has one index.
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

/// How many elements a value has; where that is known only at run time, a guess.
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
