//! One error for everything that can go wrong between text and results.

use tegula_custom_call::CustomCallError;
use tegula_ir::Span;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What was given is wrong.
    Input,
    /// What was given is right, but not possible yet.
    Unsupported,
    /// A stated limit is exceeded.
    Limit,
    /// Tegula contradicts itself: please report it.
    Bug,
}

/// An error, with its place in the program where it has one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Whose fault it is.
    pub fault: Fault,
    /// What is wrong, naming the instruction if there is one.
    pub message: String,
    /// What to do about it, if that is known.
    pub help: Option<String>,
    /// Where the program says it; empty if it has no place.
    pub span: Span,
    /// How many more errors there are.
    pub more: usize,
}

impl Error {
    /// An error without a place.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
            help: None,
            span: Span::default(),
            more: 0,
        }
    }

    /// The first of several errors, with the number of the others.
    pub(crate) fn from_list(errors: Vec<tegula_ir::Error>) -> Self {
        let more = errors.len().saturating_sub(1);
        match errors.into_iter().next() {
            Some(first) => Self {
                more,
                ..Self::from(first)
            },
            None => Self::new(Fault::Bug, "the verifier failed without a reason"),
        }
    }
}

impl From<tegula_ir::Error> for Error {
    fn from(error: tegula_ir::Error) -> Self {
        let fault = match error.fault() {
            tegula_ir::Fault::Input => Fault::Input,
            tegula_ir::Fault::Limit => Fault::Limit,
            tegula_ir::Fault::Bug => Fault::Bug,
        };
        Self {
            fault,
            message: error.message().to_owned(),
            help: error.help().map(str::to_owned),
            span: error.span(),
            more: 0,
        }
    }
}

impl From<tegula_fusion::Error> for Error {
    fn from(error: tegula_fusion::Error) -> Self {
        let fault = match error.fault {
            tegula_fusion::Fault::Unsupported => Fault::Unsupported,
            tegula_fusion::Fault::Limit => Fault::Limit,
            tegula_fusion::Fault::Bug => Fault::Bug,
        };
        Self {
            span: error.span,
            ..Self::new(fault, error.message)
        }
    }
}

impl From<tegula_codegen_cpu::Error> for Error {
    fn from(error: tegula_codegen_cpu::Error) -> Self {
        use tegula_codegen_cpu::Error as Cpu;
        let fault = match &error {
            Cpu::NoSuchOperation { .. }
            | Cpu::Input(_)
            | Cpu::Sizes(_)
            | Cpu::Cpu(_)
            | Cpu::Saved(_) => Fault::Input,
            Cpu::CustomCall(call) => of_custom_call(call),
            Cpu::Unsupported(_) => Fault::Unsupported,
            Cpu::OutOfMemory(_) => Fault::Limit,
            Cpu::Bug(_) => Fault::Bug,
        };
        Self::new(fault, error.to_string())
    }
}

impl From<tegula_compile_cache::Error> for Error {
    fn from(error: tegula_compile_cache::Error) -> Self {
        Self::new(Fault::Input, error.to_string())
    }
}

impl From<tegula_codegen_cuda::Error> for Error {
    fn from(error: tegula_codegen_cuda::Error) -> Self {
        use tegula_codegen_cuda::Error as Cuda;
        let fault = match &error {
            Cuda::NoSuchOperation { .. } | Cuda::Input(_) | Cuda::Sizes(_) | Cuda::Host(_) => {
                Fault::Input
            }
            Cuda::CustomCall(call) => of_custom_call(call),
            Cuda::Unsupported(_) => Fault::Unsupported,
            Cuda::MissingLibrary(_) | Cuda::OutOfMemory { .. } | Cuda::Device { .. } => {
                Fault::Limit
            }
            Cuda::Compiler(_) | Cuda::Bug(_) => Fault::Bug,
        };
        Self::new(fault, error.to_string())
    }
}

impl From<tegula_plan_interp::EvaluateError> for Error {
    fn from(error: tegula_plan_interp::EvaluateError) -> Self {
        use tegula_plan_interp::EvaluateError as Plan;
        let fault = match &error {
            Plan::Input { .. } | Plan::Sizes(_) | Plan::NoSuchOperation(_) => Fault::Input,
            Plan::CustomCall(call) => of_custom_call(call),
            Plan::TooLarge(_) => Fault::Limit,
            Plan::Index(_) | Plan::Malformed(_) => Fault::Bug,
        };
        Self::new(fault, error.to_string())
    }
}

impl From<tegula_ir::LiteralError> for Error {
    fn from(error: tegula_ir::LiteralError) -> Self {
        Self::new(Fault::Input, error.to_string())
    }
}

impl From<tegula_interp::Error> for Error {
    fn from(error: tegula_interp::Error) -> Self {
        use tegula_interp::Error as Interp;
        let fault = match &error {
            Interp::Argument { .. }
            | Interp::Sizes { .. }
            | Interp::Invalid { .. }
            | Interp::Exchange { .. }
            | Interp::Transfer { .. } => Fault::Input,
            Interp::CustomCall { reason, .. } => of_custom_call(reason),
            Interp::Unsupported { .. } => Fault::Unsupported,
            Interp::Limit { .. } => Fault::Limit,
        };
        Self::new(fault, error.to_string())
    }
}

fn of_custom_call(error: &CustomCallError) -> Fault {
    match error {
        CustomCallError::Unknown { .. } | CustomCallError::CallsComputations { .. } => {
            Fault::Unsupported
        }
        _ => Fault::Input,
    }
}
