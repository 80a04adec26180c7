//! The maps of a fusion: compositions along every path from its result to its
//! operands.

use rustc_hash::FxHashMap;
use tegula_expr::{Term, Var};
use tegula_ir::{ComputationId, InstructionId, Module, Op, Shape};

use crate::map::{IndexingMap, RuntimeSource};
use crate::ops::{Cause, OperandIndexing, Unknown, identity_of, output_to_input};
use crate::simplify::Session;

/// Different maps kept for one value.
const MAX_MAPS: usize = 64;
/// Fusions inside fusions that are looked into.
const MAX_DEPTH: u32 = 16;

/// For each operand of a fusion (or call), all maps from indices of the array
/// `output` of its result (numbered through the tuple, from the left) to indices
/// of the operand, simplified, without duplicates and without unused variables.
///
/// An operand that the output does not read has no maps. One unknown path makes
/// its operand unknown, but no other.
pub fn fusion_output_to_input(
    module: &Module,
    fusion: InstructionId,
    output: usize,
    session: &mut Session,
) -> Vec<OperandIndexing> {
    through(module, fusion, output, session, 0)
}

/// An array of an instruction's result: the instruction, and which leaf.
type Value = (InstructionId, usize);
type Maps = Result<Vec<IndexingMap>, Unknown>;

fn through(
    module: &Module,
    call: InstructionId,
    output: usize,
    session: &mut Session,
    depth: u32,
) -> Vec<OperandIndexing> {
    let Some(data) = module.instructions.get(call) else {
        return Vec::new();
    };
    let unknown = |cause: Cause| {
        let unknown = Unknown {
            cause,
            instruction: call,
        };
        let all = 0..data.operands.len();
        all.map(|operand| OperandIndexing {
            operand,
            maps: Err(unknown.clone()),
        })
        .collect()
    };
    let callee = match &data.op {
        Op::Fusion { calls, .. } => *calls,
        Op::Call { to_apply, .. } => *to_apply,
        op => return unknown(Cause::Operation(op.opcode())),
    };
    if depth >= MAX_DEPTH {
        return unknown(Cause::TooManyMaps);
    }
    let mut walk = Walk {
        module,
        session,
        depth,
        maps: FxHashMap::default(),
    };
    if let Err(cause) = walk.run(callee, output) {
        return unknown(cause);
    }
    let Some(computation) = module.computations.get(callee) else {
        return unknown(Cause::Malformed);
    };
    let symbols = caller_sizes(module, &computation.parameters, &data.operands);
    (0..data.operands.len())
        .map(|operand| {
            let parameter = computation.parameters.get(operand);
            let found = parameter.and_then(|id| walk.maps.remove(&(*id, 0)));
            let mut maps = found.unwrap_or_else(|| Ok(Vec::new()));
            for map in maps.iter_mut().flatten() {
                rename_sizes(map, &symbols);
            }
            OperandIndexing { operand, maps }
        })
        .collect()
}

