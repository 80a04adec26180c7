//! The command line.

mod cli;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors.
            let code = u8::from(error.use_stderr()) * cli::BAD_USAGE;
            cli::output::note(error.print());
            return ExitCode::from(cli::output::report().unwrap_or(code));
        }
    };
    ExitCode::from(cli.execute())
}
