//! The forms of a tile. Each is a separate function, so that a compiled program contains only those
//! that its products call.

/// The forms of a tile, by what they [prefetch](crate::microkernels::strided::Fetch); the last one
/// prefetches nothing, and is transposed.
pub(crate) const NOTHING: u8 = 0;
pub(crate) const AT_ONCE: u8 = 1;
pub(crate) const LATER: u8 = 2;
pub(crate) const TURNED: u8 = 3;

/// The rows, vectors and form of a tile: a program with a product that calls it must contain its
/// code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileForm {
    pub(crate) rows: usize,
    pub(crate) vectors: usize,
    pub(crate) form: u8,
}

#[cfg(feature = "std")]
impl TileForm {
    /// The ending of its function's name in `crates/rt`, after the name of its number type.
    pub fn name(&self) -> String {
        let form = match self.form {
            AT_ONCE => "AT_ONCE",
            LATER => "LATER",
            TURNED => "TURNED",
            _ => "NOTHING",
        };
        format!("_{}_{}_{form}", self.rows, self.vectors)
    }
}
