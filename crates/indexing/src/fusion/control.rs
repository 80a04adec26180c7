//! The maps of loops and conditionals.

use rustc_hash::FxHashMap;
use tegula_ir::{ArrayShape, ComputationId, InstructionId, Module, Op, Shape};

use super::{Maps, Value, all_unknown, every_operand, unknown, walk};
use crate::map::{Exactness, IndexingMap};
use crate::ops::{Cause, OperandIndexing, identity_of, leaf_array, whole};
use crate::simplify::Simplifier;

/// The most maps kept for one array of a loop's state; beyond that, the whole array counts as read.
const MAX_LOOP_MAPS: usize = 12;

fn result_of(module: &Module, (id, leaf): Value) -> Result<&ArrayShape, Cause> {
    let data = module.instructions.get(id).ok_or(Cause::Malformed)?;
    leaf_array(&data.shape, leaf)
}

fn superset(mut map: IndexingMap) -> IndexingMap {
    map.exactness = Exactness::Superset;
    map
}

/// Maps from an array of a conditional's result to the operands. It is not known which branch is
/// taken.
pub(super) fn branches_backward(
    module: &Module,
    (call, output): Value,
    branches: &[ComputationId],
    simplifier: &mut Simplifier,
    depth: u32,
) -> Vec<OperandIndexing> {
    let result = match result_of(module, (call, output)) {
        Ok(result) => result,
        Err(cause) => return all_unknown(module, call, &cause),
    };
    let mut found: Vec<Result<_, Cause>> = branches
        .iter()
        .map(|branch| walk::backward(module, *branch, output, simplifier, depth + 1))
        .collect();
    every_operand(module, call, |operand, leaf| {
        let Some(branch) = operand.checked_sub(1) else {
            return Ok(vec![identity_of(module, result).without_results()]);
        };
        match found.get_mut(branch) {
            Some(Ok(maps)) => {
                let maps = maps.remove(&(0, leaf)).unwrap_or(Ok(Vec::new()))?;
                Ok(maps.into_iter().map(superset).collect())
            }
            Some(Err(cause)) => unknown(call, cause.clone()),
            None => Ok(Vec::new()),
        }
    })
}

/// The maps from the operands of a conditional to one array of its result, through its branches.
pub(super) fn branches_forward(
    module: &Module,
    (call, output): Value,
    branches: &[ComputationId],
    simplifier: &mut Simplifier,
    depth: u32,
) -> Vec<OperandIndexing> {
    let result = match result_of(module, (call, output)) {
        Ok(result) => result,
        Err(cause) => return all_unknown(module, call, &cause),
    };
    let scalar = ArrayShape::new(tegula_ir::ElementType::Pred, &[]);
    every_operand(module, call, |operand, leaf| {
        let Some(branch) = operand.checked_sub(1).and_then(|n| branches.get(n)) else {
            let mut map = whole(module, &scalar, result);
            map.exactness = Exactness::Exact;
            return Ok(vec![map]);
        };
        let found = walk::forward(module, *branch, (0, leaf), output, simplifier, depth + 1);
        let maps = found.unwrap_or_else(|cause| unknown(call, cause))?;
        Ok(maps.into_iter().map(superset).collect())
    })
}

/// A loop whose maps are being collected.
struct Loop<'a> {
    module: &'a Module,
    body: ComputationId,
    state: &'a Shape,
    simplifier: &'a mut Simplifier,
    depth: u32,
    /// For an array of the state after an iteration, the maps to the arrays of the state before it.
    step: FxHashMap<usize, Vec<(usize, Maps)>>,
}

