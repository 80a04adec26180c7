//! What is known of a program before it is changed.
//!
//! - [`cost`]: what operations on single numbers cost.
//! - [`readers`]: who reads each value.
//! - [`scan`]: which windows are running sums.
//! - [`trip_count`]: how often a loop runs, where that follows from constants.

pub(crate) mod cost;
pub(crate) mod readers;
pub(crate) mod scan;
pub(crate) mod trip_count;
