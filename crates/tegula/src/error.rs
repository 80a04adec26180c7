//! The error type of this crate, for everything from reading programs to running them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tegula_custom_call::CustomCallError;
use tegula_ir::Span;
use tegula_limits::Stopped;

/// The cause of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input is invalid.
    Input,
    /// The input is valid, but not supported yet.
    Unsupported,
    /// A limit is exceeded.
    Limit,
    /// Arrays need more memory than the [`Limits`](crate::Limits) allow or the system has.
    OutOfMemory,
    /// The [time limit](crate::Limits::timeout) was reached.
    Timeout,
    /// An [`Interrupt`](crate::Interrupt) was set.
    Interrupted,
    /// A bug in Tegula; please report it.
    Bug,
}

/// An error, with its place in the program if it has one.
///
/// Displaying it prints the message, the line of the program if its text is known (that of a
/// [`Module`](crate::Module)), and advice.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Error {
    /// The cause of the error.
    pub kind: ErrorKind,
    /// What is wrong, with the name of the instruction if there is one.
    pub message: String,
    /// Advice on how to fix it, if there is any.
    pub help: Option<String>,
    /// The place in the program; empty if it has none.
    pub span: Span,
    /// The number of further errors.
    pub more: usize,
    /// Whether the cause is that sizes of an ONNX model depend on data.
    /// [`StagedModel`](crate::StagedModel) runs such a model.
    pub needs_stages: bool,
    pub(crate) source: Option<Arc<SourceText>>,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let place = self
            .source
            .as_ref()
            .and_then(|source| source.place(self.span));
        if let Some(Place {
            path,
            line,
            column,
            text,
        }) = place
        {
            let margin = " ".repeat(line.to_string().len());
            let path = path.map_or_else(|| "the program".to_owned(), |p| p.display().to_string());
            write!(
                f,
                "\n{margin}--> {path}:{line}:{column}\n{margin} |\n{line} | {text}\n"
            )?;
            write!(f, "{margin} | {}^", " ".repeat(column - 1))?;
        }
        if let Some(help) = &self.help {
            write!(f, "\nhelp: {help}")?;
        }
        match self.more {
            0 => Ok(()),
            1 => f.write_str("\nand 1 more error"),
            more => write!(f, "\nand {more} more errors"),
        }
    }
}

/// The text of a program, in which errors have places.
#[derive(Debug)]
pub(crate) struct SourceText {
    path: Option<PathBuf>,
    text: String,
}

/// A place in a text, as a message shows it. Lines and columns count from 1.
struct Place<'a> {
    path: Option<&'a Path>,
    line: usize,
    column: usize,
    text: &'a str,
}

impl SourceText {
    /// The size in bytes above which a text is not kept, because it consists mostly of weights.
    const MAX: usize = 64 << 20;

    /// The text to show in errors; [`None`] for bytecode and other binary formats, whose errors
    /// have byte positions.
    pub(crate) fn new(bytes: &[u8], path: Option<&Path>) -> Option<Self> {
        if bytes.len() > Self::MAX {
            return None;
        }
        Some(Self {
            path: path.map(Path::to_owned),
            text: std::str::from_utf8(bytes).ok()?.to_owned(),
        })
    }

    /// The beginning of a span; [`None`] for the empty span, which means no place.
    fn place(&self, span: Span) -> Option<Place<'_>> {
        /// The maximum length in bytes of a line that is shown.
        const LONG_LINE: usize = 200;
        if span == Span::default() {
            return None;
        }
        let before = self.text.get(..span.start as usize)?;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let text = self.text[start..].lines().next().unwrap_or_default();
        Some(Place {
            path: self.path.as_deref(),
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            text: if text.len() > LONG_LINE { "..." } else { text },
        })
    }
}

impl Error {
    /// An error without a place.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: None,
            span: Span::default(),
            more: 0,
            needs_stages: false,
            source: None,
        }
    }

    /// The same error with the source text, so that it can show its line.
    pub(crate) fn with_source(self, source: Option<&Arc<SourceText>>) -> Self {
        Self {
            source: source.cloned(),
            ..self
        }
    }
}

/// The first of the errors, with the number of others.
impl From<tegula_ir::VerifierErrors> for Error {
    fn from(errors: tegula_ir::VerifierErrors) -> Self {
        Self {
            more: errors.len().saturating_sub(1),
            ..Self::from(tegula_ir::Error::from(errors))
        }
    }
}

impl From<tegula_ir::Error> for Error {
    fn from(error: tegula_ir::Error) -> Self {
        let kind = match error.kind() {
            tegula_ir::ErrorKind::Input => ErrorKind::Input,
            tegula_ir::ErrorKind::Limit => ErrorKind::Limit,
            tegula_ir::ErrorKind::Bug => ErrorKind::Bug,
        };
        Self {
            help: error.help().map(str::to_owned),
            span: error.span(),
            ..Self::new(kind, error.message())
        }
    }
}

