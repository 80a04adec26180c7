//! Intervals and residue classes of integers.

use crate::number::{wide_ceil, wide_floor};

/// All integers from `lower` to `upper`, both included. `lower > upper` is the
/// empty set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The smallest element.
    pub lower: i64,
    /// The largest element.
    pub upper: i64,
}

impl Interval {
    /// Every `i64`.
    pub const FULL: Self = Self {
        lower: i64::MIN,
        upper: i64::MAX,
    };
    /// No integer.
    pub const EMPTY: Self = Self {
        lower: 0,
        upper: -1,
    };

    /// The integers from `lower` to `upper`, both included.
    pub const fn new(lower: i64, upper: i64) -> Self {
        Self { lower, upper }
    }

    /// One integer.
    pub const fn point(value: i64) -> Self {
        Self {
            lower: value,
            upper: value,
        }
    }

    /// The indices of a dimension with `size` elements: `0 ..= size - 1`.
    pub const fn of_size(size: i64) -> Self {
        Self {
            lower: 0,
            upper: size.saturating_sub(1),
        }
    }

    /// Whether no integer is inside.
    pub const fn is_empty(&self) -> bool {
        self.lower > self.upper
    }

    /// The only element, if there is exactly one.
    pub fn as_point(&self) -> Option<i64> {
        (self.lower == self.upper).then_some(self.lower)
    }

    /// Whether `value` is inside.
    pub const fn contains(&self, value: i64) -> bool {
        self.lower <= value && value <= self.upper
    }

    /// Whether every element of `other` is inside.
    pub fn contains_all(&self, other: &Self) -> bool {
        other.is_empty() || (self.lower <= other.lower && other.upper <= self.upper)
    }

    /// The number of elements.
    pub fn count(&self) -> u128 {
        if self.is_empty() {
            return 0;
        }
        (i128::from(self.upper) - i128::from(self.lower)).unsigned_abs() + 1
    }

    /// The common elements.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self::new(self.lower.max(other.lower), self.upper.min(other.upper))
    }

    /// The smallest interval that has the elements of both.
    #[must_use]
    pub fn hull(&self, other: &Self) -> Self {
        if self.is_empty() {
            return *other;
        }
        if other.is_empty() {
            return *self;
        }
        Self::new(self.lower.min(other.lower), self.upper.max(other.upper))
    }

    /// The interval of all `a + b`, clamped to `i64`.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        Wide::from(*self).add(Wide::from(*other)).narrow()
    }

    /// The interval of all `a * factor`, clamped to `i64`.
    #[must_use]
    pub fn scale(&self, factor: i64) -> Self {
        Wide::from(*self).scale(i128::from(factor)).narrow()
    }

    /// The smallest interval that contains the elements in the residue class: both ends move
    /// inwards.
    #[must_use]
    pub fn snap(&self, residue: &Residue) -> Self {
        if self.is_empty() {
            return *self;
        }
        if residue.modulus == 0 {
            return self.intersect(&Self::point(residue.remainder));
        }
        let (m, r) = (i128::from(residue.modulus), i128::from(residue.remainder));
        let lower = wide_ceil(i128::from(self.lower) - r, m) * m + r;
        let upper = wide_floor(i128::from(self.upper) - r, m) * m + r;
        if lower > upper {
            return Self::EMPTY;
        }
        // Both are between the old ends, so both fit.
        Wide { lower, upper }.narrow()
    }
}

/// An interval whose ends need not fit in `i64`. Sums are computed exactly, so a partial sum may
/// exceed `i64` temporarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wide {
    pub(crate) lower: i128,
    pub(crate) upper: i128,
}

impl From<Interval> for Wide {
    fn from(interval: Interval) -> Self {
        Self {
            lower: interval.lower.into(),
            upper: interval.upper.into(),
        }
    }
}

impl Wide {
    pub(crate) fn point(value: i128) -> Self {
        Self {
            lower: value,
            upper: value,
        }
    }

    pub(crate) fn add(self, other: Self) -> Self {
        Self {
            lower: self.lower.saturating_add(other.lower),
            upper: self.upper.saturating_add(other.upper),
        }
    }

    pub(crate) fn scale(self, factor: i128) -> Self {
        let (a, b) = (
            self.lower.saturating_mul(factor),
            self.upper.saturating_mul(factor),
        );
        if factor < 0 {
            Self { lower: b, upper: a }
        } else {
            Self { lower: a, upper: b }
        }
    }

    /// Clamps the ends to `i64`.
    pub(crate) fn narrow(self) -> Interval {
        let clamp = |value: i128| {
            i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
        };
        Interval::new(clamp(self.lower), clamp(self.upper))
    }

