//! Functions of complex numbers.
//!
//! Sums and products of `c64` consist of `f32` operations in the textbook order, each rounded, so
//! that a compiler that emits them gets the same bits. All other functions are computed in `f64`
//! and rounded once for each part.

mod functions;
mod inverse;

pub use functions::divide;

use num_complex::Complex;
use tegula_ir::{Binary, Unary};

/// A complex number with `f32` parts.
pub type C32 = Complex<f32>;
/// A complex number with `f64` parts.
pub type C64 = Complex<f64>;

/// `op(x)` for an operation with a complex result; `None` for an operation that complex numbers
/// lack or whose result is real (see [`part_c64`]).
pub fn unary_c64(op: Unary, x: C64) -> Option<C64> {
    let function = match op {
        Unary::Negate => return Some(-x),
        Unary::Sign => functions::sign,
        Unary::Exp => functions::exp,
        Unary::Expm1 => functions::expm1,
        Unary::Log => functions::log,
        Unary::Log1p => functions::log1p,
        Unary::Logistic => functions::logistic,
        Unary::Sqrt => functions::sqrt,
        Unary::Rsqrt => functions::rsqrt,
        Unary::Cbrt => functions::cbrt,
        Unary::Sin => functions::sin,
        Unary::Cos => functions::cos,
        Unary::Tan => functions::tan,
        Unary::Tanh => functions::tanh,
        Unary::Sinh => functions::sinh,
        Unary::Cosh => functions::cosh,
        Unary::Asin => inverse::asin,
        Unary::Acos => inverse::acos,
        Unary::Asinh => inverse::asinh,
        Unary::Acosh => inverse::acosh,
        Unary::Atanh => inverse::atanh,
        _ => return None,
    };
    Some(function(x))
}

/// `op(x)` for an operation with a real result: `abs`, `real`, `imag`.
pub fn part_c64(op: Unary, x: C64) -> Option<f64> {
    match op {
        Unary::Abs => Some(functions::size(x)),
        Unary::Real => Some(x.re),
        Unary::Imag => Some(x.im),
        _ => None,
    }
}

/// `op(a, b)` on `c128`; `None` for an operation that complex numbers lack.
pub fn binary_c64(op: Binary, a: C64, b: C64) -> Option<C64> {
    Some(match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => C64::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re),
        Binary::Divide => divide(a, b),
        Binary::Power => functions::power(a, b),
        Binary::Atan2 => functions::atan2(a, b),
        _ => return None,
    })
}

/// `op(a, b)` on `c64`; `None` for an operation that complex numbers lack.
pub fn binary_c32(op: Binary, a: C32, b: C32) -> Option<C32> {
    Some(match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => C32::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re),
        Binary::Divide => narrow(functions::divide_single(widen(a), widen(b))),
        _ => narrow(binary_c64(op, widen(a), widen(b))?),
    })
}

/// The number with both parts in `f64`.
pub fn widen(x: C32) -> C64 {
    C64::new(x.re.into(), x.im.into())
}

/// The number with both parts rounded to `f32`.
pub fn narrow(x: C64) -> C32 {
    C32::new(x.re as f32, x.im as f32)
}

#[cfg(test)]
mod tests {
    use super::functions::{power, sqrt};
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

    /// The results are those of XLA:CPU in jax 0.12, except for signs of zeros.
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
            let found = widen(binary_c32(Binary::Divide, narrow(a), narrow(b)).unwrap());
            assert!(same(found, expected), "{a} / {b} as c64: {found}");
        }
    }

    /// Each part is the `f32` next to the quotient that is computed with 113 bits.
    #[test]
    fn quotients_of_extreme_parts_are_rounded_once() {
        let c = C32::new;
        let tiny = f32::from_bits(1);
        for (a, b, expected) in [
            (c(6.0, 3.0), c(3.0, 0.0), c(2.0, 1.0)),
            (c(tiny, -tiny), c(tiny, tiny), c(0.0, -1.0)),
            (c(f32::MAX, f32::MAX), c(f32::MAX, -f32::MAX), c(0.0, 1.0)),
            (c(1.0, 0.0), c(1e38, 1e38), c(5e-39, -5e-39)),
            (c(1.0, 2.0), c(0.0, -0.0), c(f32::INFINITY, f32::INFINITY)),
        ] {
            assert_eq!(
                binary_c32(Binary::Divide, a, b),
                Some(expected),
                "{a} / {b}"
            );
        }
    }

    #[test]
    fn roots_choose_their_branch() {
        assert_eq!(sqrt(C64::new(-4.0, 0.0)), C64::new(0.0, 2.0));
        assert_eq!(sqrt(C64::new(-4.0, -0.0)), C64::new(0.0, -2.0));
        assert_eq!(part_c64(Unary::Abs, C64::new(3.0, -4.0)), Some(5.0));
    }
}
