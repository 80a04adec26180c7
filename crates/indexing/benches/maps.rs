//! Benchmarks of the analysis on one core: all maps of all fusions of programs, random maps, and a
//! chain of reshapes.
//!
//!     TEGULA_CORPUS=FOLDER cargo bench -p tegula-indexing [-- programs|random|simplifiers|reshapes]
//!
//! The fusions imitate loop fusion: a value that is written to memory (a contraction, a reduction,
//! an operation with run-time indices, the root, or a value with several users that is expensive to
//! recompute), with all cheap operations between it and the written values that it is computed
//! from. Times are minima over the repetitions, for each fusion, map or chain.

#[allow(dead_code, reason = "of what tests share, this takes a part")]
#[path = "../tests/all/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Random, random_map};
use tegula_indexing::{IndexingMap, Simplifier, fusion_output_to_input, output_to_input};
use tegula_ir::{InstructionId, Module, Op, Shape, parse_module};

const REPETITIONS: usize = 10;

/// Whether an operation is cheap enough to be computed where it is read.
fn is_cheap(op: &Op) -> bool {
    op.is_elementwise()
        || matches!(
            op,
            Op::Broadcast(_)
                | Op::Reshape
                | Op::Bitcast
                | Op::Transpose(_)
                | Op::Slice(_)
                | Op::Reverse(_)
                | Op::Pad(_)
                | Op::Concatenate(_)
                | Op::Copy
                | Op::Iota(_)
                | Op::GetTupleElement(_)
                | Op::Call { .. }
        )
}

/// Computes the maps from a root down through cheap operations; returns how many there are.
fn fusion(
    module: &Module,
    root: InstructionId,
    written: &BTreeSet<InstructionId>,
    simplifier: &mut Simplifier,
) -> usize {
    let Shape::Array(array) = &module[root].shape else {
        return 0;
    };
    let Some(sizes) = array.static_dims() else {
        return 0;
    };
    let mut maps: BTreeMap<InstructionId, Vec<IndexingMap>> = BTreeMap::new();
    maps.insert(root, vec![IndexingMap::identity(&sizes)]);
    let mut reads = 0;
    // Operands come before their users.
    while let Some((id, own)) = maps.pop_last() {
        if id != root && written.contains(&id) {
            reads += own.len();
            continue;
        }
        for operand in fusion_output_to_input(module, id, 0, simplifier) {
            let Ok(next) = operand.maps else {
                continue;
            };
            let source = module[id].operands[operand.operand];
            let known = maps.entry(source).or_default();
            for (map, next) in own
                .iter()
                .flat_map(|map| next.iter().map(move |next| (map, next)))
            {
                let mut map = simplifier.simplify_map(&map.compose(next));
                map.remove_unused_variables();
                if !map.is_empty() && !known.contains(&map) {
                    known.push(map);
                }
            }
        }
    }
    reads
}

/// All fusions of a module: the number of fusions and of maps, and the time they take. Each fusion
/// is timed by itself, so that an interruption spoils only one measurement.
fn fusions(module: &Module) -> (usize, usize, Duration) {
    let (mut roots, mut maps, mut total) = (0, 0, Duration::ZERO);
    for computation in module.computations.values() {
        let mut users: BTreeMap<InstructionId, usize> = BTreeMap::new();
        for id in &computation.instructions {
            for operand in &module[*id].operands {
                *users.entry(*operand).or_default() += 1;
            }
        }
        let written: BTreeSet<InstructionId> = computation
            .instructions
            .iter()
            .copied()
            .filter(|id| {
                let op = &module[*id].op;
                let is_shared = users.get(id).is_some_and(|users| *users > 1);
                let is_free = matches!(op, Op::Broadcast(_) | Op::Reshape | Op::Iota(_));
                *id == computation.root || !is_cheap(op) || is_shared && !is_free
            })
            .collect();
        for root in &written {
            let mut own = 0;
            total += fastest(|| {
                let mut simplifier = Simplifier::new();
                own = fusion(module, *root, &written, &mut simplifier);
            });
            maps += own;
            roots += 1;
        }
    }
    (roots, maps, total)
}

fn fastest(f: impl FnMut()) -> Duration {
    fastest_of(REPETITIONS, f)
}

