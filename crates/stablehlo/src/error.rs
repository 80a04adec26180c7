//! Errors of reading, with their places in the input.

use std::fmt;

/// A place in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A byte of a bytecode file.
    Byte(usize),
    /// A line and a column of a text, both counted from 1.
    Text {
        /// The byte.
        offset: usize,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(offset) => write!(f, "byte {offset:#x}"),
            Self::Text { line, column, .. } => write!(f, "line {line}, column {column}"),
        }
    }
}

/// The cause of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The input is malformed or contradictory.
    Input,
    /// The input is well-formed but uses an unsupported feature.
    Unsupported,
}

/// The reason why an input could not be read or translated.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub struct Error {
    /// The cause.
    pub kind: ErrorKind,
    /// What is wrong, and what was expected.
    pub message: String,
    /// The place in the input, if it is known.
    pub place: Option<Place>,
    /// If the input is text: the line, with a caret below the place.
    pub excerpt: Option<String>,
}

impl Error {
    /// An error of the input.
    pub fn input(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Input,
            message: message.into(),
            place: None,
            excerpt: None,
        }
    }

    /// An error because of an unsupported feature.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Unsupported,
            ..Self::input(message)
        }
    }

    /// The same error at a byte of a bytecode file, unless it already has a place.
    #[must_use]
    pub fn at_byte(mut self, offset: usize) -> Self {
        self.place.get_or_insert(Place::Byte(offset));
        self
    }

    /// The same error at a byte position of a text, with the line that contains it, unless it
    /// already has a place.
    #[must_use]
    pub fn at_text(mut self, text: &str, offset: usize) -> Self {
        if self.place.is_some() {
            return self;
        }
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
        let line = 1 + text[..start].matches('\n').count();
        let column = 1 + text[start..offset].chars().count();
        self.place = Some(Place::Text {
            offset,
            line,
            column,
        });
        self.excerpt = Some(excerpt(text, start, column));
        self
    }
}

/// The maximum number of characters of a line that are shown on each side of the caret.
const EXCERPT_CHARACTERS: usize = 60;

fn excerpt(text: &str, start: usize, column: usize) -> String {
    let line = text[start..].split('\n').next().unwrap_or_default();
    let first = (column - 1).saturating_sub(EXCERPT_CHARACTERS);
    let shown: String = line
        .chars()
        .skip(first)
        .take(2 * EXCERPT_CHARACTERS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("{shown}\n{}^", " ".repeat(column - 1 - first))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(excerpt) = &self.excerpt {
            write!(f, "\n{excerpt}")?;
        }
        Ok(())
    }
}
