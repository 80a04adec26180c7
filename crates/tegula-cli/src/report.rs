//! Error messages for a person: the line of the program with a caret.

use crate::documents::{self, Failed, FailedError};
use crate::exit_code::{BAD_USAGE, FINDING, INTERRUPTED, TIMED_OUT};
use crate::terminal::output::complain;
use crate::terminal::style::{BAD, paint};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::path::{Path, PathBuf};
use tegula::{Error, ErrorKind};
use tegula_limits::Stopped;

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A program is invalid or cannot be compiled.
    Program {
        /// The path of the program.
        path: PathBuf,
        /// The program's text.
        text: String,
        /// The error.
        error: Box<Error>,
    },
    /// Any other error.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(anyhow::Error::new(error))
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        Self::from(Error::from(stopped))
    }
}

impl Failure {
    /// An error in a program's text.
    pub(crate) fn program(path: &Path, text: &str, error: Error) -> Self {
        Self::Program {
            path: path.to_owned(),
            text: text.to_owned(),
            error: Box::new(error),
        }
    }

    /// Tells whether the error is that an ONNX model has sizes that depend on data, so that it must
    /// run stage by stage.
    pub(crate) fn needs_stages(&self) -> bool {
        matches!(self, Self::Program { error, .. } if error.needs_stages)
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(&self, json: bool) -> u8 {
        let (message, fault, line) = match self {
            // An interrupt gets only one line: the user caused it.
            failure if failure.is_interrupted() => {
                complain(format_args!("interrupted"));
                ("interrupted".to_owned(), ErrorKind::Interrupted, None)
            }
            Self::Program { path, text, error } => {
                complain(format_args!("{}", render(path, text, error).trim_end()));
                (error.message.clone(), error.kind, line_of(text, error))
            }
            Self::Other(error) => {
                complain(format_args!("{} {error:#}", error_word()));
                let fault = error
                    .downcast_ref::<Error>()
                    .map_or(ErrorKind::Input, |e| e.kind);
                (format!("{error:#}"), fault, None)
            }
        };
        if json {
            documents::print(&Failed {
                error: FailedError { message, line },
            });
        }
        match fault {
            ErrorKind::Bug => FINDING,
            ErrorKind::Timeout => TIMED_OUT,
            ErrorKind::Interrupted => INTERRUPTED,
            _ => BAD_USAGE,
        }
    }

    fn is_interrupted(&self) -> bool {
        let kind = match self {
            Self::Program { error, .. } => Some(error.kind),
            Self::Other(error) => error.downcast_ref::<Error>().map(|error| error.kind),
        };
        kind == Some(ErrorKind::Interrupted)
    }
}

fn error_word() -> String {
    paint(BAD, "error:")
}

fn line_of(text: &str, error: &Error) -> Option<usize> {
    let start = error.span.start as usize;
    if error.span == tegula_ir::Span::default() {
        return None;
    }
    text.as_bytes()
        .get(..start)
        .map(|before| before.iter().filter(|&&b| b == b'\n').count() + 1)
}

/// The longest source line that is shown in full, in bytes.
const LONG_LINE: usize = 400;

fn render(path: &Path, text: &str, error: &Error) -> String {
    let origin = path.display().to_string();
    let Some(line) = line_of(text, error) else {
        return format!("{} {origin}: {}\n", error_word(), describe(error));
    };
    // Only the line itself is passed to the renderer, because programs can be huge.
    let start = floor_char(text, error.span.start as usize);
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
    let from = floor_char(text, start.saturating_sub(LONG_LINE).max(line_start));
    let to = floor_char(text, (start + LONG_LINE).min(line_end)).max(start);
    let end = floor_char(text, error.span.end as usize).clamp(start, to);
    let source = &text[from..to];
    let snippet = Snippet::source(source)
        .line_start(line)
        .path(origin.as_str())
        .annotation(AnnotationKind::Primary.span(start - from..end - from));
    let message = error.message.clone();
    let mut groups = vec![Level::ERROR.primary_title(message).element(snippet)];
    if let Some(help) = &error.help {
        groups.push(annotate_snippets::Group::with_title(
            Level::HELP.secondary_title(help.clone()),
        ));
    }
    let mut out = Renderer::styled().render(&groups).clone();
    out.push('\n');
    out.push_str(&more(error));
    out
}

/// A finding in a program's text.
pub(crate) struct Finding<'a> {
    /// The message.
    pub title: String,
    /// An error, otherwise a warning.
    pub is_error: bool,
    /// The line, from 1; 0 if the finding has none.
    pub line: usize,
    /// Advice on how to mend it.
    pub help: &'a str,
}

/// Renders a finding with its line of the program for a person.
pub(crate) fn render_finding(path: &Path, text: &str, finding: &Finding<'_>) -> String {
    let origin = path.display().to_string();
    let line = text
        .lines()
        .nth(finding.line.wrapping_sub(1))
        .unwrap_or_default();
    let end = floor_char(line, LONG_LINE.min(line.trim_end().len()));
    let source = &line[..end];
    let start = source.len() - source.trim_start().len();
    let level = if finding.is_error {
        Level::ERROR
    } else {
        Level::WARNING
    };
    let snippet = Snippet::source(source)
        .line_start(finding.line)
        .path(origin.as_str())
        .annotation(AnnotationKind::Primary.span(start..end));
    let help = annotate_snippets::Group::with_title(Level::HELP.secondary_title(finding.help));
    let groups = [
        level.primary_title(finding.title.as_str()).element(snippet),
        help,
    ];
    Renderer::styled().render(&groups)
}

fn describe(error: &Error) -> String {
    let help = error
        .help
        .as_ref()
        .map(|h| format!("\nhelp: {h}"))
        .unwrap_or_default();
    let more = more(error);
    format!(
        "{}{help}{}{more}",
        error.message,
        if more.is_empty() { "" } else { "\n" }
    )
}

fn more(error: &Error) -> String {
    match error.more {
        0 => String::new(),
        1 => "note: there is 1 more error\n".to_owned(),
        n => format!("note: there are {n} more errors\n"),
    }
}

fn floor_char(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}
