//! Running a compiled plan.
//!
//! # Safety of what follows
//! Generated code accesses memory through raw pointers. It stays inside its arrays because a plan's
//! kernels index within their parameters' dimensions (the Plan evaluator checks that on the same
//! plans), inputs are checked against the plan's shapes before each run, outputs are allocated with
//! these shapes, and the arena has the size that the plan states, which the Plan verifier has
//! checked at the sizes of the run.

use super::memory::Memory;
use super::walk::{KernelTime, Run};
use crate::compile::module::{Code, CompiledPlan, attach_nests, compile_kernels};
use crate::compile::{regroupings, transform_kernels};
use crate::error::Error;
use crate::options::Listing;
use crate::options::Options;
use crate::program::ir::{Action, scratch_bytes};
use crate::program::kept_memory::{Memories, SharedMemories};
use crate::program::lower::{Resolved, resolve};
use crate::program::run_invariants::{Kept, same_at_all_sizes};
use crate::transform::pipeline::Regrouping;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};
use tegula_ir::{AlignedBytes, ArrayShape, BufferPool, Literal, PassManager};
use tegula_limits::StopFlag;
use tegula_linalg::thread_pool::ThreadPool;
use tegula_plan::{PerSizes, Plan, verify};
use tegula_target::{CpuFeatures, IsaLevel};

/// A compiled plan. It may be run by several threads at once.
pub struct Executable {
    pub(super) plan: Plan,
    /// The code before it was placed in memory.
    pub(super) compiled: CompiledPlan,
    code: Code,
    /// For each kernel, the points and elements that its code handles together.
    pub(super) regroupings: Vec<Regrouping>,
    /// The instruction set that the code was compiled for.
    pub(super) cpu: IsaLevel,
    pool: Arc<ThreadPool>,
    /// A pool without threads, for calls that run on a thread of the pool.
    serial: ThreadPool,
    /// The plan at the sizes of earlier runs. A plan without open sizes is prepared from the start.
    prepared: PerSizes<Prepared>,
    /// Values that a run has computed and that are the same at all sizes.
    shared: SharedMemories,
    /// For each flattened parameter, whether every run gets the same array.
    pub(super) frozen: Vec<bool>,
    /// Arenas of finished runs, for reuse.
    arenas: Mutex<Vec<AlignedBytes>>,
    /// Scratch memory of finished runs' library calls, for reuse.
    scratch: Mutex<Vec<AlignedBytes>>,
    /// Memory of results that were dropped, for reuse.
    dropped: Arc<BufferPool>,
}

/// A plan at the sizes of a run, ready to execute.
pub(super) struct Prepared {
    /// The values of the plan's symbols.
    sizes: Vec<i64>,
    actions: Vec<Action>,
    /// The values that only the first run computes.
    kept: Memories,
    /// The number of entries in the table of exchanged buffers.
    exchanged: usize,
    arena_bytes: i64,
    /// The scratch bytes of library calls and strips, for all threads.
    scratch_bytes: i64,
    /// The bytes of private arrays in it.
    private_bytes: i64,
    results: Vec<ArrayShape>,
    /// The bytes of all results.
    result_bytes: usize,
}

/// The maximum bytes of an arena: 64 GiB.
const MAX_ARENA: i64 = 1 << 36;
/// The maximum number of arenas, and of scratch memories, that are kept between runs.
const MAX_POOLED: usize = 8;
/// The number of runs whose results' memory is kept for reuse: the caller of a run often still has
/// the results of the run before.
const RUNS_KEPT: usize = 2;

/// Lists the code of a plan as text.
///
/// # Errors
/// Those of [`Executable::new`].
pub fn listing(plan: &Plan, options: &Options, what: Listing) -> Result<String, Error> {
    let transformed = transform_kernels(plan, options, &mut PassManager::new());
    let regroupings: Vec<Regrouping> = regroupings(&transformed);
    let actions = match plan.has_open_sizes() {
        true => Vec::new(),
        false => {
            let kept = Kept::new(plan, &[], None);
            let isa = CpuFeatures::up_to(options.cpu);
            resolve(plan, &regroupings, isa, options.threads, kept)?.actions
        }
    };
    let (_, text) = compile_kernels(plan, &transformed, &actions, options, Some(what))?;
    Ok(text)
}

impl Executable {
    /// Compiles a plan.
    ///
    /// # Errors
    /// An operation that the element type lacks or that cannot be compiled yet, a CPU other than
    /// this machine's, or a plan that breaks its invariants.
    pub fn new(plan: Plan, options: &Options) -> Result<Self, Error> {
        verify(&plan).map_err(|errors| Error::Bug(errors.to_string()))?;
        if !options.cpu.is_supported() {
            let message = format!("this machine lacks instructions of {}", options.cpu);
            return Err(Error::Cpu(message));
        }
        let isa = CpuFeatures::up_to(options.cpu);
        let pool = ThreadPool::shared(options.threads);
        let transformed = transform_kernels(&plan, options, &mut PassManager::new());
        let regroupings = regroupings(&transformed);
        let fixed = fixed(&plan, &regroupings, isa, &pool)?;
        let actions = fixed.as_ref().map_or(&[][..], |fixed| &fixed.actions);
        let (compiled, _) = compile_kernels(&plan, &transformed, actions, options, None)?;
        Self::assemble(plan, compiled, regroupings, (options.cpu, pool), fixed)
    }

