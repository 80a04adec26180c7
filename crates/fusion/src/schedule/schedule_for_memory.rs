//! Orders a program's steps to reduce peak memory.
//!
//! A program determines which steps depend on which, and one of many valid orders. For a gradient,
//! the order of tracing keeps the results of the forward pass alive until the weights' gradients
//! are computed at the very end. This pass moves steps to reduce the memory that is live at the
//! worst moment; where nothing is gained, it keeps the program's order.

use crate::fused::{Steps, Unit, Waiting};
use crate::kernel::Access;
use crate::program::{Program, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The most steps of a region that are reordered: the search tries each of them at each place.
const MAX_STEPS: usize = 64;
/// The most rounds; each tries all steps.
const MAX_ROUNDS: usize = 4;
/// The least reduction of peak memory, as a fraction, for which the order is changed.
const MIN_GAIN: f64 = 0.02;

/// Orders the region's steps so that less memory is live, if the reduction is large enough.
/// `waiting` says which steps must come after each.
pub(crate) fn with_least_alive(
    program: &Program,
    mut steps: Steps,
    mut waiting: Waiting,
    results: &[ValueId],
) -> Steps {
    if !(3..=MAX_STEPS).contains(&steps.len()) {
        return steps;
    }
    keep_reads_before_updates(&steps, &mut waiting);
    let lives = Lives::new(program, &steps, results);
    let mut order: Vec<usize> = (0..steps.len()).collect();
    let first = lives.cost(&order);
    if first.worst <= lives.least {
        return steps;
    }
    let mut least = first;
    for _ in 0..MAX_ROUNDS {
        let before = least;
        for step in 0..steps.len() {
            least = best_place(&lives, &waiting, &mut order, step, least);
        }
        if least == before || least.worst <= lives.least {
            break;
        }
    }
    if least.worst as f64 > (1.0 - MIN_GAIN) * first.worst as f64 {
        return steps;
    }
    let mut moved: Vec<_> = steps.drain(..).map(Some).collect();
    order
        .iter()
        .filter_map(|&step| moved[step].take())
        .collect()
}

/// Moves a step to the place where the cost is least.
fn best_place(
    lives: &Lives,
    waiting: &Waiting,
    order: &mut Vec<usize>,
    step: usize,
    mut least: Cost,
) -> Cost {
    let Some(at) = order.iter().position(|&s| s == step) else {
        return least;
    };
    let earliest = (order[..at].iter()).rposition(|&s| waiting[s].contains(&step));
    let earliest = earliest.map_or(0, |before| before + 1);
    let latest = order[at + 1..]
        .iter()
        .position(|s| waiting[step].contains(s));
    let latest = latest.map_or(order.len() - 1, |behind| at + behind);
    let mut best = at;
    for place in earliest..=latest {
        let mut tried = order.clone();
        tried.remove(at);
        tried.insert(place, step);
        let cost = lives.cost(&tried);
        if cost < least {
            (least, best) = (cost, place);
        }
    }
    order.remove(at);
    order.insert(best, step);
    least
}

/// Makes steps that update an array wait for those that read its old contents, which would
/// otherwise require a copy.
fn keep_reads_before_updates(steps: &Steps, waiting: &mut Waiting) {
    let mut readers: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
    for (i, units) in steps.iter().enumerate() {
        for (_, unit) in units {
            let updated: Vec<ValueId> = match unit {
                Unit::Copy { from, .. } => vec![*from],
                Unit::Kernel(bound) => bound.with_access(|a| a == Access::Update),
                Unit::While { operands, .. } => operands.clone(),
                Unit::Library { .. } | Unit::Conditional { .. } => Vec::new(),
            };
            for value in updated {
                let before = readers.get(&value).map_or(&[][..], |steps| steps);
                for &reader in before.iter().filter(|&&reader| reader != i) {
                    waiting[reader].push(i);
                }
            }
        }
        for value in units.iter().flat_map(|(_, unit)| unit.reads()) {
            readers.entry(value).or_default().push(i);
        }
    }
}

/// The cost of an order: the bytes live at the worst moment, then the sum over all moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    worst: i64,
    sum: i64,
}

/// The maximum size in bytes with which an array is counted, so that the sum over a million arrays
/// does not overflow.
const LARGEST: i64 = 1 << 43;

/// The arrays that each step reads and makes.
struct Lives {
    steps: Vec<Touched>,
    /// The bytes of each array, and how many steps read it; the end of the region counts as one.
    arrays: Vec<(i64, u32)>,
    /// A lower bound on the peak of every order.
    least: i64,
}

#[derive(Default)]
struct Touched {
    reads: Vec<usize>,
    makes: Vec<usize>,
    /// Whether the step may overwrite an input that it is the last to read.
    in_place: bool,
}

impl Lives {
    fn new(program: &Program, steps: &Steps, results: &[ValueId]) -> Self {
        let mut numbers: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut arrays: Vec<(i64, u32)> = Vec::new();
        let mut touched = Vec::with_capacity(steps.len());
        for units in steps {
            let mut step = Touched {
                in_place: (units.iter()).all(|(_, u)| matches!(u, Unit::Kernel(_))),
                ..Touched::default()
            };
            for value in units.iter().flat_map(|(_, unit)| unit.writes()) {
                // Unknown sizes count as their representative values.
                let shape = program.values[value].shape.representative();
                numbers.entry(value).or_insert_with(|| {
                    let bytes = shape.byte_size().unwrap_or(0);
                    arrays.push((bytes.min(LARGEST), 0));
                    step.makes.push(arrays.len() - 1);
                    arrays.len() - 1
                });
            }
            touched.push(step);
        }
        for (step, units) in touched.iter_mut().zip(steps) {
            let read: FxHashSet<ValueId> =
                units.iter().flat_map(|(_, unit)| unit.reads()).collect();
            let numbers = read.iter().filter_map(|value| numbers.get(value).copied());
            step.reads = numbers
                .filter(|array| !step.makes.contains(array))
                .collect();
            step.reads.sort_unstable();
            for &array in &step.reads {
                arrays[array].1 += 1;
            }
        }
        let results: FxHashSet<usize> = results
            .iter()
            .filter_map(|value| numbers.get(value).copied())
            .collect();
        let mut given = 0;
        for array in results {
            arrays[array].1 += 1;
            given += arrays[array].0;
        }
        Self {
            steps: touched,
            arrays,
            least: given,
        }
    }

    fn cost(&self, order: &[usize]) -> Cost {
        let mut left: Vec<u32> = self.arrays.iter().map(|array| array.1).collect();
        let mut alive = 0i64;
        let mut cost = Cost { worst: 0, sum: 0 };
        for &step in order {
            let step = &self.steps[step];
            let made: i64 = step.makes.iter().map(|&array| self.arrays[array].0).sum();
            let mut freed = 0;
            let mut taken_over = 0;
            for &array in &step.reads {
                left[array] -= 1;
                if left[array] == 0 {
                    let bytes = self.arrays[array].0;
                    freed += bytes;
                    if step.in_place && taken_over + bytes <= made {
                        taken_over += bytes;
                    }
                }
            }
            cost.worst = cost.worst.max(alive + made - taken_over);
            // Arrays that nothing reads are freed at once.
            let unread = step
                .makes
                .iter()
                .filter(|&&array| self.arrays[array].1 == 0);
            freed += unread.map(|&array| self.arrays[array].0).sum::<i64>();
            alive += made - freed;
            cost.sum = cost.sum.saturating_add(alive);
        }
        cost
    }
}
