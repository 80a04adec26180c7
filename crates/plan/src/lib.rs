//! The Plan, which backends compile: kernels, library calls and control flow over values that have
//! an address.
//!
//! Values are arrays; there are no tuples. Each is stored in a [`Buffer`]: the memory of a
//! parameter, a result or a constant, or a place in the arena. Two values may share a buffer; a
//! [`Step::Copy`] between them does nothing then. The schedule is a tree of steps that run in
//! order.
//!
//! A plan prints (`Display`) and reads back ([`parse_plan`]) as an equal plan.
//!
//! # Invariants (checked by [`verify`])
//! - A value is written before it is read, and nothing else is written to its
//!   bytes in between.
//! - A parameter's memory and a constant's are never written; a parameter that
//!   shares a result's memory ([`Plan::aliases`]) is not the caller's any more.
//! - A kernel's arguments have the element types and dimensions of its parameters.
//! - Every arena buffer is inside the arena and is aligned to
//!   [`ALIGNMENT`](tegula_ir::ALIGNMENT).
//!
//! Sizes, offsets and extents are terms over the plan's symbols: sizes that are
//! known at run time. A run instantiates the plan [at](Plan::at) its own sizes.
//!
//! # Example
//!
//! ```
//! use tegula_fusion::{Limits, ShortLoops, flatten, fuse};
//! use tegula_ir::{PassManager, parse_module};
//! use tegula_plan::{parse_plan, plan, verify};
//!
//! let module = parse_module(
//!     "HloModule gate
//!     ENTRY main { x = f32[8,32] parameter(0) t = f32[8,32] tanh(x)
//!       ROOT y = f32[8,32] multiply(x, t) }",
//! )?;
//! tegula_ir::verify(&module)?;
//! let passes = &mut PassManager::new();
//! let program = flatten(&module, ShortLoops::Unrolled, passes)?;
//! let fused = fuse(&module, program, Limits::default(), passes)?;
//! let plan = plan(&module, &fused, None, passes)?;
//! verify(&plan)?;
//! // One kernel from the input's memory to the result's: nothing between is stored.
//! assert_eq!((plan.kernels.len(), plan.arena_bytes.as_constant()), (1, Some(0)));
//! assert_eq!(parse_plan(&plan.to_string())?, plan);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod cursor;
#[cfg(feature = "serde")]
mod data;
pub mod dot;
mod expand_routines;
mod inputs;
mod kernel_lines;
mod liveness;
mod memory_planning;
mod operation;
mod parse;
mod parse_kernel;
mod print;
pub mod sort;
mod specialize;
mod strip_legality;
mod strip_mine;
mod verifier_error;
mod verify;
mod verify_kernel;
mod verify_library;
mod verify_places;

pub use build::{PASSES, plan};
pub use cursor::PlanParseError;
pub use expand_routines::{convolution_kernel, expand_routines, label_sizes};
pub use inputs::{PerSizes, WrongInput};
pub use kernel_lines::{KernelLine, kernel_lines};
pub use memory_planning::replan_memory;
pub use operation::module_of;
pub use parse::{parse_plan, parse_plan_with};
pub use parse_kernel::{parse_kernel, parse_scalar_op};
pub use print::{KernelText, PlanWithoutConstants, ScalarOpText};
use smallvec::SmallVec;
pub use strip_legality::{Cut, Part, cuts, part_of, private_values};
pub use strip_mine::StripLimits;
use tegula_arena::{Arena, entity_impl};
use tegula_expr::Term;
use tegula_fusion::{Kernel, LibraryOp};
use tegula_ir::{ArrayShape, Literal, RunTimeSizes, Symbol};
pub use verifier_error::{VerifierError, VerifierErrors};
pub use verify::verify;
pub use verify_kernel::verify_kernel;

/// A value of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(u32);
entity_impl!(ValueId, "x");

/// A buffer of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(u32);
entity_impl!(BufferId, "b");

/// A kernel of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelId(u32);
entity_impl!(KernelId, "k");

/// An array and the buffer that holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanValue {
    /// Element type and dimensions. Elements are dense and row-major.
    pub shape: ArrayShape,
    /// The buffer that holds it.
    pub buffer: BufferId,
}

/// Where a buffer's memory comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// The caller's memory for the parameter with this number, after flattening tuples. It is never
    /// written.
    Parameter(usize),
    /// A result's memory, which is fresh for each run, or initially holds a parameter ([`Alias`]).
    /// Before the result is written, it may hold values that are not needed any more by then.
    Output {
        /// The number of the result, after flattening tuples.
        result: usize,
        /// The offset in bytes; 0 for the result itself.
        from: i64,
    },
    /// The constant with this number; never written.
    Constant(usize),
    /// The arena, from this byte offset on.
    Arena(Term),
}

