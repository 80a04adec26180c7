//! The exit codes of every command.

/// Success.
pub(crate) const SUCCESS: u8 = 0;
/// A check failed or there are findings.
pub(crate) const FINDING: u8 = 1;
/// The command line or the input is wrong.
pub(crate) const BAD_USAGE: u8 = 2;
/// The time limit was reached; the same code as GNU `timeout`.
pub(crate) const TIMED_OUT: u8 = 124;
/// Interrupted by Ctrl-C: 128 plus the signal's number, the convention of shells.
pub(crate) const INTERRUPTED: u8 = 130;
