//! Compares the clock with the estimates of libtpu's compiler (`estimated_cycles`) on v5e.
//! `TEGULA_TPU_FACTS` names the folder of facts.
//!
//! The estimates are of kernels: they leave out the copies that fetch arguments ahead, and are
//! missing for some kernels (sorts, loops, gathers, ...). To compare like with like, the time that
//! the core waits for such copies is left out of the simulated time, and so are kernels of the
//! kinds without estimates. In addition whole programs are compared plainly: everything that is
//! simulated with all existing estimates.
//!
//! The order of programs is compared (Spearman's rank correlation), also in two halves by a hash of
//! their names. The second half was held out at first but no longer is: one number of the chip
//! (`register_pass`) and the later start of products were derived from such estimates, when those
//! of all programs were visible.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tegula_codegen_tpu::lower;
use tegula_fusion::NodeId;
use tegula_ir::{Module, Op, infer_symbolic_dims, parse_module};
use tegula_layout::assign::{Assignment, Machine, assign};
use tegula_sim_tpu::program::{Statement, StatementKind};
use tegula_sim_tpu::{Options, simulate};
use tegula_target::Chip;
use tegula_tpu_schedule::{Schedule, Step};

/// The simulated cycles and the compiler's estimate for one program.
struct Pair {
    name: String,
    ours: f64,
    theirs: f64,
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TEGULA_TPU_FACTS").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: TEGULA_TPU_FACTS does not name the folder of TPU facts");
    }
    folder
}

fn facts(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Whether kernels with such an operation have no estimate.
fn has_no_estimate(op: &Op) -> bool {
    matches!(
        op,
        Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::ReduceWindow { .. }
            | Op::SelectAndScatter { .. }
            | Op::Sort { .. }
            | Op::TopK { .. }
            | Op::Fft { .. }
            | Op::Cholesky { .. }
            | Op::TriangularSolve { .. }
            | Op::Reverse(_)
            | Op::DynamicUpdateSlice
            | Op::While { .. }
            | Op::Conditional { .. }
    )
}

/// Removes from a lowered program the statements that are not compared, by line, which is a step of
/// the schedule.
fn without(
    statements: &mut Vec<Statement>,
    module: &Module,
    assignment: &Assignment,
    schedule: &Schedule,
) {
    let op = |&node: &NodeId| &module[assignment.program.nodes[node].origin].op;
    let is_out = |step: &Step| match step {
        Step::CopyStart(_) | Step::CopyDone(_) => true,
        Step::Pass { .. } | Step::Part { .. } | Step::Leave(_) => true,
        Step::Kernel { region, kernel, .. } => assignment.regions[*region].kernels[*kernel]
            .nodes
            .iter()
            .map(op)
            .any(has_no_estimate),
        _ => false,
    };
    statements.retain(|statement| {
        let keeps_memory = matches!(
            statement.kind,
            StatementKind::Declare(_) | StatementKind::Free(_)
        );
        let step = (statement.line as usize).checked_sub(1);
        let step = step.and_then(|at| schedule.steps.get(at));
        keeps_memory || !step.is_some_and(is_out)
    });
}

/// The part of a program that is simulated.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// The whole program.
    Whole,
    /// The part that the estimates cover.
    Estimated,
}

