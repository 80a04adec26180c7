//! The scanner: characters, words, numbers and strings of a text.

use crate::Error;

/// A position in a text. White space and comments are skipped before anything is read.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The current position.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Continues at another position.
    pub(super) fn go_to(&mut self, offset: usize) {
        self.at = offset;
    }

    /// The text between two positions.
    pub(super) fn between(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// An error at the next character.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        let mut place = self.clone();
        place.skip_space();
        Error::input(message).at_text(self.text, place.at)
    }

    /// An error at a position.
    pub(super) fn error_at(&self, offset: usize, message: impl Into<String>) -> Error {
        Error::input(message).at_text(self.text, offset)
    }

    fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    fn skip_space(&mut self) {
        let bytes = self.bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') if bytes.get(self.at + 1) == Some(&b'/') => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// Whether only white space is left.
    pub(super) fn at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    /// The next character, without reading it.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.bytes().get(self.at).copied()
    }

    /// The next character, which may be white space, without reading it.
    pub(super) fn peek_directly(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    /// Reads this punctuation, if it comes next; says whether it did.
    pub(super) fn eat(&mut self, punctuation: &str) -> bool {
        self.skip_space();
        let found = self.bytes()[self.at..].starts_with(punctuation.as_bytes());
        if found {
            self.at += punctuation.len();
        }
        found
    }

    /// Reads this punctuation, if it comes next without white space before it; says whether it did.
    pub(super) fn eat_directly(&mut self, punctuation: &str) -> bool {
        let found = self.bytes()[self.at..].starts_with(punctuation.as_bytes());
        if found {
            self.at += punctuation.len();
        }
        found
    }

    /// Reads this punctuation, which must come next.
    pub(super) fn expect(&mut self, punctuation: &str) -> Result<(), Error> {
        match self.eat(punctuation) {
            true => Ok(()),
            false => Err(self.error(format!("expected `{punctuation}`"))),
        }
    }

    /// The next word, without reading it: letters, digits, `_`, `$` and `.`, not beginning with a
    /// digit.
    pub(super) fn peek_word(&mut self) -> Option<&'t str> {
        self.skip_space();
        let rest = &self.bytes()[self.at..];
        let first = *rest.first()?;
        if !first.is_ascii_alphabetic() && first != b'_' {
            return None;
        }
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.');
        let length = rest.iter().position(|b| !is_part(b));
        let length = length.unwrap_or(rest.len());
        Some(&self.text[self.at..self.at + length])
    }

    /// Reads a word, if one comes next.
    pub(super) fn word(&mut self) -> Option<&'t str> {
        let word = self.peek_word()?;
        self.at += word.len();
        Some(word)
    }

    /// Reads this word, if it comes next; says whether it did.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == Some(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// Reads this word, which must come next.
    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), Error> {
        match self.eat_word(word) {
            true => Ok(()),
            false => Err(self.error(format!("expected `{word}`"))),
        }
    }

    /// Reads a name after `%`, `@`, `#` or `!`, which may contain dashes or consist of digits.
    /// Empty if no name follows directly.
    pub(super) fn sigil_name(&mut self) -> &'t str {
        let rest = &self.bytes()[self.at..];
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.' | b'-');
        let mut length = rest.iter().position(|b| !is_part(b)).unwrap_or(rest.len());
        // `->` after a name is an arrow, not part of the name.
        if length > 0 && rest[length - 1] == b'-' && rest.get(length) == Some(&b'>') {
            length -= 1;
        }
        let name = &self.text[self.at..self.at + length];
        self.at += length;
        name
    }

    /// Reads decimal digits, if any follow directly.
    pub(super) fn digits(&mut self) -> &'t str {
        let rest = &self.bytes()[self.at..];
        let length = rest.iter().position(|b| !b.is_ascii_digit());
        let digits = &self.text[self.at..self.at + length.unwrap_or(rest.len())];
        self.at += digits.len();
        digits
    }

    /// Reads the text of a number, if one comes next: decimal or `0x...`, with optional sign,
    /// fraction and exponent.
    pub(super) fn number(&mut self) -> Option<&'t str> {
        self.skip_space();
        let bytes = self.bytes();
        let start = self.at;
        let mut at = start;
        if matches!(bytes.get(at), Some(b'-' | b'+')) {
            at += 1;
        }
        if !bytes.get(at)?.is_ascii_digit() {
            return None;
        }
        let hex = bytes[at] == b'0'
            && matches!(bytes.get(at + 1), Some(b'x' | b'X'))
            && bytes.get(at + 2).is_some_and(u8::is_ascii_hexdigit);
        if hex {
            at += 2;
            while bytes.get(at).is_some_and(u8::is_ascii_hexdigit) {
                at += 1;
            }
        } else {
            let digits = |mut at: usize| {
                while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                    at += 1;
                }
                at
            };
            at = digits(at);
            if bytes.get(at) == Some(&b'.') {
                at = digits(at + 1);
            }
            if matches!(bytes.get(at), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
                let end = digits(at + 1 + sign);
                if end > at + 1 + sign {
                    at = end;
                }
            }
        }
        self.at = at;
        Some(&self.text[start..at])
    }

    /// Reads an integer of at most 64 bits.
    pub(super) fn integer(&mut self) -> Result<i64, Error> {
        self.skip_space();
        let start = self.at;
        let number = self.number();
        let value = number.and_then(parse_integer);
        value.ok_or_else(|| self.error_at(start, "expected an integer of 64 bits"))
    }

    /// Reads a string in double quotes and resolves its escapes; see
    /// [`text_of_bytes`](crate::mlir::text_of_bytes).
    pub(super) fn string(&mut self) -> Result<String, Error> {
        let start = self.at;
        let raw = self.raw_string()?;
        if !raw.contains('\\') {
            return Ok(raw.to_owned());
        }
        let mut bytes = Vec::with_capacity(raw.len());
        let mut rest = raw.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'\\' {
                bytes.push(byte);
                continue;
            }
            let escape = rest.next().unwrap_or_default();
            match escape {
                b'n' => bytes.push(b'\n'),
                b't' => bytes.push(b'\t'),
                b'"' | b'\\' => bytes.push(escape),
                _ => {
                    let second = rest.next().unwrap_or_default();
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    let (Some(high), Some(low)) = (digit(escape), digit(second)) else {
                        return Err(self.error_at(start, "unknown escape in a string"));
                    };
                    bytes.push((16 * high + low) as u8);
                }
            }
        }
        Ok(crate::mlir::text_of_bytes(&bytes).into_owned())
    }

    /// Reads a string in double quotes, without resolving escapes.
    pub(super) fn raw_string(&mut self) -> Result<&'t str, Error> {
        self.expect("\"")?;
        let start = self.at;
        let bytes = self.bytes();
        let mut at = start;
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                Some(b'\n') | None => {
                    return Err(self.error_at(start - 1, "this string has no end on its line"));
                }
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        Ok(&self.text[start..at])
    }

    /// Skips to the closing bracket of one that was just read, past nested strings and brackets,
    /// and returns the text between.
    pub(super) fn balanced(&mut self, close: u8) -> Result<&'t str, Error> {
        let start = self.at;
        let bytes = self.bytes();
        let mut expected = vec![close];
        while let Some(&byte) = bytes.get(self.at) {
            if expected.last() == Some(&byte) {
                expected.pop();
                if expected.is_empty() {
                    let inner = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(inner);
                }
                self.at += 1;
                continue;
            }
            match byte {
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                b'<' => expected.push(b'>'),
                b'(' => expected.push(b')'),
                b'[' => expected.push(b']'),
                b'{' => expected.push(b'}'),
                b'-' if bytes.get(self.at + 1) == Some(&b'>') => self.at += 1,
                _ => {}
            }
            if expected.len() > 10_000 {
                break;
            }
            self.at += 1;
        }
        let close = char::from(close);
        Err(self.error_at(start, format!("expected a matching `{close}` after this")))
    }
}

/// The value of an integer, decimal or `0x...`; numbers from 2^63 to 2^64-1 wrap.
pub(super) fn parse_integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = match digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
    {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    match negative {
        true if magnitude > 1 << 63 => None,
        true => Some((magnitude as i64).wrapping_neg()),
        false => Some(magnitude as i64),
    }
}
