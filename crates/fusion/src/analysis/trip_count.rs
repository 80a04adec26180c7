//! Trip counts: the number of iterations of a loop whose counter goes by a constant step from one
//! constant until it passes another.

use crate::program::array_leaves;
use tegula_ir::{
    ArrayShape, Binary, Category, ComputationId, Direction, ElementType, InstructionId, Literal,
    Module, Op,
};

/// How a loop counts. A state is named by its index among the array leaves of the loop's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    /// The state that is the counter.
    pub state: usize,
    /// The value that the counter is compared with.
    pub bound: Bound,
    direction: Direction,
    /// What one iteration adds to the counter.
    pub step: i128,
    element_type: ElementType,
}

/// The value that a counter is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A constant.
    Constant(i128),
    /// A state that no iteration changes.
    State(usize),
}

impl Counter {
    /// Recognises a counting loop by its condition and body.
    pub(crate) fn of(
        module: &Module,
        condition: ComputationId,
        body: ComputationId,
    ) -> Option<Self> {
        let test = module[condition].root;
        let Op::Compare { direction, .. } = module[test].op else {
            return None;
        };
        let &[left, right] = &module[test].operands[..] else {
            return None;
        };
        let of = |counter, bound, direction| Self::stepped(module, body, counter, bound, direction);
        of(left, right, direction).or_else(|| of(right, left, flipped(direction)))
    }

    fn stepped(
        module: &Module,
        body: ComputationId,
        counter: InstructionId,
        bound: InstructionId,
        direction: Direction,
    ) -> Option<Self> {
        let state = state_of(module, counter)?;
        let root = module[body].root;
        let next = leaf(module, root, state)?;
        let &[a, b] = &module[next].operands[..] else {
            return None;
        };
        let step = match module[next].op {
            Op::Binary(Binary::Add) if state_of(module, a) == Some(state) => constant(module, b)?,
            Op::Binary(Binary::Add) if state_of(module, b) == Some(state) => constant(module, a)?,
            Op::Binary(Binary::Subtract) if state_of(module, a) == Some(state) => {
                -constant(module, b)?
            }
            _ => return None,
        };
        let bound = match constant(module, bound) {
            Some(bound) => Bound::Constant(bound),
            None => {
                let unchanged = state_of(module, bound)?;
                let next = leaf(module, root, unchanged)?;
                (state_of(module, next) == Some(unchanged)).then_some(Bound::State(unchanged))?
            }
        };
        Some(Self {
            state,
            bound,
            direction,
            step,
            element_type: module[counter].shape.as_array()?.element_type,
        })
    }

    /// The number of iterations for a given start and bound; `None` if the counter leaves its
    /// type's range before the loop ends.
    pub(crate) fn iterations(&self, start: i128, bound: i128) -> Option<i64> {
        let count = match self.direction {
            Direction::Lt => until(start, bound, self.step)?,
            Direction::Le => until(start, bound + 1, self.step)?,
            Direction::Gt => until(-start, -bound, -self.step)?,
            Direction::Ge => until(-start, -bound + 1, -self.step)?,
            Direction::Ne if start == bound => 0,
            Direction::Ne if self.step == 0 || (bound - start) % self.step != 0 => return None,
            Direction::Ne => (bound - start) / self.step,
            Direction::Eq if start != bound => 0,
            Direction::Eq if self.step == 0 => return None,
            Direction::Eq => 1,
        };
        let last = start.checked_add(count.checked_mul(self.step)?)?;
        let bits = self.element_type.bits();
        let (lowest, highest) = match self.element_type.is_signed() {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        };
        let fits = count >= 0 && (lowest..=highest).contains(&last);
        i64::try_from(count).ok().filter(|_| fits)
    }
}

/// The number of steps until `start` reaches `bound`, counting up.
fn until(start: i128, bound: i128, step: i128) -> Option<i128> {
    if start >= bound {
        return Some(0);
    }
    (step > 0).then(|| (bound - start + step - 1) / step)
}

fn flipped(direction: Direction) -> Direction {
    match direction {
        Direction::Lt => Direction::Gt,
        Direction::Gt => Direction::Lt,
        Direction::Le => Direction::Ge,
        Direction::Ge => Direction::Le,
        same => same,
    }
}

/// The index of the loop state that an instruction of the condition or body passes on unchanged.
fn state_of(module: &Module, id: InstructionId) -> Option<usize> {
    let instruction = &module[id];
    let operand = instruction.operands.first();
    match instruction.op {
        Op::Parameter(_) if instruction.shape.as_array().is_some() => Some(0),
        Op::Copy => state_of(module, *operand?),
        Op::GetTupleElement(index) if instruction.shape.as_array().is_some() => {
            let tuple = &module[*operand?];
            let parts = tuple
                .shape
                .as_tuple()?
                .get(..usize::try_from(index).ok()?)?;
            let before = parts.iter().map(|part| array_leaves(part).len()).sum();
            matches!(tuple.op, Op::Parameter(_)).then_some(before)
        }
        _ => None,
    }
}

/// The instruction that produces array number `number` of a value built from tuples.
fn leaf(module: &Module, root: InstructionId, number: usize) -> Option<InstructionId> {
    let instruction = &module[root];
    if instruction.shape.as_array().is_some() {
        return (number == 0).then_some(root);
    }
    if instruction.op != Op::Tuple {
        return None;
    }
    let mut rest = number;
    for &operand in &instruction.operands {
        let count = array_leaves(&module[operand].shape).len();
        if rest < count {
            return leaf(module, operand, rest);
        }
        rest -= count;
    }
    None
}

/// The value of a literal that has one integer element.
pub(crate) fn integer_of(literal: &Literal) -> Option<i128> {
    let mut bytes = [0u8; 16];
    let from = literal.bytes();
    if literal.len() != 1 {
        return None;
    }
    bytes.get_mut(..from.len())?.copy_from_slice(from);
    integer(literal.element_type(), u128::from_le_bytes(bytes))
}

/// The value of an integer constant of one element, also seen through copies, broadcasts and
/// reshapes.
pub(crate) fn constant(module: &Module, id: InstructionId) -> Option<i128> {
    let instruction = &module[id];
    match &instruction.op {
        Op::Constant(literals) => {
            let [literal] = &literals[..] else {
                return None;
            };
            integer_of(literal)
        }
        Op::Copy | Op::Broadcast(_) | Op::Reshape => {
            let one = instruction
                .shape
                .as_array()
                .and_then(ArrayShape::element_count);
            let source = instruction.operands.first().filter(|_| one == Some(1));
            constant(module, *source?)
        }
        _ => None,
    }
}

/// Interprets the zero-extended bits of an integer type as a number.
pub(crate) fn integer(element_type: ElementType, bits: u128) -> Option<i128> {
    let width = element_type.bits();
    if !matches!(
        element_type.category(),
        Category::Signed | Category::Unsigned
    ) || width > 64
    {
        return None;
    }
    let value = i128::try_from(bits & ((1u128 << width) - 1)).ok()?;
    let negative = element_type.is_signed() && value >> (width - 1) != 0;
    Some(if negative {
        value - (1i128 << width)
    } else {
        value
    })
}
