//! A layout as an indexing map, from an element's index to its position in the buffer.
//!
//! Composed with the map of an access, it tells which positions of memory are accessed.

use super::{Change, PhysicalError, PhysicalLayout};
use tegula_expr::Term;
use tegula_indexing::{IndexingMap, Simplifier};
use tegula_ir::ArrayShape;

/// The map from an array's indices to positions in its buffer, counted in elements.
/// Not simplified.
///
/// # Errors
/// As [`PhysicalLayout::new`].
pub fn layout_map(shape: &ArrayShape) -> Result<IndexingMap, PhysicalError> {
    let layout = PhysicalLayout::new(shape)?;
    let mut map = IndexingMap::over(&layout.logical);
    let mut at: Vec<Term> = layout.order.iter().map(|&dim| map.dim(dim)).collect();
    for change in &layout.changes {
        match change {
            Change::Lead(count) => {
                at.splice(0..0, std::iter::repeat_n(Term::constant(0), *count));
            }
            Change::Combine { at: dim, minor } => {
                let major = at.remove(*dim);
                at[*dim] = major.mul(&Term::constant(*minor)).add(&at[*dim]);
            }
            Change::Tile { tile, .. } => {
                let first = at.len() - tile.len();
                for (dim, &size) in tile.iter().enumerate() {
                    let size = Term::constant(size);
                    at.push(at[first + dim].modulo(&size));
                    at[first + dim] = at[first + dim].floor_div(&size);
                }
            }
        }
    }
    let terms = at.iter().zip(&layout.physical);
    let linear = terms.fold(Term::constant(0), |linear, (at, &size)| {
        linear.mul(&Term::constant(size)).add(at)
    });
    map.results = vec![linear];
    Ok(map)
}

/// The positions of an array's buffer that an access reaches: the map of the access, composed with
/// the array's layout and simplified.
///
/// # Errors
/// As [`PhysicalLayout::new`].
pub fn physical_access(
    simplifier: &mut Simplifier,
    access: &IndexingMap,
    shape: &ArrayShape,
) -> Result<IndexingMap, PhysicalError> {
    Ok(simplifier.simplify_map(&access.compose(&layout_map(shape)?)))
}
