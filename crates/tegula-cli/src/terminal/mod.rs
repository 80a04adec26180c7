//! Output for a person: lines of text, colours, tables, and a spinner while a command works.
//!
//! All output goes through [`output`], which drops colours if the stream is not a terminal.

pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod result_file;
pub(crate) mod style;
pub(crate) mod table;

/// Formats a number of things: `1 result`, `2 results`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {thing}s"),
    }
}
