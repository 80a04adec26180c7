//! Copies of computations that several calls share, but with different sizes: each such call gets
//! its own copy.

use crate::{Computation, ComputationId, Dim, InstructionId, Module, Op, Shape, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_arena::Arena;
use tegula_expr::{Term, Var};

/// The maximum number of instructions, with all copies, of a module that had `count` of them.
pub(super) fn most_instructions(count: usize) -> usize {
    count.saturating_mul(2).saturating_add(1 << 14)
}

/// Whether an operation calls one computation on its own operands, once.
pub(super) fn is_call(op: &Op) -> bool {
    matches!(op, Op::Call { .. } | Op::Fusion { .. })
}

/// The calls among `calls` whose computation is called from elsewhere, too.
pub(super) fn shared(module: &Module, calls: &FxHashSet<InstructionId>) -> Vec<InstructionId> {
    let mut uses: FxHashMap<ComputationId, usize> = FxHashMap::default();
    for instruction in module.instructions.values() {
        for callee in instruction.op.called_computations() {
            *uses.entry(callee).or_default() += 1;
        }
    }
    let is_shared = |id: &InstructionId| {
        let callees = module.instructions[*id].op.called_computations();
        callees
            .iter()
            .any(|callee| uses.get(callee).is_some_and(|&count| count > 1))
    };
    let mut found: Vec<InstructionId> = calls.iter().copied().filter(is_shared).collect();
    found.sort_unstable();
    found
}

/// Gives each of these calls a copy of its callee, inserted just before the caller. `false` if the
/// module would have more than `most` instructions.
pub(super) fn separate(module: &mut Module, calls: &[InstructionId], most: usize) -> bool {
    let size = |id: &InstructionId| {
        let callees = module[*id].op.called_computations();
        callees
            .iter()
            .map(|&c| module[c].instructions.len())
            .sum::<usize>()
    };
    let added: usize = calls.iter().map(size).sum();
    if added.saturating_add(module.instructions.len()) > most {
        return false;
    }
    let old = std::mem::replace(&mut module.computations, Arena::new());
    let mut names: FxHashSet<String> = old.values().map(|c| c.name.to_string()).collect();
    let mut numbers: FxHashMap<ComputationId, ComputationId> = FxHashMap::default();
    for (id, computation) in &old {
        for call in &computation.instructions {
            let mut op = module.instructions[*call].op.clone();
            let is_separate = calls.contains(call);
            op.map_computations(|callee| {
                let known = numbers.get(&callee).copied().unwrap_or(callee);
                match old.get(callee).filter(|_| is_separate) {
                    Some(shared) => copy(module, shared, &mut names),
                    None => known,
                }
            });
            module.instructions[*call].op = op;
        }
        let own = module.computations.push(computation.clone());
        for instruction in &computation.instructions {
            module.instructions[*instruction].computation = own;
        }
        numbers.insert(id, own);
    }
    module.entry = numbers.get(&module.entry).copied().unwrap_or(module.entry);
    true
}

/// A copy with its own name, instructions and symbols. Its callees are numbered already, because
/// they come before it.
fn copy(module: &mut Module, shared: &Computation, names: &mut FxHashSet<String>) -> ComputationId {
    let mut computation = shared.clone();
    let mut number = 2;
    let mut name = format!("{}.copy", shared.name);
    while !names.insert(name.clone()) {
        name = format!("{}.copy{number}", shared.name);
        number += 1;
    }
    computation.name = name.into();
    let own = module.computations.next_key();
    let mut ids: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    let mut symbols: FxHashMap<Var, Var> = FxHashMap::default();
    for id in &mut computation.instructions {
        let mut instruction = module.instructions[*id].clone();
        instruction.computation = own;
        let new = |id: &mut InstructionId| *id = ids.get(id).copied().unwrap_or(*id);
        instruction.operands.iter_mut().for_each(new);
        if let Some(annotations) = &mut instruction.annotations {
            annotations.control_predecessors.iter_mut().for_each(new);
        }
        rename(&mut instruction.shape, &mut |var| {
            let known = module.symbols.get(var.0 as usize).map(|symbol| Symbol {
                name: format!("{}.copy", symbol.name).into(),
                ..symbol.clone()
            });
            *symbols.entry(var).or_insert_with(|| {
                let fresh = Var(u32::try_from(module.symbols.len()).unwrap_or(u32::MAX));
                module.symbols.extend(known);
                fresh
            })
        });
        let new = module.instructions.push(instruction);
        ids.insert(*id, new);
        *id = new;
    }
    let new = |id: InstructionId| ids.get(&id).copied().unwrap_or(id);
    computation
        .parameters
        .iter_mut()
        .for_each(|id| *id = new(*id));
    computation.root = new(computation.root);
    module.computations.push(computation)
}

fn rename(shape: &mut Shape, fresh: &mut dyn FnMut(Var) -> Var) {
    match shape {
        Shape::Array(array) => {
            for dim in &mut array.dims {
                if let Dim::Symbolic(size) | Dim::Bounded { size, .. } = dim {
                    *size = size.substitute(&mut |var| Some(Term::var(fresh(var))));
                }
            }
        }
        Shape::Tuple(elements) => elements.iter_mut().for_each(|e| rename(e, fresh)),
        Shape::Buffer(inner) => rename(inner, fresh),
        Shape::Token | Shape::Opaque => {}
    }
}
