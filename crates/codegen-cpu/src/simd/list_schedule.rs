//! List scheduling: orders a body's operations so that independent chains overlap.
//!
//! The operations of a body come in the order of the expressions that they are made from, one long
//! chain of dependent operations after the other, and a long body exceeds the window in which a CPU
//! finds independent instructions. This pass reorders the operations between stores and loops:
//! those on the longest path to the end go first, as a machine with these latencies would issue
//! them, unless that would keep more values alive than there are registers; then operations that
//! free registers go first. (List scheduling: Gibbons and Muchnick, "Efficient Instruction
//! Scheduling for a Pipelined Architecture", 1986.)

use super::ir::{BinaryOp, Body, Op, Statement, Type, UnaryOp, V};

/// The maximum number of values that are live at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub vectors: usize,
    /// The maximum number of masks, if masks have registers of their own.
    pub masks: Option<usize>,
}

impl Limits {
    /// The limits for each of this many vectors of the unrolled loop.
    fn shared(self, in_flight: usize) -> Self {
        let share = |most: usize| most / in_flight + in_flight - 1;
        Self {
            vectors: share(self.vectors),
            masks: self.masks.map(share),
        }
    }
}

/// The number of scheduled operations that issue in one cycle.
const WIDTH: u32 = 1;

/// Schedules a body that is unrolled `in_flight` times; the values of the unrolled vectors share
/// the registers.
pub(crate) fn scheduled(body: &Body, limits: Limits, in_flight: usize) -> Body {
    let limits = limits.shared(in_flight);
    let mut ordered = body.clone();
    let mut uses = vec![0; body.values.len()];
    count(body, &body.statements, &mut uses);
    for reduction in &body.reductions {
        uses[index(reduction.value)] += 1;
    }
    ordered.statements = block(body, &body.statements, &uses, limits);
    ordered
}

fn index(v: V) -> usize {
    v.0 as usize
}

/// Counts the uses of each value by the statements.
fn count(body: &Body, statements: &[Statement], uses: &mut [u32]) {
    let mut add = |v: &V| uses[index(*v)] += 1;
    for statement in statements {
        match statement {
            Statement::Define(v) => body.op(*v).operands().iter().for_each(&mut add),
            Statement::Store {
                value, index, mask, ..
            } => {
                let all = std::iter::once(value).chain(index).chain(mask);
                all.for_each(&mut add);
            }
            Statement::StorePair { halves, mask, .. } => {
                halves.iter().chain(mask).for_each(&mut add);
            }
            Statement::Loop(inner) => {
                inner.init.iter().chain(&inner.next).for_each(&mut add);
            }
            Statement::Rare(rare) => {
                let used = rare.init.iter().chain(&rare.next).chain([&rare.mask]);
                used.for_each(&mut add);
                rare.again.iter().for_each(|again| add(&again.mask));
                for v in &rare.body {
                    body.op(*v).operands().iter().for_each(&mut add);
                }
            }
        }
    }
    for statement in statements {
        if let Statement::Loop(inner) = statement {
            count(body, &inner.body, uses);
        }
    }
}

fn block(body: &Body, statements: &[Statement], uses: &[u32], limits: Limits) -> Vec<Statement> {
    let mut ordered = Vec::with_capacity(statements.len());
    let mut stretch: Vec<V> = Vec::new();
    let flush = |stretch: &mut Vec<V>, ordered: &mut Vec<Statement>| {
        let new = Stretch::new(body, stretch, uses, limits).order();
        ordered.extend(new.into_iter().map(Statement::Define));
        stretch.clear();
    };
    for statement in statements {
        match statement {
            Statement::Define(v) => stretch.push(*v),
            Statement::Store { .. } | Statement::StorePair { .. } | Statement::Rare(_) => {
                flush(&mut stretch, &mut ordered);
                ordered.push(statement.clone());
            }
            Statement::Loop(inner) => {
                flush(&mut stretch, &mut ordered);
                let mut inner = inner.clone();
                inner.body = block(body, &inner.body, uses, limits);
                ordered.push(Statement::Loop(inner));
            }
        }
    }
    flush(&mut stretch, &mut ordered);
    ordered
}

