//! A cursor over the text, with the basic steps of the parser.

use tegula_ir::{Error, Span};

/// The text with every comment replaced by the same number of spaces, so that positions stay.
pub(super) fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut quoted) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => quoted = !quoted,
            b'\n' => quoted = false,
            b'/' if !quoted && bytes.get(at + 1) == Some(&b'/') => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    bytes[at] = b' ';
                    at += 1;
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    // Cannot fail: whole comments were replaced, and they end at character boundaries.
    String::from_utf8(bytes).unwrap_or_default()
}

/// A place in a text.
pub(super) struct Cursor<'a> {
    /// The given text, for errors.
    source: &'a str,
    /// The text that is parsed: the given text without comments.
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// The position where each line begins.
    lines: Vec<usize>,
}

pub(super) type Read<T> = Result<T, Error>;

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}

impl<'a> Cursor<'a> {
    pub(super) fn new(source: &'a str, text: &'a str) -> Self {
        let newlines = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let lines = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1));
        Self {
            source,
            text,
            at: 0,
            lines: lines.collect(),
        }
    }

    /// The line of a position, from 1.
    pub(super) fn line_of(&self, at: usize) -> u32 {
        u32::try_from(self.lines.partition_point(|&start| start <= at)).unwrap_or(u32::MAX)
    }

    /// An error about the bytes from `start` to `end`.
    pub(super) fn error_at(&self, start: usize, end: usize, message: impl Into<String>) -> Error {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let span = Span {
            start: place(start),
            end: place(end.max(start)),
        };
        let source = if self.source.is_empty() {
            "\n"
        } else {
            self.source
        };
        Error::input(message).at(source, span)
    }

    /// An error about the next word or character.
    pub(super) fn error(&mut self, message: impl Into<String>) -> Error {
        self.space();
        let length = self.word().len().max(1);
        let end = (self.at + length).min(self.text.len());
        self.error_at(self.at, end, message)
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Skips white space, including line ends.
    pub(super) fn space(&mut self) {
        self.at += self
            .rest()
            .iter()
            .take_while(|b| b.is_ascii_whitespace())
            .count();
    }

    /// Skips blanks within the line; returns whether the line goes on.
    pub(super) fn same_line(&mut self) -> bool {
        self.at += self
            .rest()
            .iter()
            .take_while(|b| b.is_ascii_whitespace() && **b != b'\n')
            .count();
        self.rest().first().is_some_and(|&b| b != b'\n')
    }

    pub(super) fn peek(&mut self) -> Option<u8> {
        self.space();
        self.rest().first().copied()
    }

    /// The next name, without consuming it; empty if there is none. A name ends before `..`.
    pub(super) fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let starts = rest
            .first()
            .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
        let mut length = 0;
        while starts && rest.get(length).is_some_and(|&b| is_name(b)) {
            if rest.get(length) == Some(&b'.') && rest.get(length + 1) == Some(&b'.') {
                break;
            }
            length += 1;
        }
        self.text.get(self.at..self.at + length).unwrap_or("")
    }

    /// The byte after the next name.
    pub(super) fn behind_word(&mut self) -> Option<u8> {
        let length = self.word().len();
        self.rest().get(length).copied()
    }

    /// Whether the byte at a position can be part of a name.
    pub(super) fn is_in_name(&self, at: usize) -> bool {
        self.text
            .as_bytes()
            .get(at)
            .is_some_and(|&byte| is_name(byte))
    }

    /// Consumes the word if it is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// Consumes the symbol if it is next.
    pub(super) fn eat(&mut self, symbol: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(symbol.as_bytes());
        if found {
            self.at += symbol.len();
        }
        found
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Read<()> {
        if self.eat(symbol) {
            return Ok(());
        }
        Err(self.error(format!("expected `{symbol}`")))
    }

    /// Consumes a name.
    pub(super) fn name(&mut self, what: &str) -> Read<&'a str> {
        let word = self.word();
        if word.is_empty() {
            return Err(self.error(format!("expected the name of {what}")));
        }
        self.at += word.len();
        Ok(word)
    }

    /// Consumes an integer.
    pub(super) fn integer(&mut self, what: &str) -> Read<i64> {
        self.space();
        let negative = self.rest().first() == Some(&b'-');
        let digits = self
            .rest()
            .iter()
            .skip(usize::from(negative))
            .take_while(|b| b.is_ascii_digit())
            .count();
        let end = self.at + usize::from(negative) + digits;
        let number = self.text.get(self.at..end).and_then(|n| n.parse().ok());
        match number {
            Some(number) if digits > 0 => {
                self.at = end;
                Ok(number)
            }
            _ if digits > 0 => Err(self.error_at(self.at, end, "the number does not fit 64 bits")),
            _ => Err(self.error(format!("expected {what}, a number"))),
        }
    }

    /// The end of the piece of text that begins here: before the first of the symbols outside
    /// brackets, before a closing bracket, or before the end of the line if `one_line`.
    pub(super) fn piece_end(&self, stops: &[&str], one_line: bool) -> usize {
        let bytes = self.text.as_bytes();
        let (mut at, mut depth) = (self.at, 0u32);
        while let Some(&byte) = bytes.get(at) {
            let rest = &bytes[at..];
            if depth == 0 && stops.iter().any(|stop| rest.starts_with(stop.as_bytes())) {
                return at;
            }
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth == 0 => return at,
                b')' | b']' | b'}' => depth -= 1,
                b'\n' if one_line && depth == 0 => return at,
                _ => {}
            }
            at += 1;
        }
        at
    }

    /// Consumes a bracket, its content and its end; returns all of it.
    pub(super) fn bracketed(&mut self, open: &str) -> Read<&'a str> {
        self.space();
        let start = self.at;
        self.expect(open)?;
        self.at = self.piece_end(&[], false);
        if self.at >= self.text.len() {
            let message = format!("this `{open}` is not closed");
            return Err(self.error_at(start, start + 1, message));
        }
        self.at += 1;
        Ok(self.text.get(start..self.at).unwrap_or(""))
    }
}
