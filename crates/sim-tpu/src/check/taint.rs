//! Which results of a computation padding reaches.
//!
//! A block that reaches beyond the edge of its array has elements that mean nothing.
//! They may be computed with as long as only elements that nobody wants come of it. So
//! taint is followed element by element through the operations' indexing maps: an
//! element is tainted if one that it is computed from is. A selection depends on the
//! branch that its predicate chooses alone, which is how padding is masked. An operation
//! that reads several elements of an operand for one of its result (a reduction, a
//! contraction) must not mix tainted ones with others: that is the finding.

use smallvec::SmallVec;
use tegula_expr::{Interval, Var};
use tegula_indexing::{IndexingMap, Status, output_leaf_to_input};
use tegula_interp::Value;
use tegula_ir::{
    ArrayShape, Binary, ComputationId, ElementType, Instruction, InstructionId, Literal, Module,
    Op, Scalar, Shape,
};

/// The elements of an array that are tainted, row-major; `None`: no element is.
type Mask = Option<Vec<bool>>;

/// What padding reaches.
pub(crate) struct Taint {
    /// For each array of the result.
    pub(crate) outputs: Vec<Mask>,
    /// The operation that mixes padding with other elements, if one does.
    pub(crate) mixed: Option<String>,
}

/// Points of a map that are looked at one by one; beyond that all is tainted.
const MAX_POINTS: u128 = 1 << 24;
/// The same for maps that divide or are constrained.
const MAX_CHECKED_POINTS: u128 = 1 << 20;
/// How deep calls are followed.
const MAX_DEPTH: usize = 32;

/// Follows taint from the parameters of the entry computation to its result.
pub(crate) fn propagate(module: &Module, values: &[Literal], taints: &[Mask]) -> Taint {
    Following {
        module,
        values,
        mixed: None,
        depth: 0,
    }
    .run(taints)
}

struct Following<'m> {
    module: &'m Module,
    values: &'m [Literal],
    mixed: Option<String>,
    depth: usize,
}