/// The cycles until the result of an operation is available, roughly those of recent x86-64 CPUs
/// (Fog, "Instruction tables").
fn latency(body: &Body, v: V) -> u32 {
    match body.op(v) {
        Op::Load { .. } => 7,
        Op::LoadHalf { .. } => 10,
        Op::Gather { .. } => 20,
        Op::Binary(BinaryOp::Div, ..) => 11,
        Op::Unary(UnaryOp::Sqrt, _) => 14,
        Op::Fma(..) => 4,
        Op::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Scale, ..)
            if body.type_of(v).is_float() =>
        {
            4
        }
        Op::Unary(..) | Op::Convert(..) | Op::Compare(..) | Op::Binary(BinaryOp::UnlessNan, ..) => {
            3
        }
        _ => 1,
    }
}

/// A sequence of operations without a store or a loop in between.
struct Stretch<'a> {
    body: &'a Body,
    operations: &'a [V],
    /// For each operation, the operations here that depend on it.
    waiting: Vec<Vec<usize>>,
    /// For each operation, the number of operations here that it depends on.
    waits: Vec<u32>,
    /// For each operation, the cycles from its start to the end of the sequence: its critical path.
    ahead: Vec<u32>,
    /// For each value defined here, the number of remaining uses.
    uses: Vec<u32>,
    here: Vec<bool>,
    limits: Limits,
}

impl<'a> Stretch<'a> {
    fn new(body: &'a Body, operations: &'a [V], uses: &[u32], limits: Limits) -> Self {
        let mut position = vec![usize::MAX; body.values.len()];
        for (i, &v) in operations.iter().enumerate() {
            position[index(v)] = i;
        }
        let here = position.iter().map(|&p| p != usize::MAX).collect();
        let mut waiting = vec![Vec::new(); operations.len()];
        let mut waits = vec![0; operations.len()];
        for (i, &v) in operations.iter().enumerate() {
            for operand in body.op(v).operands() {
                let from = position[index(operand)];
                if from != usize::MAX {
                    waiting[from].push(i);
                    waits[i] += 1;
                }
            }
        }
        let mut ahead = vec![0; operations.len()];
        for (i, &v) in operations.iter().enumerate().rev() {
            let after = waiting[i].iter().map(|&next| ahead[next]).max();
            ahead[i] = latency(body, v) + after.unwrap_or(0);
        }
        Self {
            body,
            operations,
            waiting,
            waits,
            ahead,
            uses: uses.to_vec(),
            here,
            limits,
        }
    }

    /// The operations in their new order, with at most this many live vectors and masks.
    fn order(mut self) -> Vec<V> {
        let limits = [self.limits.vectors, self.limits.masks.unwrap_or(0)];
        let count = self.operations.len();
        let mut ordered = Vec::with_capacity(count);
        let mut ready: Vec<usize> = (0..count).filter(|&i| self.waits[i] == 0).collect();
        // The time at which each operation's operands are available, in fractions of a cycle.
        let mut earliest = vec![0; count];
        let mut now = 0;
        let mut alive = [0usize; 2];
        while !ready.is_empty() {
            let full = [alive[0] >= limits[0], alive[1] >= limits[1]];
            let better = |&a: &usize, &b: &usize| {
                self.key(a, now, &earliest, full)
                    .cmp(&self.key(b, now, &earliest, full))
            };
            let Some(place) = (0..ready.len()).max_by(|&x, &y| better(&ready[x], &ready[y])) else {
                break;
            };
            let chosen = ready.swap_remove(place);
            let v = self.operations[chosen];
            now = earliest[chosen].max(now) + 1;
            let done = now + (latency(self.body, v) - 1) * WIDTH;
            for operand in self.body.op(v).operands() {
                let left = &mut self.uses[index(operand)];
                *left = left.saturating_sub(1);
                if *left == 0 && self.here[index(operand)] {
                    alive[self.class(operand)] -= 1;
                }
            }
            alive[self.class(v)] += 1;
            for &next in &self.waiting[chosen] {
                earliest[next] = earliest[next].max(done);
                self.waits[next] -= 1;
                if self.waits[next] == 0 {
                    ready.push(next);
                }
            }
            ordered.push(v);
        }
        ordered
    }

