//! Running a compiled plan.
//!
//! # Safety of what follows
//! Generated code accesses memory through raw pointers. It stays inside its
//! arrays because a plan's kernels index within their parameters' dimensions (the
//! Plan evaluator checks that on the same plans), inputs are checked against the
//! plan's shapes before each run, outputs are allocated to them, and the arena is
//! as large as the plan says, which the Plan verifier has checked at the sizes of
//! the run.

use crate::call::CallFailure;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::jit::{Code, Cpu, KernelCode, Listing, compile_kernels, parts_of};
use crate::kept::{Kept, Memories};
use crate::kernels::Isa;
use crate::nests::Nest;
use crate::pool::Pool;
use crate::schedule::{Action, Area, Location, Resolved, resolve, scratch_bytes};
use crate::streaming::StreamLimits;
use crate::strips::Strips;
use crate::turns::{Turn, are_steps};
use crate::views::Index;
use crate::work::Work;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::{AlignedBytes, ArrayShape, ElementType, Literal, Spare};
use tegula_layout::plan::{PerSizes, Plan, verify};

/// How to compile for the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which instructions may be used.
    pub cpu: Cpu,
    /// How many threads a run may use, at least 1.
    pub threads: usize,
    /// When large arrays are stored past the caches.
    pub streaming: StreamLimits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpu: Cpu::Native,
            threads: 1,
            streaming: StreamLimits::MEASURED,
        }
    }
}

/// A compiled plan. It may be run by several threads at once.
pub struct Executable {
    plan: Plan,
    code: Code,
    isa: Isa,
    pool: Arc<Pool>,
    /// No threads, for calls by one of the pool's.
    serial: Arc<Pool>,
    /// The plan at the sizes of runs so far. A plan without open sizes is there from the
    /// start.
    prepared: PerSizes<Prepared>,
    /// By flattened parameter: whether every run is given the same.
    frozen: Vec<bool>,
    /// Arenas of finished runs.
    arenas: Mutex<Vec<AlignedBytes>>,
    /// Scratch memory of library calls, of finished runs.
    scratch: Mutex<Vec<AlignedBytes>>,
    /// Memory of results that were dropped.
    dropped: Arc<Spare>,
}

/// A plan at the sizes of a run: nothing is left to compute but data.
struct Prepared {
    /// The values of the plan's symbols.
    sizes: Vec<i64>,
    actions: Vec<Action>,
    /// What only the first run computes.
    kept: Memories,
    /// How many memories are found through the table of exchanged ones.
    exchanged: usize,
    arena_bytes: i64,
    /// Of library calls and strips, for as many threads as there are.
    scratch_bytes: i64,
    /// Of that, what arrays take.
    private_bytes: i64,
    results: Vec<ArrayShape>,
    /// Of all results.
    result_bytes: usize,
}

/// The largest arena that is allocated, in bytes: 64 GiB.
const MAX_ARENA: i64 = 1 << 36;
/// How many arenas, and how many scratch memories, are kept between runs.
const MAX_POOLED: usize = 8;
/// The results of how many runs may lie in the memory that is kept for further ones: the caller
/// of a run often has those of the run before.
const RUNS_KEPT: usize = 2;

/// The text of a plan's code.
///
/// # Errors
/// As [`Executable::new`].
pub fn listing(plan: &Plan, options: &Options, what: Listing) -> Result<String, Error> {
    let mut actions = match plan.has_open_sizes() {
        true => Vec::new(),
        false => {
            let kept = Kept::new(plan, &[], true);
            resolve(plan, Isa::new(options.cpu), options.threads, kept)?.actions
        }
    };
    compile_kernels(plan, &mut actions, options, Some(what)).map(|(_, text)| text)
}

