//! The commands of the command line, and the exit code of each outcome.

use crate::commands::{
    bench, compile, explore, generate, index, layout, partition, reduce, run, shape, simplify,
    simulate, sizes,
};
use crate::exit_code::{BAD_USAGE, SUCCESS};
use crate::interrupt;
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::output;
use crate::trace;
use clap::{CommandFactory, Parser, Subcommand};
use tegula::Interrupt;

/// Compile and run machine-learning programs, and explain each decision of the compiler.
#[derive(Debug, Parser)]
#[command(name = "tegula", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
}

const EXIT_CODES: &str = "\
Exit codes: 0 for success; 1 for a finding or a failed check; 2 for bad usage, bad input, or output
that cannot be written; 124 if the time limit was reached; 130 after Ctrl-C.";

/// What `tegula` prints when it is called without a command: what to try first.
const WELCOME: &str = "\
Tegula compiles and runs machine-learning programs, and explains each decision of the compiler. A
program is a file with HLO, StableHLO, a `jax.export` artifact or an ONNX model; `-` is standard
input. Try first:

  tegula run model.hlo                       run it on random inputs
  tegula bench model.hlo                     measure its time, kernel by kernel
  tegula compile model.hlo --emit fused      print which operations are fused, and why
  tegula index model.hlo                     print which elements each operation reads
  tegula layout model.hlo --chip v5e         print its layouts and memory spaces on a TPU
  tegula simulate model.hlo --report r.html  simulate it on a TPU core
  tegula explore model.hlo                   show all of this on a page in your browser

`tegula help` lists all commands, and `tegula COMMAND --help` the options of one. The folder
examples/models of the source code has programs to try.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile and run a program, and print or check its results.
    Run(run::RunArgs),
    /// Measure how long a program takes to compile and to run, kernel by kernel.
    Bench(bench::BenchArgs),
    /// Print a program in one of the compiler's forms, or write an object file for C programs.
    Compile(compile::CompileArgs),
    /// Print indexing maps: which elements of its operands each instruction reads.
    Index(index::IndexArgs),
    /// Simplify an indexing map that is given as text.
    Simplify(simplify::SimplifyArgs),
    /// Print an array's size with padding and its elements' positions in memory, or draw it.
    Shape(shape::ShapeArgs),
    /// Print the shapes of a program's values, or prove that two sizes are equal.
    Sizes(sizes::SizesArgs),
    /// Print a program with layouts, tiles and memory spaces for a TPU, and explain them.
    Layout(layout::LayoutArgs),
    /// Partition a program with sharded arrays, and print the program that each device runs.
    Partition(partition::PartitionArgs),
    /// Run a kernel or a program on a simulated TPU core, and report errors and times.
    Simulate(simulate::SimulateArgs),
    /// Open a page that shows a program's fusion, maps, layouts, code, memory and time.
    Explore(explore::ExploreArgs),
    /// Find the smallest program on which a command still fails.
    Reduce(reduce::ReduceArgs),
    /// Print tab completions for a shell.
    Completions(generate::CompletionsArgs),
    /// Write manual pages.
    Man(generate::ManArgs),
    /// Print the JSON schemas of the documents that `--json` prints.
    Schema(generate::SchemaArgs),
}

impl Cli {
    /// Runs the command and returns its exit code.
    pub(crate) fn execute(self) -> u8 {
        let common = &self.common;
        common.color.apply();
        let Some(command) = &self.command else {
            say!("{WELCOME}");
            return output::report().unwrap_or(SUCCESS);
        };
        // `simulate` writes the simulated chip's timeline to the trace file, not this process's.
        let path = match command {
            Command::Simulate(_) => None,
            _ => common.trace.clone(),
        };
        let trace = trace::start(common.verbose, path);
        // Ctrl-C ends the server of `explore` at once, so it listens for no interrupt.
        let interrupt = match command {
            Command::Explore(_) => Interrupt::new(),
            _ => interrupt::listen(),
        };
        let limits = common.limits(&interrupt);
        let outcome = limits.within(|| command.execute(common));
        let code = match outcome {
            Ok(code) => code,
            Err(failure) => failure.report(common.json),
        };
        let code = output::report().unwrap_or(code);
        match trace.finish() {
            Ok(()) => code,
            Err(error) => {
                output::complain(format_args!("error: {error:#}"));
                BAD_USAGE
            }
        }
    }
}

impl Command {
    fn execute(&self, common: &Common) -> Result<u8, Failure> {
        match self {
            Self::Run(args) => run::run(args, common),
            Self::Compile(args) => compile::compile(args, common),
            Self::Index(args) => index::index(args, common),
            Self::Simplify(args) => simplify::simplify(args, common),
            Self::Shape(args) => shape::shape(args, common),
            Self::Sizes(args) => sizes::sizes(args, common),
            Self::Layout(args) => layout::layout(args, common),
            Self::Partition(args) => partition::partition(args, common),
            Self::Simulate(args) => simulate::simulate(args, common),
            Self::Bench(args) => bench::bench(args, common),
            Self::Explore(args) => explore::explore(args, common),
            Self::Reduce(args) => reduce::reduce(args, common),
            Self::Completions(args) => generate::completions(args, Cli::command()),
            Self::Man(args) => generate::man(args, Cli::command()),
            Self::Schema(args) => generate::schema(args),
        }
    }
}
