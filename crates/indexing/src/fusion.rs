//! The maps of a fusion or call: compositions along every path through the called
//! computation, in both directions.
//!
//! A loop reads what its iterations read, taken together until nothing new comes;
//! where new maps keep coming, the whole array. What decides how often it runs
//! counts as read, and so does the operand that chooses a branch.

mod control;
mod walk;

pub(crate) use walk::Sequential;

use rustc_hash::FxHashMap;
use tegula_expr::{Term, Var};
use tegula_ir::{ComputationId, Instruction, InstructionId, Module, Op};

use crate::map::{IndexingMap, RuntimeSource};
use crate::ops::{
    Cause, OperandIndexing, Route, Unknown, input_to_output_leaf, output_leaf_to_input,
};
use crate::simplify::Simplifier;

/// Different maps kept for one value.
const MAX_MAPS: usize = 64;
/// Calls inside calls that are looked into.
const MAX_DEPTH: u32 = 16;

/// An array of an instruction's result: the instruction, and which leaf.
type Value = (InstructionId, usize);
type Maps = Result<Vec<IndexingMap>, Unknown>;

/// For each array of each operand of a fusion, call, loop or conditional, all maps
/// from indices of the array `output` of its result (numbered through the tuple,
/// from the left) to indices of the operand, simplified, without duplicates and
/// without unused variables. Other instructions give their own maps.
///
/// An operand that the output does not read has no maps. One unknown path makes
/// its operand unknown, but no other.
pub fn fusion_output_to_input(
    module: &Module,
    fusion: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
) -> Vec<OperandIndexing> {
    backward(module, fusion, output, simplifier, 0)
}

/// As [`fusion_output_to_input`], from indices of the operands to the indices of
/// array `output` of the result that depend on them.
pub fn fusion_input_to_output(
    module: &Module,
    fusion: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
) -> Vec<OperandIndexing> {
    forward(module, fusion, output, simplifier, 0)
}

/// What is known of the arrays of values inside a fusion.
type ValueMaps = Vec<(InstructionId, usize, Maps)>;

/// The maps from a tiling space to the operands of an instruction, or of a call through
/// its computation; of that, to its values, too. `start` leads from the space to array
/// `output` of the result.
pub(crate) fn space_to_values(
    module: &Module,
    (call, output): Value,
    callee: Option<ComputationId>,
    start: &IndexingMap,
    sequential: &Sequential,
    simplifier: &mut Simplifier,
) -> Result<(Vec<OperandIndexing>, ValueMaps), Cause> {
    let Some(callee) = callee else {
        let found = walk::through(module, (call, output), start, sequential, simplifier);
        return Ok((found, Vec::new()));
    };
    let mut found = walk::from_space(module, callee, output, start, sequential, simplifier)?;
    let computation = module.computations.get(callee).ok_or(Cause::Malformed)?;
    let data = module.instructions.get(call).ok_or(Cause::Malformed)?;
    // A computation of its own has no caller: its parameters are its operands.
    let symbols = match call == computation.root {
        true => FxHashMap::default(),
        false => caller_sizes(module, callee, &data.operands),
    };
    let mut reads = Vec::new();
    for (operand, own) in computation.parameters.iter().enumerate() {
        let arrays = module.instructions.get(*own);
        for leaf in 0..arrays.map_or(0, |data| data.shape.leaf_count()) {
            let maps = found.get(&(*own, leaf)).cloned();
            let maps = with_sizes(maps.unwrap_or(Ok(Vec::new())), &symbols);
            reads.push(OperandIndexing {
                operand,
                leaf,
                maps,
            });
        }
    }
    let mut values = Vec::new();
    for id in &computation.instructions {
        let leaves = module.instructions.get(*id);
        for leaf in 0..leaves.map_or(0, |data| data.shape.leaf_count()) {
            if let Some(maps) = found.remove(&(*id, leaf)) {
                values.push((*id, leaf, with_sizes(maps, &symbols)));
            }
        }
    }
    Ok((reads, values))
}

/// The same answer for every array of every operand.
fn every_operand(
    module: &Module,
    call: InstructionId,
    mut maps: impl FnMut(usize, usize) -> Maps,
) -> Vec<OperandIndexing> {
    let operands = module.instructions.get(call).map(|data| &data.operands);
    let mut all = Vec::new();
    for (operand, id) in operands.into_iter().flatten().enumerate() {
        let leaves = module.instructions.get(*id);
        for leaf in 0..leaves.map_or(0, |data| data.shape.leaf_count()) {
            all.push(OperandIndexing {
                operand,
                leaf,
                maps: maps(operand, leaf),
            });
        }
    }
    all
}

