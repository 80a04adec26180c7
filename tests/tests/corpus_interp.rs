//! The reference evaluator against the expected results of the corpus.

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::time::Instant;
use tegula_tests::corpus::{load, names, small_corpus, whole_corpus};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    add(&mut trials, "small", &small_corpus());
    match whole_corpus() {
        Some(folder) => add(&mut trials, "corpus", &folder),
        None => println!("skipped: the whole corpus (TEGULA_CORPUS is not set)"),
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn add(trials: &mut Vec<Trial>, group: &str, folder: &Path) {
    let names = match names(folder) {
        Ok(names) => names,
        Err(error) => {
            let message = format!("{error:#}");
            trials.push(Trial::test(format!("{group}/folder"), move || {
                Err(Failed::from(message))
            }));
            return;
        }
    };
    for name in names {
        let folder = folder.to_owned();
        let trial = format!("{group}/{name}");
        let run = move || check(&folder, &name).map_err(|e| Failed::from(format!("{e:#}")));
        trials.push(Trial::test(trial, run));
    }
}

fn check(folder: &Path, name: &str) -> anyhow::Result<()> {
    let program = load(folder, name)?;
    let start = Instant::now();
    let result = tegula_interp::evaluate(&program.module, &program.arguments())?;
    let seconds = start.elapsed().as_secs_f64();
    let comparisons = program.compare(&result.leaves())?;
    let error = comparisons.iter().map(|c| c.error).fold(0.0, f64::max);
    println!(
        "{name}: error {error:.2e} of {:.0e}, {seconds:.2} s",
        program.tolerance()
    );
    anyhow::ensure!(!comparisons.is_empty(), "no result to compare with");
    anyhow::ensure!(
        error <= program.tolerance(),
        "the largest error is {error:.3e}"
    );
    Ok(())
}