impl Executable {
    /// Compiles a plan.
    ///
    /// # Errors
    /// An operation that the element type lacks or that cannot be compiled yet, a
    /// CPU that this machine is not, or a plan that breaks its invariants.
    pub fn new(plan: Plan, options: &Options) -> Result<Self, Error> {
        verify(&plan).map_err(|errors| Error::Bug(errors.join("; ")))?;
        let (isa, pool) = (Isa::new(options.cpu), Pool::shared(options.threads));
        let mut fixed = match plan.has_open_sizes() {
            true => None,
            false => Some(Prepared::new(&plan, Vec::new(), &[], (isa, &pool))?),
        };
        let actions = fixed
            .as_mut()
            .map_or(&mut [][..], |fixed| &mut fixed.actions);
        let (code, _) = compile_kernels(&plan, actions, options, None)?;
        let prepared = PerSizes::default();
        if let Some(fixed) = fixed {
            prepared.get(Vec::new(), |_| Ok::<_, Error>(fixed))?;
        }
        Ok(Self {
            frozen: vec![false; plan.parameters.len()],
            plan,
            code,
            isa,
            pool,
            serial: Pool::shared(1),
            prepared,
            arenas: Mutex::new(Vec::new()),
            scratch: Mutex::new(Vec::new()),
            dropped: Arc::default(),
        })
    }

    /// What was compiled.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Says that runs from now on are given the same array for a parameter, until this is
    /// said again: what depends only on such arrays, and on constants, is computed by the
    /// first run. Nothing happens if there is no such parameter.
    pub fn freeze(&mut self, parameter: usize) {
        if let Some(frozen) = self.frozen.get_mut(parameter) {
            *frozen = true;
        }
        // What was kept is of another array, perhaps.
        self.prepared = PerSizes::default();
    }

    /// Runs on flattened inputs, giving flattened results. The memory of an input
    /// that is given away may become that of a result.
    ///
    /// # Errors
    /// Inputs of another number or shape than the program's, sizes that do not go
    /// together, too little memory, or a custom call whose handler fails.
    pub fn run(&self, inputs: Vec<Cow<'_, Literal>>) -> Result<Vec<Literal>, Error> {
        self.run_with(inputs, None)
    }

    fn run_with(
        &self,
        mut inputs: Vec<Cow<'_, Literal>>,
        profile: Option<&RefCell<Vec<KernelTime>>>,
    ) -> Result<Vec<Literal>, Error> {
        let shapes: Vec<&ArrayShape> = inputs.iter().map(|l| l.shape()).collect();
        let prepared = self.prepare(&shapes)?;
        let kept = self.kept(&prepared, &inputs)?;
        let mut outputs = self.outputs(&prepared, &mut inputs)?;
        let mut arena = taken(&self.arenas, prepared.arena_bytes)?;
        let mut scratch = taken(&self.scratch, prepared.scratch_bytes)?;
        let run = Run {
            executable: self,
            sizes: &prepared.sizes,
            arena: arena.as_mut_slice().as_mut_ptr(),
            scratch: scratch.as_mut_slice().as_mut_ptr(),
            inputs: inputs.iter().map(|l| l.bytes().as_ptr()).collect(),
            outputs: outputs.iter_mut().map(Literal::bytes_mut_ptr).collect(),
            kept,
            exchanged: vec![Cell::new(std::ptr::null_mut()); prepared.exchanged],
            profile,
        };
        let ran = run.actions(&prepared.actions);
        give_back(&self.arenas, arena);
        give_back(&self.scratch, scratch);
        ran.map_err(|failure| Error::CustomCall(*failure))?;
        Ok(outputs)
    }

