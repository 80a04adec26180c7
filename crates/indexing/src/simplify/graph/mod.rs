//! An e-graph of terms over one domain.
//!
//! A graph belongs to one domain, whose variables it uses, so nothing that holds in another domain
//! can rewrite its terms. Terms are inserted in canonical form. Rules ([`rules`]) add other forms
//! of what the roots reach, and extraction ([`extract`]) picks the forms that are cheapest
//! together.

mod extract;
mod facts;
mod language;
mod rules;

use egg::{EGraph, Id};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::{Node as TermNode, Term, VarRanges};

use super::report::{Explained, StopReason};
use super::{Constraint, Limits};
use extract::Choice;
pub use extract::address_cost;
use facts::{Facts, Knowledge};
use language::{Coefficients, Kind, Node};
use rules::{Form, Proposal, View};

/// The deepest term that is inserted into a graph.
const MAX_DEPTH: u32 = 256;
/// The most nodes of all terms that are inserted into a graph.
const MAX_SIZE: u32 = 8192;

/// Terms over one domain; equal terms are in one e-class.
#[derive(Debug)]
pub(super) struct Graph {
    graph: EGraph<Node, Knowledge>,
    classes: FxHashMap<Term, Id>,
    roots: Vec<Id>,
    /// The number of nodes before the roots were inserted.
    before: usize,
    /// The rule that made each node, and its side condition; recorded only on request.
    origins: Option<FxHashMap<Node, (&'static str, String)>>,
}

impl Graph {
    pub(super) fn new(ranges: &dyn VarRanges, variables: u32, explain: bool) -> Self {
        Self {
            graph: EGraph::new(Knowledge::new(ranges, variables)),
            classes: FxHashMap::default(),
            roots: Vec::new(),
            before: 0,
            origins: explain.then(FxHashMap::default),
        }
    }

    /// The forms of the terms that are cheapest together, as far as rules find them within the
    /// limits, and the reason why the rules stopped. Terms that were inserted earlier stay, and may
    /// help.
    pub(super) fn cheapest(
        &mut self,
        terms: &[Term],
        limits: &Limits,
    ) -> (StopReason, Option<Vec<Term>>) {
        self.graph.analysis.refuel();
        self.before = self.nodes();
        self.roots = terms.iter().map(|term| self.insert(term)).collect();
        let stop = self.saturate(limits);
        (stop, self.extract())
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.graph.total_number_of_nodes()
    }

    /// Restricts the domain: `constraint` holds on it.
    pub(super) fn assume(&mut self, constraint: &Constraint) {
        let id = self.insert(&constraint.term);
        let known = self.graph[id].data;
        let range = known.range.intersect(&constraint.interval);
        if !range.is_empty() {
            self.graph.set_analysis_data(id, Facts { range, ..known });
        }
    }

    /// Inserts a term. Sums are inserted as a whole, without partial sums. Other nesting is handled
    /// by recursion, which [`is_small`] bounds.
    fn insert(&mut self, term: &Term) -> Id {
        if let Some(known) = self.classes.get(term) {
            return *known;
        }
        let is_sum = match term.node() {
            TermNode::Add(..) => true,
            TermNode::Mul(_, factor) => factor.as_constant().is_some(),
            _ => false,
        };
        let sum = term
            .as_linear()
            .filter(|_| is_sum)
            .and_then(|(terms, constant)| {
                let parts = terms
                    .iter()
                    .map(|(atom, k)| (self.insert(atom), *k))
                    .collect();
                sum_of(&mut self.graph, constant, parts)
            });
        let id = sum.unwrap_or_else(|| self.insert_node(term));
        self.classes.insert(term.clone(), id);
        id
    }

    fn insert_node(&mut self, term: &Term) -> Id {
        let constant = |term: &Term| term.as_constant().filter(|c| *c > 1);
        let (kind, operands): (Kind, &[&Term]) = match term.node() {
            TermNode::Const(value) => (Kind::Num(*value), &[]),
            TermNode::Var(var) => (Kind::Var(var.0), &[]),
            TermNode::Add(a, b) => (Kind::Sum(0, Coefficients::from_slice(&[1, 1])), &[a, b]),
            TermNode::FloorDiv(a, b) => match constant(b) {
                Some(c) => (Kind::Div(c), &[a]),
                None => (Kind::FloorDiv, &[a, b]),
            },
            TermNode::Mod(a, b) => match constant(b) {
                Some(c) => (Kind::Mod(c), &[a]),
                None => (Kind::ModBy, &[a, b]),
            },
            TermNode::Mul(a, b) => (Kind::Mul, &[a, b]),
            TermNode::CeilDiv(a, b) => (Kind::CeilDiv, &[a, b]),
            TermNode::Min(a, b) => (Kind::Min, &[a, b]),
            TermNode::Max(a, b) => (Kind::Max, &[a, b]),
            TermNode::Cmp(op, a, b) => (Kind::Compare(*op), &[a, b]),
            TermNode::Select(c, a, b) => (Kind::Select, &[c, a, b]),
        };
        let children: Vec<Id> = operands
            .iter()
            .map(|operand| self.insert(operand))
            .collect();
        self.graph.add(Node::new(kind, children))
    }

    /// The e-classes that the roots reach, roots first.
    fn reachable(&self) -> Vec<Id> {
        let mut seen = FxHashSet::default();
        let mut found: Vec<Id> = Vec::new();
        let mut stack: Vec<Id> = self
            .roots
            .iter()
            .rev()
            .map(|id| self.graph.find(*id))
            .collect();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            found.push(id);
            for node in &self.graph[id].nodes {
                stack.extend(node.children.iter().map(|child| self.graph.find(*child)));
            }
        }
        found
    }

