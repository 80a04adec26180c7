//! Scopes: the inputs of expressions, and what is known about them.

use super::{Home, IndexError, IndexExpr, Kind, Ratio, form_of};
use crate::canon::Canonicalizer;
use crate::interval::{Interval, Residue};
use crate::number::exact_ratio;
use crate::range::VarRanges;
use crate::term::{Term, Var};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::Arc;

/// The role of an input in a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It varies within the scope.
    Dim,
    /// It is constant within the scope.
    Symbol,
    /// Nothing is known about it.
    QuestionMark,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dim => "dim",
            Self::Symbol => "symbol",
            Self::QuestionMark => "question mark",
        })
    }
}

/// An input of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, unique in the scope.
    pub name: Arc<str>,
    /// Its role in the scope.
    pub role: Role,
    /// The range of its values.
    pub range: Interval,
    /// The residue of its values.
    pub residue: Residue,
}

/// A set of inputs, with all expressions over them. It is an ordinary value without global state:
/// whoever computes shapes creates one and drops it.
///
/// An expression belongs to the scope whose operation made it. A nested scope ([`Scope::nested`])
/// can use expressions of enclosing scopes after [`Scope::import`], which turns their dims into
/// symbols.
#[derive(Debug)]
pub struct Scope {
    home: Arc<Home>,
    /// The enclosing scopes.
    around: Vec<Arc<Home>>,
    variables: Vec<Variable>,
    by_name: FxHashMap<Arc<str>, Var>,
}

impl Default for Scope {
    fn default() -> Self {
        Self::new()
    }
}

impl VarRanges for Scope {
    fn range(&self, var: Var) -> Interval {
        self.variable(var).map_or(Interval::FULL, |v| v.range)
    }

    fn residue(&self, var: Var) -> Residue {
        self.variable(var).map_or(Residue::ANY, |v| v.residue)
    }
}

impl Scope {
    /// A scope without inputs that is not nested in another one.
    pub fn new() -> Self {
        Self {
            home: Arc::new(Home(0)),
            around: Vec::new(),
            variables: Vec::new(),
            by_name: FxHashMap::default(),
        }
    }

    /// A scope without inputs that is nested in this one.
    #[must_use]
    pub fn nested(&self) -> Self {
        let mut around = self.around.clone();
        around.push(Arc::clone(&self.home));
        Self {
            around,
            ..Self::new()
        }
    }

    /// The inputs, in the order of their variables.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The input with this variable.
    pub fn variable(&self, var: Var) -> Option<&Variable> {
        self.variables.get(var.0 as usize)
    }

    // ---- making expressions --------------------------------------------------

    /// An integer. It belongs to every scope.
    pub fn literal(&self, value: i64) -> IndexExpr {
        IndexExpr {
            home: None,
            value: Some(Ratio {
                numerator: Term::constant(value),
                denominator: 1,
                float: false,
            }),
            kind: Some(Kind::Literal),
        }
    }

    /// The exact value of a float. It belongs to every scope.
    ///
    /// # Errors
    /// [`IndexError::NotRepresentable`]: not finite, above 2^63, or with a bit below
    /// 2^-62.
    pub fn float_literal(&self, value: f64) -> Result<IndexExpr, IndexError> {
        match exact_ratio(value) {
            Some((numerator, denominator)) => self.ratio_literal(numerator, denominator),
            None => Err(IndexError::NotRepresentable(value.to_string().into())),
        }
    }

    /// The number `numerator / denominator`, as a float literal.
    ///
    /// # Errors
    /// [`IndexError::DivisionByZero`], [`IndexError::Overflow`].
    pub fn ratio_literal(&self, numerator: i64, denominator: i64) -> Result<IndexExpr, IndexError> {
        self.ratio(Ratio {
            numerator: Term::constant(numerator),
            denominator,
            float: true,
        })
    }

