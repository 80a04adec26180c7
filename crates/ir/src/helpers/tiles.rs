//! When tiles may be left out of account: a `bitcast` between two tiled arrays whose elements lie in
//! the same places as they would without tiles, one after the other.

use crate::{ArrayShape, TileDim};

/// Whether the element at each address is the same one in both arrays, and it is the one that has the
/// same number when elements are counted in the order of the layouts, without tiles.
///
/// A tile `T(8,128)` cuts the two fastest dimensions, pads each to a multiple of the tile's size, and
/// puts one tile behind the other. So the places are equal where the fastest dimensions are: equal
/// sizes are padded alike. The last dimension that a tile cuts may have another size if it is a
/// multiple of the tile's in both arrays: rows are then cut and counted across it as one dimension.
///
/// `false` is "not known": tiles that combine dimensions are not looked into, nor sizes that are open.
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
    // Further tiles cut the first one, if they have no more dimensions than it.
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

/// The sizes in the order of the layout.
fn fastest_first(shape: &ArrayShape) -> Option<Vec<i64>> {
    let layout = shape.layout.as_deref()?;
    let dims = shape.static_dims()?;
    let order = layout.minor_to_major.iter();
    order.map(|&d| dims.get(d as usize).copied()).collect()
}