    pub(crate) fn fits(self) -> bool {
        i64::try_from(self.lower).is_ok() && i64::try_from(self.upper).is_ok()
    }

    pub(crate) fn intersect(self, other: Self) -> Self {
        Self {
            lower: self.lower.max(other.lower),
            upper: self.upper.min(other.upper),
        }
    }

    /// The hull of `f` over the four combinations of ends, which is exact if `f` is monotonic in
    /// each argument.
    pub(crate) fn corners(a: Self, b: Self, f: impl Fn(i128, i128) -> i128) -> Self {
        let [p, q, r, s] = [
            f(a.lower, b.lower),
            f(a.lower, b.upper),
            f(a.upper, b.lower),
            f(a.upper, b.upper),
        ];
        Self {
            lower: p.min(q).min(r.min(s)),
            upper: p.max(q).max(r.max(s)),
        }
    }
}

/// A residue class: the integers `x` with `x mod modulus == remainder`. Modulus 1 means every
/// integer, and modulus 0 the single integer `remainder`; otherwise `0 <= remainder < modulus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Residue {
    /// The distance between adjacent elements; never negative.
    pub modulus: i64,
    /// The smallest non-negative element, or the only one if the modulus is 0.
    pub remainder: i64,
}

impl Residue {
    /// Every integer.
    pub const ANY: Self = Self {
        modulus: 1,
        remainder: 0,
    };

    /// A single integer.
    pub const fn point(value: i64) -> Self {
        Self {
            modulus: 0,
            remainder: value,
        }
    }

    /// The integers congruent to `value` modulo `modulus` (its magnitude).
    pub fn new(modulus: i64, value: i64) -> Self {
        let modulus = modulus.checked_abs().unwrap_or(1);
        if modulus == 0 {
            return Self::point(value);
        }
        Self {
            modulus,
            remainder: value.rem_euclid(modulus),
        }
    }

    fn from_wide(modulus: u128, value: i128) -> Self {
        match i64::try_from(modulus) {
            Ok(0) => i64::try_from(value).map_or(Self::ANY, Self::point),
            // The remainder is less than the modulus, so it fits.
            Ok(m) => Self {
                modulus: m,
                remainder: i64::try_from(value.rem_euclid(i128::from(m))).unwrap_or(0),
            },
            Err(_) => Self::ANY,
        }
    }

    /// Whether `value` is in the set.
    pub fn contains(&self, value: i64) -> bool {
        if self.modulus == 0 {
            return value == self.remainder;
        }
        value.rem_euclid(self.modulus) == self.remainder
    }

    /// The residue class of all `a + b`.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        let modulus = wide_gcd(self.modulus.into(), other.modulus.into());
        Self::from_wide(
            modulus,
            i128::from(self.remainder) + i128::from(other.remainder),
        )
    }

    /// The residue class of all `a * b`.
    #[must_use]
    pub fn mul(&self, other: &Self) -> Self {
        let (m, r) = (i128::from(self.modulus), i128::from(self.remainder));
        let (n, s) = (i128::from(other.modulus), i128::from(other.remainder));
        let modulus = wide_gcd(wide_gcd(m * n, m * s).cast_signed(), n * r);
        Self::from_wide(modulus, r * s)
    }

    /// The common elements; `None` if there is none.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        if self.modulus == 0 || other.modulus == 0 {
            let (point, set) = if self.modulus == 0 {
                (self, other)
            } else {
                (other, self)
            };
            return set.contains(point.remainder).then_some(*point);
        }
        let (m, r) = (i128::from(self.modulus), i128::from(self.remainder));
        let (n, s) = (i128::from(other.modulus), i128::from(other.remainder));
        let (g, inverse) = wide_gcd_inverse(m, n);
        if (s - r).rem_euclid(g) != 0 {
            return None;
        }
        // By the Chinese remainder theorem: r + m * k with m * k = s - r (mod n).
        let k = ((s - r) / g).rem_euclid(n / g) * inverse.rem_euclid(n / g) % (n / g);
        let modulus = (m / g) * n;
        if i64::try_from(modulus).is_err() {
            // The exact set cannot be represented; either operand is a superset of it.
            return Some(if m >= n { *self } else { *other });
        }
        Some(Self::from_wide(modulus.unsigned_abs(), r + m * k))
    }
}

fn wide_gcd(a: i128, b: i128) -> u128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The greatest common divisor `g` of two positive numbers, and `x` with
/// `m * x = g (mod n)`.
fn wide_gcd_inverse(m: i128, n: i128) -> (i128, i128) {
    let (mut a, mut b, mut x, mut y) = (m, n, 1i128, 0i128);
    while b != 0 {
        let q = a / b;
        (a, b) = (b, a - q * b);
        (x, y) = (y, x - q * y);
    }
    (a, x)
}
