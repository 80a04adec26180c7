//! The commands, and how their outcomes become exit codes.

use crate::exit_code::BAD_USAGE;
use crate::options::Common;
use crate::{bench, compile, index, layout, output, reduce, run, shape, simplify, simulate, trace};
use clap::{Parser, Subcommand};

/// Compile and run machine-learning programs, and ask why.
#[derive(Debug, Parser)]
#[command(name = "tegula", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile a program, run it, and show or check what it gives.
    Run(run::RunArgs),
    /// Compile a program and print one of its forms on the way.
    Compile(compile::CompileArgs),
    /// Print the indexing maps of a program's instructions.
    Index(index::IndexArgs),
    /// Simplify an indexing map.
    Simplify(simplify::SimplifyArgs),
    /// Print sizes and element positions of a shape.
    Shape(shape::ShapeArgs),
    /// Print a program with layouts, tiles and memory spaces for a TPU.
    Layout(layout::LayoutArgs),
    /// Run a kernel on a simulated TPU core: what is wrong with it, what it needs.
    Simulate(simulate::SimulateArgs),
    /// Measure how long a program takes to compile and run.
    Bench(bench::BenchArgs),
    /// Find the smallest program on which a command still fails.
    Reduce(reduce::ReduceArgs),
}

impl Cli {
    /// Runs the command; gives the exit code.
    pub(crate) fn execute(self) -> u8 {
        // The timeline of a simulation is the chip's, not this process's.
        let path = match &self.command {
            Command::Simulate(_) => None,
            _ => self.common.trace.clone(),
        };
        let trace = trace::start(self.common.verbose, path);
        let common = &self.common;
        let outcome = match &self.command {
            Command::Run(args) => run::run(args, common),
            Command::Compile(args) => compile::compile(args, common),
            Command::Index(args) => index::index(args, common),
            Command::Simplify(args) => simplify::simplify(args, common),
            Command::Shape(args) => shape::shape(args, common),
            Command::Layout(args) => layout::layout(args, common),
            Command::Simulate(args) => simulate::simulate(args, common),
            Command::Bench(args) => bench::bench(args, common),
            Command::Reduce(args) => reduce::reduce(args, common),
        };
        let code = match outcome {
            Ok(code) => code,
            Err(failure) => failure.report(common.json),
        };
        let code = output::report().unwrap_or(code);
        match trace.finish() {
            Ok(()) => code,
            Err(error) => {
                output::complain(format_args!("error: the trace cannot be written: {error}"));
                BAD_USAGE
            }
        }
    }
}
