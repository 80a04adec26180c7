//! Pictures of the elements of each array that the tiles of a result read: the last two dimensions
//! of each array as a grid, every element marked with the first tile that reads it; elements read
//! by several tiles are marked as shared.
//!
//! Large arrays are drawn smaller: one cell then stands for a block of elements and shows its first
//! one.

use crate::layout::svg::{COLOURS, Canvas, HEIGHT};
use std::fmt::Write;
use tegula_expr::Var;
use tegula_indexing::tiles::{Extent, Tile, TilingSpace};

/// The most tiles whose elements are marked.
const MAX_TILES: usize = 20_000;

/// The largest size of a grid.
#[derive(Clone, Copy, Debug)]
pub struct PictureLimits {
    /// The most rows.
    pub rows: i64,
    /// The most columns.
    pub columns: i64,
}

/// A picture of several arrays, the result first.
#[derive(Debug)]
pub struct Picture {
    title: String,
    arrays: Vec<Grid>,
    notes: Vec<String>,
}

/// The first plane of an array's last two dimensions.
#[derive(Debug)]
struct Grid {
    title: String,
    /// The number of elements that a cell stands for, vertically and horizontally.
    scale: (i64, i64),
    cells: Vec<Vec<Cell>>,
}

/// The tiles that take an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    /// The number of the first tile that takes it.
    tile: Option<usize>,
    /// Whether several tiles take it.
    is_shared: bool,
}

/// An array: its name, its sizes, and its tile in the tiling space.
pub type Array = (String, Vec<i64>, Vec<Tile>);

/// Marks the elements that every tile takes. Run-time values are taken at their least.
pub fn paint(
    title: String,
    space: &TilingSpace,
    arrays: &[Array],
    limits: PictureLimits,
) -> Picture {
    let counts: Vec<i64> = space
        .dims
        .iter()
        .map(|dim| dim.tile_count().unwrap_or(1))
        .collect();
    let all = space.tile_count().unwrap_or(u64::MAX);
    let mut notes = Vec::new();
    let shown = usize::try_from(all).unwrap_or(usize::MAX).min(MAX_TILES);
    if (shown as u64) < all {
        notes.push(format!("the first {shown} of {all} tiles are drawn"));
    }
    let grids = arrays.iter().map(|(name, sizes, tiles)| {
        let mut grid = Grid::new(name, sizes, limits);
        for number in 0..shown {
            let at = crate::layout::unravel(i64::try_from(number).unwrap_or(0), &counts);
            for tile in tiles {
                grid.mark(tile, &at, space, number_of(&at, space, &counts));
            }
        }
        grid
    });
    let arrays: Vec<Grid> = grids.collect();
    if arrays.iter().any(|grid| grid.scale != (1, 1)) {
        notes.push("one cell stands for several elements where a scale is given".to_owned());
    }
    Picture {
        title,
        arrays,
        notes,
    }
}

/// The number of the result's tile, in which reduced dimensions do not count.
fn number_of(at: &[i64], space: &TilingSpace, counts: &[i64]) -> usize {
    let parallel = space.parallel().count();
    let number = at.iter().zip(counts).take(parallel);
    let number = number.fold(0i64, |number, (at, count)| {
        number.saturating_mul(*count) + at
    });
    usize::try_from(number).unwrap_or(0)
}

impl Grid {
    fn new(name: &str, sizes: &[i64], limits: PictureLimits) -> Self {
        let (rows, columns) = match sizes {
            [.., rows, columns] => (*rows, *columns),
            [columns] => (1, *columns),
            [] => (1, 1),
        };
        let scale = |there: i64, most: i64| (there + most - 1) / most;
        let scale = (
            scale(rows, limits.rows).max(1),
            scale(columns, limits.columns).max(1),
        );
        let cells = (
            usize::try_from((rows + scale.0 - 1) / scale.0).unwrap_or(0),
            usize::try_from((columns + scale.1 - 1) / scale.1).unwrap_or(0),
        );
        let spelled: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        let mut title = format!("{name} [{}]", spelled.join(","));
        if sizes.len() > 2 {
            title += ", first plane";
        }
        if scale != (1, 1) {
            let _ = write!(title, ", a cell is {} x {} elements", scale.0, scale.1);
        }
        Self {
            title,
            scale,
            cells: vec![vec![Cell::default(); cells.1]; cells.0],
        }
    }

