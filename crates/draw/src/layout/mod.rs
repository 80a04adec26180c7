//! Pictures of layouts, like the figures of the document on tiled layouts: on the left the array
//! with the position of each element in memory, on the right the memory with the element at each
//! position, padding marked.
//!
//! A picture is cut to a readable size and states what it leaves out. Positions are computed one by
//! one, so that huge arrays take no more time.

pub(crate) mod svg;
mod text;

pub use svg::svg;
pub use text::text;

use tegula_ir::ArrayShape;
use tegula_layout::physical::{PhysicalError, PhysicalLayout};

/// The largest part of an array that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most planes of the last two dimensions.
    pub planes: i64,
    /// The most rows of a plane.
    pub rows: i64,
    /// The most columns of a plane.
    pub columns: i64,
    /// The most positions of memory.
    pub places: i64,
}

/// One plane of the last two dimensions.
#[derive(Debug)]
pub(super) struct Plane {
    /// The index along the dimensions before the last two.
    pub prefix: Vec<i64>,
    /// The position in memory of each element, by row and column.
    pub rows: Vec<Vec<i64>>,
}

/// A picture of an array's layout.
#[derive(Debug)]
pub struct Picture {
    /// The array's shape as text.
    title: String,
    planes: Vec<Plane>,
    /// The elements at the first positions of the memory; `None` for padding.
    memory: Vec<Option<Vec<i64>>>,
    /// Positions in a row of the innermost tile: after this many, the memory begins a new line.
    line: i64,
    /// Positions in the outermost tile, if there is one.
    tile: i64,
    /// Positions in the innermost tile.
    inner_tile: i64,
    /// The parts that were left out, in words.
    clipped: Vec<String>,
}

impl Picture {
    /// The picture of an array, as far as the limits allow.
    pub fn new(shape: &ArrayShape, limits: Limits) -> Result<Self, PhysicalError> {
        let layout = PhysicalLayout::new(shape)?;
        let mut clipped = Vec::new();
        let mut cut = |what: &str, there: i64, most: i64| {
            if there > most {
                clipped.push(format!("{most} of {there} {what}"));
            }
            there.min(most)
        };
        let dims = shape.static_dims().unwrap_or_default();
        let split = dims.len().saturating_sub(2);
        let (outer, plane) = dims.split_at(split);
        let (rows, columns) = match plane {
            [rows, columns] => (*rows, *columns),
            [columns] => (1, *columns),
            _ => (1, 1),
        };
        let (rows, columns) = (
            cut("rows", rows, limits.rows),
            cut("columns", columns, limits.columns),
        );
        // The number of elements fits in `i64`, and so does this product, unless there are no
        // elements.
        let count = outer.iter().fold(1i64, |n, &d| n.saturating_mul(d));
        let count = cut("planes", count, limits.planes);
        let mut planes = Vec::new();
        for number in 0..if layout.elements() == 0 { 0 } else { count } {
            let prefix = unravel(number, outer);
            let place = |row: i64, column: i64| {
                let last = [row, column];
                let index: Vec<i64> = prefix
                    .iter()
                    .chain(&last[2 - plane.len().min(2)..])
                    .copied()
                    .collect();
                layout.linear_index(&index)
            };
            let row = |row| (0..columns).map(|column| place(row, column)).collect();
            let rows: Result<Vec<Vec<i64>>, _> = (0..rows).map(row).collect();
            planes.push(Plane {
                rows: rows?,
                prefix,
            });
        }
        let places = cut("places of memory", layout.padded_elements(), limits.places);
        let memory: Result<_, _> = (0..places).map(|place| layout.index_of(place)).collect();
        let tiles = shape.layout.iter().flat_map(|layout| &layout.tiles);
        let sizes = |tile: &tegula_ir::Tile| {
            let sizes = tile.dims.iter().map(|dim| match dim {
                tegula_ir::TileDim::Size(size) => *size,
                tegula_ir::TileDim::Combine => 1,
            });
            sizes.fold(1i64, i64::saturating_mul)
        };
        let inner = layout.physical_dims().last().copied().unwrap_or(1);
        Ok(Self {
            title: shape.to_string(),
            planes,
            memory: memory?,
            line: if inner > 1 { inner.min(16) } else { 8 },
            tile: tiles.clone().next().map_or(0, sizes),
            inner_tile: tiles.last().map_or(0, sizes),
            clipped,
        })
    }

    /// The parts that were left out, as a sentence.
    fn note(&self) -> Option<String> {
        let what = self.clipped.join(", ");
        (!what.is_empty()).then(|| format!("clipped: {what} are drawn"))
    }
}

/// The index of a row-major position.
pub(crate) fn unravel(mut number: i64, dims: &[i64]) -> Vec<i64> {
    let mut index = vec![0; dims.len()];
    for (at, &size) in index.iter_mut().zip(dims).rev() {
        (*at, number) = (number % size.max(1), number / size.max(1));
    }
    index
}

/// An index as text: `2,3`.
fn spell(index: &[i64]) -> String {
    let numbers: Vec<String> = index.iter().map(ToString::to_string).collect();
    numbers.join(",")
}
