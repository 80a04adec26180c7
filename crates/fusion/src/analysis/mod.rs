//! What is known of a program before it is changed.
//!
//! - [`readers`]: who reads each value.
//! - [`trip_count`]: how often a loop runs, where that follows from constants.

pub(crate) mod readers;
pub(crate) mod trip_count;
