//! The solver of equations between sizes.
//!
//! Each equation is converted to `0 = constant + sum of coefficient * atom` and solved for a symbol
//! that occurs only once, as an atom: preferably one that no input determines, otherwise the last
//! of the inputs' symbols, whose equation is then checked at run time. An equation that cannot be
//! solved is retried after others are solved, and finally becomes a guard.

use super::equations::{Equation, symbol};
use super::{Guard, SizeSource};
use crate::shape_functions::SymbolRanges;
use crate::text::MAX_SIZE;
use crate::{ArrayShape, Dim, Error, InstructionId, Module, Shape, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::Arc;
use tegula_expr::{Cmp, Node, Term, Var, canonicalize, floor_mod, gcd, range_of};

/// The maximum number of nodes of a term that replaces a symbol.
const MAX_SOLUTION: u32 = 1 << 12;

pub(super) struct Solver<'a> {
    module: &'a Module,
    given: FxHashSet<Var>,
    /// The values of eliminated symbols, in which no eliminated symbol occurs.
    values: FxHashMap<Var, Term>,
    /// For each symbol, the eliminated symbols in whose values it occurs.
    users: FxHashMap<Var, BTreeSet<Var>>,
    guards: Vec<Guard>,
    /// Equations that are not solved yet.
    open: Vec<Equation>,
    derivations: Vec<Derivation>,
    /// Calls that relate sizes of inputs to each other only because they share a callee.
    pub(super) calls: FxHashSet<InstructionId>,
}

/// The reason why a symbol is equal to a term over other symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derivation {
    /// The symbol.
    pub symbol: Var,
    /// The term, over symbols that are derived later or not at all.
    pub value: Term,
    /// The origin of the equation, as in [`Guard::what`].
    pub what: Arc<str>,
    /// Whether the symbol is the size of an input, so that the equation is checked at run time.
    pub checked: bool,
}

/// The result of solving: the values of eliminated symbols, the guards and the derivations.
pub(super) struct Solution {
    values: FxHashMap<Var, Term>,
    pub(super) guards: Vec<Guard>,
    pub(super) derivations: Vec<Derivation>,
}

/// Whether an equation is solved.
enum Outcome {
    Solved,
    Open,
}

impl<'a> Solver<'a> {
    pub(super) fn new(module: &'a Module, sources: &[SizeSource]) -> Self {
        Self {
            module,
            given: sources.iter().map(|s| s.symbol).collect(),
            values: FxHashMap::default(),
            users: FxHashMap::default(),
            guards: Vec::new(),
            open: Vec::new(),
            derivations: Vec::new(),
            calls: FxHashSet::default(),
        }
    }

    /// Adds an equation.
    ///
    /// # Errors
    /// It contradicts the equations before it.
    pub(super) fn add(&mut self, equation: Equation) -> Result<(), Error> {
        match self.try_solve(&equation)? {
            Outcome::Solved => {}
            Outcome::Open => self.open.push(equation),
        }
        Ok(())
    }