    /// An input that varies within the scope, with its range. The same name always denotes the same
    /// input; what is known about it is combined.
    ///
    /// # Errors
    /// [`IndexError::Roles`], [`IndexError::Contradiction`].
    pub fn dim(&mut self, name: &str, range: Interval) -> Result<IndexExpr, IndexError> {
        self.declare(name, Role::Dim, range, Residue::ANY)
    }

    /// An input that is constant within the scope; see [`Self::dim`].
    ///
    /// # Errors
    /// [`IndexError::Roles`], [`IndexError::Contradiction`].
    pub fn symbol(&mut self, name: &str, range: Interval) -> Result<IndexExpr, IndexError> {
        self.declare(name, Role::Symbol, range, Residue::ANY)
    }

    /// A number of which nothing but its range is known; see [`Self::dim`].
    ///
    /// # Errors
    /// [`IndexError::Roles`], [`IndexError::Contradiction`].
    pub fn question_mark(&mut self, name: &str, range: Interval) -> Result<IndexExpr, IndexError> {
        self.declare(name, Role::QuestionMark, range, Residue::ANY)
    }

    /// An input with a known residue.
    ///
    /// # Errors
    /// [`IndexError::Roles`], [`IndexError::Contradiction`].
    pub fn declare(
        &mut self,
        name: &str,
        role: Role,
        range: Interval,
        residue: Residue,
    ) -> Result<IndexExpr, IndexError> {
        let var = match self.by_name.get(name) {
            Some(&var) => var,
            None => self.insert(name, role),
        };
        let Some(known) = self.variables.get_mut(var.0 as usize) else {
            return Err(IndexError::Undefined);
        };
        if known.role != role {
            return Err(IndexError::Roles {
                name: Arc::clone(&known.name),
                is: known.role,
                wanted: role,
            });
        }
        let within = known.range.intersect(&range);
        let both = known.residue.intersect(&residue);
        let snapped = both.map_or(Interval::EMPTY, |residue| within.snap(&residue));
        match both {
            Some(residue) if !snapped.is_empty() => {
                (known.range, known.residue) = (snapped, residue);
            }
            _ => {
                return Err(IndexError::Contradiction {
                    name: Arc::clone(&known.name),
                    lower: within.lower,
                    upper: within.upper,
                });
            }
        }
        self.expr(&Term::var(var))
    }

    fn insert(&mut self, name: &str, role: Role) -> Var {
        let var = Var(u32::try_from(self.variables.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = name.into();
        self.variables.push(Variable {
            name: Arc::clone(&name),
            role,
            range: Interval::FULL,
            residue: Residue::ANY,
        });
        self.by_name.insert(name, var);
        var
    }

    /// The expression for a term over this scope's variables.
    ///
    /// # Errors
    /// [`IndexError::ForeignScope`]: a variable that the scope does not have.
    pub fn expr(&self, term: &Term) -> Result<IndexExpr, IndexError> {
        let mut known = true;
        term.for_each_var(&mut |var| known &= self.variable(var).is_some());
        match known {
            true => self.ratio(Ratio {
                numerator: term.clone(),
                denominator: 1,
                float: false,
            }),
            false => Err(IndexError::ForeignScope),
        }
    }

    // ---- crossing ------------------------------------------------------------

    /// Imports an expression of an enclosing scope. What varies there is constant here, so its dims
    /// become symbols with the same names.
    /// # Errors
    /// [`IndexError::NotEnclosing`], [`IndexError::ForeignScope`] if the expression is
    /// not of `outer`, [`IndexError::Roles`] if this scope has a dim of that name.
    pub fn import(&mut self, outer: &Scope, expr: &IndexExpr) -> Result<IndexExpr, IndexError> {
        let ratio = outer.checked(expr)?.clone();
        if expr.home.is_none() {
            return Ok(expr.clone());
        }
        if !self
            .around
            .iter()
            .any(|home| Arc::ptr_eq(home, &outer.home))
        {
            return Err(IndexError::NotEnclosing);
        }
        let mut inner: FxHashMap<Var, Term> = FxHashMap::default();
        let mut wanted = Vec::new();
        ratio.numerator.for_each_var(&mut |var| wanted.push(var));
        for var in wanted {
            let Some(variable) = outer.variable(var) else {
                return Err(IndexError::ForeignScope);
            };
            let role = match variable.role {
                Role::QuestionMark => Role::QuestionMark,
                Role::Dim | Role::Symbol => Role::Symbol,
            };
            let own = self.declare(&variable.name, role, variable.range, variable.residue)?;
            inner.extend(own.term().map(|term| (var, term.clone())));
        }
        let numerator = ratio
            .numerator
            .substitute(&mut |var| inner.get(&var).cloned());
        self.ratio(Ratio { numerator, ..ratio })
    }

    // ---- for operations --------------------------------------------------------

    /// The value of the expression, if it belongs to this scope.
    pub(super) fn checked<'a>(&self, expr: &'a IndexExpr) -> Result<&'a Ratio, IndexError> {
        if let Some(home) = &expr.home
            && !Arc::ptr_eq(home, &self.home)
        {
            return Err(IndexError::ForeignScope);
        }
        expr.value.as_ref().ok_or(IndexError::Undefined)
    }

