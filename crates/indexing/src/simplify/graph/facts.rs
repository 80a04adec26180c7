//! The e-class analysis: bounds and a residue for each e-class.
//!
//! All nodes of an e-class have the same value, so their bounds are intersected, and their residues
//! merged by the Chinese remainder theorem. That is how `x - 8*(x/8)` gets the bounds of `x mod 8`:
//! they are in the same e-class.

use egg::{Analysis, DidMerge, EGraph, Id};
use tegula_expr::{Interval, Residue, Term, Var, VarRanges, facts_of};

use super::language::{Kind, Node};

/// The bounds and residue of an e-class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) range: Interval,
    pub(super) residue: Residue,
}

/// The most refinements for the terms of one map. On cyclic e-classes, bounds could otherwise
/// improve in tiny steps for a long time.
const FUEL: u32 = 4096;

/// The analysis, with the domain of the variables.
#[derive(Debug)]
pub(super) struct Knowledge {
    variables: Vec<Facts>,
    /// The number of refinements left.
    fuel: u32,
}

impl Knowledge {
    pub(super) fn new(ranges: &dyn VarRanges, variables: u32) -> Self {
        let facts = |var| Facts {
            range: ranges.range(Var(var)),
            residue: ranges.residue(Var(var)),
        };
        Self {
            variables: (0..variables).map(facts).collect(),
            fuel: FUEL,
        }
    }

    pub(super) fn refuel(&mut self) {
        self.fuel = FUEL;
    }
}

/// The facts of a node's children, as ranges of placeholder variables.
struct Operands<'a>(&'a [Facts]);

impl VarRanges for Operands<'_> {
    fn range(&self, var: Var) -> Interval {
        self.0
            .get(var.0 as usize)
            .map_or(Interval::FULL, |facts| facts.range)
    }

    fn residue(&self, var: Var) -> Residue {
        self.0
            .get(var.0 as usize)
            .map_or(Residue::ANY, |facts| facts.residue)
    }
}

/// The node as a term over its children, numbered from 0, so that only the term language needs to
/// know how facts pass through an operation.
pub(super) fn operation(node: &Node, child: impl Fn(usize) -> Term) -> Term {
    let pair = |f: fn(&Term, &Term) -> Term| f(&child(0), &child(1));
    match &node.kind {
        Kind::Num(value) => Term::constant(*value),
        Kind::Var(var) => Term::var(Var(*var)),
        Kind::Sum(constant, coefficients) => {
            let mut multiples: Vec<Term> = coefficients
                .iter()
                .enumerate()
                .map(|(position, c)| child(position).mul(&Term::constant(*c)))
                .collect();
            multiples.sort_unstable();
            let sum = multiples.into_iter().reduce(|sum, term| sum.add(&term));
            sum.unwrap_or_else(|| Term::constant(0))
                .add(&Term::constant(*constant))
        }
        Kind::Div(c) => child(0).floor_div(&Term::constant(*c)),
        Kind::Mod(c) => child(0).modulo(&Term::constant(*c)),
        Kind::Mul => pair(Term::mul),
        Kind::FloorDiv => pair(Term::floor_div),
        Kind::CeilDiv => pair(Term::ceil_div),
        Kind::ModBy => pair(Term::modulo),
        Kind::Min => pair(Term::min),
        Kind::Max => pair(Term::max),
        Kind::Compare(op) => Term::cmp(*op, &child(0), &child(1)),
        Kind::Select => Term::select(&child(0), &child(1), &child(2)),
    }
}

impl Analysis<Node> for Knowledge {
    type Data = Facts;

    fn make(graph: &mut EGraph<Node, Self>, node: &Node, _: Id) -> Facts {
        if let Kind::Var(var) = node.kind {
            let known = graph.analysis.variables.get(var as usize).copied();
            return known.unwrap_or(Facts {
                range: Interval::FULL,
                residue: Residue::ANY,
            });
        }
        let children: Vec<Facts> = node
            .children
            .iter()
            .map(|child| graph[*child].data)
            .collect();
        let term = operation(node, |position| {
            Term::var(Var(u32::try_from(position).unwrap_or(u32::MAX)))
        });
        let (range, residue) = facts_of(&term, &Operands(&children));
        Facts { range, residue }
    }

    fn merge(&mut self, a: &mut Facts, b: Facts) -> DidMerge {
        let merged = Facts {
            range: a.range.intersect(&b.range),
            residue: a.residue.intersect(&b.residue).unwrap_or(a.residue),
        };
        // Only a term that has no value anywhere has an empty range.
        if merged.range.is_empty() || self.fuel == 0 {
            return DidMerge(false, false);
        }
        let changed = DidMerge(merged != *a, merged != b);
        if changed.0 {
            self.fuel -= 1;
        }
        *a = merged;
        changed
    }

    fn modify(graph: &mut EGraph<Node, Self>, id: Id) {
        if let Some(value) = graph[id].data.range.as_point() {
            let number = graph.add(Node::new(Kind::Num(value), []));
            graph.union(id, number);
        }
    }
}
