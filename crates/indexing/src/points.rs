//! Maps as sets of points: evaluation, bounded enumeration, and comparison by value.

use std::collections::BTreeSet;

use smallvec::SmallVec;
use tegula_expr::{EvalError, Interval, Var};

use crate::map::{IndexingMap, Status};

/// A point: a value for each variable of a map.
pub type Point = SmallVec<[i64; 8]>;

/// An access: the values of the dimensions and run-time variables, and the results.
pub type Access = (Vec<i64>, Vec<i64>);

impl IndexingMap {
    /// The results at a point, or `None` where the map is not defined: outside
    /// its bounds, where a constraint fails, or if the map is empty or undefined.
    ///
    /// # Errors
    /// [`EvalError`] if a constraint or result has no value there.
    pub fn evaluate(&self, point: &[i64]) -> Result<Option<Vec<i64>>, EvalError> {
        if self.status != Status::Ok || !self.contains(point)? {
            return Ok(None);
        }
        let env = |var: Var| point.get(var.0 as usize).copied();
        self.results
            .iter()
            .map(|term| term.eval(&env))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Whether the point is in the domain.
    ///
    /// # Errors
    /// [`EvalError`] if a constraint has no value there.
    pub fn contains(&self, point: &[i64]) -> Result<bool, EvalError> {
        if self.status != Status::Ok || point.len() != self.variable_count() {
            return Ok(false);
        }
        if self
            .variables()
            .zip(point)
            .any(|(variable, value)| !variable.bounds.contains(*value))
        {
            return Ok(false);
        }
        let env = |var: Var| point.get(var.0 as usize).copied();
        for constraint in &self.constraints {
            if !constraint.interval.contains(constraint.term.eval(&env)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every point of the domain with its results, in lexicographic order; `None` if the bounds
    /// contain more than `limit` points, or if a term has no value somewhere.
    pub fn enumerate(&self, limit: usize) -> Option<Vec<(Point, Vec<i64>)>> {
        if self.status == Status::Undefined {
            return None;
        }
        if self.status == Status::Empty {
            return Some(Vec::new());
        }
        let bounds = self.bounds();
        if box_size(&bounds)? > limit as u128 {
            return None;
        }
        let mut found = Vec::new();
        let mut failed = false;
        for_each_point(&bounds, &mut |point| match self.evaluate(point) {
            Ok(Some(results)) => {
                found.push((Point::from_slice(point), results));
                true
            }
            Ok(None) => true,
            Err(_) => {
                failed = true;
                false
            }
        });
        (!failed).then_some(found)
    }

    /// The relation that the map describes: all pairs of a starting index and a result. Ranges are
    /// not a part of it, so maps whose ranges are arranged differently compare equal.
    pub fn accesses(&self, limit: usize) -> Option<BTreeSet<Access>> {
        let (dims, ranges) = (self.dims.len(), self.ranges.len());
        let points = self.enumerate(limit)?;
        let key = |point: &Point| {
            let first = point.iter().take(dims);
            first
                .chain(point.iter().skip(dims + ranges))
                .copied()
                .collect()
        };
        Some(
            points
                .into_iter()
                .map(|(point, results)| (key(&point), results))
                .collect(),
        )
    }

    /// Whether two maps describe the same relation, by enumeration; `None` if either has more than
    /// `limit` points in its bounds.
    pub fn same_value(&self, other: &Self, limit: usize) -> Option<bool> {
        if self.status == Status::Undefined || other.status == Status::Undefined {
            return Some(self.status == other.status);
        }
        Some(self.accesses(limit)? == other.accesses(limit)?)
    }
}

/// The number of points of a box; `None` if it does not fit.
pub(crate) fn box_size(bounds: &[Interval]) -> Option<u128> {
    bounds.iter().try_fold(1u128, |product, interval| {
        product.checked_mul(interval.count())
    })
}

/// Visits the points of a box in lexicographic order until `visit` returns false.
pub(crate) fn for_each_point(bounds: &[Interval], visit: &mut dyn FnMut(&[i64]) -> bool) {
    if bounds.iter().any(Interval::is_empty) {
        return;
    }
    let mut point: Point = bounds.iter().map(|interval| interval.lower).collect();
    loop {
        if !visit(&point) {
            return;
        }
        let mut carry = true;
        for (value, interval) in point.iter_mut().zip(bounds).rev() {
            if *value < interval.upper {
                *value += 1;
                carry = false;
                break;
            }
            *value = interval.lower;
        }
        if carry {
            return;
        }
    }
}
