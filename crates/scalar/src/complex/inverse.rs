//! Inverse trigonometric and hyperbolic functions of complex numbers, accurate in both parts.
//!
//! The textbook formulas, logarithms of roots, suffer cancellation near the axes and overflow
//! beyond the square root of the largest number. The formulas here are those of T. E. Hull, T. F.
//! Fairgrieve and P. T. P. Tang, "Implementing the Complex Arcsine and Arccosine Functions Using
//! Exception Handling", ACM TOMS 23(3), 1997; for `atanh` those of W. Kahan, "Branch Cuts for
//! Complex Elementary Functions", 1987.

use super::C64;
use std::f64::consts::{FRAC_PI_2, LN_2, PI};

/// Values of `a` and `b` beyond which other formulas are the accurate ones (section 4 of the
/// article).
const A_CROSSOVER: f64 = 1.5;
const B_CROSSOVER: f64 = 0.6417;

/// Beyond this magnitude, squares may overflow, and 1 is negligible beside them.
const LARGE: f64 = 1e150;

/// Below this magnitude, squares underflow.
const SMALL: f64 = 1e-150;

/// The values that `asin` and `acos` of a number in the first quadrant share.
struct Parts {
    /// The real part of the arcsine.
    asin: f64,
    /// The real part of the arccosine.
    acos: f64,
    /// The imaginary part of the arcsine.
    imaginary: f64,
}

/// The arcsine of `x + iy`, where both are at least 0.
fn first_quadrant(x: f64, y: f64) -> Parts {
    if x > LARGE || y > LARGE {
        // Here `asin z` is `i log(2 z)` up to a rotation.
        let size = libm::log(libm::hypot(x / 2.0, y / 2.0)) + 2.0 * LN_2;
        return Parts {
            asin: libm::atan2(x, y),
            acos: libm::atan2(y, x),
            imaginary: size,
        };
    }
    let r = libm::hypot(x + 1.0, y);
    let s = libm::hypot(x - 1.0, y);
    let a = (r + s) / 2.0;
    let b = x / a;
    let (asin, acos) = real_parts(x, y, [r, s, a, b]);
    let imaginary = if y < SMALL {
        near_the_axis(x, y)
    } else if a <= A_CROSSOVER {
        let right = y * y / (r + x + 1.0);
        let left = match x < 1.0 {
            true => y * y / (s + (1.0 - x)),
            false => s + (x - 1.0),
        };
        let below = (right + left) / 2.0;
        libm::log1p(below + libm::sqrt(below * (a + 1.0)))
    } else {
        libm::log(a + libm::sqrt(a * a - 1.0))
    };
    Parts {
        asin,
        acos,
        imaginary,
    }
}

fn real_parts(x: f64, y: f64, [r, s, a, b]: [f64; 4]) -> (f64, f64) {
    if b <= B_CROSSOVER {
        return (libm::asin(b), libm::acos(b));
    }
    let sum = a + x;
    // The cosine of the result times `a`, computed without cancellation.
    let side = if x <= 1.0 {
        libm::sqrt(0.5 * sum * (y * y / (r + x + 1.0) + (s + (1.0 - x))))
    } else {
        y * libm::sqrt(0.5 * (sum / (r + x + 1.0) + sum / (s + (x - 1.0))))
    };
    (libm::atan2(x, side), libm::atan2(side, x))
}

/// The imaginary part where the square of `y` is negligible beside 1.
fn near_the_axis(x: f64, y: f64) -> f64 {
    if x < 1.0 {
        y / libm::sqrt((1.0 - x) * (1.0 + x))
    } else if x > 1.0 {
        libm::log1p((x - 1.0) + libm::sqrt((x - 1.0) * (x + 1.0)))
    } else {
        libm::sqrt(y)
    }
}

/// The arcsine, whose real part is between -pi/2 and pi/2.
pub(super) fn asin(z: C64) -> C64 {
    if let Some(special) = asin_of_special(z) {
        return special;
    }
    let parts = first_quadrant(z.re.abs(), z.im.abs());
    C64::new(parts.asin.copysign(z.re), parts.imaginary.copysign(z.im))
}

/// The arcsine of infinities and NaNs, as C's `casin` defines it.
fn asin_of_special(z: C64) -> Option<C64> {
    let (x, y) = (z.re, z.im);
    if x.is_finite() && y.is_finite() {
        return None;
    }
    let infinity = f64::INFINITY.copysign(y);
    Some(match (x.is_nan(), y.is_nan()) {
        (false, false) => {
            let angle = match (x.is_infinite(), y.is_infinite()) {
                (true, true) => FRAC_PI_2 / 2.0,
                (true, false) => FRAC_PI_2,
                _ => 0.0,
            };
            C64::new(angle.copysign(x), infinity)
        }
        (true, false) if y.is_infinite() => C64::new(x, infinity),
        (false, true) if x.is_infinite() => C64::new(f64::NAN, f64::INFINITY),
        (false, true) if x == 0.0 => C64::new(x, f64::NAN),
        _ => C64::new(f64::NAN, f64::NAN),
    })
}

/// The arccosine, whose real part is between 0 and pi.
pub(super) fn acos(z: C64) -> C64 {
    if !z.re.is_finite() || !z.im.is_finite() {
        return acos_of_special(z);
    }
    let parts = first_quadrant(z.re.abs(), z.im.abs());
    let real = match z.re.is_sign_negative() {
        true => PI - parts.acos,
        false => parts.acos,
    };
    C64::new(real, -parts.imaginary.copysign(z.im))
}