impl Place {
    /// The place of a result.
    pub fn output(result: usize) -> Self {
        Self::Output { result, from: 0 }
    }
}

/// A result whose memory holds a parameter when a run starts: the caller's own memory if the caller
/// donates it, else a copy.
///
/// The parameter's value is in the result's buffer. Steps may overwrite it once its last reader has
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The parameter's number, after flattening tuples.
    pub parameter: usize,
    /// The result's number, after flattening tuples.
    pub output: usize,
}

/// A piece of memory for values.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Where the memory comes from.
    pub place: Place,
    /// Its size in bytes.
    pub bytes: Term,
}

/// One step of the schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Runs a kernel over its domain.
    Kernel {
        /// The kernel.
        kernel: KernelId,
        /// One value per parameter.
        args: Vec<ValueId>,
    },
    /// Runs a library routine.
    Library {
        /// The routine.
        op: LibraryOp,
        /// The values that it reads.
        operands: Vec<ValueId>,
        /// The values that it writes.
        results: Vec<ValueId>,
    },
    /// Copies the bytes of one value to another of the same size.
    Copy {
        /// The source.
        from: ValueId,
        /// The destination.
        to: ValueId,
    },
    /// Runs the condition; while the predicate is true, runs the body and then the condition again.
    While {
        /// Writes the predicate.
        condition: Vec<Step>,
        /// A `pred` scalar.
        predicate: ValueId,
        /// One iteration.
        body: Vec<Step>,
    },
    /// Runs one branch. A `pred` selector takes branch 0 if true, else 1. An `s32` selector takes
    /// the branch with its number, or the last one if there is none.
    Conditional {
        /// A `pred` or `s32` scalar.
        selector: ValueId,
        /// The branches.
        branches: Vec<Vec<Step>>,
    },
    /// Runs kernels and calls that can be [cut](cuts), for each strip in turn. Running strips at
    /// the same time, or each step as a whole before the next, gives the same results.
    Strips {
        /// The number of equal strips that each step is cut into.
        count: i64,
        /// The steps that each strip runs.
        steps: Vec<Step>,
    },
}

impl Step {
    /// The blocks of steps nested in this step.
    pub fn blocks(&self) -> SmallVec<[&[Step]; 2]> {
        match self {
            Self::Kernel { .. } | Self::Library { .. } | Self::Copy { .. } => SmallVec::new(),
            Self::While {
                condition, body, ..
            } => SmallVec::from_slice(&[&condition[..], &body[..]]),
            Self::Conditional { branches, .. } => branches.iter().map(Vec::as_slice).collect(),
            Self::Strips { steps, .. } => SmallVec::from_slice(&[&steps[..]]),
        }
    }

    /// The values that a kernel or a call is given; none for other steps.
    pub fn values(&self) -> impl Iterator<Item = ValueId> {
        let (first, second): (&[ValueId], &[ValueId]) = match self {
            Self::Kernel { args, .. } => (args, &[]),
            Self::Library {
                operands, results, ..
            } => (operands, results),
            _ => (&[], &[]),
        };
        first.iter().chain(second).copied()
    }

    /// The same, to change them.
    pub fn blocks_mut(&mut self) -> SmallVec<[&mut Vec<Step>; 2]> {
        match self {
            Self::Kernel { .. } | Self::Library { .. } | Self::Copy { .. } => SmallVec::new(),
            Self::While {
                condition, body, ..
            } => [condition, body].into_iter().collect(),
            Self::Conditional { branches, .. } => branches.iter_mut().collect(),
            Self::Strips { steps, .. } => std::iter::once(steps).collect(),
        }
    }
}

/// A plan; see the crate's documentation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The program's name.
    pub name: String,
    /// The symbols that terms use.
    pub symbols: Vec<Symbol>,
    /// All values.
    pub values: Arena<ValueId, PlanValue>,
    /// All buffers.
    pub buffers: Arena<BufferId, Buffer>,
    /// All kernels, without duplicates.
    pub kernels: Arena<KernelId, Kernel>,
    /// Constants that are too large to be part of a kernel.
    pub constants: Vec<Literal>,
    /// The parameters, after flattening tuples.
    pub parameters: Vec<ValueId>,
    /// The results, after flattening tuples.
    pub results: Vec<ValueId>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The size of the arena in bytes.
    pub arena_bytes: Term,
    /// Where the symbols' values come from, and what a run checks about them.
    pub sizes: RunTimeSizes,
    /// Results whose memory holds a parameter at first.
    pub aliases: Vec<Alias>,
}

impl Plan {
    /// Whether two values share a buffer.
    pub fn same_place(&self, a: ValueId, b: ValueId) -> bool {
        self.values[a].buffer == self.values[b].buffer
    }
}
