//! Random programs and expressions on every target, against the reference
//! evaluator. `TEGULA_SWEEP` says how many programs and `TEGULA_FIRST` from which seed;
//! `TEGULA_SEED` runs one.

use std::collections::BTreeSet;
use std::sync::Arc;
use tegula::{IsaLevel, LayoutPolicy, Options, Target};
use tegula_ir::Opcode;
use tegula_sim_tpu::as_matrix_units_round;
use tegula_tests::gpu;
use tegula_tests::judge::{MIDDLE, OLDEST, Reference, Verdict};
use tegula_tests::random::{
    Random, RandomProgram, Regime, random_expression, random_program, random_rows, state_layouts,
};

/// Programs of each regime when nothing else is asked for.
const PROGRAMS: u64 = 250;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn count() -> u64 {
    number("TEGULA_SWEEP").unwrap_or(PROGRAMS)
}

/// What a sweep runs programs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// The Plan evaluator and the CPU.
    Here,
    /// The CPU, with some inputs frozen.
    Frozen,
    /// The simulated GPU, or a real one.
    Gpu(Target),
    /// The simulated TPU.
    Tpu,
}

/// Gives whether all targets could be judged.
fn check(seed: u64, program: &RandomProgram, regime: Regime, on: On) -> Result<bool, String> {
    let fail = |what: &str, error: String| {
        let short = program.inputs.iter().filter(|input| input.len() <= 64);
        let inputs: Vec<String> = short.map(ToString::to_string).collect();
        Err(format!(
            "seed {seed}, {regime:?}: {what}: {error}\n{}\n{}",
            program.text,
            inputs.join("\n")
        ))
    };
    let mut module = match tegula_tests::read(&program.text) {
        Ok(module) => module,
        Err(error) => return fail("read", error.to_string()),
    };
    // A third of the programs state in which orders they take and give their arrays.
    if seed.is_multiple_of(3) {
        state_layouts(&mut module, seed);
    }
    let module = module;
    let meant = match on {
        On::Tpu => as_matrix_units_round(module.clone()),
        _ => Arc::new(module.clone()),
    };
    let reference = match Reference::new(&meant, &program.inputs, regime) {
        Ok(reference) => reference,
        Err(error) => return fail("interp", error),
    };
    let mut judged = true;
    // The widest vectors there are, those of 256 bits, and those that every machine has.
    let (native, middle, oldest) = (IsaLevel::Native, MIDDLE, OLDEST);
    let (chosen, drawn) = (LayoutPolicy::LeastCost, LayoutPolicy::Random(seed));
    let several = [1, 2, 3, 16][seed as usize % 4];
    let here = [
        (Target::Plan, native, 1, chosen),
        (Target::Cpu, native, 1, chosen),
        (Target::Cpu, native, 2, chosen),
        (Target::Cpu, middle, 1, chosen),
        (Target::Cpu, oldest, 1, chosen),
        // Whatever orders arrays lie in, the program means the same; these are also done strip
        // by strip, and stored past the caches, wherever that goes.
        (Target::Plan, native, 1, drawn),
        (Target::Cpu, native, several, drawn),
        (Target::Cpu, middle, 1, drawn),
        (Target::Cpu, oldest, 2, drawn),
    ];
    let targets = match on {
        On::Here => here.to_vec(),
        On::Frozen => vec![
            (Target::Cpu, native, 1, chosen),
            (Target::Cpu, native, 2, chosen),
            (Target::Cpu, oldest, 2, chosen),
            (Target::Cpu, native, several, drawn),
        ],
        On::Gpu(target) => vec![(target, native, 1, chosen), (target, native, 1, drawn)],
        On::Tpu => vec![(Target::Tpu, native, 1, chosen)],
    };
    for (target, cpu, threads, orders) in targets {
        let options = Options {
            target,
            cpu,
            threads,
            chip: None,
            orders,
            cache: None,
            ..Options::default()
        };
        let verdict = match on {
            On::Frozen => {
                let mut random = Random::new(seed ^ threads as u64);
                let inputs = 0..program.inputs.len();
                let frozen: Vec<usize> = inputs.filter(|_| random.below(3) > 0).collect();
                reference.judge_frozen(&module, &program.inputs, &options, &frozen)
            }
            _ => reference.judge_with(&module, &program.inputs, &options),
        };
        match verdict {
            Ok(verdict) => judged &= verdict == Verdict::Agrees,
            Err(error) => return fail(&format!("{options:?}"), error),
        }
    }
    Ok(judged)
}

fn sweep(regime: Regime, on: On, count: u64) {
    sweep_of(|seed| random_program(seed, regime), regime, on, count);
}

