//! Errors of slice simulation.

use tegula_devices::GroupError;
use tegula_ir::Span;

/// The reason why a program or a slice cannot be simulated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a valid topology.
    #[error(
        "the topology `{text}` {why}: expected numbers of chips along each axis, for example `16x16` \
         or `4x4x8`"
    )]
    Topology {
        /// The given text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The topology has more axes than the chip has links for.
    #[error(
        "the topology `{text}` has {axes} axes, but a {chip} has links along {most}: expected {most} numbers"
    )]
    Axes {
        /// The given text.
        text: String,
        /// The number of its axes.
        axes: usize,
        /// The chip.
        chip: String,
        /// The maximum number of axes.
        most: usize,
    },
    /// A parameter of the chip is not known.
    #[error(
        "`{param}` of the chip {chip} is unknown, but a slice needs it: set it with `--set {param}=VALUE`"
    )]
    Unknown {
        /// The parameter.
        param: &'static str,
        /// The chip.
        chip: String,
    },
    /// The program is for another number of devices.
    #[error(
        "the program is for {stated} devices, but the slice {topology} has {devices}: choose a topology of {stated} devices"
    )]
    Devices {
        /// The number that the program states.
        stated: usize,
        /// The slice.
        topology: String,
        /// The number of the slice's devices.
        devices: usize,
    },
    /// The groups of a collective are invalid for the slice.
    #[error("`{name}`: {error}; the slice {topology} has {devices} devices")]
    Groups {
        /// The instruction.
        name: String,
        /// The place in the text.
        span: Span,
        /// What is wrong.
        error: GroupError,
        /// The slice.
        topology: String,
        /// The number of the slice's devices.
        devices: usize,
    },
    /// The program cannot be flattened.
    #[error(transparent)]
    Program(#[from] tegula_fusion::Error),
}