fn all_unknown(module: &Module, call: InstructionId, cause: &Cause) -> Vec<OperandIndexing> {
    every_operand(module, call, |_, _| unknown(call, cause.clone()))
}

/// What an instruction's array comes from.
enum Callee<'a> {
    /// Array `.1` of what a computation gives.
    Computation(ComputationId, usize),
    /// What one of these gives, nobody knows which.
    Branches(&'a [ComputationId]),
    /// Any number of runs of a body.
    Loop,
    /// The instruction itself.
    Nothing,
}

fn callee<'a>(module: &'a Module, call: &'a Instruction, output: usize) -> Callee<'a> {
    match &call.op {
        Op::Fusion { calls, .. } => Callee::Computation(*calls, output),
        Op::Call { to_apply, .. } => Callee::Computation(*to_apply, output),
        Op::AsyncStart { calls, .. } => match crate::ops::route(module, call, output) {
            Route::Made(made) => Callee::Computation(*calls, made),
            _ => Callee::Nothing,
        },
        Op::While { .. } => Callee::Loop,
        Op::Conditional { branches, .. } => Callee::Branches(branches),
        _ => Callee::Nothing,
    }
}

fn backward(
    module: &Module,
    call: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
    depth: u32,
) -> Vec<OperandIndexing> {
    let Some(data) = module.instructions.get(call) else {
        return Vec::new();
    };
    let (callee, output) = match callee(module, data, output) {
        Callee::Computation(callee, output) => (callee, output),
        Callee::Branches(branches) => {
            return control::branches_backward(module, (call, output), branches, simplifier, depth);
        }
        Callee::Loop => return control::loop_backward(module, call, output, simplifier, depth),
        Callee::Nothing => return output_leaf_to_input(module, call, output),
    };
    let mut found = match walk::backward(module, callee, output, simplifier, depth) {
        Ok(found) => found,
        Err(cause) => return all_unknown(module, call, &cause),
    };
    let symbols = caller_sizes(module, callee, &data.operands);
    every_operand(module, call, |operand, leaf| {
        let maps = found.remove(&(operand, leaf)).unwrap_or(Ok(Vec::new()));
        with_sizes(maps, &symbols)
    })
}

fn forward(
    module: &Module,
    call: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
    depth: u32,
) -> Vec<OperandIndexing> {
    let Some(data) = module.instructions.get(call) else {
        return Vec::new();
    };
    let (callee, output) = match callee(module, data, output) {
        Callee::Computation(callee, output) => (callee, output),
        Callee::Branches(branches) => {
            return control::branches_forward(module, (call, output), branches, simplifier, depth);
        }
        Callee::Loop => return control::loop_forward(module, call, output, simplifier, depth),
        Callee::Nothing => return input_to_output_leaf(module, call, output),
    };
    let symbols = caller_sizes(module, callee, &data.operands);
    every_operand(module, call, |operand, leaf| {
        let maps = walk::forward(module, callee, (operand, leaf), output, simplifier, depth);
        with_sizes(maps.unwrap_or_else(|cause| unknown(call, cause)), &symbols)
    })
}

fn unknown(instruction: InstructionId, cause: Cause) -> Maps {
    Err(Unknown { cause, instruction })
}

/// What the symbols of a computation's parameters are to its caller.
fn caller_sizes(
    module: &Module,
    callee: ComputationId,
    operands: &[InstructionId],
) -> FxHashMap<Var, Term> {
    let dims = |id: &InstructionId| {
        let array = module.instructions.get(*id)?.shape.as_array()?;
        Some(array.dims.clone())
    };
    let parameters = module.computations.get(callee).map(|c| &c.parameters);
    let mut sizes = FxHashMap::default();
    for (parameter, operand) in parameters.into_iter().flatten().zip(operands) {
        let (Some(own), Some(given)) = (dims(parameter), dims(operand)) else {
            continue;
        };
        for (own, given) in own.iter().zip(&given) {
            if let Some(symbol) = own.term().as_var() {
                sizes.entry(symbol).or_insert_with(|| given.term());
            }
        }
    }
    sizes
}

/// The maps with the caller's sizes.
fn with_sizes(mut maps: Maps, symbols: &FxHashMap<Var, Term>) -> Maps {
    for map in maps.iter_mut().flatten() {
        rename_sizes(map, symbols);
    }
    maps
}

fn rename_sizes(map: &mut IndexingMap, symbols: &FxHashMap<Var, Term>) {
    if symbols.is_empty() {
        return;
    }
    for runtime in &mut map.runtime {
        if let Some(RuntimeSource::Size(size)) = &mut runtime.source {
            *size = size.substitute(&mut |var| symbols.get(&var).cloned());
        }
    }
    map.merge_runtime_variables();
}
