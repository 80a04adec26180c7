//! The reader of PTX text: tokens, the syntax tree, the parser, its errors.

mod error;
mod lexer;
mod parser;
pub(crate) mod syntax;

pub use error::ParseError;
pub(crate) use parser::parse;
