//! Steps that are done strip by strip ([`Step::Strips`](tegula_layout::plan::Step)), so that
//! what one writes is near when the next reads it.
//!
//! Threads share the strips out among them; each goes through its own with memory of its own
//! for one strip of the plan's private arrays, of which the plan's places are thus not used.
//! A kernel does the points of the strip, and is told that a private array begins so far
//! before the strip's memory that its elements lie in that. A call is made for arrays of a
//! strip.
//!
//! Where that does not go (more threads than strips, points that code does together across
//! the border of strips), each step is done whole, in the places that the plan has.

use crate::call::Call;
use crate::dot::Distances;
use crate::execute::Run;
use crate::jit::{KernelCode, parts_of, points_together};
use crate::kept::Kept;
use crate::kernels::Isa;
use crate::pool::Pool;
use crate::product::share;
use crate::schedule::Location;
use crate::work::Work;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tegula_fusion::{Label, LibraryOp};
use tegula_ir::{ALIGNMENT, ArrayShape, Dim};
use tegula_layout::plan::{BufferId, Cut, Part, Place, Plan, Step, ValueId};

/// Steps done strip by strip.
#[derive(Debug)]
pub(crate) struct Strips {
    count: usize,
    /// Into how many parts strips are shared out: each has its own memory.
    parts: usize,
    pub(crate) steps: Vec<Strip>,
    /// Bytes of a strip of the private arrays.
    private: usize,
    /// Bytes that a part has: those, and what calls need.
    memory: usize,
    /// Bytes of what all parts share: operands that were packed.
    shared: usize,
}

/// A step's strips.
#[derive(Debug)]
pub(crate) struct Strip {
    pub(crate) name: String,
    what: What,
    arrays: Vec<Array>,
    /// Of all strips.
    pub(crate) work: Work,
}

#[derive(Debug)]
enum What {
    Kernel {
        kernel: usize,
        /// Outermost points of a strip.
        points: i64,
    },
    Call {
        call: Call,
        /// Its last arrays.
        results: usize,
        packed: Option<Packed>,
    },
}

/// An operand that a product packs and all strips read: packed once, before them.
#[derive(Debug)]
struct Packed {
    /// Which operand.
    operand: usize,
    at: PackedAt,
}

#[derive(Clone, Copy, Debug)]
enum PackedAt {
    /// So far from the start of what all parts share: by each run.
    Shared(usize),
    /// By the first run.
    Kept(Location),
}

/// Where a strip's elements of an array are.
#[derive(Debug)]
enum Array {
    /// In memory that all strips are in. By dimension that is cut, outermost first, how many
    /// parts it has, and how many bytes each is after the one before. (A kernel counts from
    /// where the first strip's are.)
    There {
        first: Location,
        distances: SmallVec<[(usize, usize); 2]>,
    },
    /// In the part's own memory from here on: so many bytes.
    Private { begin: usize, bytes: usize },
}

/// What a plan's steps are resolved with.
pub(crate) struct Resolver<'a> {
    pub plan: &'a Plan,
    pub isa: Isa,
    pub threads: usize,
    /// The values that only strips have to do with.
    pub private: &'a FxHashSet<ValueId>,
    /// Where the values of the steps lie that are not private.
    pub locations: FxHashMap<ValueId, Location>,
    pub kept: &'a mut Kept,
}

