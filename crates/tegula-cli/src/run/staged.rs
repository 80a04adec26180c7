//! `tegula run` of an ONNX model whose sizes depend on data.

use super::{
    RunArgs, Times, milliseconds, print_comparison, print_json, print_outputs, write_outputs,
};
use crate::exit_code::{FINDING, SUCCESS};
use crate::inputs::read_file;
use crate::options::Common;
use crate::report::Failure;
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
        print_json(&outputs, comparisons.as_deref(), &times);
    } else {
        say!(
            "sizes depend on data: {} stages for these inputs",
            model.stages()
        );
        say!(
            "compiled: {:.2} ms, the first run among them",
            milliseconds(times.compile)
        );
        say!("ran:      {:.3} ms", milliseconds(times.run));
        print_outputs(&outputs);
        for (i, comparison) in comparisons.iter().flatten().enumerate() {
            print_comparison(i, comparison);
        }
    }
    let ok = comparisons.is_none_or(|all| all.iter().all(|c| c.ok));
    Ok(if ok { SUCCESS } else { FINDING })
}
