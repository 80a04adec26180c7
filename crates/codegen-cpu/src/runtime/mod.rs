//! Running a compiled program.
//!
//! - [`executable`]: a compiled Plan, and the memory that it keeps between runs.
//! - [`walk`]: executes actions; [`memory`]: the addresses of a run.
//! - [`pre_resolved_loop`]: loops of small steps whose addresses are resolved once.
//! - [`strip_loop`]: steps executed strip by strip, by several threads.
//! - [`saved`]: serialises executables.
//! - [`roofline`]: measures the peak rates of this machine.

pub(crate) mod executable;
pub(crate) mod memory;
pub(crate) mod pre_resolved_loop;
pub(crate) mod roofline;
pub(crate) mod saved;
pub(crate) mod strip_loop;
pub(crate) mod walk;
