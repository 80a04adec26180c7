//! The unroll factor: how many vectors are computed together, limited by the registers that a body
//! needs.

use super::features::InstructionSet;
use crate::simd::ir::{Body, Op, Statement, Type, V};
use smallvec::SmallVec;

/// The maximum number of values of a body that is emitted a second time for whole vectors.
pub(super) const SHORT: usize = 70;
/// The minimum number of values of a body that is scheduled: the instructions of one vector then
/// exceed the window in which a CPU finds independent ones.
pub(super) const LONG: usize = 150;
/// Bodies of fewer values than this use a high unroll factor.
const TINY: usize = 12;
/// The maximum number of definitions of a loop that only loads numbers and adds them.
const TINY_LOOP: usize = 6;

/// The unroll factor. Measured: two vectors are faster than one for the longest bodies, though they
/// spill more; four gain a sixth over two if they fit the registers.
pub(super) fn in_flight(set: InstructionSet, body: &Body, lanes_at_most: Option<i64>) -> usize {
    let lanes = i64::from(set.lanes(body.is_wide()));
    if lanes_at_most.is_some_and(|n| n <= lanes) {
        return 1;
    }
    let size = body.size();
    if !has_loops(body) {
        // With few lanes, the work done once for each run, which grows with the unroll factor,
        // matters.
        let few = lanes_at_most.is_some_and(|n| n <= 16 * lanes);
        // Two vectors of a long body have eight of 16 registers each.
        let two = match set {
            InstructionSet::Avx2 if size >= LONG => 1,
            InstructionSet::Avx512 if size < LONG && Pressure::of(body).fits(3) => 3,
            _ => 2,
        };
        let most = if size <= SHORT && !few { 4 } else { two };
        return match lanes_at_most {
            Some(n) if size <= SHORT && n <= 8 * lanes => {
                let fits = |&c: &usize| c <= most || most > 2 && Pressure::of(body).fits(c);
                let numbers = (2..=4).filter(fits);
                numbers.min_by_key(|&c| turns(n, lanes, c)).unwrap_or(most)
            }
            _ => most,
        };
    }
    // A loop in the body goes from row to row: a high factor uses more of each row at once. Work
    // after the loop, such as rounding a sum, is done once.
    let most = lanes_at_most.map_or(4, |n| (n - 1).max(0) / lanes + 1);
    let most = usize::try_from(most).map_or(8, |most| most.clamp(1, 8));
    match size {
        0..TINY => most,
        TINY..LONG => match sums_alone(body) {
            Some(sums) => most.min(sums_at_once(set) / sums).max(2),
            None => 2,
        },
        _ => 1,
    }
}

/// The maximum number of values that the loops of a body carry, if these loops do little more than
/// load and add.
fn sums_alone(body: &Body) -> Option<usize> {
    let loops = body.statements.iter().filter_map(|s| match s {
        Statement::Loop(inner) => Some(inner),
        _ => None,
    });
    let mut most = 1;
    for inner in loops {
        let plain = |s: &Statement| matches!(s, Statement::Define(_));
        if inner.body.len() > TINY_LOOP || !inner.body.iter().all(plain) {
            return None;
        }
        most = most.max(inner.carried.len());
    }
    Some(most)
}

/// The number of accumulators that leave enough registers for the added values.
fn sums_at_once(set: InstructionSet) -> usize {
    match set {
        InstructionSet::Avx2 => 8,
        InstructionSet::Avx512 => 14,
    }
}

/// The number of iterations for this many lanes with this unroll factor: the remaining vectors are
/// computed one by one.
fn turns(n: i64, lanes: i64, in_flight: usize) -> i64 {
    let group = lanes * in_flight as i64;
    n / group + (n % group + lanes - 1) / lanes
}

/// Whether an operation reads a value from memory: a constant that is its last operand or can be.
fn is_last(body: &Body, operation: Op, v: V) -> bool {
    let is_constant = |v: V| matches!(body.op(v), Op::Const(_));
    let may_be = match operation {
        Op::Binary(op, a, b) => b == v || op.commutes() && !is_constant(b) && a == v,
        Op::Fma(_, a, b, c) => c == v || !is_constant(c) && (a == v || b == v),
        Op::Select(_, yes, no) => yes == v && no != v,
        Op::Compare(_, _, b) => b == v,
        _ => false,
    };
    may_be && is_constant(v)
}

/// The register pressure of a body without loops.
#[derive(Debug, PartialEq)]
pub(super) struct Pressure {
    /// The maximum number of vectors that are live at once, without uniform ones.
    alive: usize,
    /// Uniform values that are not always memory operands.
    shared: usize,
}

impl Pressure {
    pub(super) fn of(body: &Body) -> Self {
        let is_shared = |v: V| matches!(body.op(v), Op::Const(_) | Op::Input(_));
        let mut shared = vec![false; body.values.len()];
        let mut alive = vec![false; body.values.len()];
        let (mut now, mut most) = (0, 0);
        for statement in body.statements.iter().rev() {
            let mut used: SmallVec<[V; 4]> = SmallVec::new();
            match statement {
                Statement::Define(v) => {
                    if std::mem::take(&mut alive[v.0 as usize]) {
                        now -= 1;
                    }
                    used.extend(body.op(*v).operands());
                    let operation = body.op(*v);
                    for &v in used.iter().filter(|&&v| is_shared(v)) {
                        shared[v.0 as usize] |= !is_last(body, operation, v);
                    }
                }
                _ => statement.for_each_use(body, &mut |v| used.push(v)),
            }
            for v in used {
                let is_vector = body.type_of(v) != Type::Mask && !is_shared(v);
                if is_vector && !std::mem::replace(&mut alive[v.0 as usize], true) {
                    now += 1;
                }
            }
            most = most.max(now);
        }
        Self {
            alive: most,
            shared: shared.into_iter().filter(|&s| s).count(),
        }
    }

    /// Whether this unroll factor leaves some of 32 registers for results.
    pub(super) fn fits(&self, in_flight: usize) -> bool {
        self.alive * in_flight + self.shared <= 30
    }
}

pub(super) fn has_loops(body: &Body) -> bool {
    let is_loop = |s: &Statement| matches!(s, Statement::Loop(_));
    body.statements.iter().any(is_loop)
}
