//! Memory-space assignment for a chip whose vector memory is managed by software: which arrays are
//! in VMEM (`S(1)`), when they are fetched, and at which offsets.
//!
//! [`schedule`] takes a program with its [layouts](tegula_layout::assign) and returns a
//! [`Schedule`]: kernels and copies in order, and for each buffer a space, a size and, in VMEM, an
//! offset. [`verify()`] proves for any schedule that buffers that are live at the same time do not
//! overlap, that nothing is read before it is written or its copy is complete, and that the
//! capacity suffices.
//!
//! ```
//! use tegula_layout::assign::{Machine, assign};
//! use tegula_target::Chip;
//! use tegula_tpu_schedule::{Options, VMEM, schedule, verify};
//!
//! let module = tegula_ir::parse_module(
//!     "HloModule two
//!     ENTRY main { x = f32[256,256] parameter(0)
//!       y = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
//!       ROOT z = f32[256,256] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
//! )?;
//! let chip = Chip::by_name("v5e")?;
//! let machine = Machine::tpu(&chip).ok_or("not a TPU")?;
//! let assignment = assign(&module, &machine, &|_| false, &mut tegula_ir::PassManager::new())?;
//! let schedule = schedule(&module, &assignment, &chip, &Options::default());
//! verify(&schedule, &assignment.program)?;
//! // What the first product gives, the second reads from VMEM.
//! assert!(schedule.buffers.iter().any(|buffer| buffer.space() == VMEM));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The results of the program stay in HBM. So do single elements, which the scalar unit reads, and
//! arrays that a loop's condition reads (as in libtpu's compiler). For every other array, the
//! benefit of VMEM is the HBM traffic that it saves. Arrays are placed in the order of benefit
//! divided by the square root of the size, each at the offset that leaves the smallest gap; an
//! array that does not fit stays in HBM. Inputs are fetched while earlier kernels run, large ones
//! in slices. The largest one is fetched before the program begins, as in libtpu's compiler. The
//! compiler for v2 and v3 keeps no array in VMEM from one kernel to the next, so a schedule for
//! these does not either.
//!
//! Loops and conditionals are part of the single list of steps: the steps of a loop's condition, of
//! its body, and of each branch occur once each, between markers ([`Step::Part`], [`Step::Leave`]).
//! So the lifetimes of all arrays are ranges of the same list, and one search for offsets serves
//! all of them: branches share memory because their steps are disjoint, and the arrays of a loop do
//! not overlap those that are live around it. Values that are passed have a place
//! ([`Control::places`]): a loop state is there whenever an iteration begins or ends. It gets there
//! by a [`Step::Pass`], or directly if a kernel can write it there ([`Source::Same`]).

mod best_fit;
mod builder;
mod control;
mod hlo;
mod insert_copies;
mod live_ranges;
mod options;
mod schedule;
mod space_assignment;
pub(crate) mod time;
mod verify;
pub mod windows;

pub use hlo::{Views, kernel_module, to_module};
pub use live_ranges::Nest;
pub use options::Options;
pub use schedule::schedule;
use std::fmt;
use tegula_fusion::{NodeId, ValueId};
use tegula_ir::Layout;
pub use verify::{VerifierError, verify};

/// `S(n)` of HBM.
pub const HBM: i64 = 0;
/// `S(n)` of VMEM.
pub const VMEM: i64 = 1;
/// `S(n)` of the flags that copies set.
pub const FLAGS: i64 = 2;
/// `S(n)` of the host's memory.
pub const HOST: i64 = 5;

/// The number of a buffer.
pub type BufferId = usize;

/// Where a buffer's contents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// They exist before the program begins.
    Given,
    /// A kernel writes it.
    Kernel,
    /// A kernel copies an array to another layout.
    Relayout(BufferId),
    /// The bytes of another buffer with other dimensions.
    Bitcast(BufferId),
    /// A copy from another memory.
    Copy(BufferId),
    /// A value that a loop or conditional passes is copied here.
    Passed,
    /// The place of another buffer, which holds this value at another time: a state's first value
    /// before the loop, its next value at the end of an iteration, or the result after the loop.
    Same(BufferId),
}

/// A buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The value that it holds.
    pub value: ValueId,
    /// The layout of the value, including its memory space.
    pub layout: Layout,
    /// The size in bytes, including padding.
    pub bytes: i64,
    /// Where the contents come from.
    pub source: Source,
    /// The offset in VMEM, if it is there.
    pub offset: Option<i64>,
    /// The reason for its memory space.
    pub reason: Reason,
}

