//! Memory spaces for a chip whose vector memory is managed by software: which arrays
//! live in VMEM (`S(1)`), when they are fetched, and where in it they lie.
//!
//! [`schedule`] takes a program with its [layouts](crate::assign) and gives a
//! [`Schedule`]: kernels and copies in order, and for each buffer a space, a size and,
//! in VMEM, an offset. [`verify()`] proves of a schedule, whoever made it, that buffers
//! that live at one time do not overlap, that nothing is read before it is written or
//! its copy done, and that the capacity is kept.
//!
//! Results of the program stay in HBM, and so do single elements, which the scalar
//! unit reads. Of the rest each array is worth the HBM traffic that VMEM saves; those
//! worth most for the square root of their size come first, at the offset with the
//! least room left over, and what finds no room stays in HBM. Inputs are fetched while
//! earlier kernels run, large ones in slices; the largest is fetched before the program
//! begins, as the real compiler does.

mod build;
mod heap;
mod hlo;
mod time;
mod verify;

pub use build::{Options, schedule};
pub use hlo::{Views, kernel_module, to_module};
pub use verify::{VerifyError, verify};

use tegula_fusion::{NodeId, ValueId};
use tegula_ir::Layout;

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
    /// It lies where the array lies that it is a view of.
    View,
    /// A loop or a choice passes it.
    Control,
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

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A kernel of the program, by number in its region.
    Kernel {
        /// Which.
        kernel: usize,
        /// Whether it is a loop or a choice.
        is_control: bool,
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
}

/// What runs when, and where everything lies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Every buffer.
    pub buffers: Vec<Buffer>,
    /// Every copy between memories.
    pub transfers: Vec<Transfer>,
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
    /// The buffer whose bytes a buffer has: itself, unless it is a bitcast.
    pub fn base(&self, mut id: BufferId) -> BufferId {
        while let Some(Buffer {
            source: Source::Bitcast(of),
            ..
        }) = self.buffers.get(id)
        {
            id = *of;
        }
        id
    }

    /// The step at which each buffer begins to hold something and the last that reads
    /// it; those that are views are counted with their base. Given ones begin at 0 and
    /// results live on to the end.
    pub fn lifetimes(&self) -> Vec<(usize, usize)> {
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; self.buffers.len()];
        let mut touch = |id: BufferId, step: usize| {
            let base = self.base(id);
            if let Some(life) = lives.get_mut(base) {
                let (first, last) = life.unwrap_or((step, step));
                *life = Some((first.min(step), last.max(step)));
            }
        };
        for (id, buffer) in self.buffers.iter().enumerate() {
            if buffer.source == Source::Given {
                touch(id, 0);
            }
        }
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Step::Kernel { reads, writes, .. } => {
                    reads.iter().chain(writes).for_each(|&id| touch(id, number));
                }
                Step::Relayout { from, to, .. } | Step::Bitcast { from, to, .. } => {
                    touch(*from, number);
                    touch(*to, number);
                }
                Step::CopyStart(copy) | Step::CopyDone(copy) => {
                    if let Some(transfer) = self.transfers.get(*copy) {
                        touch(transfer.from, number);
                        touch(transfer.to, number);
                    }
                }
            }
        }
        for &result in &self.results {
            touch(result, self.steps.len());
        }
        lives
            .into_iter()
            .map(|life| life.unwrap_or((0, 0)))
            .collect()
    }
}
