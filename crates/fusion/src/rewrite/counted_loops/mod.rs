//! Counted loops: loops of a module with a known trip count whose state is a flat tuple of arrays.
//! Passes that move products out of loops use this to find and change them.

pub(crate) mod slices;

use crate::analysis::trip_count::{Bound, Counter, constant};
use smallvec::SmallVec;
use std::sync::Arc;
use tegula_arena::SecondaryMap;
use tegula_ir::{
    ArrayShape, ComputationId, Dim, ElementType, Instruction, InstructionId, Literal, Module, Op,
    Shape,
};

/// The most iterations.
const MAX_TRIPS: i64 = 1 << 20;

/// A loop with a known trip count whose state is one tuple of arrays.
pub(crate) struct CountedLoop {
    pub(crate) id: InstructionId,
    /// The tuple of initial states.
    pub(crate) init: InstructionId,
    /// The tuple of next states, the root of the body.
    pub(crate) root: InstructionId,
    /// The parameters of the condition and of the body.
    pub(crate) parameters: [InstructionId; 2],
    counter: usize,
    /// The counter's initial value; `step` is what an iteration adds to it.
    start: i128,
    step: i128,
    pub(crate) trips: i64,
}

/// The users of each instruction, repeated if one uses it several times.
pub(crate) type Users = SecondaryMap<InstructionId, SmallVec<[InstructionId; 2]>>;

pub(crate) fn users(module: &Module) -> Users {
    let mut users = Users::default();
    for (id, instruction) in &module.instructions {
        for &operand in &instruction.operands {
            users[operand].push(id);
        }
    }
    users
}

/// The counted loop that the instruction `id` is, or `None`.
pub(crate) fn find(module: &Module, users: &Users, id: InstructionId) -> Option<CountedLoop> {
    let Op::While { condition, body } = module[id].op else {
        return None;
    };
    let &[init] = &module[id].operands[..] else {
        return None;
    };
    let root = module[body].root;
    let is_tuple = |id: InstructionId| module[id].op == Op::Tuple;
    let parts = module[id].shape.as_tuple()?;
    let arrays = parts.iter().all(|part| part.as_array().is_some());
    if !is_tuple(init) || !is_tuple(root) || !arrays || users[init][..] != [id] {
        return None;
    }
    if is_called_twice(module, [condition, body]) {
        return None;
    }
    let counter = Counter::of(module, condition, body)?;
    let Bound::Constant(bound) = counter.bound else {
        return None;
    };
    let start = constant(module, *module[init].operands.get(counter.state)?)?;
    let trips = counter.iterations(start, bound)?;
    let &[in_condition] = &module[condition].parameters[..] else {
        return None;
    };
    let &[in_body] = &module[body].parameters[..] else {
        return None;
    };
    let found = CountedLoop {
        id,
        init,
        root,
        parameters: [in_condition, in_body],
        counter: counter.state,
        start,
        step: counter.step,
        trips,
    };
    let all_elements = [in_condition, in_body, id].iter().all(|&tuple| {
        let taken = |&user: &InstructionId| matches!(module[user].op, Op::GetTupleElement(_));
        let is_root = module[module[tuple].computation].root == tuple;
        users[tuple].iter().all(taken) && !is_root
    });
    (all_elements && (2..=MAX_TRIPS).contains(&trips)).then_some(found)
}

/// Whether the computations of a loop are also called from elsewhere.
fn is_called_twice(module: &Module, computations: [ComputationId; 2]) -> bool {
    let called = module.instructions.values();
    let called = called.flat_map(|i| i.op.called_computations());
    called.filter(|c| computations.contains(c)).count() != 2
}

/// The instructions that take element `number` of a tuple.
pub(crate) fn elements(
    module: &Module,
    users: &Users,
    tuple: InstructionId,
    number: usize,
) -> Vec<InstructionId> {
    let is_it = |&&user: &&InstructionId| module[user].op == Op::GetTupleElement(number as i64);
    users[tuple].iter().filter(is_it).copied().collect()
}

/// The shape of an instruction's array result; the shape of a single `pred` if it is none.
pub(crate) fn array(module: &Module, id: InstructionId) -> ArrayShape {
    let shape = module[id].shape.as_array().cloned();
    shape.unwrap_or_else(|| ArrayShape::new(ElementType::Pred, &[]))
}

/// The shape of `trips` arrays of shape `one`, stacked along a new outermost dimension.
pub(crate) fn stacked(one: &ArrayShape, trips: i64) -> ArrayShape {
    let mut shape = one.clone();
    shape.dims.insert(0, Dim::Static(trips));
    shape.layout = None;
    shape
}

/// A zero constant of a type; `None` if the type has no zero.
pub(crate) fn zero(ty: ElementType) -> Option<Op> {
    let literal = Literal::zeros(&ArrayShape::new(ty, &[])).ok()?;
    Some(Op::Constant([literal].into()))
}

/// Inserts a new instruction before another, and names it after that one.
pub(crate) fn new(
    module: &mut Module,
    before: InstructionId,
    op: Op,
    operands: &[InstructionId],
    shape: ArrayShape,
) -> InstructionId {
    let like = &module[before];
    let (computation, span) = (like.computation, like.span);
    let name = unused_name(
        module,
        computation,
        &format!("{}.{}", like.name, op.opcode()),
    );
    let id = module.instructions.push(Instruction {
        name,
        op,
        operands: operands.iter().copied().collect(),
        shape: Shape::Array(shape),
        computation,
        span,
        annotations: None,
    });
    let order = &mut module.computations[computation].instructions;
    let place = order.iter().position(|&i| i == before);
    order.insert(place.unwrap_or(order.len()), id);
    id
}

/// A name that is unused in the computation: `name`, with a number appended if necessary.
fn unused_name(module: &Module, computation: ComputationId, name: &str) -> Arc<str> {
    let instructions = &module[computation].instructions;
    let is_used = |name: &str| instructions.iter().any(|&i| &*module[i].name == name);
    let mut unused = name.to_owned();
    let mut number = 1;
    while is_used(&unused) {
        number += 1;
        unused = format!("{name}.{number}");
    }
    unused.into()
}
