//! Constant evaluation of scalars: loop counters, and the offsets computed from them, also inside
//! of nested loops and conditionals.

use rustc_hash::{FxHashMap, FxHashSet};
use tegula_fusion::{Def, Node, NodeKind, Program, Region, ValueId};
use tegula_ir::{ElementType, Module, Op};
use tegula_scalar::{
    Bits, Number, apply_binary, apply_clamp, apply_compare, apply_convert, apply_select,
    apply_unary, decode,
};

/// The known scalars, as the bit patterns of their values.
pub(crate) type Scalars = FxHashMap<ValueId, u128>;

/// The trip count of a loop with more iterations than this counts as unknown.
const MOST_TRIPS: usize = 20_000;
/// At most this many operations are evaluated for one request.
const MOST_STEPS: usize = 16_000_000;

/// Why the iterations of a loop cannot be followed one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncounted {
    /// The trip count depends on data.
    DataDecides,
    /// The loop has too many iterations.
    TooMany,
}

/// The iterations of a counted loop.
pub(crate) struct Counted {
    /// The known scalars in each iteration.
    pub(crate) iterations: Vec<Scalars>,
    /// The loop's states after the last iteration; `None` where unknown.
    last: Vec<Option<u128>>,
}

/// Evaluates scalars.
pub(crate) struct Evaluator<'a> {
    module: &'a Module,
    program: &'a Program,
    /// Arrays that an operation reads or a region returns.
    used: FxHashSet<ValueId>,
    /// The number of operations that may still be evaluated.
    steps: usize,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(module: &'a Module, program: &'a Program) -> Self {
        let mut used: FxHashSet<ValueId> = program.entry.results.iter().copied().collect();
        for node in program.nodes.values() {
            used.extend(node.operands.iter().copied());
            for region in node.kind.regions() {
                used.extend(region.results.iter().copied());
            }
        }
        Self {
            module,
            program,
            used,
            steps: MOST_STEPS,
        }
    }

    /// Evaluates the operations of a region and adds the results to `known`.
    pub(crate) fn region(&mut self, region: &'a Region, known: &mut Scalars) {
        for &node in &region.nodes {
            self.steps = self.steps.saturating_sub(1);
            let node = &self.program.nodes[node];
            let given = match &node.kind {
                NodeKind::While { .. } if self.gives_numbers(node) => self
                    .count(node, known)
                    .map_or_else(|_| Vec::new(), |counted| counted.last),
                NodeKind::While { .. } => Vec::new(),
                NodeKind::Conditional { branches } => self.branch(node, branches, known),
                _ => vec![apply(self.module, self.program, node, known)],
            };
            for (&result, value) in node.results.iter().zip(given) {
                if let Some(value) = value {
                    known.insert(result, value);
                }
            }
        }
    }

    /// Whether a loop returns an integer scalar that some operation reads.
    fn gives_numbers(&self, node: &Node) -> bool {
        node.results.iter().any(|&result| {
            let shape = &self.program.values[result].shape;
            let is_number = shape.element_count() == Some(1) && !shape.element_type.is_float();
            is_number && self.used.contains(&result)
        })
    }

    /// The results of the branch that is taken; empty if the selector is unknown.
    fn branch(
        &mut self,
        node: &Node,
        branches: &'a [Region],
        known: &Scalars,
    ) -> Vec<Option<u128>> {
        let selector = node.operands.first();
        let taken = selector.and_then(|&value| self.taken(value, branches.len(), known));
        let Some(branch) = taken.and_then(|taken| branches.get(taken)) else {
            return Vec::new();
        };
        let mut scalars = known.clone();
        self.region(branch, &mut scalars);
        let results = branch.results.iter();
        results
            .map(|&result| value_of(self.program, &scalars, result))
            .collect()
    }

    /// The index of the branch that is taken, if the selector is known.
    pub(crate) fn taken(
        &self,
        selector: ValueId,
        branches: usize,
        known: &Scalars,
    ) -> Option<usize> {
        let element_type = self.program.values[selector].shape.element_type;
        let bits = value_of(self.program, known, selector)?;
        let number = integer(element_type, bits)?;
        let last = branches.checked_sub(1)?;
        match element_type == ElementType::Pred {
            // A `pred` selector takes branch 0 if true and branch 1 if false.
            true => Some(usize::from(number == 0)),
            // For an index out of range, HLO takes the last branch.
            false => Some(usize::try_from(number).map_or(last, |number| number.min(last))),
        }
    }

    /// Runs a loop on its known scalars only, and returns the known scalars of each iteration.
    pub(crate) fn count(&mut self, node: &'a Node, known: &Scalars) -> Result<Counted, Uncounted> {
        let NodeKind::While {
            condition,
            body,
            states,
        } = &node.kind
        else {
            return Err(Uncounted::DataDecides);
        };
        let program = self.program;
        let value = |known: &Scalars, value: ValueId| value_of(program, known, value);
        let operands = node.operands.iter();
        let mut now: Vec<Option<u128>> = operands.map(|&v| value(known, v)).collect();
        let mut iterations = Vec::new();
        loop {
            let mut scalars = known.clone();
            let own = states.iter().zip(&now);
            scalars.extend(own.filter_map(|(&state, value)| Some((state, (*value)?))));
            self.region(condition, &mut scalars);
            let test = condition.results.first();
            let goes_on = test.and_then(|&test| value(&scalars, test));
            if goes_on.ok_or(Uncounted::DataDecides)? & 1 == 0 {
                return Ok(Counted {
                    iterations,
                    last: now,
                });
            }
            self.region(body, &mut scalars);
            let results = body.results.iter();
            now = results.map(|&result| value(&scalars, result)).collect();
            self.steps = self.steps.saturating_sub(scalars.len());
            iterations.push(scalars);
            if iterations.len() > MOST_TRIPS || self.steps == 0 {
                return Err(Uncounted::TooMany);
            }
        }
    }
}

