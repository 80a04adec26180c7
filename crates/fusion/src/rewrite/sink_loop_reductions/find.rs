//! Which sums of a loop can be products behind it, and are better so.

use super::slices::{Rows, rows};
use super::{Loop, Sum};
use crate::analysis::trip_count::{Bound, Counter, constant};
use smallvec::SmallVec;
use tegula_arena::SecondaryMap;
use tegula_ir::{Binary, ComputationId, Dim, DotDims, ElementType, InstructionId, Module, Op};

/// The most that an iteration may contract: deeper products are bound by their
/// multiplications, not by the sum that they are added to.
const MAX_DEPTH: i64 = 64;
/// The most iterations.
const MAX_TRIPS: i64 = 1 << 20;

/// The instructions that read each instruction, once for each time that they do.
pub(super) type Users = SecondaryMap<InstructionId, SmallVec<[InstructionId; 2]>>;

pub(super) fn users(module: &Module) -> Users {
    let mut users = Users::default();
    for (id, instruction) in &module.instructions {
        for &operand in &instruction.operands {
            users[operand].push(id);
        }
    }
    users
}

pub(super) fn find(module: &Module, users: &Users, id: InstructionId) -> Option<Loop> {
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
    let mut found = Loop {
        id,
        init,
        root,
        parameters: [in_condition, in_body],
        counter: counter.state,
        start,
        step: counter.step,
        trips,
        sums: Vec::new(),
    };
    let all_elements = [in_condition, in_body, id].iter().all(|&tuple| {
        let taken = |&user: &InstructionId| matches!(module[user].op, Op::GetTupleElement(_));
        let is_root = module[module[tuple].computation].root == tuple;
        users[tuple].iter().all(taken) && !is_root
    });
    if !all_elements || !(2..=MAX_TRIPS).contains(&trips) {
        return None;
    }
    let sums = (0..parts.len()).filter_map(|state| sum(module, users, &found, state));
    found.sums = sums.collect();
    let fit: Vec<bool> = found
        .sums
        .iter()
        .map(|sum| fits(module, &found, sum))
        .collect();
    let mut fit = fit.into_iter();
    found.sums.retain(|_| fit.next() == Some(true));
    (!found.sums.is_empty()).then_some(found)
}

/// Whether the computations of a loop are called from elsewhere too.
fn is_called_twice(module: &Module, computations: [ComputationId; 2]) -> bool {
    let called = module.instructions.values();
    let called = called.flat_map(|i| i.op.called_computations());
    called.filter(|c| computations.contains(c)).count() != 2
}

/// The instructions that take an element of a tuple.
pub(super) fn elements(
    module: &Module,
    users: &Users,
    tuple: InstructionId,
    number: usize,
) -> Vec<InstructionId> {
    let is_it = |&&user: &&InstructionId| module[user].op == Op::GetTupleElement(number as i64);
    users[tuple].iter().filter(is_it).copied().collect()
}

fn sum(module: &Module, users: &Users, found: &Loop, state: usize) -> Option<Sum> {
    let [in_condition, in_body] = found.parameters;
    let tested = elements(module, users, in_condition, state);
    let inside = elements(module, users, in_body, state);
    let computations = [in_condition, in_body].map(|p| module[p].computation);
    let is_root = |id: InstructionId| computations.iter().any(|&c| module[c].root == id);
    let read = |id: &InstructionId| !users[*id].is_empty() || is_root(*id);
    let (&[own], false) = (
        &inside
            .iter()
            .copied()
            .filter(read)
            .collect::<SmallVec<[_; 2]>>()[..],
        tested.iter().any(read),
    ) else {
        return None;
    };
    let add = *module[found.root].operands.get(state)?;
    let &[a, b] = &module[add].operands[..] else {
        return None;
    };
    let product = if a == own { b } else { a };
    let only = |id: InstructionId, by: InstructionId| users[id][..] == [by];
    if module[add].op != Op::Binary(Binary::Add)
        || !(a == own || b == own)
        || !only(own, add)
        || !only(add, found.root)
        || !only(product, add)
    {
        return None;
    }
    let (dot, transpose) = match module[product].op {
        Op::Transpose(_) => (*module[product].operands.first()?, Some(product)),
        _ => (product, None),
    };
    let Op::Dot { dims, .. } = &module[dot].op else {
        return None;
    };
    if transpose.is_some_and(|transpose| !only(dot, transpose)) {
        return None;
    }
    let &[lhs, rhs] = &module[dot].operands[..] else {
        return None;
    };
    let (side, rows, other) = match [lhs, rhs].map(|v| rows(module, found, v)) {
        [Some(rows), None] => (0, rows, rhs),
        [None, Some(rows)] => (1, rows, lhs),
        _ => return None,
    };
    let Rows {
        array,
        index,
        backwards,
    } = rows;
    let mut elements_of = inside.clone();
    elements_of.extend(tested);
    let order = &module[module[found.id].computation].instructions;
    let mut taken = elements(module, users, found.id, state);
    taken.sort_by_key(|&id| order.iter().position(|&i| i == id));
    let suits = suits(module, dims, [lhs, rhs, add])
        && module[other].computation == module[in_body].computation
        && !matches!(module[other].op, Op::GetTupleElement(_) | Op::Constant(_));
    suits.then_some(Sum {
        state,
        own,
        elements: elements_of,
        taken,
        dot,
        transpose,
        side,
        array,
        index,
        backwards,
        other,
    })
}

/// Whether it is a sum of floats, all of one type, of products of little depth.
fn suits(module: &Module, dims: &DotDims, [lhs, rhs, sum]: [InstructionId; 3]) -> bool {
    let shape = |id: InstructionId| module[id].shape.as_array();
    let types = [lhs, rhs, sum].map(|id| shape(id).map(|s| s.element_type));
    let one_type = types == [Some(ElementType::F32); 3] || types == [Some(ElementType::F64); 3];
    let size = |&d: &i64| {
        shape(lhs)
            .and_then(|s| s.dimension(d))
            .map(Dim::representative)
    };
    let depth: Option<i64> = dims.lhs_contracting.iter().map(size).product();
    one_type
        && dims.lhs_batch.is_empty()
        && depth.is_some_and(|depth| (1..=MAX_DEPTH).contains(&depth))
}

/// Whether the array of what a sum multiplies takes no more room than the sums whose place
/// it takes: a long loop would fill memory for little.
fn fits(module: &Module, found: &Loop, sum: &Sum) -> bool {
    let count = |id: InstructionId| {
        let shape = module[id].shape.as_array();
        shape
            .and_then(|s| s.representative().element_count())
            .unwrap_or(i64::MAX)
    };
    let alike = found
        .sums
        .iter()
        .filter(|other| (other.other, other.backwards) == (sum.other, sum.backwards));
    let sums = alike.fold(0i64, |sums, other| sums.saturating_add(count(other.own)));
    count(sum.other).saturating_mul(found.trips) <= sums
}
