//! Errors of partitioning.

use tegula_ir::{Module, Span};

/// The reason why a program could not be partitioned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The number of devices is unknown.
    #[error(
        "the number of devices is unknown: state `num_partitions=` or a mesh in the program, or give a number"
    )]
    NoDevices,
    /// The program is for another number of devices.
    #[error("{}", other_devices(*.stated, *.wanted))]
    Devices {
        /// The number that the program states.
        stated: i64,
        /// The number that was requested.
        wanted: usize,
    },
    /// A sharding that is invalid, or that does not fit the array or the devices.
    #[error("`{name}`: the sharding {text} does not fit: expected {expected}")]
    Sharding {
        /// The instruction.
        name: String,
        /// The sharding.
        text: String,
        /// What would be valid instead.
        expected: String,
    },
    /// A manual computation (written for each device separately) whose arrays are not equal parts.
    #[error("`{name}`: {reason}")]
    Manual {
        /// The instruction.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A custom call that its [`CallPartitioner`](crate::CallPartitioner) could not partition.
    #[error("`{name}`: its custom partitioning failed: {reason}")]
    Call {
        /// The instruction.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The receiver of an array's sharding reported an error.
    #[error("`{name}`: the handler that inspects its operand's sharding failed: {reason}")]
    Inspection {
        /// The instruction.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The partitioned program could not be built.
    #[error("`{name}`: {error}")]
    Build {
        /// The instruction that was being partitioned.
        name: String,
        /// What is wrong.
        error: tegula_ir::Error,
    },
}

fn other_devices(stated: i64, wanted: usize) -> String {
    match stated {
        1.. => format!("the program is for {stated} devices, but {wanted} were requested"),
        _ => format!("num_partitions={stated}: expected a positive number of devices"),
    }
}

impl Error {
    pub(crate) fn build(name: &str, error: tegula_ir::Error) -> Self {
        Self::Build {
            name: name.to_owned(),
            error,
        }
    }

    pub(crate) fn manual(name: &str, reason: impl Into<String>) -> Self {
        Self::Manual {
            name: name.to_owned(),
            reason: reason.into(),
        }
    }

    /// The line of the instruction in the program's text, if it has one.
    pub fn line(&self, module: &Module) -> Option<usize> {
        let span = self.span(module)?;
        let before = module.source.get(..span.start as usize)?;
        (!module.source.is_empty()).then(|| before.matches('\n').count() + 1)
    }

    /// The place of the instruction in the program, if the error names an instruction of it.
    pub fn span(&self, module: &Module) -> Option<Span> {
        let name = match self {
            Self::Sharding { name, .. }
            | Self::Manual { name, .. }
            | Self::Call { name, .. }
            | Self::Inspection { name, .. }
            | Self::Build { name, .. } => name,
            Self::NoDevices | Self::Devices { .. } => return None,
        };
        let mut instructions = module.instructions.values();
        let found = instructions.find(|instruction| &*instruction.name == name)?;
        Some(found.span)
    }
}
