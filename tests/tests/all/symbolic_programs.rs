//! Programs with open sizes: compiled once, run at several sizes. The same text with
//! its sizes given, evaluated by definition, says what is right. `TEGULA_SWEEP` says
//! how many random programs; `TEGULA_SEED` runs one.

use tegula::{Options, Target, Tensor, compile};
use tegula_ir::Literal;
use tegula_tests::random::Random;
use tegula_tests::symbolic::{SymbolicProgram, symbolic_program};
use tegula_tests::{read, read_specialised};

const TARGETS: [(Target, usize); 4] = [
    (Target::Interp, 1),
    (Target::Plan, 1),
    (Target::Cpu, 1),
    (Target::Cpu, 2),
];

fn run(executable: &tegula::Executable, inputs: &[Literal]) -> Result<Vec<Tensor>, String> {
    let inputs: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
    let result = executable.run(inputs.iter());
    result.map_err(|e| e.to_string())
}

fn check(program: &SymbolicProgram, seed: u64) -> Result<(), String> {
    let module = read(&program.text).map_err(|e| format!("reading: {e}"))?;
    let mut compiled = Vec::new();
    for (target, threads) in TARGETS {
        let options = Options {
            target,
            threads,
            ..Options::default()
        };
        let executable = compile(&module, &options);
        compiled.push(executable.map_err(|e| format!("compiling for {target:?}: {e}"))?);
    }
    let mut random = Random::new(seed);
    for _ in 0..3 {
        let sizes = program.sizes(&mut random);
        let inputs = program.inputs(&sizes, &mut random);
        let dims = program.dims(&sizes);
        let dims: Vec<(&str, i64)> = dims.iter().map(|(n, s)| (n.as_str(), *s)).collect();
        let expected = by_definition(&program.text, &dims, &inputs);
        for (executable, target) in compiled.iter().zip(TARGETS) {
            // Sizes that cannot be are refused by all.
            match (run(executable, &inputs), &expected) {
                (Ok(results), Ok(expected)) if results == *expected => {}
                (Err(_), Err(_)) => {}
                (Ok(_), Ok(_)) => return Err(format!("{target:?} differs at {dims:?}")),
                (Err(e), Ok(_)) => return Err(format!("running on {target:?} at {dims:?}: {e}")),
                (Ok(_), Err(e)) => return Err(format!("{target:?} runs at {dims:?}: {e}")),
            }
        }
    }
    Ok(())
}

/// What the text means at sizes that are given before anything else.
fn by_definition(
    text: &str,
    dims: &[(&str, i64)],
    inputs: &[Literal],
) -> Result<Vec<Tensor>, String> {
    let fixed = read_specialised(text, dims).map_err(|e| e.to_string())?;
    let interp = Options {
        target: Target::Interp,
        ..Options::default()
    };
    run(
        &compile(&fixed, &interp).map_err(|e| e.to_string())?,
        inputs,
    )
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_programs_agree_at_every_size() {
    let seeds = match number("TEGULA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TEGULA_SWEEP").unwrap_or(100),
    };
    let count = seeds.end - seeds.start;
    let shown = number("TEGULA_SHOW").unwrap_or(2) as usize;
    let mut failures = Vec::new();
    for seed in seeds {
        let program = symbolic_program(seed);
        if let Err(error) = check(&program, seed) {
            failures.push(format!("seed {seed}: {error}\n{}", program.text));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count} programs fail; the first:\n{}",
        failures.len(),
        failures[..failures.len().min(shown)].join("\n")
    );
}
