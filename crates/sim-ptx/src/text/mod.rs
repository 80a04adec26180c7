//! PTX text to a syntax tree: tokens, the tree, the reader, its errors.

mod error;
mod lexer;
mod parser;
pub(crate) mod syntax;

pub use error::ParseError;
pub(crate) use parser::parse;