impl Resolver<'_> {
    /// Steps as strips, and the values that lie in strips' own memory; `None` if each step is
    /// better done whole.
    pub(crate) fn strips(mut self, count: i64, steps: &[Step]) -> Option<(Strips, Vec<ValueId>)> {
        let cuts = tegula_layout::plan::cuts(self.plan, count, steps)?;
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
            parts: self.threads,
            memory: private + aligned(scratch.unwrap_or(0)),
            private,
            shared,
            steps: strips,
        };
        Some((strips, values))
    }

    /// Finds places for what products pack of operands that all strips read. Gives how many
    /// bytes parts have in common.
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

    /// Where strips of the private buffers of steps lie, and how many bytes they take: as in
    /// the arena, at a fraction of the distances.
    fn private_memory(&self, count: i64, steps: &[Step]) -> Option<(Vec<Own>, usize)> {
        let plan = self.plan;
        let mut buffers: Vec<(i64, i64, BufferId)> = Vec::new();
        for value in steps.iter().flat_map(Step::values) {
            let buffer = plan.values[value].buffer;
            if let (true, Place::Arena(offset)) =
                (self.private.contains(&value), &plan.buffers[buffer].place)
            {
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
            // Rounding, and a start that is not aligned, bring no two together.
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
                let code = &self.plan.kernels[*kernel];
                if points % points_together(code) != 0 {
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
                    work: Work::of_kernel(code, self.bytes(args)),
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
                        call,
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

    /// The call of one strip, and how far the strips of each array are apart.
    fn call(
        &self,
        op: &LibraryOp,
        (operands, results): (&[ValueId], &[ValueId]),
        cut: &Cut,
        count: i64,
    ) -> Option<(Call, Distances)> {
        let shape = |v: &ValueId| &self.plan.values[*v].shape;
        let values = operands.iter().chain(results);
        // What all strips read is packed once.
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

    /// The bytes of values together.
    fn bytes(&self, values: &[ValueId]) -> i64 {
        let size = |v: &ValueId| self.plan.values[*v].shape.byte_size().unwrap_or(0);
        values.iter().map(size).sum()
    }
}

/// A private buffer's strip in a part's memory.
struct Own {
    buffer: BufferId,
    begin: usize,
    bytes: usize,
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

impl Strips {
    /// Bytes of memory that a run needs for it.
    pub(crate) fn bytes(&self) -> usize {
        self.shared + self.parts * self.memory
    }

    /// Bytes of that for arrays.
    pub(crate) fn private_bytes(&self) -> usize {
        self.parts * self.private
    }

    /// Every place that is named.
    pub(crate) fn each_location(&mut self, visit: &mut dyn FnMut(&mut Location)) {
        for strip in &mut self.steps {
            for array in &mut strip.arrays {
                if let Array::There { first, .. } = array {
                    visit(first);
                }
            }
            if let What::Call {
                packed: Some(packed),
                ..
            } = &mut strip.what
                && let PackedAt::Kept(place) = &mut packed.at
            {
                visit(place);
            }
        }
    }

    /// Does all strips. Gives what each step took of the time if it is `timed`.
    ///
    /// # Safety
    /// As for the steps one by one; `memory` has [`Self::bytes`], aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        run: &Run<'_>,
        memory: *mut u8,
        (pool, serial): (&Pool, &Pool),
        timed: bool,
    ) -> Vec<Duration> {
        let mut times = vec![Duration::ZERO; self.steps.len()];
        let mut ready: SmallVec<[Ready<'_>; 4]> = SmallVec::with_capacity(self.steps.len());
        for (strip, time) in self.steps.iter().zip(&mut times) {
            let start = timed.then(Instant::now);
            // SAFETY: the caller's promise.
            ready.push(unsafe { strip.ready(run, memory) });
            *time = start.map_or(Duration::ZERO, |start| start.elapsed());
        }
        let shared = Shared {
            steps: &ready,
            memory: memory.wrapping_add(self.shared),
        };
        let all = Mutex::new(times);
        pool.run(self.parts, &|part| {
            let shared = &shared;
            let memory = shared.memory.wrapping_add(part * self.memory);
            let mut times: SmallVec<[Duration; 8]> = smallvec![Duration::ZERO; self.steps.len()];
            for number in share(self.count, self.parts, part) {
                for (ready, time) in shared.steps.iter().zip(&mut times) {
                    let start = timed.then(Instant::now);
                    // SAFETY: the caller's promise; each part has its own memory.
                    unsafe { ready.run(number, (memory, self.private), serial) };
                    *time += start.map_or(Duration::ZERO, |start| start.elapsed());
                }
            }
            if timed {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                for (all, own) in all.iter_mut().zip(times) {
                    *all += own / self.parts as u32;
                }
            }
        });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses of a step's arrays.
type Addresses = SmallVec<[*mut u8; 8]>;

/// A step with the addresses of a run.
struct Ready<'a> {
    strip: &'a Strip,
    /// Where arrays begin that are not private.
    bases: Addresses,
    /// Of a kernel.
    code: Option<&'a KernelCode>,
    /// Of a kernel the values of the plan's symbols, of a call what was packed.
    last: *mut u8,
}

/// What the threads of a run share.
struct Shared<'a> {
    steps: &'a [Ready<'a>],
    memory: *mut u8,
}

// SAFETY: addresses are only read; of what they lead to, a thread writes what is its strips'
// alone, as the plan's verifier has checked.
unsafe impl Sync for Shared<'_> {}

impl Strip {
    fn call(&self) -> Option<(&Call, Option<&Packed>)> {
        match &self.what {
            What::Call { call, packed, .. } => Some((call, packed.as_ref())),
            What::Kernel { .. } => None,
        }
    }

    /// What strips need that all of them have in common.
    ///
    /// # Safety
    /// As [`Strips::run`].
    unsafe fn ready<'a>(&'a self, run: &'a Run<'_>, memory: *mut u8) -> Ready<'a> {
        let base = |array: &Array| match array {
            Array::There { first, .. } => run.address(*first),
            Array::Private { .. } => std::ptr::null_mut(),
        };
        let bases: Addresses = self.arrays.iter().map(base).collect();
        let (code, last) = match &self.what {
            What::Kernel { kernel, .. } => (Some(run.code(*kernel)), run.sizes()),
            What::Call { packed: None, .. } => (None, std::ptr::null_mut()),
            What::Call {
                call,
                packed: Some(packed),
                ..
            } => match packed.at {
                PackedAt::Kept(place) => (None, run.address(place)),
                PackedAt::Shared(begin) => {
                    let target = memory.wrapping_add(begin);
                    // SAFETY: the operand is one that the call is given, and not private, as
                    // all strips read it; the memory is what the call has asked for.
                    unsafe { call.keep(bases[packed.operand], target) };
                    (None, target)
                }
            },
        };
        Ready {
            strip: self,
            bases,
            code,
            last,
        }
    }
}

impl Ready<'_> {
    /// Does a strip, by number, with memory of its own and so many bytes of that for arrays.
    ///
    /// # Safety
    /// As [`Strips::run`].
    unsafe fn run(&self, number: usize, (memory, private): (*mut u8, usize), serial: &Pool) {
        let address = |(base, array): (&*mut u8, &Array)| match *array {
            Array::There { ref distances, .. } => {
                let (mut address, mut rest) = (*base, number);
                for &(count, distance) in distances.iter().rev() {
                    address = address.wrapping_add(rest % count * distance);
                    rest /= count;
                }
                address
            }
            Array::Private { begin, bytes } => {
                let before = number * bytes;
                // So that the first strip's memory would be aligned.
                let strip = memory.wrapping_add(begin + before % ALIGNMENT);
                match self.code {
                    Some(_) => strip.wrapping_sub(before),
                    None => strip,
                }
            }
        };
        let arrays = self.bases.iter().zip(&self.strip.arrays);
        let mut addresses: Addresses = arrays.map(address).collect();
        match (&self.strip.what, self.code) {
            (What::Kernel { points, .. }, Some(code)) => {
                addresses.push(self.last);
                let begin = number as i64 * points;
                parts_of(code, [begin, begin + points], |function, [begin, end]| {
                    // SAFETY: the caller's promise; the points of a kernel are independent.
                    unsafe { function(addresses.as_ptr(), begin, end) };
                });
            }
            (What::Call { call, results, .. }, _) => {
                let (operands, results) = addresses.split_at(addresses.len() - results);
                let operands = operands.iter().map(|address| address.cast_const());
                let operands: SmallVec<[*const u8; 4]> = operands.collect();
                let (kept, scratch) = (self.last.cast_const(), memory.wrapping_add(private));
                // SAFETY: the caller's promise.
                let ran = unsafe { call.run(&operands, results, (None, kept), scratch, serial) };
                debug_assert!(ran.is_ok(), "products do not fail");
            }
            (What::Kernel { .. }, None) => {}
        }
    }
}
