//! Locations of instructions that Cranelift's optimiser made.
//!
//! The optimiser copies a computation to each place that needs it, and its rewrites make new
//! instructions; both have no location. A copy gets the location of the instruction that computes
//! the same; a new instruction gets that of the first instruction that uses its result.

use cranelift_codegen::ir::{Function, Inst, InstructionData, SourceLoc, Type, Value};
use rustc_hash::FxHashMap;

/// Fills in locations of an optimised function.
pub(super) fn fill_locations(func: &mut Function) {
    let order: Vec<Inst> = {
        let layout = &func.layout;
        let blocks = layout.blocks();
        blocks.flat_map(|block| layout.block_insts(block)).collect()
    };
    let copies = copies(func, &order);
    for (inst, original) in copies {
        func.set_srcloc(inst, original);
    }
    // For each value, the location of its first user.
    let mut wanted: FxHashMap<Value, SourceLoc> = FxHashMap::default();
    for &inst in order.iter().rev() {
        let mut location = func.srcloc(inst);
        let opcode = func.dfg.insts[inst].opcode();
        if location.is_default() && computes(func, inst) && !opcode.can_load() {
            let results = func.dfg.inst_results(inst).iter();
            if let Some(&found) = results.filter_map(|value| wanted.get(value)).next() {
                location = found;
                func.set_srcloc(inst, location);
            }
        }
        if !location.is_default() {
            for value in func.dfg.inst_values(inst) {
                wanted.insert(value, location);
            }
        }
    }
}

/// Whether an instruction has no effects besides its results.
fn computes(func: &Function, inst: Inst) -> bool {
    let opcode = func.dfg.insts[inst].opcode();
    !opcode.is_terminator() && !opcode.can_store() && !opcode.other_side_effects()
}

/// Instructions without a location that compute the same as one with a location.
fn copies(func: &Function, order: &[Inst]) -> Vec<(Inst, SourceLoc)> {
    let mut pool = func.dfg.value_lists.clone();
    let mut same: FxHashMap<Value, Value> = FxHashMap::default();
    let mut known: FxHashMap<(InstructionData, Type), (Value, SourceLoc)> = FxHashMap::default();
    let mut members: Vec<(Inst, (InstructionData, Type))> = Vec::new();
    for &inst in order {
        let &[result] = func.dfg.inst_results(inst) else {
            continue;
        };
        let mut data = func.dfg.insts[inst];
        if !computes(func, inst) {
            continue;
        }
        for value in data.arguments_mut(&mut pool) {
            *value = same.get(value).copied().unwrap_or(*value);
        }
        let key = (data, func.dfg.value_type(result));
        let location = func.srcloc(inst);
        let (first, found) = known.entry(key).or_insert((result, location));
        if found.is_default() {
            *found = location;
        }
        same.insert(result, *first);
        if location.is_default() {
            members.push((inst, key));
        }
    }
    let found = members
        .into_iter()
        .filter_map(|(inst, key)| Some((inst, known.get(&key)?.1)));
    found
        .filter(|(_, location)| !location.is_default())
        .collect()
}