impl Loop<'_> {
    fn step(&mut self, leaf: usize) -> Result<Vec<(usize, Maps)>, Cause> {
        if let Some(known) = self.step.get(&leaf) {
            return Ok(known.clone());
        }
        let (module, depth) = (self.module, self.depth + 1);
        let found = walk::backward(module, self.body, leaf, self.simplifier, depth)?;
        let mut maps: Vec<(usize, Maps)> = Vec::new();
        for ((_, leaf), found) in found {
            let coarse = |found: Vec<IndexingMap>| {
                let mut coarse: Vec<IndexingMap> = Vec::new();
                for map in found {
                    let map = self.coarse(map);
                    if !coarse.contains(&map) {
                        coarse.push(map);
                    }
                }
                coarse
            };
            maps.push((leaf, found.map(coarse)));
        }
        maps.sort_unstable_by_key(|(leaf, _)| *leaf);
        self.step.insert(leaf, maps.clone());
        Ok(maps)
    }

    /// Whether iterations leave an array of the state unchanged.
    fn is_invariant(&mut self, leaf: usize) -> Result<bool, Cause> {
        let Ok(array) = leaf_array(self.state, leaf) else {
            return Ok(false);
        };
        let identity = identity_of(self.module, array);
        let identity = self.simplifier.simplify_map(&identity);
        let steps = self.step(leaf)?;
        Ok(match steps.as_slice() {
            [(from, Ok(maps))] => {
                let is_same = |map: &IndexingMap| self.simplifier.simplify_map(map) == identity;
                *from == leaf && maps.len() == 1 && maps.iter().all(is_same)
            }
            _ => false,
        })
    }

    /// All maps to the arrays of the initial state, by array.
    fn close(
        &mut self,
        result: &ArrayShape,
        start: Vec<(usize, IndexingMap)>,
    ) -> Result<FxHashMap<usize, Vec<IndexingMap>>, Cause> {
        let mut found: FxHashMap<usize, Vec<IndexingMap>> = FxHashMap::default();
        let mut widened: FxHashMap<usize, ()> = FxHashMap::default();
        let mut work = start;
        while let Some((leaf, map)) = work.pop() {
            let known = found.entry(leaf).or_default();
            if known.contains(&map) || widened.contains_key(&leaf) {
                continue;
            }
            known.push(map.clone());
            let mut map = map;
            if known.len() > MAX_LOOP_MAPS {
                // Whatever further iterations read is a part of the array.
                map = whole(self.module, result, leaf_array(self.state, leaf)?);
                *known = vec![map.clone()];
                widened.insert(leaf, ());
            }
            for (from, next) in self.step(leaf)? {
                match next {
                    Ok(next) => {
                        work.extend(next.iter().map(|next| (from, self.compose(&map, next))));
                    }
                    Err(_) => {
                        let array = leaf_array(self.state, from)?;
                        work.push((from, whole(self.module, result, array)));
                    }
                }
            }
        }
        Ok(found)
    }

    fn compose(&mut self, map: &IndexingMap, next: &IndexingMap) -> IndexingMap {
        self.coarse(superset(map.compose(next)))
    }

    /// Generalises a map to all iterations. A run-time value differs between iterations, so its
    /// source is removed. Constraints that restrict only variables on which no result depends would
    /// accumulate from iteration to iteration and say little, so they are dropped.
    fn coarse(&mut self, mut map: IndexingMap) -> IndexingMap {
        map.forget_elements();
        map.drop_loose_constraints();
        map.remove_unused_variables();
        let mut simple = self.simplifier.simplify_map(&map);
        simple.remove_unused_variables();
        simple
    }
}

/// Maps from array `output` of a loop's result to the operands.
pub(super) fn loop_backward(
    module: &Module,
    call: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
    depth: u32,
) -> Vec<OperandIndexing> {
    match loop_reads(module, call, output, simplifier, depth) {
        Ok(mut found) => every_operand(module, call, |_, leaf| {
            Ok(found.remove(&leaf).unwrap_or_default())
        }),
        Err(cause) => all_unknown(module, call, &cause),
    }
}

fn loop_reads(
    module: &Module,
    call: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
    depth: u32,
) -> Result<FxHashMap<usize, Vec<IndexingMap>>, Cause> {
    let data = module.instructions.get(call).ok_or(Cause::Malformed)?;
    let Op::While { condition, body } = &data.op else {
        return Err(Cause::Malformed);
    };
    let result = leaf_array(&data.shape, output)?;
    let mut all = Loop {
        module,
        body: *body,
        state: &data.shape,
        simplifier,
        depth,
        step: FxHashMap::default(),
    };
    let identity = identity_of(module, result);
    let identity = all.simplifier.simplify_map(&identity);
    if all.is_invariant(output)? {
        return Ok(FxHashMap::from_iter([(output, vec![identity])]));
    }
    // Whether there is another iteration does not depend on the index.
    let nothing = superset(identity_of(module, result).without_results());
    let mut start = Vec::new();
    let decided = walk::backward(module, *condition, 0, all.simplifier, depth + 1)?;
    let mut decided: Vec<_> = decided.into_iter().collect();
    decided.sort_unstable_by_key(|(place, _)| *place);
    for ((_, leaf), maps) in decided {
        let array = leaf_array(&data.shape, leaf)?;
        match maps {
            Ok(maps) => {
                start.extend(maps.iter().map(|map| (leaf, all.compose(&nothing, map))));
            }
            Err(_) => start.push((leaf, whole(module, result, array))),
        }
    }
    start.push((output, superset(identity)));
    all.close(result, start)
}

/// Maps to array `output` of a loop's result: the identity, or to any index.
pub(super) fn loop_forward(
    module: &Module,
    call: InstructionId,
    output: usize,
    simplifier: &mut Simplifier,
    depth: u32,
) -> Vec<OperandIndexing> {
    let reads = match loop_reads(module, call, output, simplifier, depth) {
        Ok(reads) => reads,
        Err(cause) => return all_unknown(module, call, &cause),
    };
    let Some(data) = module.instructions.get(call) else {
        return Vec::new();
    };
    every_operand(module, call, |_, leaf| {
        let Some(maps) = reads.get(&leaf) else {
            return Ok(Vec::new());
        };
        let arrays = (
            leaf_array(&data.shape, leaf),
            leaf_array(&data.shape, output),
        );
        let (Ok(from), Ok(to)) = arrays else {
            return Ok(Vec::new());
        };
        let is_invariant = maps.iter().all(|map| map.exactness == Exactness::Exact);
        if is_invariant && leaf == output {
            return Ok(vec![identity_of(module, from)]);
        }
        Ok(vec![whole(module, from, to)])
    })
}
