//! The axes of operations: the dimensions along which an operation can be partitioned, from its
//! indexing maps.
//!
//! An axis joins dimensions of operands and results. If all of them are partitioned in the same
//! way, each device computes its part of the results by the same operation on its parts of the
//! operands. This requires that each operand's map takes a part of the result's dimension to the
//! same part of one operand dimension, and is unaffected by it along the others. A contracted axis
//! joins dimensions that the operation sums over; each device then computes a partial sum.
//!
//! No operation needs a rule of its own, except for those whose maps are too coarse: scatters,
//! collectives, and grouped convolutions.

use crate::read::rule::{self, Factor};
use crate::read::shardy;
use crate::selection::selection;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use tegula_expr::{Interval, Term, Var, range_of};
use tegula_indexing::{IndexingMap, OperandIndexing, output_leaf_to_input};
use tegula_ir::helpers::Dimensions;
use tegula_ir::{
    Binary, ComputationId, Instruction, InstructionId, Module, Op, ScatterDims, Shape,
};

/// How the parts along an axis are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisKind {
    /// Each part is computed separately.
    Parallel,
    /// Each part is a partial sum, or another partial reduction; the results are combined
    /// afterwards.
    Contracted(Combination),
}

/// How partial results are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combination {
    /// With a binary operation, in any order.
    By(Binary),
    /// With the reduction's own computation, which selects one of two candidates, in order.
    Selection,
}

/// Dimensions that must be partitioned in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) kind: AxisKind,
    /// The dimension of each operand, if any.
    pub(crate) operands: SmallVec<[Option<usize>; 4]>,
    /// The dimension of the results, the same in all; `None` for a contracted axis.
    pub(crate) result: Option<usize>,
}

type Maps = Rc<Vec<Vec<OperandIndexing>>>;
type Known = FxHashMap<(InstructionId, i64), Rc<Vec<Axis>>>;

/// Finds the axes of a program's instructions, and caches them.
pub(crate) struct AxisFinder<'m> {
    module: &'m Module,
    maps: RefCell<FxHashMap<InstructionId, Maps>>,
    /// The axes by instruction and number of parts.
    known: RefCell<Known>,
}

/// The elements of an operand that a part of a result's dimension reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    /// The same part of this dimension of the operand.
    Part(usize),
    /// Elements that do not depend on the result's dimension.
    Independent,
    Other,
}

impl<'m> AxisFinder<'m> {
    pub(crate) fn new(module: &'m Module) -> Self {
        Self {
            module,
            maps: RefCell::default(),
            known: RefCell::default(),
        }
    }

