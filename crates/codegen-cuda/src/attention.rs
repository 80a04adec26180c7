//! Finds attention in a plan: a dot, a kernel (the softmax) and a second dot in one list
//! of steps, where each result is read only by the next of the three.
//!
//! One fused function replaces all three at the position of the second dot, so its
//! inputs must still be intact there: no step from the first dot on may write to memory
//! that holds queries, keys or the kernel's other inputs. If the result shares memory
//! with an input, it is written to scratch memory and then copied.

use crate::error::Error;
use crate::library::attention::{Fused, Steps, function};
use rustc_hash::FxHashMap;
use tegula_expr::Term;
use tegula_fusion::kernel::Access;
use tegula_fusion::{Contraction, LibraryOp};
use tegula_plan::{Place, Plan, Step, ValueId};

/// How many steps and results read each value.
pub(crate) type Readers = FxHashMap<ValueId, usize>;

/// Counts the readers of a plan's values.
pub(crate) fn readers(plan: &Plan) -> Readers {
    let mut readers = Readers::default();
    for &value in &plan.results {
        *readers.entry(value).or_default() += 1;
    }
    note_readers(plan, &plan.steps, &mut readers);
    readers
}

fn note_readers(plan: &Plan, steps: &[Step], readers: &mut Readers) {
    for step in steps {
        let mut note = |value: ValueId| *readers.entry(value).or_default() += 1;
        match step {
            Step::Kernel { kernel, args } => {
                let params = plan.kernels[*kernel].params.iter();
                let read = params.zip(args).filter(|(p, _)| p.access != Access::Write);
                read.for_each(|(_, &value)| note(value));
            }
            Step::Library { operands, .. } => operands.iter().copied().for_each(note),
            Step::Copy { from, .. } => note(*from),
            Step::While { predicate, .. } => note(*predicate),
            Step::Conditional { selector, .. } => note(*selector),
            Step::Strips { .. } => {}
        }
        for block in step.blocks() {
            note_readers(plan, block, readers);
        }
    }
}

/// One occurrence of attention in a list of steps.
pub(crate) struct Found {
    /// Indices of its three steps in the list.
    pub steps: [usize; 3],
    pub fused: Fused,
    /// Arguments of the fused function.
    pub arguments: Vec<ValueId>,
}

/// The contraction, operands and result of a step that is a dot without an added
/// operand.
fn dot(step: &Step) -> Option<(&Contraction, [ValueId; 2], ValueId)> {
    match step {
        Step::Library {
            op: LibraryOp::Dot(contraction),
            operands,
            results,
        } => match (&operands[..], &results[..]) {
            (&[lhs, rhs], &[out]) => Some((contraction, [lhs, rhs], out)),
            _ => None,
        },
        _ => None,
    }
}

/// Finds all attention in a list of steps; the fused functions' names begin with `name`.
///
/// # Errors
/// A type that cannot be converted, which is a bug in Tegula.
pub(crate) fn find(
    plan: &Plan,
    steps: &[Step],
    readers: &Readers,
    name: &str,
) -> Result<Vec<Found>, Error> {
    let mut all = Vec::new();
    for (second, step) in steps.iter().enumerate() {
        let Some((weighed, factors, out)) = dot(step) else {
            continue;
        };
        for first in [true, false] {
            let [weights, values] = match first {
                true => factors,
                false => [factors[1], factors[0]],
            };
            let end = End {
                second,
                weighed,
                first,
                weights,
                values,
                out,
            };
            let found = end.found(plan, steps, readers, name)?;
            let one = found.is_some();
            all.extend(found);
            if one {
                break;
            }
        }
    }
    Ok(all)
}

/// A dot that may be the second dot of attention.
struct End<'a> {
    second: usize,
    weighed: &'a Contraction,
    first: bool,
    weights: ValueId,
    values: ValueId,
    out: ValueId,
}

