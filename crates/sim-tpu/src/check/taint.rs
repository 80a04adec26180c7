//! Taint analysis of padding: which results of a computation depend on padding.
//!
//! A block that extends past the edge of its array has elements without meaning. Computing with
//! them is fine as long as they reach only elements that are not used. This analysis follows the
//! [`Kind`] of each element through the operations' indexing maps: an element computed from padding
//! is padding; any other element computed from data is data. A selection has the kind of the branch
//! that its predicate chooses, which is how a program masks padding. An operation that reads
//! several elements of an operand for one element of its result (a reduction, a contraction) must
//! not mix padding with data: that is a finding. Padding mixed with elements made up from
//! constants, such as the zeros of a mask, stays padding: rows beyond the edge may be summed over
//! their masked lanes.

use smallvec::SmallVec;
use tegula_expr::{Interval, Var};
use tegula_indexing::{IndexingMap, Status, output_leaf_to_input};
use tegula_interp::Value;
use tegula_ir::{
    ArrayShape, Binary, ComputationId, ElementType, Instruction, InstructionId, Literal, Module,
    Op, Scalar, Shape,
};

/// Where the value of an element comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// From constants and index numbers alone.
    Neutral,
    /// From an element of an array.
    Real,
    /// From beyond the edge of an array.
    Padding,
}

/// The kinds of the elements of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// All elements have this kind.
    All(Kind),
    /// The kind of each element, row-major.
    Each(Vec<Kind>),
}

impl Kinds {
    fn at(&self, index: usize) -> Kind {
        match self {
            Self::All(kind) => *kind,
            Self::Each(kinds) => kinds.get(index).copied().unwrap_or(Kind::Neutral),
        }
    }

    /// Whether an element is padding.
    pub(crate) fn has_padding(&self) -> bool {
        match self {
            Self::All(kind) => *kind == Kind::Padding,
            Self::Each(kinds) => kinds.contains(&Kind::Padding),
        }
    }

    /// The greatest kind of any element, a bound for all of them.
    fn most(&self) -> Kind {
        match self {
            Self::All(kind) => *kind,
            Self::Each(kinds) => kinds.iter().copied().max().unwrap_or(Kind::Neutral),
        }
    }
}

/// The result of the analysis.
pub(crate) struct Reached {
    /// The kinds of each array of the result.
    pub(crate) outputs: Vec<Kinds>,
    /// The operation that mixes padding with data, if there is one.
    pub(crate) mixed: Option<String>,
}

/// The most points of a map that are visited one by one; a larger map spreads the greatest kind to
/// every element.
const MAX_POINTS: u128 = 1 << 24;
/// The same bound for maps that divide or have constraints.
const MAX_CHECKED_POINTS: u128 = 1 << 20;
/// The greatest depth of nested calls that is followed.
const MAX_DEPTH: usize = 32;

/// Follows the kinds of elements from the parameters of the entry computation to its result. Where
/// no parameter has padding, elements made up from constants count as data unless all are made up.
pub(crate) fn reach(module: &Module, values: &[Literal], kinds: &[Kinds]) -> Reached {
    if !kinds.iter().any(Kinds::has_padding) {
        let most = kinds.iter().map(Kinds::most).max();
        let root = &module[module.entry_computation().root].shape;
        let all = Kinds::All(most.unwrap_or(Kind::Neutral));
        return Reached {
            outputs: vec![all; root.leaf_count()],
            mixed: None,
        };
    }
    Following {
        module,
        values,
        mixed: None,
        depth: 0,
    }
    .run(kinds)
}

struct Following<'m> {
    module: &'m Module,
    values: &'m [Literal],
    mixed: Option<String>,
    depth: usize,
}

