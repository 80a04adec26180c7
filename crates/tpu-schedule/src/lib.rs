//! Memory spaces for a chip whose vector memory is managed by software: which arrays
//! live in VMEM (`S(1)`), when they are fetched, and where in it they lie.
//!
//! [`schedule`] takes a program with its [layouts](tegula_layout::assign) and gives a
//! [`Schedule`]: kernels and copies in order, and for each buffer a space, a size and,
//! in VMEM, an offset. [`verify()`] proves of a schedule, whoever made it, that buffers
//! that live at one time do not overlap, that nothing is read before it is written or
//! its copy done, and that the capacity is kept.
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
//! Results of the program stay in HBM, and so do single elements, which the scalar
//! unit reads, and, as the real compiler leaves them, arrays that a loop's condition reads.
//! Of the rest each array is worth the HBM traffic that VMEM saves; those
//! worth most for the square root of their size come first, at the offset with the
//! least room left over, and what finds no room stays in HBM. Inputs are fetched while
//! earlier kernels run, large ones in slices; the largest is fetched before the program
//! begins, as the real compiler does. The compiler of v2 and v3 keeps no array in VMEM from
//! one kernel to the next; neither does a schedule for these.
//!
//! Loops and choices stand in the one list of steps: the steps of a loop's condition, of
//! its body, of each branch, once each between markers ([`Step::Part`], [`Step::Leave`]).
//! So all arrays of the program have lives on one axis, and one search for offsets serves
//! them: branches share room because their steps are apart, and what a loop holds does
//! not touch what lives around it. What is passed has a place ([`Control::places`]): a
//! loop's state lies there whenever an iteration begins or ends. It gets there by a
//! [`Step::Pass`], or without one where a kernel can write it there at once
//! ([`Source::Same`]).

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

/// Which buffer, by number.
pub type BufferId = usize;

/// Where a buffer's contents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// There before the program begins.
    Given,
    /// A kernel writes it.
    Kernel,
    /// A kernel that only copies an array into another layout.
    Relayout(BufferId),
    /// The bytes of another buffer under other dimensions.
    Bitcast(BufferId),
    /// A copy from another memory.
    Copy(BufferId),
    /// What a loop or a choice passes is copied here.
    Passed,
    /// The place of another buffer, which holds this value at another time: a state's
    /// first value before the loop, the next one at the end of an iteration, the result
    /// after it.
    Same(BufferId),
}

/// A buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The value it holds.
    pub value: ValueId,
    /// How the value lies in it, with its memory space.
    pub layout: Layout,
    /// Bytes, padding included.
    pub bytes: i64,
    /// Where the contents come from.
    pub source: Source,
    /// Where in VMEM it begins, if it is there.
    pub offset: Option<i64>,
    /// Why it is where it is.
    pub reason: Reason,
}

/// Why a buffer is where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The program gets or gives it in HBM.
    Boundary,
    /// One element, which the scalar unit reads.
    SingleElement,
    /// VMEM saves this many seconds of HBM traffic.
    Saves(f64),
    /// It found no room: the largest gap had this many bytes.
    NoRoom(i64),
    /// VMEM had room for the first part of its life only.
    Evicted,
    /// Nothing earlier hides the copy.
    NotHidden,
    /// It is a view of another array.
    View,
    /// A loop or a conditional passes it there.
    Passed,
    /// A loop's condition reads it.
    Tested,
    /// The chip's compiler keeps no array in VMEM from one kernel to the next.
    NotKept,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boundary => "the program gets or gives it there",
            Self::SingleElement => "a single element, which the scalar unit reads",
            Self::Saves(seconds) => {
                return write!(f, "saves {:.3} us of HBM traffic", seconds * 1e6);
            }
            Self::NoRoom(gap) => {
                return write!(f, "found no room in VMEM: the largest gap has {gap} bytes");
            }
            Self::Evicted => "VMEM had room for the first part of its life only",
            Self::NotHidden => "no earlier kernel hides the copy into VMEM",
            Self::View => "a view of another array",
            Self::Passed => "a loop or a conditional passes it there",
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

/// A copy between memories that runs beside the kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// From.
    pub from: BufferId,
    /// To.
    pub to: BufferId,
    /// In how many slices.
    pub slices: i64,
    /// Whether it is made before the program begins.
    pub before_program: bool,
    /// Seconds, alone.
    pub seconds: f64,
}

/// A value where a step needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The value.
    pub value: ValueId,
    /// The buffer that holds it; [`None`]: a constant that is written where it is used.
    pub by: Option<BufferId>,
}

/// A loop or a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// The node of the program.
    pub node: NodeId,
    /// Whether it is a loop.
    pub is_loop: bool,
    /// Where each state of a loop, or each result of a choice, lies.
    pub places: Vec<BufferId>,
    /// What decides: whether to go on, or which branch to take.
    pub decides: Held,
    /// How often a loop's body runs, as is known or assumed.
    pub trips: f64,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A kernel of the program.
    Kernel {
        /// The number of its region.
        region: usize,
        /// Its number there.
        kernel: usize,
        /// What it reads.
        reads: Vec<BufferId>,
        /// What it writes.
        writes: Vec<BufferId>,
        /// VMEM that it uses while it runs, in bytes.
        scoped: i64,
        /// How long it takes, in seconds.
        seconds: f64,
    },
    /// A copy into another layout.
    Relayout {
        /// From.
        from: BufferId,
        /// To.
        to: BufferId,
        /// VMEM that it uses while it runs, in bytes.
        scoped: i64,
        /// How long it takes, in seconds.
        seconds: f64,
    },
    /// The same bytes under other dimensions.
    Bitcast {
        /// The view that it is.
        root: NodeId,
        /// From.
        from: BufferId,
        /// To.
        to: BufferId,
    },
    /// A copy begins.
    CopyStart(usize),
    /// A copy has ended.
    CopyDone(usize),
    /// A value is copied to where a loop or a choice wants it, in the layout that it has
    /// there.
    Pass {
        /// What is passed.
        what: Held,
        /// Where to.
        to: BufferId,
        /// VMEM that it uses while it runs, in bytes.
        scoped: i64,
        /// How long it takes, in seconds.
        seconds: f64,
    },
    /// A part of a loop or choice begins: of a loop the condition, then the body; of a
    /// choice one branch after the other.
    Part {
        /// Which loop or choice.
        control: usize,
        /// Which part.
        part: usize,
    },
    /// A loop or choice ends.
    Leave(usize),
}

/// What runs when, and where everything lies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Every buffer.
    pub buffers: Vec<Buffer>,
    /// Every copy between memories.
    pub transfers: Vec<Transfer>,
    /// Every loop and choice.
    pub controls: Vec<Control>,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// The buffers that the program gives.
    pub results: Vec<BufferId>,
    /// Bytes of VMEM there are.
    pub vmem_bytes: i64,
    /// The most bytes of VMEM in use at once.
    pub vmem_peak: i64,
}

impl Schedule {
    /// The buffer in whose place a buffer lies: itself, unless it is a bitcast or is
    /// passed.
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

    /// What decides at a step: a loop's predicate at the end of its condition, a choice's
    /// selector before its branches.
    pub fn decided_at(&self, step: &Step) -> Option<Held> {
        let &Step::Part { control, part } = step else {
            return None;
        };
        let control = self.controls.get(control)?;
        (part == usize::from(control.is_loop)).then_some(control.decides)
    }
}
