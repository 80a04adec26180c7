//! Conditions: Boolean formulas over terms. They are kept in factored form and never expanded.

use std::fmt;

use tegula_expr::{Cmp, EvalError, Names, Style, Term, Var};

/// A formula over the variables of a tiling space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The term is not zero.
    Holds(Term),
    /// All of these hold; an empty list always holds.
    All(Vec<Condition>),
    /// One of these holds; an empty list never holds.
    Any(Vec<Condition>),
}

impl Condition {
    /// A condition that always holds.
    pub fn always() -> Self {
        Self::All(Vec::new())
    }

    /// A condition that never holds.
    pub fn never() -> Self {
        Self::Any(Vec::new())
    }

    /// A comparison; it is decided at once if both sides are constants.
    pub fn compare(op: Cmp, a: &Term, b: &Term) -> Self {
        Self::holds(Term::cmp(op, a, b))
    }

    /// The condition that the term is not zero.
    pub fn holds(term: Term) -> Self {
        match term.as_constant() {
            Some(0) => Self::never(),
            Some(_) => Self::always(),
            None => Self::Holds(term),
        }
    }

    /// The condition that `a` is a multiple of `b`.
    pub fn multiple(a: &Term, b: &Term) -> Self {
        Self::compare(Cmp::Eq, &a.modulo(b), &Term::constant(0))
    }

    /// Whether its form alone shows that it always holds.
    pub fn is_always(&self) -> bool {
        match self {
            Self::Holds(_) => false,
            Self::All(parts) => parts.iter().all(Self::is_always),
            Self::Any(parts) => parts.iter().any(Self::is_always),
        }
    }

    /// Whether its form alone shows that it never holds.
    pub fn is_never(&self) -> bool {
        match self {
            Self::Holds(_) => false,
            Self::All(parts) => parts.iter().any(Self::is_never),
            Self::Any(parts) => parts.iter().all(Self::is_never),
        }
    }

    /// The conjunction, without parts that always hold.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                part if part.is_always() => {}
                part if part.is_never() => return Self::never(),
                Self::All(inner) => inner.into_iter().for_each(|one| push(&mut kept, one)),
                part => push(&mut kept, part),
            }
        }
        single(kept, Self::All)
    }

    /// The disjunction, without parts that never hold.
    pub fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                part if part.is_never() => {}
                part if part.is_always() => return Self::always(),
                Self::Any(inner) => inner.into_iter().for_each(|one| push(&mut kept, one)),
                part => push(&mut kept, part),
            }
        }
        single(kept, Self::Any)
    }

    /// Replaces every term, and simplifies the result.
    #[must_use]
    pub fn map(&self, f: &mut dyn FnMut(&Term) -> Term) -> Self {
        match self {
            Self::Holds(term) => Self::holds(f(term)),
            Self::All(parts) => Self::all(parts.iter().map(|part| part.map(f)).collect::<Vec<_>>()),
            Self::Any(parts) => Self::any(parts.iter().map(|part| part.map(f)).collect::<Vec<_>>()),
        }
    }

    /// The condition as a term: 1 where it holds, else 0.
    pub fn term(&self) -> Term {
        let (one, zero) = (Term::constant(1), Term::constant(0));
        match self {
            Self::Holds(term) => term.clone(),
            Self::All(parts) => parts
                .iter()
                .rev()
                .fold(one, |rest, part| Term::select(&part.term(), &rest, &zero)),
            Self::Any(parts) => parts
                .iter()
                .rev()
                .fold(zero, |rest, part| Term::select(&part.term(), &one, &rest)),
        }
    }

    /// Whether it holds for the given values of variables.
    ///
    /// # Errors
    /// [`EvalError`] if a term has no value.
    pub fn eval(&self, env: &dyn Fn(Var) -> Option<i64>) -> Result<bool, EvalError> {
        match self {
            Self::Holds(term) => term.eval(&|var| env(var)).map(|value| value != 0),
            Self::All(parts) => {
                for part in parts {
                    if !part.eval(env)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.eval(env)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Displays the condition, for example `t0 mod 8 = 0 or 8 mod t0 = 0`.
    pub fn display<'a, N: Names + ?Sized>(&'a self, names: &'a N) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.write(f, names, false))
    }

    fn write<N: Names + ?Sized>(
        &self,
        f: &mut fmt::Formatter<'_>,
        names: &N,
        nested: bool,
    ) -> fmt::Result {
        let (parts, word) = match self {
            Self::Holds(term) => return write_holds(f, term, names),
            Self::All(parts) if parts.is_empty() => return f.write_str("always"),
            Self::Any(parts) if parts.is_empty() => return f.write_str("never"),
            Self::All(parts) => (parts, " and "),
            Self::Any(parts) => (parts, " or "),
        };
        if nested {
            f.write_str("(")?;
        }
        for (position, part) in parts.iter().enumerate() {
            if position > 0 {
                f.write_str(word)?;
            }
            part.write(f, names, true)?;
        }
        if nested { f.write_str(")") } else { Ok(()) }
    }
}

fn push(kept: &mut Vec<Condition>, part: Condition) {
    if !kept.contains(&part) {
        kept.push(part);
    }
}

fn single(mut kept: Vec<Condition>, many: fn(Vec<Condition>) -> Condition) -> Condition {
    match (kept.len(), kept.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            kept.extend(last);
            many(kept)
        }
    }
}

fn write_holds<N: Names + ?Sized>(
    f: &mut fmt::Formatter<'_>,
    term: &Term,
    names: &N,
) -> fmt::Result {
    use tegula_expr::Node;
    let Node::Cmp(op, a, b) = term.node() else {
        return write!(f, "{}", term.display(names, Style::Xla));
    };
    let sign = match op {
        Cmp::Eq => "=",
        Cmp::Ne => "!=",
        Cmp::Lt => "<",
        Cmp::Le => "<=",
    };
    let (a, b) = (a.display(names, Style::Xla), b.display(names, Style::Xla));
    write!(f, "{a} {sign} {b}")
}
