//! Extraction: chooses one node for each e-class so that all roots together are cheap.
//!
//! Costs are those of address arithmetic on a 64-bit machine, in additions. A shift or a mask costs
//! one, a multiplication three, a division by a constant as much as a multiplication with two
//! corrections, and a division by a variable twenty-five. An e-class that several terms use is paid
//! once. The choice starts from the cheapest trees and is then improved one e-class at a time.

use egg::{EGraph, Id};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::{Node as TermNode, Term};

use super::facts::Knowledge;
use super::language::{Kind, Node};

/// The most passes of improvement over all chosen e-classes.
const MAX_SWEEPS: usize = 4;
/// The most nodes of one e-class that are tried.
const MAX_ALTERNATIVES: usize = 12;

/// The cost of one addition. It is larger than 1, so that the cost 1 of every node can break ties.
const UNIT: u64 = 16;

fn multiplication(factor: i64) -> u64 {
    match factor.unsigned_abs() {
        0 | 1 => 0,
        magnitude if magnitude.is_power_of_two() => UNIT,
        _ => 3 * UNIT,
    }
}

fn division(divisor: i64) -> u64 {
    if divisor.unsigned_abs().is_power_of_two() {
        UNIT
    } else {
        5 * UNIT
    }
}

fn remainder(divisor: i64) -> u64 {
    if divisor.unsigned_abs().is_power_of_two() {
        UNIT
    } else {
        9 * UNIT
    }
}

/// The cost of a node itself. It is at least 1, so that no choice is cyclic.
fn cost(node: &Node) -> u64 {
    match &node.kind {
        Kind::Num(_) | Kind::Var(_) => 1,
        Kind::Sum(constant, coefficients) => {
            let additions = coefficients.len() as u64
                - u64::from(*constant == 0).min(coefficients.len() as u64);
            let products: u64 = coefficients.iter().map(|c| multiplication(*c)).sum();
            // A sum of negative terms only needs a negation.
            let negation = u64::from(*constant == 0 && coefficients.iter().all(|c| *c < 0));
            additions * UNIT + products + negation * UNIT + 1
        }
        Kind::Div(c) => division(*c) + 1,
        Kind::Mod(c) => remainder(*c) + 1,
        Kind::Mul => 3 * UNIT + 1,
        Kind::FloorDiv | Kind::CeilDiv => 25 * UNIT + 1,
        Kind::ModBy => 28 * UNIT + 1,
        Kind::Min | Kind::Max => 2 * UNIT + 1,
        Kind::Compare(_) | Kind::Select => UNIT + 1,
    }
}

/// The cost of computing the terms together, in additions; common subterms are counted once.
pub fn address_cost(terms: &[Term]) -> u64 {
    let mut seen: FxHashSet<Term> = FxHashSet::default();
    let mut total = 0;
    for term in terms {
        let mut stack = vec![term.clone()];
        while let Some(term) = stack.pop() {
            if !seen.insert(term.clone()) {
                continue;
            }
            let mut push = |operands: &[&Term]| stack.extend(operands.iter().map(|t| (*t).clone()));
            total += match term.node() {
                TermNode::Const(_) | TermNode::Var(_) => 0,
                TermNode::Add(a, b) => {
                    push(&[a, b]);
                    UNIT
                }
                TermNode::Mul(a, b) => {
                    push(&[a, b]);
                    b.as_constant().map_or(3 * UNIT, multiplication)
                }
                TermNode::FloorDiv(a, b) | TermNode::CeilDiv(a, b) => {
                    push(&[a, b]);
                    b.as_constant().map_or(25 * UNIT, division)
                }
                TermNode::Mod(a, b) => {
                    push(&[a, b]);
                    b.as_constant().map_or(28 * UNIT, remainder)
                }
                TermNode::Min(a, b) | TermNode::Max(a, b) => {
                    push(&[a, b]);
                    2 * UNIT
                }
                TermNode::Cmp(_, a, b) => {
                    push(&[a, b]);
                    UNIT
                }
                TermNode::Select(c, a, b) => {
                    push(&[c, a, b]);
                    UNIT
                }
            };
        }
    }
    total / UNIT
}

/// The chosen node of each e-class.
pub(super) struct Choice<'a> {
    graph: &'a EGraph<Node, Knowledge>,
    nodes: FxHashMap<Id, &'a Node>,
}