    /// The memory of a run's results: that of inputs which were given away for them, else of
    /// results that were dropped, or fresh.
    fn outputs(
        &self,
        prepared: &Prepared,
        inputs: &mut [Cow<'_, Literal>],
    ) -> Result<Vec<Literal>, Error> {
        self.dropped.keep_up_to(RUNS_KEPT * prepared.result_bytes);
        let mut outputs = Vec::with_capacity(prepared.results.len());
        for (number, shape) in prepared.results.iter().enumerate() {
            let bytes = shape.byte_size().unwrap_or(i64::MAX);
            let alias = self.plan.aliases.iter().find(|a| a.output == number);
            let given = alias.and_then(|a| inputs.get_mut(a.parameter));
            if let Some(Cow::Owned(literal)) = given {
                // What is left is never read: the parameter lies in the result's memory. The
                // verifier has checked that the sizes are equal.
                let taken = std::mem::take(literal).reinterpret(shape);
                outputs.push(taken.unwrap_or_default());
                continue;
            }
            // SAFETY: the plan writes every element of a result, which its verifier has
            // checked, or it is a copy of an input; a run that fails gives no results.
            let fresh = unsafe { Literal::unwritten(shape, &self.dropped) };
            let mut fresh = fresh.map_err(|_| Error::OutOfMemory(bytes))?;
            if let Some(input) = given {
                let (from, to) = (input.bytes(), fresh.bytes_mut_ptr());
                // SAFETY: the verifier has checked that the sizes are equal.
                unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
            }
            outputs.push(fresh);
        }
        Ok(outputs)
    }

    /// Where what is kept lies, computed now if no run has. Nothing writes there after that.
    fn kept(
        &self,
        prepared: &Prepared,
        inputs: &[Cow<'_, Literal>],
    ) -> Result<Vec<*mut u8>, Error> {
        let kept = prepared.kept.get(Error::OutOfMemory, |actions, kept| {
            let _span = tracing::info_span!("keep", steps = actions.len()).entered();
            let bytes = scratch_bytes(actions, self.pool.threads());
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let mut scratch = taken(&self.scratch, bytes)?;
            let run = Run {
                executable: self,
                sizes: &prepared.sizes,
                // Kept steps read inputs and constants, and write what is kept.
                arena: std::ptr::null_mut(),
                outputs: Vec::new(),
                exchanged: Vec::new(),
                scratch: scratch.as_mut_slice().as_mut_ptr(),
                inputs: inputs.iter().map(|l| l.bytes().as_ptr()).collect(),
                kept,
                profile: None,
            };
            let ran = run.actions(actions);
            give_back(&self.scratch, scratch);
            ran.map_err(|failure| Error::CustomCall(*failure))
        })?;
        let addresses = kept.iter().map(|m| m.as_slice().as_ptr().cast_mut());
        Ok(addresses.collect())
    }

    /// The plan at the sizes of these inputs.
    fn prepare(&self, inputs: &[&ArrayShape]) -> Result<Arc<Prepared>, Error> {
        self.plan.check_inputs(inputs)?;
        let sizes = match self.plan.has_open_sizes() {
            true => self.plan.bind(inputs).map_err(Error::Sizes)?,
            false => Vec::new(),
        };
        self.prepared.get(sizes, |sizes| {
            let plan = self.plan.at(sizes).map_err(Error::Sizes)?;
            verify(&plan).map_err(|errors| Error::Bug(errors.join("; ")))?;
            Prepared::new(&plan, sizes.to_vec(), &self.frozen, (self.isa, &self.pool))
        })
    }

    /// Runs once and measures each kernel and library call, in the order in which
    /// they first ran.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn profile(&self, inputs: &[&Literal]) -> Result<Vec<KernelTime>, Error> {
        let profile = RefCell::new(Vec::new());
        let inputs = inputs.iter().map(|&input| Cow::Borrowed(input)).collect();
        self.run_with(inputs, Some(&profile))?;
        Ok(profile.into_inner())
    }

    /// Bytes that a run on inputs of these shapes takes beyond them: the arena, the
    /// results, and what is kept from run to run.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn peak_bytes(&self, inputs: &[&ArrayShape]) -> Result<i64, Error> {
        let prepared = self.prepare(inputs)?;
        let results = i64::try_from(prepared.result_bytes).unwrap_or(i64::MAX);
        let arrays = prepared.arena_bytes + prepared.private_bytes;
        Ok(arrays + results + prepared.kept.bytes())
    }
}

impl Prepared {
    fn new(
        plan: &Plan,
        sizes: Vec<i64>,
        frozen: &[bool],
        (isa, pool): (Isa, &Pool),
    ) -> Result<Self, Error> {
        let arena_bytes = plan.arena_bytes.as_constant();
        let arena_bytes =
            arena_bytes.ok_or_else(|| Error::Bug("the arena has no size".to_owned()))?;
        let results = plan.results.iter().map(|&r| plan.values[r].shape.clone());
        let results: Vec<ArrayShape> = results.collect();
        let bytes = |shape: &ArrayShape| usize::try_from(shape.byte_size()?).ok();
        let kept = Kept::new(plan, frozen, sizes.is_empty());
        let Resolved {
            mut actions,
            exchanged,
            kept,
            private,
            private_bytes,
        } = resolve(plan, isa, pool.threads(), kept)?;
        let arena_bytes = kept.arena_bytes(plan, arena_bytes, &private);
        if arena_bytes > MAX_ARENA {
            return Err(Error::OutOfMemory(arena_bytes));
        }
        let kept = kept.into_memories(&mut actions);
        let scratch_bytes = scratch_bytes(&actions, pool.threads());
        Ok(Self {
            sizes,
            actions,
            kept,
            exchanged,
            scratch_bytes: i64::try_from(scratch_bytes).unwrap_or(i64::MAX),
            private_bytes: i64::try_from(private_bytes).unwrap_or(i64::MAX),
            arena_bytes,
            result_bytes: results.iter().filter_map(bytes).sum(),
            results,
        })
    }
}

