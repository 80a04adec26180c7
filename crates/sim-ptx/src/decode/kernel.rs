//! A decoded kernel: its instructions, and what its registers and variables start with.

use std::collections::HashMap;

use crate::operation::{Instruction, Slot};
use crate::text::syntax::{SourceLine, Variable};

/// A kernel ready to run.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) code: Vec<Instruction>,
    /// Where each instruction comes from.
    pub(crate) places: Vec<Place>,
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    /// Slots that have their value before the kernel starts.
    pub(crate) fills: Vec<(Slot, Fill)>,
    pub(crate) params: Vec<Parameter>,
    pub(crate) param_bytes: u64,
    pub(crate) static_shared: u64,
    /// Alignment of the dynamic shared memory, which follows the static one.
    pub(crate) dynamic_align: u64,
    /// Bytes of local memory of a thread.
    pub(crate) local: u64,
    pub(crate) threads: Option<([u32; 3], bool)>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the PTX.
    pub name: String,
    /// Byte offset in the parameter buffer.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// The place of an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) source: Option<SourceLine>,
}

/// What a slot holds from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    Bits(u64),
    Special(Special),
    /// The address of a module variable plus bytes.
    Variable {
        index: u32,
        offset: i64,
    },
    /// The address of dynamic shared memory, `generic`: in the generic space.
    Dynamic {
        offset: i64,
    },
}

/// Special registers that do not change while a block runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Thread(u8),
    BlockSize(u8),
    Block(u8),
    GridSize(u8),
    Lane,
    Warp,
    Warps,
    Multiprocessor,
    Multiprocessors,
    LaneMaskEq,
    LaneMaskLt,
    LaneMaskLe,
    LaneMaskGt,
    LaneMaskGe,
    DynamicShared,
    TotalShared,
    GridId,
}

/// Module variables by name, in the order of the text.
pub(crate) type Variables<'a> = HashMap<&'a str, (u32, &'a Variable<'a>)>;