impl Following<'_> {
    fn run(mut self, given: &[Kinds]) -> Reached {
        let module = self.module;
        let entry = module.entry_computation();
        let mut known: rustc_hash::FxHashMap<InstructionId, Vec<Kinds>> = Default::default();
        for &id in &entry.instructions {
            let instruction = &module[id];
            let operands: Vec<&[Kinds]> = instruction
                .operands
                .iter()
                .map(|operand| known.get(operand).map_or(&[][..], Vec::as_slice))
                .collect();
            let all = operands.iter().flat_map(|o| o.iter());
            let plain = all
                .clone()
                .all(|k| !k.has_padding() && matches!(k, Kinds::All(_)));
            let most = all.map(Kinds::most).max().unwrap_or(Kind::Neutral);
            let result = match &instruction.op {
                Op::Parameter(number) => {
                    let kinds = given.get(*number as usize).cloned();
                    vec![kinds.unwrap_or(Kinds::All(Kind::Real))]
                }
                Op::Tuple => operands.concat(),
                Op::GetTupleElement(index) => {
                    let at = usize::try_from(*index).unwrap_or(usize::MAX);
                    let kinds = operands.first().and_then(|o| o.get(at)).cloned();
                    vec![kinds.unwrap_or(Kinds::All(Kind::Real))]
                }
                _ if plain => vec![Kinds::All(most); instruction.shape.leaf_count()],
                Op::Fusion { calls, .. }
                | Op::Call {
                    to_apply: calls, ..
                } => self.called(*calls, instruction, &operands),
                _ => self.operation(id, instruction, &operands),
            };
            known.insert(id, result);
        }
        Reached {
            outputs: known.remove(&entry.root).unwrap_or_default(),
            mixed: self.mixed,
        }
    }

    /// The value of an instruction of the entry computation.
    fn value(&self, id: InstructionId) -> Option<Literal> {
        let mut module = self.module.clone();
        let entry = module.entry;
        module.computations[entry].root = id;
        let arguments: Vec<Value> = self.values.iter().cloned().map(Value::Array).collect();
        let value = tegula_interp::evaluate(&module, &arguments).ok()?;
        value.as_array().cloned()
    }

    fn called(
        &mut self,
        computation: ComputationId,
        instruction: &Instruction,
        operands: &[&[Kinds]],
    ) -> Vec<Kinds> {
        let values = instruction.operands.iter().map(|&id| self.value(id));
        let values: Option<Vec<Literal>> = values.collect();
        let (Some(values), true) = (values, self.depth < MAX_DEPTH) else {
            return vec![Kinds::All(Kind::Padding); instruction.shape.leaf_count()];
        };
        let mut module = self.module.clone();
        module.entry = computation;
        let firsts = operands.iter().map(|o| o.first().cloned());
        let firsts = firsts.map(|kinds| kinds.unwrap_or(Kinds::All(Kind::Real)));
        let inner = Following {
            module: &module,
            values: &values,
            mixed: None,
            depth: self.depth + 1,
        };
        let inner = inner.run(&firsts.collect::<Vec<Kinds>>());
        self.mixed = self.mixed.take().or(inner.mixed);
        inner.outputs
    }

    fn operation(
        &mut self,
        id: InstructionId,
        instruction: &Instruction,
        operands: &[&[Kinds]],
    ) -> Vec<Kinds> {
        let first = |i: usize| operands.get(i).and_then(|o| o.first());
        let special = match (&instruction.op, first(0), first(1)) {
            (Op::Select, Some(p), Some(a)) => {
                first(2).and_then(|b| self.select(instruction, p, a, b))
            }
            (Op::Binary(op @ (Binary::And | Binary::Or)), Some(a), Some(b))
                if is_pred(&instruction.shape) =>
            {
                self.decided(instruction, *op == Binary::Or, [a, b])
            }
            _ => None,
        };
        if let Some(special) = special {
            return vec![special];
        }
        let mut leaves = Vec::new();
        instruction
            .shape
            .for_each_leaf(&mut |leaf| leaves.push(leaf));
        let mut results = Vec::new();
        for (leaf, shape) in leaves.into_iter().enumerate() {
            let mut result = vec![Kind::Neutral; elements(shape)];
            for indexing in output_leaf_to_input(self.module, id, leaf) {
                let operand = operands.get(indexing.operand);
                let Some(kinds) = operand.and_then(|o| o.get(indexing.leaf)) else {
                    continue;
                };
                if let (Kinds::All(kind), Ok(_)) = (kinds, &indexing.maps) {
                    result
                        .iter_mut()
                        .for_each(|slot| *slot = (*slot).max(*kind));
                    continue;
                }
                let from = instruction.operands.get(indexing.operand);
                let from = from.and_then(|&from| dims_of(&self.module[from].shape));
                let name = || instruction.op.opcode().to_string();
                let (Ok(maps), Some(from), Some(to)) = (indexing.maps, from, dims_of(shape)) else {
                    if kinds.has_padding() {
                        result.fill(Kind::Padding);
                        self.mixed.get_or_insert_with(name);
                    }
                    continue;
                };
                for map in maps {
                    if follow(&map, &from, kinds, &to, &mut result) {
                        self.mixed.get_or_insert_with(name);
                    }
                }
            }
            results.push(Kinds::Each(result));
        }
        results
    }

    /// The kinds of a selection: each element has that of the chosen branch, or of the predicate if
    /// that is greater.
    fn select(&self, instruction: &Instruction, p: &Kinds, a: &Kinds, b: &Kinds) -> Option<Kinds> {
        let predicate = self.value(*instruction.operands.first()?)?;
        let elements = elements(&instruction.shape);
        let scalar = predicate.len() == 1 && elements != 1;
        let element = |i: usize| {
            let at = if scalar { 0 } else { i };
            let chosen = match predicate.scalar(at) {
                Some(Scalar::Bool(false)) => b,
                _ => a,
            };
            p.at(at).max(chosen.at(i))
        };
        Some(Kinds::Each((0..elements).map(element).collect()))
    }

    /// The kinds of an `and` or `or`: where one operand decides the result, the other does not
    /// matter.
    fn decided(
        &self,
        instruction: &Instruction,
        deciding: bool,
        sides: [&Kinds; 2],
    ) -> Option<Kinds> {
        let values = [
            self.value(*instruction.operands.first()?)?,
            self.value(*instruction.operands.get(1)?)?,
        ];
        let decides = |side: usize, i: usize| {
            let kind = sides[side].at(i);
            let by = values[side].scalar(i) == Some(Scalar::Bool(deciding));
            (kind != Kind::Padding && by).then_some(kind)
        };
        let element = |i: usize| {
            let both = sides[0].at(i).max(sides[1].at(i));
            let decided = [decides(0, i), decides(1, i)].into_iter().flatten().min();
            decided.unwrap_or(both)
        };
        Some(Kinds::Each((0..values[0].len()).map(element).collect()))
    }
}

