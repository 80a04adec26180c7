//! What simplification reports: why it stopped, and on request which rules made
//! the result.

use std::fmt;

use tegula_expr::{Names, Step, Style, Term};

/// Why the rules stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The canonical form left no division, remainder, minimum or maximum.
    #[default]
    Canonical,
    /// No rule found another form.
    Saturated,
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
    /// The term before.
    pub before: Term,
    /// The term after.
    pub after: Term,
}

impl From<Step> for Explained {
    fn from(step: Step) -> Self {
        let Step {
            rule,
            condition,
            before,
            after,
        } = step;
        Self {
            rule,
            condition,
            before,
            after,
        }
    }
}

/// What simplifying one map did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why the rules stopped.
    pub stop: StopReason,
    /// Rounds of the pipeline over the map.
    pub rounds: usize,
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
            if self.condition.is_empty() {
                Ok(())
            } else {
                write!(f, " ({})", self.condition)
            }
        })
    }
}
