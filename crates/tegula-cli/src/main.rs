//! The command line, `tegula`: the only crate that prints.
//!
//! [`cli`] lists the commands and [`options`] the options that they share. Each module of
//! [`commands`] calls the facade and the crates below it and reports the result: to a person
//! through [`terminal`], or to a program as one of [`documents`].

/// Prints a line to standard output. A failed write is reported when the command ends.
macro_rules! say {
    ($($text:tt)*) => {
        crate::terminal::output::line(format_args!($($text)*))
    };
}

mod chip;
mod cli;
mod commands;
mod documents;
mod execution;
mod exit_code;
mod inputs;
mod instruction_names;
mod interrupt;
mod options;
mod report;
mod terminal;
mod trace;

use clap::Parser;
use cli::Cli;
use exit_code::BAD_USAGE;
use std::process::ExitCode;
use terminal::output;

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