    /// Applies the rules until nothing changes or a limit is reached.
    fn saturate(&mut self, limits: &Limits) -> StopReason {
        self.graph.rebuild();
        let most = self.before.saturating_add(limits.nodes);
        for _ in 0..limits.rounds {
            let reachable = self.reachable();
            let proposals: Vec<Proposal> = {
                let view = View::new(&self.graph, &reachable);
                let mut all: Vec<Proposal> = reachable
                    .iter()
                    .flat_map(|id| {
                        let nodes = &self.graph[*id].nodes;
                        nodes
                            .iter()
                            .flat_map(|node| view.proposals(*id, node))
                            .collect::<Vec<_>>()
                    })
                    .collect();
                all.extend(view.common_sums(&reachable));
                all
            };
            let mut changed = false;
            for proposal in proposals {
                if self.nodes() > most {
                    self.graph.rebuild();
                    return StopReason::NodeLimit;
                }
                changed |= self.apply(&proposal);
            }
            self.graph.rebuild();
            if !changed {
                return StopReason::Saturated;
            }
        }
        StopReason::RoundLimit
    }

    fn apply(&mut self, proposal: &Proposal) -> bool {
        let Some(id) = build(&mut self.graph, &proposal.form) else {
            return false;
        };
        if self.graph.find(id) == self.graph.find(proposal.class) {
            return false;
        }
        if let Some(origins) = &mut self.origins {
            for node in &self.graph[id].nodes {
                let origin = || (proposal.rule, proposal.condition.clone());
                origins.entry(node.clone()).or_insert_with(origin);
            }
        }
        self.graph.union(id, proposal.class)
    }

    /// The forms of the roots that are cheapest together.
    fn extract(&self) -> Option<Vec<Term>> {
        let reachable = self.reachable();
        Choice::new(&self.graph, &self.roots, &reachable).terms(&self.roots)
    }

    /// The rules that made the nodes of the extracted forms.
    pub(super) fn explain(&self) -> Vec<Explained> {
        let Some(origins) = &self.origins else {
            return Vec::new();
        };
        let reachable = self.reachable();
        let choice = Choice::new(&self.graph, &self.roots, &reachable);
        let mut found = Vec::new();
        for (id, node) in choice.chosen(&self.roots) {
            let Some((rule, condition)) = origins.get(node) else {
                continue;
            };
            let Some(after) = choice
                .terms(&[id])
                .and_then(|terms| terms.into_iter().next())
            else {
                continue;
            };
            let before = self.original(id).unwrap_or_else(|| after.clone());
            if before != after {
                found.push(Explained {
                    rule,
                    condition: condition.clone(),
                    facts: Vec::new(),
                    before,
                    after,
                });
            }
        }
        found
    }

    /// The largest term that was inserted into the e-class.
    fn original(&self, class: Id) -> Option<Term> {
        let mut terms: Vec<&Term> = self
            .classes
            .iter()
            .filter(|(_, id)| self.graph.find(**id) == class)
            .map(|(term, _)| term)
            .collect();
        terms.sort_unstable_by_key(|term| (term.size(), (*term).clone()));
        terms.last().map(|term| (*term).clone())
    }
}

/// Whether terms are small enough for a graph: none too deep, and not too many nodes together.
pub(super) fn is_small<'a>(terms: impl IntoIterator<Item = &'a Term>) -> bool {
    let mut total = 0u32;
    terms.into_iter().all(|term| {
        total = total.saturating_add(term.size());
        // A sum is as deep as it is long.
        term.depth() <= MAX_DEPTH && total <= MAX_SIZE
    })
}

/// The e-class of a sum, with equal terms merged and constants added up; `None` if a number
/// overflows.
fn sum_of(graph: &mut EGraph<Node, Knowledge>, constant: i64, terms: Vec<(Id, i64)>) -> Option<Id> {
    let mut constant = constant;
    let mut merged: Vec<(Id, i64)> = Vec::with_capacity(terms.len());
    for (id, k) in terms {
        let id = graph.find(id);
        if let Some(value) = number(graph, id) {
            constant = constant.checked_add(value.checked_mul(k)?)?;
            continue;
        }
        match merged.iter_mut().find(|(other, _)| *other == id) {
            Some((_, sum)) => *sum = sum.checked_add(k)?,
            None => merged.push((id, k)),
        }
    }
    merged.retain(|(_, k)| *k != 0);
    merged.sort_unstable();
    match merged.as_slice() {
        [] => Some(graph.add(Node::new(Kind::Num(constant), []))),
        [(id, 1)] if constant == 0 => Some(*id),
        _ => {
            let coefficients = merged.iter().map(|(_, k)| *k).collect();
            let children = merged.iter().map(|(id, _)| *id);
            Some(graph.add(Node::new(Kind::Sum(constant, coefficients), children)))
        }
    }
}

/// The value of an e-class, if it is known to be constant.
fn number(graph: &EGraph<Node, Knowledge>, id: Id) -> Option<i64> {
    graph[id].data.range.as_point()
}

/// Inserts a form; `None` if a number overflows.
fn build(graph: &mut EGraph<Node, Knowledge>, form: &Form) -> Option<Id> {
    match form {
        Form::Class(id) => Some(graph.find(*id)),
        Form::Sum(constant, terms) => {
            let mut built = Vec::with_capacity(terms.len());
            for (form, k) in terms {
                built.push((build(graph, form)?, *k));
            }
            sum_of(graph, *constant, built)
        }
        Form::Div(inner, c) => {
            let inner = build(graph, inner)?;
            Some(graph.add(Node::new(Kind::Div(*c), [inner])))
        }
        Form::Mod(inner, c) => {
            let inner = build(graph, inner)?;
            Some(graph.add(Node::new(Kind::Mod(*c), [inner])))
        }
    }
}
