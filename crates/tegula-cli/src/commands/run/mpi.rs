//! `tegula run --mpi`: this process is one rank of a job, and one device.
//!
//! Everything that can fail happens before the ranks leave the job; rank 0 prints and writes results
//! after that. So a job of which a rank is lost ends without a file of results.

use super::{
    RunArgs, Times, exit_code, milliseconds, print_head, print_json, print_outputs, print_run_time,
    write_outputs,
};
use crate::inputs::Source;
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::output::complain;
use anyhow::anyhow;
use std::time::{Duration, Instant};
use tegula::mpi::MpiJob;
use tegula::{Executable, Options, Tensor, compile};

/// How long ranks that found the same mistake wait for rank 0 to say it.
const SAY: Duration = Duration::from_secs(2);

/// What a rank has in the end.
struct Ran {
    source: Source,
    executable: Executable,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    times: Times,
    read_time: Duration,
}

/// Runs a program as a rank.
pub(super) fn run(args: &RunArgs, common: &Common) -> Result<u8, Failure> {
    if !args.peer_timeout.is_finite() || args.peer_timeout <= 0.0 {
        return Err(anyhow!("`--peer-timeout` is a positive number of seconds").into());
    }
    if args.execution.freeze.freeze.is_some() {
        return Err(anyhow!("`--freeze` is not for `--mpi`").into());
    }
    let job = MpiJob::join(Duration::from_secs_f64(args.peer_timeout))?;
    let ran = ran(args, &job).and_then(|ran| {
        job.finish()?;
        Ok(ran)
    });
    let ran = match ran {
        Ok(ran) => ran,
        Err(failure) => {
            complain(format_args!("rank {} of {}:", job.rank(), job.size()));
            let code = failure.report(common.json);
            job.abort(code)
        }
    };
    if job.rank() != 0 {
        return Ok(crate::exit_code::SUCCESS);
    }
    let Ran {
        source,
        executable,
        inputs,
        outputs,
        times,
        read_time,
    } = ran;
    write_outputs(args, &outputs)?;
    let comparisons = args.check.compare(&outputs)?;
    if common.json {
        print_json(args, &outputs, comparisons.as_deref(), &times);
    } else {
        print_head(args, &source.module, &executable, &inputs, &outputs);
        say!(
            "compiled: {:.2} ms (read and verified in {:.2} ms), on each of {} ranks",
            milliseconds(times.compile),
            milliseconds(read_time),
            job.size()
        );
        print_run_time(args, &times);
        print_outputs(&outputs, comparisons.as_deref());
    }
    Ok(exit_code(comparisons.as_deref()))
}

fn ran(args: &RunArgs, job: &MpiJob) -> Result<Ran, Failure> {
    let execution = &args.execution;
    let options = Options {
        chip: Some(crate::chip::load(&args.chip)?),
        devices: job.size(),
        ..execution.options()?
    };
    let start = Instant::now();
    let source = execution.read()?;
    let read_time = start.elapsed();
    agree_on_program(args, job, &source)?;
    let executable = compile(&source.module, &options).map_err(|e| source.failure(e))?;
    let stacked = job.size() > 1 && executable.backend().stacked_devices().is_some();
    let inputs = match stacked {
        true => execution.inputs.load_stacked(&executable)?,
        false => execution.inputs.load(&source)?,
    };
    let bytes: Vec<&[u8]> = inputs.iter().map(|input| input.literal().bytes()).collect();
    agree(job, &bytes)?;
    let start = Instant::now();
    let outputs = job.run(&executable, &inputs, args.steps, args.repeat);
    let outputs = outputs.map_err(|e| source.failure(e))?;
    let times = Times {
        compile: executable.compile_time,
        run: start.elapsed() / args.repeat,
    };
    Ok(Ran {
        source,
        executable,
        inputs,
        outputs,
        times,
        read_time,
    })
}

/// All ranks have the same program and options.
fn agree_on_program(args: &RunArgs, job: &MpiJob, source: &Source) -> Result<(), Failure> {
    let (text, constants) = tegula_ir::identity(&source.module);
    let options = format!(
        "{} {:?} {:?} {} {:?} {}",
        env!("CARGO_PKG_VERSION"),
        args.execution.target,
        args.execution.inputs.made_up(),
        args.repeat,
        args.steps,
        job.size()
    );
    let constants = constants.into_iter().map(tegula_ir::Literal::bytes);
    let parts: Vec<&[u8]> = [text.as_bytes(), options.as_bytes()]
        .into_iter()
        .chain(constants)
        .collect();
    agree(job, &parts)
}

/// All ranks find the same disagreement: rank 0 says so.
fn agree(job: &MpiJob, parts: &[&[u8]]) -> Result<(), Failure> {
    job.agree(parts).map_err(|error| {
        if job.rank() != 0 {
            std::thread::sleep(SAY);
        }
        error.into()
    })
}
