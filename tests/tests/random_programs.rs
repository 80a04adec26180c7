//! Random programs on every target, in both regimes, against the reference
//! evaluator. `TEGULA_SWEEP` says how many programs; `TEGULA_SEED` runs one.

use tegula::{Cpu, Options, Target};
use tegula_tests::judge::{Reference, Verdict};
use tegula_tests::random::{Regime, random_program};

/// Programs of each regime when nothing else is asked for.
const PROGRAMS: u64 = 250;

fn count() -> u64 {
    std::env::var("TEGULA_SWEEP")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(PROGRAMS)
}

/// Gives whether all targets could be judged.
fn check(seed: u64, regime: Regime) -> Result<bool, String> {
    let program = random_program(seed, regime);
    let fail = |what: &str, error: String| {
        Err(format!(
            "seed {seed}, {regime:?}: {what}: {error}\n{}",
            program.text
        ))
    };
    let module = match tegula::read(&program.text) {
        Ok(module) => module,
        Err(error) => return fail("read", error.to_string()),
    };
    let reference = match Reference::new(&module, &program.inputs, regime) {
        Ok(reference) => reference,
        Err(error) => return fail("interp", error),
    };
    let mut judged = true;
    // The widest vectors there are, and those that every machine has.
    let (native, oldest) = (Cpu::Native, Cpu::X86V2);
    for (target, cpu, threads) in [
        (Target::Plan, native, 1),
        (Target::Cpu, native, 1),
        (Target::Cpu, native, 2),
        (Target::Cpu, oldest, 1),
    ] {
        let options = Options {
            target,
            cpu,
            threads,
        };
        match reference.judge_with(&module, &program.inputs, &options) {
            Ok(verdict) => judged &= verdict == Verdict::Agrees,
            Err(error) => return fail(&format!("{options:?}"), error),
        }
    }
    Ok(judged)
}

fn sweep(regime: Regime) {
    if let Some(seed) = std::env::var("TEGULA_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
    {
        check(seed, regime).unwrap_or_else(|e| panic!("{e}"));
        return;
    }
    let mut failures = Vec::new();
    let mut judged = 0;
    let count = count();
    for seed in 0..count {
        match check(seed, regime) {
            Ok(true) => judged += 1,
            Ok(false) => {}
            Err(error) => failures.push(error),
        }
    }
    let shown: Vec<&String> = failures.iter().take(3).collect();
    assert!(
        failures.is_empty(),
        "{} of {count} programs fail; the first:\n{shown:#?}",
        failures.len()
    );
    println!("{judged} of {count} programs judged");
    // A test that judges nothing tests nothing.
    assert!(
        judged * 2 > count,
        "only {judged} of {count} programs could be judged"
    );
}

#[test]
fn dyadic_programs_agree_to_the_bit() {
    sweep(Regime::Dyadic);
}

#[test]
fn general_programs_agree_within_the_envelope() {
    sweep(Regime::General);
}
