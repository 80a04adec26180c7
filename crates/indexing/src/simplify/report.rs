//! Reports of the simplifier: why it stopped and, on request, which rules led to the result.

use std::fmt;

use tegula_expr::{Facts, Interval, Names, Step, Style, Term};

use crate::map::{Constraint, IndexingMap};

/// The reason why rewriting stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The canonical form contains no division, remainder, minimum or maximum.
    #[default]
    Canonical,
    /// No rule found a new form.
    Saturated,
    /// The terms or their values are too large for the e-graph.
    TooLarge,
    /// [`crate::Limits::nodes`] was reached.
    NodeLimit,
    /// [`crate::Limits::rounds`] was reached.
    RoundLimit,
}

/// One rewrite step of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The rule.
    pub rule: &'static str,
    /// The side condition that held, empty if the rule has none.
    pub condition: String,
    /// Terms with their bounds on the domain; they prove the condition.
    pub facts: Facts,
    /// The term before.
    pub before: Term,
    /// The term after.
    pub after: Term,
}

impl From<Step> for Explained {
    fn from(step: Step) -> Self {
        let Step {
            rule,
            facts,
            before,
            after,
        } = step;
        Self {
            rule,
            condition: String::new(),
            facts,
            before,
            after,
        }
    }
}

/// How a map's bounds and constraints were changed. Together, the old and the new ones describe the
/// same set of points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowed {
    /// The variables, by number, whose bounds were narrowed, with the old and the new bounds.
    pub bounds: Vec<(usize, Interval, Interval)>,
    /// Constraints that were removed, because they are implied or expressed differently.
    pub gone: Vec<Constraint>,
    /// Constraints that were added.
    pub new: Vec<Constraint>,
}

impl Narrowed {
    pub(super) fn between(given: &IndexingMap, map: &IndexingMap) -> Self {
        let pairs = given.bounds().into_iter().zip(map.bounds()).enumerate();
        let missing = |from: &IndexingMap, other: &IndexingMap| {
            let is_missing = |c: &&Constraint| !other.constraints.contains(c);
            from.constraints
                .iter()
                .filter(is_missing)
                .cloned()
                .collect()
        };
        Self {
            bounds: pairs
                .filter(|(_, (before, after))| before != after)
                .map(|(variable, (before, after))| (variable, before, after))
                .collect(),
            gone: missing(given, map),
            new: missing(map, given),
        }
    }

    /// One line for each change, with the names of variables.
    pub fn lines<N: Names + ?Sized>(&self, names: &N, style: Style) -> Vec<String> {
        let within = |term: &Term, Interval { lower, upper }: Interval| {
            format!("{} in [{lower}, {upper}]", term.display(names, style))
        };
        let bounds = self.bounds.iter().map(|(variable, before, after)| {
            let term = crate::map::variable(*variable);
            let (before, after) = (within(&term, *before), within(&term, *after));
            format!("{before}  =>  {after}  by constraints")
        });
        let list = |constraints: &[Constraint]| {
            let all: Vec<String> = constraints
                .iter()
                .map(|c| within(&c.term, c.interval))
                .collect();
            all.join(", ")
        };
        let constraints = match (self.gone.as_slice(), self.new.as_slice()) {
            ([], []) => None,
            (gone, []) => Some(format!("{}  implied", list(gone))),
            (gone, new) => Some(format!("{}  =>  {}  by constraints", list(gone), list(new))),
        };
        bounds.chain(constraints).collect()
    }
}

/// What was done to simplify one map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why rewriting stopped.
    pub stop: StopReason,
    /// The number of rounds of the pipeline.
    pub rounds: usize,
    /// How the domain changed, if explanations are kept.
    pub domain: Narrowed,
    /// The rewrite steps that led to the result, in order, if explanations are kept.
    pub steps: Vec<Explained>,
}

impl Explained {
    /// Displays the step on one line, with the names of variables.
    pub fn display<'a, N: Names + ?Sized>(
        &'a self,
        names: &'a N,
        style: Style,
    ) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let (before, after) = (
                self.before.display(names, style),
                self.after.display(names, style),
            );
            write!(f, "{before}  =>  {after}  by {}", self.rule)?;
            let facts = self.facts.iter().map(|(term, Interval { lower, upper })| {
                format!("{} in [{lower}, {upper}]", term.display(names, style))
            });
            let condition = Some(self.condition.clone()).filter(|text| !text.is_empty());
            let all: Vec<String> = condition.into_iter().chain(facts).collect();
            if all.is_empty() {
                Ok(())
            } else {
                write!(f, " ({})", all.join("; "))
            }
        })
    }
}

/// A rule of the simplifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in explanations.
    pub name: &'static str,
    /// The identity.
    pub identity: &'static str,
    /// The side condition; empty if it always holds.
    pub condition: &'static str,
}

const fn rule(name: &'static str, identity: &'static str, condition: &'static str) -> Rule {
    Rule {
        name,
        identity,
        condition,
    }
}

/// All rules. `/` rounds towards negative infinity; `a`, `b`, `x` and `y` are terms, other letters
/// are constants, and divisors are positive.
pub const RULES: &[Rule] = &[
    rule(
        "linear-form",
        "terms of a sum are collected, `x - c * (x / c) = x mod c`",
        "",
    ),
    rule("div-pull", "`(c*a + b) / c = a + b / c`", ""),
    rule("div-range", "`b / c = t`", "`t*c <= b < (t+1)*c`"),
    rule(
        "div-near-const",
        "`(b + c*a) / c = a + t`",
        "`t*c <= b < (t+1)*c`",
    ),
    rule(
        "div-drop-small",
        "`(g*a + b) / c = (a + t) / (c/g)`",
        "`g` divides `c`, `t*g <= b < (t+1)*g`",
    ),
    rule("div-lift", "`(x/b + y) / c = (x + b*y) / (b*c)`", ""),
    rule(
        "div-lift-negative",
        "`(y - x/b) / c = (b*y + b-1 - x) / (b*c)`",
        "",
    ),
    rule("div-split", "`x / (b*c) = (x/b) / c`", ""),
    rule("exact-quotient", "`c * (x / c) = x - r`", "`x mod c = r`"),
    rule("part-is-a-point", "`a + b = a + v`", "`b = v`"),
    rule("range-is-a-point", "`x = v`", "`v <= x <= v`"),
    rule(
        "min-max-order",
        "`min(a, b) = a`, `max(a, b) = b`",
        "`a - b <= 0`",
    ),
    rule(
        "comparison-decided",
        "`a < b` is 1 or 0",
        "the sign of `a - b`",
    ),
    rule("mod-def", "`x mod c = x - c * (x / c)`", ""),
    rule("mod-recover", "`k*x - k*c * (x / c) = k * (x mod c)`", ""),
    rule("sum-flatten", "a sum inside a sum is one sum", ""),
    rule("sum-base", "`a + c` stands on `a`", ""),
    rule("sum-factor", "`g*a + g*b = g * (a + b)`", ""),
    rule(
        "sum-share",
        "`a + b + x` and `a + b + y` stand on `a + b`",
        "",
    ),
    rule(
        "affine-on-every-point",
        "`x` is an affine function",
        "at every point of the domain",
    ),
];