    /// The axes of an instruction along which it can be partitioned into `parts` parts.
    pub(crate) fn axes(&self, id: InstructionId, parts: i64) -> Rc<Vec<Axis>> {
        if let Some(known) = self.known.borrow().get(&(id, parts)) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.find(id, parts));
        self.known
            .borrow_mut()
            .insert((id, parts), Rc::clone(&found));
        found
    }

    /// The factors of the sharding rule that a custom call states; empty without a rule.
    pub(crate) fn rule(&self, id: InstructionId) -> Vec<Factor> {
        let annotations = self.module[id].annotations.as_deref();
        let mut attributes = annotations
            .into_iter()
            .flat_map(|own| &own.frontend_attributes);
        let stated = attributes.find(|(name, _)| &**name == "xla.sdy.sharding_rule");
        let factors = stated.and_then(|(_, text)| rule::factors(&shardy::plain(text)));
        factors.unwrap_or_default()
    }

    /// The maps from each result array to the operands.
    fn maps(&self, id: InstructionId) -> Maps {
        if let Some(known) = self.maps.borrow().get(&id) {
            return Rc::clone(known);
        }
        let leaves = self.module[id].shape.leaf_count();
        let maps = (0..leaves).map(|leaf| output_leaf_to_input(self.module, id, leaf));
        let maps: Maps = Rc::new(maps.collect());
        self.maps.borrow_mut().insert(id, Rc::clone(&maps));
        maps
    }

    fn find(&self, id: InstructionId, parts: i64) -> Vec<Axis> {
        let instruction = &self.module[id];
        let operand_shapes: Option<Vec<Dims>> = instruction
            .operands
            .iter()
            .map(|operand| sizes(&self.module[*operand].shape))
            .collect();
        let Some(operands) = operand_shapes else {
            return Vec::new();
        };
        match &instruction.op {
            Op::Scatter { dims, to_apply, .. } => {
                let mut axes = scatter_axes(dims, &operands);
                if let Some(op) = combination(self.module, *to_apply) {
                    axes.extend(update_axes(dims, &operands, op, parts));
                }
                return axes;
            }
            Op::CustomCall(_) => return batch_axes(instruction, &operands),
            op if is_collective(op) => return collective_axes(op, &operands),
            Op::Bitcast if is_reshape(self.module, id) => {}
            op if !is_local(op) => return Vec::new(),
            _ => {}
        }
        let mut results = Vec::new();
        let mut all_arrays = true;
        instruction
            .shape
            .for_each_leaf(&mut |leaf| match sizes(leaf) {
                Some(dims) => results.push(dims),
                None => all_arrays = false,
            });
        let Some(first) = results.first().filter(|_| all_arrays) else {
            return Vec::new();
        };
        let mut axes = Vec::new();
        for dim in 0..first.len() {
            axes.extend(self.parallel(id, dim, &results, &operands, parts));
        }
        axes.extend(self.contracted(id, &operands, parts));
        axes
    }

    /// The axis of a dimension of the results.
    fn parallel(
        &self,
        id: InstructionId,
        dim: usize,
        results: &[Dims],
        operands: &[Dims],
        parts: i64,
    ) -> Option<Axis> {
        let op = &self.module[id].op;
        let mut axis = Axis {
            kind: AxisKind::Parallel,
            operands: SmallVec::from_elem(None, operands.len()),
            result: Some(dim),
        };
        let maps = self.maps(id);
        // For each operand, how the results that read it depend on the dimension.
        let mut read: SmallVec<[Option<Link>; 4]> = SmallVec::from_elem(None, operands.len());
        for (leaf, dims) in results.iter().enumerate() {
            let size = (*dims.get(dim)?)?;
            for found in maps.get(leaf)? {
                let input = operands.get(found.operand)?;
                let own = read.get_mut(found.operand)?;
                for map in found.maps.as_ref().ok()? {
                    let next = link(map, dim, size, input, parts);
                    if next == Link::Other || own.is_some_and(|own| own != next) {
                        return None;
                    }
                    *own = Some(next);
                }
            }
        }
        for ((own, read), input) in axis.operands.iter_mut().zip(read).zip(operands) {
            match read {
                Some(Link::Part(part)) => *own = Some(part),
                Some(_) => {}
                // The shape of an operand that no result reads may still have to match.
                None if !input.is_empty() => return None,
                None => {}
            }
        }
        let makes_elements = matches!(op, Op::Broadcast(_) | Op::Iota(_));
        if axis.operands.iter().all(Option::is_none) && !makes_elements {
            return None;
        }
        if let Op::Convolution {
            dims,
            feature_group_count,
            batch_group_count,
            ..
        } = op
        {
            let is = |own: i64| usize::try_from(own) == Ok(dim);
            let grouped = *feature_group_count > 1 && is(dims.output_feature);
            let batched =
                *batch_group_count > 1 && (is(dims.output_feature) || is(dims.output_batch));
            if grouped || batched {
                return None;
            }
        }
        Some(axis)
    }

    /// The axes of the dimensions that the operation reduces.
    fn contracted(&self, id: InstructionId, operands: &[Dims], parts: i64) -> Vec<Axis> {
        let sum = Some(Combination::By(Binary::Add));
        // An ordered selection can be continued from part to part only along the outermost
        // dimension.
        let mut only = None;
        let combination = match &self.module[id].op {
            Op::Dot { .. } => sum,
            Op::Convolution {
                feature_group_count: 1,
                batch_group_count: 1,
                ..
            } => sum,
            Op::Reduce {
                to_apply,
                dimensions,
            } => {
                let known = combination(self.module, *to_apply).filter(|_| operands.len() == 2);
                let picks = || selection(self.module, *to_apply, operands.len() / 2);
                match known.map(Combination::By) {
                    None => picks().map(|picks| {
                        let outermost = dimensions.iter().min().filter(|_| !picks.commutes);
                        only = outermost.and_then(|dim| usize::try_from(*dim).ok());
                        Combination::Selection
                    }),
                    known => known,
                }
            }
            _ => None,
        };
        let Some(combination) = combination.filter(|_| self.sums_parts(id)) else {
            return Vec::new();
        };
        let maps = self.maps(id);
        let Some(maps) = maps.first() else {
            return Vec::new();
        };
        let ranges = maps
            .iter()
            .filter_map(|found| found.maps.as_ref().ok()?.first());
        let ranges = ranges.map(|map| map.ranges.len()).max().unwrap_or(0);
        let mut axes = Vec::new();
        for range in 0..ranges {
            let own = maps.iter().map(|found| {
                let [map] = found.maps.as_ref().ok()?.as_slice() else {
                    return Some((found.operand, None));
                };
                if range >= map.ranges.len() {
                    return Some((found.operand, None));
                }
                let var = Var(u32::try_from(map.dims.len() + range).ok()?);
                let mentioned = map.results.iter().filter(|term| term.mentions(var)).count();
                let dim = map
                    .results
                    .iter()
                    .position(|term| known_points(map, term).as_var() == Some(var));
                match (mentioned, dim) {
                    (1, Some(dim)) => Some((found.operand, Some(dim))),
                    _ => None,
                }
            });
            let own: Option<Vec<(usize, Option<usize>)>> = own.collect();
            let Some(own) = own else {
                continue;
            };
            let mut joined = SmallVec::from_elem(None, operands.len());
            for (operand, dim) in own {
                if let Some(slot) = joined.get_mut(operand) {
                    *slot = dim;
                }
            }
            // All operands except for single elements are joined, and their sizes must be equal.
            let sizes = joined
                .iter()
                .zip(operands)
                .map(|(dim, dims): (&Option<usize>, &Dims)| match dim {
                    Some(dim) => dims.get(*dim).copied().flatten(),
                    None if dims.is_empty() => Some(-1),
                    None => None,
                });
            let sizes: Option<Vec<i64>> = sizes.collect();
            let mut sizes = sizes.unwrap_or_default();
            sizes.retain(|size| *size >= 0);
            sizes.dedup();
            let in_order = only.is_none() || joined.first() == Some(&only);
            if sizes.len() == 1 && sizes.first().is_some_and(|size| *size >= parts) && in_order {
                axes.push(Axis {
                    kind: AxisKind::Contracted(combination),
                    operands: joined,
                    result: None,
                });
            }
        }
        axes
    }

    /// Whether partial sums in the result's type can be added; not if float sums are converted to
    /// integers at the end.
    fn sums_parts(&self, id: InstructionId) -> bool {
        let instruction = &self.module[id];
        let is_integer = |shape: &Shape| {
            let array = shape.as_array();
            array.is_some_and(|array| array.element_type.is_integer())
        };
        let mut operands = instruction.operands.iter();
        !is_integer(&instruction.shape) || operands.all(|id| is_integer(&self.module[*id].shape))
    }

    /// The window of an operand's dimension that each part of a result's dimension reads, if no
    /// other dimension of the operand depends on the result's dimension. Indices outside the
    /// operand stand for padding.
    pub(crate) fn window(
        &self,
        id: InstructionId,
        operand: usize,
        dim: usize,
        part: i64,
        parts: i64,
    ) -> Option<Window> {
        let maps = self.maps(id);
        let found = maps
            .first()?
            .iter()
            .find(|found| found.operand == operand)?;
        let [map] = found.maps.as_ref().ok()?.as_slice() else {
            return None;
        };
        let var = Var(u32::try_from(dim).ok()?);
        let terms: Vec<Term> = map
            .results
            .iter()
            .map(|term| known_points(map, term))
            .collect();
        let mut reading = terms
            .iter()
            .enumerate()
            .filter(|(_, term)| term.mentions(var));
        let (own, term) = reading.next()?;
        if reading.next().is_some() {
            return None;
        }
        let mut bounds = map.bounds();
        let mut at = |place: i64| {
            let first = place.checked_mul(part)?;
            *bounds.get_mut(dim)? = Interval::new(first, first + part - 1);
            Some(range_of(term, &bounds[..]))
        };
        let (first, second) = (at(0)?, at(1)?);
        let step = second.lower.checked_sub(first.lower)?;
        let size = first.upper.checked_sub(first.lower)? + 1;
        for place in 0..parts {
            let here = at(place)?;
            if here.lower != first.lower + step * place || here.upper != here.lower + size - 1 {
                return None;
            }
        }
        Some(Window {
            dim: own,
            first: first.lower,
            step,
            size,
        })
    }
}

