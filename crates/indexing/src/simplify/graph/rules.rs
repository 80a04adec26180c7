//! The rewrite rules of the e-graph, each with its name and side condition.
//!
//! Rules are directional: each proposes another form of an e-class. All are identities of integers
//! under the side condition, which is checked with the bounds and residues of e-classes.
//!
//! | rule | identity | condition |
//! |---|---|---|
//! | mod-def | `x mod c = x - c * (x / c)` | |
//! | mod-recover | `k*y - k*c * (y / c) = k * (y mod c)` | |
//! | sum-flatten | a sum inside a sum is one sum | |
//! | sum-base | `terms + constant` over the sum without it | |
//! | sum-factor | `g*a + g*b = g * (a + b)` | |
//! | sum-share | two sums with common terms stand on their sum | |
//! | div-pull | `(c*a + b) / c = a + b / c` | `b` fits |
//! | div-drop-small | `(g*a + b) / c = (a + t) / (c/g)` | `g` divides `c`, `t*g <= b < (t+1)*g` |
//! | div-lift | `(x/b + y) / c = (x + b*y) / (b*c)` | the new dividend fits |
//! | div-split | `x / (b*c) = (x/b) / c` | `x/b` is there already |
//! | min-max-order | `min(a, b) = a` | `a <= b` by bounds |

use egg::{EGraph, Id};
use rustc_hash::FxHashMap;

use super::facts::{Facts, Knowledge};
use super::language::{Kind, Node};

/// The largest divisor that lifting may create.
const MAX_DIVISOR: i64 = 1 << 48;
/// The most sums of one e-class that a rule examines.
const MAX_FORMS: usize = 4;
/// The most terms of a sum that rules examine; longer sums stay as they are.
const MAX_TERMS: usize = 24;
/// The most pairs of sums compared for common terms in one round.
const MAX_PAIRS: usize = 256;

/// A form under construction.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Class(Id),
    Sum(i64, Vec<(Form, i64)>),
    Div(Box<Form>, i64),
    Mod(Box<Form>, i64),
}

/// A proposed further form of an e-class.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) rule: &'static str,
    pub(super) condition: String,
    pub(super) class: Id,
    pub(super) form: Form,
}

/// A view of the e-graph for the rules.
pub(super) struct View<'a> {
    graph: &'a EGraph<Node, Knowledge>,
    /// The constants that each e-class is divided by somewhere.
    divisors: FxHashMap<Id, Vec<i64>>,
}

type Terms = Vec<(Id, i64)>;

impl<'a> View<'a> {
    pub(super) fn new(graph: &'a EGraph<Node, Knowledge>, reachable: &[Id]) -> Self {
        let mut divisors: FxHashMap<Id, Vec<i64>> = FxHashMap::default();
        for id in reachable {
            for node in &graph[*id].nodes {
                if let (Kind::Div(c), [x]) = (&node.kind, node.children.as_slice()) {
                    divisors.entry(graph.find(*x)).or_default().push(*c);
                }
            }
        }
        for list in divisors.values_mut() {
            list.sort_unstable();
            list.dedup();
        }
        Self { graph, divisors }
    }

    fn facts(&self, id: Id) -> Facts {
        self.graph[id].data
    }

    fn class(&self, id: Id) -> Id {
        self.graph.find(id)
    }

    /// The sums that an e-class is equal to; the e-class itself if there is none.
    fn sums(&self, id: Id) -> Vec<(i64, Terms)> {
        let mut found: Vec<(i64, Terms)> = self.graph[id]
            .nodes
            .iter()
            .filter_map(Node::sum_terms)
            .filter(|(_, terms)| terms.len() <= MAX_TERMS)
            .take(MAX_FORMS)
            .map(|(constant, terms)| {
                (
                    constant,
                    terms
                        .into_iter()
                        .map(|(id, c)| (self.class(id), c))
                        .collect(),
                )
            })
            .collect();
        if found.is_empty() {
            found.push((0, vec![(self.class(id), 1)]));
        }
        found
    }

