//! A program's machine code before it has an address: the bytes of its functions, and the
//! references that are filled in when it is placed.
//!
//! [`ImageBuilder`] collects functions that Cranelift or our own assembler made. The image can be
//! [placed](placed::PlacedCode) in memory to be run, or written to a file: it refers to external
//! routines and tables by name, and contains no address of this process.

mod builder;
pub(crate) mod function;
mod instruction_cache;
pub(crate) mod libcalls;
mod placed;
mod relocation;
mod routines;

pub(crate) use builder::{ImageBuilder, constant_address, sine_table};
pub(crate) use placed::PlacedCode;

use libcalls::General;
use serde::{Deserialize, Serialize};

/// A function of an image, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FunctionId(pub(crate) u32);

/// Position-independent machine code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CodeImage {
    /// The functions' code, each at an address that is aligned as it wants.
    pub code: Vec<u8>,
    /// Where each function begins in `code`, by number.
    pub functions: Vec<u32>,
    /// The names of the routines outside of the image that it calls.
    pub routines: Vec<String>,
    /// Operations on scalars that code applies by [`General`]'s own function.
    pub operations: Vec<General>,
    /// What is to be filled in.
    pub relocations: Vec<Relocation>,
}

/// A place in the code that holds an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relocation {
    /// Where in the code.
    pub at: u32,
    pub kind: RelocationKind,
    pub target: Target,
    /// Added to the target's address.
    pub addend: i64,
}

/// How an address is written: of 32 and 64 bits in code for x86-64, in fields of instructions in code
/// for AArch64, which also has addresses as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RelocationKind {
    /// All 64 bits.
    Absolute64,
    /// 32 bits, from the place itself on.
    Relative32,
    /// 32 bits, from the place itself on to an entry of a table that holds the address. Only code
    /// for objects has these.
    GotRelative32,
    /// 26 bits of a call: the distance in words.
    Call26,
    /// 21 bits of `adrp`: the distance in pages.
    Page21,
    /// 12 bits of an addition: the place in a page.
    PageOffset12,
    /// 21 bits of `adrp`: the distance in pages to an entry of a table of addresses, as
    /// [`Self::GotRelative32`].
    GotPage21,
    /// 12 bits of a load: the entry's place in its page.
    GotPageOffset12,
}

/// What an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Target {
    /// A function of the image.
    Function(FunctionId),
    /// A routine, by its place in [`CodeImage::routines`].
    Routine(u32),
    /// An operation, by its place in [`CodeImage::operations`].
    Operation(u32),
    /// The table that sines and cosines look up.
    SineTable,
    /// A constant of the program, by number. Only code for objects has these.
    Constant(u32),
}
