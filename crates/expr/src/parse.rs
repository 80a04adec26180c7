//! Parses terms, with both spellings of every operator.
//!
//! ```text
//! comparison := sum [("==" | "!=" | "<" | "<=" | ">" | ">=") sum]
//! sum        := product {("+" | "-") product}
//! product    := factor {("*" | "/" | "floordiv" | "ceildiv" | "mod") factor}
//! factor     := int | name | "-" factor | "(" comparison ")"
//!             | ("min" | "max") "(" comparison "," comparison ")"
//!             | "select" "(" comparison "," comparison "," comparison ")"
//! ```
//! `floorDiv` and `ceilDiv` are accepted too. Operators of the same precedence associate to the
//! left. Parentheses may nest [`MAX_NESTING`] deep.

use thiserror::Error;

use crate::term::{Cmp, Term, Var};

/// The deepest nesting of parentheses and signs that is accepted.
pub const MAX_NESTING: u32 = 100;

/// A text that is not a valid term.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message} at byte {offset}")]
pub struct ParseError {
    /// The byte offset at which the error was noticed.
    pub offset: usize,
    /// What is wrong there.
    pub message: String,
}

impl ParseError {
    /// An error at a byte offset of the text.
    pub fn new(offset: usize, message: impl Into<String>) -> Self {
        Self {
            offset,
            message: message.into(),
        }
    }
}

/// Parses a term, which must be the whole text.
///
/// # Errors
/// [`ParseError`] if the text is not a valid term or a name is not known.
pub fn parse(text: &str, names: &dyn Fn(&str) -> Option<Var>) -> Result<Term, ParseError> {
    let (term, end) = parse_prefix(text, 0, names)?;
    let rest = text.get(end..).unwrap_or("");
    if rest.trim_start().is_empty() {
        return Ok(term);
    }
    Err(ParseError::new(
        end,
        "expected an operator or the end of the text",
    ))
}

/// Parses the longest term that starts at byte `start`; also returns where it ends. Offsets in
/// errors count from the start of `text`.
///
/// # Errors
/// [`ParseError`] if there is no valid term or a name is not known.
pub fn parse_prefix(
    text: &str,
    start: usize,
    names: &dyn Fn(&str) -> Option<Var>,
) -> Result<(Term, usize), ParseError> {
    let mut parser = Parser {
        text: text.as_bytes(),
        at: start,
        depth: 0,
        names,
    };
    let term = parser.comparison()?;
    Ok((term, parser.at))
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    names: &'a dyn Fn(&str) -> Option<Var>,
}

type Result1<T> = Result<T, ParseError>;

