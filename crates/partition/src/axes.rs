//! Along which dimensions an operation can be cut, from its indexing maps.
//!
//! An axis joins dimensions of operands and results: if all of them are cut alike, each device
//! computes its part of the results by the same operation on its parts of the operands. That is so
//! where the map of each operand takes each part of the result's dimension to the same part of one
//! of the operand's dimensions, and to everything or nothing new along the others. A contracted axis
//! joins dimensions that the operation sums up: then each device gives a partial sum.
//!
//! Nothing is known of operations by name, but for those whose maps say less than they do: scatters,
//! collectives, and convolutions in groups.

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

/// What is computed along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisKind {
    /// Parts by themselves.
    Parallel,
    /// Parts of a sum, or of another reduction; their results are combined so.
    Contracted(Combination),
}

/// How the results of parts are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combination {
    /// By one operation, in any order.
    By(Binary),
    /// By the reduction's own computation, which picks one of two candidates, in order.
    Selection,
}

/// Dimensions that are cut alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) kind: AxisKind,
    /// By operand: the dimension.
    pub(crate) operands: SmallVec<[Option<usize>; 4]>,
    /// The dimension of the results, the same of all; none if it is contracted.
    pub(crate) result: Option<usize>,
}

type Maps = Rc<Vec<Vec<OperandIndexing>>>;
type Known = FxHashMap<(InstructionId, i64), Rc<Vec<Axis>>>;

/// The axes of a program's instructions, remembered.
pub(crate) struct AxisFinder<'m> {
    module: &'m Module,
    maps: RefCell<FxHashMap<InstructionId, Maps>>,
    /// By instruction and number of devices.
    known: RefCell<Known>,
}

/// How an operand is read by a part of a result's dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    /// The same part of this dimension.
    Part(usize),
    /// Nothing depends on the dimension.
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

    /// The axes of an instruction along which a cut into `parts` is possible.
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

    /// The factors of the rule that a custom call states; none if it states none.
    pub(crate) fn rule(&self, id: InstructionId) -> Vec<Factor> {
        let annotations = self.module[id].annotations.as_deref();
        let mut attributes = annotations
            .into_iter()
            .flat_map(|own| &own.frontend_attributes);
        let stated = attributes.find(|(name, _)| &**name == "xla.sdy.sharding_rule");
        let factors = stated.and_then(|(_, text)| rule::factors(&shardy::plain(text)));
        factors.unwrap_or_default()
    }

    /// For each array of the result, the maps to the operands.
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
            Op::Scatter { dims, .. } => return scatter_axes(dims, &operands),
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
        // By operand: how the results that read it do.
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
                // An array that no result reads has a shape that may have to fit.
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

    /// The axes that the operation sums up.
    fn contracted(&self, id: InstructionId, operands: &[Dims], parts: i64) -> Vec<Axis> {
        let sum = Some(Combination::By(Binary::Add));
        // A selection in order goes on from part to part along the outermost dimension alone.
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
            // Every operand that is not a single element takes part, each with as many elements.
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

    /// Whether partial sums of the result's type add up: not if floats become integers at the end.
    fn sums_parts(&self, id: InstructionId) -> bool {
        let instruction = &self.module[id];
        let is_integer = |shape: &Shape| {
            let array = shape.as_array();
            array.is_some_and(|array| array.element_type.is_integer())
        };
        let mut operands = instruction.operands.iter();
        !is_integer(&instruction.shape) || operands.all(|id| is_integer(&self.module[*id].shape))
    }

    /// Which elements of a dimension of an operand a part of a dimension of the result reads, if only
    /// those depend on it: the first one of part 0, the distance from part to part, and how many.
    /// Indices outside the operand stand for padding.
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

/// What the parts of a result's dimension read of a dimension of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The operand's dimension.
    pub(crate) dim: usize,
    /// The first index that part 0 reads.
    pub(crate) first: i64,
    /// From the first index of a part to that of the next.
    pub(crate) step: i64,
    /// How many indices.
    pub(crate) size: i64,
}

/// By dimension: the size, if it is known.
type Dims = SmallVec<[Option<i64>; 6]>;

/// The sizes of an array; [`None`] of what is none.
fn sizes(shape: &Shape) -> Option<Dims> {
    let array = shape.as_array()?;
    Some(array.dims.iter().map(tegula_ir::Dim::as_static).collect())
}

/// The term with variables that have one value replaced by it.
fn known_points(map: &IndexingMap, term: &Term) -> Term {
    let bounds = map.bounds();
    term.substitute(&mut |var| {
        let point = bounds.get(var.0 as usize)?.as_point()?;
        // A dimension of one element is still a dimension.
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
    // The dimension itself: parts may be uneven.
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

/// Whether the operation on parts of arrays is the same operation, as far as its maps say.
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

/// Whether a `bitcast` only gives dimensions other sizes: both arrays are in the default order.
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

/// Collectives that the program itself has: along all dimensions but the one that they change.
fn collective_axes(op: &Op, operands: &[Dims]) -> Vec<Axis> {
    let changed = match op {
        Op::AllGather { dimension, .. } | Op::ReduceScatter { dimension, .. } => Some(*dimension),
        Op::AllToAll { dimension, .. } => *dimension,
        _ => None,
    };
    let rank = operands.first().map_or(0, SmallVec::len);
    // Several arrays at once are cut in the same way only if they have the same rank.
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

/// The first dimensions of a custom call's arrays that it goes through one by one: as many as JAX
/// says in the frontend attribute `num_batch_dims`.
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

/// Dimensions of windows that are as large as the array's, and batching dimensions.
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
        // The dimensions of the indices without that of their components are those of the updates
        // without those of the window.
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

/// What a computation of two elements is, if it is one operation on them in order.
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
