//! Random maps over small boxes, and brute force, shared by the test files.

pub(crate) mod modules;
pub(crate) mod proof;

use tegula_expr::{Interval, Term, Var};
use tegula_indexing::{IndexingMap, Point, Variable};

/// A small generator with a fixed sequence per seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The numbers below `rank` in a drawn order.
    pub(crate) fn permutation(&mut self, rank: usize) -> Vec<i64> {
        let mut order: Vec<i64> = (0..rank as i64).collect();
        for last in (1..rank).rev() {
            let other = usize::try_from(self.range(0, last as i64)).expect("a place");
            order.swap(last, other);
        }
        order
    }

    pub(crate) fn range(&mut self, lower: i64, upper: i64) -> i64 {
        let span = u64::try_from(upper - lower + 1).unwrap_or(1);
        lower + i64::try_from(self.next() % span).unwrap_or(0)
    }
}

/// The number of random cases: `TEGULA_SWEEP` or the default.
pub(crate) fn cases(default: u64) -> u64 {
    std::env::var("TEGULA_SWEEP")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(default)
}

fn random_term(random: &mut Random, vars: usize, depth: u32) -> Term {
    if depth == 0 || random.range(0, 5) == 0 {
        return if random.range(0, 4) == 0 {
            Term::constant(random.range(-12, 24))
        } else {
            Term::var(Var(u32::try_from(random.next() % vars as u64).unwrap_or(0)))
        };
    }
    let a = random_term(random, vars, depth - 1);
    let factors = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, -1, -2, -3];
    let factor = factors[usize::try_from(random.range(0, 13)).unwrap_or(0)];
    let divisor = Term::constant(factors[usize::try_from(random.range(0, 10)).unwrap_or(0)]);
    match random.range(0, 11) {
        0..=3 => a.add(&random_term(random, vars, depth - 1)),
        4..=6 => a.mul(&Term::constant(factor)),
        7..=8 => a.floor_div(&divisor),
        9..=10 => a.modulo(&divisor),
        _ => Term::min(&a, &random_term(random, vars, depth - 1)),
    }
}

/// A random map with one to four variables of at most `most` points each, one or two results, and
/// up to two constraints that hold on some part of the box.
pub(crate) fn random_map(seed: u64, most: i64, constrained: bool) -> IndexingMap {
    let mut random = Random(seed);
    let mut map = IndexingMap::default();
    let vars = usize::try_from(random.range(1, 4)).unwrap_or(1);
    for var in 0..vars {
        let lower = if random.range(0, 3) == 0 {
            random.range(-8, 8)
        } else {
            0
        };
        let variable = Variable::new(Interval::new(lower, lower + random.range(0, most - 1)));
        let list = if var < 2 {
            &mut map.dims
        } else {
            &mut map.ranges
        };
        list.push(variable);
    }
    for _ in 0..random.range(1, 2) {
        map.results.push(random_term(&mut random, vars, 5));
    }
    if constrained {
        for _ in 0..random.range(1, 2) {
            let term = random_term(&mut random, vars, 3);
            let bounds = tegula_expr::range_of(&term, &map);
            let span = bounds.upper - bounds.lower;
            let lower = bounds.lower - 2 + random.range(0, span + 3);
            let upper = if random.range(0, 2) == 0 {
                lower
            } else {
                lower + random.range(0, span)
            };
            map.constrain(term, Interval::new(lower, upper));
        }
    }
    map
}

/// The tightest bounds of each variable over the points.
pub(crate) fn hull(points: &[(Point, Vec<i64>)], vars: usize) -> Vec<Interval> {
    (0..vars)
        .map(|var| {
            points.iter().fold(Interval::EMPTY, |hull, (point, _)| {
                hull.hull(&Interval::point(point[var]))
            })
        })
        .collect()
}

/// Whether some integer affine function agrees with a result on all points. Coefficients come from
/// pairs of points that differ in one variable only, so a map on a domain of lower dimension may
/// count as not affine.
pub(crate) fn is_affine(points: &[(Point, Vec<i64>)], result: usize, vars: usize) -> bool {
    let Some((origin, values)) = points.first() else {
        return false;
    };
    let mut coefficients = vec![0i64; vars];
    for (var, coefficient) in coefficients.iter_mut().enumerate() {
        let mut lines = std::collections::BTreeMap::new();
        for (point, values) in points {
            let mut key = point.clone();
            key.remove(var);
            if let Some((other, value)) = lines.insert(key.to_vec(), (point[var], values[result])) {
                let (distance, rise) = (point[var] - other, values[result] - value);
                if rise % distance != 0 {
                    return false;
                }
                *coefficient = rise / distance;
                break;
            }
        }
    }
    let at = |point: &Point| -> i64 { point.iter().zip(&coefficients).map(|(p, c)| p * c).sum() };
    let constant = values[result] - at(origin);
    points
        .iter()
        .all(|(point, values)| values[result] == at(point) + constant)
}
