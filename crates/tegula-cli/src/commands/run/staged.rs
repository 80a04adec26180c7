//! `tegula run` of an ONNX model whose sizes depend on data.

use super::{RunArgs, Times, exit_code, print_json, print_outputs, print_times, write_outputs};
use crate::inputs::read_file;
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::count;
use anyhow::anyhow;
use std::time::{Duration, Instant};
use tegula::{Options, StagedModel};

/// Runs a model stage by stage. The first run makes the stages that depend on data.
pub(super) fn run(args: &RunArgs, common: &Common) -> Result<u8, Failure> {
    if !args.dims.dims.is_empty() || args.freeze.freeze.is_some() {
        let message = "`--dim` and `--freeze` are not for models whose sizes depend on data";
        return Err(anyhow!(message).into());
    }
    let options = Options {
        target: args.target.into(),
        cpu: args.cpu.get()?,
        threads: args.threads.into(),
        chip: Some(crate::chip::load(&args.chip)?),
        cache: args.cache.get()?,
        ..Options::default()
    };
    let failed = |error| Failure::program(&args.model, "", error);
    let start = Instant::now();
    let bytes = read_file(&args.model)?;
    let path = args.model.clone();
    let external = Box::new(move |name: &str| tegula::read_beside(&path, name));
    let read = start.elapsed();
    let start = Instant::now();
    let model = StagedModel::new(bytes, external, &options).map_err(failed)?;
    let inputs = args.inputs.load_staged(&model)?;
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
        read,
        compile,
        run: fastest,
    };
    if common.json {
        print_json(args, &outputs, comparisons.as_deref(), &times);
    } else {
        say!(
            "sizes depend on data: {} for these inputs, compiled as the first run needs them",
            count(model.stages(), "stage")
        );
        print_times(args, &times);
        print_outputs(&outputs, comparisons.as_deref());
    }
    Ok(exit_code(comparisons.as_deref()))
}
