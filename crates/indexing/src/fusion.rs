//! The maps of fusions and calls: compositions along every path through the called computation, in
//! both directions.
//!
//! A loop reads what its iterations read; maps are collected until no new ones appear. If new maps
//! keep appearing, the whole array counts as read. The values that decide how often a loop runs
//! count as read too, and so does the operand that selects a branch.

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

/// The most different maps kept for one value.
const MAX_MAPS: usize = 64;
/// The deepest nesting of calls that is analysed.
const MAX_DEPTH: u32 = 16;

/// An array of an instruction's result: the instruction, and the number of the leaf.
type Value = (InstructionId, usize);
type Maps = Result<Vec<IndexingMap>, Unknown>;

/// For each array of each operand of a fusion, call, loop or conditional: all maps from indices of
/// array `output` of the result (numbered through the tuple, from the left) to indices of the
/// operand. The maps are simplified, without duplicates and unused variables. Other instructions
/// yield their own maps.
///
/// An operand that the output does not read has no maps. One unknown path makes its operand
/// unknown, but no other operand.
pub fn fusion_output_to_input(
    module: &Module,
    fusion: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
) -> Vec<OperandIndexing> {
    backward(module, fusion, output, simplifier, 0)
}

/// Like [`fusion_output_to_input`], but from indices of the operands to the indices of array
/// `output` of the result that depend on them.
pub fn fusion_input_to_output(
    module: &Module,
    fusion: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
) -> Vec<OperandIndexing> {
    forward(module, fusion, output, simplifier, 0)
}

/// The maps of all arrays inside a fusion: instruction, leaf and maps.
type ValueMaps = Vec<(InstructionId, usize, Maps)>;

/// The maps from a tiling space to the operands of an instruction. For a call, they go through its
/// computation, and the maps to the values in it are returned as well. `start` maps the space to
/// array `output` of the result.
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
    // A computation that is analysed on its own has no caller: its parameters are the operands.
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

/// Returns the maps that `maps` yields for every array of every operand.
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

/// How an instruction computes one array of its result.
enum Callee<'a> {
    /// It is array `.1` of a computation's result.
    Computation(ComputationId, usize),
    /// It is the result of one of these computations; which one is not known.
    Branches(&'a [ComputationId]),
    /// It is the result of any number of runs of a loop's body.
    Loop,
    /// The instruction computes it itself.
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

/// The sizes that the caller passes for the symbols of a computation's parameters.
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

/// Replaces symbols by the caller's sizes.
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
