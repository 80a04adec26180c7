//! The maps of a fusion or call: compositions along every path through the called
//! computation, in both directions.
//!
//! A loop reads what its iterations read, taken together until nothing new comes;
//! where new maps keep coming, the whole array. What decides how often it runs
//! counts as read, and so does the operand that chooses a branch.

mod control;
mod walk;

use rustc_hash::FxHashMap;
use tegula_expr::{Term, Var};
use tegula_ir::{InstructionId, Module, Op};

use crate::map::{IndexingMap, RuntimeSource};
use crate::ops::{Cause, OperandIndexing, Unknown, input_to_output_leaf, output_leaf_to_input};
use crate::simplify::Session;

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
    session: &mut Session,
) -> Vec<OperandIndexing> {
    backward(module, fusion, output, session, 0)
}

/// As [`fusion_output_to_input`], from indices of the operands to the indices of
/// array `output` of the result that depend on them.
pub fn fusion_input_to_output(
    module: &Module,
    fusion: InstructionId,
    output: usize,
    session: &mut Session,
) -> Vec<OperandIndexing> {
    forward(module, fusion, output, session, 0)
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
    every_operand(module, call, |_, _| {
        Err(Unknown {
            cause: cause.clone(),
            instruction: call,
        })
    })
}

fn backward(
    module: &Module,
    call: InstructionId,
    output: usize,
    session: &mut Session,
    depth: u32,
) -> Vec<OperandIndexing> {
    let Some(data) = module.instructions.get(call) else {
        return Vec::new();
    };
    let (callee, output) = match &data.op {
        Op::Fusion { calls, .. } => (*calls, output),
        Op::Call { to_apply, .. } => (*to_apply, output),
        Op::AsyncStart { calls, .. } => match crate::ops::route(module, data, output) {
            crate::ops::Route::Made(made) => (*calls, made),
            _ => return output_leaf_to_input(module, call, output),
        },
        Op::While { .. } => return control::loop_backward(module, call, output, session, depth),
        Op::Conditional { .. } => {
            return control::branches_backward(module, call, output, session, depth);
        }
        _ => return output_leaf_to_input(module, call, output),
    };
    let mut found = match walk::backward(module, callee, output, session, depth) {
        Ok(found) => found,
        Err(cause) => return all_unknown(module, call, &cause),
    };
    let symbols = caller_sizes(module, callee, &data.operands);
    every_operand(module, call, |operand, leaf| {
        let mut maps = found.remove(&(operand, leaf)).unwrap_or(Ok(Vec::new()));
        for map in maps.iter_mut().flatten() {
            rename_sizes(map, &symbols);
        }
        maps
    })
}

fn forward(
    module: &Module,
    call: InstructionId,
    output: usize,
    session: &mut Session,
    depth: u32,
) -> Vec<OperandIndexing> {
    let Some(data) = module.instructions.get(call) else {
        return Vec::new();
    };
    let (callee, output) = match &data.op {
        Op::Fusion { calls, .. } => (*calls, output),
        Op::Call { to_apply, .. } => (*to_apply, output),
        Op::AsyncStart { calls, .. } => match crate::ops::route(module, data, output) {
            crate::ops::Route::Made(made) => (*calls, made),
            _ => return input_to_output_leaf(module, call, output),
        },
        Op::While { .. } => return control::loop_forward(module, call, output, session, depth),
        Op::Conditional { .. } => {
            return control::branches_forward(module, call, output, session, depth);
        }
        _ => return input_to_output_leaf(module, call, output),
    };
    let symbols = caller_sizes(module, callee, &data.operands);
    every_operand(module, call, |operand, leaf| {
        let found = walk::forward(module, callee, (operand, leaf), output, session, depth);
        let mut maps = found.unwrap_or_else(|cause| {
            Err(Unknown {
                cause,
                instruction: call,
            })
        });
        for map in maps.iter_mut().flatten() {
            rename_sizes(map, &symbols);
        }
        maps
    })
}

/// What the symbols of a computation's parameters are to its caller.
fn caller_sizes(
    module: &Module,
    callee: tegula_ir::ComputationId,
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
