//! Single elements whose value is known before the program runs: counters of loops, and offsets that
//! are computed from them.

use rustc_hash::FxHashMap;
use tegula_fusion::{Def, Node, NodeKind, Program, Region, ValueId};
use tegula_ir::{ElementType, Module, Op};
use tegula_scalar::{
    Bits, Number, apply_binary, apply_clamp, apply_compare, apply_convert, apply_select,
    apply_unary, decode,
};

/// Values of single elements, as the bits that are stored.
pub(crate) type Scalars = FxHashMap<ValueId, u128>;

/// Adds what a region's operations give for what is known.
pub(crate) fn evaluate(module: &Module, program: &Program, region: &Region, known: &mut Scalars) {
    for &node in &region.nodes {
        let node = &program.nodes[node];
        if let (Some(value), &[result]) = (apply(module, program, node, known), &node.results[..]) {
            known.insert(result, value);
        }
    }
}

/// The value of a single element, if it is known.
pub(crate) fn value_of(program: &Program, known: &Scalars, value: ValueId) -> Option<u128> {
    let found = &program.values[value];
    match &found.def {
        Def::Constant(literal) if found.shape.element_count() == Some(1) => {
            Some(Bits::of(literal).get(0))
        }
        _ => known.get(&value).copied(),
    }
}

/// An integer or a truth value as a number.
pub(crate) fn integer(element_type: ElementType, bits: u128) -> Option<i64> {
    match decode(element_type, bits) {
        Number::Signed(number) => Some(number),
        Number::Unsigned(number) => i64::try_from(number).ok(),
        Number::Pred(truth) => Some(i64::from(truth)),
        _ => None,
    }
}

fn apply(module: &Module, program: &Program, node: &Node, known: &Scalars) -> Option<u128> {
    let &[result] = &node.results[..] else {
        return None;
    };
    if !matches!(node.kind, NodeKind::Op) || program.values[result].shape.element_count() != Some(1)
    {
        return None;
    }
    let operand = |at: usize| value_of(program, known, *node.operands.get(at)?);
    let type_of = |value: ValueId| program.values[value].shape.element_type;
    let to = type_of(result);
    let from = type_of(*node.operands.first()?);
    match &module[node.origin].op {
        Op::Unary(op) => apply_unary(*op, from, operand(0)?),
        Op::Binary(op) => apply_binary(*op, from, operand(0)?, operand(1)?),
        Op::Compare { direction, order } => {
            apply_compare(*direction, *order, from, operand(0)?, operand(1)?)
        }
        Op::Select => Some(apply_select(operand(0)?, operand(1)?, operand(2)?)),
        Op::Clamp => apply_clamp(to, operand(0)?, operand(1)?, operand(2)?),
        Op::Convert => Some(apply_convert(from, to, operand(0)?)),
        Op::Reshape | Op::Copy | Op::Broadcast(_) if from == to => operand(0),
        _ => None,
    }
}
