//! Layouts: in which order and in which tiles the elements of an array are stored.
//!
//! [`physical`] says where an element is stored under a tiled layout. [`assign`] chooses a layout
//! for each array of a flattened program as an optimisation of stated costs, for a CPU, a GPU or a
//! TPU chip. [`apply_layouts`] rewrites a program so that an array in another order of dimensions
//! is a row-major array of permuted dimensions; no later pass knows of orders.

pub mod apply_layouts;
pub mod assign;
pub mod physical;
mod trips;

pub use trips::{assumed_trips, trips};
