//! Functions of complex numbers in double precision.
//!
//! This file needs only `core` and the functions of `libm`: the routines of compiled programs
//! (`crates/rt`) are also built from it, on the C library's functions.

use super::C64;

const ONE: C64 = C64 { re: 1.0, im: 0.0 };

/// The absolute value.
pub(super) fn size(x: C64) -> f64 {
    libm::hypot(x.re, x.im)
}

/// `1 / (1 + exp(-x))`.
pub(super) fn logistic(x: C64) -> C64 {
    divide(ONE, ONE + exp(-x))
}

/// `1 / sqrt(x)`.
pub(super) fn rsqrt(x: C64) -> C64 {
    divide(ONE, sqrt(x))
}

/// `x^(1/3)`.
pub(super) fn cbrt(x: C64) -> C64 {
    power(x, C64::new(1.0 / 3.0, 0.0))
}

pub(super) fn sin(x: C64) -> C64 {
    C64::new(
        libm::sin(x.re) * libm::cosh(x.im),
        libm::cos(x.re) * libm::sinh(x.im),
    )
}

pub(super) fn cos(x: C64) -> C64 {
    C64::new(
        libm::cos(x.re) * libm::cosh(x.im),
        -libm::sin(x.re) * libm::sinh(x.im),
    )
}

pub(super) fn tan(x: C64) -> C64 {
    let t = tanh(C64::new(-x.im, x.re));
    C64::new(t.im, -t.re)
}

pub(super) fn sinh(x: C64) -> C64 {
    C64::new(
        libm::sinh(x.re) * libm::cos(x.im),
        libm::cosh(x.re) * libm::sin(x.im),
    )
}

pub(super) fn cosh(x: C64) -> C64 {
    C64::new(
        libm::cosh(x.re) * libm::cos(x.im),
        libm::sinh(x.re) * libm::sin(x.im),
    )
}