/// The elements of an operand's dimension that the parts of a result's dimension read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The operand's dimension.
    pub(crate) dim: usize,
    /// The first index that part 0 reads; it may be outside of the operand.
    pub(crate) first: i64,
    /// The distance between the first indices of consecutive parts.
    pub(crate) step: i64,
    /// The number of indices that each part reads.
    pub(crate) size: i64,
}

/// The size of each dimension, if it is static.
type Dims = SmallVec<[Option<i64>; 6]>;

/// The sizes of an array; [`None`] for other shapes.
fn sizes(shape: &Shape) -> Option<Dims> {
    let array = shape.as_array()?;
    Some(array.dims.iter().map(tegula_ir::Dim::as_static).collect())
}

/// The term, with variables that have only one value replaced by the value.
fn known_points(map: &IndexingMap, term: &Term) -> Term {
    let bounds = map.bounds();
    term.substitute(&mut |var| {
        let point = bounds.get(var.0 as usize)?.as_point()?;
        // Dimensions stay variables, even with a single element.
        ((var.0 as usize) >= map.dims.len()).then(|| Term::constant(point))
    })
}

fn link(map: &IndexingMap, dim: usize, size: i64, input: &Dims, parts: i64) -> Link {
    let Ok(number) = u32::try_from(dim) else {
        return Link::Other;
    };
    let var = Var(number);
    let terms: Vec<Term> = map
        .results
        .iter()
        .map(|term| known_points(map, term))
        .collect();
    if !terms.iter().any(|term| term.mentions(var)) {
        let restricted = map
            .constraints
            .iter()
            .any(|constraint| constraint.term.mentions(var));
        return match restricted {
            true => Link::Other,
            false => Link::Independent,
        };
    }
    // The dimension itself is read, so parts may be uneven.
    let mut own = terms
        .iter()
        .enumerate()
        .filter(|(_, term)| term.mentions(var));
    if let (Some((at, term)), None) = (own.next(), own.next())
        && term.as_var() == Some(var)
        && input.get(at).copied().flatten() == Some(size)
        && map
            .constraints
            .iter()
            .all(|constraint| !constraint.term.mentions(var))
    {
        return Link::Part(at);
    }
    if parts <= 1 || size % parts != 0 || size == 0 {
        return Link::Other;
    }
    let mut found = None;
    let whole = map.bounds();
    let part = size / parts;
    for (at, term) in terms.iter().enumerate() {
        if !term.mentions(var) {
            continue;
        }
        let ranges: Option<Vec<Interval>> = (0..parts)
            .map(|place| {
                let mut bounds = whole.clone();
                *bounds.get_mut(dim)? = Interval::new(place * part, place * part + part - 1);
                Some(range_of(term, &bounds[..]))
            })
            .collect();
        let Some(ranges) = ranges else {
            return Link::Other;
        };
        let Some(input_size) = input.get(at).copied().flatten() else {
            return Link::Other;
        };
        if ranges
            .iter()
            .all(|range| *range == Interval::of_size(input_size))
        {
            continue;
        }
        let own = input_size / parts;
        let are_parts = input_size % parts == 0
            && ranges.iter().enumerate().all(|(place, range)| {
                let first = place as i64 * own;
                *range == Interval::new(first, first + own - 1)
            });
        if !are_parts || found.is_some() {
            return Link::Other;
        }
        found = Some(at);
    }
    let restricted = map
        .constraints
        .iter()
        .any(|constraint| constraint.term.mentions(var));
    match found {
        Some(at) if !restricted => Link::Part(at),
        _ => Link::Other,
    }
}

