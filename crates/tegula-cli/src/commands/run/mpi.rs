//! `tegula run --mpi`: this process is one rank of an MPI job, and acts as one device.
//!
//! Every step that can fail on a rank happens before the ranks leave the job. Only then does rank 0
//! print and write results, so a job that loses a rank leaves no result file.

use super::{Ran, RunArgs, Times};
use crate::inputs::Source;
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::output::complain;
use anyhow::anyhow;
use std::time::{Duration, Instant};
use tegula::mpi::MpiJob;
use tegula::{Options, compile};

/// How long the other ranks wait, after a mistake that all ranks detect, for rank 0 to report it.
const SAY: Duration = Duration::from_secs(2);

/// Runs a program as one rank.
pub(super) fn run(args: &RunArgs, common: &Common) -> Result<u8, Failure> {
    if !args.wait.is_finite() || args.wait <= 0.0 {
        return Err(anyhow!("expected a positive number of seconds for `--wait`").into());
    }
    if args.execution.freeze.freeze.is_some() {
        return Err(anyhow!("`--freeze` cannot be combined with `--mpi`").into());
    }
    if let Some(code) = super::supervised::wait_for_rank() {
        return Ok(code);
    }
    let deadline = common.timeout.map(|timeout| Instant::now() + timeout);
    let job = match MpiJob::join(Duration::from_secs_f64(args.wait), deadline) {
        Ok(job) => job,
        Err(error) => MpiJob::leave(Failure::from(error).report(common.json)),
    };
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
    let by_whom = format!(", on each of {} ranks", job.size());
    ran.present(args, common, &by_whom)
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

/// Checks that all ranks have the same program and options.
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

/// Checks that all ranks have the same data. Every rank detects a difference, and rank 0 reports
/// it.
fn agree(job: &MpiJob, parts: &[&[u8]]) -> Result<(), Failure> {
    job.agree(parts).map_err(|error| {
        if job.rank() != 0 {
            std::thread::sleep(SAY);
        }
        error.into()
    })
}
