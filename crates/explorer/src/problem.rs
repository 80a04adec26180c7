//! An error in a program's text, with its position.

use serde::Serialize;
use tegula_ir::Span;

/// An error with its position in the program's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The error message.
    pub message: String,
    /// A suggestion how to fix the error, if there is one.
    pub help: Option<String>,
    /// The line, from 1; 0 if the error has no position.
    pub line: usize,
    /// The column in characters, from 1; 0 if the error has no position.
    pub column: usize,
    /// The start of the error's span in UTF-16 code units, as JavaScript counts.
    pub from: usize,
    /// The end of the error's span in UTF-16 code units, exclusive.
    pub to: usize,
}

impl Problem {
    /// An error without a position.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            line: 0,
            column: 0,
            from: 0,
            to: 0,
        }
    }

    /// Sets the position to a span of the text. The default span leaves the error without a
    /// position.
    pub(crate) fn at(self, text: &str, span: Span) -> Self {
        if span == Span::default() {
            return self;
        }
        let place = |byte: u32| {
            let mut byte = (byte as usize).min(text.len());
            while !text.is_char_boundary(byte) {
                byte -= 1;
            }
            byte
        };
        let (start, end) = (place(span.start), place(span.end));
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let from = before.encode_utf16().count();
        let covered = text.get(start..end).unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            from,
            to: from + covered.encode_utf16().count().max(1),
            ..self
        }
    }

    pub(crate) fn of(error: &tegula::Error, text: &str) -> Self {
        let mut problem = Self::new(error.message.clone());
        if error.more > 0 {
            problem.message = format!("{} (and {} more)", problem.message, error.more);
        }
        problem.help.clone_from(&error.help);
        problem.at(text, error.span)
    }

    /// Sets the position to a line of the text. Line 0 leaves the error without a position.
    pub(crate) fn at_line(self, text: &str, line: usize) -> Self {
        let Some(content) = line.checked_sub(1).and_then(|at| text.lines().nth(at)) else {
            return self;
        };
        let start = content.as_ptr() as usize - text.as_ptr() as usize;
        let indent = content.len() - content.trim_start().len();
        let span = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        self.at(
            text,
            Span {
                start: span(start + indent),
                end: span(start + content.trim_end().len().max(indent)),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_and_units_of_javascript() {
        let text = "a\n\u{1d4b6}b c";
        let at = u32::try_from(text.find('b').expect("there is a b")).expect("short");
        let span = Span {
            start: at,
            end: at + 1,
        };
        let problem = Problem::new("b").at(text, span);
        assert_eq!((problem.line, problem.column), (2, 2));
        assert_eq!((problem.from, problem.to), (4, 5));
    }
}
