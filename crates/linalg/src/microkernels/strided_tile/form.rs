//! The forms of a tile. Each is a separate function, so that a compiled program contains only those
//! that its products call.

/// The forms of a tile, by what it [fetches](crate::microkernels::strided::Fetch); the last fetches nothing, and is turned.
pub(crate) const NOTHING: u8 = 0;
pub(crate) const AT_ONCE: u8 = 1;
pub(crate) const LATER: u8 = 2;
pub(crate) const TURNED: u8 = 3;

/// What a tile is called for: code that a program with such a product has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileForm {
    pub(crate) rows: usize,
    pub(crate) vectors: usize,
    pub(crate) form: u8,
}

#[cfg(feature = "std")]
impl TileForm {
    /// How the name of its function in `crates/rt` ends, after that of its numbers.
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
