//! Tiles: arrays that are contiguous along the rows of a block, and whose lanes are far apart.
//!
//! In a transposition each lane's element is in a cache line of its own, and the next row's elements
//! are in the same lines. The code around the rows transposes such parts of arrays; the body of a row
//! then loads its lanes from a row of the tile.

use super::{Reason, Run, Source, Translator, Use};
use crate::analysis::affine_access::split;
use crate::simd::ir::{Access, Input};
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::IndexVar;

/// The maximum number of lanes of a tile.
pub(crate) const TILE_LANES: i64 = 128;
/// The bytes of a tile: a cache line of each lane.
pub(crate) const TILE_BYTES: i64 = 64 * TILE_LANES;
/// The maximum number of tiles of a body: together with what the rows write, they fit the first-level
/// cache.
const MOST_TILES: usize = 2;
/// Lanes that are no further apart are loaded as contiguous vectors and shuffled.
const NEAR: i64 = 16;
/// The minimum number of rows, and of lanes, that are worth a tile.
const FEWEST: i64 = 8;
/// The minimum number of elements: for fewer, gathers take less time than compiling tiles.
const FEWEST_ELEMENTS: i64 = 2048;

/// A part of an array whose lanes and rows are exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// The array.
    pub param: usize,
    /// The offset, in elements, of the first lane in a row.
    pub first: Term,
    /// The elements from lane to lane.
    pub distance: Term,
    /// The bytes of an element.
    pub bytes: u32,
}

/// Translates the kernel's body like [`super::domain_run`], for blocks of rows along a dimension. Fails if
/// a load would still be a gather.
pub(crate) fn run_of_tiles(
    kernel: &Kernel,
    merged: &[Var],
    extent: Option<i64>,
    row: Var,
) -> Result<Run, Reason> {
    let rows = kernel.constant_extent(row);
    let is_short = |count: Option<i64>| count.is_some_and(|n| n < FEWEST);
    let mut sizes = kernel.domain.iter().map(|&var| kernel.constant_extent(var));
    let elements = sizes.try_fold(1i64, |n, size| Some(n.saturating_mul(size?)));
    if is_short(extent) || is_short(rows) || elements.is_some_and(|n| n < FEWEST_ELEMENTS) {
        return Err(Reason::new("few rows or lanes"));
    }
    let run = super::domain_run_in_rows(kernel, merged, extent, Some(row))?;
    match run.gathers == 0 && !run.tiles.is_empty() {
        true => Ok(run),
        false => Err(Reason::new(
            "a gather that cannot be loaded as a transposed tile",
        )),
    }
}

impl Translator<'_> {
    /// The access to a row of a tile, if an array can be one.
    pub(super) fn tile_access(&mut self, param: usize, index: &[Term]) -> Option<u32> {
        let row = self.row?;
        let is_always_read = self.mask.is_none() && self.taken.is_empty() && self.frames.is_empty();
        let declared = &self.kernel.params[param];
        let bytes = declared.element_type.storage_bytes();
        if !is_always_read || declared.access != Use::Read || !matches!(bytes, 1 | 2 | 4 | 8) {
            return None;
        }
        let (linear, mut storage, _) = self.linear(param, index);
        storage.bytes = bytes as u32;
        let (first, _, distance) = self.linear_place(&linear)?;
        let is_far = distance.as_constant().is_none_or(|n| n > NEAR);
        let (step, _) = split(&first, row)?;
        // Indices that each row loads are not known before the rows.
        let mut is_known = true;
        for term in [&first, &distance] {
            term.for_each_var(&mut |var| {
                let kind = self.kernel.var(var);
                is_known &= !matches!(kind, Some(IndexVar::Runtime { .. }) | None);
            });
        }
        if !is_far || !is_known || step.as_constant() != Some(1) {
            return None;
        }
        let tile = Tile {
            param,
            first,
            distance,
            bytes: storage.bytes,
        };
        let number = match self.tiles.iter().position(|known| *known == tile) {
            Some(known) => known,
            None if self.tiles.len() < MOST_TILES => {
                self.tiles.push(tile);
                self.tiles.len() - 1
            }
            None => return None,
        };
        let pointer = self.source(Source::Tile(number), Input::Integer);
        Some(self.builder.access(Access {
            pointer,
            storage,
            splat: false,
        }))
    }
}
