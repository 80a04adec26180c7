//! How a call that computes several rows finds each row's inputs.

use super::ir::Storage;

/// Where the inputs of a call's rows come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowsIn<'a> {
    /// There is one row, and slots for it.
    One,
    /// Each row has slots of its own, behind those of the row before.
    Slots,
    /// There are slots for the first turn of a loop, and each turn is a row.
    Turns(&'a Turns),
}

/// What changes from turn to turn of a loop whose turns are rows of lanes, done in their order.
///
/// The slots hold the body's inputs for the first turn, as far as they do not depend on words,
/// and behind them the addresses of the first turn's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// What each turn loads before its lanes, in order.
    pub words: Vec<Word>,
    /// How each of the body's inputs changes.
    pub inputs: Vec<Change>,
}

/// A number that each turn loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// How it is stored; it is extended to 64 bits.
    pub storage: Storage,
    /// Bytes from a turn's to that of the next.
    pub step: i32,
    /// The smallest and the largest number that it is made to be.
    pub clamp: Option<[i32; 2]>,
    /// If it is negative or above this, the turn does nothing more.
    pub most: Option<i32>,
}

/// How an input changes from turn to turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// What each turn adds.
    pub step: i32,
    /// Words of the turn, by number, that are added so many times.
    pub words: Vec<(usize, i32)>,
}