/// The simulated cycles of a program.
fn cycles(name: &str, text: &str, chip: &Chip, part: Part) -> f64 {
    let mut module = parse_module(text).unwrap();
    infer_symbolic_dims(&mut module, &[]).unwrap();
    let module = tegula_fusion::expand(&module).unwrap();
    let machine = Machine::tpu(chip).unwrap();
    let assignment = assign(
        &module,
        &machine,
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    let schedule = tegula_tpu_schedule::schedule(
        &module,
        &assignment,
        chip,
        &tegula_tpu_schedule::Options::default(),
    );
    let mut lowered = lower(&module, &assignment, &schedule, chip).unwrap();
    if part == Part::Estimated {
        without(&mut lowered.program.body, &module, &assignment, &schedule);
    }
    let report = simulate(&lowered.program, chip, &Options::default()).unwrap();
    if std::env::var("TEGULA_STEPS").is_ok_and(|shown| shown == name) {
        for (line, cause, seconds) in report.engines.causes() {
            println!(
                "    {} {cause:?} {:.0}",
                lowered.instructions[line as usize - 1],
                seconds * 1.5e9
            );
        }
    }
    report.seconds * report.engines.speeds().clock
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut at = 0;
    while at < order.len() {
        let same = |&&other: &&usize| values[other] == values[order[at]];
        let end = at + order[at..].iter().take_while(same).count();
        for &place in &order[at..end] {
            ranks[place] = (at + end - 1) as f64 / 2.0;
        }
        at = end;
    }
    ranks
}

/// Spearman's rank correlation.
fn correlation(pairs: &[&Pair]) -> f64 {
    let of = |value: &dyn Fn(&Pair) -> f64| -> Vec<f64> {
        let ranks = ranks(&pairs.iter().map(|pair| value(pair)).collect::<Vec<_>>());
        let mean = ranks.iter().sum::<f64>() / ranks.len() as f64;
        ranks.iter().map(|rank| rank - mean).collect()
    };
    let (a, b) = (of(&|pair| pair.ours), of(&|pair| pair.theirs));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

/// Whether a program is in the second half: a bit of the 32-bit FNV-1a hash of its name.
fn is_second_half(name: &str) -> bool {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, step) >> 16 & 1 == 1
}

/// The estimate of a program, if all its kernels have one.
fn estimate(entry: &Value) -> Option<f64> {
    // Operations that move nothing, run in parallel to the kernels, or run on the scalar unit.
    let free = [
        "parameter",
        "constant",
        "bitcast",
        "tuple",
        "get-tuple-element",
        "copy-start",
        "copy-done",
        "slice-start",
        "slice-done",
        "async-start",
        "async-done",
    ];
    let mut total = 0.0;
    for line in entry.as_array()? {
        let shape = line[2].as_str()?;
        if free.contains(&line[1].as_str()?) || shape.contains("S(6)") {
            continue;
        }
        total += line[3]["cycles"].as_f64()?;
    }
    (total > 0.0).then_some(total)
}

fn show(pairs: &[&Pair]) {
    if std::env::var("TEGULA_SHOW").is_err() {
        return;
    }
    let ours = ranks(&pairs.iter().map(|pair| pair.ours).collect::<Vec<_>>());
    let theirs = ranks(&pairs.iter().map(|pair| pair.theirs).collect::<Vec<_>>());
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    let apart = |at: usize| (ours[at] - theirs[at]).abs();
    order.sort_by(|&a, &b| apart(b).total_cmp(&apart(a)));
    for at in order {
        let Pair {
            name,
            ours: o,
            theirs: t,
        } = pairs[at];
        println!(
            "  {name:<36} ours {o:>9.0} ({:>4.1})  theirs {t:>9.0} ({:>4.1})",
            ours[at], theirs[at]
        );
    }
}

#[test]
fn programs_rank_as_the_real_compiler_estimates() {
    let Some(folder) = folder() else { return };
    let chip = Chip::by_name("v5e").unwrap();
    let (mut pairs, mut without) = (Vec::new(), Vec::new());
    let facts = facts(&folder.join("programs_v5e.json"));
    for (name, facts) in facts.as_object().unwrap() {
        let Some(theirs) = estimate(&facts["entry"]) else {
            without.push(name.as_str());
            continue;
        };
        let text = std::fs::read_to_string(folder.join("programs").join(format!("{name}.hlo")));
        let Ok(text) = text else { continue };
        let (name, ours) = (name.clone(), cycles(name, &text, &chip, Part::Estimated));
        pairs.push(Pair { name, ours, theirs });
    }
    println!("without an estimate for a kernel: {}", without.join(", "));
    assert!(judge("estimated kernels", &pairs) >= 0.9);
}

/// The correlation over all programs, which is printed with that of each half.
fn judge(what: &str, pairs: &[Pair]) -> f64 {
    let half = |second| {
        pairs
            .iter()
            .filter(move |p| is_second_half(&p.name) == second)
    };
    let (first, second): (Vec<_>, Vec<_>) = (half(false).collect(), half(true).collect());
    let all: Vec<&Pair> = pairs.iter().collect();
    show(
        if std::env::var("TEGULA_SHOW").is_ok_and(|what| what == "all") {
            &all
        } else {
            &first
        },
    );
    println!(
        "rank correlation of {what}, {} programs: {:.4}; of one half, {}: {:.4}; of the other, {}: {:.4}",
        all.len(),
        correlation(&all),
        first.len(),
        correlation(&first),
        second.len(),
        correlation(&second)
    );
    correlation(&all)
}

/// The sum of the existing estimates, whatever has none.
fn plain_estimate(entry: &Value) -> Option<f64> {
    let lines = entry.as_array()?.iter();
    let total: f64 = lines.filter_map(|line| line[3]["cycles"].as_f64()).sum();
    (total > 0.0).then_some(total)
}

/// Compares the simulated time of whole programs, with the copies that fetch ahead, with all
/// existing estimates of their kernels.
fn plainly(facts: &Value, text_of: &dyn Fn(&str) -> PathBuf) -> Vec<Pair> {
    let chip = Chip::by_name("v5e").unwrap();
    let mut pairs = Vec::new();
    for (name, facts) in facts.as_object().unwrap() {
        let text = std::fs::read_to_string(text_of(name));
        let (Some(theirs), Ok(text)) = (plain_estimate(&facts["entry"]), text) else {
            continue;
        };
        let (name, ours) = (name.clone(), cycles(name, &text, &chip, Part::Whole));
        pairs.push(Pair { name, ours, theirs });
    }
    pairs
}

#[test]
fn whole_programs_rank_as_the_real_compiler_estimates() {
    let Some(folder) = folder() else { return };
    let text_of = |name: &str| folder.join("programs").join(format!("{name}.hlo"));
    let pairs = plainly(&facts(&folder.join("programs_v5e.json")), &text_of);
    assert!(judge("whole programs", &pairs) >= 0.9);
}

/// Compares models all of whose kernels have an estimate: the tables have none for kernels in
/// loops, and few for sorts and custom calls. There are few such models, most of them small, and
/// where libtpu's compiler has one kernel with several results Tegula has several kernels, so the
/// correlation is printed without a limit. `TEGULA_CORPUS` names the folder of models.
#[test]
fn models_are_compared_with_the_real_compiler_estimates() {
    let Some(folder) = folder() else { return };
    let Some(corpus) = std::env::var_os("TEGULA_CORPUS").map(PathBuf::from) else {
        println!("skipped: TEGULA_CORPUS does not name the folder of models");
        return;
    };
    let text_of = |name: &str| corpus.join(format!("{name}.hlo"));
    let mut facts = facts(&folder.join("corpus_v5e.json"));
    if let Some(models) = facts.as_object_mut() {
        models.retain(|_, facts| estimate(&facts["entry"]).is_some());
    }
    let pairs = plainly(&facts, &text_of);
    judge("models", &pairs);
    assert!(!pairs.is_empty());
}

#[test]
fn products_rank_as_the_real_compiler_estimates() {
    let Some(folder) = folder() else { return };
    let chip = Chip::by_name("v5e").unwrap();
    let mut pairs = Vec::new();
    for fact in facts(&folder.join("matmul_sweep_v5e.json"))
        .as_array()
        .unwrap()
    {
        let [m, k, n] = ["m", "k", "n"].map(|size| fact[size].as_i64().unwrap());
        let dtype = fact["dtype"].as_str().unwrap();
        let out = if dtype == "s8" { "s32" } else { dtype };
        let text = format!(
            "HloModule m\nENTRY main {{\n a = {dtype}[{m},{k}] parameter(0)\n b = {dtype}[{k},{n}] parameter(1)\n \
             ROOT c = {out}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
        );
        let windows = fact["windows"].as_array().into_iter().flatten();
        let estimates = windows.filter_map(|w| w["estimated_cycles"].as_str()?.parse::<f64>().ok());
        let theirs = estimates.sum();
        let name = format!("{dtype} {m}x{k}x{n}");
        let ours = cycles(&name, &text, &chip, Part::Estimated);
        pairs.push(Pair { name, ours, theirs });
    }
    let all: Vec<&Pair> = pairs.iter().collect();
    show(&all);
    println!(
        "rank correlation over {} products: {:.3}",
        all.len(),
        correlation(&all)
    );
    assert!(correlation(&all) >= 0.95);
}
