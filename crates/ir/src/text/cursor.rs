//! The cursor: a position in the text, with one token of lookahead.

use super::lexer::Token;
use super::tree::RawComputation;
use super::{FillElided, ReadOptions};
use crate::{Error, Span};
use logos::Logos;

/// The maximum nesting of shapes, operands and raw values. Deeper text is an error, so that
/// recursion fits any thread's stack.
pub(crate) const MAX_DEPTH: u32 = 64;

/// A token with its text and place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme<'a> {
    pub(crate) token: Token,
    pub(crate) text: &'a str,
    pub(crate) span: Span,
}

/// Reads tokens one after the other, with one token of lookahead.
pub(crate) struct Cursor<'a> {
    source: &'a str,
    lexer: logos::Lexer<'a, Token>,
    /// The position in `source` at which the lexer's text begins.
    base: usize,
    next: Option<Result<Lexeme<'a>, Span>>,
    /// The end of the last token taken.
    end: usize,
    depth: u32,
    /// Computations that are written inline, in the place of their names.
    pub(crate) inline: Vec<RawComputation<'a>>,
    /// The function that makes elements of abbreviated constants, and the number of its calls.
    pub(crate) fill: Option<FillElided<'a>>,
    pub(crate) filled: u64,
}

/// The position at which a program begins: after leading lines that begin with `#`, such as the
/// commands of XLA's own tests (`# RUN: ...`).
fn after_leading_comments(source: &str) -> usize {
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let text = line.trim_start();
        if !text.is_empty() && !text.starts_with('#') {
            break;
        }
        start += line.len();
    }
    start
}

