//! `tegula bench`: measures how long a program takes to compile and run.

mod staged;

use crate::documents::{self, Measurement};
use crate::execution::ExecutionArgs;
use crate::exit_code::SUCCESS;
use crate::inputs::{Source, borrowed};
use crate::options::{Common, seconds};
use crate::report::Failure;
use crate::terminal::style::{HEADING, QUIET, paint};
use crate::terminal::table::{Column, Table};
use crate::terminal::{count, progress};
use clap::Args;
use std::time::{Duration, Instant};
use tegula::{Backend, compile};
use tegula_codegen_cpu::{Ceilings, KernelTime};

/// The options of `tegula bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// Repeat runs for this many seconds, for example 0.5.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub seconds: Duration,
}

/// The fewest and the most runs that are timed.
const FEWEST: usize = 5;
const MOST: usize = 2000;
/// The maximum number of profiled runs.
const PROFILES: usize = 20;
/// How often reading and compiling are timed; the fastest time is reported.
const COMPILES: usize = 3;
/// How often a series of runs on a device is timed; the fastest series is reported.
const ROUNDS: usize = 3;

/// Measures a program.
pub(crate) fn bench(args: &BenchArgs, common: &Common) -> Result<u8, Failure> {
    let BenchArgs {
        execution: args,
        seconds: budget,
    } = args;
    let budget = *budget;
    let options = args.options()?;
    let source = match args.read() {
        Err(failure) if failure.needs_stages() => {
            return staged::bench(args, &options, budget, common);
        }
        source => source?,
    };
    source.warn_of_callbacks();
    let inputs = args.inputs.load(&source)?;
    // The spinner is removed first: drawing it would distort the measurement.
    progress::clear();
    let read_ms = fastest_read(&source)?;
    let mut compile_times = Vec::new();
    let mut executable = loop {
        let executable = compile(&source.module, &options).map_err(|e| source.failure(e))?;
        compile_times.push(executable.compile_time);
        if compile_times.len() >= COMPILES {
            break executable;
        }
    };
    // Inputs are converted to the layouts that the program takes before the clock starts.
    let laid_out = inputs.into_iter().enumerate();
    let laid_out = laid_out.map(|(index, input)| executable.laid_out(index, input));
    let inputs: Result<Vec<tegula::Tensor>, _> = laid_out.collect();
    let inputs = inputs.map_err(|e| source.failure(e))?;
    let given = args.freeze.freeze(&mut executable, &inputs);
    let given = given.map_err(|e| source.failure(e))?;
    if args.freeze.freeze.is_some() {
        // The first run computes what depends only on frozen inputs; it is not timed.
        executable
            .run(borrowed(&given))
            .map_err(|e| source.failure(e))?;
    }
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < FEWEST || (start.elapsed() < budget && times.len() < MOST) {
        let given = borrowed(&given);
        let start = Instant::now();
        let outputs = executable.run(given).map_err(|e| source.failure(e))?;
        times.push(start.elapsed());
        drop(outputs);
    }
    times.sort_unstable();
    compile_times.sort_unstable();
    let (median, least) = (ms(times[times.len() / 2]), ms(times[0]));
    let compile_ms = ms(compile_times[0]);
    let backend = executable.backend();
    let shapes: Vec<_> = inputs.iter().map(|b| b.stored().shape()).collect();
    let peak = backend.peak_bytes(&shapes).map_err(|e| source.failure(e))?;
    let peak = peak.unwrap_or(0);
    let kernels = fastest_profile(backend, &inputs, budget / 2).map_err(|e| source.failure(e))?;
    let device_ms = device_ms(backend, &inputs, least, budget).map_err(|e| source.failure(e))?;
    let kernels = rated(kernels, args.threads);
    if common.json {
        documents::print(&Measurement {
            read_ms,
            compile_ms,
            run_ms_median: median,
            run_ms_min: least,
            device_ms,
            peak_bytes: peak,
            frozen: inputs.len() - given.len(),
            threads: args.threads,
            seed: args.inputs.made_up(),
            kernels: kernels.into_iter().map(Rated::document).collect(),
        });
        return Ok(SUCCESS);
    }
    say!(
        "{}: {} on {}",
        paint(HEADING, &source.module.name),
        count(times.len(), "run"),
        count(args.threads.into(), "thread")
    );
    if let Some(seed) = args.inputs.made_up()
        && !inputs.is_empty()
    {
        say!("inputs   random, from seed {seed}");
    }
    say!("read     {read_ms:.3} ms, with verification");
    say!("compile  {compile_ms:.3} ms");
    say!("run      {median:.4} ms median, {least:.4} ms fastest");
    if let Some(device_ms) = device_ms {
        say!("device   {device_ms:.4} ms a run, without copies to or from the device");
    }
    match inputs.len() - given.len() {
        0 => say!("memory   {peak} bytes of arena and results"),
        n => say!(
            "memory   {peak} bytes of arena, results and values kept from {}",
            count(n, "frozen input")
        ),
    }
    print_kernels(&kernels);
    Ok(SUCCESS)
}

/// The number of kernels that are shown; `--json` prints all.
const SHOWN: usize = 20;