impl From<tegula_fusion::Error> for Error {
    fn from(error: tegula_fusion::Error) -> Self {
        let kind = match error.kind {
            tegula_fusion::ErrorKind::Unsupported => ErrorKind::Unsupported,
            tegula_fusion::ErrorKind::Limit => ErrorKind::Limit,
            tegula_fusion::ErrorKind::Bug => ErrorKind::Bug,
        };
        Self {
            span: error.span,
            ..Self::new(kind, error.message)
        }
    }
}

impl From<tegula_codegen_cpu::Error> for Error {
    fn from(error: tegula_codegen_cpu::Error) -> Self {
        use tegula_codegen_cpu::Error as Cpu;
        let kind = match &error {
            Cpu::NoSuchOperation { .. }
            | Cpu::Input(_)
            | Cpu::Sizes(_)
            | Cpu::Cpu(_)
            | Cpu::Saved(_) => ErrorKind::Input,
            Cpu::CustomCall(call) => of_custom_call(call),
            Cpu::Unsupported(_) => ErrorKind::Unsupported,
            Cpu::OutOfMemory(_) => ErrorKind::OutOfMemory,
            Cpu::Stopped(stopped) => return Self::from(*stopped),
            Cpu::Bug(_) => ErrorKind::Bug,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<tegula_compile_cache::Error> for Error {
    fn from(error: tegula_compile_cache::Error) -> Self {
        Self::new(ErrorKind::Input, error.to_string())
    }
}

#[cfg(feature = "cuda")]
impl From<tegula_codegen_cuda::Error> for Error {
    fn from(error: tegula_codegen_cuda::Error) -> Self {
        use tegula_codegen_cuda::Error as Cuda;
        let kind = match &error {
            Cuda::NoSuchOperation { .. } | Cuda::Input(_) | Cuda::Sizes(_) | Cuda::Host(_) => {
                ErrorKind::Input
            }
            Cuda::CustomCall(call) => of_custom_call(call),
            Cuda::Unsupported(_) => ErrorKind::Unsupported,
            Cuda::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Cuda::Stopped(stopped) => return Self::from(*stopped),
            Cuda::MissingLibrary(_) | Cuda::Device { .. } => ErrorKind::Limit,
            Cuda::Compiler(_) | Cuda::Bug(_) => ErrorKind::Bug,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<tegula_plan_interp::EvaluateError> for Error {
    fn from(error: tegula_plan_interp::EvaluateError) -> Self {
        use tegula_plan_interp::EvaluateError as Plan;
        let kind = match &error {
            Plan::Input { .. } | Plan::Sizes(_) | Plan::NoSuchOperation(_) => ErrorKind::Input,
            Plan::CustomCall(call) => of_custom_call(call),
            Plan::TooLarge(_) => ErrorKind::OutOfMemory,
            Plan::Stopped(stopped) => return Self::from(*stopped),
            Plan::Index(_) | Plan::Malformed(_) => ErrorKind::Bug,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        let kind = match stopped {
            Stopped::Interrupted => ErrorKind::Interrupted,
            Stopped::Timeout => ErrorKind::Timeout,
            Stopped::Memory { .. } => ErrorKind::OutOfMemory,
            _ => ErrorKind::Unsupported,
        };
        Self::new(kind, stopped.to_string())
    }
}

impl From<tegula_ir::LiteralError> for Error {
    fn from(error: tegula_ir::LiteralError) -> Self {
        Self::new(ErrorKind::Input, error.to_string())
    }
}

impl From<tegula_interp::Error> for Error {
    fn from(error: tegula_interp::Error) -> Self {
        use tegula_interp::Error as Interp;
        let kind = match &error {
            Interp::Argument { .. }
            | Interp::Sizes { .. }
            | Interp::Invalid { .. }
            | Interp::Exchange { .. }
            | Interp::Transfer { .. } => ErrorKind::Input,
            Interp::CustomCall { reason, .. } => of_custom_call(reason),
            Interp::Unsupported { .. } => ErrorKind::Unsupported,
            Interp::Limit { .. } => ErrorKind::Limit,
            Interp::Stopped { reason, .. } => return Self::from(*reason),
        };
        Self::new(kind, error.to_string())
    }
}

fn of_custom_call(error: &CustomCallError) -> ErrorKind {
    match error {
        CustomCallError::Unknown { .. } | CustomCallError::CallsComputations { .. } => {
            ErrorKind::Unsupported
        }
        _ => ErrorKind::Input,
    }
}