    /// Marks the elements of one tile that are in the first plane.
    fn mark(&mut self, tile: &Tile, at: &[i64], space: &TilingSpace, number: usize) {
        let dims = space.dims.len();
        let env = |var: Var| {
            let place = var.0 as usize;
            if let Some(number) = at.get(place) {
                return Some(*number);
            }
            if let Some(dim) = space.dims.get(place.checked_sub(dims)?) {
                return dim.sizes.as_point();
            }
            let runtime = tile.runtime.get(place.checked_sub(2 * dims)?)?;
            Some(runtime.variable.bounds.lower)
        };
        let Ok(Some(extents)) = tile.at(&env) else {
            return;
        };
        let split = extents.len().saturating_sub(2);
        let (outer, plane) = extents.split_at(split);
        let holds_first = |extent: &Extent| extent.first <= 0 && extent.first % extent.stride == 0;
        if !outer.iter().all(holds_first) {
            return;
        }
        // A cell that stands for several elements shows the first one.
        let indices = |extent: &Extent, scale: i64| -> Vec<usize> {
            let all = (0..extent.size).map(|j| extent.first + j * extent.stride);
            all.filter(|index| index % scale == 0)
                .filter_map(|index| usize::try_from(index / scale).ok())
                .collect()
        };
        let (rows, columns) = match plane {
            [rows, columns] => (indices(rows, self.scale.0), indices(columns, self.scale.1)),
            [columns] => (vec![0], indices(columns, self.scale.1)),
            _ => (vec![0], vec![0]),
        };
        for row in rows {
            for column in &columns {
                let cell = self.cells.get_mut(row).and_then(|row| row.get_mut(*column));
                let Some(cell) = cell else { continue };
                match cell.tile {
                    None => cell.tile = Some(number),
                    Some(known) => cell.is_shared |= known != number,
                }
            }
        }
    }
}

/// Draws a picture as text: a letter for each tile, `*` for elements of several tiles, `.` for
/// elements of none.
pub fn text(picture: &Picture) -> String {
    let mut out = String::new();
    for grid in &picture.arrays {
        let _ = writeln!(out, "{}", grid.title);
        for row in &grid.cells {
            let letters = row.iter().map(|cell| match (cell.tile, cell.is_shared) {
                (None, _) => '.',
                (Some(_), true) => '*',
                (Some(tile), false) => letter(tile),
            });
            let _ = writeln!(out, "  {}", letters.collect::<String>());
        }
    }
    for note in &picture.notes {
        let _ = writeln!(out, "{note}");
    }
    out.push_str("a letter is a tile of the result; * is read by several, . by none\n");
    out
}

fn letter(tile: usize) -> char {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char::from(LETTERS[tile % LETTERS.len()])
}

/// Draws a picture in SVG.
pub fn svg(picture: &Picture) -> String {
    let mut canvas = Canvas::default();
    let mut y = HEIGHT;
    canvas.label(4, y, &picture.title);
    for note in &picture.notes {
        y += HEIGHT;
        canvas.label(4, y, note);
    }
    y += HEIGHT;
    canvas.label(
        4,
        y,
        "colours and letters are tiles of the result; hatched: read by several; white: by none",
    );
    for grid in &picture.arrays {
        y += HEIGHT * 3 / 2;
        canvas.label(4, y, &grid.title);
        y += HEIGHT / 3;
        for row in &grid.cells {
            for (column, cell) in row.iter().enumerate() {
                let (fill, label) = match (cell.tile, cell.is_shared) {
                    (None, _) => ("white".to_owned(), String::new()),
                    (Some(_), true) => ("url(#padding)".to_owned(), String::new()),
                    (Some(tile), false) => {
                        let colour = COLOURS[tile % COLOURS.len()];
                        (colour.to_owned(), letter(tile).to_string())
                    }
                };
                canvas.cell(4 + column * HEIGHT, y, HEIGHT, &fill, &label);
            }
            y += HEIGHT;
        }
    }
    canvas.finish()
}
