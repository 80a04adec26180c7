//! From syntax to the decoded form.
//!
//! A kernel is decoded once: names become slots, modifiers become fields, functions
//! that it calls are written out at each call (so there is no recursion, and no
//! stack), their parameters lying in local memory. An opcode, modifier or operand
//! that is not known is an error with its place; nothing is guessed.

mod builder;
mod collective;
mod compare;
mod control;
mod convert;
mod float;
mod flow;
mod instruction;
mod integer;
mod kernel;
mod matrix;
mod memory;
mod moves;
pub(crate) mod table;
mod walk;

pub(crate) use flow::NOWHERE;
pub use kernel::Parameter;
pub(crate) use kernel::{Fill, Kernel, Special, Variables};
pub(crate) use walk::decode;
