//! Programs compiled once for all sizes beside the same compiled for one: the time of
//! a run at that size, minima of interleaved runs on one thread, and the time of
//! relating sizes.
//!
//!     TEGULA_CORPUS=... cargo bench -p tegula-tests --bench open_models [NAME]

use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};
use tegula::{Executable, Options, Target, Tensor, compile};
use tegula_tests::corpus::{load, whole_corpus};
use tegula_tests::open_models::{OPEN_MODELS, OpenModel};
use tegula_tests::{read, read_specialised};

/// Runs of each program, and how long they may take together.
const RUNS: usize = 200;
const TIME: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    let Some(folder) = whole_corpus() else {
        println!("skipped: no corpus (TEGULA_CORPUS is not set)");
        return Ok(());
    };
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    for model in &OPEN_MODELS {
        if wanted.is_empty() || wanted.iter().any(|name| model.name.contains(&**name)) {
            measure(model, &folder)?;
        }
    }
    Ok(())
}

fn measure(model: &OpenModel, folder: &Path) -> Result<()> {
    let text = model.text(folder)?;
    let inputs = load(folder, model.name, "hlo")?.inputs;
    let options = Options {
        target: Target::Cpu,
        threads: 1,
        ..Options::default()
    };
    let mut relating = Duration::MAX;
    for _ in 0..20 {
        let mut stated = tegula::Reader::new().read_stated(text.as_bytes().to_vec())?;
        let start = Instant::now();
        tegula_ir::infer_symbolic_dims(&mut stated, &[])?;
        tegula_indexing::equality::discharge_guards(&mut stated)?;
        relating = relating.min(start.elapsed());
    }
    println!(
        "{}: sizes related in {:.2} ms",
        model.name,
        milliseconds(relating)
    );
    let open = compile(&read(&text)?, &options)?;
    for sizes in model.sizes {
        let inputs = model.inputs(&inputs, sizes)?;
        let dims = model.dims(sizes);
        let dims: Vec<(&str, i64)> = dims.iter().map(|(name, size)| (&**name, *size)).collect();
        let fixed = compile(&read_specialised(&text, &dims)?, &options)?;
        let (mut once, mut own) = (Duration::MAX, Duration::MAX);
        let begin = Instant::now();
        for _ in 0..RUNS {
            once = once.min(one_run(&open, &inputs)?);
            own = own.min(one_run(&fixed, &inputs)?);
            if begin.elapsed() > TIME {
                break;
            }
        }
        println!(
            "{} at {sizes:?}: open {:.3} ms, static {:.3} ms, {:.3} times",
            model.name,
            milliseconds(once),
            milliseconds(own),
            once.as_secs_f64() / own.as_secs_f64()
        );
    }
    Ok(())
}

fn one_run(executable: &Executable, inputs: &[Tensor]) -> Result<Duration> {
    let start = Instant::now();
    let results = executable.run(inputs.iter())?;
    let time = start.elapsed();
    drop(results);
    Ok(time)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
