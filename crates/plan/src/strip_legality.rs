//! Legality of strip mining: which steps can be done together part by part.
//!
//! Suppose that a product writes rows that a kernel reads and another product reads after that.
//! Done one step after the other, all the rows go to memory and come back. Done strip by strip
//! ([`Step::Strips`]), a number of rows at a time, they stay in the cache, and an array that only
//! these steps use needs only enough memory for one strip.
//!
//! A step is *cut* along a dimension: a kernel along the outermost one of its domain, a dot along
//! one of its labels (or point by point along a batch label, and along another one), a convolution
//! along its batch. A cut *shares out* an array if strip `s` of `n` accesses only the `s`-th of `n`
//! equal parts of the array's memory.
//!
//! # Why strips do the same as whole steps
//! The strips of one step write different elements, and read nothing that other strips of that step
//! write. If several steps use an array and one of them writes it, each step's strip accesses only
//! its own share, which is the same share for all of them. So a strip reads what the strip of the
//! same number has written before. Different arrays in the same memory are either all shared out or
//! not allowed; buffer assignment ensures this.

use super::{KernelId, Place, Plan, Step, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};
use tegula_expr::{Term, Var, canonicalize, range_of};
use tegula_fusion::kernel::{Access, Block, IndexVar, Statement};
use tegula_fusion::{Contraction, Kernel, KernelRanges, Label, LibraryOp};
use tegula_ir::{ArrayShape, Op};

/// How a step is cut into strips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The sizes of the dimensions that are cut, outermost first. All except the last one are cut
    /// point by point.
    pub extents: SmallVec<[i64; 2]>,
    /// For a dot, the labels of these dimensions.
    pub labels: SmallVec<[Label; 2]>,
    /// What a strip accesses of each array: of a kernel's arguments, or of a call's operands and
    /// then its results.
    pub parts: SmallVec<[Part; 8]>,
}

impl Cut {
    /// The number of equal parts that each dimension is cut into for this number of strips; `None`
    /// if it does not divide evenly.
    pub fn counts(&self, strips: i64) -> Option<SmallVec<[i64; 2]>> {
        let (&last, outer) = self.extents.split_last()?;
        let points = product(outer);
        let divides = |divisor: i64, number: i64| divisor > 0 && number % divisor == 0;
        let mut counts: SmallVec<[i64; 2]> = outer.into();
        (strips > 0 && divides(points, strips)).then(|| counts.push(strips / points))?;
        divides(strips / points, last).then_some(counts)
    }
}

/// The product of sizes, saturating: the sizes of an array without elements may be large.
pub(super) fn product(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1, |n: i64, &size| n.saturating_mul(size))
}

/// The part of an array that a strip accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A share of the memory: the array is divided among the strips.
    Share,
    /// A part whose position depends on the strip's number. If it is written, no other strip writes
    /// these elements.
    Elsewhere,
    /// Possibly the whole array.
    Any,
}

impl Part {
    /// The part of an array with these dimensions, outermost first, some of which are cut.
    fn of(dims: &[Label], cut: &[Label]) -> Self {
        match dims.starts_with(cut) {
            true => Self::Share,
            false if dims.iter().any(|label| cut.contains(label)) => Self::Elsewhere,
            false => Self::Any,
        }
    }
}

/// The arrays that a kernel or a call is given, in the order of [`Cut::parts`], and whether each is
/// written; none for other steps.
pub(super) fn arrays(plan: &Plan, step: &Step) -> SmallVec<[(ValueId, bool); 8]> {
    match step {
        Step::Kernel { kernel, args } => {
            let params = plan.kernels[*kernel].params.iter();
            let pairs = params.zip(args);
            pairs
                .map(|(p, &arg)| (arg, p.access != Access::Read))
                .collect()
        }
        Step::Library {
            operands, results, ..
        } => {
            let read = operands.iter().map(|&v| (v, false));
            read.chain(results.iter().map(|&v| (v, true))).collect()
        }
        _ => SmallVec::new(),
    }
}

/// Finds and caches the ways to cut steps.
#[derive(Default)]
pub(super) struct Cuts {
    /// The way to cut each kernel, if there is one.
    kernels: FxHashMap<KernelId, Option<Cut>>,
}

impl Cuts {
    /// How to cut each of several steps so that their strips can be done together, using only cuts
    /// for which `wanted` holds; `None` if that is not possible.
    pub(super) fn together(
        &mut self,
        plan: &Plan,
        steps: &[Step],
        wanted: &dyn Fn(&Cut) -> bool,
    ) -> Option<Vec<Cut>> {
        // Whether more than one step uses an array, and one of them writes it.
        let mut joint: FxHashMap<ValueId, (usize, bool)> = FxHashMap::default();
        for (number, step) in steps.iter().enumerate() {
            for (value, writes) in arrays(plan, step) {
                let (last, written) = joint.entry(value).or_insert((number, false));
                *written |= writes;
                if *last != number {
                    *last = usize::MAX;
                }
            }
        }
        let joint = |value: &ValueId| joint.get(value) == Some(&(usize::MAX, true));
        let cut = |step: &Step| {
            let arrays = arrays(plan, step);
            let suits = |cut: &Cut| {
                let mut pairs = arrays.iter().zip(&cut.parts);
                wanted(cut) && pairs.all(|((v, _), &part)| part == Part::Share || !joint(v))
            };
            self.of(plan, step).into_iter().find(suits)
        };
        steps.iter().map(cut).collect()
    }