/// The reason for a buffer's memory space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// It is a parameter or result of the program in HBM.
    Boundary,
    /// It is a single element, which the scalar unit reads.
    SingleElement,
    /// VMEM saves this many seconds of HBM traffic.
    Saves(f64),
    /// It does not fit: the largest gap had this many bytes.
    NoRoom(i64),
    /// VMEM had room only for the first part of its lifetime.
    Evicted,
    /// No earlier work hides the copy.
    NotHidden,
    /// It is a view of another array.
    View,
    /// A loop or a conditional passes it there.
    Passed,
    /// A loop's condition reads it.
    Tested,
    /// The chip's compiler does not keep arrays in VMEM from one kernel to the next.
    NotKept,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boundary => "it is a parameter or a result of the program in this memory",
            Self::SingleElement => "a single element, which the scalar unit reads",
            Self::Saves(seconds) => {
                return write!(f, "saves {:.3} us of HBM traffic", seconds * 1e6);
            }
            Self::NoRoom(gap) => {
                return write!(f, "VMEM has no room: the largest gap has {gap} bytes");
            }
            Self::Evicted => "VMEM has room only for the first part of its lifetime",
            Self::NotHidden => "no earlier kernel hides the copy into VMEM",
            Self::View => "a view of another array",
            Self::Passed => "a loop or a conditional passes it in this memory",
            Self::Tested => "a loop's condition reads it, from HBM",
            Self::NotKept => {
                "the chip's compiler keeps no array in VMEM from one kernel to the next"
            }
        })
    }
}

impl Buffer {
    /// The memory space.
    pub fn space(&self) -> i64 {
        self.layout.memory_space
    }
}

/// A copy between memories that runs concurrently with kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// The source.
    pub from: BufferId,
    /// The destination.
    pub to: BufferId,
    /// The number of slices.
    pub slices: i64,
    /// Whether it is made before the program begins.
    pub before_program: bool,
    /// Its time in seconds, without other traffic.
    pub seconds: f64,
}

/// A value that a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The value.
    pub value: ValueId,
    /// The buffer that holds it; [`None`] for a constant that is written where it is used.
    pub by: Option<BufferId>,
}

/// A loop or a conditional.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// The node of the program.
    pub node: NodeId,
    /// Whether it is a loop.
    pub is_loop: bool,
    /// The place of each state of a loop, or of each result of a conditional.
    pub places: Vec<BufferId>,
    /// The predicate of a loop, or the selector of a conditional.
    pub decides: Held,
    /// The trip count of a loop's body, known or assumed.
    pub trips: f64,
}

/// A step of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A kernel of the program.
    Kernel {
        /// The number of its region.
        region: usize,
        /// Its number there.
        kernel: usize,
        /// The buffers that it reads.
        reads: Vec<BufferId>,
        /// The buffers that it writes.
        writes: Vec<BufferId>,
        /// The VMEM that it uses while it runs, in bytes.
        scoped: i64,
        /// Its time in seconds.
        seconds: f64,
    },
    /// A copy to another layout.
    Relayout {
        /// The source.
        from: BufferId,
        /// The destination.
        to: BufferId,
        /// The VMEM that it uses while it runs, in bytes.
        scoped: i64,
        /// Its time in seconds.
        seconds: f64,
    },
    /// The same bytes with other dimensions.
    Bitcast {
        /// The operation that is a view.
        root: NodeId,
        /// The source.
        from: BufferId,
        /// The destination.
        to: BufferId,
    },
    /// Starts a copy.
    CopyStart(usize),
    /// Waits for a copy.
    CopyDone(usize),
    /// Copies a value to its place in a loop or conditional, in the layout of that place.
    Pass {
        /// The value.
        what: Held,
        /// The destination.
        to: BufferId,
        /// The VMEM that it uses while it runs, in bytes.
        scoped: i64,
        /// Its time in seconds.
        seconds: f64,
    },
    /// Begins a part of a loop or conditional. A loop has its condition, then its body; a
    /// conditional has one part for each branch.
    Part {
        /// The number of the loop or conditional.
        control: usize,
        /// The number of the part.
        part: usize,
    },
    /// Ends a loop or conditional.
    Leave(usize),
}

/// A schedule: the steps in order, and the places of all buffers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// All copies between memories.
    pub transfers: Vec<Transfer>,
    /// All loops and conditionals.
    pub controls: Vec<Control>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The buffers of the program's results.
    pub results: Vec<BufferId>,
    /// The size of VMEM in bytes.
    pub vmem_bytes: i64,
    /// The most bytes of VMEM in use at the same time.
    pub vmem_peak: i64,
}

impl Schedule {
    /// The buffer whose bytes a buffer uses: itself, unless it is a bitcast or takes another one's
    /// place.
    pub fn base(&self, mut id: BufferId) -> BufferId {
        while let Some(Buffer {
            source: Source::Bitcast(of) | Source::Same(of),
            ..
        }) = self.buffers.get(id)
        {
            id = *of;
        }
        id
    }

    /// The value that a step decides by: a loop's predicate at the end of its condition, or a
    /// conditional's selector before its branches.
    pub fn decided_at(&self, step: &Step) -> Option<Held> {
        let &Step::Part { control, part } = step else {
            return None;
        };
        let control = self.controls.get(control)?;
        (part == usize::from(control.is_loop)).then_some(control.decides)
    }
}
