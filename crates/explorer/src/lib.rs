//! The data that the explorer's page shows about a program.
//!
//! A [`Session`] holds one parsed and planned program. Each of its methods returns the data of one
//! view, as structs that serialise to JSON: the graph, with what is fused and why ([`graph`]); the
//! indexing maps of an edge ([`edges`]); the input elements that an element depends on ([`reads`]);
//! the layout of an array in memory ([`layouts`]); code ([`code`]); memory and time on a CPU
//! ([`memory`]) and on a simulated TPU ([`tpu`]). An error in the program's text is a [`Problem`]
//! with its line and column.
//!
//! The crate builds for `wasm32-unknown-unknown`, where a web worker calls it through [`Request`].
//! Nothing here needs WebAssembly, so tests call the same functions natively.
//!
//! What it is not: an analysis of its own. It only follows indexing maps from element to element.

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
