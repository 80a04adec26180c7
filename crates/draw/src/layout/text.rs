//! Draws a layout as text.

use super::{Picture, spell};
use std::fmt::Write;

/// Draws a picture as text.
pub fn text(picture: &Picture) -> String {
    let mut out = format!("{}\n", picture.title);
    if let Some(note) = picture.note() {
        let _ = writeln!(out, "{note}");
    }
    let widest = |plane: &super::Plane| plane.rows.iter().flatten().copied().max();
    let widest = picture.planes.iter().filter_map(widest).max().unwrap_or(0);
    let width = widest.to_string().len() + 1;
    out.push_str("\nthe position of each element\n");
    for plane in &picture.planes {
        if !plane.prefix.is_empty() {
            let _ = writeln!(out, "[{},*,*]", spell(&plane.prefix));
        }
        for row in &plane.rows {
            for place in row {
                let _ = write!(out, "{place:>width$}");
            }
            out.push('\n');
        }
    }
    let _ = writeln!(
        out,
        "\nmemory: the element at each position, `--` for padding"
    );
    let cells: Vec<String> = picture
        .memory
        .iter()
        .map(|place| {
            place
                .as_deref()
                .map_or("--".to_owned(), |i| format!("({})", spell(i)))
        })
        .collect();
    let width = cells.iter().map(String::len).max().unwrap_or(0) + 1;
    let line = usize::try_from(picture.line).unwrap_or(8).max(1);
    for (number, places) in cells.chunks(line).enumerate() {
        let _ = write!(out, "{:>8}:", number * line);
        for cell in places {
            let _ = write!(out, "{cell:>width$}");
        }
        out.push('\n');
    }
    out
}