/// Smith's division: the divisor is scaled by its larger part, so that its square neither overflows
/// nor underflows. Where that gives NaN, an infinite number divided by a finite one is infinite,
/// and a finite number divided by an infinite one is zero.
pub fn divide(a: C64, b: C64) -> C64 {
    if b.re == 0.0 && b.im == 0.0 {
        return C64::new(a.re / b.re, a.im / b.re);
    }
    let quotient = if b.re.abs() >= b.im.abs() {
        let ratio = b.im / b.re;
        let scale = b.re + b.im * ratio;
        C64::new((a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale)
    } else {
        let ratio = b.re / b.im;
        let scale = b.re * ratio + b.im;
        C64::new((a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale)
    };
    corrected(quotient, a, b)
}

/// The quotient of numbers whose parts are those of `f32`, to be rounded to `f32`. Their products
/// are exact in `f64`, and squares neither overflow nor underflow, so nothing has to be scaled; one
/// reciprocal serves both parts.
pub(super) fn divide_single(a: C64, b: C64) -> C64 {
    let square = b.re * b.re + b.im * b.im;
    let (inverse, re, im) = match square == 0.0 {
        true => (1.0 / b.re, a.re, a.im),
        false => {
            let (along, across) = (a.re * b.re, a.im * b.re);
            (1.0 / square, along + a.im * b.im, across - a.re * b.im)
        }
    };
    corrected(C64::new(re * inverse, im * inverse), a, b)
}

/// A quotient, with the limit in place of NaN where exactly one operand is infinite.
fn corrected(quotient: C64, a: C64, b: C64) -> C64 {
    match quotient.re.is_nan() && quotient.im.is_nan() {
        true => of_infinities(a, b).unwrap_or(quotient),
        false => quotient,
    }
}

/// The quotient where exactly one operand is infinite: infinite or zero in the matching direction,
/// as in XLA.
fn of_infinities(a: C64, b: C64) -> Option<C64> {
    let is_infinite = |x: C64| x.re.is_infinite() || x.im.is_infinite();
    let is_finite = |x: C64| x.re.is_finite() && x.im.is_finite();
    let direction = |x: C64| {
        let part = |x: f64| if x.is_infinite() { x.signum() } else { 0.0 };
        C64::new(part(x.re), part(x.im))
    };
    let (size, a, b) = if is_infinite(a) && is_finite(b) {
        (f64::INFINITY, direction(a), b)
    } else if is_finite(a) && is_infinite(b) {
        (0.0, a, direction(b))
    } else {
        return None;
    };
    Some(C64::new(
        size * (a.re * b.re + a.im * b.im),
        size * (a.im * b.re - a.re * b.im),
    ))
}

/// `x / |x|`, or 0 at 0; NaN if either part is NaN.
pub(super) fn sign(x: C64) -> C64 {
    let size = libm::hypot(x.re, x.im);
    if size == 0.0 {
        x
    } else {
        C64::new(x.re / size, x.im / size)
    }
}

pub(super) fn exp(x: C64) -> C64 {
    let size = libm::exp(x.re);
    if x.im == 0.0 {
        return C64::new(size, x.im);
    }
    C64::new(size * libm::cos(x.im), size * libm::sin(x.im))
}

/// `exp(x) - 1` without cancellation near 0:
/// `expm1(a) cos b - 2 sin(b/2)^2 + i exp(a) sin b`.
pub(super) fn expm1(x: C64) -> C64 {
    if x.im == 0.0 {
        return C64::new(libm::expm1(x.re), x.im);
    }
    let half = libm::sin(x.im / 2.0);
    C64::new(
        libm::expm1(x.re) * libm::cos(x.im) - 2.0 * half * half,
        libm::exp(x.re) * libm::sin(x.im),
    )
}

pub(super) fn log(x: C64) -> C64 {
    C64::new(libm::log(libm::hypot(x.re, x.im)), libm::atan2(x.im, x.re))
}

/// `log(1 + x)`: `log1p(2a + a^2 + b^2) / 2 + i atan2(b, 1 + a)` near 0.
pub(super) fn log1p(x: C64) -> C64 {
    let real = if x.re.abs() < 0.5 && x.im.abs() < 0.5 {
        libm::log1p(x.re * (2.0 + x.re) + x.im * x.im) / 2.0
    } else {
        libm::log(libm::hypot(1.0 + x.re, x.im))
    };
    C64::new(real, libm::atan2(x.im, 1.0 + x.re))
}

/// The square root with a non-negative real part; for a negative real number the sign of the
/// imaginary part is that of the imaginary zero.
pub(super) fn sqrt(x: C64) -> C64 {
    if x.re == 0.0 && x.im == 0.0 {
        return C64::new(0.0, x.im);
    }
    if x.im.is_infinite() {
        return C64::new(f64::INFINITY, x.im);
    }
    let t = libm::sqrt((x.re.abs() + libm::hypot(x.re, x.im)) / 2.0);
    if x.re >= 0.0 {
        C64::new(t, x.im / (2.0 * t))
    } else {
        C64::new(x.im.abs() / (2.0 * t), t.copysign(x.im))
    }
}

/// `(sinh 2a + i sin 2b) / (cosh 2a + cos 2b)`, and its limit for large `a`; for an infinite `a`
/// the limit is taken for every `b`.
pub(super) fn tanh(x: C64) -> C64 {
    if x.re.abs() > 20.0 {
        let tail = 4.0 * libm::exp(-2.0 * x.re.abs()) * libm::sin(x.im) * libm::cos(x.im);
        let side = 1f64.copysign(x.re);
        return match (tail.is_nan(), x.re.is_infinite()) {
            (true, true) => C64::new(side, 0.0),
            (true, false) => C64::new(tail, tail),
            (false, _) => C64::new(side, tail),
        };
    }
    let (sinh, cos) = (libm::sinh(x.re), libm::cos(x.im));
    let scale = sinh * sinh + cos * cos;
    C64::new(
        sinh * libm::cosh(x.re) / scale,
        match x.im == 0.0 {
            true => x.im,
            false => libm::sin(x.im) * cos / scale,
        },
    )
}

/// `exp(b log a)`, with `0^0 = 1` and `0^b = 0` where the real part of `b` is positive.
pub(super) fn power(a: C64, b: C64) -> C64 {
    if a.re == 0.0 && a.im == 0.0 {
        if b.re == 0.0 && b.im == 0.0 {
            return C64::new(1.0, 0.0);
        }
        if b.im == 0.0 && b.re > 0.0 {
            return C64::new(0.0, 0.0);
        }
    }
    let (size, angle) = (libm::hypot(a.re, a.im), libm::atan2(a.im, a.re));
    let log_size = libm::log(size);
    let result_size = libm::exp(b.re * log_size - b.im * angle);
    let result_angle = b.im * log_size + b.re * angle;
    C64::new(
        result_size * libm::cos(result_angle),
        result_size * libm::sin(result_angle),
    )
}

/// `-i log((x + i y) / sqrt(x^2 + y^2))`, the definition JAX uses.
pub(super) fn atan2(y: C64, x: C64) -> C64 {
    let i = C64::new(0.0, 1.0);
    -i * log(divide(x + i * y, sqrt(x * x + y * y)))
}
