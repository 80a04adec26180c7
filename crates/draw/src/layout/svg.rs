//! Draws a layout in SVG: elements are coloured by their outermost tile, each innermost tile has a
//! red border, and padding is hatched.

use super::{Picture, spell};
use std::fmt::Write;

/// The height of a cell, in SVG units.
pub(crate) const HEIGHT: usize = 22;
/// The blank margin at the right and below.
const MARGIN: usize = 4;
/// The width of one letter of the font.
const LETTER: usize = 7;
/// Colours of adjacent tiles: pale forms of Okabe and Ito's palette, which colour-blind readers can
/// tell apart.
pub(crate) const COLOURS: [&str; 6] = [
    "#cfe8f7", "#fbe3bf", "#c9ece0", "#f6d6e6", "#fdf6c3", "#d3def3",
];

/// Draws a picture in SVG.
pub fn svg(picture: &Picture) -> String {
    let mut canvas = Canvas::default();
    let mut y = HEIGHT;
    canvas.label(4, y, &picture.title);
    if let Some(note) = picture.note() {
        y += HEIGHT;
        canvas.label(4, y, &note);
    }
    y += HEIGHT / 2;
    let widest = picture.planes.iter().flat_map(|p| p.rows.iter().flatten());
    let letters = widest.max().map_or(1, |place| place.to_string().len());
    let width = (letters + 2) * LETTER;
    for plane in &picture.planes {
        if !plane.prefix.is_empty() {
            y += HEIGHT;
            canvas.label(4, y, &format!("[{},*,*]", spell(&plane.prefix)));
            y += HEIGHT / 4;
        }
        for row in &plane.rows {
            for (column, &place) in row.iter().enumerate() {
                let fill = colour(place, picture.tile);
                canvas.cell(4 + column * width, y, width, fill, &place.to_string());
            }
            y += HEIGHT;
        }
        inner_tiles(&mut canvas, picture, plane, width, y);
        y += HEIGHT / 2;
    }
    y += HEIGHT;
    canvas.label(4, y, "memory; hatched positions are padding");
    y += HEIGHT / 2;
    memory(&mut canvas, picture, y);
    canvas.finish()
}

/// Draws borders around the elements of each innermost tile, where they form a rectangle.
fn inner_tiles(
    canvas: &mut Canvas,
    picture: &Picture,
    plane: &super::Plane,
    width: usize,
    end: usize,
) {
    if picture.inner_tile <= 1 {
        return;
    }
    let start = end - plane.rows.len() * HEIGHT;
    let tile = |row: usize, column: usize| {
        let place = plane.rows.get(row)?.get(column)?;
        Some(place / picture.inner_tile)
    };
    for row in 0..plane.rows.len() {
        for column in 0..plane.rows[row].len() {
            let (x, y) = (4 + column * width, start + row * HEIGHT);
            let own = tile(row, column);
            if column == 0 || tile(row, column - 1) != own {
                canvas.border(x, y, x, y + HEIGHT);
            }
            if row == 0 || tile(row - 1, column) != own {
                canvas.border(x, y, x + width, y);
            }
            if tile(row, column + 1) != own {
                canvas.border(x + width, y, x + width, y + HEIGHT);
            }
            if tile(row + 1, column) != own {
                canvas.border(x, y + HEIGHT, x + width, y + HEIGHT);
            }
        }
    }
}

fn memory(canvas: &mut Canvas, picture: &Picture, start: usize) {
    let spelled = picture
        .memory
        .iter()
        .flatten()
        .map(|index| spell(index).len());
    let width = (spelled.max().unwrap_or(1) + 2) * LETTER;
    let line = usize::try_from(picture.line).unwrap_or(8).max(1);
    for (place, element) in picture.memory.iter().enumerate() {
        let (x, y) = (4 + place % line * width, start + place / line * HEIGHT);
        match element {
            Some(index) => {
                let fill = colour(i64::try_from(place).unwrap_or(0), picture.tile);
                canvas.cell(x, y, width, fill, &spell(index));
            }
            None => canvas.cell(x, y, width, "url(#padding)", ""),
        }
    }
}

fn colour(place: i64, tile: i64) -> &'static str {
    match tile {
        0 => COLOURS[0],
        tile => {
            let number = usize::try_from(place / tile.max(1)).unwrap_or(0);
            COLOURS[number % COLOURS.len()]
        }
    }
}

/// The shapes drawn so far, and their extent.
#[derive(Default)]
pub(crate) struct Canvas {
    body: String,
    width: usize,
    height: usize,
}

impl Canvas {
    fn grow(&mut self, x: usize, y: usize) {
        self.width = self.width.max(x);
        self.height = self.height.max(y);
    }

    pub(crate) fn label(&mut self, x: usize, y: usize, text: &str) {
        self.grow(x + (text.len() + 1) * LETTER, y + 4);
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(self.body, r#"<text x="{x}" y="{y}">{text}</text>"#);
    }

    pub(crate) fn cell(&mut self, x: usize, y: usize, width: usize, fill: &str, text: &str) {
        self.grow(x + width + 4, y + HEIGHT + 4);
        let (middle, base) = (x + width / 2, y + HEIGHT - 7);
        let _ = writeln!(
            self.body,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" fill="{fill}" stroke="gray"/><text x="{middle}" y="{base}" text-anchor="middle">{text}</text>"#
        );
    }

    fn border(&mut self, x1: usize, y1: usize, x2: usize, y2: usize) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="red" stroke-width="2"/>"#
        );
    }

    pub(crate) fn finish(self) -> String {
        let (width, height, body) = (self.width + MARGIN, self.height + MARGIN, self.body);
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="monospace" font-size="12" fill="#1b1b1b">
<rect width="100%" height="100%" rx="4" fill="white"/>
<defs><pattern id="padding" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="white"/><path d="M0,6 L6,0" stroke="gray"/></pattern></defs>
{body}</svg>
"##
        )
    }
}
