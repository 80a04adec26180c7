//! A lexer for the text of a plan: a position in the text, and the tokens there (symbols, words,
//! numbers, quoted names, terms).

use tegula_arena::EntityRef;
use tegula_expr::{Term, Var, parse_prefix};
use tegula_ir::ElementType;

/// How deeply steps and blocks may nest in a text: the limit [`tegula_fusion::MAX_DEPTH`] of
/// programs, plus loops inside of kernels.
pub(super) const MAX_DEPTH: u32 = 300;

/// Why and where a text is not a valid plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct PlanParseError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

pub(super) type Result<T> = std::result::Result<T, PlanParseError>;

/// Reads a text from left to right; tokens may be separated by blanks and line ends.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// The length of the whole text in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The byte offset of the next token.
    pub(super) fn offset(&mut self) -> usize {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_ascii_start().len();
        self.at
    }

    /// The byte offset just after the last token taken.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn at_end(&mut self) -> bool {
        self.offset() >= self.text.len()
    }

    /// Returns an error at a byte offset of the text.
    pub(super) fn error_at<T>(&self, offset: usize, message: impl Into<String>) -> Result<T> {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = self.text.get(..offset).unwrap_or_default();
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let last = before.rsplit('\n').next().unwrap_or_default();
        Err(PlanParseError {
            line,
            column: last.chars().count() + 1,
            message: message.into(),
        })
    }

    /// Returns an error at the next token.
    pub(super) fn error<T>(&mut self, message: impl Into<String>) -> Result<T> {
        let offset = self.offset();
        self.error_at(offset, message)
    }

    /// Returns an error "expected ..., found ..." at the next token.
    pub(super) fn expected<T>(&mut self, what: &str) -> Result<T> {
        let found = match (self.peek_word(), self.rest().chars().next()) {
            ("", None) => "the end of the text".to_owned(),
            ("", Some(character)) => format!("{character:?}"),
            (word, _) => format!("`{}`", shortened(word)),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    /// Takes a symbol if it is next, and returns whether it was.
    pub(super) fn take(&mut self, symbol: &str) -> bool {
        self.offset();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    /// Whether this character is next on the same line.
    pub(super) fn follows_on_line(&self, character: char) -> bool {
        self.rest().trim_start_matches(' ').starts_with(character)
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<()> {
        match self.take(symbol) {
            true => Ok(()),
            false => self.expected(&format!("`{symbol}`")),
        }
    }

    /// The next word without taking it; empty if there is none. Words consist of letters, digits,
    /// `_`, and `-` unless that begins an arrow.
    pub(super) fn peek_word(&mut self) -> &'a str {
        self.offset();
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let part = |i: usize| match bytes.get(i) {
            Some(b'-') => bytes.get(i + 1) != Some(&b'>'),
            Some(byte) => byte.is_ascii_alphanumeric() || *byte == b'_',
            None => false,
        };
        let starts = bytes.first().is_some_and(u8::is_ascii_alphabetic);
        let length = (0..).take_while(|&i| part(i)).count();
        let length = if starts { length } else { 0 };
        rest.get(..length).unwrap_or_default()
    }

    /// Takes the next word; empty if there is none.
    pub(super) fn word(&mut self) -> &'a str {
        let word = self.peek_word();
        self.at += word.len();
        word
    }

    /// Takes this word if it is next, and returns whether it was.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<()> {
        match self.take_word(word) {
            true => Ok(()),
            false => self.expected(&format!("`{word}`")),
        }
    }

    /// Takes an integer that fits `T`.
    pub(super) fn integer<T: std::str::FromStr>(&mut self) -> Result<T> {
        let offset = self.offset();
        let rest = self.rest();
        let sign = usize::from(rest.starts_with('-'));
        let digits = rest.bytes().skip(sign);
        let digits = digits.take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return self.expected("an integer");
        }
        let number = rest.get(..sign + digits).unwrap_or_default();
        self.at += number.len();
        match number.parse() {
            Ok(value) => Ok(value),
            Err(_) => self.error_at(offset, format!("{} is out of range", shortened(number))),
        }
    }

    /// Takes a hexadecimal number `0x...` of at most 128 bits.
    pub(super) fn bits(&mut self) -> Result<u128> {
        let offset = self.offset();
        if !self.take("0x") {
            return self.expected("bits such as `0x3f`");
        }
        let digits = self.rest().bytes().take_while(u8::is_ascii_hexdigit);
        let digits = self.rest().get(..digits.count()).unwrap_or_default();
        self.at += digits.len();
        match u128::from_str_radix(digits, 16) {
            Ok(bits) => Ok(bits),
            Err(_) => self.error_at(offset, "expected at most 32 hexadecimal digits after `0x`"),
        }
    }

    /// Takes a number with a letter before it, such as `x12`.
    pub(super) fn numbered(&mut self, prefix: char, what: &str) -> Result<u32> {
        let word = self.peek_word();
        let digits = word.strip_prefix(prefix).unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.expected(&format!("{what} such as `{prefix}0`"));
        }
        let offset = self.at;
        self.at += word.len();
        // Entity maps reserve the largest number for "none".
        match digits.parse::<u32>() {
            Ok(number) if number < u32::MAX => Ok(number),
            _ => self.error_at(offset, format!("{} is out of range", shortened(word))),
        }
    }

    /// Takes a reference to one of `count` entities.
    pub(super) fn entity<E: EntityRef>(
        &mut self,
        prefix: char,
        what: &str,
        count: usize,
    ) -> Result<E> {
        let offset = self.offset();
        let index = self.numbered(prefix, what)? as usize;
        if index >= count {
            return self.error_at(offset, format!("{prefix}{index} is not declared"));
        }
        Ok(E::new(index))
    }

    /// Takes the number `next`: entries of lists are numbered from 0 without gaps.
    pub(super) fn expect_number(&mut self, next: usize) -> Result<()> {
        let offset = self.offset();
        match self.integer::<usize>()? {
            number if number == next => Ok(()),
            number => self.error_at(offset, format!("expected number {next}, found {number}")),
        }
    }

    /// Takes the declaration of entity number `next`: entities are declared in order.
    pub(super) fn expect_next(&mut self, prefix: char, what: &str, next: usize) -> Result<()> {
        let offset = self.offset();
        match self.numbered(prefix, what)? as usize {
            number if number == next => Ok(()),
            number => {
                let message = format!("expected {prefix}{next}, found {prefix}{number}");
                self.error_at(offset, message)
            }
        }
    }

    /// Takes a quoted string with escapes as `{:?}` writes them.
    pub(super) fn quoted(&mut self) -> Result<String> {
        let start = self.offset();
        if !self.take("\"") {
            return self.expected("a name in quotes");
        }
        let mut name = String::new();
        let mut characters = self.rest().char_indices();
        while let Some((position, character)) = characters.next() {
            match character {
                '"' => {
                    self.at += position + 1;
                    return Ok(name);
                }
                '\n' => break,
                '\\' => match unescape(&mut characters) {
                    Some(character) => name.push(character),
                    None => {
                        let message = "this escape sequence is not known";
                        return self.error_at(self.at + position, message);
                    }
                },
                character => name.push(character),
            }
        }
        self.error_at(start, "the name that starts here has no end")
    }

    /// Takes a term; `names` maps names to variables.
    pub(super) fn term(&mut self, names: &dyn Fn(&str) -> Option<Var>) -> Result<Term> {
        self.offset();
        // The rest of the text is passed on, so offsets count from here.
        match parse_prefix(self.rest(), 0, names) {
            Ok((term, length)) => {
                // The parser of terms may look for an operator beyond the line end.
                let taken = self.rest().get(..length).unwrap_or_default();
                self.at += taken.trim_ascii_end().len();
                Ok(term)
            }
            Err(error) => self.error_at(self.at + error.offset, error.message),
        }
    }

    /// Takes the rest of the line.
    pub(super) fn line(&mut self) -> &'a str {
        let line = self.rest().split('\n').next().unwrap_or_default();
        self.at += line.len();
        line
    }

    /// Takes everything up to a line end outside of brackets and quotes.
    pub(super) fn balanced_line(&mut self) -> &'a str {
        let length = balanced_length(self.rest().as_bytes());
        let line = self.rest().get(..length).unwrap_or_default();
        self.at += line.len();
        line
    }

    /// Takes everything up to and including the next `end`.
    pub(super) fn through(&mut self, end: char) -> Result<&'a str> {
        let Some(position) = self.rest().find(end) else {
            return self.error(format!("expected `{end}` after this"));
        };
        let taken = self.rest().get(..position + end.len_utf8());
        let taken = taken.unwrap_or_default();
        self.at += taken.len();
        Ok(taken)
    }

    /// Takes a list `open item, item close`.
    pub(super) fn list(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.expect(open)?;
        if self.take(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.take(close) {
                return Ok(());
            }
            if !self.take(",") {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
    }

    /// Enters a nesting level, or returns an error if that is too deep; [`Self::leave`] leaves it.
    pub(super) fn enter(&mut self) -> Result<()> {
        if self.depth >= MAX_DEPTH {
            return self.error(format!("nested more than {MAX_DEPTH} levels deep"));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

/// The character that an escape sequence stands for; its backslash has been taken.
fn unescape(characters: &mut std::str::CharIndices<'_>) -> Option<char> {
    Some(match characters.next()?.1 {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        plain @ ('"' | '\'' | '\\') => plain,
        'u' => {
            let mut code = 0u32;
            if characters.next()?.1 != '{' {
                return None;
            }
            loop {
                match characters.next()?.1 {
                    '}' => return char::from_u32(code),
                    digit => {
                        code = code.checked_mul(16)?.checked_add(digit.to_digit(16)?)?;
                    }
                }
            }
        }
        _ => return None,
    })
}

fn balanced_length(text: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut quoted = false;
    let mut bytes = text.iter().enumerate();
    while let Some((position, byte)) = bytes.next() {
        match byte {
            b'\\' if quoted => {
                bytes.next();
            }
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            b'\n' if depth == 0 => return position,
            _ => {}
        }
    }
    text.len()
}

/// The first 40 characters of a text, for error messages.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Takes the name of an element type.
pub(super) fn element_type(cursor: &mut Cursor<'_>) -> Result<ElementType> {
    match ElementType::from_name(cursor.peek_word()) {
        Some(element_type) => {
            cursor.word();
            Ok(element_type)
        }
        None => cursor.expected("an element type"),
    }
}

/// Takes bounds `[lower, upper]`.
pub(super) fn bounds(cursor: &mut Cursor<'_>) -> Result<(i64, i64)> {
    cursor.expect("[")?;
    let lower = cursor.integer()?;
    cursor.expect(",")?;
    let upper = cursor.integer()?;
    cursor.expect("]")?;
    Ok((lower, upper))
}
