//! Functions of complex numbers.
//!
//! Sums and products of `c64` are made of `f32` operations in the obvious order,
//! each rounded, so that a compiler which writes them out gets the same bits.
//! Everything else is computed in `f64` and rounded once per part.

mod inverse;

use num_complex::Complex;
use tegula_ir::{Binary, Unary};

/// A pair of `f32`.
pub type C32 = Complex<f32>;
/// A pair of `f64`.
pub type C64 = Complex<f64>;

/// `op(x)` where the result is complex; `None` for an operation complex numbers
/// lack or whose result is real (see [`part_c64`]).
pub fn unary_c64(op: Unary, x: C64) -> Option<C64> {
    let one = C64::new(1.0, 0.0);
    Some(match op {
        Unary::Negate => -x,
        Unary::Sign => sign(x),
        Unary::Exp => exp(x),
        Unary::Expm1 => expm1(x),
        Unary::Log => log(x),
        Unary::Log1p => log1p(x),
        Unary::Logistic => divide(one, one + exp(-x)),
        Unary::Sqrt => sqrt(x),
        Unary::Rsqrt => divide(one, sqrt(x)),
        Unary::Cbrt => power(x, C64::new(1.0 / 3.0, 0.0)),
        Unary::Sin => C64::new(
            libm::sin(x.re) * libm::cosh(x.im),
            libm::cos(x.re) * libm::sinh(x.im),
        ),
        Unary::Cos => C64::new(
            libm::cos(x.re) * libm::cosh(x.im),
            -libm::sin(x.re) * libm::sinh(x.im),
        ),
        Unary::Tan => {
            let t = tanh(C64::new(-x.im, x.re));
            C64::new(t.im, -t.re)
        }
        Unary::Tanh => tanh(x),
        Unary::Sinh => C64::new(
            libm::sinh(x.re) * libm::cos(x.im),
            libm::cosh(x.re) * libm::sin(x.im),
        ),
        Unary::Cosh => C64::new(
            libm::cosh(x.re) * libm::cos(x.im),
            libm::sinh(x.re) * libm::sin(x.im),
        ),
        Unary::Asin => inverse::asin(x),
        Unary::Acos => inverse::acos(x),
        Unary::Asinh => inverse::asinh(x),
        Unary::Acosh => inverse::acosh(x),
        Unary::Atanh => inverse::atanh(x),
        _ => return None,
    })
}

/// `op(x)` where the result is real: `abs`, `real`, `imag`.
pub fn part_c64(op: Unary, x: C64) -> Option<f64> {
    match op {
        Unary::Abs => Some(libm::hypot(x.re, x.im)),
        Unary::Real => Some(x.re),
        Unary::Imag => Some(x.im),
        _ => None,
    }
}

/// `op(a, b)` on `c128`; `None` for an operation complex numbers lack.
pub fn binary_c64(op: Binary, a: C64, b: C64) -> Option<C64> {
    Some(match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => C64::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re),
        Binary::Divide => divide(a, b),
        Binary::Power => power(a, b),
        Binary::Atan2 => atan2(a, b),
        _ => return None,
    })
}

/// `op(a, b)` on `c64`; `None` for an operation complex numbers lack.
pub fn binary_c32(op: Binary, a: C32, b: C32) -> Option<C32> {
    Some(match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => C32::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re),
        _ => narrow(binary_c64(op, widen(a), widen(b))?),
    })
}

/// Both parts in `f64`.
pub fn widen(x: C32) -> C64 {
    C64::new(x.re.into(), x.im.into())
}

/// Both parts rounded to `f32`.
pub fn narrow(x: C64) -> C32 {
    C32::new(x.re as f32, x.im as f32)
}

/// Smith's division: scaled by the larger part of the divisor, so that neither
/// overflow nor underflow of the square matters. Where that gives NaN, the quotient of something
/// infinite by a finite number is infinite, and of a finite number by something infinite zero.
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
    match quotient.re.is_nan() && quotient.im.is_nan() {
        true => of_infinities(a, b).unwrap_or(quotient),
        false => quotient,
    }
}

/// A quotient of which one side alone is infinite, in the direction in which it is. As XLA has it.
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

/// `x / |x|`, or 0 at 0; NaN if either part is.
fn sign(x: C64) -> C64 {
    let size = libm::hypot(x.re, x.im);
    if size == 0.0 {
        x
    } else {
        C64::new(x.re / size, x.im / size)
    }
}

fn exp(x: C64) -> C64 {
    let size = libm::exp(x.re);
    if x.im == 0.0 {
        return C64::new(size, x.im);
    }
    C64::new(size * libm::cos(x.im), size * libm::sin(x.im))
}

/// `exp(x) - 1` without cancellation near 0:
/// `expm1(a) cos b - 2 sin(b/2)^2 + i exp(a) sin b`.
fn expm1(x: C64) -> C64 {
    if x.im == 0.0 {
        return C64::new(libm::expm1(x.re), x.im);
    }
    let half = libm::sin(x.im / 2.0);
    C64::new(
        libm::expm1(x.re) * libm::cos(x.im) - 2.0 * half * half,
        libm::exp(x.re) * libm::sin(x.im),
    )
}

fn log(x: C64) -> C64 {
    C64::new(libm::log(libm::hypot(x.re, x.im)), libm::atan2(x.im, x.re))
}