fn sweep_of(program: impl Fn(u64) -> RandomProgram, regime: Regime, on: On, count: u64) {
    if let Some(seed) = number("TEGULA_SEED") {
        check(seed, &program(seed), regime, on).unwrap_or_else(|e| panic!("{e}"));
        return;
    }
    let mut failures = Vec::new();
    let mut judged = 0;
    let first = number("TEGULA_FIRST").unwrap_or(0);
    for seed in (first..).take(count as usize) {
        match check(seed, &program(seed), regime, on) {
            Ok(true) => judged += 1,
            Ok(false) => {}
            Err(error) => failures.push(error),
        }
    }
    let what: Vec<&str> = failures.iter().filter_map(|f| f.lines().next()).collect();
    assert!(
        failures.is_empty(),
        "{} of {count} programs fail:\n{}\nthe first:\n{}",
        failures.len(),
        what.join("\n"),
        failures[0]
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
    sweep(Regime::Dyadic, On::Here, count());
}

#[test]
fn general_programs_agree_within_the_envelope() {
    sweep(Regime::General, On::Here, count());
}

/// Rows that are long enough for lanes.
#[test]
fn programs_of_rows_agree() {
    for regime in [Regime::Dyadic, Regime::General] {
        sweep_of(|seed| random_rows(seed, regime), regime, On::Here, count());
    }
}

#[test]
fn frozen_inputs_of_rows_change_nothing() {
    for regime in [Regime::Dyadic, Regime::General] {
        sweep_of(
            |seed| random_rows(seed, regime),
            regime,
            On::Frozen,
            count(),
        );
    }
}

/// Many scalars on few numbers.
#[test]
fn expressions_agree() {
    sweep_of(random_expression, Regime::General, On::Here, count());
}

#[test]
fn frozen_inputs_change_nothing() {
    for regime in [Regime::Dyadic, Regime::General] {
        sweep(regime, On::Frozen, count());
    }
}

/// A tenth of the programs: compiling one for a GPU takes as long as ten for the CPU.
#[test]
fn programs_agree_on_the_gpu() {
    if let Some(target) = gpu::target() {
        for regime in [Regime::Dyadic, Regime::General] {
            sweep(regime, On::Gpu(target), count().div_ceil(10));
        }
        let some = count().div_ceil(10);
        sweep_of(random_expression, Regime::General, On::Gpu(target), some);
    }
}

/// What the simulator finds in a plan of ours is a failure too.
#[test]
fn programs_agree_on_the_simulated_tpu() {
    for regime in [Regime::Dyadic, Regime::General] {
        sweep(regime, On::Tpu, count());
    }
    sweep_of(random_expression, Regime::General, On::Tpu, count());
}

/// Opcodes that no random program has, and why.
const NOT_GENERATED: &[(&str, &[Opcode])] = &[
    (
        "one replica runs, and a collective needs the others",
        &[
            Opcode::AllGather,
            Opcode::AllGatherDone,
            Opcode::AllGatherStart,
            Opcode::AllReduce,
            Opcode::AllReduceDone,
            Opcode::AllReduceStart,
            Opcode::AllToAll,
            Opcode::CollectiveBroadcast,
            Opcode::CollectivePermute,
            Opcode::CollectivePermuteDone,
            Opcode::CollectivePermuteStart,
            Opcode::RaggedAllToAll,
            Opcode::ReduceScatter,
        ],
    ),
    (
        "there is nobody to exchange data with",
        &[
            Opcode::Infeed,
            Opcode::Outfeed,
            Opcode::Recv,
            Opcode::RecvDone,
            Opcode::Send,
            Opcode::SendDone,
        ],
    ),
    (
        "the reference evaluator refuses it: see its documentation",
        &[
            Opcode::DynamicReshape,
            Opcode::RngGetAndUpdateState,
            Opcode::SetDimensionSize,
        ],
    ),
    (
        "a note to the partitioner, whose result is its operand",
        &[Opcode::Domain],
    ),
];

#[test]
fn the_generator_covers_every_operation() {
    let mut seen = BTreeSet::new();
    for seed in 0..4000 {
        let program = random_program(seed, Regime::General);
        let module = tegula_tests::read(&program.text).expect("random programs are valid");
        let opcodes = module.instructions.values().map(|i| i.op.opcode().name());
        seen.extend(opcodes);
    }
    let excepted = NOT_GENERATED.iter().flat_map(|(_, opcodes)| *opcodes);
    let excepted: BTreeSet<&str> = excepted.map(|opcode| opcode.name()).collect();
    let all: BTreeSet<&str> = Opcode::ALL.iter().map(|opcode| opcode.name()).collect();
    let wanted: BTreeSet<&str> = all.difference(&excepted).copied().collect();
    assert_eq!(seen, wanted);
}