    /// Makes an executable from compiled code. `fixed` is the plan at its own sizes, if it has no
    /// open ones.
    pub(super) fn assemble(
        plan: Plan,
        compiled: CompiledPlan,
        regroupings: Vec<Regrouping>,
        (cpu, pool): (IsaLevel, Arc<ThreadPool>),
        fixed: Option<Prepared>,
    ) -> Result<Self, Error> {
        let code = compiled.place(&plan)?;
        let prepared = PerSizes::default();
        if let Some(mut fixed) = fixed {
            attach_nests(&mut fixed.actions, &mut compiled.nests.iter().cloned());
            prepared.get(Vec::new(), |_| Ok::<_, Error>(fixed))?;
        }
        Ok(Self {
            frozen: vec![false; plan.parameters.len()],
            plan,
            compiled,
            code,
            regroupings,
            cpu,
            pool,
            serial: ThreadPool::new(1),
            prepared,
            shared: SharedMemories::default(),
            arenas: Mutex::new(Vec::new()),
            scratch: Mutex::new(Vec::new()),
            dropped: Arc::default(),
        })
    }

    /// The plan that was compiled.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Declares that later runs get the same array for a parameter, until this is called again:
    /// values that depend only on such arrays and on constants are computed by the first run. Does
    /// nothing if there is no such parameter.
    pub fn freeze(&mut self, parameter: usize) {
        if let Some(frozen) = self.frozen.get_mut(parameter) {
            *frozen = true;
        }
        // Kept values may have been computed from another array.
        self.prepared = PerSizes::default();
        self.shared = SharedMemories::default();
    }

    /// Runs the program on flattened inputs and returns flattened results. The memory of an owned
    /// input may be reused for a result.
    ///
    /// # Errors
    /// Inputs whose number or shapes differ from the program's, inconsistent sizes, too little
    /// memory, or a custom call whose handler fails.
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
        let claimed = prepared.arena_bytes.saturating_add(prepared.scratch_bytes);
        let claimed = u64::try_from(claimed).unwrap_or(u64::MAX);
        let _claim = tegula_limits::claim(claimed.saturating_add(prepared.result_bytes as u64))?;
        let mut outputs = self.outputs(&prepared, &mut inputs)?;
        let mut arena = taken(&self.arenas, prepared.arena_bytes)?;
        let mut scratch = taken(&self.scratch, prepared.scratch_bytes)?;
        let memory = Memory {
            kernels: &self.code.kernels,
            constants: &self.plan.constants,
            sizes: &prepared.sizes,
            arena: arena.as_mut_slice().as_mut_ptr(),
            inputs: inputs.iter().map(|l| l.bytes().as_ptr()).collect(),
            outputs: outputs.iter_mut().map(Literal::bytes_mut_ptr).collect(),
            kept,
            exchanged: vec![Cell::new(std::ptr::null_mut()); prepared.exchanged],
            stop: StopFlag::current(),
        };
        let run = self.new_run(memory, &mut scratch, profile);
        let ran = run.actions(&prepared.actions);
        give_back(&self.arenas, arena);
        give_back(&self.scratch, scratch);
        ran?;
        tegula_limits::check()?;
        Ok(outputs)
    }

    fn new_run<'a>(
        &'a self,
        memory: Memory<'a>,
        scratch: &mut AlignedBytes,
        profile: Option<&'a RefCell<Vec<KernelTime>>>,
    ) -> Run<'a> {
        Run {
            memory,
            sorts: &self.code.sorts,
            loops: &self.code.loops,
            scratch: scratch.as_mut_slice().as_mut_ptr(),
            pool: &self.pool,
            serial: &self.serial,
            profile,
        }
    }

    /// The memory of a run's results: that of inputs donated for them, else of dropped results, or
    /// new memory.
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
                // The empty literal that remains is never read, because the parameter is in the
                // result's memory. The verifier has checked that the sizes are equal.
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

    /// The addresses of kept values, which are computed now if no run has computed them. Nothing
    /// writes there afterwards.
    fn kept(
        &self,
        prepared: &Prepared,
        inputs: &[Cow<'_, Literal>],
    ) -> Result<Vec<*mut u8>, Error> {
        let fill = |actions: &[&Action], kept| {
            let _span = tracing::info_span!("keep", steps = actions.len()).entered();
            let threads = self.pool.threads();
            let each = actions.iter();
            let each = each.map(|action| scratch_bytes(std::slice::from_ref(action), threads));
            let bytes = each.max().unwrap_or(0);
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let mut scratch = taken(&self.scratch, bytes)?;
            let memory = Memory {
                kernels: &self.code.kernels,
                constants: &self.plan.constants,
                sizes: &prepared.sizes,
                // Kept steps only read inputs, constants and kept values, and only write kept
                // values.
                arena: std::ptr::null_mut(),
                outputs: Vec::new(),
                exchanged: Vec::new(),
                inputs: inputs.iter().map(|l| l.bytes().as_ptr()).collect(),
                kept,
                stop: StopFlag::current(),
            };
            let run = self.new_run(memory, &mut scratch, None);
            let mut each = actions.iter();
            let ran = each.try_for_each(|action| run.actions(std::slice::from_ref(action)));
            give_back(&self.scratch, scratch);
            ran?;
            // Values of an interrupted run are not kept.
            Ok(tegula_limits::check()?)
        };
        let kept = prepared.kept.get(&self.shared, Error::OutOfMemory, fill)?;
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
            verify(&plan).map_err(|errors| Error::Bug(errors.to_string()))?;
            let same = self
                .plan
                .has_open_sizes()
                .then(|| same_at_all_sizes(&self.plan));
            let kept = Kept::new(&plan, &self.frozen, same);
            let machine = (CpuFeatures::up_to(self.cpu), &*self.pool);
            Prepared::new(&plan, &self.regroupings, sizes.to_vec(), kept, machine)
        })
    }

    /// Runs once and measures each kernel and library call, in the order of their first execution.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub fn profile(&self, inputs: &[&Literal]) -> Result<Vec<KernelTime>, Error> {
        let profile = RefCell::new(Vec::new());
        let inputs = inputs.iter().map(|&input| Cow::Borrowed(input)).collect();
        self.run_with(inputs, Some(&profile))?;
        Ok(profile.into_inner())
    }

    /// The bytes that a run on inputs of these shapes takes besides the inputs: the arena, the
    /// results, and the values kept between runs.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub fn peak_bytes(&self, inputs: &[&ArrayShape]) -> Result<i64, Error> {
        let prepared = self.prepare(inputs)?;
        let results = i64::try_from(prepared.result_bytes).unwrap_or(i64::MAX);
        let arrays = prepared.arena_bytes + prepared.private_bytes;
        Ok(arrays + results + prepared.kept.bytes())
    }
}