impl Following<'_> {
    fn run(mut self, taints: &[Mask]) -> Taint {
        let module = self.module;
        let entry = module.entry_computation();
        let mut masks: rustc_hash::FxHashMap<InstructionId, Vec<Mask>> = Default::default();
        for &id in &entry.instructions {
            let instruction = &module[id];
            let operands: Vec<&[Mask]> = instruction
                .operands
                .iter()
                .map(|operand| masks.get(operand).map_or(&[][..], Vec::as_slice))
                .collect();
            let clean = operands.iter().all(|o| o.iter().all(Option::is_none));
            let result = match &instruction.op {
                Op::Parameter(number) => vec![taints.get(*number as usize).cloned().flatten()],
                Op::Tuple => operands.concat(),
                Op::GetTupleElement(index) => {
                    let at = usize::try_from(*index).unwrap_or(usize::MAX);
                    vec![operands.first().and_then(|o| o.get(at)).cloned().flatten()]
                }
                _ if clean => vec![None; instruction.shape.leaf_count()],
                Op::Fusion { calls, .. }
                | Op::Call {
                    to_apply: calls, ..
                } => self.called(*calls, instruction, &operands),
                _ => self.operation(id, instruction, &operands),
            };
            masks.insert(id, result);
        }
        Taint {
            outputs: masks.remove(&entry.root).unwrap_or_default(),
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
        operands: &[&[Mask]],
    ) -> Vec<Mask> {
        let values = instruction.operands.iter().map(|&id| self.value(id));
        let values: Option<Vec<Literal>> = values.collect();
        let (Some(values), true) = (values, self.depth < MAX_DEPTH) else {
            return all_tainted(instruction);
        };
        let mut module = self.module.clone();
        module.entry = computation;
        let firsts = operands.iter().map(|o| o.first().cloned().flatten());
        let inner = Following {
            module: &module,
            values: &values,
            mixed: None,
            depth: self.depth + 1,
        };
        let inner = inner.run(&firsts.collect::<Vec<Mask>>());
        self.mixed = self.mixed.take().or(inner.mixed);
        inner.outputs
    }

    fn operation(
        &mut self,
        id: InstructionId,
        instruction: &Instruction,
        operands: &[&[Mask]],
    ) -> Vec<Mask> {
        let first = |i: usize| operands.get(i).and_then(|o| o.first());
        let mask = |i: usize| first(i).and_then(Option::as_ref);
        let special = match &instruction.op {
            Op::Select => self.select(instruction, [mask(0), mask(1), mask(2)]),
            Op::Binary(op @ (Binary::And | Binary::Or)) if is_pred(&instruction.shape) => {
                self.decided(instruction, *op == Binary::Or, [mask(0), mask(1)])
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
            let mut result = vec![false; elements(shape)];
            for indexing in output_leaf_to_input(self.module, id, leaf) {
                let operand = operands.get(indexing.operand);
                let Some(Some(taint)) = operand.and_then(|o| o.get(indexing.leaf)) else {
                    continue;
                };
                let from = instruction.operands.get(indexing.operand);
                let from = from.and_then(|&from| dims_of(&self.module[from].shape));
                let name = || instruction.op.opcode().to_string();
                let (Ok(maps), Some(from), Some(to)) = (indexing.maps, from, dims_of(shape)) else {
                    result.fill(true);
                    self.mixed.get_or_insert_with(name);
                    continue;
                };
                for map in maps {
                    if follow(&map, &from, taint, &to, &mut result) {
                        self.mixed.get_or_insert_with(name);
                    }
                }
            }
            results.push(result.contains(&true).then_some(result));
        }
        results
    }

    /// Of a selection the branch counts that is chosen.
    fn select(&self, instruction: &Instruction, taints: [Option<&Vec<bool>>; 3]) -> Option<Mask> {
        let predicate = self.value(*instruction.operands.first()?)?;
        let elements = elements(&instruction.shape);
        let scalar = predicate.len() == 1 && elements != 1;
        let at = |mask: Option<&Vec<bool>>, i: usize| {
            mask.is_some_and(|mask| mask.get(i).copied().unwrap_or(false))
        };
        let element = |i: usize| {
            let p = if scalar { 0 } else { i };
            let chosen = match predicate.scalar(p) {
                Some(Scalar::Bool(false)) => taints[2],
                _ => taints[1],
            };
            at(taints[0], p) || at(chosen, i)
        };
        let mask: Vec<bool> = (0..elements).map(element).collect();
        Some(mask.contains(&true).then_some(mask))
    }

    /// A truth value that one side decides does not depend on the other.
    fn decided(
        &self,
        instruction: &Instruction,
        deciding: bool,
        taints: [Option<&Vec<bool>>; 2],
    ) -> Option<Mask> {
        let values = [
            self.value(*instruction.operands.first()?)?,
            self.value(*instruction.operands.get(1)?)?,
        ];
        let at = |side: usize, i: usize| {
            taints[side].is_some_and(|mask| mask.get(i).copied().unwrap_or(false))
        };
        let decides = |side: usize, i: usize| {
            !at(side, i) && values[side].scalar(i) == Some(Scalar::Bool(deciding))
        };
        let element = |i: usize| (at(0, i) || at(1, i)) && !decides(0, i) && !decides(1, i);
        let mask: Vec<bool> = (0..values[0].len()).map(element).collect();
        Some(mask.contains(&true).then_some(mask))
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

fn all_tainted(instruction: &Instruction) -> Vec<Mask> {
    let mut masks = Vec::new();
    let mut all = |leaf: &Shape| masks.push(Some(vec![true; elements(leaf)]));
    instruction.shape.for_each_leaf(&mut all);
    masks
}

/// Taints the results that a map leads to tainted elements; says whether one of them
/// reads others as well.
fn follow(
    map: &IndexingMap,
    from: &[i64],
    taint: &[bool],
    to: &[i64],
    result: &mut [bool],
) -> bool {
    if map.status == Status::Empty {
        return false;
    }
    let bounds = map.bounds();
    let mut counts = bounds.iter().map(Interval::count);
    let points = counts.try_fold(1u128, u128::checked_mul);
    let limit = match map.constraints.is_empty() {
        true => MAX_POINTS,
        false => MAX_CHECKED_POINTS,
    };
    // What a run-time value chooses may be any of it.
    if map.is_undefined() || points.is_none_or(|p| p > limit) || !map.runtime.is_empty() {
        result.fill(true);
        return false;
    }
    if points == Some(0) {
        return false;
    }
    let linear = linear(map, from);
    let own = map.dims.len();
    let mut point: SmallVec<[i64; 8]> = bounds.iter().map(|b| b.lower).collect();
    let mut mixed = false;
    loop {
        let (mut tainted, mut clean) = (false, false);
        loop {
            let at = match &linear {
                Some((constant, coefficients)) => {
                    let terms = coefficients.iter().zip(&point);
                    Some(constant + terms.map(|(c, v)| c * v).sum::<i64>())
                }
                None => flat(map, &point, from),
            };
            if let Some(read) = at.and_then(|at| taint.get(usize::try_from(at).ok()?)) {
                tainted |= read;
                clean |= !read;
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
        if let (true, Some(slot)) = (tainted, result.get_mut(place.max(0) as usize)) {
            *slot = true;
        }
        mixed |= tainted && clean;
        if !step(&mut point, &bounds, 0, own) {
            return mixed;
        }
    }
}

/// The next values of some of the variables; false if they begin anew.
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