    /// The ways to cut a step. Cuts along one dimension come first, and among them the one along
    /// the outermost dimension of the result.
    pub(super) fn of(&mut self, plan: &Plan, step: &Step) -> SmallVec<[Cut; 4]> {
        match step {
            Step::Kernel { kernel, .. } => {
                let known = self.kernels.entry(*kernel);
                let cut = known.or_insert_with(|| kernel_cut(&plan.kernels[*kernel]));
                cut.iter().cloned().collect()
            }
            Step::Library {
                op,
                operands,
                results,
            } => {
                let shape = |v: &ValueId| &plan.values[*v].shape;
                let operands: SmallVec<[&ArrayShape; 4]> = operands.iter().map(shape).collect();
                let results: SmallVec<[&ArrayShape; 2]> = results.iter().map(shape).collect();
                match (op, &operands[..], &results[..]) {
                    (LibraryOp::Dot(contraction), &[lhs, rhs, ref added @ ..], &[_]) => {
                        dot_cuts(contraction, [lhs, rhs], added.len())
                    }
                    (LibraryOp::Operation(op), &[input, _], &[output]) => {
                        convolution_cut(op, input, output).into_iter().collect()
                    }
                    _ => SmallVec::new(),
                }
            }
            _ => SmallVec::new(),
        }
    }
}

/// The cut of a kernel, along the outermost dimension of its domain.
fn kernel_cut(kernel: &Kernel) -> Option<Cut> {
    let outermost = *kernel.domain.first()?;
    let Some(IndexVar::Domain(extent)) = kernel.var(outermost) else {
        return None;
    };
    let extent = extent.as_constant().filter(|&extent| extent > 1)?;
    let mut parts: SmallVec<[Part; 8]> = smallvec![Part::Share; kernel.given()];
    let strides: Vec<Option<i64>> = (kernel.params.iter())
        .map(|param| {
            let mut dims = param.dims.iter().map(Term::as_constant);
            let elements = dims.try_fold(1i64, |n, dim| n.checked_mul(dim?))?;
            (elements % extent == 0).then_some(elements / extent)
        })
        .collect();
    let ranges = KernelRanges(&kernel.vars);
    each_access(&kernel.body, &mut |param, index| {
        let Some(part) = parts.get_mut(param).filter(|part| **part == Part::Share) else {
            return;
        };
        let stays = strides[param].is_some_and(|stride| {
            let before = kernel.params[param].elements_before(index);
            stays_in_share(&before, outermost, stride, &ranges)
        });
        if !stays {
            *part = Part::Any;
        }
    });
    Some(Cut {
        extents: smallvec![extent],
        labels: SmallVec::new(),
        parts,
    })
}

/// Whether an element with linear index `before` is in the share with the number of the outermost
/// point, if shares have `stride` elements.
fn stays_in_share(before: &Term, outermost: Var, stride: i64, ranges: &KernelRanges<'_>) -> bool {
    let first = Term::var(outermost).mul(&Term::constant(stride));
    let rest = canonicalize(&before.sub(&first), ranges);
    let range = range_of(&rest, ranges);
    range.lower >= 0 && range.upper < stride
}

fn each_access<'k>(block: &'k Block, visit: &mut dyn FnMut(usize, &'k [Term])) {
    for statement in &block.statements {
        match statement {
            Statement::Load { param, index, .. } | Statement::Store { param, index, .. } => {
                visit(*param, index);
            }
            Statement::Loop { body, .. } => each_access(body, visit),
            Statement::If {
                then, otherwise, ..
            } => {
                each_access(then, visit);
                each_access(otherwise, visit);
            }
            Statement::Compute { .. } | Statement::Bind { .. } => {}
        }
    }
}