    /// The dividend and divisor of a quotient by a constant that the e-class is equal to.
    fn quotient(&self, id: Id) -> Option<(Id, i64)> {
        self.graph[id]
            .nodes
            .iter()
            .find_map(|node| match (&node.kind, node.children.as_slice()) {
                (Kind::Div(c), [x]) => Some((self.class(*x), *c)),
                _ => None,
            })
    }

    /// The bounds of a sum; `None` if it may overflow `i64`.
    fn range(&self, constant: i64, terms: &[(Id, i64)]) -> Option<(i64, i64)> {
        let (mut lower, mut upper) = (i128::from(constant), i128::from(constant));
        for (id, c) in terms {
            let range = self.facts(*id).range;
            let ends = [range.lower, range.upper].map(|e| i128::from(e) * i128::from(*c));
            lower += ends[0].min(ends[1]);
            upper += ends[0].max(ends[1]);
        }
        Some((i64::try_from(lower).ok()?, i64::try_from(upper).ok()?))
    }

    /// All proposals for one node of an e-class.
    pub(super) fn proposals(&self, class: Id, node: &Node) -> Vec<Proposal> {
        let mut out = Vec::new();
        let mut propose = |rule, condition: String, form| {
            out.push(Proposal {
                rule,
                condition,
                class,
                form,
            });
        };
        match (&node.kind, node.children.as_slice()) {
            (Kind::Mod(c), [x]) => {
                let quotient = Form::Div(Box::new(Form::Class(*x)), *c);
                let form = Form::Sum(0, vec![(Form::Class(*x), 1), (quotient, -c)]);
                propose("mod-def", String::new(), form);
            }
            (Kind::Sum(..), _) => self.sum_rules(class, node, &mut propose),
            (Kind::Div(c), [x]) => self.div_rules(*x, *c, &mut propose),
            (Kind::Min | Kind::Max, [a, b]) => {
                let (left, right) = (self.facts(*a).range, self.facts(*b).range);
                let smaller = if left.upper <= right.lower {
                    Some((a, b))
                } else if right.upper <= left.lower {
                    Some((b, a))
                } else {
                    None
                };
                if let Some((low, high)) = smaller {
                    let chosen = if node.kind == Kind::Min { low } else { high };
                    propose("min-max-order", "by bounds".into(), Form::Class(*chosen));
                }
            }
            _ => {}
        }
        out
    }

