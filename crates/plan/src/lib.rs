//! The Plan: what a backend compiles. Kernels, library calls and control flow
//! over values that have an address.
//!
//! Values are arrays without tuples; each is stored in a [`Buffer`]: a parameter's
//! memory, a result's, a constant's, or a place in the arena. Two values may
//! share a buffer; a [`Step::Copy`] between two values of one buffer does
//! nothing. The schedule is a tree of steps run in order.
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
//! known at run time. A run asks for the plan [at](Plan::at) its own sizes.
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

/// An array with a place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanValue {
    /// Element type and dimensions. Elements are dense and row-major.
    pub shape: ArrayShape,
    /// Where it lies.
    pub buffer: BufferId,
}

/// Whose memory a buffer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// The caller's, by flattened parameter number; not written.
    Parameter(usize),
    /// A result's: fresh for each run, or a parameter's at first ([`Alias`]). Values that
    /// are needed no longer when the result is written may lie there before.
    Output {
        /// Which, by flattened result number.
        result: usize,
        /// From which byte on: 0 for the result itself.
        from: i64,
    },
    /// A constant's, by number; not written.
    Constant(usize),
    /// The arena's, from this byte on.
    Arena(Term),
}

impl Place {
    /// Where a result lies.
    pub fn output(result: usize) -> Self {
        Self::Output { result, from: 0 }
    }
}

/// A result whose memory holds a parameter when a run starts: the caller's own
/// memory if the caller gives it away, else a copy.
///
/// The parameter's value lies in the result's buffer, and steps may write there
/// once they have read what they need of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The parameter, by flattened number.
    pub parameter: usize,
    /// The result, by flattened number.
    pub output: usize,
}

/// Memory for values.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Whose memory it is.
    pub place: Place,
    /// Its size in bytes.
    pub bytes: Term,
}

/// One step of the schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Runs a kernel over its domain.
    Kernel {
        /// Which.
        kernel: KernelId,
        /// One value per parameter.
        args: Vec<ValueId>,
    },
    /// Runs a named routine.
    Library {
        /// Which.
        op: LibraryOp,
        /// What it reads.
        operands: Vec<ValueId>,
        /// What it writes.
        results: Vec<ValueId>,
    },
    /// Copies the bytes of one value to another of the same size.
    Copy {
        /// What is read.
        from: ValueId,
        /// What is written.
        to: ValueId,
    },
    /// Runs the condition; while the predicate is true, the body and again the
    /// condition.
    While {
        /// Ends by writing the predicate.
        condition: Vec<Step>,
        /// A `pred` scalar.
        predicate: ValueId,
        /// One iteration.
        body: Vec<Step>,
    },
    /// Runs one branch. A `pred` selector takes branch 0 if true, else 1; an
    /// `s32` its own, or the last if there is none of that number.
    Conditional {
        /// A `pred` or `s32` scalar.
        selector: ValueId,
        /// The branches.
        branches: Vec<Vec<Step>>,
    },
    /// Runs kernels and calls, which can be [cut](cuts), for each strip in turn. Strips may
    /// also be done at once, or each step whole before the next: that is the same.
    Strips {
        /// Into how many equal strips each step is cut.
        count: i64,
        /// The steps of a strip.
        steps: Vec<Step>,
    },
}

impl Step {
    /// The blocks of steps inside of it.
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

/// A plan. See the module's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The program's name.
    pub name: String,
    /// The symbols that terms use.
    pub symbols: Vec<Symbol>,
    /// Every value.
    pub values: Arena<ValueId, PlanValue>,
    /// Every buffer.
    pub buffers: Arena<BufferId, Buffer>,
    /// Every kernel; equal ones are one.
    pub kernels: Arena<KernelId, Kernel>,
    /// Constants that are too large for a kernel's text.
    pub constants: Vec<Literal>,
    /// The parameters, flattened.
    pub parameters: Vec<ValueId>,
    /// The results, flattened.
    pub results: Vec<ValueId>,
    /// What is done.
    pub steps: Vec<Step>,
    /// The size of the arena in bytes.
    pub arena_bytes: Term,
    /// Where the symbols' values come from, and what a run checks of them.
    pub sizes: RunTimeSizes,
    /// Results that start as a parameter.
    pub aliases: Vec<Alias>,
}

impl Plan {
    /// Whether two values lie in the same memory.
    pub fn same_place(&self, a: ValueId, b: ValueId) -> bool {
        self.values[a].buffer == self.values[b].buffer
    }
}
