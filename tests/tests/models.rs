//! The programs of `examples/models` on every target.

use anyhow::{Result, bail};
use libtest_mimic::{Arguments, Failed, Trial};
use tegula::Target;
use tegula_tests::gpu;
use tegula_tests::models::{load, names};

const TARGETS: &[(&str, Target, usize)] = &[
    ("interp", Target::Interp, 1),
    ("plan", Target::Plan, 1),
    ("cpu", Target::Cpu, 1),
    ("cpu-2-threads", Target::Cpu, 2),
    ("cuda-sim", Target::CudaSim, 1),
    ("tpu", Target::Tpu, 1),
];

/// What a target cannot do yet. The list only shrinks: a program on it that works
/// fails the test.
const NOT_YET: &[(&str, &str)] = &[
    // A TPU's layouts are chosen for sizes that are known.
    ("tpu", "symbolic_attention"),
    ("tpu", "symbolic_mlp"),
];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![trial("not_yet", known)];
    let gpu = gpu::target();
    for name in names().unwrap_or_default() {
        for &(label, target, threads) in TARGETS {
            let Some((label, target)) = gpu::in_place_of((label, target), gpu) else {
                continue;
            };
            let listed = NOT_YET.contains(&(label, name.as_str()));
            let program = name.clone();
            let run = move || check(&program, target, threads, listed);
            trials.push(trial(&format!("{label}/{name}"), run));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        run().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// Whatever the list names exists.
fn known() -> Result<()> {
    let names = names()?;
    for (target, name) in NOT_YET {
        let target_known = TARGETS.iter().any(|(label, ..)| label == target);
        if !target_known || !names.iter().any(|known| known == name) {
            bail!("there is no {target}/{name}: take it off the list");
        }
    }
    Ok(())
}

fn check(name: &str, target: Target, threads: usize, listed: bool) -> Result<()> {
    // Reading and verifying is asked of every program.
    let program = load(name)?;
    match (program.check(target, threads), listed) {
        (Ok(()), true) => bail!("it works: take it off the list of what does not"),
        (Err(_), true) => Ok(()),
        (result, false) => result,
    }
}