/// `log(1 + x)`: `log1p(2a + a^2 + b^2) / 2 + i atan2(b, 1 + a)` near 0.
fn log1p(x: C64) -> C64 {
    let real = if x.re.abs() < 0.5 && x.im.abs() < 0.5 {
        libm::log1p(x.re * (2.0 + x.re) + x.im * x.im) / 2.0
    } else {
        libm::log(libm::hypot(1.0 + x.re, x.im))
    };
    C64::new(real, libm::atan2(x.im, 1.0 + x.re))
}

/// The root with a non-negative real part; of a negative real number the sign
/// of the imaginary part follows the sign of the imaginary zero.
fn sqrt(x: C64) -> C64 {
    if x.re == 0.0 && x.im == 0.0 {
        return C64::new(0.0, x.im);
    }
    if x.im.is_infinite() {
        return C64::new(f64::INFINITY, x.im);
    }
    let t = ((x.re.abs() + libm::hypot(x.re, x.im)) / 2.0).sqrt();
    if x.re >= 0.0 {
        C64::new(t, x.im / (2.0 * t))
    } else {
        C64::new(x.im.abs() / (2.0 * t), t.copysign(x.im))
    }
}

/// `(sinh 2a + i sin 2b) / (cosh 2a + cos 2b)`, and its limit for large `a`; at an infinite `a`
/// whatever `b` is.
fn tanh(x: C64) -> C64 {
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

/// `exp(b log a)`, with `0^0 = 1` and `0^b = 0` for `b` of positive real part.
fn power(a: C64, b: C64) -> C64 {
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
fn atan2(y: C64, x: C64) -> C64 {
    let i = C64::new(0.0, 1.0);
    -i * log(divide(x + i * y, sqrt(x * x + y * y)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: C64, b: C64) -> bool {
        (a - b).norm() <= 1e-14 * (1.0 + b.norm())
    }

    #[test]
    fn functions_agree_with_their_identities() {
        for x in [
            C64::new(0.3, -0.7),
            C64::new(-1.5, 0.2),
            C64::new(0.01, 0.02),
        ] {
            let f = |op| unary_c64(op, x).unwrap();
            let one = C64::new(1.0, 0.0);
            assert!(close(f(Unary::Sqrt) * f(Unary::Sqrt), x));
            assert!(close(f(Unary::Exp) - one, f(Unary::Expm1)));
            assert!(close(unary_c64(Unary::Exp, f(Unary::Log)).unwrap(), x));
            assert!(close(
                unary_c64(Unary::Log, x + one).unwrap(),
                f(Unary::Log1p)
            ));
            assert!(close(f(Unary::Sinh) / f(Unary::Cosh), f(Unary::Tanh)));
            assert!(close(f(Unary::Sin) / f(Unary::Cos), f(Unary::Tan)));
            assert!(close(f(Unary::Rsqrt) * f(Unary::Sqrt), one));
            assert!(close(power(x, C64::new(2.0, 0.0)), x * x));
            assert!(close(divide(x * x, x), x));
        }
    }

    /// As XLA:CPU of jax 0.12 gives it, but for signs of zeros.
    #[test]
    fn infinities_and_nan() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let c = C64::new;
        let is = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
        let same = |a: C64, b: C64| is(a.re, b.re) && is(a.im, b.im);
        for (op, x, expected) in [
            (Unary::Tanh, c(nan, 0.0), c(nan, 0.0)),
            (Unary::Tanh, c(30.0, inf), c(nan, nan)),
            (Unary::Tanh, c(-inf, nan), c(-1.0, 0.0)),
            (Unary::Tan, c(inf, 30.0), c(nan, nan)),
            (Unary::Expm1, c(inf, 0.0), c(inf, 0.0)),
            (Unary::Expm1, c(1000.0, -0.0), c(inf, 0.0)),
            (Unary::Expm1, c(nan, 0.0), c(nan, 0.0)),
            (Unary::Rsqrt, c(1.0, inf), c(0.0, 0.0)),
            (Unary::Rsqrt, c(-inf, nan), c(0.0, 0.0)),
            (Unary::Rsqrt, c(nan, -inf), c(0.0, 0.0)),
            (Unary::Logistic, c(-inf, 0.0), c(0.0, 0.0)),
            (Unary::Logistic, c(-1000.0, 1.0), c(0.0, 0.0)),
            (Unary::Logistic, c(-1000.0, inf), c(nan, nan)),
        ] {
            let found = unary_c64(op, x).unwrap();
            assert!(same(found, expected), "{op:?} {x}: {found}");
        }
        for (a, b, expected) in [
            (c(0.0, 1.0), c(nan, inf), c(0.0, 0.0)),
            (c(0.0, -2.0), c(-inf, -inf), c(0.0, 0.0)),
            (c(inf, inf), c(0.0, 1.0), c(inf, -inf)),
            (c(-inf, inf), c(0.0, -2.0), c(-inf, -inf)),
            (c(-inf, nan), c(0.0, 1.0), c(nan, inf)),
            (c(inf, 0.0), c(nan, 1.0), c(nan, nan)),
        ] {
            let found = divide(a, b);
            assert!(same(found, expected), "{a} / {b}: {found}");
        }
    }

    #[test]
    fn roots_choose_their_branch() {
        assert_eq!(sqrt(C64::new(-4.0, 0.0)), C64::new(0.0, 2.0));
        assert_eq!(sqrt(C64::new(-4.0, -0.0)), C64::new(0.0, -2.0));
        assert_eq!(part_c64(Unary::Abs, C64::new(3.0, -4.0)), Some(5.0));
    }
}
