//! Random programs with random shardings over four processes: the results are those of the whole
//! program, to the bit. `TEGULA_SWEEP` says how many programs and `TEGULA_FIRST` from which seed;
//! `TEGULA_SEED` runs one.
//!
//! Without a launcher this says so and is over. With one it starts itself as the ranks of a job, once
//! for each implementation.

use std::process::ExitCode;
use std::time::Duration;
use tegula::mpi::MpiJob;
use tegula::{Options, Target, Tensor, compile};
use tegula_interp::{Value, evaluate};
use tegula_ir::{Literal, Op};
use tegula_tests::mpi::launchers;
use tegula_tests::random::{Random, Regime, random_program};
use tegula_tests::shardings::{annotate, same};

/// Programs when nothing else is asked for.
const PROGRAMS: u64 = 40;
/// Processes.
const RANKS: usize = 4;
/// Says to a process that it is a rank.
const AS_RANK: &str = "TEGULA_TEST_RANK";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        println!("random_programs_over_mpi: test");
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(AS_RANK).is_some() {
        return rank();
    }
    let launchers = launchers();
    if launchers.is_empty() {
        println!("no mpirun of Open MPI or MPICH is installed: nothing is run");
    }
    for launcher in launchers {
        let name = launcher.path.display();
        let own = std::env::current_exe().expect("this program has a file");
        let mut command = launcher.command(RANKS);
        let done = command.arg(own).env(AS_RANK, "1").status();
        match done {
            Ok(status) if status.success() => println!("{name}: ok"),
            other => {
                println!("{name}: {other:?}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn rank() -> ExitCode {
    let job = match MpiJob::join(Duration::from_secs(120), None) {
        Ok(job) => job,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let first = number("TEGULA_FIRST").unwrap_or(0);
    let seeds: Vec<u64> = match number("TEGULA_SEED") {
        Some(seed) => vec![seed],
        None => (first..first + number("TEGULA_SWEEP").unwrap_or(PROGRAMS)).collect(),
    };
    let mut ran = 0;
    for &seed in &seeds {
        match check(&job, seed) {
            Ok(true) => ran += 1,
            Ok(false) => {}
            Err(error) => {
                eprintln!("rank {}: seed {seed}: {error}", job.rank());
                job.abort(1);
            }
        }
    }
    if job.rank() == 0 {
        println!(
            "{ran} of {} programs ran over {} ranks",
            seeds.len(),
            job.size()
        );
    }
    match job.finish() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs one program; gives whether there was one to run.
fn check(job: &MpiJob, seed: u64) -> Result<bool, String> {
    let program = random_program(seed, Regime::Dyadic);
    let mut random = Random::new(seed ^ 0x5A4D);
    let meshes: [&[i64]; 2] = [&[4], &[2, 2]];
    let mesh = random.pick(&meshes).to_vec();
    let mut module = tegula_tests::read(&program.text).map_err(|error| error.to_string())?;
    let own_number = |op: &Op| matches!(op, Op::PartitionId);
    let mut instructions = module.instructions.values();
    if instructions.any(|instruction| own_number(&instruction.op)) {
        return Ok(false);
    }
    let arguments: Vec<Value> = program.inputs.iter().cloned().map(Value::Array).collect();
    let expected = evaluate(&module, &arguments).map_err(|error| format!("interp: {error}"))?;
    let expected: Vec<Literal> = expected.leaves().into_iter().cloned().collect();
    annotate(&mut module, &mut random, &mesh);
    // Shardings may have been drawn for nothing: the program is that of one device then.
    if !tegula::partition::is_sharded(&module) {
        return Ok(false);
    }
    let options = Options {
        target: match seed % 2 {
            0 => Target::Cpu,
            _ => Target::Interp,
        },
        devices: job.size(),
        ..Options::default()
    };
    let executable = compile(&module, &options).map_err(|error| error.to_string())?;
    let inputs: Vec<Tensor> = program.inputs.into_iter().map(Tensor::from).collect();
    let results = job.run(&executable, &inputs, None, 1);
    let results = results.map_err(|error| format!("{error}\n{module}"))?;
    for (number, (found, expected)) in results.iter().zip(&expected).enumerate() {
        if !same(found.literal(), expected) {
            return Err(format!(
                "result {number} differs: expected {expected}\nfound {}\n{module}",
                found.literal()
            ));
        }
    }
    match results.len() == expected.len() {
        true => Ok(true),
        false => Err("another number of results".to_owned()),
    }
}
