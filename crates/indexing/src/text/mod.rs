//! The text form of maps; [`parse`] has the grammar.

#[cfg(feature = "serde")]
mod data;
mod parse;
mod print;

pub use parse::parse_map;
pub use print::PrintedMap;
