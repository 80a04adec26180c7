//! Running a compiled program.
//!
//! - [`executable`]: a compiled Plan, and what it keeps between runs.
//! - [`walk`]: the walker of actions; [`memory`]: where everything lies in a run.
//! - [`pre_resolved_loop`]: loops of small steps whose addresses are found once.
//! - [`strip_loop`]: steps done strip by strip, by several threads.
//! - [`saved`]: executables as bytes.
//! - [`roofline`]: what this machine can do at most, measured.

pub(crate) mod executable;
pub(crate) mod memory;
pub(crate) mod pre_resolved_loop;
pub(crate) mod roofline;
pub(crate) mod saved;
pub(crate) mod strip_loop;
pub(crate) mod walk;
