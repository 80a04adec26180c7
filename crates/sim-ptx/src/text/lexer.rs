//! Tokens of PTX text.
//!
//! An opcode with modifiers is a [`Token::Word`] followed by [`Token::Dotted`] tokens; so is a
//! special register with its component (`%tid` `.x`).

use logos::Logos;

/// A token. White space and comments are skipped.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\f]+")]
#[logos(skip(r"//[^\n]*", allow_greedy = true))]
#[logos(skip r"/\*([^*]|\*+[^*/])*\*+/")]
pub(crate) enum Token {
    #[token("{")]
    BraceOpen,
    #[token("}")]
    BraceClose,
    #[token("(")]
    ParenOpen,
    #[token(")")]
    ParenClose,
    #[token("[")]
    BracketOpen,
    #[token("]")]
    BracketClose,
    #[token("<")]
    AngleOpen,
    #[token(">")]
    AngleClose,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[token(":")]
    Colon,
    #[token("=")]
    Equal,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("!")]
    Not,
    #[token("|")]
    Bar,
    #[token("@")]
    At,
    /// A name, a register, or an opcode.
    #[regex(r"[a-zA-Z_$%][a-zA-Z0-9_$]*")]
    Word,
    /// `.global`, `.f32`, `.shared::cta`, `.x`.
    #[regex(r"\.[a-zA-Z0-9_]+(::[a-zA-Z0-9_]+)*")]
    Dotted,
    #[regex(r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+U?", priority = 5)]
    Integer,
    /// `0f3F800000`: the bits of an `f32`.
    #[regex(r"0[fF][0-9a-fA-F]{8}", priority = 10)]
    Single,
    /// `0d3FF0000000000000`: the bits of an `f64`.
    #[regex(r"0[dD][0-9a-fA-F]{16}", priority = 10)]
    Double,
    #[regex(r"[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?")]
    Decimal,
    #[regex(r#""[^"\n]*""#)]
    Text,
}