impl<'a> Choice<'a> {
    /// Chooses for the given roots; `reachable` are all e-classes reachable from them.
    pub(super) fn new(graph: &'a EGraph<Node, Knowledge>, roots: &[Id], reachable: &[Id]) -> Self {
        let mut choice = Self {
            graph,
            nodes: FxHashMap::default(),
        };
        choice.cheapest_trees(reachable);
        choice.improve(roots);
        choice
    }

    fn cheapest_trees(&mut self, reachable: &[Id]) {
        let mut costs: FxHashMap<Id, u64> = FxHashMap::default();
        loop {
            let mut changed = false;
            for id in reachable {
                for node in &self.graph[*id].nodes {
                    let Some(total) = node.children.iter().try_fold(cost(node), |sum, child| {
                        Some(sum.saturating_add(*costs.get(&self.graph.find(*child))?))
                    }) else {
                        continue;
                    };
                    if costs.get(id).is_none_or(|known| total < *known) {
                        costs.insert(*id, total);
                        self.nodes.insert(*id, node);
                        changed = true;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// The e-classes that the roots need, operands first; `None` if the choice is cyclic.
    fn needed(&self, roots: &[Id]) -> Option<Vec<Id>> {
        let mut order = Vec::new();
        let mut state: FxHashMap<Id, bool> = FxHashMap::default();
        let mut stack: Vec<(Id, bool)> = roots
            .iter()
            .map(|id| (self.graph.find(*id), false))
            .collect();
        while let Some((id, expanded)) = stack.pop() {
            if expanded {
                state.insert(id, true);
                order.push(id);
                continue;
            }
            match state.get(&id) {
                Some(true) => continue,
                Some(false) => return None,
                None => {}
            }
            state.insert(id, false);
            stack.push((id, true));
            for child in &self.nodes.get(&id)?.children {
                let child = self.graph.find(*child);
                match state.get(&child) {
                    Some(true) => {}
                    // The child is on the path from a root to here.
                    Some(false) if stack.contains(&(child, true)) => return None,
                    _ => stack.push((child, false)),
                }
            }
        }
        Some(order)
    }

    fn total(&self, roots: &[Id]) -> Option<u64> {
        let needed = self.needed(roots)?;
        Some(
            needed
                .iter()
                .filter_map(|id| self.nodes.get(id))
                .map(|node| cost(node))
                .sum(),
        )
    }

    fn improve(&mut self, roots: &[Id]) {
        let Some(mut best) = self.total(roots) else {
            return;
        };
        for _ in 0..MAX_SWEEPS {
            let before = best;
            for id in self.needed(roots).unwrap_or_default() {
                let Some(mut chosen) = self.nodes.get(&id).copied() else {
                    continue;
                };
                for node in self.graph[id].nodes.iter().take(MAX_ALTERNATIVES) {
                    self.nodes.insert(id, node);
                    match self.total(roots) {
                        Some(total) if total < best => {
                            best = total;
                            chosen = node;
                        }
                        _ => {}
                    }
                }
                self.nodes.insert(id, chosen);
            }
            if best == before {
                return;
            }
        }
    }

    /// The chosen terms of the roots.
    pub(super) fn terms(&self, roots: &[Id]) -> Option<Vec<Term>> {
        let mut terms: FxHashMap<Id, Term> = FxHashMap::default();
        for id in self.needed(roots)? {
            let node = self.nodes.get(&id)?;
            let children: Option<Vec<&Term>> = node
                .children
                .iter()
                .map(|child| terms.get(&self.graph.find(*child)))
                .collect();
            let children = children?;
            let term = super::facts::operation(node, |position| {
                children
                    .get(position)
                    .map_or_else(|| Term::constant(0), |term| (*term).clone())
            });
            terms.insert(id, term);
        }
        roots
            .iter()
            .map(|root| terms.get(&self.graph.find(*root)).cloned())
            .collect()
    }

    /// The chosen nodes that the roots need.
    pub(super) fn chosen(&self, roots: &[Id]) -> Vec<(Id, &'a Node)> {
        let needed = self.needed(roots).unwrap_or_default();
        needed
            .into_iter()
            .filter_map(|id| Some((id, *self.nodes.get(&id)?)))
            .collect()
    }
}
