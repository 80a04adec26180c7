//! The command line, `tegula`: the only crate that prints.
//!
//! [`commands`] lists the commands, [`options`] what they share; each command is a module of its own, which calls the facade and the crates below it and says what came of it.

/// Prints a line. A failed write is reported when the command ends.
macro_rules! say {
    ($($text:tt)*) => {
        crate::output::line(format_args!($($text)*))
    };
}

mod bench;
mod chip;
mod commands;
mod compile;
mod draw;
mod exit_code;
mod fused_text;
mod index;
mod inputs;
mod layout;
mod options;
mod output;
mod reduce;
mod report;
mod run;
mod same_size;
mod shape;
mod simplify;
mod simulate;
mod trace;

use clap::Parser;
use commands::Cli;
use exit_code::BAD_USAGE;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` are not errors.
            let code = u8::from(error.use_stderr()) * BAD_USAGE;
            output::note(error.print());
            return ExitCode::from(output::report().unwrap_or(code));
        }
    };
    ExitCode::from(cli.execute())
}
