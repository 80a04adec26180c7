//! How a call that computes several rows finds each row's inputs.

use super::ir::Storage;

/// The source of the inputs of a call's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowsIn<'a> {
    /// One row with one set of slots.
    One,
    /// Each row has slots of its own, after those of the row before.
    Slots,
    /// The slots are for the first iteration of a loop whose iterations are rows.
    Turns(&'a Turns),
}

/// How the inputs of a vector loop's body change from row to row, when a loop over rows runs inside
/// the generated code. Some inputs depend on *words*: numbers, such as row indices, that each
/// iteration loads.
///
/// The caller's slots hold the body's inputs for the first row (without the parts that depend on
/// words), followed by the addresses of that row's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// The words that each iteration loads before its lanes, in order.
    pub words: Vec<Word>,
    /// The change of each of the body's inputs.
    pub inputs: Vec<Change>,
}

/// A number that each iteration loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The format in memory; it is extended to 64 bits.
    pub storage: Storage,
    /// The bytes between the words of two iterations.
    pub step: i32,
    /// The bounds to which the number is clamped.
    pub clamp: Option<[i32; 2]>,
    /// If the number is negative or above this, the iteration is skipped.
    pub most: Option<i32>,
}

/// The change of an input between iterations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The constant that each iteration adds.
    pub step: i32,
    /// Words of the iteration, by number, each with the factor by which it is multiplied before it
    /// is added.
    pub words: Vec<(usize, i32)>,
}
