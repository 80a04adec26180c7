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

/// Compile and run machine-learning programs, and ask why.
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
that cannot be written; 124 if the time limit was reached; 130 if it was interrupted.";

/// What `tegula` prints when it is called without a command: what to try first.
const WELCOME: &str = "\
Tegula compiles and runs machine-learning programs, and says why they are compiled so. A program is a
file of HLO or StableHLO, of jax.export, or an ONNX model; `-` is standard input. Try first:

  tegula run model.hlo                       run it on random inputs
  tegula bench model.hlo                     how long it takes, kernel by kernel
  tegula compile model.hlo --emit fused      what is computed together, and why
  tegula index model.hlo                     which elements every operation reads
  tegula layout model.hlo --chip v5e         how its arrays lie on a TPU
  tegula simulate model.hlo --report r.html  what a TPU does, and when
  tegula explore model.hlo                   all of this on a page in your browser

`tegula help` lists all commands, `tegula COMMAND --help` the options of one. The folder
examples/models of the sources has programs.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile a program, run it, and show or check what it gives.
    Run(run::RunArgs),
    /// Measure how long a program takes to compile and run, kernel by kernel.
    Bench(bench::BenchArgs),
    /// Print one of a program's forms on its way to machine code, or write an object for C.
    Compile(compile::CompileArgs),
    /// Print which elements of its operands each instruction reads: its indexing maps.
    Index(index::IndexArgs),
    /// Simplify an indexing map.
    Simplify(simplify::SimplifyArgs),
    /// Print the size of an array with padding and the positions of its elements, and draw it.
    Shape(shape::ShapeArgs),
    /// Print the shapes of a program's values; prove that two sizes are equal.
    Sizes(sizes::SizesArgs),
    /// Print a program with layouts, tiles and memory spaces for a TPU, and why.
    Layout(layout::LayoutArgs),
    /// Cut a program over sharded arrays into one for each device, and print that.
    Partition(partition::PartitionArgs),
    /// Run a kernel or a program on a simulated TPU core: what is wrong, how long it takes.
    Simulate(simulate::SimulateArgs),
    /// Open a page that shows a program on its way: fusion, maps, layouts, code, memory and time.
    Explore(explore::ExploreArgs),
    /// Find the smallest program on which a command still fails.
    Reduce(reduce::ReduceArgs),
    /// Print completions for a shell.
    Completions(generate::CompletionsArgs),
    /// Write manual pages.
    Man(generate::ManArgs),
    /// Print the JSON schema of what `--json` prints.
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
