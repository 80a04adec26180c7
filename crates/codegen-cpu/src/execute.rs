//! Running a compiled plan.
//!
//! # Safety of what follows
//! Generated code accesses memory through raw pointers. It stays inside its
//! arrays because a plan's kernels index within their parameters' dimensions (the
//! Plan evaluator checks that on the same plans), inputs are checked against the
//! plan's shapes before each run, outputs are allocated to them, and the arena is
//! as large as the plan says, which the Plan verifier has checked.

use crate::error::Error;
use crate::jit::{Code, Cpu, Listing, compile_kernels};
use crate::kernels::Isa;
use crate::pool::Pool;
use crate::schedule::{Action, Area, Location, resolve, scratch_bytes};
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::{AlignedBytes, ArrayShape, Literal};
use tegula_layout::plan::{Plan, verify};

/// How to compile for the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which instructions may be used.
    pub cpu: Cpu,
    /// How many threads a run may use, at least 1.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpu: Cpu::Native,
            threads: 1,
        }
    }
}

/// A compiled plan. It may be run by several threads at once.
pub struct Executable {
    plan: Plan,
    code: Code,
    actions: Vec<Action>,
    pool: Pool,
    /// Arenas of finished runs.
    arenas: Mutex<Vec<AlignedBytes>>,
    /// Scratch memory of library calls, of finished runs.
    scratch: Mutex<Vec<AlignedBytes>>,
    scratch_bytes: usize,
}

/// The largest arena that is allocated, in bytes: 64 GiB.
const MAX_ARENA: i64 = 1 << 36;

/// The text of a plan's code.
///
/// # Errors
/// As [`Executable::new`].
pub fn listing(plan: &Plan, options: &Options, what: Listing) -> Result<String, Error> {
    compile_kernels(plan, options.cpu, Some(what)).map(|(_, text)| text)
}

impl Executable {
    /// Compiles a plan.
    ///
    /// # Errors
    /// An operation that the element type lacks or that cannot be compiled yet, a
    /// CPU that this machine is not, or a plan that breaks its invariants.
    pub fn new(plan: Plan, options: &Options) -> Result<Self, Error> {
        verify(&plan).map_err(|errors| Error::Bug(errors.join("; ")))?;
        if plan.arena_bytes > MAX_ARENA {
            return Err(Error::OutOfMemory(plan.arena_bytes));
        }
        let actions = resolve(&plan, Isa::new(options.cpu))?;
        let (code, _) = compile_kernels(&plan, options.cpu, None)?;
        let pool = Pool::new(options.threads);
        Ok(Self {
            plan,
            code,
            scratch_bytes: scratch_bytes(&actions, pool.threads()),
            actions,
            pool,
            arenas: Mutex::new(Vec::new()),
            scratch: Mutex::new(Vec::new()),
        })
    }

    /// What was compiled.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs on flattened inputs, giving flattened results.
    ///
    /// # Errors
    /// Inputs of another number or shape than the program's, or too little memory.
    pub fn run(&self, inputs: &[&Literal]) -> Result<Vec<Literal>, Error> {
        self.run_with(inputs, None)
    }

    fn run_with(
        &self,
        inputs: &[&Literal],
        profile: Option<&RefCell<Vec<KernelTime>>>,
    ) -> Result<Vec<Literal>, Error> {
        self.check(inputs)?;
        let mut outputs = Vec::with_capacity(self.plan.results.len());
        for &result in &self.plan.results {
            let shape = &self.plan.values[result].shape;
            let bytes = shape.byte_size().unwrap_or(i64::MAX);
            outputs.push(Literal::zeros(shape).map_err(|_| Error::OutOfMemory(bytes))?);
        }
        let mut arena = taken(&self.arenas, self.plan.arena_bytes)?;
        let mut scratch = taken(&self.scratch, self.scratch_bytes as i64)?;
        let run = Run {
            executable: self,
            arena: arena.as_mut_slice().as_mut_ptr(),
            scratch: scratch.as_mut_slice().as_mut_ptr(),
            inputs: inputs.iter().map(|l| l.bytes().as_ptr()).collect(),
            outputs: outputs
                .iter_mut()
                .map(|l| l.bytes_mut().as_mut_ptr())
                .collect(),
            profile,
        };
        run.actions(&self.actions);
        give_back(&self.arenas, arena);
        give_back(&self.scratch, scratch);
        Ok(outputs)
    }

    /// Runs once and measures each kernel and library call, in the order in which
    /// they first ran.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn profile(&self, inputs: &[&Literal]) -> Result<Vec<KernelTime>, Error> {
        let profile = RefCell::new(Vec::new());
        self.run_with(inputs, Some(&profile))?;
        Ok(profile.into_inner())
    }

    /// Bytes that a run takes beyond its inputs: the arena and the results.
    pub fn peak_bytes(&self) -> i64 {
        let size =
            |&v: &tegula_layout::plan::ValueId| self.plan.values[v].shape.byte_size().unwrap_or(0);
        self.plan.arena_bytes + self.plan.results.iter().map(size).sum::<i64>()
    }

    fn check(&self, inputs: &[&Literal]) -> Result<(), Error> {
        let count = self.plan.parameters.len().max(inputs.len());
        for index in 0..count {
            let expected = self
                .plan
                .parameters
                .get(index)
                .map(|&p| &self.plan.values[p].shape);
            let actual = inputs.get(index).map(|l| l.shape());
            let agree = match (expected, actual) {
                (Some(e), Some(a)) => e.same_ignoring_layout(a),
                _ => false,
            };
            if !agree {
                let describe = |s: Option<&ArrayShape>| s.map_or("nothing".to_owned(), describe);
                return Err(Error::Input {
                    index,
                    expected: describe(expected),
                    actual: describe(actual),
                });
            }
        }
        Ok(())
    }
}

