//! Maps as text; the grammar is in [`parse`].

mod parse;
mod print;

pub use parse::parse_map;
pub use print::PrintedMap;
