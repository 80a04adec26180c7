//! The parser for the text of a map.
//!
//! ```text
//! map  := "(" names ")" ["[" names "]"] ["{" names "}"] "->" "(" terms ")" ["," "domain:" items]
//!       | "UNDEFINED" | "KNOWN EMPTY"
//! item := name "in" "[" int "," int "]"     every variable, in declared order
//!       | term "in" "[" int "," int "]"     then constraints
//! ```
//! White space is free, and a comma between or after items may be missing, as it
//! sometimes is in the documents.

use std::str::FromStr;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tegula_expr::{Interval, ParseError, Term, Var, parse_prefix};

use crate::map::{IndexingMap, RuntimeVariable, Variable};

/// The most variables of a map; a text with more is certainly wrong.
const MAX_VARIABLES: usize = 4096;

/// Parses a map, which must be the whole text.
///
/// # Errors
/// [`ParseError`] with the byte offset where the text stops being a map.
pub fn parse_map(text: &str) -> Result<IndexingMap, ParseError> {
    match text.trim() {
        "UNDEFINED" => return Ok(IndexingMap::undefined()),
        "KNOWN EMPTY" => return Ok(IndexingMap::empty()),
        _ => {}
    }
    Reader {
        text,
        at: 0,
        numbers: FxHashMap::default(),
        names: Vec::new(),
    }
    .map()
}

impl FromStr for IndexingMap {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_map(text)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    numbers: FxHashMap<&'a str, Var>,
    names: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or("");
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::new(self.at, message))
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        if self.take(token) {
            Ok(())
        } else {
            self.error(format!("expected `{token}`"))
        }
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or("");
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            ""
        } else {
            word
        }
    }

    /// Parses the names between two brackets, the first of which has been read.
    fn declare(&mut self, close: &str) -> Result<usize, ParseError> {
        let before = self.names.len();
        if self.take(close) {
            return Ok(0);
        }
        loop {
            let name = self.word();
            if name.is_empty() {
                return self.error("expected the name of a variable");
            }
            if self.names.len() >= MAX_VARIABLES {
                return self.error("too many variables");
            }
            let var = Var(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
            if self.numbers.insert(name, var).is_some() {
                return self.error(format!("`{name}` is declared twice"));
            }
            self.names.push(name);
            self.at += name.len();
            if self.take(close) {
                return Ok(self.names.len() - before);
            }
            self.expect(",")?;
        }
    }

    fn term(&mut self) -> Result<Term, ParseError> {
        let (term, end) =
            parse_prefix(self.text, self.at, &|name| self.numbers.get(name).copied())?;
        self.at = end;
        Ok(term)
    }

    fn integer(&mut self) -> Result<i64, ParseError> {
        let rest = self.rest();
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let sign = rest.len() - digits.len();
        let length = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let number = rest.get(..sign + length).unwrap_or("");
        match number.parse() {
            Ok(value) => {
                self.at += number.len();
                Ok(value)
            }
            Err(_) => self.error("expected an integer of 64 bits"),
        }
    }

    fn interval(&mut self) -> Result<Interval, ParseError> {
        self.expect("in")?;
        self.expect("[")?;
        let lower = self.integer()?;
        self.expect(",")?;
        let upper = self.integer()?;
        self.expect("]")?;
        self.take(",");
        Ok(Interval::new(lower, upper))
    }

    fn map(mut self) -> Result<IndexingMap, ParseError> {
        self.expect("(")?;
        let dims = self.declare(")")?;
        let ranges = if self.take("[") {
            self.declare("]")?
        } else {
            0
        };
        if self.take("{") {
            self.declare("}")?;
        }
        self.expect("->")?;
        self.expect("(")?;
        let mut map = IndexingMap::default();
        if !self.take(")") {
            loop {
                map.results.push(self.term()?);
                if self.take(")") {
                    break;
                }
                self.expect(",")?;
            }
        }
        self.take(",");
        if self.take("domain") {
            self.expect(":")?;
        }
        let names = std::mem::take(&mut self.names);
        for (position, name) in names.into_iter().enumerate() {
            let variable = self.bounds(name, position, dims, ranges)?;
            if position < dims {
                map.dims.push(variable);
            } else if position < dims + ranges {
                map.ranges.push(variable);
            } else {
                map.runtime.push(RuntimeVariable {
                    variable,
                    source: None,
                    upper_bound: None,
                });
            }
        }
        while !self.rest().is_empty() {
            let term = self.term()?;
            let interval = self.interval()?;
            map.constrain(term, interval);
        }
        Ok(map)
    }

    /// Parses the bounds of one variable, which must be the next item.
    fn bounds(
        &mut self,
        name: &str,
        position: usize,
        dims: usize,
        ranges: usize,
    ) -> Result<Variable, ParseError> {
        if self.word() != name {
            return self.error(format!("expected the bounds of `{name}`"));
        }
        self.at += name.len();
        let bounds = self.interval()?;
        let default = match position.checked_sub(dims) {
            None => format!("d{position}"),
            Some(range) if range < ranges => format!("s{range}"),
            Some(other) => format!("rt{}", other - ranges),
        };
        let name = (default != name).then(|| Arc::from(name));
        Ok(Variable { bounds, name })
    }
}
