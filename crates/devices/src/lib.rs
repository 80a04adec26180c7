//! Many devices that run one program.
//!
//! A program runs on `replicas x partitions` devices ([`Topology`]). [`Group`] says which of them
//! take part together in one collective operation. Devices exchange arrays through a
//! [`Communicator`], which a run is given; [`run`] runs N devices on N threads of this process.
//! `mpi` (a feature, Unix) has each device in a process of its own. A transport between GPUs, such as
//! NCCL's, would implement [`Communicator`] as well: [`Outgoing`] says what is sent to whom.
//! [`HostQueues`] are the host's end of `infeed`, `outfeed`, `send` and `recv`.
//!
//! # Invariants
//! - What an exchange gives depends on the program and on the arrays, never on timing: members of a
//!   group are in the order that the operation states, and whoever combines does so in this order.
//! - No device waits forever: an exchange ends when all members have joined it, when another
//!   device fails or ends without joining it, or after the time-out. The error names who is missing.
//! - Unsafe code is one extension of a lifetime, in `in_process`, and calls of MPI's functions.
//! - What a collective does with the arrays is not known here: that is its evaluator's affair.

mod communicator;
mod group;
mod host;
mod in_process;
#[cfg(all(feature = "mpi", unix))]
pub mod mpi;
mod topology;
mod workers;

pub use communicator::{
    Alone, Arrived, Combine, Communicator, Exchange, ExchangeError, Outgoing, Pending,
    WithoutExchange,
};
pub use group::{Group, GroupError};
pub use host::HostQueues;
pub use in_process::{RunError, run};
pub use topology::Topology;