fn fastest_of(repetitions: usize, mut f: impl FnMut()) -> Duration {
    let times = (0..repetitions).map(|_| {
        let start = Instant::now();
        f();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn programs(folder: &Path) {
    for name in ["resnet50_fwd_f32", "gpt2_small_fwd"] {
        let Ok(text) = std::fs::read_to_string(folder.join(format!("{name}.hlo"))) else {
            println!("{name}: not there");
            continue;
        };
        let module = parse_module(&text).expect("a program");
        let (roots, maps, time) = fusions(&module);
        println!("{name}: {roots} fusions, {maps} maps, {time:.2?}");
    }
}

fn random_maps(count: u64) {
    let mut times: Vec<Duration> = (0..count)
        .map(|case| {
            let map = random_map(case, 10, case % 2 == 1);
            let time = (0..3).map(|_| {
                let start = Instant::now();
                black_box(Simplifier::new().simplify_map(&map));
                start.elapsed()
            });
            time.min().unwrap_or_default()
        })
        .collect();
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "{count} random maps: median {:.1?}, p99 {:.1?}, slowest {:.1?}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// Maps of one fused graph: several over one domain, whose results have common terms.
fn shared_domains(count: u64) {
    let groups: Vec<Vec<IndexingMap>> = (0..count).map(group).collect();
    let size: usize = groups.iter().map(Vec::len).sum();
    let (mut together, mut alone) = (Duration::ZERO, Duration::ZERO);
    for maps in &groups {
        together += fastest(|| {
            let mut simplifier = Simplifier::new();
            for map in maps {
                black_box(simplifier.simplify_map(map));
            }
        });
        alone += fastest(|| {
            for map in maps {
                black_box(Simplifier::new().simplify_map(map));
            }
        });
    }
    println!(
        "{count} groups of {size} maps: in a simplifier each {together:.2?}, each map alone {alone:.2?}"
    );
}

/// Eight maps over one domain, whose results are those of two random maps.
fn group(case: u64) -> Vec<IndexingMap> {
    let map = random_map(case, 10, case % 2 == 1);
    let terms: Vec<_> = (0..)
        .map(|other| random_map(case ^ (other << 32), 10, false))
        .filter(|other| other.variable_count() <= map.variable_count())
        .take(4)
        .flat_map(|other| other.results)
        .chain(map.results.clone())
        .collect();
    let mut random = Random(case);
    let mut any =
        || terms[usize::try_from(random.range(0, terms.len() as i64 - 1)).unwrap_or(0)].clone();
    (0..8)
        .map(|_| {
            let mut map = map.clone();
            map.results = vec![any().add(&any()), any()];
            map
        })
        .collect()
}

/// Twelve reshapes between arrays of rank 12. `aligned` ones split and merge adjacent dimensions;
/// the others distribute the same primes in another order, so that dimensions do not line up.
fn reshapes(aligned: bool) {
    let mut random = Random(12);
    let primes = [2i64, 3, 5, 2, 7, 3, 2, 5, 2, 3, 2, 2];
    let shapes: Vec<Vec<i64>> = (0..=12)
        .map(|_| {
            if aligned {
                // The same order of primes, grouped differently and padded with ones.
                let mut dims = vec![1];
                for prime in primes {
                    if random.range(0, 1) == 1 && dims.len() < 12 {
                        dims.push(1);
                    }
                    if let Some(last) = dims.last_mut() {
                        *last *= prime;
                    }
                }
                dims.resize(12, 1);
                return dims;
            }
            let mut dims = primes.to_vec();
            for last in (1..dims.len()).rev() {
                let other = random.range(0, last as i64);
                dims.swap(last, usize::try_from(other).expect("a place"));
            }
            dims
        })
        .collect();
    let maps: Vec<IndexingMap> = shapes
        .windows(2)
        .map(|pair| {
            let (module, id) = common::modules::one_op(Op::Reshape, &[&pair[0]], &pair[1]);
            common::modules::map_of(&output_to_input(&module, id), 0).clone()
        })
        .collect();
    let time = fastest_of(5 * REPETITIONS, || {
        let mut simplifier = Simplifier::new();
        let mut all = IndexingMap::identity(&shapes[12]);
        for map in maps.iter().rev() {
            all = simplifier.simplify_map(&all.compose(map));
        }
        black_box(all);
    });
    // The same chain as one fusion.
    let mut program = common::modules::Program::new();
    let mut last = program.parameter(&shapes[0]);
    for shape in shapes.iter().skip(1) {
        last = program.array(Op::Reshape, &[last], shape);
    }
    let callee = program.module.instructions[last].computation;
    program.start_computation();
    let own = program.parameter(&shapes[0]);
    let fused = Op::Fusion {
        kind: tegula_ir::FusionKind::Loop,
        calls: callee,
    };
    let fused = program.array(fused, &[own], &shapes[12]);
    let whole = fastest(|| {
        let mut simplifier = Simplifier::new();
        black_box(fusion_output_to_input(
            &program.module,
            fused,
            0,
            &mut simplifier,
        ));
    });
    let kind = if aligned { "aligned" } else { "shuffled" };
    println!(
        "12 {kind} reshapes at rank 12: composed one by one {time:.2?}, as a fusion {whole:.2?}"
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    if is_wanted("programs") {
        match std::env::var_os("TEGULA_CORPUS") {
            Some(folder) => programs(Path::new(&folder)),
            None => println!("programs: skipped, TEGULA_CORPUS is not set"),
        }
    }
    if is_wanted("random") {
        random_maps(20_000);
    }
    if is_wanted("simplifiers") {
        shared_domains(1_000);
    }
    if is_wanted("reshapes") {
        reshapes(true);
        reshapes(false);
    }
}
