//! Ctrl-C: the first one interrupts the command's work, which then ends with one line; a second one, or
//! work that does not look at its [limits](tegula::Limits) in time, ends the process.

use crate::exit_code::INTERRUPTED;
use crate::terminal::{output, result_file};
use std::time::Duration;
use tegula::Interrupt;

/// How long work may take to end once it was interrupted.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens for Ctrl-C from now on; gives what it sets.
pub(crate) fn listen() -> Interrupt {
    let interrupt = Interrupt::new();
    let flag = interrupt.clone();
    let handler = move || {
        if flag.is_interrupted() {
            end();
        }
        flag.interrupt();
        // Without a thread a second Ctrl-C still ends the process.
        let _ = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(PATIENCE);
            end();
        });
    };
    // Without a handler Ctrl-C ends the process at once, as it does by default.
    let _ = ctrlc::set_handler(handler);
    interrupt
}

/// Ends the process without a half-written file.
fn end() -> ! {
    result_file::remove_unfinished();
    output::complain(format_args!("interrupted"));
    std::process::exit(i32::from(INTERRUPTED));
}