/// The arccosine of infinities and NaNs, as C's `cacos` defines it.
fn acos_of_special(z: C64) -> C64 {
    let (x, y) = (z.re, z.im);
    let infinity = -f64::INFINITY.copysign(y);
    match (x.is_nan(), y.is_nan()) {
        (false, false) => C64::new(libm::atan2(y.abs(), x), infinity),
        (true, false) if y.is_infinite() => C64::new(x, infinity),
        (false, true) if x.is_infinite() => C64::new(f64::NAN, f64::INFINITY),
        (false, true) if x == 0.0 => C64::new(FRAC_PI_2, f64::NAN),
        _ => C64::new(f64::NAN, f64::NAN),
    }
}

/// The inverse hyperbolic sine, `-i asin(i z)`.
pub(super) fn asinh(z: C64) -> C64 {
    let turned = asin(C64::new(z.im, z.re));
    C64::new(turned.im, turned.re)
}

/// The inverse hyperbolic cosine, whose real part is at least 0: `acos z`, rotated by a quarter
/// turn.
pub(super) fn acosh(z: C64) -> C64 {
    let turned = acos(z);
    // If the arccosine's real part is NaN, its parts are exchanged.
    if turned.re.is_nan() {
        return C64::new(turned.im.abs(), turned.re);
    }
    C64::new(turned.im.abs(), turned.re.copysign(z.im))
}

/// The inverse hyperbolic tangent, whose imaginary part is between -pi/2 and pi/2.
pub(super) fn atanh(z: C64) -> C64 {
    let (x, y) = (z.re.abs(), z.im.abs());
    if z.re.is_nan() || z.im.is_nan() {
        let real = match (x.is_infinite() || y.is_infinite(), z.re == 0.0) {
            (true, _) => 0f64.copysign(z.re),
            (_, true) => z.re,
            _ => f64::NAN,
        };
        let imaginary = match y.is_infinite() {
            true => FRAC_PI_2.copysign(z.im),
            false => f64::NAN,
        };
        return C64::new(real, imaginary);
    }
    let (real, imaginary) = if x > LARGE || y > LARGE {
        // Here it is `1 / z + i pi / 2`.
        let size = libm::hypot(x, y);
        let real = match size.is_infinite() && (x.is_infinite() || y.is_infinite()) {
            true => 0.0,
            false => x / size / size,
        };
        (real, FRAC_PI_2)
    } else {
        let distance = (x - 1.0) * (x - 1.0) + y * y;
        let real = match x == 1.0 && y < SMALL {
            // The square of `y` would underflow to 0.
            true => (LN_2 - libm::log(y)) / 2.0,
            false => libm::log1p(4.0 * x / distance) / 4.0,
        };
        let imaginary = libm::atan2(2.0 * y, (1.0 - x) * (1.0 + x) - y * y) / 2.0;
        (real, imaginary)
    };
    C64::new(real.copysign(z.re), imaginary.copysign(z.im))
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;
    use std::f64::consts::{FRAC_PI_4, FRAC_PI_6};

    fn close(a: f64, b: f64) -> bool {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-14 * b.abs()
    }

    /// Values of numpy 2.
    #[test]
    fn values_are_accurate_near_the_axes_and_far_out() {
        type Function = fn(C64) -> C64;
        let cases: [(Function, [f64; 2], [f64; 2]); 8] = [
            (asin, [0.5, 1e-10], [FRAC_PI_6, 1.1547005383792516e-10]),
            (asin, [1e-10, 1e308], [1e-318, 709.8893558227259]),
            (asin, [3.0, -2.0], [0.9646585044076028, -1.9686379257930964]),
            (
                acos,
                [-1e308, 1e308],
                [2.356194490192345, -710.2359294130059],
            ),
            (
                acos,
                [1.0000001, 1e-20],
                [2.2360679209453088e-17, -0.0004472135919037347],
            ),
            (atanh, [0.5, 0.25], [0.5003700000525311, 0.3143981432077165]),
            (atanh, [1e200, -1.0], [1e-200, -FRAC_PI_2]),
            (atanh, [1.0, 1e-200], [230.60508288968455, FRAC_PI_4]),
        ];
        for (function, [re, im], [real, imaginary]) in cases {
            let found = function(Complex::new(re, im));
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs().max(1e-300);
            assert!(near(found.re, real), "{re} {im}: {found}");
            assert!(near(found.im, imaginary), "{re} {im}: {found}");
        }
    }

    #[test]
    fn signs_of_zeros_choose_the_side_of_a_cut() {
        for (im, sign) in [(0.0, 1.0), (-0.0, -1.0)] {
            let z = C64::new(2.0, im);
            assert!(close(asin(z).im, sign * 1.3169578969248166));
            assert!(close(acos(z).im, -sign * 1.3169578969248166));
            assert!(close(atanh(z).im, sign * FRAC_PI_2));
            assert!(close(acosh(C64::new(-2.0, im)).im, sign * PI));
        }
    }

    #[test]
    fn infinities_have_limits() {
        let inf = f64::INFINITY;
        assert_eq!(asin(C64::new(inf, -inf)), C64::new(FRAC_PI_2 / 2.0, -inf));
        assert_eq!(acos(C64::new(-inf, 1.0)), C64::new(PI, -inf));
        assert_eq!(acosh(C64::new(1.0, inf)), C64::new(inf, FRAC_PI_2));
        assert_eq!(atanh(C64::new(inf, 3.0)), C64::new(0.0, FRAC_PI_2));
        assert!(asinh(C64::new(f64::NAN, 1.0)).re.is_nan());
    }
}
