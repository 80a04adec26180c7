//! Errors of the reader, the shape functions and the verifier.

use crate::Span;
use std::fmt;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The program is wrong.
    Input,
    /// The program may be right but exceeds a limit of this implementation.
    Limit,
    /// A bug in this library.
    Bug,
}

/// An error in a program, with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: String,
    help: Option<String>,
    span: Span,
    line: u32,
    column: u32,
    kind: ErrorKind,
}

impl Error {
    /// An error of the input, without a place.
    pub fn input(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            span: Span::default(),
            line: 0,
            column: 0,
            kind: ErrorKind::Input,
        }
    }

    /// A limit of this implementation that the input exceeds, without a place.
    pub fn limit(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Limit,
            ..Self::input(message)
        }
    }

    /// A bug in this library, without a place.
    pub fn bug(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Bug,
            ..Self::input(message)
        }
    }

    /// The same error with advice on what to do.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same error with its place, a range of bytes of `source`. An error that has a place
    /// already keeps it.
    #[must_use]
    pub fn at(mut self, source: &str, span: Span) -> Self {
        if self.line != 0 || source.is_empty() {
            return self;
        }
        let mut start = (span.start as usize).min(source.len());
        while !source.is_char_boundary(start) {
            start -= 1;
        }
        let before = source.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let newlines = before.bytes().filter(|&byte| byte == b'\n').count();
        let characters = before.get(line_start..).unwrap_or_default().chars().count();
        self.span = span;
        self.line = u32::try_from(newlines).unwrap_or(u32::MAX - 1) + 1;
        self.column = u32::try_from(characters).unwrap_or(u32::MAX - 1) + 1;
        self
    }

    /// The same error with the instruction's name in front of the message.
    #[must_use]
    pub(crate) fn in_instruction(mut self, name: &str) -> Self {
        self.message = format!("`{name}`: {}", self.message);
        self
    }

    /// What is wrong, as one sentence without a full stop.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Advice on how to fix it, if there is any.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The bytes of the source that the error is about.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The line, from 1; 0 if the program has no text.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The column in characters, from 1; 0 if the program has no text.
    pub fn column(&self) -> u32 {
        self.column
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line != 0 {
            write!(f, "{}:{}: ", self.line, self.column)?;
        }
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// All errors that the verifier finds in a module, at least one, in the order of the program. It
/// dereferences to a slice of errors and prints each of them on its own line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierErrors(Vec<Error>);

impl VerifierErrors {
    /// Returns the errors as `Err`, if there are any.
    pub(crate) fn check(errors: Vec<Error>) -> Result<(), Self> {
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Self(errors)),
        }
    }
}

impl std::ops::Deref for VerifierErrors {
    type Target = [Error];

    fn deref(&self) -> &[Error] {
        &self.0
    }
}

impl IntoIterator for VerifierErrors {
    type Item = Error;
    type IntoIter = std::vec::IntoIter<Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for VerifierErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifierErrors {}

/// Keeps the first error.
impl From<VerifierErrors> for Error {
    fn from(errors: VerifierErrors) -> Self {
        let first = errors.0.into_iter().next();
        first.unwrap_or_else(|| Self::bug("the verifier failed without a reason"))
    }
}
