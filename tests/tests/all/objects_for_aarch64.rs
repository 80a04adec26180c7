//! Programs as objects for AArch64, run by QEMU and held against XLA's results and the reference evaluator.

use tegula::{Architecture, ErrorKind, IsaLevel, Target, Tensor};
use tegula_fusion::array_leaves;
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_tests::aarch64::{Emulated, Failure, missing};
use tegula_tests::judge::{Reference, Verdict};
use tegula_tests::object::{results_of_stored, stored_inputs, stored_shapes};
use tegula_tests::random::{Regime, random_program, random_rows};
use tegula_tests::{corpus, models, read};

/// Levels by number.
fn level(number: usize) -> IsaLevel {
    let levels = Architecture::Aarch64.levels();
    levels[number % levels.len()]
}

/// Whether programs can be run; says why not.
fn is_possible() -> bool {
    let missing = missing();
    if let Some(missing) = &missing {
        eprintln!(
            "skipped: {missing} (Debian: qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
        );
    }
    missing.is_none()
}

fn results(module: &Module) -> Vec<ArrayShape> {
    let root = &module[module.entry_computation().root].shape;
    let leaves = array_leaves(root);
    leaves.iter().map(|shape| (*shape).clone()).collect()
}

/// The results, of these shapes; nothing where objects lack something.
fn run(
    (module, inputs): (&Module, &[Literal]),
    results: &[ArrayShape],
    sizes: &[i64],
    cpu: IsaLevel,
    name: &str,
) -> Option<Vec<Tensor>> {
    let emulated = match Emulated::new(module, cpu, name) {
        Ok(emulated) => emulated,
        Err(Failure::Compile(error)) if error.kind == ErrorKind::Unsupported => return None,
        Err(error) => panic!("{name} {cpu}: {error:?}"),
    };
    let inputs = stored_inputs(module, inputs);
    let shapes = stored_shapes(module, results);
    let outputs = emulated.run(sizes, &inputs, &shapes);
    let outputs = outputs.unwrap_or_else(|error| panic!("{name} {cpu}: {error:?}"));
    Some(results_of_stored(module, outputs))
}

/// Every example gives XLA's results.
#[test]
fn examples_agree() {
    if !is_possible() {
        return;
    }
    let mut wrong = Vec::new();
    for (number, name) in models::names().expect("a folder").iter().enumerate() {
        let program = models::load(name).expect("a program");
        let mut shapes = results(&program.module);
        for expected in &program.expected {
            // Sizes that the program leaves open are those of what is expected.
            let shape = &mut shapes[expected.output];
            let array = expected
                .array
                .to_literal(shape.element_type)
                .expect("an array");
            *shape = array.shape().clone();
        }
        let sizes = open_sizes(&program.module, &program.inputs);
        let given = (&program.module, &program.inputs[..]);
        let folder = format!("example-{name}");
        let outputs = run(given, &shapes, &sizes, level(number), &folder).expect(name);
        if let Err(error) = program.compare(&outputs, Target::Cpu) {
            wrong.push(format!("{name}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The sizes that a program leaves open, each where it is met first.
fn open_sizes(module: &Module, inputs: &[Literal]) -> Vec<i64> {
    let mut sizes: Vec<(String, i64)> = Vec::new();
    let parameters = &module.entry_computation().parameters;
    for (&parameter, input) in parameters.iter().zip(inputs) {
        let shape = array_leaves(&module[parameter].shape)[0].clone();
        let known = input.shape().static_dims().expect("an array has sizes");
        for (dim, size) in shape.dims.iter().zip(known) {
            let name = format!("{dim:?}");
            if !matches!(dim, tegula_ir::Dim::Static(_)) && sizes.iter().all(|s| s.0 != name) {
                sizes.push((name, size));
            }
        }
    }
    sizes.into_iter().map(|(_, size)| size).collect()
}

/// The small programs of the corpus give XLA's results, at every level.
#[test]
fn programs_of_the_corpus_agree() {
    if !is_possible() {
        return;
    }
    let folder = corpus::small_corpus();
    for (number, name) in corpus::names(&folder).expect("a folder").iter().enumerate() {
        let program = corpus::load(&folder, name, "hlo").expect("a program");
        for cpu in [level(number), level(number + 1)] {
            let given = (&program.module, &program.inputs[..]);
            let outputs = run(given, &results(&program.module), &[], cpu, name).expect(name);
            let compared = program.compare(&outputs, Target::Cpu);
            assert!(compared.is_ok(), "{name} {cpu}: {compared:?}");
        }
    }
}

/// Random programs mean what the reference evaluator says.
#[test]
fn random_programs_agree() {
    if !is_possible() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let count: u64 = number("TEGULA_SWEEP").unwrap_or(30);
    let first: u64 = number("TEGULA_FIRST").unwrap_or(0);
    let (mut judged, mut objects) = (0, 0);
    for seed in first..first + count {
        for regime in [Regime::Dyadic, Regime::General] {
            let program = match seed % 4 {
                3 => random_rows(seed, regime),
                _ => random_program(seed, regime),
            };
            let module = read(&program.text).expect("a program");
            let cpu = level(seed as usize);
            let name = format!("{seed}-{regime:?}");
            let given = (&module, &program.inputs[..]);
            let Some(outputs) = run(given, &results(&module), &[], cpu, &name) else {
                continue;
            };
            objects += 1;
            let reference = Reference::new(&module, &program.inputs, regime).expect("evaluated");
            let outputs: Vec<&Literal> = outputs.iter().map(Tensor::literal).collect();
            let verdict = reference.judge_results(&outputs);
            assert!(
                verdict.is_ok(),
                "{name} {cpu}: {verdict:?}\n{}",
                program.text
            );
            judged += u64::from(verdict == Ok(Verdict::Agrees));
        }
    }
    println!(
        "{objects} of {} were objects, {judged} were judged",
        2 * count
    );
    assert!(
        objects * 2 > 2 * count,
        "{objects} of {} were objects",
        2 * count
    );
}