/// What the symbols of a computation's parameters are to its caller.
fn caller_sizes(
    module: &Module,
    parameters: &[InstructionId],
    operands: &[InstructionId],
) -> FxHashMap<Var, Term> {
    let dims = |id: &InstructionId| {
        let array = module.instructions.get(*id)?.shape.as_array()?;
        Some(array.dims.clone())
    };
    let mut sizes = FxHashMap::default();
    for (parameter, operand) in parameters.iter().zip(operands) {
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

struct Walk<'a> {
    module: &'a Module,
    session: &'a mut Session,
    depth: u32,
    /// From the output to each value met so far.
    maps: FxHashMap<Value, Maps>,
}

impl Walk<'_> {
    fn run(&mut self, callee: ComputationId, output: usize) -> Result<(), Cause> {
        let computation = self
            .module
            .computations
            .get(callee)
            .ok_or(Cause::Malformed)?;
        let root = computation.root;
        let shape = &self
            .module
            .instructions
            .get(root)
            .ok_or(Cause::Malformed)?
            .shape;
        let mut array = None;
        let mut leaf = 0;
        shape.for_each_leaf(&mut |shape: &Shape| {
            if leaf == output {
                array = shape.as_array().cloned();
            }
            leaf += 1;
        });
        let identity = identity_of(self.module, &array.ok_or(Cause::NotAnArray)?);
        self.maps.insert((root, output), Ok(vec![identity]));
        for id in computation.instructions.iter().rev() {
            let leaves = self
                .module
                .instructions
                .get(*id)
                .map_or(0, |data| data.shape.leaf_count());
            for leaf in 0..leaves {
                if let Some(maps) = self.maps.get(&(*id, leaf)).cloned() {
                    self.visit(*id, leaf, &maps);
                }
            }
        }
        Ok(())
    }

    /// Passes the maps of a value on to what it is made of.
    fn visit(&mut self, id: InstructionId, leaf: usize, maps: &Maps) {
        let Some(data) = self.module.instructions.get(id) else {
            return;
        };
        let leaves = |operand: &InstructionId| {
            self.module
                .instructions
                .get(*operand)
                .map_or(0, |data| data.shape.leaf_count())
        };
        match &data.op {
            Op::Parameter(_) => {}
            Op::Tuple => {
                let mut first = 0;
                for operand in &data.operands {
                    let count = leaves(operand);
                    if (first..first + count).contains(&leaf) {
                        self.add((*operand, leaf - first), maps.clone());
                        return;
                    }
                    first += count;
                }
            }
            Op::GetTupleElement(index) => {
                let Some(operand) = data.operands.first() else {
                    return;
                };
                let elements = self
                    .module
                    .instructions
                    .get(*operand)
                    .and_then(|d| d.shape.as_tuple());
                let before = usize::try_from(*index).unwrap_or(usize::MAX);
                let first: usize = elements
                    .unwrap_or(&[])
                    .iter()
                    .take(before)
                    .map(Shape::leaf_count)
                    .sum();
                self.add((*operand, first + leaf), maps.clone());
            }
            Op::Fusion { .. } | Op::Call { .. } => {
                let inner = through(self.module, id, leaf, self.session, self.depth + 1);
                self.compose(id, maps, inner);
            }
            _ => {
                let inner = output_to_input(self.module, id);
                self.compose(id, maps, inner);
            }
        }
    }

    fn compose(&mut self, id: InstructionId, maps: &Maps, inner: Vec<OperandIndexing>) {
        let Some(data) = self.module.instructions.get(id) else {
            return;
        };
        for OperandIndexing {
            operand,
            maps: next,
        } in inner
        {
            let Some(source) = data.operands.get(operand) else {
                continue;
            };
            let found = match (maps, next) {
                (Err(unknown), _) => Err(unknown.clone()),
                (_, Err(unknown)) => Err(unknown),
                (Ok(maps), Ok(next)) => Ok(self.products(maps, &next)),
            };
            self.add((*source, 0), found);
        }
    }

    fn products(&mut self, maps: &[IndexingMap], next: &[IndexingMap]) -> Vec<IndexingMap> {
        let mut found: Vec<IndexingMap> = Vec::new();
        for map in maps {
            for next in next {
                let mut composed = self.session.simplify_map(&map.then(next));
                composed.remove_unused_variables();
                if !composed.is_empty() && !found.contains(&composed) {
                    found.push(composed);
                }
            }
        }
        found
    }

    /// Adds maps to those of a value.
    fn add(&mut self, value: Value, maps: Maps) {
        let known = self.maps.entry(value).or_insert_with(|| Ok(Vec::new()));
        match (known, maps) {
            (Err(_), _) => {}
            (known, Err(unknown)) => *known = Err(unknown),
            (Ok(known), Ok(maps)) => {
                for map in maps {
                    if !known.contains(&map) {
                        known.push(map);
                    }
                }
                if known.len() > MAX_MAPS {
                    let unknown = Unknown {
                        cause: Cause::TooManyMaps,
                        instruction: value.0,
                    };
                    self.maps.insert(value, Err(unknown));
                }
            }
        }
    }
}
