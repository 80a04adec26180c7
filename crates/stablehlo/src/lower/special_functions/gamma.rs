//! The logarithm of the gamma function, its derivatives, and the Hurwitz zeta function.
//!
//! The gamma function uses Lanczos' approximation with g = 7 and nine terms, the zeta function the
//! Euler-Maclaurin formula.

#![allow(
    clippy::excessive_precision,
    reason = "coefficients stand as their authors give them"
)]

use super::{Formula, Value};
use crate::Error;
use crate::lower::Local;
use tegula_ir::{Binary, Direction, Unary};

/// Lanczos' g.
const LANCZOS_G: f64 = 7.0;

/// The constant term, and the coefficients of the terms over z + 1, z + 2, ....
const LANCZOS_BASE: f64 = 0.999_999_999_999_809_9;
const LANCZOS: [f64; 8] = [
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// The number of terms of the zeta function's series that are summed before the remainder is
/// estimated.
const ZETA_TERMS: usize = 10;

/// `B_2j / (2j)!` for j = 12 down to 1, from Bernoulli's numbers.
const BERNOULLI_OVER_FACTORIAL: [f64; 12] = [
    -1.395_446_468_581_252_3e-19,
    5.509_002_828_360_229_5e-18,
    -2.174_868_698_558_061_9e-16,
    8.586_062_056_277_845e-15,
    -3.389_680_296_322_583e-13,
    1.338_253_653_068_467_9e-11,
    -5.284_190_138_687_493e-10,
    2.087_675_698_786_810e-8,
    -8.267_195_767_195_768e-7,
    3.306_878_306_878_307e-5,
    -1.388_888_888_888_889e-3,
    8.333_333_333_333_333e-2,
];

impl Formula<'_, '_, '_> {
    /// The argument of Lanczos' approximation, z = x - 1, or -x for x below 1/2. Returns z, the
    /// logarithm of t = z + g + 1/2, and t.
    fn lanczos_argument(&mut self, x: Local) -> Result<(Local, Local, Local, Local), Error> {
        let reflects = self.is_below(x, 0.5)?;
        let negative = self.unary(Unary::Negate, x)?;
        let below = self.shifted(x, 1.0)?;
        let z = self.select(reflects, negative, below)?;
        let shift = self.number(x, LANCZOS_G + 0.5)?;
        let t = self.add(shift, z)?;
        let ratio = self.div(z, shift)?;
        let log = self.unary(Unary::Log1p, ratio)?;
        let base = self.number(x, (LANCZOS_G + 0.5).ln())?;
        let log_t = self.add(base, log)?;
        Ok((reflects, z, log_t, t))
    }

    pub(super) fn lgamma(&mut self, x: Local) -> Value {
        let (reflects, z, log_t, t) = self.lanczos_argument(x)?;
        let mut sum = self.number(x, LANCZOS_BASE)?;
        for (place, coefficient) in LANCZOS.iter().enumerate() {
            let shift = self.number(x, place as f64 + 1.0)?;
            let under = self.add(z, shift)?;
            let over = self.number(x, *coefficient)?;
            let term = self.div(over, under)?;
            sum = self.add(sum, term)?;
        }
        // The formula is log(sqrt(2 pi)) + (z + 1/2) log(t) - t + log(sum). In the form (z + 1/2 -
        // t / log(t)) log(t), it loses less precision.
        let half = self.number(x, 0.5)?;
        let power = self.add(z, half)?;
        let quotient = self.div(t, log_t)?;
        let power = self.sub(power, quotient)?;
        let power = self.mul(power, log_t)?;
        let constant = self.number(x, 0.5 * (2.0 * std::f64::consts::PI).ln())?;
        let log_sum = self.unary(Unary::Log, sum)?;
        let value = self.add(constant, power)?;
        let value = self.add(value, log_sum)?;
        let reflected = self.reflected_lgamma(x, value)?;
        let value = self.select(reflects, reflected, value)?;
        let infinity = self.number(x, f64::INFINITY)?;
        let magnitude = self.unary(Unary::Abs, x)?;
        let is_infinite = self.compare(Direction::Eq, magnitude, infinity)?;
        self.select(is_infinite, infinity, value)
    }

    /// The reflection log(pi / |sin(pi x)|) - lgamma(1 - x), which is infinite at the poles.
    fn reflected_lgamma(&mut self, x: Local, of_reflection: Local) -> Value {
        let magnitude = self.unary(Unary::Abs, x)?;
        let floor = self.unary(Unary::Floor, magnitude)?;
        let fraction = self.sub(magnitude, floor)?;
        // Near 1, sin(pi f) = sin(pi (1 - f)) is exact.
        let one = self.number(x, 1.0)?;
        let other = self.sub(one, fraction)?;
        let half = self.number(x, 0.5)?;
        let is_upper = self.compare(Direction::Gt, fraction, half)?;
        let fraction = self.select(is_upper, other, fraction)?;
        let pi = self.number(x, std::f64::consts::PI)?;
        let angle = self.mul(pi, fraction)?;
        let sine = self.unary(Unary::Sin, angle)?;
        let log_sine = self.unary(Unary::Log, sine)?;
        let log_pi = self.number(x, std::f64::consts::PI.ln())?;
        let value = self.sub(log_pi, log_sine)?;
        let value = self.sub(value, of_reflection)?;
        let is_finite = self.unary(Unary::IsFinite, log_sine)?;
        let pole = self.unary(Unary::Negate, log_sine)?;
        self.select(is_finite, value, pole)
    }

    pub(super) fn digamma(&mut self, x: Local) -> Value {
        let (reflects, z, log_t, t) = self.lanczos_argument(x)?;
        let mut over = self.number(x, 0.0)?;
        let mut under = self.number(x, LANCZOS_BASE)?;
        for (place, coefficient) in LANCZOS.iter().enumerate() {
            let shift = self.number(x, place as f64 + 1.0)?;
            let divisor = self.add(z, shift)?;
            let coefficient = self.number(x, *coefficient)?;
            let term = self.div(coefficient, divisor)?;
            under = self.add(under, term)?;
            let derivative = self.div(term, divisor)?;
            over = self.sub(over, derivative)?;
        }
        let ratio = self.div(over, under)?;
        let g = self.number(x, LANCZOS_G)?;
        let last = self.div(g, t)?;
        let value = self.add(log_t, ratio)?;
        let value = self.sub(value, last)?;
        // digamma(1 - x) - digamma(x) = pi / tan(pi x)
        let half = self.number(x, 0.5)?;
        let near = self.add(x, half)?;
        let near = self.unary(Unary::Floor, near)?;
        let near = self.unary(Unary::Abs, near)?;
        let reduced = self.add(x, near)?;
        let pi = self.number(x, std::f64::consts::PI)?;
        let angle = self.mul(pi, reduced)?;
        let cosine = self.unary(Unary::Cos, angle)?;
        let sine = self.unary(Unary::Sin, angle)?;
        let numerator = self.mul(pi, cosine)?;
        let cotangent = self.div(numerator, sine)?;
        let reflected = self.sub(value, cotangent)?;
        let value = self.select(reflects, reflected, value)?;
        // The poles are the integers that are not positive.
        let floor = self.unary(Unary::Floor, x)?;
        let is_whole = self.compare(Direction::Eq, x, floor)?;
        let zero = self.number(x, 0.0)?;
        let is_low = self.compare(Direction::Le, x, zero)?;
        let is_pole = self.binary(Binary::And, is_whole, is_low)?;
        let nan = self.number(x, f64::NAN)?;
        self.select(is_pole, nan, value)
    }

    /// The Hurwitz zeta function, the sum of `(q + k)^-s` for k = 0, 1, ....
    pub(super) fn zeta(&mut self, s: Local, q: Local) -> Value {
        let power = self.unary(Unary::Negate, s)?;
        let one = self.number(q, 1.0)?;
        let mut base = q;
        let mut sum = self.binary(Binary::Power, q, power)?;
        for _ in 1..ZETA_TERMS {
            base = self.add(base, one)?;
            let term = self.binary(Binary::Power, base, power)?;
            sum = self.add(sum, term)?;
        }
        let a = self.add(base, one)?;
        let a_power = self.binary(Binary::Power, a, power)?;
        // The remainder is a^(1-s) / (s-1) + a^-s / 2 + sum of B_2j / (2j)! s (s+1) ...
        // a^(-s-2j+1).
        let integral = self.mul(a_power, a)?;
        let below = self.shifted(s, 1.0)?;
        let integral = self.div(integral, below)?;
        let half = self.number(q, 0.5)?;
        let series = self.bernoulli_series(s, a)?;
        let ratio = self.div(s, a)?;
        let series = self.mul(ratio, series)?;
        let series = self.add(half, series)?;
        let series = self.mul(a_power, series)?;
        let rest = self.add(integral, series)?;
        let whole = self.add(sum, rest)?;
        // If the terms are zero, the remainder may be a quotient of zeros.
        let zero = self.number(q, 0.0)?;
        let is_over = self.compare(Direction::Eq, a_power, zero)?;
        let value = self.select(is_over, sum, whole)?;
        self.within_domain(s, q, value)
    }

    /// `B_2 / 2! + (s+1)(s+2)/a^2 (B_4 / 4! + (s+3)(s+4)/a^2 (...))`.
    fn bernoulli_series(&mut self, s: Local, a: Local) -> Value {
        let square = self.mul(a, a)?;
        let count = BERNOULLI_OVER_FACTORIAL.len();
        let mut sum = self.number(a, BERNOULLI_OVER_FACTORIAL[0])?;
        for (place, coefficient) in BERNOULLI_OVER_FACTORIAL.iter().enumerate().skip(1) {
            let first = 2 * (count - place) - 1;
            let first_factor = self.shifted(s, -(first as f64))?;
            let second_factor = self.shifted(s, -(first as f64 + 1.0))?;
            let factor = self.mul(first_factor, second_factor)?;
            let factor = self.div(factor, square)?;
            let product = self.mul(factor, sum)?;
            let coefficient = self.number(a, *coefficient)?;
            sum = self.add(coefficient, product)?;
        }
        Ok(sum)
    }

    /// Returns infinity at the poles, and NaN where the sum diverges or is not real.
    fn within_domain(&mut self, s: Local, q: Local, value: Local) -> Value {
        let one = self.number(s, 1.0)?;
        let zero = self.number(s, 0.0)?;
        let nan = self.number(s, f64::NAN)?;
        let infinity = self.number(s, f64::INFINITY)?;
        let floor = self.unary(Unary::Floor, s)?;
        let is_broken = self.compare(Direction::Ne, s, floor)?;
        let q_floor = self.unary(Unary::Floor, q)?;
        let q_is_whole = self.compare(Direction::Eq, q, q_floor)?;
        let q_is_low = self.compare(Direction::Le, q, zero)?;
        let is_unreal = self.binary(Binary::And, q_is_low, is_broken)?;
        let value = self.select(is_unreal, nan, value)?;
        let is_pole = self.binary(Binary::And, q_is_low, q_is_whole)?;
        let two = self.number(s, 2.0)?;
        let parity = self.binary(Binary::Remainder, s, two)?;
        let is_even = self.compare(Direction::Eq, parity, zero)?;
        let at_pole = self.select(is_even, infinity, nan)?;
        let value = self.select(is_pole, at_pole, value)?;
        let diverges = self.compare(Direction::Lt, s, one)?;
        let value = self.select(diverges, nan, value)?;
        let is_first = self.compare(Direction::Eq, s, one)?;
        self.select(is_first, infinity, value)
    }

    /// The n-th derivative of digamma: `(-1)^(n+1) n! zeta(n + 1, x)`.
    pub(super) fn polygamma(&mut self, n: Local, x: Local) -> Result<Local, Error> {
        let next = self.shifted(n, -1.0)?;
        let log_factorial = self.lgamma(next)?;
        let factorial = self.unary(Unary::Exp, log_factorial)?;
        let zeta = self.zeta(next, x)?;
        let magnitude = self.mul(factorial, zeta)?;
        let two = self.number(n, 2.0)?;
        let parity = self.binary(Binary::Remainder, n, two)?;
        let zero = self.number(n, 0.0)?;
        let is_even = self.compare(Direction::Eq, parity, zero)?;
        let negative = self.unary(Unary::Negate, magnitude)?;
        let value = self.select(is_even, negative, magnitude)?;
        let digamma = self.digamma(x)?;
        let is_digamma = self.compare(Direction::Eq, n, zero)?;
        let value = self.select(is_digamma, digamma, value)?;
        let floor = self.unary(Unary::Floor, n)?;
        let is_broken = self.compare(Direction::Ne, n, floor)?;
        let is_negative = self.compare(Direction::Lt, n, zero)?;
        let is_none = self.binary(Binary::Or, is_broken, is_negative)?;
        let nan = self.number(n, f64::NAN)?;
        self.select(is_none, nan, value)
    }
}
