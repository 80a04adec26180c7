//! Trip counts of loops, for cost models.

use tegula_fusion::{Def, Node, NodeKind, Program, ValueId};
use tegula_ir::{Binary, Direction, InstructionId, Literal, Module, Op};

/// The trip count that is assumed if it is not known: the default of open XLA's
/// `xla_tpu_memory_space_assignment_while_execution_count`.
const ASSUMED_TRIPS: f64 = 5.0;
/// The most iterations that are counted.
const MOST_TRIPS: i64 = 1 << 40;

/// The trip count of a loop: exact if its counter goes by a constant step from one constant to
/// another, else assumed.
pub fn trips(module: &Module, program: &Program, node: &Node) -> f64 {
    counted(module, program, &node.kind, &node.operands).map_or(ASSUMED_TRIPS, |count| count as f64)
}

/// The loops of a program whose trip count is not known, with the assumed number.
pub fn assumed_trips(module: &Module, program: &Program) -> Vec<(InstructionId, u64)> {
    let nodes = program.nodes.values();
    let loops = nodes.filter(|node| matches!(node.kind, NodeKind::While { .. }));
    let unknown =
        loops.filter(|node| counted(module, program, &node.kind, &node.operands).is_none());
    unknown
        .map(|node| (node.origin, ASSUMED_TRIPS as u64))
        .collect()
}

fn counted(module: &Module, program: &Program, kind: &NodeKind, first: &[ValueId]) -> Option<i64> {
    let NodeKind::While {
        condition,
        body,
        states,
    } = kind
    else {
        return None;
    };
    let constant = |value: ValueId| match &program.values.get(value)?.def {
        Def::Constant(literal) => integer(literal),
        _ => None,
    };
    let made = |value: ValueId| match program.values.get(value)?.def {
        Def::Node(node, _) => {
            let node = program.nodes.get(node)?;
            Some((&module[node.origin].op, &node.operands))
        }
        _ => None,
    };
    let (test, operands) = made(*condition.results.first()?)?;
    let (&Op::Compare { direction, .. }, &[counter, bound]) = (test, operands.as_slice()) else {
        return None;
    };
    let state = states.iter().position(|&state| state == counter)?;
    let (next, operands) = made(*body.results.get(state)?)?;
    let &[a, b] = operands.as_slice() else {
        return None;
    };
    let step = match next {
        Op::Binary(Binary::Add) if a == counter => constant(b)?,
        Op::Binary(Binary::Add) if b == counter => constant(a)?,
        Op::Binary(Binary::Subtract) if a == counter => constant(b)?.checked_neg()?,
        _ => return None,
    };
    let (from, to) = (constant(*first.get(state)?)?, constant(bound)?);
    let distance = match (direction, step > 0) {
        (Direction::Lt | Direction::Ne, true) => to.checked_sub(from)?,
        (Direction::Le, true) => to.checked_sub(from)?.checked_add(1)?,
        (Direction::Gt | Direction::Ne, false) => from.checked_sub(to)?,
        (Direction::Ge, false) => from.checked_sub(to)?.checked_add(1)?,
        _ => return None,
    };
    let step = step.checked_abs().filter(|&step| step > 0)?;
    Some(distance.max(0).checked_add(step - 1)? / step).filter(|&count| count < MOST_TRIPS)
}

/// The value of a literal that is one small integer.
fn integer(literal: &Literal) -> Option<i64> {
    let bytes = literal.bytes();
    let is_integer = literal.element_type().is_integer();
    match bytes.len() {
        4 if is_integer => Some(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
        8 if is_integer => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}