/// Whether the operation on parts of arrays is the same operation, as far as its maps tell.
fn is_local(op: &Op) -> bool {
    op.is_elementwise()
        || matches!(
            op,
            Op::BitcastConvert
                | Op::Map { .. }
                | Op::Copy
                | Op::Iota(_)
                | Op::Broadcast(_)
                | Op::Transpose(_)
                | Op::Reshape
                | Op::Reverse(_)
                | Op::Slice(_)
                | Op::Pad(_)
                | Op::Concatenate(_)
                | Op::DynamicSlice(_)
                | Op::DynamicUpdateSlice
                | Op::Gather { .. }
                | Op::Dot { .. }
                | Op::Convolution { .. }
                | Op::Reduce { .. }
                | Op::ReduceWindow { .. }
                | Op::SelectAndScatter { .. }
                | Op::Sort { .. }
                | Op::TopK { .. }
                | Op::Fft { .. }
                | Op::Cholesky { .. }
                | Op::TriangularSolve { .. }
                | Op::BatchNormInference { .. }
                | Op::BatchNormTraining { .. }
        )
}

/// Whether a `bitcast` is equivalent to a reshape: both arrays are in the default order.
pub(crate) fn is_reshape(module: &Module, id: InstructionId) -> bool {
    let instruction = &module[id];
    let plain = |shape: &Shape| {
        let array = shape.as_array()?;
        let layout = array.layout.as_deref();
        let ordered =
            layout.is_none_or(|layout| *layout == tegula_ir::Layout::row_major(array.rank()));
        ordered.then_some(array.element_type)
    };
    let operand = instruction
        .operands
        .first()
        .and_then(|operand| plain(&module[*operand].shape));
    operand.is_some() && operand == plain(&instruction.shape)
}