    /// The term, if the expression belongs here and is an integer.
    pub(super) fn integer<'a>(&self, expr: &'a IndexExpr) -> Result<&'a Term, IndexError> {
        self.checked(expr)?;
        expr.term().ok_or(IndexError::NotAnInteger)
    }

    /// The expression for an exact number, in lowest terms.
    pub(super) fn ratio(&self, ratio: Ratio) -> Result<IndexExpr, IndexError> {
        let Ratio {
            numerator,
            mut denominator,
            float,
        } = ratio;
        let mut numerator = Canonicalizer::new(self).canonicalize(&numerator);
        if denominator < 0 {
            denominator = denominator.checked_neg().ok_or(IndexError::Overflow)?;
            numerator = numerator.neg();
        }
        match denominator {
            0 => return Err(IndexError::DivisionByZero),
            1 => {}
            _ => {
                let divisor = common_divisor(&numerator, denominator);
                denominator /= divisor;
                let whole = numerator.floor_div(&Term::constant(divisor));
                numerator = Canonicalizer::new(self).canonicalize(&whole);
            }
        }
        let kind = self.kind_of(&numerator, denominator, float);
        let is_free = numerator.as_constant().is_some();
        Ok(IndexExpr {
            home: (!is_free).then(|| Arc::clone(&self.home)),
            value: Some(Ratio {
                numerator,
                denominator,
                float,
            }),
            kind: Some(kind),
        })
    }

    fn kind_of(&self, numerator: &Term, denominator: i64, float: bool) -> Kind {
        let role = |var| self.variable(var).map(|variable| variable.role);
        let mut questions = false;
        numerator.for_each_var(&mut |var| questions |= role(var) == Some(Role::QuestionMark));
        if questions {
            return Kind::QuestionMark;
        }
        let form = form_of(numerator);
        match (form, numerator.as_var().and_then(role)) {
            (Kind::Literal, _) => Kind::Literal,
            // A number with a fraction cannot be an index.
            _ if float || denominator != 1 => Kind::NonAffine,
            (_, Some(Role::Dim)) => Kind::Dim,
            (_, Some(Role::Symbol)) => Kind::Symbol,
            (form, _) => form,
        }
    }
}

/// A common divisor of the denominator and all values of the term, as far as the term's
/// coefficients show it.
fn common_divisor(numerator: &Term, denominator: i64) -> i64 {
    let divide = |a: i64, b: i64| i64::try_from(crate::number::gcd(a, b)).unwrap_or(1);
    match numerator.as_linear() {
        Some((terms, constant)) => terms
            .iter()
            .fold(divide(denominator, constant), |divisor, (_, factor)| {
                divide(divisor, *factor)
            })
            .max(1),
        None => 1,
    }
}