/// Prints the slowest kernels, and how near each comes to this machine's peak.
fn print_kernels(kernels: &[Rated]) {
    if kernels.is_empty() {
        return;
    }
    let right = Column::Right;
    let mut table = Table::new(&[right, right, right, right, right, Column::Left]);
    table.row(["ms", "runs", "Gop/s", "GB/s", "of peak", "kernel"]);
    for kernel in kernels.iter().take(SHOWN) {
        table.row(kernel.cells());
    }
    let mut lines = table.lines(0).into_iter();
    if let Some(head) = lines.next() {
        say!("\n{}", paint(HEADING, head));
    }
    lines.for_each(|line| say!("{line}"));
    if let Some(more) = kernels.len().checked_sub(SHOWN + 1) {
        say!(
            "{}",
            paint(QUIET, format_args!("... and {} more", more + 1))
        );
    }
}

/// Returns the time of a run on the device without host copies, or `None` if there is no device.
/// `least` is the milliseconds of a run with its copies; it determines how many runs fit the
/// budget.
fn device_ms(
    backend: &dyn Backend,
    inputs: &[tegula::Tensor],
    least: f64,
    budget: Duration,
) -> Result<Option<f64>, tegula::Error> {
    let borrowed: Vec<_> = inputs.iter().map(tegula::Tensor::stored).collect();
    let fitting = budget.as_secs_f64() * 1e3 / least.max(1e-3);
    let runs = (fitting as usize).clamp(FEWEST, MOST);
    let mut fastest = Duration::MAX;
    for _ in 0..ROUNDS {
        let Some(time) = backend.device_time(&borrowed, runs as u32)? else {
            return Ok(None);
        };
        fastest = fastest.min(time);
    }
    Ok(Some(ms(fastest)))
}

/// Returns the fastest time of each kernel, or no times on targets that do not measure kernels.
fn fastest_profile(
    backend: &dyn Backend,
    inputs: &[tegula::Tensor],
    budget: Duration,
) -> Result<Vec<KernelTime>, tegula::Error> {
    let borrowed: Vec<_> = inputs.iter().map(tegula::Tensor::stored).collect();
    let mut profiles = Vec::new();
    let start = Instant::now();
    while profiles.is_empty() || (start.elapsed() < budget && profiles.len() < PROFILES) {
        let profile = backend.profile(&borrowed)?;
        if profile.is_empty() {
            return Ok(profile);
        }
        profiles.push(profile);
    }
    Ok(fastest_of_each(profiles))
}

/// Returns the fastest time of each kernel over several profiled runs. A profile in which a kernel
/// ran another number of times is ignored for that kernel.
fn fastest_of_each(profiles: Vec<Vec<KernelTime>>) -> Vec<KernelTime> {
    let mut profiles = profiles.into_iter();
    let mut fastest = profiles.next().unwrap_or_default();
    for other in profiles.flatten() {
        let same = |k: &&mut KernelTime| k.name == other.name && k.runs == other.runs;
        if let Some(known) = fastest.iter_mut().find(same) {
            known.time = known.time.min(other.time);
        }
    }
    fastest
}

/// Returns the fastest time for reading and verifying the program's text, in milliseconds.
fn fastest_read(source: &Source) -> Result<f64, Failure> {
    let mut fastest = Duration::MAX;
    for _ in 0..COMPILES {
        let start = Instant::now();
        source.read_again().map_err(|e| source.failure(e))?;
        fastest = fastest.min(start.elapsed());
    }
    Ok(ms(fastest))
}

/// The time of a kernel or library call compared with this machine's peak.
struct Rated {
    kernel: KernelTime,
    /// 10^9 operations per second, and 10^9 bytes per second.
    operations: f64,
    bytes: f64,
    /// The fraction of the machine's peak that is reached: of the peak rate of operations or of the
    /// bandwidth of a copy of as many bytes, whichever fraction is larger.
    share: Option<f64>,
}

/// Compares each kernel with this machine's peak; returns the slowest first.
fn rated(mut kernels: Vec<KernelTime>, threads: u16) -> Vec<Rated> {
    kernels.sort_by_key(|k| std::cmp::Reverse(k.time));
    let mut ceilings = Ceilings::default();
    let mut rate = |kernel: KernelTime| {
        let seconds = kernel.time.as_secs_f64().max(1e-9);
        let work = kernel.work;
        let (operations, bytes) = (work.operations / seconds, work.bytes / seconds);
        let at_most = bytes / ceilings.bytes(work.bytes / kernel.runs.max(1) as f64);
        // The measured peak of operations is of one thread and of 32-bit numbers, so it applies to
        // nothing else.
        let comparable = threads == 1 && !work.narrow;
        let most = ceilings.operations().filter(|_| comparable);
        Rated {
            operations: operations / 1e9,
            bytes: bytes / 1e9,
            share: most.map(|most| at_most.max(operations / most)),
            kernel,
        }
    };
    kernels.into_iter().map(&mut rate).collect()
}

impl Rated {
    fn document(self) -> documents::KernelTime {
        documents::KernelTime {
            ms: ms(self.kernel.time),
            runs: self.kernel.runs,
            gflops: self.operations,
            gbytes_per_s: self.bytes,
            share_of_ceiling: self.share,
            name: self.kernel.name,
        }
    }

    fn cells(&self) -> [String; 6] {
        let share = self.share.map(|share| format!("{:.0} %", 100.0 * share));
        [
            format!("{:.4}", ms(self.kernel.time)),
            self.kernel.runs.to_string(),
            format!("{:.1}", self.operations),
            format!("{:.1}", self.bytes),
            share.unwrap_or_else(|| "-".to_owned()),
            self.kernel.name.clone(),
        ]
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