/// Memory of so many bytes or more that another run has given back, or fresh. What it holds means
/// nothing.
fn taken(pooled: &Mutex<Vec<AlignedBytes>>, bytes: i64) -> Result<AlignedBytes, Error> {
    let wanted = usize::try_from(bytes).map_err(|_| Error::OutOfMemory(bytes))?;
    let mut pooled = pooled.lock().unwrap_or_else(PoisonError::into_inner);
    let large_enough = |known: &AlignedBytes| known.as_slice().len() >= wanted;
    let known = pooled.iter().rposition(large_enough);
    let known = known.map(|place| pooled.remove(place));
    drop(pooled);
    let fresh = || AlignedBytes::try_zeroed(wanted);
    let mut memory = known.or_else(fresh).ok_or(Error::OutOfMemory(bytes))?;
    memory.spoil();
    Ok(memory)
}

fn give_back(pooled: &Mutex<Vec<AlignedBytes>>, bytes: AlignedBytes) {
    let mut pooled = pooled.lock().unwrap_or_else(PoisonError::into_inner);
    if pooled.len() >= MAX_POOLED {
        // Sizes of runs differ: what is kept longest may be too small by now.
        pooled.remove(0);
    }
    pooled.push(bytes);
}

/// What one kernel or library call took in a profiled run.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    /// Its name: that of the kernel in the plan, or of the routine.
    pub name: String,
    /// The time of all its runs together.
    pub time: Duration,
    /// How often it ran.
    pub runs: u64,
    /// The work of all its runs together.
    pub work: Work,
}

fn note(profile: &mut Vec<KernelTime>, name: String, time: Duration, work: &Work) {
    match profile.iter_mut().find(|k| k.name == name) {
        Some(known) => {
            known.time += time;
            known.runs += 1;
            known.work.add(work);
        }
        None => profile.push(KernelTime {
            name,
            time,
            runs: 1,
            work: *work,
        }),
    }
}

/// The memory of one run.
pub(crate) struct Run<'a> {
    executable: &'a Executable,
    /// The values of the plan's symbols.
    sizes: &'a [i64],
    arena: *mut u8,
    scratch: *mut u8,
    inputs: Vec<*const u8>,
    outputs: Vec<*mut u8>,
    /// The memories that are kept from run to run.
    kept: Vec<*mut u8>,
    /// The memories that loops exchange.
    exchanged: Vec<Cell<*mut u8>>,
    profile: Option<&'a RefCell<Vec<KernelTime>>>,
}