fn is_collective(op: &Op) -> bool {
    matches!(
        op,
        Op::AllGather { .. }
            | Op::AllReduce { .. }
            | Op::ReduceScatter { .. }
            | Op::AllToAll {
                dimension: Some(_),
                ..
            }
            | Op::CollectiveBroadcast(_)
            | Op::CollectivePermute { .. }
    )
}

/// The axes of collectives in the program itself: all dimensions but the one that they change.
fn collective_axes(op: &Op, operands: &[Dims]) -> Vec<Axis> {
    let changed = match op {
        Op::AllGather { dimension, .. } | Op::ReduceScatter { dimension, .. } => Some(*dimension),
        Op::AllToAll { dimension, .. } => *dimension,
        _ => None,
    };
    let rank = operands.first().map_or(0, SmallVec::len);
    // Several arrays can be partitioned in the same way only if they have the same rank.
    if operands.iter().any(|dims| dims.len() != rank) {
        return Vec::new();
    }
    let dims = (0..rank).filter(|dim| changed != i64::try_from(*dim).ok());
    let axis = |dim| Axis {
        kind: AxisKind::Parallel,
        operands: SmallVec::from_elem(Some(dim), operands.len()),
        result: Some(dim),
    };
    dims.map(axis).collect()
}

/// The axes of a custom call's batch dimensions: the first dimensions of its arrays, whose number
/// JAX states in the frontend attribute `num_batch_dims`.
fn batch_axes(instruction: &Instruction, operands: &[Dims]) -> Vec<Axis> {
    let annotations = instruction.annotations.as_deref();
    let stated = annotations.and_then(|annotations| {
        let mut attributes = annotations.frontend_attributes.iter();
        attributes.find(|(name, _)| &**name == "num_batch_dims")
    });
    let count = stated.and_then(|(_, text)| text.trim_matches('"').parse::<usize>().ok());
    let mut ranks = Vec::new();
    let mut all_arrays = true;
    instruction
        .shape
        .for_each_leaf(&mut |leaf| match sizes(leaf) {
            Some(dims) => ranks.push(dims.len()),
            None => all_arrays = false,
        });
    ranks.extend(operands.iter().map(SmallVec::len));
    let fits = |count: &usize| all_arrays && ranks.iter().all(|rank| rank >= count);
    let axis = |dim| Axis {
        kind: AxisKind::Parallel,
        operands: SmallVec::from_elem(Some(dim), operands.len()),
        result: Some(dim),
    };
    (0..count.filter(fits).unwrap_or(0)).map(axis).collect()
}

