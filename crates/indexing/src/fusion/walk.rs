//! Walks one computation from its root to its parameters, and back.

use rustc_hash::FxHashMap;
use tegula_ir::{ComputationId, InstructionId, Module, Op};

use super::{MAX_DEPTH, MAX_MAPS, Maps, Value};
use crate::map::{IndexingMap, variable};
use crate::ops::{
    Cause, OperandIndexing, Route, Unknown, identity_of, leaf_array, reshape_map, route,
};
use crate::simplify::Simplifier;

/// The maps from array `output` of the root to each array of each parameter, keyed by the numbers
/// of the parameter and the array. An array without an entry is not read.
pub(super) fn backward(
    module: &Module,
    callee: ComputationId,
    output: usize,
    simplifier: &mut Simplifier,
    depth: u32,
) -> Result<FxHashMap<(usize, usize), Maps>, Cause> {
    let computation = module.computations.get(callee).ok_or(Cause::Malformed)?;
    let mut walk = Walk::new(module, simplifier, depth)?;
    walk.start((computation.root, output))?;
    for id in computation.instructions.iter().rev() {
        for leaf in 0..walk.leaves(*id) {
            if let Some(maps) = walk.maps.get(&(*id, leaf)).cloned() {
                walk.visit(*id, leaf, &maps);
            }
        }
    }
    let mut found = FxHashMap::default();
    for (number, id) in computation.parameters.iter().enumerate() {
        for leaf in 0..walk.leaves(*id) {
            if let Some(maps) = walk.maps.remove(&(*id, leaf)) {
                found.insert((number, leaf), maps);
            }
        }
    }
    Ok(found)
}

/// The maps from an array of a parameter to array `output` of the root.
pub(super) fn forward(
    module: &Module,
    callee: ComputationId,
    parameter: (usize, usize),
    output: usize,
    simplifier: &mut Simplifier,
    depth: u32,
) -> Result<Maps, Cause> {
    let computation = module.computations.get(callee).ok_or(Cause::Malformed)?;
    let own = computation.parameters.get(parameter.0);
    let own = *own.ok_or(Cause::Malformed)?;
    let mut walk = Walk::new(module, simplifier, depth)?;
    walk.start((own, parameter.1))?;
    for id in &computation.instructions {
        walk.visit_forward(*id);
    }
    let root = walk.maps.remove(&(computation.root, output));
    Ok(root.unwrap_or(Ok(Vec::new())))
}

/// For each instruction that sums over dimensions of a tiling space: the dimensions of the starting
/// map that replace its range variables.
pub(crate) type Sequential = FxHashMap<InstructionId, std::ops::Range<usize>>;

/// The maps from a tiling space to every array of every value of a computation. `start` maps the
/// space to array `output` of the root.
pub(super) fn from_space(
    module: &Module,
    callee: ComputationId,
    output: usize,
    start: &IndexingMap,
    sequential: &Sequential,
    simplifier: &mut Simplifier,
) -> Result<FxHashMap<Value, Maps>, Cause> {
    let computation = module.computations.get(callee).ok_or(Cause::Malformed)?;
    let mut walk = Walk::new(module, simplifier, 0)?;
    walk.sequential = sequential.clone();
    walk.maps
        .insert((computation.root, output), Ok(vec![start.clone()]));
    for id in computation.instructions.iter().rev() {
        for leaf in 0..walk.leaves(*id) {
            if let Some(maps) = walk.maps.get(&(*id, leaf)).cloned() {
                walk.visit(*id, leaf, &maps);
            }
        }
    }
    Ok(walk.maps)
}

/// The maps from a tiling space through one instruction.
pub(super) fn through(
    module: &Module,
    (id, leaf): Value,
    start: &IndexingMap,
    sequential: &Sequential,
    simplifier: &mut Simplifier,
) -> Vec<OperandIndexing> {
    let mut found = super::backward(module, id, leaf, simplifier, 0);
    let own = sequential.get(&id);
    for operand in &mut found {
        if let Ok(maps) = &mut operand.maps {
            *maps = products(simplifier, std::slice::from_ref(start), maps, own);
        }
    }
    found
}

struct Walk<'a> {
    module: &'a Module,
    simplifier: &'a mut Simplifier,
    depth: u32,
    sequential: Sequential,
    /// The maps from the start to each value reached so far.
    maps: FxHashMap<Value, Maps>,
}

impl<'a> Walk<'a> {
    fn new(module: &'a Module, simplifier: &'a mut Simplifier, depth: u32) -> Result<Self, Cause> {
        if depth >= MAX_DEPTH {
            return Err(Cause::TooManyMaps);
        }
        Ok(Self {
            module,
            simplifier,
            depth,
            sequential: Sequential::default(),
            maps: FxHashMap::default(),
        })
    }

    fn leaves(&self, id: InstructionId) -> usize {
        let data = self.module.instructions.get(id);
        data.map_or(0, |data| data.shape.leaf_count())
    }

    /// Starts with the identity map of a value.
    fn start(&mut self, (id, leaf): Value) -> Result<(), Cause> {
        let data = self.module.instructions.get(id).ok_or(Cause::Malformed)?;
        let identity = identity_of(self.module, leaf_array(&data.shape, leaf)?);
        self.maps.insert((id, leaf), Ok(vec![identity]));
        Ok(())
    }

