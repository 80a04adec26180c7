//! Programs on many devices.
//!
//! A program runs on `replicas x partitions` devices ([`Topology`]). A [`Group`] lists the devices
//! that take part together in a collective operation. Devices exchange arrays through a
//! [`Communicator`]. [`run`] runs N devices on N threads of this process; `mpi` (a feature, Unix)
//! runs each device in its own process; `network` (a feature) runs the devices of several processes
//! that are connected by TCP. A transport between GPUs, such as NCCL's, would implement
//! [`Communicator`] as well: [`Outgoing`] says which arrays are sent to which device.
//! [`HostQueues`] are the host's side of `infeed`, `outfeed`, `send` and `recv`.
//!
//! ```
//! use tegula_devices::{Group, Topology};
//! use tegula_ir::parse_module;
//!
//! let module = parse_module(
//!     "HloModule sum, num_partitions=4
//!     add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
//!     ENTRY main { x = f32[8] parameter(0)
//!       ROOT y = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,2},{1,3}},
//!         use_global_device_ids=true, to_apply=add }",
//! )?;
//! let topology = Topology::of(&module, 4).map_err(|stated| format!("{stated:?}"))?;
//! let root = module.computations[module.entry].root;
//! // Device 3 adds its array to that of device 1.
//! let group = Group::of(&module.instructions[root].op, topology, 3)?;
//! assert_eq!(group, Some(Group { members: vec![1, 3], position: 1 }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! - The result of an exchange depends on the program and the arrays, never on timing: the members
//!   of a group are in the operation's order, and arrays are combined in this order.
//! - No device waits forever: an exchange ends when all members have joined it, when another device
//!   fails or ends without joining it, or after the time-out. The error names the missing devices.
//! - The only unsafe code is one extension of a lifetime, in `run`, and the calls of MPI's
//!   functions.
//! - This crate does not interpret collectives; the evaluator computes with the arrays.

mod communicator;
mod group;
mod host;
mod in_process;
#[cfg(all(feature = "mpi", unix))]
pub mod mpi;
#[cfg(feature = "network")]
pub mod network;
mod run;
mod topology;
#[cfg(any(feature = "network", all(feature = "mpi", unix)))]
mod wire;
mod workers;

pub use communicator::{
    Alone, Arrived, Combine, Communicator, Exchange, ExchangeError, Outgoing, Pending,
    WithoutExchange,
};
pub use group::{Group, GroupError};
pub use host::HostQueues;
pub use in_process::run;
pub use run::RunError;
pub use topology::Topology;
