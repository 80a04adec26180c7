//! Inlines calls of computations.
//!
//! [`flatten`](crate::flatten()) inlines all calls. Earlier passes that look for a pattern in a
//! loop's body need it sooner: JAX writes the body of a scan as a call.

use rustc_hash::FxHashMap;
use tegula_ir::{ComputationId, InstructionId, Module, Op, Shape};

/// The most instructions of a computation that is inlined, including all that it calls.
const MOST_INSTRUCTIONS: usize = 4096;

/// Whether a computation contains products and may be inlined. One with loops or branches is not
/// inlined, because a loop whose computations are called from two places is left alone.
pub(crate) fn has_products(module: &Module, computation: ComputationId) -> bool {
    let (mut products, mut count) = (false, 0);
    let plain = is_plain(module, computation, &mut products, &mut count);
    plain && products
}

fn is_plain(module: &Module, id: ComputationId, products: &mut bool, count: &mut usize) -> bool {
    let instructions = &module[id].instructions;
    *count += instructions.len();
    *count <= MOST_INSTRUCTIONS
        && instructions.iter().all(|&i| match &module[i].op {
            Op::Call { to_apply, .. } => is_plain(module, *to_apply, products, count),
            Op::While { .. } | Op::Conditional { .. } => false,
            op => {
                *products |= matches!(op, Op::Dot { .. });
                true
            }
        })
}

/// Inlines those calls in a computation for which `wanted` holds, and the calls inside of them.
pub(crate) fn inline_calls(
    module: &mut Module,
    computation: ComputationId,
    wanted: impl Fn(&Module, ComputationId) -> bool,
) {
    let mut pass = Inline {
        module,
        into: computation,
        order: Vec::new(),
    };
    let order = std::mem::take(&mut pass.module.computations[computation].instructions);
    let mut instead = FxHashMap::default();
    for id in order {
        rename(&mut pass.module.instructions[id].operands, &instead);
        let replacement = match pass.module[id].op {
            Op::Call { to_apply, .. } if wanted(pass.module, to_apply) => pass.call(id, to_apply),
            _ => pass.part_of_tuple(id),
        };
        match replacement {
            Some(replacement) => {
                instead.insert(id, replacement);
                pass.forget(id);
            }
            None => pass.order.push(id),
        }
    }
    let order = pass.order;
    let computation = &mut module.computations[computation];
    computation.instructions = order;
    computation.root = instead
        .get(&computation.root)
        .copied()
        .unwrap_or(computation.root);
}

struct Inline<'a> {
    module: &'a mut Module,
    into: ComputationId,
    /// The instructions of the result so far, in order.
    order: Vec<InstructionId>,
}

impl Inline<'_> {
    /// Copies a computation's instructions to this place. Returns the instruction that replaces the
    /// call.
    fn call(&mut self, call: InstructionId, callee: ComputationId) -> Option<InstructionId> {
        let arguments = self.module[call].operands.clone();
        let mut copies: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
        for id in self.module[callee].instructions.clone() {
            let mut copy = self.module[id].clone();
            if let Op::Parameter(number) = copy.op {
                copies.insert(id, *arguments.get(usize::try_from(number).ok()?)?);
                continue;
            }
            rename(&mut copy.operands, &copies);
            copy.computation = self.into;
            copy.name = format!("{}.{}", self.module[call].name, copy.name).into();
            let inner = match copy.op {
                Op::Call { to_apply, .. } => Some(to_apply),
                _ => None,
            };
            let copied = self.module.instructions.push(copy);
            let instead = match inner {
                Some(inner) => self.call(copied, inner),
                None => self.part_of_tuple(copied),
            };
            match instead {
                Some(_) => self.forget(copied),
                None => self.order.push(copied),
            }
            copies.insert(id, instead.unwrap_or(copied));
        }
        copies.get(&self.module[callee].root).copied()
    }

    /// The operand that a `get-tuple-element` selects, if its tuple is built by an instruction.
    fn part_of_tuple(&self, id: InstructionId) -> Option<InstructionId> {
        let instruction = &self.module[id];
        let Op::GetTupleElement(number) = instruction.op else {
            return None;
        };
        let tuple = &self.module[*instruction.operands.first()?];
        let is_tuple = tuple.op == Op::Tuple;
        let part = tuple.operands.get(usize::try_from(number).ok()?).copied();
        part.filter(|_| is_tuple)
    }

    /// Empties an instruction that belongs to no computation any more.
    fn forget(&mut self, id: InstructionId) {
        let instruction = &mut self.module.instructions[id];
        instruction.op = Op::Tuple;
        instruction.operands.clear();
        instruction.shape = Shape::Tuple(Vec::new());
    }
}

fn rename(operands: &mut [InstructionId], instead: &FxHashMap<InstructionId, InstructionId>) {
    for operand in operands {
        *operand = instead.get(operand).copied().unwrap_or(*operand);
    }
}
