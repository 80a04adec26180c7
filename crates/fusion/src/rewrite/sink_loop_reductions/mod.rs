//! Sinks sums of products out of loops: products that a loop sums up become one product after it.
//!
//! The gradient of a recurrent network's weights is `acc = acc + dot(x_t, d_t)` in every iteration,
//! which reads and writes a large array for a product of little depth. If `x_t` is row `t` of an
//! array from outside the loop, the loop can instead store each `d_t` as row `t` of an array. The
//! sum is then one product after the loop, contracted over the iterations and what each of them
//! contracts: `acc + dot(x, d)`. The order of the terms in a sum of float products is unspecified.
//!
//! This is a rewrite of the module, because code after the loop needs instructions. The loop state
//! changes its type, and users of the sum take it from the product instead. [`find`] decides where
//! this is valid and pays.

mod find;

use super::counted_loops::{self, CountedLoop, array, new, stacked, users};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use tegula_ir::{
    ArrayShape, Binary, DotDims, ElementType, InstructionId, Literal, Module, Op, Shape,
};

/// A loop state that is a sum of products.
struct Sum {
    state: usize,
    /// The state, as the body reads it.
    own: InstructionId,
    /// Every instruction that takes the state from a parameter.
    elements: Vec<InstructionId>,
    /// Every instruction that takes it from the loop's result, in order.
    taken: Vec<InstructionId>,
    dot: InstructionId,
    transpose: Option<InstructionId>,
    /// Which operand of the dot is a row of an array.
    side: usize,
    /// The number of the state that holds the array.
    array: usize,
    /// The instruction of the body that computes the row's index.
    index: InstructionId,
    /// Whether the rows are read from last to first.
    backwards: bool,
    /// The other operand of the dot.
    other: InstructionId,
}

/// Sinks sums of products out of loops; returns the same module if there are none. As with
/// [`expand`](crate::expand()), the result is for [`flatten`](crate::flatten()) only.
pub fn sink_loop_reductions(module: Cow<'_, Module>) -> Cow<'_, Module> {
    let is_loop = |id: &InstructionId| matches!(module[*id].op, Op::While { .. });
    let loops: Vec<InstructionId> = module.instructions.keys().filter(is_loop).collect();
    let mut changed = module;
    for id in loops {
        let readers = users(&changed);
        let Some(found) = counted_loops::find(&changed, &readers, id) else {
            continue;
        };
        let sums = find::find(&changed, &readers, &found);
        if !sums.is_empty()
            && let Some(zeros) = Zeros::new(&changed, &sums)
        {
            rewrite(changed.to_mut(), (&found, &sums), &zeros);
        }
    }
    changed
}

/// The zero constants that the rewrite needs. They are made first: if one cannot be made, nothing
/// is changed.
struct Zeros(FxHashMap<ElementType, Op>);

impl Zeros {
    fn new(module: &Module, sums: &[Sum]) -> Option<Self> {
        let mut zeros = FxHashMap::default();
        for sum in sums {
            for id in [sum.other, sum.index] {
                let ty = module[id].shape.as_array()?.element_type;
                zeros.insert(ty, counted_loops::zero(ty)?);
            }
        }
        Some(Self(zeros))
    }

    fn of(&self, ty: ElementType) -> Op {
        let none = || Op::Constant([Literal::default()].into());
        self.0.get(&ty).cloned().unwrap_or_else(none)
    }
}

fn rewrite(module: &mut Module, (found, sums): (&CountedLoop, &[Sum]), zeros: &Zeros) {
    // Sums that multiply the same operand share one array.
    let mut stacks: Vec<(&Sum, usize)> = Vec::new();
    for sum in sums {
        let known = stacks
            .iter()
            .find(|(other, _)| (other.other, other.backwards) == (sum.other, sum.backwards));
        let first = module[found.init].operands[sum.state];
        let stack = match known {
            Some(&(_, state)) => {
                // The state is now loop-invariant, so flattening removes it.
                module.instructions[found.root].operands[sum.state] = sum.own;
                state
            }
            None => {
                hold_stack(module, found, sum, zeros);
                stacks.push((sum, sum.state));
                sum.state
            }
        };
        sum_behind(module, found, sum, (first, stack));
    }
}

/// Turns a loop state into the array of the operands that a sum multiplies, one per iteration.
fn hold_stack(module: &mut Module, found: &CountedLoop, sum: &Sum, zeros: &Zeros) {
    let one = array(module, sum.other);
    let (ty, shape) = (one.element_type, stacked(&one, found.trips));
    let init = found.init;
    let zero = new(module, init, zeros.of(ty), &[], ArrayShape::new(ty, &[]));
    let empty = new(
        module,
        init,
        Op::Broadcast(SmallVec::new()),
        &[zero],
        shape.clone(),
    );
    module.instructions[init].operands[sum.state] = empty;
    let tuples = [init, found.id, found.root].into_iter();
    for tuple in tuples.chain(found.parameters) {
        if let Shape::Tuple(parts) = &mut module.instructions[tuple].shape
            && let Some(part) = parts.get_mut(sum.state)
        {
            *part = Shape::Array(shape.clone());
        }
    }
    for &element in &sum.elements {
        module.instructions[element].shape = Shape::Array(shape.clone());
    }
    let root = found.root;
    let row = stacked(&one, 1);
    let index = array(module, sum.index);
    let row = new(module, root, Op::Reshape, &[sum.other], row);
    let start = new(module, root, zeros.of(index.element_type), &[], index);
    let mut operands: SmallVec<[InstructionId; 6]> = smallvec![sum.own, row, sum.index];
    operands.extend(std::iter::repeat_n(start, one.rank()));
    let next = new(module, root, Op::DynamicUpdateSlice, &operands, shape);
    module.instructions[root].operands[sum.state] = next;
}

/// Inserts the product after the loop. Users of the loop's result get the sum of the initial value
/// and the product. `stack` is the state that holds the operands.
fn sum_behind(
    module: &mut Module,
    found: &CountedLoop,
    sum: &Sum,
    (first, stack): (InstructionId, usize),
) {
    let Some(&at) = sum.taken.first() else { return };
    let shape = stacked(&array(module, sum.other), found.trips);
    let other = new(
        module,
        at,
        Op::GetTupleElement(stack as i64),
        &[found.id],
        shape,
    );
    let own = module[found.init].operands[sum.array];
    let operands = match sum.side {
        0 => [own, other],
        _ => [other, own],
    };
    let Op::Dot {
        dims,
        precision,
        algorithm,
    } = &module[sum.dot].op
    else {
        return;
    };
    // The iterations are contracted first, then what each of them contracts.
    let shifted = |dims: &[i64]| {
        std::iter::once(0)
            .chain(dims.iter().map(|d| d + 1))
            .collect()
    };
    let dot = Op::Dot {
        dims: DotDims {
            lhs_contracting: shifted(&dims.lhs_contracting),
            rhs_contracting: shifted(&dims.rhs_contracting),
            ..dims.clone()
        },
        precision: precision.clone(),
        algorithm: algorithm.clone(),
    };
    let shape = array(module, sum.dot);
    let mut product = new(module, at, dot, &operands, shape);
    if let Some(transpose) = sum.transpose {
        let (op, shape) = (module[transpose].op.clone(), array(module, transpose));
        product = new(module, at, op, &[product], shape);
    }
    let shape = array(module, product);
    for &taken in &sum.taken {
        let instruction = &mut module.instructions[taken];
        instruction.op = Op::Binary(Binary::Add);
        instruction.operands = smallvec![first, product];
        instruction.shape = Shape::Array(shape.clone());
    }
}
