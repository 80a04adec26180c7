//! Analyses: facts about a program, computed without changing it.
//!
//! - [`cost`]: the cost of scalar operations.
//! - [`readers`]: the readers of each value.
//! - [`scan`]: which `reduce-window` operations are prefix sums.
//! - [`trip_count`]: the number of iterations of loops that count between constants.

pub(crate) mod cost;
pub(crate) mod readers;
pub(crate) mod scan;
pub(crate) mod trip_count;
