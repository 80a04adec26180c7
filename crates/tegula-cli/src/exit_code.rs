//! The exit codes of every command.

/// Everything went well.
pub(crate) const SUCCESS: u8 = 0;
/// A check failed or something was found.
pub(crate) const FINDING: u8 = 1;
/// The command line or the input is wrong.
pub(crate) const BAD_USAGE: u8 = 2;
/// The time limit was reached: as `timeout` of the GNU tools has it.
pub(crate) const TIMED_OUT: u8 = 124;
/// Ctrl-C: 128 and the signal's number, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;