/// Memory of so many bytes that another run has given back, or fresh.
fn taken(pooled: &Mutex<Vec<AlignedBytes>>, bytes: i64) -> Result<AlignedBytes, Error> {
    let known = pooled.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let fresh = || AlignedBytes::try_zeroed(usize::try_from(bytes).ok()?);
    known.or_else(fresh).ok_or(Error::OutOfMemory(bytes))
}

fn give_back(pooled: &Mutex<Vec<AlignedBytes>>, bytes: AlignedBytes) {
    let mut pooled = pooled.lock().unwrap_or_else(PoisonError::into_inner);
    pooled.push(bytes);
}

fn describe(shape: &ArrayShape) -> String {
    let dims: Vec<String> = shape
        .dims
        .iter()
        .map(|d| d.as_static().map_or("?".to_owned(), |n| n.to_string()))
        .collect();
    format!("{}[{}]", shape.element_type, dims.join(","))
}

/// What one kernel or library call took in a profiled run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// Its name: that of the kernel in the plan, or of the routine.
    pub name: String,
    /// The time of all its runs together.
    pub time: Duration,
    /// How often it ran.
    pub runs: u64,
}

fn note(profile: &mut Vec<KernelTime>, name: String, time: Duration) {
    match profile.iter_mut().find(|k| k.name == name) {
        Some(known) => {
            known.time += time;
            known.runs += 1;
        }
        None => profile.push(KernelTime {
            name,
            time,
            runs: 1,
        }),
    }
}

/// The memory of one run.
struct Run<'a> {
    executable: &'a Executable,
    arena: *mut u8,
    scratch: *mut u8,
    inputs: Vec<*const u8>,
    outputs: Vec<*mut u8>,
    profile: Option<&'a RefCell<Vec<KernelTime>>>,
}

impl Run<'_> {
    /// The address of a place. What is behind an input or a constant is only read.
    fn address(&self, location: Location) -> *mut u8 {
        let base = match location.area {
            Area::Parameter(i) => self.inputs[i].cast_mut(),
            Area::Output(i) => self.outputs[i],
            Area::Constant(i) => self.executable.plan.constants[i]
                .bytes()
                .as_ptr()
                .cast_mut(),
            Area::Arena => self.arena,
        };
        // SAFETY: the offset lies inside the area; see the module's text.
        unsafe { base.add(location.offset) }
    }

    fn actions(&self, actions: &[Action]) {
        for action in actions {
            let Some(profile) = self.profile else {
                self.action(action);
                continue;
            };
            let start = Instant::now();
            self.action(action);
            if let Some(name) = action.name() {
                note(&mut profile.borrow_mut(), name, start.elapsed());
            }
        }
    }

    fn action(&self, action: &Action) {
        match action {
            Action::Kernel {
                kernel,
                args,
                extent,
                ..
            } => {
                let addresses: smallvec::SmallVec<[*mut u8; 16]> =
                    args.iter().map(|&a| self.address(a)).collect();
                // SAFETY: see the module's text.
                unsafe { self.executable.code.kernels[*kernel](addresses.as_ptr(), 0, *extent) };
            }
            Action::Call {
                call,
                inputs,
                outputs,
                comparator,
                ..
            } => {
                let inputs: smallvec::SmallVec<[*const u8; 8]> = inputs
                    .iter()
                    .map(|&l| self.address(l).cast_const())
                    .collect();
                let outputs: smallvec::SmallVec<[*mut u8; 8]> =
                    outputs.iter().map(|&l| self.address(l)).collect();
                let code = &self.executable.code;
                let comparator = code.comparators.get(*comparator).copied();
                // SAFETY: see the module's text; a call's results overlap none of
                // its operands, and values are aligned to 64 bytes.
                unsafe {
                    let (scratch, pool) = (self.scratch, &self.executable.pool);
                    call.run(&inputs, &outputs, comparator, scratch, pool);
                }
            }
            Action::Copy { from, to, bytes } => {
                // SAFETY: both ends have that many bytes; they may be parts of one
                // arena.
                unsafe { std::ptr::copy(self.address(*from), self.address(*to), *bytes) };
            }
            Action::While {
                condition,
                predicate,
                body,
            } => loop {
                self.actions(condition);
                // SAFETY: a pred scalar that the condition has written.
                if unsafe { *self.address(*predicate) } == 0 {
                    break;
                }
                self.actions(body);
            },
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
                    self.actions(actions);
                }
            }
        }
    }
}