    /// The priority of an operation; the largest is issued first.
    fn key(
        &self,
        i: usize,
        now: u32,
        earliest: &[u32],
        full: [bool; 2],
    ) -> (i32, i32, u32, std::cmp::Reverse<usize>) {
        let v = self.operations[i];
        let mut change = [0i32; 2];
        change[self.class(v)] += 1;
        let operands = self.body.op(v).operands();
        for (k, operand) in operands.iter().enumerate() {
            let here = self.here[index(*operand)];
            let times = operands.iter().filter(|o| *o == operand).count() as u32;
            let first = !operands[..k].contains(operand);
            if here && first && self.uses[index(*operand)] == times {
                change[self.class(*operand)] -= 1;
            }
        }
        let pressure: i32 = (0..2).filter(|&c| full[c]).map(|c| change[c]).sum();
        // Operations that must wait come after those that need not.
        let wait = earliest[i].saturating_sub(now) as i32;
        (-pressure, -wait, self.ahead[i], std::cmp::Reverse(i))
    }

    fn class(&self, v: V) -> usize {
        usize::from(self.limits.masks.is_some() && self.body.type_of(v) == Type::Mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::builder::Builder;
    use crate::simd::ir::{Condition, Conversion, Input, Reduction};
    /// Sums of long chains, which are more than there are registers.
    fn chains(count: usize, length: usize) -> Body {
        let mut b = Builder::new();
        let first = b.input(Input::Number(Type::F32));
        let start = b.splat(first, Type::F32);
        let lane = b.lane();
        let lane = b.convert(Conversion::FromSigned, lane, Type::F32);
        let mut sum = start;
        for chain in 0..count {
            let mut x = lane;
            for step in 0..length {
                let c = b.f32((chain * length + step) as f32);
                x = b.fma(x, x, c);
            }
            let small = b.compare(Condition::Less, x, lane);
            let x = b.select(small, x, lane);
            sum = b.add(sum, x);
        }
        b.body().reductions.push(Reduction {
            op: BinaryOp::Add,
            value: sum,
        });
        b.finish()
    }

    const LIMITS: Limits = Limits {
        vectors: 24,
        masks: Some(5),
    };

    fn order(body: &Body) -> Vec<V> {
        let define = |s: &Statement| match s {
            Statement::Define(v) => *v,
            other => panic!("{other:?}"),
        };
        body.statements.iter().map(define).collect()
    }

    #[test]
    fn operands_stay_before_their_uses_and_nothing_is_lost() {
        let body = chains(40, 7);
        let (before, after) = (order(&body), order(&scheduled(&body, LIMITS, 1)));
        for (i, &v) in after.iter().enumerate() {
            for operand in body.op(v).operands() {
                assert!(!before.contains(&operand) || after[..i].contains(&operand));
            }
        }
        let sorted = |mut list: Vec<V>| {
            list.sort_unstable();
            list
        };
        assert_eq!(sorted(before), sorted(after));
    }

    #[test]
    fn chains_go_side_by_side_within_the_registers() {
        let body = chains(40, 7);
        let after = order(&scheduled(&body, LIMITS, 1));
        // Two dependent operations of one chain are not adjacent.
        let next_to = after
            .windows(2)
            .filter(|pair| body.op(pair[1]).operands().contains(&pair[0]));
        assert!(next_to.count() < after.len() / 4);
        let alive_at = |i: usize| {
            let defined = after[..=i].iter();
            let used_later = |v: &&V| {
                after[i + 1..]
                    .iter()
                    .any(|&u| body.op(u).operands().contains(v))
            };
            defined
                .filter(|v| body.type_of(**v) == Type::F32)
                .filter(used_later)
                .count()
        };
        assert!((0..after.len()).all(|i| alive_at(i) <= LIMITS.vectors + 2));
    }
}