impl Parser<'_> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn error<T>(&self, message: impl Into<String>) -> Result1<T> {
        Err(ParseError::new(self.at, message))
    }

    /// Takes the symbol if it is next.
    fn take(&mut self, symbol: &str) -> bool {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or(&[]);
        let found = rest.starts_with(symbol.as_bytes());
        if found {
            self.at += symbol.len();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result1<()> {
        if self.take(symbol) {
            Ok(())
        } else {
            self.error(format!("expected `{symbol}`"))
        }
    }

    /// The next word, which is not taken.
    fn word(&mut self) -> &str {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or(&[]);
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = match rest.first() {
            Some(first) if first.is_ascii_alphabetic() || *first == b'_' => {
                rest.iter().take_while(|byte| is_part(byte)).count()
            }
            _ => 0,
        };
        // Only ASCII was counted, so this is valid text.
        rest.get(..length)
            .and_then(|word| std::str::from_utf8(word).ok())
            .unwrap_or("")
    }

    fn comparison(&mut self) -> Result1<Term> {
        let left = self.sum()?;
        let operators = [
            ("==", Cmp::Eq, false),
            ("!=", Cmp::Ne, false),
            ("<=", Cmp::Le, false),
            (">=", Cmp::Le, true),
            ("<", Cmp::Lt, false),
            (">", Cmp::Lt, true),
        ];
        for (symbol, op, swapped) in operators {
            if self.take(symbol) {
                let right = self.sum()?;
                return Ok(if swapped {
                    Term::cmp(op, &right, &left)
                } else {
                    Term::cmp(op, &left, &right)
                });
            }
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result1<Term> {
        let mut left = self.product()?;
        loop {
            match self.peek() {
                Some(b'+') => {
                    self.at += 1;
                    left = left.add(&self.product()?);
                }
                Some(b'-') if self.text.get(self.at + 1) != Some(&b'>') => {
                    self.at += 1;
                    left = left.sub(&self.product()?);
                }
                _ => return Ok(left),
            }
        }
    }

    fn product(&mut self) -> Result1<Term> {
        let mut left = self.factor()?;
        loop {
            let operator: fn(&Term, &Term) -> Term = match self.peek() {
                Some(b'*') => {
                    self.at += 1;
                    Term::mul
                }
                Some(b'/') => {
                    self.at += 1;
                    Term::floor_div
                }
                _ => match self.word() {
                    word @ ("floordiv" | "floorDiv" | "ceildiv" | "ceilDiv" | "mod") => {
                        let operator = match word {
                            "mod" => Term::modulo,
                            "floordiv" | "floorDiv" => Term::floor_div,
                            _ => Term::ceil_div,
                        };
                        self.at += word.len();
                        operator
                    }
                    _ => return Ok(left),
                },
            };
            let right = self.factor()?;
            left = operator(&left, &right);
        }
    }

    fn factor(&mut self) -> Result1<Term> {
        if self.depth >= MAX_NESTING {
            return self.error("parentheses are nested too deep");
        }
        self.depth += 1;
        let term = self.nested_factor();
        self.depth -= 1;
        term
    }

    fn nested_factor(&mut self) -> Result1<Term> {
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                let term = self.comparison()?;
                self.expect(")")?;
                Ok(term)
            }
            Some(b'-') => {
                self.at += 1;
                if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    return self.integer(true);
                }
                Ok(self.factor()?.neg())
            }
            Some(byte) if byte.is_ascii_digit() => self.integer(false),
            Some(_) => self.name(),
            None => self.error("expected a term"),
        }
    }

    fn integer(&mut self, negative: bool) -> Result1<Term> {
        let start = self.at;
        let mut value: i128 = 0;
        while let Some(byte) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            value = value
                .saturating_mul(10)
                .saturating_add(i128::from(byte - b'0'));
            self.at += 1;
        }
        let value = if negative { -value } else { value };
        i64::try_from(value)
            .map(Term::constant)
            .map_err(|_| ParseError::new(start, "the number does not fit 64 bits"))
    }

    fn name(&mut self) -> Result1<Term> {
        let start = self.at;
        let word = self.word().to_owned();
        if word.is_empty() {
            return self.error("expected a term");
        }
        self.at += word.len();
        let is_call = self.peek() == Some(b'(');
        match word.as_str() {
            "min" if is_call => self.call2(Term::min),
            "max" if is_call => self.call2(Term::max),
            "select" if is_call => {
                self.expect("(")?;
                let condition = self.comparison()?;
                self.expect(",")?;
                let a = self.comparison()?;
                self.expect(",")?;
                let b = self.comparison()?;
                self.expect(")")?;
                Ok(Term::select(&condition, &a, &b))
            }
            _ => match (self.names)(&word) {
                Some(var) => Ok(Term::var(var)),
                None => Err(ParseError::new(start, format!("unknown name `{word}`"))),
            },
        }
    }

    fn call2(&mut self, operator: fn(&Term, &Term) -> Term) -> Result1<Term> {
        self.expect("(")?;
        let a = self.comparison()?;
        self.expect(",")?;
        let b = self.comparison()?;
        self.expect(")")?;
        Ok(operator(&a, &b))
    }
}
