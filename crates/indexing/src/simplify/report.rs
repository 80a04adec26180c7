//! What simplification reports: why it stopped, and on request which rules made
//! the result.

use std::fmt;

use tegula_expr::{Facts, Interval, Names, Step, Style, Term};

use crate::map::{Constraint, IndexingMap};

/// Why the rules stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The canonical form left no division, remainder, minimum or maximum.
    #[default]
    Canonical,
    /// No rule found another form.
    Saturated,
    /// The terms or their values are too large for the e-graph.
    TooLarge,
    /// [`crate::Limits::nodes`] was met.
    NodeLimit,
    /// [`crate::Limits::rounds`] was met.
    RoundLimit,
}

/// One rewrite of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The rule.
    pub rule: &'static str,
    /// The side condition that held, empty if the rule has none.
    pub condition: String,
    /// Terms and the bounds that they keep on the domain, which discharge the
    /// condition.
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

/// What constraints did to the domain: for points of it, and no others, what was
/// before and what is after say the same together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowed {
    /// Variables by number whose bounds became narrower.
    pub bounds: Vec<(usize, Interval, Interval)>,
    /// Constraints that are gone: implied, or said in another way.
    pub gone: Vec<Constraint>,
    /// Constraints that were not there before.
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

    /// A line for each change, with the names of variables.
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

/// What simplifying one map did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why the rules stopped.
    pub stop: StopReason,
    /// Rounds of the pipeline over the map.
    pub rounds: usize,
    /// What became of the domain, if explanations are kept.
    pub domain: Narrowed,
    /// The rules that made the result, in order, if explanations are kept.
    pub steps: Vec<Explained>,
}

impl Explained {
    /// The step on one line, with the names of variables.
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
    /// What it says.
    pub identity: &'static str,
    /// When, empty for always.
    pub condition: &'static str,
}

const fn rule(name: &'static str, identity: &'static str, condition: &'static str) -> Rule {
    Rule {
        name,
        identity,
        condition,
    }
}

/// All rules. `/` rounds towards negative infinity; `a`, `b`, `x`, `y` are terms,
/// other letters constants, divisors positive.
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
