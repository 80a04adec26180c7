//! Decides which sums of a loop can become products after the loop, and for which of them this
//! pays.

use super::Sum;
use crate::rewrite::counted_loops::slices::{Rows, rows};
use crate::rewrite::counted_loops::{CountedLoop, Users, elements};
use smallvec::SmallVec;
use tegula_ir::{Binary, Dim, DotDims, ElementType, InstructionId, Module, Op};

/// The largest depth of the product in an iteration. Deeper products are bound by their
/// multiplications rather than by the sum that they are added to.
const MAX_DEPTH: i64 = 64;

/// The sums of a loop that should become products after it.
pub(super) fn find(module: &Module, users: &Users, found: &CountedLoop) -> Vec<Sum> {
    let states = module[found.init].operands.len();
    let sums = (0..states).filter_map(|state| sum(module, users, found, state));
    let sums: Vec<Sum> = sums.collect();
    let fit: Vec<bool> = (sums.iter())
        .map(|sum| fits(module, (found, &sums), sum))
        .collect();
    let all = sums.into_iter().zip(fit);
    all.filter_map(|(sum, fits)| fits.then_some(sum)).collect()
}

fn sum(module: &Module, users: &Users, found: &CountedLoop, state: usize) -> Option<Sum> {
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

/// Whether the sum and the product's operands are floats of one type, and the product has little
/// depth.
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

/// Whether the array of stacked operands takes no more memory than the sums that it replaces.
/// Otherwise, a long loop would fill the memory for little gain.
fn fits(module: &Module, (found, sums): (&CountedLoop, &[Sum]), sum: &Sum) -> bool {
    let count = |id: InstructionId| {
        let shape = module[id].shape.as_array();
        shape
            .and_then(|s| s.representative().element_count())
            .unwrap_or(i64::MAX)
    };
    let alike = sums
        .iter()
        .filter(|other| (other.other, other.backwards) == (sum.other, sum.backwards));
    let sums = alike.fold(0i64, |sums, other| sums.saturating_add(count(other.own)));
    count(sum.other).saturating_mul(found.trips) <= sums
}