    /// Propagates the maps of a value to the operands that it is computed from.
    fn visit(&mut self, id: InstructionId, leaf: usize, maps: &Maps) {
        let Some(data) = self.module.instructions.get(id) else {
            return;
        };
        if matches!(data.op, Op::Parameter(_)) {
            return;
        }
        match route(self.module, data, leaf) {
            Route::From(operand, from) => {
                if let Some(source) = data.operands.get(operand) {
                    self.add((*source, from), maps.clone());
                }
                return;
            }
            Route::Nothing => return,
            Route::Made(_) => {}
        }
        if let Some((source, next)) = self.through_reshapes(id) {
            let found = match maps {
                Err(unknown) => Err(unknown.clone()),
                Ok(maps) => Ok(products(self.simplifier, maps, &[next], None)),
            };
            self.add((source, 0), found);
            return;
        }
        let inner = super::backward(self.module, id, leaf, self.simplifier, self.depth + 1);
        for operand in inner {
            let Some(source) = data.operands.get(operand.operand) else {
                continue;
            };
            let found = match (maps, operand.maps) {
                (_, Ok(next)) if next.is_empty() => continue,
                (Err(unknown), _) => Err(unknown.clone()),
                (_, Err(unknown)) => Err(unknown),
                (Ok(maps), Ok(next)) => {
                    let own = self.sequential.get(&id);
                    Ok(products(self.simplifier, maps, &next, own))
                }
            };
            self.add((*source, operand.leaf), found);
        }
    }

    /// For a chain of reshapes, the array at its start and the map to it. The arrays in between
    /// have the same row-major order.
    fn through_reshapes(&self, id: InstructionId) -> Option<(InstructionId, IndexingMap)> {
        let mut source = id;
        let mut count = 0;
        while let Some(data) = self.module.instructions.get(source)
            && matches!(data.op, Op::Reshape)
        {
            source = *data.operands.first()?;
            count += 1;
        }
        if count < 2 {
            return None;
        }
        Some((source, self.reshape_between(id, source)?))
    }

    /// The map between the indices of two arrays with the same elements in row-major order.
    fn reshape_between(&self, from: InstructionId, to: InstructionId) -> Option<IndexingMap> {
        let sizes = |id| {
            let data = self.module.instructions.get(id)?;
            data.shape.as_array()?.static_dims()
        };
        reshape_map(&sizes(from)?, &sizes(to)?).ok()
    }

    /// Collects the maps of an instruction's arrays from those of its operands.
    fn visit_forward(&mut self, id: InstructionId) {
        let Some(data) = self.module.instructions.get(id) else {
            return;
        };
        let has_maps = |walk: &Self, operand: &InstructionId| {
            (0..walk.leaves(*operand)).any(|leaf| walk.maps.contains_key(&(*operand, leaf)))
        };
        if !data.operands.iter().any(|operand| has_maps(self, operand)) {
            return;
        }
        if let Some((source, _)) = self.through_reshapes(id)
            && let Some(forth) = self.reshape_between(source, id)
            && let Some(maps) = self.maps.get(&(source, 0)).cloned()
        {
            let found = maps.map(|maps| products(self.simplifier, &maps, &[forth], None));
            self.add((id, 0), found);
            return;
        }
        for leaf in 0..self.leaves(id) {
            let inner = super::forward(self.module, id, leaf, self.simplifier, self.depth + 1);
            for operand in inner {
                let Some(source) = data.operands.get(operand.operand) else {
                    continue;
                };
                let Some(maps) = self.maps.get(&(*source, operand.leaf)).cloned() else {
                    continue;
                };
                let found = match (maps, operand.maps) {
                    (_, Ok(next)) if next.is_empty() => continue,
                    (Err(unknown), _) | (_, Err(unknown)) => Err(unknown),
                    (Ok(maps), Ok(next)) => Ok(products(self.simplifier, &maps, &next, None)),
                };
                self.add((id, leaf), found);
            }
        }
    }

    /// Adds maps to those of a value.
    fn add(&mut self, value: Value, maps: Maps) {
        let unknown = |cause| Unknown {
            cause,
            instruction: value.0,
        };
        let maps = match maps {
            // Positions in collectives over different groups are unrelated.
            Ok(maps) if maps.iter().any(IndexingMap::is_undefined) => {
                Err(unknown(Cause::MixedGroups))
            }
            maps => maps,
        };
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
                    self.maps.insert(value, Err(unknown(Cause::TooManyMaps)));
                }
            }
        }
    }
}

/// All compositions of a map in `maps` with one in `next`, simplified, without duplicates.
/// `sequential` are the dimensions of the first maps that replace the ranges of the second ones.
fn products(
    simplifier: &mut Simplifier,
    maps: &[IndexingMap],
    next: &[IndexingMap],
    sequential: Option<&std::ops::Range<usize>>,
) -> Vec<IndexingMap> {
    let mut found: Vec<IndexingMap> = Vec::new();
    for map in maps {
        for next in next {
            let both = match sequential {
                Some(own) if next.ranges.len() == own.len() => {
                    let mut map = map.clone();
                    map.results.extend(own.clone().map(variable));
                    map.compose(&next.ranges_as_dims())
                }
                _ => map.compose(next),
            };
            let simple = simplifier.simplify_map(&both);
            let mut composed = simple.clone();
            composed.remove_unused_variables();
            simplifier.renumbered(&simple, &composed);
            if !composed.is_empty() && !found.contains(&composed) {
                found.push(composed);
            }
        }
    }
    found
}
