//! Removes unused parts of a module: computations that are not called, instructions that no result
//! depends on, and unused parameters of the entry. Annotations and the header are dropped, because
//! they may refer to removed parts.

use std::collections::HashMap;
use tegula_ir::{
    Computation, ComputationId, Instruction, InstructionId, Module, ModuleAttributes, Op,
};

/// The compacted module; `None` if the module is not well-formed.
pub(super) fn compact(module: &Module) -> Option<Module> {
    let forwarded = forward_tuple_elements(module);
    let live = live_computations(&forwarded)?;
    let mut compacted = Module {
        instructions: Default::default(),
        computations: Default::default(),
        attributes: ModuleAttributes::default(),
        // Inputs are renumbered, so sizes are inferred anew when the printed module is read.
        sizes: tegula_ir::RunTimeSizes::default(),
        required: Vec::new(),
        source: "".into(),
        ..forwarded.clone()
    };
    let mut computations = HashMap::new();
    // Callees have smaller ids than their callers, so they are copied first.
    for (id, instructions) in live {
        let new = compacted.computations.next_key();
        computations.insert(id, new);
        let is_entry = id == forwarded.entry;
        let computation = copy(
            &forwarded,
            id,
            &instructions,
            is_entry,
            &computations,
            &mut compacted,
        )?;
        compacted.computations.push(computation);
    }
    compacted.entry = *computations.get(&forwarded.entry)?;
    Some(compacted)
}

/// Replaces `get-tuple-element(tuple(...))` by the element.
fn forward_tuple_elements(module: &Module) -> Module {
    let mut forwarded = module.clone();
    let ids: Vec<InstructionId> = module.instructions.keys().collect();
    for id in ids {
        for i in 0..forwarded[id].operands.len() {
            let operand = forwarded[id].operands[i];
            let Op::GetTupleElement(index) = forwarded[operand].op else {
                continue;
            };
            let Some(&tuple) = forwarded[operand].operands.first() else {
                continue;
            };
            if forwarded[tuple].op != Op::Tuple {
                continue;
            }
            let element = usize::try_from(index).ok();
            if let Some(&element) = element.and_then(|e| forwarded[tuple].operands.get(e)) {
                forwarded.instructions[id].operands[i] = element;
            }
        }
    }
    forwarded
}

/// The computations that are called, callees first, each with its live instructions.
fn live_computations(module: &Module) -> Option<Vec<(ComputationId, Vec<InstructionId>)>> {
    let mut found: HashMap<ComputationId, Vec<InstructionId>> = HashMap::new();
    let mut open = vec![module.entry];
    while let Some(id) = open.pop() {
        if found.contains_key(&id) {
            continue;
        }
        let computation = module.computations.get(id)?;
        let instructions = live_instructions(module, computation, id == module.entry);
        for &instruction in &instructions {
            open.extend(module[instruction].op.called_computations());
        }
        found.insert(id, instructions);
    }
    let mut ordered: Vec<_> = found.into_iter().collect();
    ordered.sort_unstable_by_key(|&(id, _)| id);
    Some(ordered)
}

fn live_instructions(
    module: &Module,
    computation: &Computation,
    is_entry: bool,
) -> Vec<InstructionId> {
    let mut needed: HashMap<InstructionId, ()> = HashMap::new();
    let mut open = vec![computation.root];
    // A caller passes all parameters, so a callee keeps all of them.
    if !is_entry {
        open.extend(&computation.parameters);
    }
    while let Some(id) = open.pop() {
        if needed.insert(id, ()).is_none() {
            open.extend(&module[id].operands);
        }
    }
    let kept = computation
        .instructions
        .iter()
        .filter(|id| needed.contains_key(id));
    kept.copied().collect()
}

fn copy(
    module: &Module,
    id: ComputationId,
    instructions: &[InstructionId],
    is_entry: bool,
    computations: &HashMap<ComputationId, ComputationId>,
    into: &mut Module,
) -> Option<Computation> {
    let source = &module[id];
    let home = into.computations.next_key();
    let mut places: HashMap<InstructionId, InstructionId> = HashMap::new();
    let mut parameters: Vec<(u32, InstructionId)> = Vec::new();
    let mut listed = Vec::with_capacity(instructions.len());
    for &old in instructions {
        let mut new = Instruction {
            computation: home,
            annotations: None,
            ..module[old].clone()
        };
        let mut known = true;
        for operand in &mut new.operands {
            match places.get(operand) {
                Some(&place) => *operand = place,
                None => known = false,
            }
        }
        new.op
            .map_computations(|callee| match computations.get(&callee) {
                Some(&callee) => callee,
                None => {
                    known = false;
                    callee
                }
            });
        if !known {
            return None;
        }
        let number = if let Op::Parameter(number) = new.op {
            Some(number)
        } else {
            None
        };
        let place = into.instructions.push(new);
        places.insert(old, place);
        listed.push(place);
        parameters.extend(number.map(|number| (number, place)));
    }
    parameters.sort_unstable();
    if is_entry {
        for (number, &(_, place)) in (0u32..).zip(&parameters) {
            into.instructions[place].op = Op::Parameter(number);
        }
    }
    Some(Computation {
        name: source.name.clone(),
        instructions: listed,
        parameters: parameters.into_iter().map(|(_, place)| place).collect(),
        root: *places.get(&source.root)?,
        execution_thread: source.execution_thread.clone(),
        span: source.span,
    })
}
