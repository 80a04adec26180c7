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
    /// The functions' code, with each function aligned as it requires.
    pub code: Vec<u8>,
    /// The offset of each function in `code`, by number.
    pub functions: Vec<u32>,
    /// The names of the external routines that it calls.
    pub routines: Vec<String>,
    /// The scalar operations for which the code calls a function that interprets a [`General`].
    pub operations: Vec<General>,
    /// The references to fill in.
    pub relocations: Vec<Relocation>,
}

/// A place in the code that refers to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relocation {
    /// The offset in the code.
    pub at: u32,
    pub kind: RelocationKind,
    pub target: Target,
    /// Added to the target's address.
    pub addend: i64,
}

/// The encoding of an address: 32 and 64 bits in code for x86-64; fields of instructions in code
/// for AArch64, which also has addresses as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RelocationKind {
    /// The 64-bit address.
    Absolute64,
    /// The 32-bit distance from the place itself.
    Relative32,
    /// The 32-bit distance from the place itself to a table entry that holds the address. Only used
    /// in code for objects.
    GotRelative32,
    /// The 26-bit field of a call: the distance in words.
    Call26,
    /// The 21-bit field of `adrp`: the distance in pages.
    Page21,
    /// The 12-bit field of an addition: the offset in a page.
    PageOffset12,
    /// The 21-bit field of `adrp`: the distance in pages to an entry of a table of addresses, as
    /// for [`Self::GotRelative32`].
    GotPage21,
    /// The 12-bit field of a load: the entry's offset in its page.
    GotPageOffset12,
}

/// The target of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Target {
    /// A function of the image.
    Function(FunctionId),
    /// A routine, by its index in [`CodeImage::routines`].
    Routine(u32),
    /// An operation, by its index in [`CodeImage::operations`].
    Operation(u32),
    /// The table of 2/pi, which sines and cosines use.
    SineTable,
    /// A constant of the program, by number. Only used in code for objects.
    Constant(u32),
}