impl End<'_> {
    fn found(
        &self,
        plan: &Plan,
        steps: &[Step],
        readers: &Readers,
        name: &str,
    ) -> Result<Option<Found>, Error> {
        let only = |value: ValueId| readers.get(&value) == Some(&1);
        // The last step before `before` that writes this value, provided the value has
        // only one reader.
        let writer = |value: ValueId, before: usize| {
            let steps = steps.iter().take(before).enumerate().rev();
            let mut writers = steps.filter(|(_, step)| {
                let mut writes = false;
                written(plan, step, &mut |own| writes |= own == value);
                writes
            });
            writers.next().filter(|_| only(value))
        };
        let Some((middle, Step::Kernel { kernel, args })) = writer(self.weights, self.second)
        else {
            return Ok(None);
        };
        let kernel = &plan.kernels[*kernel];
        for (read, &scores) in args.iter().enumerate() {
            if scores == self.weights {
                continue;
            }
            let Some((start, step)) = writer(scores, middle) else {
                continue;
            };
            let Some((scored, factors, _)) = dot(step) else {
                continue;
            };
            let others = args.iter().copied();
            let others = others.filter(|&value| value != scores && value != self.weights);
            let others: Vec<ValueId> = others.collect();
            // Whether a step may write to memory that the fused function reads.
            let meets = |number: usize, step: &Step| {
                let read = others.iter().filter(|_| number >= middle).chain(&factors);
                let mut meets = false;
                written(plan, step, &mut |value| {
                    meets |= read.clone().any(|&other| overlap(plan, value, other));
                });
                meets
            };
            let between = steps.iter().enumerate().take(self.second).skip(start + 1);
            let mut between = between.filter(|&(number, _)| number != middle);
            if between.any(|(number, step)| meets(number, step)) {
                continue;
            }
            let aside = steps
                .get(self.second)
                .is_some_and(|step| meets(self.second, step));
            let shape = |value: ValueId| &plan.values[value].shape;
            let written = args.iter().position(|&value| value == self.weights);
            let fused = function(
                name,
                &Steps {
                    scored,
                    factors: factors.map(shape),
                    scores: shape(scores),
                    kernel,
                    read,
                    written: written.unwrap_or(read),
                    weighed: self.weighed,
                    first: self.first,
                    weights: shape(self.weights),
                    values: shape(self.values),
                    out: shape(self.out),
                    aside,
                    symbols: &plan.symbols,
                },
            )?;
            let Some(fused) = fused else { continue };
            let [queries, keys] = match fused.left_is_queries {
                true => factors,
                false => [factors[1], factors[0]],
            };
            let mut arguments = vec![queries, keys, self.values, self.out];
            arguments.extend(others);
            return Ok(Some(Found {
                steps: [start, middle, self.second],
                fused,
                arguments,
            }));
        }
        Ok(None)
    }
}

/// Names all values that a step writes.
fn written(plan: &Plan, step: &Step, note: &mut dyn FnMut(ValueId)) {
    match step {
        Step::Kernel { kernel, args } => {
            let params = plan.kernels[*kernel].params.iter();
            let written = params.zip(args).filter(|(p, _)| p.access != Access::Read);
            written.for_each(|(_, &value)| note(value));
        }
        Step::Library { results, .. } => results.iter().copied().for_each(note),
        Step::Copy { to, .. } => note(*to),
        Step::While { .. } | Step::Conditional { .. } | Step::Strips { .. } => {
            for step in step.blocks().into_iter().flatten() {
                written(plan, step, note);
            }
        }
    }
}

/// Whether two values may share memory.
pub(crate) fn overlap(plan: &Plan, a: ValueId, b: ValueId) -> bool {
    if plan.same_place(a, b) {
        return true;
    }
    let [a, b] = [a, b].map(|value| &plan.buffers[plan.values[value].buffer]);
    match (&a.place, &b.place) {
        (Place::Arena(from), Place::Arena(other)) => {
            let known = [from, &a.bytes, other, &b.bytes].map(Term::as_constant);
            let [Some(from), Some(bytes), Some(other), Some(others)] = known else {
                return true;
            };
            from < other.saturating_add(others) && other < from.saturating_add(bytes)
        }
        (one, other) => one == other,
    }
}
