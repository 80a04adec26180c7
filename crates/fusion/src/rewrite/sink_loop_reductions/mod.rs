//! Products that a loop sums up, as one product behind it.
//!
//! The gradient of a recurrent network's weights is `acc = acc + dot(x_t, d_t)` in every
//! iteration: a large array is read and written for a product of little depth. Where `x_t`
//! is row `t` of an array from outside the loop, each `d_t` can be written to row `t` of
//! an array in the place of the sum, which is then one product over iterations and what
//! each of them contracted: `acc + dot(x, d)`. Floats' sums of products have no order.
//!
//! This is a rewriting of the module, because what is behind it starts from instructions:
//! the state of the loop changes its type, and whoever took the sum from the loop's result
//! takes it from the product. [`find`] says where it is right and pays.

mod find;

use super::counted_loops::{self, CountedLoop, array, new, stacked, users};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use tegula_ir::{
    ArrayShape, Binary, DotDims, ElementType, InstructionId, Literal, Module, Op, Shape,
};

/// A state that is a sum of products.
struct Sum {
    state: usize,
    /// The state in the body.
    own: InstructionId,
    /// Every instruction that takes the state from a parameter.
    elements: Vec<InstructionId>,
    /// Those that take it from the loop's result, in order.
    taken: Vec<InstructionId>,
    dot: InstructionId,
    transpose: Option<InstructionId>,
    /// Which operand of the dot is a row of an array.
    side: usize,
    /// The state that is the array.
    array: usize,
    /// The number of the row, in the body.
    index: InstructionId,
    /// Whether the last row comes first.
    backwards: bool,
    /// The dot's other operand.
    other: InstructionId,
}

/// The module with products that loops sum up behind their loops; the same module if there
/// are none. As with [`expand`](crate::expand()), the result is for
/// [`flatten`](crate::flatten()) alone.
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

/// The literals that a rewriting needs: nothing is changed if one cannot be made.
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
    // One array holds what several sums multiply.
    let mut stacks: Vec<(&Sum, usize)> = Vec::new();
    for sum in sums {
        let known = stacks
            .iter()
            .find(|(other, _)| (other.other, other.backwards) == (sum.other, sum.backwards));
        let first = module[found.init].operands[sum.state];
        let stack = match known {
            Some(&(_, state)) => {
                // An iteration passes the state on, so the loop has it no more.
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

/// Makes a state of a loop the array of what a sum multiplies in each iteration.
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

/// Puts the product behind the loop, and in the place of the loop's result what the sum
/// was at first and the product; `stack` is the state that holds what is multiplied.
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
    // Iterations first, then what each of them contracts.
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
