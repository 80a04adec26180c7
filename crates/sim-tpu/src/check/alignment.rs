//! Proves that a dynamic offset is a multiple of the tile for all values of its variables.
//!
//! Loads and copies address whole tiles, so a compiler must know at compile time that a dynamic
//! offset is a multiple of the tile; that it happens to be one at run time does not help. The
//! indexing crate answers the question, over a map whose variables are those of the loops around
//! the statement with their ranges, the assumed ranges of scalars, and the conditions of the
//! branches that lead to the statement.

use crate::program::{Comparison, TpuProgram, VariableId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use tegula_arena::EntityRef;
use tegula_expr::{Cmp, Interval, Style, Term, Var, VarRanges, facts_of, range_of};
use tegula_indexing::{Answer, IndexingMap, Variable, is_multiple_of};

/// What is known about the program's variables at a statement.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The values that a variable can take here.
    ranges: FxHashMap<Var, Interval>,
    /// The term that a `let` name stands for.
    values: FxHashMap<Var, Term>,
    constraints: Vec<(Term, Interval)>,
    /// Variables that a statement sets again: a fact about one may stop holding later.
    changed: Rc<FxHashSet<Var>>,
    /// How many snapshots (the values of such variables at one moment) were taken; they are
    /// numbered from [`FIRST_SNAPSHOT`].
    snapshots: u32,
}

impl VarRanges for Scope {
    fn range(&self, var: Var) -> Interval {
        self.ranges.get(&var).copied().unwrap_or(WIDE)
    }
}

/// The range of a 32-bit scalar.
const WIDE: Interval = Interval::new(i32::MIN as i64, i32::MAX as i64);
/// The number of the first snapshot variable; the program's own variables have smaller numbers.
const FIRST_SNAPSHOT: u32 = 1 << 30;
/// The most conditions that a proof uses.
const MAX_CONSTRAINTS: usize = 16;

impl Scope {
    /// A scope that knows nothing yet; `changed` are the variables that a statement sets again.
    pub(super) fn new(changed: FxHashSet<Var>) -> Self {
        Self {
            changed: Rc::new(changed),
            ..Self::default()
        }
    }

    fn is_lasting(&self, term: &Term) -> bool {
        let mut lasting = true;
        term.for_each_var(&mut |var| lasting &= !self.changed.contains(&var));
        lasting
    }

    /// The term with every `let` name replaced by the term that it stands for.
    fn resolved(&self, term: &Term) -> Term {
        term.substitute(&mut |var| self.values.get(&var).cloned())
    }

    /// Enters a loop whose variable runs from `low` to `high`, exclusive.
    pub(super) fn enter_loop(&mut self, variable: VariableId, low: &Term, high: &Term) {
        let (low, high) = (self.resolved(low), self.resolved(high));
        self.values.remove(&variable.var());
        self.ranges.remove(&variable.var());
        if self.changed.contains(&variable.var()) {
            return;
        }
        let range = Interval::new(
            range_of(&low, self).lower,
            range_of(&high, self).upper.saturating_sub(1),
        );
        let own = Term::var(variable.var());
        for (bound, interval) in [
            (own.sub(&low), Interval::new(0, i64::MAX)),
            (own.sub(&high), Interval::new(i64::MIN, -1)),
        ] {
            if low.as_constant().is_none() || high.as_constant().is_none() {
                self.constrain(bound, interval);
            }
        }
        self.ranges.insert(variable.var(), range);
    }

    /// Defines a name for a term, with the present values of the term's variables.
    pub(super) fn define(&mut self, variable: VariableId, value: &Term) {
        self.ranges.remove(&variable.var());
        self.values.remove(&variable.var());
        if self.changed.contains(&variable.var()) {
            return;
        }
        let value = self.resolved(value);
        let mut now: FxHashMap<Var, Var> = FxHashMap::default();
        let (changed, snapshots) = (&self.changed, &mut self.snapshots);
        let value = value.substitute(&mut |var| {
            changed.contains(&var).then(|| {
                Term::var(*now.entry(var).or_insert_with(|| {
                    *snapshots += 1;
                    Var(FIRST_SNAPSHOT + *snapshots)
                }))
            })
        });
        self.values.insert(variable.var(), value);
    }

    /// Forgets what is known about a variable: it can have any value of its type, or of the range
    /// that the program declares for it.
    pub(super) fn forget(&mut self, variable: VariableId, program: &TpuProgram) {
        self.values.remove(&variable.var());
        self.ranges.remove(&variable.var());
        if self.changed.contains(&variable.var()) {
            return;
        }
        let stated = program.variables.get(variable).and_then(|v| v.range);
        let range = stated.map_or(WIDE, |(low, high)| Interval::new(low, high));
        self.ranges.insert(variable.var(), range);
    }