impl Run<'_> {
    /// The address of a place. What is behind an input or a constant is only read.
    pub(crate) fn address(&self, location: Location) -> *mut u8 {
        let base = match location.area {
            Area::Parameter(i) => self.inputs[i].cast_mut(),
            Area::Output(i) => self.outputs[i],
            Area::Constant(i) => self.executable.plan.constants[i]
                .bytes()
                .as_ptr()
                .cast_mut(),
            Area::Arena => self.arena,
            Area::Kept(i) => self.kept[i],
            Area::Exchanged(i) => self.exchanged[i].get(),
        };
        // SAFETY: the offset lies inside the area; see the module's text.
        unsafe { base.add(location.offset) }
    }

    fn actions(&self, actions: &[Action]) -> Result<(), CallFailure> {
        // Asked once: a kernel may take less time than to ask.
        let traced = tracing::enabled!(tracing::Level::TRACE);
        for action in actions {
            let name = if traced { action.name() } else { None };
            let _span = name.map(|name| tracing::trace_span!("step", name).entered());
            let Some(profile) = self.profile else {
                self.action(action)?;
                continue;
            };
            let start = Instant::now();
            self.action(action)?;
            if let Some(name) = action.name() {
                let time = start.elapsed();
                note(&mut profile.borrow_mut(), name, time, &action.work());
            }
        }
        Ok(())
    }

    fn action(&self, action: &Action) -> Result<(), CallFailure> {
        match action {
            Action::Kernel {
                kernel,
                args,
                extent,
                parts,
                ..
            } => {
                let addresses: smallvec::SmallVec<[*mut u8; 16]> = self.addresses(args).collect();
                self.kernel(*kernel, &addresses, *extent, *parts);
            }
            Action::Call {
                call,
                inputs,
                outputs,
                sort,
                kept,
                ..
            } => {
                let inputs: smallvec::SmallVec<[*const u8; 8]> = inputs
                    .iter()
                    .map(|&l| self.address(l).cast_const())
                    .collect();
                let outputs: smallvec::SmallVec<[*mut u8; 8]> =
                    outputs.iter().map(|&l| self.address(l)).collect();
                let code = &self.executable.code;
                let sort = code.sorts.get(*sort);
                let kept = kept.map_or(std::ptr::null(), |kept| self.address(kept).cast_const());
                // SAFETY: see the module's text; a call's results overlap none of
                // its operands, and values are aligned to 64 bytes.
                unsafe {
                    let (scratch, pool) = (self.scratch, &self.executable.pool);
                    call.run(&inputs, &outputs, (sort, kept), scratch, pool)?;
                }
            }
            Action::Pack { call, from, to } => {
                // SAFETY: the operand is one that the call is given, and the memory is what
                // the call has asked for.
                unsafe { call.keep(self.address(*from), self.address(*to)) };
            }
            Action::Copy { from, to, bytes } => {
                // SAFETY: both ends have that many bytes; they may be parts of one
                // arena.
                unsafe { std::ptr::copy(self.address(*from), self.address(*to), *bytes) };
            }
            Action::View {
                entry,
                source,
                bytes,
                indices,
            } => {
                let indices = indices.iter();
                let slabs: i64 = indices.map(|index| self.slab(index)).sum();
                // SAFETY: the clamped indices of a slab lie inside the array.
                let slab = unsafe { self.address(*source).offset((bytes + slabs) as isize) };
                self.exchanged[*entry].set(slab);
            }
            Action::While {
                condition,
                predicate,
                body,
                exchanges,
                nest,
            } => {
                if let Some(nest) = nest
                    && self.profile.is_none()
                    && !tracing::enabled!(tracing::Level::TRACE)
                {
                    self.nest(nest);
                    return Ok(());
                }
                self.enter(exchanges);
                if self.profile.is_none()
                    && are_steps(condition, body)
                    && !tracing::enabled!(tracing::Level::TRACE)
                {
                    self.turns(condition, *predicate, body, exchanges);
                    self.leave(exchanges);
                    return Ok(());
                }
                loop {
                    self.actions(condition)?;
                    // SAFETY: a pred scalar that the condition has written.
                    if unsafe { *self.address(*predicate) } == 0 {
                        break;
                    }
                    self.actions(body)?;
                    self.exchange(exchanges);
                }
                self.leave(exchanges);
            }
            Action::Conditional {
                selector,
                is_pred,
                branches,
            } => {
                let selector = self.address(*selector);
                let last = branches.len().saturating_sub(1);
                let branch = if *is_pred {
                    // SAFETY: a pred scalar that was written before.
                    usize::from(unsafe { *selector } == 0)
                } else {
                    // SAFETY: an s32 scalar that was written before; all values
                    // are aligned to more than four bytes.
                    let selected = unsafe { *selector.cast::<i32>() };
                    usize::try_from(selected).map_or(last, |b| b.min(last))
                };
                if let Some(actions) = branches.get(branch) {
                    self.actions(actions)?;
                }
            }
            Action::Strips(strips) => self.strips(strips),
        }
        Ok(())
    }

    fn strips(&self, strips: &Strips) {
        let pools = (&*self.executable.pool, &*self.executable.serial);
        let timed = self.profile.is_some();
        // SAFETY: see the module's text; the plan's verifier has checked that strips may be
        // done in any order.
        let times = unsafe { strips.run(self, self.scratch, pools, timed) };
        if let Some(profile) = self.profile {
            for (strip, time) in strips.steps.iter().zip(times) {
                note(
                    &mut profile.borrow_mut(),
                    strip.name.clone(),
                    time,
                    &strip.work,
                );
            }
        }
    }

    /// Bytes from the first slab to the one that an index says.
    fn slab(&self, index: &Index<Location>) -> i64 {
        let at = self.address(index.place);
        // SAFETY: an integer of this type that was written before; values are aligned.
        let number = unsafe {
            match index.element_type {
                ElementType::S64 => *at.cast::<i64>(),
                ElementType::U32 => i64::from(*at.cast::<u32>()),
                _ => i64::from(*at.cast::<i32>()),
            }
        };
        number.max(index.least).min(index.most) * index.stride
    }

    /// A kernel's functions.
    pub(crate) fn code(&self, kernel: usize) -> &KernelCode {
        &self.executable.code.kernels[kernel]
    }

    /// The values of the plan's symbols, which code only reads.
    pub(crate) fn sizes(&self) -> *mut u8 {
        self.sizes.as_ptr().cast_mut().cast()
    }

    /// The addresses of a kernel's arguments; last, the values of the plan's symbols, which
    /// code only reads.
    pub(crate) fn addresses(&self, args: &[Location]) -> impl Iterator<Item = *mut u8> {
        let args = args.iter().map(|&a| self.address(a));
        args.chain([self.sizes()])
    }

    /// A loop that is a function.
    fn nest(&self, nest: &Nest) {
        let table = nest.table.iter().map(|&place| self.address(place));
        let table: smallvec::SmallVec<[*mut u8; 32]> = table.collect();
        let function = self.executable.code.nests[nest.function];
        // SAFETY: see the module's text; it does what the loop's actions do.
        unsafe { function(table.as_ptr(), 0, 1) };
    }

    /// A loop whose condition and body [are steps](are_steps).
    fn turns(
        &self,
        condition: &[Action],
        predicate: Location,
        body: &[Action],
        exchanges: &[Exchange],
    ) {
        let turn = || Turn::new(self, condition, predicate, body);
        let even = turn();
        let odd = (!exchanges.is_empty()).then(|| {
            self.exchange(exchanges);
            let odd = turn();
            self.exchange(exchanges);
            odd
        });
        let odd = odd.as_ref().unwrap_or(&even);
        // SAFETY: see the module's text; memories are exchanged after every turn.
        unsafe {
            while even.goes_on() {
                even.body();
                self.exchange(exchanges);
                if !odd.goes_on() {
                    break;
                }
                odd.body();
                self.exchange(exchanges);
            }
        }
    }

    /// After a turn of a loop: its next states are its states.
    fn exchange(&self, exchanges: &[Exchange]) {
        for [state, next] in exchanges.iter().map(|e| e.entries) {
            self.exchanged[state].swap(&self.exchanged[next]);
        }
    }

    /// Before a loop: the memories that it exchanges have their own roles.
    fn enter(&self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            let [state, next] = exchange.entries;
            self.exchanged[state].set(self.address(exchange.state));
            self.exchanged[next].set(self.address(exchange.next));
        }
    }

    /// After a loop: its states are where they are looked for.
    fn leave(&self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            let (at, to) = (
                self.exchanged[exchange.entries[0]].get(),
                self.address(exchange.state),
            );
            if at != to {
                // SAFETY: two memories of that many bytes, which do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(at, to, exchange.bytes) };
            }
        }
    }

    /// Runs a kernel, in parts if it is worth it.
    fn kernel(&self, kernel: usize, addresses: &[*mut u8], extent: i64, parts: usize) {
        let pieces = self.code(kernel);
        let addresses = Addresses(addresses.as_ptr());
        let run = |begin: i64, end: i64| {
            parts_of(pieces, [begin, end], |function, [begin, end]| {
                // SAFETY: see the module's text; the points of a kernel are independent.
                unsafe { function(addresses.get(), begin, end) };
            });
        };
        if parts < 2 {
            return run(0, extent);
        }
        self.executable.pool.run(parts, &|part| {
            let bound = |part: usize| (extent as i128 * part as i128 / parts as i128) as i64;
            run(bound(part), bound(part + 1));
        });
    }
}

/// The addresses of a kernel's arguments, for several threads.
struct Addresses(*const *mut u8);

// SAFETY: they are only read, and outlive the run of the kernel; what they lead to is
// written at points that are independent.
unsafe impl Sync for Addresses {}

impl Addresses {
    fn get(&self) -> *const *mut u8 {
        self.0
    }
}
