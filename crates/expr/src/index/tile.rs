//! Tiles of an iteration range: whether they are full, and how large the last one is.

use super::{IndexError, IndexExpr, Scope};

type Outcome = Result<IndexExpr, IndexError>;

impl Scope {
    /// The number of tiles of `block` elements that cover `extent` elements.
    ///
    /// # Errors
    /// As [`Scope::floor_div`].
    pub fn tile_count(&self, extent: &IndexExpr, block: &IndexExpr) -> Outcome {
        self.ceil_div(extent, block)
    }

    /// Whether the tile of `block` elements that begins at `start` ends within
    /// `extent` elements: a predicate, or a literal if that is known.
    ///
    /// # Errors
    /// As [`Scope::add`].
    pub fn is_full_tile(
        &self,
        start: &IndexExpr,
        block: &IndexExpr,
        extent: &IndexExpr,
    ) -> Outcome {
        self.le(&self.add(start, block)?, extent)
    }

    /// The number of elements in the tile that begins at `start`: `block` if it is full, 0 if it
    /// begins beyond the end.
    ///
    /// # Errors
    /// As [`Scope::add`].
    pub fn tile_size(&self, start: &IndexExpr, block: &IndexExpr, extent: &IndexExpr) -> Outcome {
        let rest = self.sub(extent, start)?;
        self.clamp(&rest, &self.literal(0), block)
    }

    /// The size of the partial tile of `extent` elements: the number of elements left after all
    /// full tiles.
    ///
    /// # Errors
    /// As [`Scope::floor_div`].
    pub fn partial_tile_size(&self, extent: &IndexExpr, block: &IndexExpr) -> Outcome {
        self.modulo(extent, block)
    }
}