/// The axes of a scatter: window dimensions of the array's full size, and batching dimensions.
fn scatter_axes(dims: &ScatterDims, operands: &[Dims]) -> Vec<Axis> {
    let count = operands.len() / 2;
    let (Some(input), Some(indices), Some(updates)) = (
        operands.first(),
        operands.get(count),
        operands.get(count + 1),
    ) else {
        return Vec::new();
    };
    let is_in = |list: &[i64], dim: usize| list.iter().any(|own| usize::try_from(*own) == Ok(dim));
    let window: Dimensions = (0..input.len())
        .filter(|dim| {
            !is_in(&dims.inserted_window_dims, *dim) && !is_in(&dims.input_batching_dims, *dim)
        })
        .collect();
    let scattered: Dimensions = (0..updates.len())
        .filter(|dim| !is_in(&dims.update_window_dims, *dim))
        .collect();
    let axis = |input: usize, index: Option<usize>, update: usize| {
        let mut joined = SmallVec::from_elem(None, operands.len());
        for (number, own) in joined.iter_mut().enumerate() {
            *own = match number {
                number if number < count => Some(input),
                number if number == count => index,
                _ => Some(update),
            };
        }
        Axis {
            kind: AxisKind::Parallel,
            operands: joined,
            result: Some(input),
        }
    };
    let mut axes = Vec::new();
    for (place, dim) in window.iter().enumerate() {
        let update = dims
            .update_window_dims
            .get(place)
            .and_then(|dim| usize::try_from(*dim).ok());
        if let Some(update) = update
            && input.get(*dim) == updates.get(update)
            && !is_in(&dims.scatter_dims_to_operand_dims, *dim)
        {
            axes.push(axis(*dim, None, update));
        }
    }
    let pairs = dims
        .input_batching_dims
        .iter()
        .zip(&dims.scatter_indices_batching_dims);
    for (dim, index) in pairs {
        let (Ok(dim), Ok(index)) = (usize::try_from(*dim), usize::try_from(*index)) else {
            continue;
        };
        // The dimensions of the indices, without the index vector's, correspond to the dimensions
        // of the updates without the window's.
        let vector = usize::try_from(dims.index_vector_dim).unwrap_or(usize::MAX);
        let place = if index > vector { index - 1 } else { index };
        if let Some(update) = scattered.get(place)
            && index < indices.len()
        {
            axes.push(axis(dim, Some(index), *update));
        }
    }
    axes
}

/// The axes of a scatter's update dimensions that are neither window nor batching dimensions. If
/// such an axis is cut, each device scatters some of the updates, and the results are combined.
fn update_axes(dims: &ScatterDims, operands: &[Dims], op: Binary, parts: i64) -> Vec<Axis> {
    let [_, indices, updates] = operands else {
        return Vec::new();
    };
    let vector = usize::try_from(dims.index_vector_dim).unwrap_or(usize::MAX);
    let index_dims = (0..indices.len()).filter(|dim| *dim != vector);
    let update_dims = (0..updates.len()).filter(|&dim| {
        let dim = i64::try_from(dim).unwrap_or(i64::MAX);
        !dims.update_window_dims.contains(&dim)
    });
    let pairs = index_dims.zip(update_dims).filter(|(index, update)| {
        let is_batch = dims
            .scatter_indices_batching_dims
            .iter()
            .any(|own| usize::try_from(*own) == Ok(*index));
        let size = updates.get(*update).copied().flatten();
        !is_batch && size.is_some_and(|size| size >= parts)
    });
    let axis = |(index, update)| Axis {
        kind: AxisKind::Contracted(Combination::By(op)),
        operands: SmallVec::from_slice(&[None, Some(index), Some(update)]),
        result: None,
    };
    pairs.map(axis).collect()
}

/// The binary operation that a computation applies to its two parameters in order, if it consists
/// of one.
pub(crate) fn combination(module: &Module, id: ComputationId) -> Option<Binary> {
    let computation = &module[id];
    let &[a, b] = computation.parameters.as_slice() else {
        return None;
    };
    let root = &module[computation.root];
    let Op::Binary(op) = root.op else {
        return None;
    };
    let commutes = matches!(
        op,
        Binary::Add
            | Binary::Multiply
            | Binary::Maximum
            | Binary::Minimum
            | Binary::And
            | Binary::Or
            | Binary::Xor
    );
    let operands = root.operands.as_slice();
    let in_order = operands == [a, b] || operands == [b, a];
    (commutes && in_order && root.shape == module[a].shape).then_some(op)
}
