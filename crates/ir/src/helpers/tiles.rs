//! Bitcasts between tiled arrays that keep the order of elements, so that the tiles may be ignored.

use crate::{ArrayShape, TileDim};

/// Whether a `bitcast` between two tiled arrays keeps the order of elements: at each address, both
/// arrays hold the element with the same number, counted in the order of the layouts without tiles.
///
/// A tile `T(8,128)` divides the two fastest-varying dimensions, pads each to a multiple of the
/// tile's size, and stores tiles one after the other. Addresses therefore agree if the
/// fastest-varying dimensions agree, because equal sizes are padded alike. The slowest dimension
/// that a tile divides may differ if its size is a multiple of the tile's in both arrays: the tiles
/// are then numbered across it and the slower dimensions as across one dimension.
///
/// `false` means "not known": tiles that combine dimensions and open sizes are not analysed.
pub fn tiles_keep_order(from: &ArrayShape, to: &ArrayShape) -> bool {
    let tiles = |shape: &ArrayShape| shape.layout.as_deref().map(|l| l.tiles.clone());
    let (from_tiles, to_tiles) = (
        tiles(from).unwrap_or_default(),
        tiles(to).unwrap_or_default(),
    );
    if from_tiles != to_tiles {
        return false;
    }
    let Some(outermost) = from_tiles.first() else {
        return true;
    };
    if from.element_type.bits() != to.element_type.bits() {
        return false;
    }
    let (Some(from), Some(to)) = (fastest_first(from), fastest_first(to)) else {
        return false;
    };
    if from == to {
        return true;
    }
    let elements = |sizes: &[i64]| sizes.iter().try_fold(1i64, |n, &d| n.checked_mul(d));
    if elements(&from).is_none_or(|count| elements(&to) != Some(count)) {
        return false;
    }
    let cut = outermost.dims.len();
    // Further tiles subdivide the first one only if they have no more dimensions than it.
    if from_tiles.iter().any(|tile| tile.dims.len() > cut) {
        return false;
    }
    if from.len() < cut || to.len() < cut {
        return false;
    }
    for (place, tile) in outermost.dims.iter().rev().enumerate() {
        let &TileDim::Size(tile) = tile else {
            return false;
        };
        if from[place] == to[place] {
            continue;
        }
        let is_whole = |size: i64| tile > 0 && size % tile == 0;
        let slower = &outermost.dims[..cut - 1 - place];
        let uncut = slower.iter().all(|&t| t == TileDim::Size(1));
        return is_whole(from[place]) && is_whole(to[place]) && uncut;
    }
    true
}

/// The sizes, the fastest-varying dimension first.
fn fastest_first(shape: &ArrayShape) -> Option<Vec<i64>> {
    let layout = shape.layout.as_deref()?;
    let dims = shape.static_dims()?;
    let order = layout.minor_to_major.iter();
    order.map(|&d| dims.get(d as usize).copied()).collect()
}
