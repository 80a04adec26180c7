//! Prepares strip-mined steps for execution: addresses, and library calls set up for one strip.

use super::ir::Location;
use super::ir::{Array, Packed, PackedAt, Strip, Strips, What};
use super::run_invariants::Kept;
use crate::analysis::cost::Work;
use crate::library::call::Call;
use crate::library::dot::Distances;
use crate::transform::pipeline::Regrouping;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tegula_fusion::{Label, LibraryOp};
use tegula_ir::{ALIGNMENT, ArrayShape, Dim};
use tegula_plan::{BufferId, Cut, Part, Place, Plan, Step, ValueId, cuts};
use tegula_target::CpuFeatures;

/// The context for resolving a plan's steps.
pub(crate) struct Resolver<'a> {
    pub plan: &'a Plan,
    /// For each kernel, the points and elements that its code handles together.
    pub regroupings: &'a [Regrouping],
    pub isa: CpuFeatures,
    pub threads: usize,
    /// The values that only strips access.
    pub private: &'a FxHashSet<ValueId>,
    /// The locations of the steps' values that are not private.
    pub locations: FxHashMap<ValueId, Location>,
    pub kept: &'a mut Kept,
}

impl Resolver<'_> {
    /// Steps as strips, and the values that are in the strips' own memory; `None` if it is better
    /// to execute each step whole.
    pub(crate) fn strips(mut self, count: i64, steps: &[Step]) -> Option<(Strips, Vec<ValueId>)> {
        let cuts = cuts(self.plan, count, steps)?;
        let number = usize::try_from(count).ok()?;
        if self.threads > number {
            return None;
        }
        let (own, private) = self.private_memory(count, steps)?;
        let strip = |(step, cut): (&Step, &Cut)| self.strip(step, cut, count, &own);
        let strips: Option<Vec<Strip>> = steps.iter().zip(&cuts).map(strip).collect();
        let mut strips = strips?;
        let shared = self.place_packed(steps, &mut strips)?;
        let scratch = strips.iter().filter_map(Strip::call);
        let scratch = scratch.map(|(call, _)| call.scratch_bytes(1)).max();
        let lies_there = |value: &ValueId| {
            let buffer = self.plan.values[*value].buffer;
            self.private.contains(value) && own.iter().any(|own| own.buffer == buffer)
        };
        let values = steps.iter().flat_map(Step::values).filter(lies_there);
        let values = values.collect();
        let strips = Strips {
            count: number,
            at_once: self.threads,
            memory: private + aligned(scratch.unwrap_or(0)),
            private,
            shared,
            steps: strips,
        };
        Some((strips, values))
    }

    /// Assigns memory to the packed forms of operands that all strips read. Returns the bytes that
    /// they need.
    fn place_packed(&mut self, steps: &[Step], strips: &mut [Strip]) -> Option<usize> {
        let mut shared = 0;
        for (step, strip) in steps.iter().zip(strips) {
            let (What::Call { call, packed, .. }, Step::Library { operands, .. }) =
                (&mut strip.what, step)
            else {
                continue;
            };
            let Some((operand, bytes)) = call.kept_bytes() else {
                continue;
            };
            let fixed = self.kept.fixed_operand(self.plan, operands);
            let at = match fixed == Some(operand) {
                true => {
                    let source = *self.locations.get(operands.get(operand)?)?;
                    PackedAt::Kept(self.kept.packed(call, source)?)
                }
                false => {
                    shared += aligned(bytes);
                    PackedAt::Shared(shared - aligned(bytes))
                }
            };
            *packed = Some(Packed { operand, at });
        }
        Some(shared)
    }

    /// The places of the steps' private buffers in a strip's memory, and its size: the arena's
    /// layout with all offsets divided by the number of strips.
    fn private_memory(&self, count: i64, steps: &[Step]) -> Option<(Vec<Own>, usize)> {
        let plan = self.plan;
        let wholes = read_as_wholes(plan, self.regroupings, steps);
        let mut buffers: Vec<(i64, i64, BufferId)> = Vec::new();
        for value in steps.iter().flat_map(Step::values) {
            let buffer = plan.values[value].buffer;
            let is_own = self.private.contains(&value) && !wholes.contains(&buffer);
            if let (true, Place::Arena(offset)) = (is_own, &plan.buffers[buffer].place) {
                let bytes = plan.buffers[buffer].bytes.as_constant()?;
                buffers.push((offset.as_constant()?, bytes, buffer));
            }
        }
        buffers.sort_unstable();
        buffers.dedup();
        let base = buffers.first().map_or(0, |&(offset, ..)| offset);
        let mut end = 0;
        let mut own = Vec::with_capacity(buffers.len());
        for (rank, &(offset, bytes, buffer)) in buffers.iter().enumerate() {
            let bytes = usize::try_from(bytes / count).ok()?;
            let begin = usize::try_from((offset - base) / count).ok()?;
            // The padding ensures that buffers do not overlap because of rounding or unaligned
            // starts, and that strided elements that are loaded a vector at a time (up to 60 bytes
            // past the last of them) end before the next buffer begins.
            let begin = aligned(begin) + rank * 2 * ALIGNMENT;
            own.push(Own {
                buffer,
                begin,
                bytes,
            });
            end = end.max(begin + bytes + ALIGNMENT);
        }
        Some((own, aligned(end)))
    }

    fn strip(&self, step: &Step, cut: &Cut, count: i64, own: &[Own]) -> Option<Strip> {
        match step {
            Step::Kernel { kernel, args } => {
                let points = cut.extents.first()? / count;
                let regrouping = self.regroupings.get(kernel.as_u32() as usize)?;
                if points % regrouping.granularity != 0 {
                    return None;
                }
                let arrays = args
                    .iter()
                    .map(|&value| self.array(value, SmallVec::new(), own));
                Some(Strip {
                    name: kernel.to_string(),
                    what: What::Kernel {
                        kernel: kernel.as_u32() as usize,
                        points,
                    },
                    arrays: arrays.collect::<Option<_>>()?,
                    work: Work::of_kernel(self.plan, *kernel, args),
                })
            }
            Step::Library {
                op,
                operands,
                results,
            } => {
                let all: Vec<ValueId> = operands.iter().chain(results).copied().collect();
                let (call, distances) = self.call(op, (operands, results), cut, count)?;
                let counts = cut.counts(count)?;
                let arrays = all.iter().enumerate().map(|(place, &value)| {
                    let by_dimension = counts.iter().zip(&distances);
                    let distances = by_dimension.map(|(&count, of)| (count as usize, of[place]));
                    self.array(value, distances.collect(), own)
                });
                let bytes = self.bytes(&all);
                let mut work = Work::of_call(&call, 0);
                work.operations *= count as f64;
                work.bytes = bytes as f64;
                Some(Strip {
                    name: call.name(op),
                    what: What::Call {
                        call: Box::new(call),
                        results: results.len(),
                        packed: None,
                    },
                    arrays: arrays.collect::<Option<_>>()?,
                    work,
                })
            }
            _ => None,
        }
    }

    /// The library call for one strip, and the distances between the strips of each array.
    fn call(
        &self,
        op: &LibraryOp,
        (operands, results): (&[ValueId], &[ValueId]),
        cut: &Cut,
        count: i64,
    ) -> Option<(Call, Distances)> {
        let shape = |v: &ValueId| &self.plan.values[*v].shape;
        let values = operands.iter().chain(results);
        // An operand that all strips read is packed once.
        let whole = cut.parts[..operands.len()]
            .iter()
            .position(|p| *p == Part::Any);
        if let LibraryOp::Dot(contraction) = op {
            let shapes: Vec<&ArrayShape> = values.map(shape).collect();
            let (out, inputs) = shapes.split_last()?;
            let counts = cut.counts(count)?.into_iter().map(|count| count as usize);
            let cut: Vec<(Label, usize)> = cut.labels.iter().copied().zip(counts).collect();
            return Call::strip_of_dot(self.isa, inputs, out, contraction, &cut, whole);
        }
        let mut distances = SmallVec::new();
        let mut shapes = Vec::new();
        for (value, part) in values.zip(&cut.parts) {
            let mut shape = shape(value).clone();
            distances.push(match part {
                Part::Share => usize::try_from(shape.byte_size()? / count).ok()?,
                _ => 0,
            });
            if *part == Part::Share {
                let outermost = shape.dims.iter_mut().find(|d| d.as_static() != Some(1))?;
                *outermost = Dim::Static(outermost.as_static()? / count);
            }
            shapes.push(shape);
        }
        let shapes: Vec<&ArrayShape> = shapes.iter().collect();
        let (inputs, outputs) = shapes.split_at(operands.len());
        let call = Call::new(self.isa, op, inputs, outputs, whole).ok()?;
        Some((call, std::iter::once(distances).collect()))
    }

    fn array(
        &self,
        value: ValueId,
        distances: SmallVec<[(usize, usize); 2]>,
        own: &[Own],
    ) -> Option<Array> {
        let buffer = self.plan.values[value].buffer;
        match own.iter().find(|own| own.buffer == buffer) {
            Some(own) => Some(Array::Private {
                begin: own.begin,
                bytes: own.bytes,
            }),
            None => Some(Array::There {
                first: *self.locations.get(&value)?,
                distances,
            }),
        }
    }

    /// The total bytes of values.
    fn bytes(&self, values: &[ValueId]) -> i64 {
        let size = |v: &ValueId| self.plan.values[*v].shape.byte_size().unwrap_or(0);
        values.iter().map(size).sum()
    }
}

/// The buffers of small arrays that a kernel's code may read whole, whatever points it computes:
/// all strips of them exist.
fn read_as_wholes(plan: &Plan, regroupings: &[Regrouping], steps: &[Step]) -> FxHashSet<BufferId> {
    let mut wholes = FxHashSet::default();
    for step in steps {
        let Step::Kernel { kernel, args } = step else {
            continue;
        };
        let Some(regrouping) = regroupings.get(kernel.as_u32() as usize) else {
            continue;
        };
        let read = args.iter().zip(&regrouping.reads_whole);
        let read = read.filter(|&(_, &whole)| whole);
        wholes.extend(read.map(|(&arg, _)| plan.values[arg].buffer));
    }
    wholes
}

/// The place of a private buffer in a strip's memory.
struct Own {
    buffer: BufferId,
    begin: usize,
    bytes: usize,
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}