    /// Assumes from here on that a scalar is in a range.
    pub(super) fn assume(&mut self, variable: VariableId, low: &Term, high: &Term) {
        if self.changed.contains(&variable.var()) {
            return;
        }
        let (low, high) = (self.resolved(low), self.resolved(high));
        let stated = Interval::new(range_of(&low, self).lower, range_of(&high, self).upper);
        let range = self.range(variable.var()).intersect(&stated);
        self.ranges.insert(variable.var(), range);
    }

    /// Assumes from here on that a comparison holds, or does not.
    pub(super) fn suppose(&mut self, condition: &Comparison, holds: bool) {
        let difference = self.resolved(&condition.left.sub(&condition.right));
        let interval = match (condition.cmp, holds) {
            (Cmp::Eq, true) | (Cmp::Ne, false) => Interval::point(0),
            (Cmp::Lt, true) => Interval::new(i64::MIN, -1),
            (Cmp::Lt, false) => Interval::new(0, i64::MAX),
            (Cmp::Le, true) => Interval::new(i64::MIN, 0),
            (Cmp::Le, false) => Interval::new(1, i64::MAX),
            (Cmp::Eq, false) | (Cmp::Ne, true) => {
                let differs = Term::cmp(Cmp::Ne, &difference, &Term::constant(0));
                return self.constrain(differs, Interval::point(1));
            }
        };
        self.constrain(difference, interval);
    }

    fn constrain(&mut self, term: Term, interval: Interval) {
        if self.constraints.len() < MAX_CONSTRAINTS && self.is_lasting(&term) {
            self.constraints.push((term, interval));
        }
    }

    /// Whether an offset is proved to be a multiple of `modulus`: returns the offset and the proof,
    /// or the reason why there is none.
    pub(super) fn aligned(
        &self,
        program: &TpuProgram,
        offset: &Term,
        modulus: i64,
    ) -> Result<(String, String), String> {
        let term = self.resolved(offset);
        let mut order: Vec<Var> = Vec::new();
        let mut note = |var: Var| {
            if !order.contains(&var) {
                order.push(var);
            }
        };
        term.for_each_var(&mut note);
        for (constraint, _) in &self.constraints {
            constraint.for_each_var(&mut note);
        }
        let place = |var: Var| order.iter().position(|&known| known == var);
        let renamed =
            |term: &Term| term.substitute(&mut |var| Some(Term::var(Var(place(var)? as u32))));
        let mut map = IndexingMap {
            dims: order
                .iter()
                .map(|&v| Variable::new(self.range(v)))
                .collect(),
            ..IndexingMap::default()
        };
        for (constraint, interval) in &self.constraints {
            map.constrain(renamed(constraint), *interval);
        }
        let names = |var: Var| {
            let variable = VariableId::new(var.0 as usize);
            let known = program.variables.get(variable);
            known.map_or_else(|| format!("v{}", var.0), |v| v.name.clone())
        };
        let shown = term.display(&names, Style::Document).to_string();
        match is_multiple_of(&map, &renamed(&term), modulus) {
            Answer::Yes(proof) => {
                let named = |var: Var| {
                    let own = order.get(var.0 as usize);
                    own.map_or_else(|| format!("v{}", var.0), |&var| names(var))
                };
                Ok((shown, proof.display(&named).to_string()))
            }
            Answer::No(point) => {
                let env = |var: Var| point.get(place(var)?).copied();
                let value = term.eval(&env).unwrap_or_default();
                let mut at = Vec::new();
                term.for_each_var(&mut |var| {
                    let value = env(var).unwrap_or_default();
                    at.push(format!("{} = {value}", names(var)));
                });
                at.sort();
                at.dedup();
                let at = match at.is_empty() {
                    true => String::new(),
                    false => format!(" at {}", at.join(", ")),
                };
                Err(format!(
                    "the offset {shown} is {value}{at}, which is not a multiple of {modulus}"
                ))
            }
            Answer::Unknown => {
                let (range, residue) = facts_of(&renamed(&term), &map);
                let is_never = map.dims.iter().any(|dim| dim.bounds.is_empty());
                let of_facts = residue.modulus % modulus == 0 && residue.remainder % modulus == 0;
                if is_never || of_facts {
                    let why = match is_never {
                        true => "no value of the variables leads here".to_owned(),
                        false => format!("leaves {} modulo {}", residue.remainder, residue.modulus),
                    };
                    return Ok((shown, why));
                }
                Err(format!(
                    "the offset {shown} is not provably a multiple of {modulus}: it is in [{}, {}] and equals {} modulo {}",
                    range.lower, range.upper, residue.remainder, residue.modulus
                ))
            }
        }
    }
}
