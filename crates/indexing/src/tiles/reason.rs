//! Why a tile is not exactly what is read.

use std::fmt;

use tegula_expr::{Names, Style, Term};

/// Why a tile is not, or not for all tile sizes, exactly what is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The map itself names more than is read.
    Superset,
    /// A run-time variable of this number has several values on a tile: its source is
    /// an element that depends on the tile's points.
    DataDependent(usize),
    /// Neither a sum nor a quotient nor a remainder of progressions.
    NotLinear(Term),
    /// A sum whose parts leave gaps or overlap.
    Gaps(Term),
    /// A quotient by the second of a progression with steps of the first: the quotients'
    /// steps differ.
    UnevenSteps(Term, Term),
    /// Remainders that begin anew inside the tile: it crosses a multiple of the period.
    CrossesPeriod(Term),
    /// These results move together, so that not all combinations are read.
    Coupled(Vec<usize>),
    /// A constraint of the map's domain holds on a part of the tile.
    Constraint(Term),
}

impl Reason {
    /// The reason in words; terms over the map's variables are spelled with `map_names`,
    /// those over the space's with `names`.
    pub fn display<'a, N: Names + ?Sized, M: Names + ?Sized>(
        &'a self,
        names: &'a N,
        map_names: &'a M,
    ) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let own = |term: &Term| term.display(names, Style::Xla).to_string();
            let mapped = |term: &Term| term.display(map_names, Style::Xla).to_string();
            match self {
                Self::Superset => f.write_str("the operation reads a part that depends on data"),
                Self::DataDependent(number) => {
                    write!(f, "rt{number} is data that differs from point to point")
                }
                Self::NotLinear(term) => {
                    write!(f, "the values of {} have no common step", mapped(term))
                }
                Self::Gaps(term) => write!(f, "the values of {} leave gaps", mapped(term)),
                Self::UnevenSteps(stride, divisor) => write!(
                    f,
                    "steps of {} divided by {} differ",
                    own(stride),
                    own(divisor)
                ),
                Self::CrossesPeriod(period) => {
                    write!(f, "a tile crosses a multiple of {}", own(period))
                }
                Self::Coupled(results) => {
                    let results: Vec<String> = results.iter().map(ToString::to_string).collect();
                    write!(f, "dimensions {} move together", results.join(" and "))
                }
                Self::Constraint(term) => {
                    write!(f, "the bounds of {} cut through the tile", mapped(term))
                }
            }
        })
    }
}