    /// Solves the remaining equations.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) fn finish(&mut self) -> Result<Solution, Error> {
        loop {
            let open = std::mem::take(&mut self.open);
            let before = open.len();
            for equation in open {
                self.add(equation)?;
            }
            if self.open.len() == before && !self.divide()? {
                break;
            }
        }
        for equation in std::mem::take(&mut self.open) {
            self.guard(&equation);
        }
        for guard in &mut self.guards {
            // Symbols on the right side of an input symbol's guard may have been eliminated since
            // it was made. The left side must stay the input's own size.
            if guard.left.as_var().is_none() {
                guard.left = substituted(&guard.left, &self.values, &self.module.symbols);
            }
            guard.right = substituted(&guard.right, &self.values, &self.module.symbols);
        }
        Ok(Solution {
            values: std::mem::take(&mut self.values),
            guards: std::mem::take(&mut self.guards),
            derivations: std::mem::take(&mut self.derivations),
        })
    }

    fn simplify(&self, term: &Term) -> Term {
        substituted(term, &self.values, &self.module.symbols)
    }

    fn try_solve(&mut self, equation: &Equation) -> Result<Outcome, Error> {
        let (left, right) = (
            self.simplify(&equation.left),
            self.simplify(&equation.right),
        );
        if equation.op != Cmp::Eq {
            return self.compare(equation, &left, &right);
        }
        if left == right {
            return Ok(Outcome::Solved);
        }
        let difference = self.simplify(&left.sub(&right));
        match difference.as_constant() {
            Some(0) => return Ok(Outcome::Solved),
            Some(_) => return Err(self.contradiction(equation, &left, &right)),
            None => {}
        }
        let Some((mut terms, mut constant)) = difference.as_linear() else {
            return Ok(Outcome::Open);
        };
        let divisor = terms.iter().fold(0, |divisor, (_, c)| {
            i64::try_from(gcd(divisor, *c)).unwrap_or(1)
        });
        if divisor > 1 {
            if floor_mod(constant, divisor) != Some(0) {
                return Err(self.contradiction(equation, &left, &right));
            }
            constant /= divisor;
            terms.iter_mut().for_each(|(_, c)| *c /= divisor);
        }
        let Some((var, factor)) = self.candidate(&terms) else {
            return Ok(Outcome::Open);
        };
        let rest = terms.iter().filter(|(atom, _)| atom.as_var() != Some(var));
        let rest = rest.fold(Term::constant(constant), |sum, (atom, c)| {
            sum.add(&atom.mul(&Term::constant(*c)))
        });
        // factor * var + rest = 0
        let value = match factor {
            1 => rest.neg(),
            -1 => rest,
            _ => {
                let numerator = if factor > 0 { rest.neg() } else { rest };
                let divisor = Term::constant(factor.saturating_abs());
                self.guards.push(Guard {
                    op: Cmp::Eq,
                    left: self.simplify(&numerator.modulo(&divisor)),
                    right: Term::constant(0),
                    what: format!("{} (a remainder)", equation.what).into(),
                    message: None,
                });
                numerator.floor_div(&divisor)
            }
        };
        let value = self.simplify(&value);
        if value.size() > MAX_SOLUTION {
            return Ok(Outcome::Open);
        }
        self.eliminate(equation, var, value, &left, &right)?;
        Ok(Outcome::Solved)
    }

    /// Solves one of the open equations for a symbol that is multiplied by other sizes, if there is
    /// such an equation. Guards check that these sizes are not zero and that the division has no
    /// remainder.
    fn divide(&mut self) -> Result<bool, Error> {
        for number in 0..self.open.len() {
            let equation = self.open.swap_remove(number);
            let [left, right] = [&equation.left, &equation.right].map(|side| self.simplify(side));
            let quotient = match equation.op {
                Cmp::Eq => self.quotient(&self.simplify(&left.sub(&right))),
                _ => None,
            };
            let Some((var, numerator, divisor)) = quotient else {
                self.open.push(equation);
                let last = self.open.len() - 1;
                self.open.swap(number, last);
                continue;
            };
            let (zero, what) = (Term::constant(0), &equation.what);
            let rest = self.simplify(&numerator.modulo(&divisor));
            for (op, side, role) in [
                (Cmp::Ne, &divisor, "divisor"),
                (Cmp::Eq, &rest, "remainder"),
            ] {
                self.guards.push(Guard {
                    op,
                    left: side.clone(),
                    right: zero.clone(),
                    what: format!("{what} (a {role})").into(),
                    message: None,
                });
            }
            let value = self.simplify(&numerator.floor_div(&divisor));
            self.eliminate(&equation, var, value, &left, &right)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Solves `difference = 0` for a symbol that no input determines. Returns the symbol, and the
    /// numerator and denominator of its value, which are terms over the sizes of inputs.
    fn quotient(&self, difference: &Term) -> Option<(Var, Term, Term)> {
        let (terms, constant) = difference.as_linear()?;
        let is_given = |term: &Term| {
            let mut all = true;
            term.for_each_var(&mut |var| all &= self.given.contains(&var));
            all
        };
        let (at, var, divisor) = terms.iter().enumerate().find_map(|(at, (atom, c))| {
            let mut factors = Vec::new();
            collect_factors(atom, &mut factors);
            let place = factors.iter().position(|factor| !is_given(factor))?;
            let var = factors.swap_remove(place).as_var()?;
            let product = factors.iter().fold(Term::constant(*c), |a, b| a.mul(b));
            is_given(&product).then_some((at, var, product))
        })?;
        let others = terms.iter().enumerate().filter(|(other, _)| *other != at);
        let rest = others.fold(Term::constant(constant), |sum, (_, (atom, c))| {
            sum.add(&atom.mul(&Term::constant(*c)))
        });
        // var * divisor + rest = 0
        let size = rest.size().saturating_add(divisor.size());
        (is_given(&rest) && size <= MAX_SOLUTION).then(|| (var, rest.neg(), divisor))
    }

    /// The symbol to solve the equation for, and its coefficient.
    fn candidate(&self, terms: &[(Term, i64)]) -> Option<(Var, i64)> {
        let alone = |var: Var| {
            let others = terms.iter().filter(|(atom, _)| atom.as_var() != Some(var));
            others.into_iter().all(|(atom, _)| !atom.mentions(var))
        };
        let symbols = terms
            .iter()
            .filter_map(|(atom, c)| Some((atom.as_var()?, *c)));
        let symbols: Vec<(Var, i64)> = symbols.filter(|&(var, _)| alone(var)).collect();
        let plain = |&&(_, c): &&(Var, i64)| c == 1 || c == -1;
        let derived = |&&(var, _): &&(Var, i64)| !self.given.contains(&var);
        let last = |found: Vec<&(Var, i64)>| found.into_iter().max_by_key(|(var, _)| *var).copied();
        let choices = [
            symbols.iter().filter(derived).filter(plain).collect(),
            symbols.iter().filter(plain).collect(),
            symbols.iter().filter(derived).collect::<Vec<_>>(),
        ];
        // The symbol of an input must not be replaced by a term that inputs do not determine.
        let [first, second, third] = choices.map(last);
        let only_given = terms.iter().all(|(atom, _)| {
            let mut all = true;
            atom.for_each_var(&mut |var| all &= self.given.contains(&var));
            all
        });
        first.or(if only_given { second } else { None }).or(third)
    }

    fn eliminate(
        &mut self,
        equation: &Equation,
        var: Var,
        value: Term,
        left: &Term,
        right: &Term,
    ) -> Result<(), Error> {
        let Some(known) = self.module.symbols.get(var.0 as usize) else {
            return Err(Error::bug(
                "a size uses a symbol that the module does not have",
            ));
        };
        let range = range_of(&value, &SymbolRanges(&self.module.symbols));
        if range.upper < known.lower || range.lower > known.upper {
            return Err(self.contradiction(equation, left, right));
        }
        if self.given.contains(&var) {
            self.note_call(equation);
            self.guards.push(Guard {
                op: Cmp::Eq,
                left: Term::var(var),
                right: value.clone(),
                what: equation.what.clone().into(),
                message: None,
            });
        } else {
            for (smaller, larger, holds) in [
                (
                    Term::constant(known.lower),
                    value.clone(),
                    range.lower >= known.lower,
                ),
                (
                    value.clone(),
                    Term::constant(known.upper),
                    range.upper <= known.upper,
                ),
            ] {
                if !holds {
                    self.guards.push(Guard {
                        op: Cmp::Le,
                        left: smaller,
                        right: larger,
                        what: format!("{}: the size {}", equation.what, known.name).into(),
                        message: None,
                    });
                }
            }
        }
        self.derivations.push(Derivation {
            symbol: var,
            value: value.clone(),
            what: equation.what.clone().into(),
            checked: self.given.contains(&var),
        });
        for user in self.users.remove(&var).unwrap_or_default() {
            let Some(other) = self.values.get(&user) else {
                continue;
            };
            let replaced = other.substitute(&mut |v| (v == var).then(|| value.clone()));
            let replaced = canonicalize(&replaced, &SymbolRanges(&self.module.symbols));
            self.insert(user, replaced);
        }
        self.insert(var, value);
        Ok(())
    }

    fn insert(&mut self, var: Var, value: Term) {
        value.for_each_var(&mut |used| {
            self.users.entry(used).or_default().insert(var);
        });
        self.values.insert(var, value);
    }

    /// Adds a comparison other than equality. It is proved, is a contradiction, or becomes a guard.
    fn compare(
        &mut self,
        equation: &Equation,
        left: &Term,
        right: &Term,
    ) -> Result<Outcome, Error> {
        let condition = self.simplify(&Term::cmp(equation.op, left, right));
        match condition.as_constant() {
            Some(0) => Err(self.contradiction(equation, left, right)),
            Some(_) => Ok(Outcome::Solved),
            None => Ok(Outcome::Open),
        }
    }

    fn note_call(&mut self, equation: &Equation) {
        if equation.of_call {
            self.calls.extend(equation.at);
        }
    }

    fn guard(&mut self, equation: &Equation) {
        self.note_call(equation);
        self.guards.push(Guard {
            op: equation.op,
            left: self.simplify(&equation.left),
            right: self.simplify(&equation.right),
            what: equation.what.clone().into(),
            message: None,
        });
    }

    fn contradiction(&mut self, equation: &Equation, left: &Term, right: &Term) -> Error {
        self.note_call(equation);
        let symbols = &self.module.symbols;
        let sides = [left, right].map(|term| super::display_term(term, symbols));
        let but = match equation.op {
            Cmp::Eq => ", but are never",
            _ => ", but never is",
        };
        let mut message = super::must(&equation.what, equation.op, &sides, but);
        let bounded = symbols.iter().enumerate().filter(|(number, symbol)| {
            let var = super::equations::symbol(*number);
            symbol.upper < MAX_SIZE && (left.mentions(var) || right.mentions(var))
        });
        let bounded = bounded.map(|(_, symbol)| format!("{} <= {}", symbol.name, symbol.upper));
        let bounded: Vec<String> = bounded.collect();
        if !bounded.is_empty() {
            message = format!("{message} ({})", bounded.join(", "));
        }
        let error = Error::input(message);
        match equation.at {
            Some(id) => error.at(&self.module.source, self.span(id)),
            None => error,
        }
    }

    fn span(&self, id: InstructionId) -> crate::Span {
        self.module
            .instructions
            .get(id)
            .map(|i| i.span)
            .unwrap_or_default()
    }
}

/// Appends the factors of a product.
fn collect_factors(term: &Term, factors: &mut Vec<Term>) {
    match term.node() {
        Node::Mul(a, b) => {
            collect_factors(a, factors);
            collect_factors(b, factors);
        }
        _ => factors.push(term.clone()),
    }
}

fn substituted(term: &Term, values: &FxHashMap<Var, Term>, symbols: &[Symbol]) -> Term {
    let replaced = term.substitute(&mut |var| values.get(&var).cloned());
    canonicalize(&replaced, &SymbolRanges(symbols))
}

impl Solution {
    /// Substitutes the solution in every shape.
    pub(super) fn apply(&self, module: &mut Module) {
        let symbols = module.symbols.clone();
        let mut known: FxHashMap<Term, Term> = FxHashMap::default();
        let mut replace = |term: &Term| {
            let new = known.entry(term.clone());
            new.or_insert_with(|| substituted(term, &self.values, &symbols))
                .clone()
        };
        for instruction in module.instructions.values_mut() {
            rewrite(&mut instruction.shape, &mut replace);
        }
        if let Some((parameters, result)) = &mut module.attributes.entry_layout {
            parameters
                .iter_mut()
                .for_each(|shape| rewrite(shape, &mut replace));
            rewrite(result, &mut replace);
        }
        // A symbol that was equal to an eliminated one is within the bounds of both.
        for number in 0..symbols.len() {
            let equal = self.values.get(&symbol(number)).and_then(Term::as_var);
            let (Some(own), Some(Var(equal))) = (symbols.get(number), equal) else {
                continue;
            };
            if let Some(kept) = module.symbols.get_mut(equal as usize) {
                kept.lower = kept.lower.max(own.lower);
                kept.upper = kept.upper.min(own.upper);
            }
        }
    }
}

fn rewrite(shape: &mut Shape, replace: &mut dyn FnMut(&Term) -> Term) {
    match shape {
        Shape::Array(array) => rewrite_array(array, replace),
        Shape::Tuple(elements) => elements.iter_mut().for_each(|e| rewrite(e, replace)),
        Shape::Buffer(inner) => rewrite(inner, replace),
        Shape::Token | Shape::Opaque => {}
    }
}

fn rewrite_array(array: &mut ArrayShape, replace: &mut dyn FnMut(&Term) -> Term) {
    for dim in &mut array.dims {
        let (Dim::Symbolic(term) | Dim::Bounded { size: term, .. }) = dim else {
            continue;
        };
        *term = replace(term);
        if let Some(size) = term.as_constant() {
            *dim = Dim::Static(size);
        }
    }
}