fn is_pred(shape: &Shape) -> bool {
    let array = shape.as_array();
    array.is_some_and(|array| array.element_type == ElementType::Pred)
}

fn dims_of(shape: &Shape) -> Option<SmallVec<[i64; 6]>> {
    shape.as_array().and_then(ArrayShape::static_dims)
}

fn elements(shape: &Shape) -> usize {
    let count = shape.as_array().and_then(ArrayShape::element_count);
    count
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(0)
}

/// Raises the kind of each element of the result to the kinds that it reads through a map; returns
/// whether some element reads both padding and data.
fn follow(map: &IndexingMap, from: &[i64], kinds: &Kinds, to: &[i64], result: &mut [Kind]) -> bool {
    if map.status == Status::Empty {
        return false;
    }
    let own = map.dims.len();
    let unused = unused_dims(map);
    let mut bounds = map.bounds();
    // A dimension that changes nothing is visited at one value only.
    for (bound, unused) in bounds.iter_mut().zip(&unused) {
        if *unused && bound.lower < bound.upper {
            bound.upper = bound.lower;
        }
    }
    let mut counts = bounds.iter().map(Interval::count);
    let points = counts.try_fold(1u128, u128::checked_mul);
    let limit = match map.constraints.is_empty() {
        true => MAX_POINTS,
        false => MAX_CHECKED_POINTS,
    };
    // An element selected by a run-time value may be any of them.
    if map.is_undefined() || points.is_none_or(|p| p > limit) || !map.runtime.is_empty() {
        let most = kinds.most();
        result.iter_mut().for_each(|slot| *slot = (*slot).max(most));
        return false;
    }
    if points == Some(0) {
        return false;
    }
    let linear = linear(map, from);
    let mut found = vec![Kind::Neutral; result.len()];
    let mut point: SmallVec<[i64; 8]> = bounds.iter().map(|b| b.lower).collect();
    let mut mixed = false;
    loop {
        let (mut most, mut real) = (Kind::Neutral, false);
        loop {
            let at = match &linear {
                Some((constant, coefficients)) => {
                    let terms = coefficients.iter().zip(&point);
                    Some(constant + terms.map(|(c, v)| c * v).sum::<i64>())
                }
                None => flat(map, &point, from),
            };
            if let Some(at) = at.and_then(|at| usize::try_from(at).ok()) {
                let kind = kinds.at(at);
                most = most.max(kind);
                real |= kind == Kind::Real;
            }
            if !step(&mut point, &bounds, own, bounds.len()) {
                break;
            }
        }
        let place = point
            .iter()
            .take(own)
            .zip(to)
            .fold(0, |at, (i, n)| at * n + i);
        if let Some(slot) = found.get_mut(place.max(0) as usize) {
            *slot = (*slot).max(most);
        }
        mixed |= real && most == Kind::Padding;
        if !step(&mut point, &bounds, 0, own) {
            spread(&found, to, &unused, &bounds, result);
            return mixed;
        }
    }
}

