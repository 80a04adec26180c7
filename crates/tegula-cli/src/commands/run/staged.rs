//! `tegula run` for an ONNX model whose sizes depend on data.

use super::{
    RunArgs, Times, exit_code, milliseconds, print_json, print_outputs, print_run_time,
    write_outputs,
};
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::count;
use std::time::{Duration, Instant};
use tegula::Options;

/// Runs a model stage by stage. The first run compiles the stages that depend on data.
pub(super) fn run(args: &RunArgs, options: &Options, common: &Common) -> Result<u8, Failure> {
    let failed = |error| args.execution.failure(error);
    let start = Instant::now();
    let (model, inputs) = args.execution.staged(options)?;
    let mut outputs = model.run(&inputs).map_err(failed)?;
    let compile = start.elapsed();
    let mut fastest = Duration::MAX;
    for _ in 0..args.repeat {
        let start = Instant::now();
        outputs = model.run(&inputs).map_err(failed)?;
        fastest = fastest.min(start.elapsed());
    }
    write_outputs(args, &outputs)?;
    let comparisons = args.check.compare(&outputs)?;
    let times = Times {
        compile,
        run: fastest,
    };
    if common.json {
        print_json(args, &outputs, comparisons.as_deref(), &times);
    } else {
        say!(
            "sizes depend on data: {} for these inputs",
            count(model.stages(), "stage")
        );
        say!(
            "compiled: {:.2} ms with reading and the first run",
            milliseconds(times.compile)
        );
        print_run_time(args, &times);
        print_outputs(&outputs, comparisons.as_deref());
    }
    Ok(exit_code(comparisons.as_deref()))
}
