//! Hoists products out of loops: the products of a matrix with the rows of an array, one per
//! iteration, become one product before the loop.
//!
//! A recurrent network computes `dot(x_t, w)` in every iteration, where `x_t` is row `t` of an
//! array and `w` is the same in all: a matrix times a few rows, which takes as long as reading the
//! matrix. All rows are known before the loop, so one product there multiplies all of them, and
//! iteration `t` takes row `t` of its result. Every element is the sum of the same terms as before.
//!
//! This is a rewrite of the module, because code before the loop needs instructions. The product
//! becomes one more array of the loop's state. JAX writes the body of a scan as a call, which is
//! inlined first.

use super::counted_loops::slices::{Rows, rows, state};
use super::counted_loops::{self, CountedLoop, array, find, new, stacked, users};
use super::inline_calls::{has_products, inline_calls};
use smallvec::SmallVec;
use std::borrow::Cow;
use tegula_ir::{ArrayShape, Dim, DotDims, InstructionId, Module, Op, Shape};

/// The most rows per iteration. Products of more rows are bound by arithmetic rather than by
/// reading the matrix.
const MAX_ROWS: i64 = 64;
/// The fewest elements of a matrix for which the memory for the products is worth it.
const MIN_MATRIX: i64 = 256;
/// The most elements of all products together: 16 MiB of f32. Beyond that, they no longer fit the
/// caches.
const MAX_PRODUCTS: i64 = 1 << 22;
/// The most operations between the matrix and a loop-invariant value.
const MAX_STEPS: u32 = 4;

/// A product that can be computed before the loop.
struct Candidate {
    dot: InstructionId,
    rows: Rows,
    /// Which operand is the row of the array.
    side: usize,
    matrix: InstructionId,
}