/// The dimensions that no result and no constraint depends on.
fn unused_dims(map: &IndexingMap) -> Vec<bool> {
    let mut unused = vec![true; map.dims.len()];
    let constraints = map.constraints.iter().map(|constraint| &constraint.term);
    for term in map.results.iter().chain(constraints) {
        term.for_each_var(&mut |var| {
            if let Some(slot) = unused.get_mut(var.0 as usize) {
                *slot = false;
            }
        });
    }
    unused
}

/// Raises the result's kinds to those found, for all values of the unused dimensions.
fn spread(found: &[Kind], to: &[i64], unused: &[bool], bounds: &[Interval], result: &mut [Kind]) {
    for (place, slot) in result.iter_mut().enumerate() {
        let (mut rest, mut stride, mut seen) = (place as i64, 1, 0);
        for (dim, &size) in to.iter().enumerate().rev() {
            let digit = match unused.get(dim) {
                Some(true) => bounds[dim].lower,
                _ => rest % size.max(1),
            };
            seen += digit * stride;
            rest /= size.max(1);
            stride *= size;
        }
        if let Some(&kind) = found.get(seen.max(0) as usize) {
            *slot = (*slot).max(kind);
        }
    }
}

/// Advances some of the variables to their next values; returns false if they wrap around.
fn step(point: &mut [i64], bounds: &[Interval], from: usize, to: usize) -> bool {
    for d in (from..to).rev() {
        if point[d] < bounds[d].upper {
            point[d] += 1;
            return true;
        }
        point[d] = bounds[d].lower;
    }
    false
}

/// The row-major number of the element as a linear function of the map's variables.
fn linear(map: &IndexingMap, dims: &[i64]) -> Option<(i64, Vec<i64>)> {
    if !map.constraints.is_empty() || map.results.len() != dims.len() {
        return None;
    }
    let mut coefficients = vec![0i64; map.variable_count()];
    let (mut constant, mut stride) = (0i64, 1i64);
    for (result, &size) in map.results.iter().zip(dims).rev() {
        let (terms, offset) = result.as_linear()?;
        constant = constant.checked_add(offset.checked_mul(stride)?)?;
        for (atom, coefficient) in terms {
            let slot = coefficients.get_mut(atom.as_var()?.0 as usize)?;
            *slot = slot.checked_add(coefficient.checked_mul(stride)?)?;
        }
        stride = stride.checked_mul(size)?;
    }
    Some((constant, coefficients))
}

fn flat(map: &IndexingMap, point: &[i64], dims: &[i64]) -> Option<i64> {
    let env = |var: Var| point.get(var.0 as usize).copied();
    for constraint in &map.constraints {
        if !constraint
            .interval
            .contains(constraint.term.eval(&env).ok()?)
        {
            return None;
        }
    }
    let mut pairs = map.results.iter().zip(dims);
    pairs.try_fold(0i64, |at, (term, size)| {
        let index = term.eval(&env).ok()?;
        (0..*size).contains(&index).then_some(at * size + index)
    })
}
