//! An independent check that two maps are the same function.
//!
//! It uses none of the simplifier's rules. It evaluates both maps: at every point if there are few,
//! otherwise at the corners of the bounds, near them, and at points from a generator with a fixed
//! seed. Two maps are the same if their domains have the same points and the results there are
//! equal. Where a term of the first map has no value, the second map may do anything.

use tegula_expr::Interval;
use thiserror::Error;

use crate::map::{IndexingMap, Status};
use crate::points::{Point, box_size, for_each_point};

/// What a check has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Points evaluated in both maps.
    pub points: u64,
    /// Whether these were all points of both domains.
    pub exhaustive: bool,
}

/// How two maps differ.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Difference {
    /// The maps differ in the kinds or numbers of their variables or results.
    #[error("the maps have different variables or results")]
    Signature,
    /// One is undefined and the other is not.
    #[error("one map is undefined and the other is not")]
    Undefined,
    /// They differ at a point.
    #[error("at {point:?} the first map gives {first:?} and the second {second:?}")]
    Point {
        /// The values of all variables.
        point: Vec<i64>,
        /// The first map's results, `None` outside its domain.
        first: Option<Vec<i64>>,
        /// The second map's results, `None` outside its domain or without value.
        second: Option<Vec<i64>>,
    },
}

/// Checks that `second` is the same function as `first`, at up to `limit` points. All maps whose
/// domain has no point are the same.
///
/// # Errors
/// The first [`Difference`] found.
pub fn check_same(
    first: &IndexingMap,
    second: &IndexingMap,
    limit: usize,
) -> Result<Checked, Difference> {
    if first.is_undefined() || second.is_undefined() {
        let same = first.status == second.status;
        let all = Checked {
            points: 0,
            exhaustive: true,
        };
        return if same {
            Ok(all)
        } else {
            Err(Difference::Undefined)
        };
    }
    let shape = |map: &IndexingMap| {
        (
            map.dims.len(),
            map.ranges.len(),
            map.runtime.len(),
            map.results.len(),
        )
    };
    let both = first.status == Status::Ok && second.status == Status::Ok;
    if both && shape(first) != shape(second) {
        return Err(Difference::Signature);
    }
    let mut bounds = first.bounds();
    if first.is_empty() {
        bounds = second.bounds();
    } else if both {
        for (own, other) in bounds.iter_mut().zip(second.bounds()) {
            *own = own.hull(&other);
        }
    }
    let mut checked = Checked {
        points: 0,
        exhaustive: true,
    };
    let mut difference = None;
    let mut visit = |point: &[i64]| {
        checked.points += 1;
        difference = compare(first, second, point);
        difference.is_none()
    };
    if box_size(&bounds).is_some_and(|size| size <= limit as u128) {
        for_each_point(&bounds, &mut visit);
    } else {
        sample(&bounds, limit, &mut visit);
        checked.exhaustive = false;
    }
    difference.map_or(Ok(checked), Err)
}

fn compare(first: &IndexingMap, second: &IndexingMap, point: &[i64]) -> Option<Difference> {
    let Ok(expected) = first.evaluate(point) else {
        return None;
    };
    let found = second.evaluate(point);
    if found.as_ref() == Ok(&expected) {
        return None;
    }
    Some(Difference::Point {
        point: point.to_vec(),
        first: expected,
        second: found.ok().flatten(),
    })
}

/// Points of a large box: near both ends of each variable, and anywhere.
fn sample(bounds: &[Interval], limit: usize, visit: &mut dyn FnMut(&[i64]) -> bool) {
    if bounds.iter().any(Interval::is_empty) {
        return;
    }
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut draw = move || {
        // splitmix64
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    for _ in 0..limit {
        let point: Point = bounds
            .iter()
            .map(|interval| {
                let span = interval.count();
                let choice = draw();
                let offset = match choice % 4 {
                    0 => u128::from(choice >> 2) % span.min(4),
                    1 => span - 1 - u128::from(choice >> 2) % span.min(4),
                    _ => (u128::from(draw()) << 3 | u128::from(choice >> 61)) % span,
                };
                // The offset is below the number of elements.
                let value = i128::from(interval.lower) + offset.cast_signed();
                i64::try_from(value).unwrap_or(interval.upper)
            })
            .collect();
        if !visit(&point) {
            return;
        }
    }
}