fn to_span(start: usize, end: usize) -> Span {
    Span {
        start: u32::try_from(start).unwrap_or(u32::MAX),
        end: u32::try_from(end).unwrap_or(u32::MAX),
    }
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of the text. Fails if the text is too long for spans.
    pub(crate) fn new(source: &'a str) -> Result<Self, Error> {
        Self::with_options(source, &ReadOptions::default())
    }

    /// As [`Self::new`], with options.
    pub(crate) fn with_options(source: &'a str, options: &ReadOptions<'a>) -> Result<Self, Error> {
        if u32::try_from(source.len()).is_err() {
            return Err(Error::limit("texts of 4 GiB or more are not supported"));
        }
        let mut cursor = Self {
            source,
            lexer: Token::lexer(source),
            base: 0,
            next: None,
            end: 0,
            depth: 0,
            inline: Vec::new(),
            fill: options.fill_elided,
            filled: 0,
        };
        cursor.jump(after_leading_comments(source));
        cursor.end = 0;
        Ok(cursor)
    }

    pub(crate) fn source(&self) -> &'a str {
        self.source
    }

    fn advance(&mut self) {
        self.next = self.lexer.next().map(|result| {
            let range = self.lexer.span();
            let span = to_span(self.base + range.start, self.base + range.end);
            match result {
                Ok(token) => Ok(Lexeme {
                    token,
                    text: self.lexer.slice(),
                    span,
                }),
                Err(()) => Err(span),
            }
        });
    }

    /// Continues at a byte of the text, which is a character boundary.
    fn jump(&mut self, position: usize) {
        self.base = position;
        self.lexer = Token::lexer(self.source.get(position..).unwrap_or_default());
        self.end = position;
        self.advance();
    }

    /// The kind of the next token, if there is one and it is well-formed.
    pub(crate) fn peek(&self) -> Option<Token> {
        match self.next {
            Some(Ok(lexeme)) => Some(lexeme.token),
            _ => None,
        }
    }

    /// The text of the next token, or an empty one.
    pub(crate) fn peek_text(&self) -> &'a str {
        match self.next {
            Some(Ok(lexeme)) => lexeme.text,
            _ => "",
        }
    }

    /// The kind of the token after the next.
    pub(crate) fn peek_second(&self) -> Option<Token> {
        self.lexer.clone().next()?.ok()
    }

    /// Whether all tokens have been taken.
    pub(crate) fn at_end(&self) -> bool {
        self.next.is_none()
    }

    /// The place of the next token, or the end of the text.
    pub(crate) fn span(&self) -> Span {
        match self.next {
            Some(Ok(lexeme)) => lexeme.span,
            Some(Err(span)) => span,
            None => to_span(self.source.len(), self.source.len()),
        }
    }

    /// The range from the start of `from` to the end of the last token taken.
    pub(crate) fn span_since(&self, from: Span) -> Span {
        Span {
            end: to_span(self.end, self.end).end.max(from.start),
            ..from
        }
    }

    /// The text in a range.
    pub(crate) fn slice(&self, span: Span) -> &'a str {
        let range = span.start as usize..span.end as usize;
        self.source.get(range).unwrap_or_default()
    }

    /// An error at the next token.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        self.error_at(self.span(), message)
    }

    /// An error at a place.
    pub(crate) fn error_at(&self, span: Span, message: impl Into<String>) -> Error {
        Error::input(message).at(self.source, span)
    }

    /// "expected ..., found ...", at the next token.
    pub(crate) fn expected(&self, what: &str) -> Error {
        let found = match self.next {
            Some(Ok(Lexeme { token, text, .. })) => match token {
                Token::Word | Token::Name | Token::Int | Token::Decimal => {
                    format!("`{}`", shortened(text))
                }
                _ => token.describe().to_owned(),
            },
            Some(Err(span)) => {
                return self.unreadable(span);
            }
            None => "the end of the text".to_owned(),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    fn unreadable(&self, span: Span) -> Error {
        let rest = self.source.get(span.start as usize..).unwrap_or_default();
        let message = match rest.chars().next() {
            Some('"' | '\'') => "the string that starts here has no end".to_owned(),
            Some('/') if rest.starts_with("/*") => {
                "the comment that starts here has no end".to_owned()
            }
            Some(character) => format!("unexpected character {character:?}"),
            None => "unexpected end of the text".to_owned(),
        };
        self.error_at(span, message)
    }

    /// Takes the next token, whatever it is.
    pub(crate) fn take(&mut self) -> Result<Lexeme<'a>, Error> {
        match self.next {
            Some(Ok(lexeme)) => {
                self.end = lexeme.span.end as usize;
                self.advance();
                Ok(lexeme)
            }
            _ => Err(self.expected("more")),
        }
    }

    /// Takes the next token if it is of this kind; says whether it was.
    pub(crate) fn eat(&mut self, token: Token) -> bool {
        let found = self.peek() == Some(token);
        if let (true, Some(Ok(lexeme))) = (found, self.next) {
            self.end = lexeme.span.end as usize;
            self.advance();
        }
        found
    }

    /// Takes the next token if it is this word; says whether it was.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        self.peek() == Some(Token::Word) && self.peek_text() == word && self.eat(Token::Word)
    }

    /// Takes the next token, which must be of this kind.
    pub(crate) fn expect(&mut self, token: Token) -> Result<Lexeme<'a>, Error> {
        if self.peek() != Some(token) {
            return Err(self.expected(token.describe()));
        }
        self.take()
    }

    /// Takes a word.
    pub(crate) fn word(&mut self, what: &str) -> Result<Lexeme<'a>, Error> {
        if self.peek() != Some(Token::Word) {
            return Err(self.expected(what));
        }
        self.take()
    }

    /// Takes a name, with or without `%`; the returned text is without it.
    pub(crate) fn name(&mut self, what: &str) -> Result<Lexeme<'a>, Error> {
        match self.peek() {
            Some(Token::Name | Token::Word) => {
                let mut lexeme = self.take()?;
                lexeme.text = lexeme.text.strip_prefix('%').unwrap_or(lexeme.text);
                Ok(lexeme)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Takes an integer.
    pub(crate) fn int(&mut self) -> Result<i64, Error> {
        if self.peek() != Some(Token::Int) {
            return Err(self.expected("an integer"));
        }
        let lexeme = self.take()?;
        parse_int(lexeme.text).ok_or_else(|| {
            let text = shortened(lexeme.text);
            self.error_at(lexeme.span, format!("{text} does not fit into 64 bits"))
        })
    }

    /// Takes `true` or `false` (or 1 or 0).
    pub(crate) fn boolean(&mut self) -> Result<bool, Error> {
        let value = match self.peek_text() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(self.expected("`true` or `false`")),
        };
        self.take()?;
        Ok(value)
    }

    /// Takes a list `open item, item, ... close`, in which `item` reads one item.
    pub(crate) fn list(
        &mut self,
        open: Token,
        close: Token,
        mut item: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.expect(open)?;
        if self.eat(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.eat(close) {
                return Ok(());
            }
            if !self.eat(Token::Comma) {
                let what = format!("`,` or {}", close.describe());
                return Err(self.expected(&what));
            }
        }
    }

    /// Runs `inner` one nesting level deeper; an error if that exceeds the limit.
    pub(crate) fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth >= MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} levels deep");
            return Err(Error::limit(message).at(self.source, self.span()));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Takes `{...}` as text, whatever it contains. Brackets must balance, except for those inside
    /// `"..."`.
    pub(crate) fn raw_braces(&mut self) -> Result<&'a str, Error> {
        if self.peek() != Some(Token::BraceOpen) {
            return Err(self.expected("`{`"));
        }
        let start = self.span().start as usize;
        let rest = self.source.get(start..).unwrap_or_default();
        let Some(length) = balanced_length(rest.as_bytes()) else {
            return Err(self.error("this `{` is never closed"));
        };
        self.jump(start + length);
        Ok(rest.get(..length).unwrap_or_default())
    }
}

/// The length of the `{...}` with which a text begins; `None` if it is not closed.
fn balanced_length(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut bytes = text.iter().enumerate();
    while let Some((position, byte)) = bytes.next() {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(position + 1);
                }
            }
            b'"' => loop {
                match bytes.next()?.1 {
                    b'"' => break,
                    b'\\' => {
                        bytes.next()?;
                    }
                    _ => {}
                }
            },
            _ => {}
        }
    }
    None
}

/// A 64-bit integer; unsigned ones above `i64::MAX` wrap, as in XLA.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let unsigned = || text.parse::<u64>().ok().map(u64::cast_signed);
    text.parse::<i64>().ok().or_else(unsigned)
}

/// The first 40 characters of a text, for error messages.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
