//! Tokens of HLO text.
//!
//! Some attribute values are single tokens: `3x5` (sizes), `1_1x2_2_1` (padding) and
//! `b01f_01io->b01f` (dimension labels). The longest match wins, so a name such as `b01f` or a
//! number such as `3` is still a token of its own. Words are not classified: `ROOT`, `f32` and
//! `add.1` are all [`Token::Word`].

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
    #[token(",")]
    Comma,
    #[token("=")]
    Equal,
    #[token(":")]
    Colon,
    #[token("*")]
    Star,
    #[token("#")]
    Hash,
    #[token("?")]
    Question,
    #[token("+")]
    Plus,
    #[token("~")]
    Tilde,
    #[token("->")]
    Arrow,
    #[token("<=")]
    LessEqual,
    #[token("...")]
    Ellipsis,
    /// `%name`.
    #[regex(r"%[a-zA-Z_][a-zA-Z0-9_.\-]*")]
    Name,
    #[regex(r"[a-zA-Z_][a-zA-Z0-9_.\-]*")]
    Word,
    #[regex(r"-?[0-9]+", priority = 10)]
    Int,
    #[regex(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?")]
    #[regex(r"[-+](inf|nan)")]
    Decimal,
    #[regex(r"-?[0-9]+(x-?[0-9]+)+")]
    Sizes,
    #[regex(r"-?[0-9]+_-?[0-9]+(_[0-9]+)?(x-?[0-9]+_-?[0-9]+(_[0-9]+)?)*")]
    Padding,
    #[regex(r"[0-9bf?]{2,}_[0-9io?]{2,}->[0-9bf?]{2,}", priority = 20)]
    DimLabels,
    #[regex(r#""([^"\\]|\\(.|\n))*""#)]
    #[regex(r"'([^'\\]|\\(.|\n))*'")]
    Text,
}

impl Token {
    /// The token's description in error messages.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::BraceOpen => "`{`",
            Self::BraceClose => "`}`",
            Self::ParenOpen => "`(`",
            Self::ParenClose => "`)`",
            Self::BracketOpen => "`[`",
            Self::BracketClose => "`]`",
            Self::Comma => "`,`",
            Self::Equal => "`=`",
            Self::Colon => "`:`",
            Self::Star => "`*`",
            Self::Hash => "`#`",
            Self::Question => "`?`",
            Self::Plus => "`+`",
            Self::Tilde => "`~`",
            Self::Arrow => "`->`",
            Self::LessEqual => "`<=`",
            Self::Ellipsis => "`...`",
            Self::Name | Self::Word => "a name",
            Self::Int => "an integer",
            Self::Decimal => "a number",
            Self::Sizes => "sizes such as `3x5`",
            Self::Padding => "padding such as `1_1x2_2`",
            Self::DimLabels => "dimension labels such as `b01f_01io->b01f`",
            Self::Text => "a quoted string",
        }
    }
}
