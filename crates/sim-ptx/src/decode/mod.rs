//! The decoder, from the syntax tree to executable form.
//!
//! A kernel is decoded once: names become slots, modifiers become fields, and called functions are
//! inlined at each call (so there is no recursion and no stack), with their parameters in local
//! memory. An unknown opcode, modifier or operand is an error with its position.

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