    fn sum_rules(
        &self,
        class: Id,
        node: &Node,
        propose: &mut dyn FnMut(&'static str, String, Form),
    ) {
        let Some((constant, terms)) = node.sum_terms() else {
            return;
        };
        if terms.len() > MAX_TERMS {
            return;
        }
        let terms: Terms = terms
            .into_iter()
            .map(|(id, c)| (self.class(id), c))
            .collect();
        if constant != 0 && (terms.len() > 1 || terms.iter().any(|(_, c)| *c != 1)) {
            let base = Form::Sum(0, classes(&terms));
            propose(
                "sum-base",
                String::new(),
                Form::Sum(constant, vec![(base, 1)]),
            );
        }
        let g = terms.iter().fold(0, |g, (_, c)| {
            tegula_expr::gcd(i64::try_from(g).unwrap_or(1), *c)
        });
        if let Ok(g) = i64::try_from(g)
            && g > 1
            && terms.len() > 1
        {
            let inner = Form::Sum(
                0,
                terms
                    .iter()
                    .map(|(id, c)| (Form::Class(*id), c / g))
                    .collect(),
            );
            propose(
                "sum-factor",
                format!("{g}"),
                Form::Sum(constant, vec![(inner, g)]),
            );
        }
        for (position, (child, coefficient)) in terms.iter().enumerate() {
            let others = || {
                terms
                    .iter()
                    .enumerate()
                    .filter(|(p, _)| *p != position)
                    .map(|(_, t)| *t)
            };
            for (inner_constant, inner) in self.sums(*child) {
                let is_itself = inner.iter().any(|(id, _)| *id == *child || *id == class);
                let scaled = inner_constant.checked_mul(*coefficient);
                if is_itself || inner.is_empty() {
                    continue;
                }
                if let Some(total) = scaled.and_then(|c| c.checked_add(constant)) {
                    let mut all: Vec<(Form, i64)> = classes(&others().collect::<Vec<_>>());
                    let Some(inner) = scale(&inner, *coefficient) else {
                        continue;
                    };
                    all.extend(classes(&inner));
                    propose("sum-flatten", String::new(), Form::Sum(total, all));
                }
            }
            if let Some((y, c)) = self.quotient(*child)
                && coefficient % c == 0
            {
                self.recover(constant, &terms, position, y, c, propose);
            }
        }
    }

    /// Rewrites `k*y - k*c * (y/c)` in a sum as `k * (y mod c)`.
    fn recover(
        &self,
        constant: i64,
        terms: &Terms,
        position: usize,
        y: Id,
        c: i64,
        propose: &mut dyn FnMut(&'static str, String, Form),
    ) {
        let Some((_, coefficient)) = terms.get(position) else {
            return;
        };
        let k = -(coefficient / c);
        let mut forms = self.sums(y);
        forms.push((0, vec![(y, 1)]));
        for (inner_constant, inner) in forms {
            // Only if the sum contains that multiple of `y` already.
            let all_there = inner.iter().all(|(id, own)| {
                terms
                    .iter()
                    .any(|(other, have)| other == id && own.checked_mul(k) == Some(*have))
            });
            let Some(rest) = inner_constant
                .checked_mul(k)
                .and_then(|offset| constant.checked_sub(offset))
            else {
                continue;
            };
            if !all_there {
                continue;
            }
            let mut left: Vec<(Form, i64)> = terms
                .iter()
                .enumerate()
                .filter(|(p, (id, _))| *p != position && !inner.iter().any(|(own, _)| own == id))
                .map(|(_, (id, c))| (Form::Class(*id), *c))
                .collect();
            left.push((Form::Mod(Box::new(Form::Class(y)), c), k));
            propose("mod-recover", String::new(), Form::Sum(rest, left));
        }
    }

    fn div_rules(&self, x: Id, c: i64, propose: &mut dyn FnMut(&'static str, String, Form)) {
        let x = self.class(x);
        for b in self.divisors.get(&x).into_iter().flatten() {
            if *b < c && c % b == 0 {
                let inner = Form::Div(Box::new(Form::Class(x)), *b);
                propose(
                    "div-split",
                    format!("{b} divides {c}"),
                    Form::Div(Box::new(inner), c / b),
                );
            }
        }
        for (constant, terms) in self.sums(x) {
            self.pull(constant, &terms, c, propose);
            self.drop_small(constant, &terms, c, propose);
            self.lift(constant, &terms, c, propose);
        }
    }

    fn pull(
        &self,
        constant: i64,
        terms: &Terms,
        c: i64,
        propose: &mut dyn FnMut(&'static str, String, Form),
    ) {
        let (out, rest): (Terms, Terms) = terms.iter().partition(|(_, k)| k % c == 0);
        let moved = constant.div_euclid(c);
        let left = constant.rem_euclid(c);
        if (out.is_empty() && moved == 0) || self.range(left, &rest).is_none() {
            return;
        }
        let quotient = Form::Div(Box::new(Form::Sum(left, classes(&rest))), c);
        let mut all: Vec<(Form, i64)> = out
            .iter()
            .map(|(id, k)| (Form::Class(*id), k / c))
            .collect();
        all.push((quotient, 1));
        propose("div-pull", String::new(), Form::Sum(moved, all));
    }

    fn drop_small(
        &self,
        constant: i64,
        terms: &Terms,
        c: i64,
        propose: &mut dyn FnMut(&'static str, String, Form),
    ) {
        let mut seen = Vec::new();
        for (_, k) in terms {
            let Ok(g) = i64::try_from(tegula_expr::gcd(*k, c)) else {
                continue;
            };
            if g < 2 || seen.contains(&g) {
                continue;
            }
            seen.push(g);
            let (big, small): (Terms, Terms) = terms.iter().partition(|(_, k)| k % g == 0);
            let moved = constant.div_euclid(g);
            let Some((lower, upper)) = self.range(constant.rem_euclid(g), &small) else {
                continue;
            };
            let t = lower.div_euclid(g);
            if t != upper.div_euclid(g) {
                continue;
            }
            let Some(offset) = moved.checked_add(t) else {
                continue;
            };
            let inner: Vec<(Form, i64)> = big
                .iter()
                .map(|(id, k)| (Form::Class(*id), k / g))
                .collect();
            let sum = Form::Sum(offset, inner);
            let form = if c == g {
                sum
            } else {
                Form::Div(Box::new(sum), c / g)
            };
            propose(
                "div-drop-small",
                format!("rest in [{lower}, {upper}], g = {g}"),
                form,
            );
        }
    }

    fn lift(
        &self,
        constant: i64,
        terms: &Terms,
        c: i64,
        propose: &mut dyn FnMut(&'static str, String, Form),
    ) {
        for (position, (child, k)) in terms.iter().enumerate() {
            let Some((x, b)) = self.quotient(*child).filter(|_| *k == 1) else {
                continue;
            };
            let Some(divisor) = b.checked_mul(c).filter(|d| *d <= MAX_DIVISOR) else {
                continue;
            };
            let others: Terms = terms
                .iter()
                .enumerate()
                .filter(|(p, _)| *p != position)
                .map(|(_, t)| *t)
                .collect();
            let (Some(mut all), Some(constant)) = (scale(&others, b), constant.checked_mul(b))
            else {
                continue;
            };
            all.push((x, 1));
            if self.range(constant, &all).is_none() {
                continue;
            }
            let dividend = Form::Sum(constant, classes(&all));
            propose(
                "div-lift",
                format!("{b} * {c}"),
                Form::Div(Box::new(dividend), divisor),
            );
        }
    }

    /// Proposes a separate sum for the common terms of two sums, which both then use.
    pub(super) fn common_sums(&self, reachable: &[Id]) -> Vec<Proposal> {
        let mut sums: Vec<(Id, i64, Terms)> = Vec::new();
        for id in reachable {
            for (constant, terms) in self.graph[*id]
                .nodes
                .iter()
                .filter_map(Node::sum_terms)
                .take(2)
            {
                let terms: Terms = terms
                    .into_iter()
                    .map(|(id, c)| (self.class(id), c))
                    .collect();
                if (2..=MAX_TERMS).contains(&terms.len()) {
                    sums.push((*id, constant, terms));
                }
            }
        }
        let mut out = Vec::new();
        let mut pairs = 0;
        for (position, (class, constant, terms)) in sums.iter().enumerate() {
            for (other_class, other_constant, other) in sums.iter().skip(position + 1) {
                pairs += 1;
                if pairs > MAX_PAIRS || class == other_class {
                    continue;
                }
                let common: Terms = terms
                    .iter()
                    .filter(|term| other.contains(term))
                    .copied()
                    .collect();
                if common.len() < 2 {
                    continue;
                }
                for (class, constant, terms) in [
                    (class, constant, terms),
                    (other_class, other_constant, other),
                ] {
                    if common.len() == terms.len() && *constant == 0 {
                        continue;
                    }
                    let mut left: Vec<(Form, i64)> = terms
                        .iter()
                        .filter(|term| !common.contains(term))
                        .map(|(id, c)| (Form::Class(*id), *c))
                        .collect();
                    left.push((Form::Sum(0, classes(&common)), 1));
                    out.push(Proposal {
                        rule: "sum-share",
                        condition: String::new(),
                        class: *class,
                        form: Form::Sum(*constant, left),
                    });
                }
            }
        }
        out
    }
}

fn classes(terms: &[(Id, i64)]) -> Vec<(Form, i64)> {
    terms.iter().map(|(id, c)| (Form::Class(*id), *c)).collect()
}

fn scale(terms: &[(Id, i64)], factor: i64) -> Option<Terms> {
    terms
        .iter()
        .map(|(id, c)| Some((*id, c.checked_mul(factor)?)))
        .collect()
}
