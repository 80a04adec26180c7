//! The reasons why a tile is not exactly what is read.

use std::fmt;

use tegula_expr::{Names, Style, Term};

/// The reason why a tile is not exactly what is read, or not for all tile sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The map itself names more than is read.
    Superset,
    /// The run-time variable with this number has several values on a tile, because its source is
    /// an element whose index varies within the tile.
    DataDependent(usize),
    /// The term is neither a sum nor a quotient nor a remainder of progressions.
    NotLinear(Term),
    /// The parts of a sum leave gaps or overlap.
    Gaps(Term),
    /// The quotient by the second term of a progression whose step is the first term: the steps of
    /// the quotients differ.
    UnevenSteps(Term, Term),
    /// Remainders wrap around inside the tile, which crosses a multiple of this period.
    CrossesPeriod(Term),
    /// These results vary together, so not all combinations of them are read.
    Coupled(Vec<usize>),
    /// A constraint of the map's domain holds for a part of the tile only.
    Constraint(Term),
}

impl Reason {
    /// Displays the reason. Terms over the map's variables use `map_names`, those over the space's
    /// use `names`.
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