/// The value of a scalar, if it is known.
pub(crate) fn value_of(program: &Program, known: &Scalars, value: ValueId) -> Option<u128> {
    let found = &program.values[value];
    match &found.def {
        Def::Constant(literal) if found.shape.element_count() == Some(1) => {
            Some(Bits::of(literal).get(0))
        }
        _ => known.get(&value).copied(),
    }
}

/// Converts an integer or a `pred` to a number.
pub(crate) fn integer(element_type: ElementType, bits: u128) -> Option<i64> {
    match decode(element_type, bits) {
        Number::Signed(number) => Some(number),
        Number::Unsigned(number) => i64::try_from(number).ok(),
        Number::Pred(truth) => Some(i64::from(truth)),
        _ => None,
    }
}

fn apply(module: &Module, program: &Program, node: &Node, known: &Scalars) -> Option<u128> {
    let &[result] = &node.results[..] else {
        return None;
    };
    if !matches!(node.kind, NodeKind::Op) || program.values[result].shape.element_count() != Some(1)
    {
        return None;
    }
    let operand = |at: usize| value_of(program, known, *node.operands.get(at)?);
    let type_of = |value: ValueId| program.values[value].shape.element_type;
    let to = type_of(result);
    let from = type_of(*node.operands.first()?);
    match &module[node.origin].op {
        Op::Unary(op) => apply_unary(*op, from, operand(0)?),
        Op::Binary(op) => apply_binary(*op, from, operand(0)?, operand(1)?),
        Op::Compare { direction, order } => {
            apply_compare(*direction, *order, from, operand(0)?, operand(1)?)
        }
        Op::Select => Some(apply_select(operand(0)?, operand(1)?, operand(2)?)),
        Op::Clamp => apply_clamp(to, operand(0)?, operand(1)?, operand(2)?),
        Op::Convert => Some(apply_convert(from, to, operand(0)?)),
        Op::Reshape | Op::Copy | Op::Broadcast(_) if from == to => operand(0),
        _ => None,
    }
}