/// The cuts of a dot: along a dimension of the result that is, among those with several elements,
/// the outermost one of the result or of an operand. If that is a batch dimension, also point by
/// point along it and along the next dimension.
fn dot_cuts(
    contraction: &Contraction,
    [lhs, rhs]: [&ArrayShape; 2],
    added: usize,
) -> SmallVec<[Cut; 4]> {
    let mut cuts: SmallVec<[Cut; 4]> = SmallVec::new();
    let Some(sizes) = contraction.sizes(lhs, rhs) else {
        return cuts;
    };
    let size = |label: Label| sizes.get(label as usize).map_or(0, |&size| size as i64);
    let several = |labels: &mut dyn Iterator<Item = &Label>| -> SmallVec<[Label; 6]> {
        labels.copied().filter(|&label| size(label) != 1).collect()
    };
    let left = several(&mut contraction.lhs.iter().flatten());
    let right = several(&mut contraction.rhs.iter().flatten());
    let result = several(&mut contraction.out.iter());
    let is_batch = |label: &Label| left.contains(label) && right.contains(label);
    for levels in 1..=2 {
        for dims in [&result, &left, &right] {
            let Some(labels) = dims.get(..levels) else {
                continue;
            };
            let suits = |label: &Label| size(*label) > 1 && result.contains(label);
            let known = cuts.iter().any(|cut| cut.labels[..] == *labels);
            let (_, outer) = labels.split_last().unwrap_or((&0, &[]));
            if known || !labels.iter().all(suits) || !outer.iter().all(is_batch) {
                continue;
            }
            let mut parts: SmallVec<[Part; 8]> =
                smallvec![Part::of(&left, labels), Part::of(&right, labels)];
            parts.extend((0..=added).map(|_| Part::of(&result, labels)));
            cuts.push(Cut {
                extents: labels.iter().map(|&label| size(label)).collect(),
                labels: labels.into(),
                parts,
            });
        }
    }
    cuts
}

/// The cut of a convolution along its batch, if that is outermost in the input and the output.
fn convolution_cut(op: &Op, input: &ArrayShape, output: &ArrayShape) -> Option<Cut> {
    let Op::Convolution {
        dims,
        batch_group_count: 1,
        ..
    } = op
    else {
        return None;
    };
    let outermost = |shape: &ArrayShape, batch: i64| {
        let dims = shape.static_dims()?;
        let place = dims.iter().position(|&size| size != 1)?;
        (usize::try_from(batch) == Ok(place)).then_some(dims[place])
    };
    let extent = outermost(input, dims.input_batch)?;
    let same = outermost(output, dims.output_batch)? == extent;
    (same && extent > 1).then(|| Cut {
        extents: smallvec![extent],
        labels: SmallVec::new(),
        parts: smallvec![Part::Share, Part::Any, Part::Share],
    })
}

/// The values that several steps of one [`Step::Strips`] use and no others. Only one strip of them
/// has to be in memory at a time.
pub fn private_values(plan: &Plan) -> FxHashSet<ValueId> {
    let touches = touches(plan);
    let mut all = FxHashSet::default();
    each_strips(&plan.steps, &mut |steps| {
        all.extend(private(plan, steps, &touches));
    });
    all
}

/// How many steps use each value; the program's caller counts as one.
pub(super) fn touches(plan: &Plan) -> FxHashMap<ValueId, usize> {
    let mut touches = FxHashMap::default();
    count(plan, &plan.steps, &mut touches);
    for &value in plan.parameters.iter().chain(&plan.results) {
        *touches.entry(value).or_default() += 1;
    }
    touches
}

fn count(plan: &Plan, steps: &[Step], touches: &mut FxHashMap<ValueId, usize>) {
    for step in steps {
        let mut own: SmallVec<[ValueId; 8]> = match step {
            Step::Copy { from, to } => smallvec![*from, *to],
            Step::While { predicate, .. } => smallvec![*predicate],
            Step::Conditional { selector, .. } => smallvec![*selector],
            _ => arrays(plan, step).iter().map(|&(value, _)| value).collect(),
        };
        own.sort_unstable();
        own.dedup();
        for value in own {
            *touches.entry(value).or_default() += 1;
        }
        for block in step.blocks() {
            count(plan, block, touches);
        }
    }
}

/// Those values used by several of these steps, and hence shared out, that no other steps use.
pub(super) fn private(
    plan: &Plan,
    steps: &[Step],
    touches: &FxHashMap<ValueId, usize>,
) -> Vec<ValueId> {
    let mut own = FxHashMap::default();
    count(plan, steps, &mut own);
    let constant = |value: ValueId| {
        matches!(
            plan.buffers[plan.values[value].buffer].place,
            Place::Constant(_)
        )
    };
    let private = own
        .into_iter()
        .filter(|(value, n)| *n > 1 && touches.get(value) == Some(n));
    let mut private: Vec<ValueId> = private.map(|(value, _)| value).collect();
    private.retain(|&value| !constant(value));
    private.sort_unstable();
    private
}

fn each_strips<'s>(steps: &'s [Step], visit: &mut dyn FnMut(&'s [Step])) {
    for step in steps {
        if let Step::Strips { steps, .. } = step {
            visit(steps);
        }
        for block in step.blocks() {
            each_strips(block, visit);
        }
    }
}

/// How the steps of a [`Step::Strips`] are cut into `count` strips; `None` if they cannot be.
pub fn cuts(plan: &Plan, count: i64, steps: &[Step]) -> Option<Vec<Cut>> {
    Cuts::default().together(plan, steps, &|cut| cut.counts(count).is_some())
}

/// The range of bytes of an array that a strip accesses.
pub fn part_of(bytes: i64, count: i64, strip: i64) -> std::ops::Range<i64> {
    let part = bytes / count;
    strip * part..(strip + 1) * part
}