/// Hoists products out of loops; returns the same module if there are none. As with
/// [`expand`](crate::expand()), the result is for [`flatten`](crate::flatten()) only.
pub fn hoist_loop_products(module: Cow<'_, Module>) -> Cow<'_, Module> {
    let is_loop = |id: &InstructionId| matches!(module[*id].op, Op::While { .. });
    let loops: Vec<InstructionId> = module.instructions.keys().filter(is_loop).collect();
    let mut changed = module;
    for id in loops {
        let Op::While { body, .. } = changed[id].op else {
            continue;
        };
        let calls = |&i: &InstructionId| match changed[i].op {
            Op::Call { to_apply, .. } => has_products(&changed, to_apply),
            _ => false,
        };
        let calls = changed[body].instructions.iter().any(calls);
        let dot = |&i: &InstructionId| matches!(changed[i].op, Op::Dot { .. });
        if !calls && !changed[body].instructions.iter().any(dot)
            || find(&changed, &users(&changed), id).is_none()
        {
            continue;
        }
        if calls {
            inline_calls(changed.to_mut(), body, has_products);
        }
        let Some(found) = find(&changed, &users(&changed), id) else {
            continue;
        };
        let instructions = &changed[body].instructions;
        let candidates = instructions
            .iter()
            .filter_map(|&i| candidate(&changed, &found, i));
        for candidate in candidates.collect::<Vec<_>>() {
            hoist(changed.to_mut(), &found, &candidate);
        }
    }
    changed
}

fn candidate(module: &Module, found: &CountedLoop, dot: InstructionId) -> Option<Candidate> {
    let Op::Dot { dims, .. } = &module[dot].op else {
        return None;
    };
    let &[lhs, rhs] = &module[dot].operands[..] else {
        return None;
    };
    let (side, rows, row, matrix) = match [lhs, rhs].map(|v| rows(module, found, v)) {
        [Some(rows), None] => (0, rows, lhs, rhs),
        [None, Some(rows)] => (1, rows, rhs, lhs),
        _ => return None,
    };
    let count = |id: InstructionId| module[id].shape.as_array()?.element_count();
    let [matrix_size, result, row] = [matrix, dot, row].map(count);
    let contracted: Option<i64> = {
        let shape = module[lhs].shape.as_array()?;
        let size = |&d: &i64| shape.dimension(d).and_then(Dim::as_static);
        dims.lhs_contracting.iter().map(size).product()
    };
    let suits = dims.lhs_batch.is_empty()
        && matrix_size? >= MIN_MATRIX
        && row? <= contracted?.checked_mul(MAX_ROWS)?
        && result?.checked_mul(found.trips)? <= MAX_PRODUCTS
        && is_invariant(module, found, matrix, MAX_STEPS)
        && counted_loops::zero(array(module, rows.index).element_type).is_some();
    suits.then_some(Candidate {
        dot,
        rows,
        side,
        matrix,
    })
}

/// Whether a value of the body is loop-invariant: an unchanged state, a constant, or the result of
/// a few operations on one.
fn is_invariant(module: &Module, found: &CountedLoop, id: InstructionId, steps: u32) -> bool {
    let instruction = &module[id];
    match &instruction.op {
        Op::Constant(_) => instruction.shape.as_array().is_some(),
        Op::GetTupleElement(_) => is_unchanged(module, found, id),
        Op::Transpose(_) | Op::Reshape | Op::Convert | Op::Copy => {
            let operand = instruction.operands.first();
            steps > 0 && operand.is_some_and(|&id| is_invariant(module, found, id, steps - 1))
        }
        _ => false,
    }
}

fn is_unchanged(module: &Module, found: &CountedLoop, id: InstructionId) -> bool {
    let Some(number) = state(module, found, id) else {
        return false;
    };
    let next = module[found.root].operands.get(number);
    next.is_some_and(|&next| state(module, found, next) == Some(number))
}

/// Rebuilds an invariant value of the body before the loop.
fn before(module: &mut Module, found: &CountedLoop, id: InstructionId) -> InstructionId {
    if let Some(number) = state(module, found, id) {
        return module[found.init].operands[number];
    }
    let operands = module[id].operands.clone();
    let operands: SmallVec<[InstructionId; 1]> = operands
        .into_iter()
        .map(|operand| before(module, found, operand))
        .collect();
    let (op, shape) = (module[id].op.clone(), array(module, id));
    new(module, found.init, op, &operands, shape)
}

/// The product of the rows of an array with a matrix.
struct RowProduct {
    op: Op,
    /// The shape of one row's product: the free dimensions of the row, then those of the matrix.
    one: ArrayShape,
    /// The permutation of these dimensions in the loop's product, if it is not the identity.
    order: Option<SmallVec<[i64; 6]>>,
}

fn row_product(
    module: &Module,
    &Candidate {
        dot, side, matrix, ..
    }: &Candidate,
) -> Option<RowProduct> {
    let Op::Dot {
        dims,
        precision,
        algorithm,
    } = module[dot].op.clone()
    else {
        return None;
    };
    let row = array(module, module[dot].operands[side]);
    let (of_row, of_matrix, precision) = match side {
        0 => (&dims.lhs_contracting, &dims.rhs_contracting, precision),
        _ => {
            let turned = precision.into_iter().rev().collect();
            (&dims.rhs_contracting, &dims.lhs_contracting, turned)
        }
    };
    let free = |shape: &ArrayShape, contracted: &[i64]| -> Vec<Dim> {
        let dims = shape.dims.iter().zip(0i64..);
        let free = dims.filter(|(_, d)| !contracted.contains(d));
        free.map(|(dim, _)| dim.clone()).collect()
    };
    let own = free(&row, of_row);
    let others = free(&array(module, matrix), of_matrix);
    let (rows, rank) = (own.len() as i64, (own.len() + others.len()) as i64);
    let turned = side == 1 && (1..rank).contains(&rows);
    let one = ArrayShape {
        dims: own.into_iter().chain(others).collect(),
        layout: None,
        ..array(module, dot)
    };
    let op = Op::Dot {
        dims: DotDims {
            lhs_contracting: of_row.iter().map(|d| d + 1).collect(),
            rhs_contracting: of_matrix.clone(),
            ..dims.clone()
        },
        precision,
        algorithm,
    };
    Some(RowProduct {
        op,
        one,
        order: turned.then(|| (rows..rank).chain(0..rows).collect()),
    })
}

/// Inserts the product of all rows before the loop, and replaces the loop's product by a row of it.
fn hoist(module: &mut Module, found: &CountedLoop, candidate: &Candidate) {
    let &Candidate { dot, ref rows, .. } = candidate;
    let index = array(module, rows.index);
    let Some(RowProduct { op, one, order }) = row_product(module, candidate) else {
        return;
    };
    let Some(zero) = counted_loops::zero(index.element_type) else {
        return;
    };
    let all = stacked(&one, found.trips);
    let matrix = before(module, found, candidate.matrix);
    let source = module[found.init].operands[rows.array];
    let product = new(module, found.init, op, &[source, matrix], all.clone());
    let state = add_state(module, found, product, &all);
    let take = Op::GetTupleElement(state);
    let own = new(module, dot, take, &[found.parameters[1]], all);
    module.instructions[found.root].operands.push(own);
    let zero = new(module, dot, zero, &[], index);
    let mut operands: SmallVec<[InstructionId; 6]> = SmallVec::from_slice(&[own, rows.index]);
    operands.extend(std::iter::repeat_n(zero, one.rank()));
    let slice = stacked(&one, 1);
    let sizes = slice.dims.iter().filter_map(Dim::as_static).collect();
    let slice = new(module, dot, Op::DynamicSlice(sizes), &operands, slice);
    let (op, operand) = match order {
        None => (Op::Reshape, slice),
        Some(order) => {
            let plain = new(module, dot, Op::Reshape, &[slice], one);
            (Op::Transpose(order.into_iter().collect()), plain)
        }
    };
    let instruction = &mut module.instructions[dot];
    instruction.op = op;
    instruction.operands = SmallVec::from_slice(&[operand]);
}

/// Adds an array to a loop's state and returns its position; the caller makes the body pass it on.
fn add_state(
    module: &mut Module,
    found: &CountedLoop,
    first: InstructionId,
    shape: &ArrayShape,
) -> i64 {
    let state = module[found.init].operands.len();
    module.instructions[found.init].operands.push(first);
    let tuples = [found.init, found.id, found.root].into_iter();
    for tuple in tuples.chain(found.parameters) {
        if let Shape::Tuple(parts) = &mut module.instructions[tuple].shape {
            parts.push(Shape::Array(shape.clone()));
        }
    }
    state as i64
}
