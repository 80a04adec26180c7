//! Maps as text; the grammar is in [`parse`].

#[cfg(feature = "serde")]
mod data;
mod parse;
mod print;

pub use parse::parse_map;
pub use print::PrintedMap;
