//! A decoded kernel: its instructions, and the initial values of its registers and variables.

use std::collections::HashMap;

use crate::operation::{Instruction, Slot};
use crate::text::syntax::{SourceLine, Variable};

/// A kernel that is ready to run.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) code: Vec<Instruction>,
    /// The source position of each instruction.
    pub(crate) places: Vec<Place>,
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    /// Slots that are initialised before the kernel starts.
    pub(crate) fills: Vec<(Slot, Fill)>,
    pub(crate) params: Vec<Parameter>,
    pub(crate) param_bytes: u64,
    pub(crate) static_shared: u64,
    /// The alignment of dynamic shared memory, which follows the static shared memory.
    pub(crate) dynamic_align: u64,
    /// The local memory of a thread, in bytes.
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

/// The source position of an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) source: Option<SourceLine>,
}

/// The initial value of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    Bits(u64),
    Special(Special),
    /// The address of a module variable, plus a number of bytes.
    Variable {
        index: u32,
        offset: i64,
    },
    /// The address of dynamic shared memory; in the generic address space if `generic` is set.
    Dynamic {
        offset: i64,
    },
}

/// Special registers that are constant while a block runs.
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

/// The module's variables by name, with their numbers in the order of the text.
pub(crate) type Variables<'a> = HashMap<&'a str, (u32, &'a Variable<'a>)>;
