//! What the explorer's page shows of a program, as data.
//!
//! A [`Session`] is a program that was read and planned; its methods give one view each, as
//! structs that become JSON: the graph with what is fused and why ([`graph`]), indexing maps of an
//! edge ([`edges`]), the elements that an element is computed from ([`reads`]), an array in memory
//! ([`layouts`]), code ([`code`]), memory and time on a CPU ([`memory`]) and on a simulated TPU
//! ([`tpu`]). Text with an error gives a [`Problem`] with its line and column.
//!
//! The crate builds for `wasm32-unknown-unknown`, where a web worker calls it through [`Request`];
//! nothing here needs WebAssembly, so tests call the same functions natively.
//!
//! What it is not: it analyses nothing itself, except for following maps from element to element.

pub mod code;
pub mod edges;
mod elements;
pub mod graph;
pub mod layouts;
pub mod memory;
mod problem;
pub mod reads;
mod repeats;
mod request;
mod scalars;
mod search;
mod session;
pub mod tpu;
#[cfg(target_family = "wasm")]
mod web;

pub use problem::Problem;
pub use request::{Opened, Request, answer};
pub use session::{Session, SizeInfo, Sizes};