/// A plan at its own sizes, if it has no open ones.
pub(super) fn fixed(
    plan: &Plan,
    regroupings: &[Regrouping],
    isa: CpuFeatures,
    pool: &ThreadPool,
) -> Result<Option<Prepared>, Error> {
    if plan.has_open_sizes() {
        return Ok(None);
    }
    let kept = Kept::new(plan, &[], None);
    Prepared::new(plan, regroupings, Vec::new(), kept, (isa, pool)).map(Some)
}

impl Prepared {
    fn new(
        plan: &Plan,
        regroupings: &[Regrouping],
        sizes: Vec<i64>,
        kept: Kept,
        (isa, pool): (CpuFeatures, &ThreadPool),
    ) -> Result<Self, Error> {
        let arena_bytes = plan.arena_bytes.as_constant();
        let arena_bytes =
            arena_bytes.ok_or_else(|| Error::Bug("the arena has no size".to_owned()))?;
        let results = plan.results.iter().map(|&r| plan.values[r].shape.clone());
        let results: Vec<ArrayShape> = results.collect();
        let bytes = |shape: &ArrayShape| usize::try_from(shape.byte_size()?).ok();
        let Resolved {
            mut actions,
            exchanged,
            kept,
            private,
            private_bytes,
        } = resolve(plan, regroupings, isa, pool.threads(), kept)?;
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

/// Memory of at least this many bytes that another run has returned, or new memory. Its contents
/// are arbitrary.
fn taken(pooled: &Mutex<Vec<AlignedBytes>>, bytes: i64) -> Result<AlignedBytes, Error> {
    let wanted = usize::try_from(bytes).map_err(|_| Error::OutOfMemory(bytes))?;
    let mut pooled = pooled.lock().unwrap_or_else(PoisonError::into_inner);
    let large_enough = |known: &AlignedBytes| known.as_slice().len() >= wanted;
    let known = pooled.iter().rposition(large_enough);
    let known = known.map(|place| pooled.remove(place));
    drop(pooled);
    let fresh = || AlignedBytes::try_zeroed(wanted);
    let mut memory = known.or_else(fresh).ok_or(Error::OutOfMemory(bytes))?;
    memory.poison();
    Ok(memory)
}

fn give_back(pooled: &Mutex<Vec<AlignedBytes>>, bytes: AlignedBytes) {
    let mut pooled = pooled.lock().unwrap_or_else(PoisonError::into_inner);
    if pooled.len() >= MAX_POOLED {
        // Sizes of runs differ: the oldest memory may be too small by now.
        pooled.remove(0);
    }
    pooled.push(bytes);
}
