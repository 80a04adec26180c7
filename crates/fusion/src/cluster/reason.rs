//! Why clustering fuses or materialises a value.

use super::{MAX_BODY, MAX_CHAIN};
use std::fmt;

/// Why a value is fused or materialised.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Reason {
    /// Nothing reads it.
    #[default]
    Unused,
    /// A parameter, a constant or a loop state, which is in memory in any case.
    GivenInMemory,
    /// It is a result of the program, a loop or a branch.
    RegionResult,
    /// A library call or control flow produces or reads it.
    LibraryOrControl,
    /// It is an in-place update, a scan, or has several results.
    OwnKernel,
    /// If it were fused, it would be evaluated this many times per element, which is too often.
    TooOften(f64),
    /// It is a long sum that another long sum reads.
    InsideALoop,
    /// A scatter of few elements per index, which is not vectorised, reads it, as an update that
    /// takes function calls or as an index that takes many operations.
    Scattered,
    /// The kernels that read it already evaluate too many operations.
    KernelTooLarge,
    /// It is fused into its readers and evaluated this many times per element.
    Fused(f64),
    /// It is cheaply computed from constants alone, so it is fused everywhere.
    FromConstants,
    /// It is a long sum over constants, which is the same in every run.
    SumOfConstants,
    /// A row-fused kernel keeps it for itself, one row at a time.
    KeptByRow,
    /// It is read from an array that the update it belongs to overwrites in place. If it were
    /// fused, the array would have to be copied first.
    BeforeUpdate,
}

impl Reason {
    /// Whether the value is written to memory.
    pub fn is_materialised(self) -> bool {
        !matches!(
            self,
            Self::Unused | Self::Fused(_) | Self::FromConstants | Self::KeptByRow
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused => f.write_str("unused"),
            Self::GivenInMemory => f.write_str("already in memory"),
            Self::RegionResult => f.write_str("a result of its region"),
            Self::LibraryOrControl => {
                f.write_str("written or read by a library call or control flow")
            }
            Self::OwnKernel => {
                f.write_str("updates in place, runs along a dimension or has several results")
            }
            Self::TooOften(ratio) => {
                write!(f, "fused, each element would be evaluated {ratio:.3} times")
            }
            Self::InsideALoop => f.write_str("a long sum that is read inside another loop"),
            Self::Scattered => f.write_str("updated by a scatter, element by element"),
            Self::KernelTooLarge => write!(
                f,
                "its readers would exceed {MAX_BODY} operations or a chain of {MAX_CHAIN}"
            ),
            Self::Fused(ratio) => write!(f, "fused, evaluated {ratio:.3} times per element"),
            Self::FromConstants => f.write_str("fused, computed from constants only"),
            Self::SumOfConstants => f.write_str("a sum over constants only"),
            Self::KeptByRow => f.write_str("kept by its kernel, a row at a time"),
            Self::BeforeUpdate => f.write_str("read from an array before that is updated in place"),
        }
    }
}
