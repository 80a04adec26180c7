//! Ctrl-C handling. The first Ctrl-C interrupts the command's work, which then ends with a one-line
//! message. The process ends at a second one, or if the work does not check its
//! [limits](tegula::Limits) in time.

use crate::exit_code::INTERRUPTED;
use crate::terminal::{output, result_file};
use std::time::Duration;
use tegula::Interrupt;

/// The time limit for work to end after it was interrupted.
const PATIENCE: Duration = Duration::from_secs(2);

/// Installs the handler of Ctrl-C; returns the interrupt that it sets.
pub(crate) fn listen() -> Interrupt {
    let interrupt = Interrupt::new();
    let flag = interrupt.clone();
    let handler = move || {
        if flag.is_interrupted() {
            end();
        }
        flag.interrupt();
        // If the thread cannot be started, a second Ctrl-C still ends the process.
        let _ = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(PATIENCE);
            end();
        });
    };
    // If the handler cannot be installed, Ctrl-C ends the process at once, the default.
    let _ = ctrlc::set_handler(handler);
    interrupt
}

/// Ends the process and leaves no half-written file.
fn end() -> ! {
    result_file::remove_unfinished();
    output::complain(format_args!("interrupted"));
    std::process::exit(i32::from(INTERRUPTED));
}
