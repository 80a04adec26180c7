//! `erf`: an odd polynomial below 1, and from there `1 - e^(-x^2) p`, whose second term is small,
//! so that its rounding error hardly matters.

use super::exponential::exp;
use super::{abs, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, V};
use crate::simd::mathlib::{negated, with_sign};

/// `erf(x) / x - 1` in `x^2`, |x| <= 1: within 1.9e-17 of `erf(x) / x`.
const LOW: [f64; 13] = [
    0.128_379_167_095_512_6,
    -0.376_126_389_031_837_5,
    0.112_837_916_709_548_79,
    -0.026_866_170_645_076_792,
    0.005_223_977_624_818_014_5,
    -0.000_854_832_698_083_379,
    0.000_120_553_311_116_427_1,
    -1.492_559_526_683_118_2e-5,
    1.646_100_048_412_136_8e-6,
    -1.635_031_270_105_469_5e-7,
    1.465_977_527_404_743_6e-8,
    -1.137_284_885_679_167_4e-9,
    5.957_176_147_748_911e-11,
];

/// `e^(x^2) (1 - erf(x))` in `(x - 2) / (x + 2)`, 1 <= x <= 6: times `e^(-x^2)` within 1.7e-17.
const HIGH: [f64; 16] = [
    0.255_395_676_310_505_7,
    -0.427_185_847_413_958_5,
    0.241_658_194_242_487_63,
    -0.078_978_581_015_712_69,
    0.003_732_892_401_656_448_4,
    0.006_997_461_739_200_575,
    -0.000_847_143_122_941_533_3,
    -0.000_981_977_111_474_071_5,
    4.355_265_359_817_883e-5,
    0.000_174_364_772_572_567_38,
    2.756_035_275_667_831_3e-5,
    -2.764_072_782_191_285_2e-5,
    -1.416_633_906_911_710_8e-5,
    1.859_427_387_429_402e-6,
    4.146_302_183_268_488e-6,
    -2.228_129_576_372_35e-7,
];

pub(super) fn erf(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    let (one, two) = (b.f64(1.0), b.f64(2.0));
    // The unused branch is computed with a normal number.
    let tiny = b.f64(2f64.powi(-400));
    let raised = b.binary(BinaryOp::GreaterOrSecond, tiny, magnitude);
    // From here on the result is 1 when rounded.
    let last = b.f64(6.0);
    let within = b.binary(BinaryOp::LesserOrSecond, last, raised);
    let square = b.mul(within, within);
    let low = polynomial_f64(b, square, &LOW);
    let low = b.fma(low, x, x);
    let (less, more) = (b.sub(within, two), b.add(within, two));
    let place = b.div(less, more);
    let high = polynomial_f64(b, place, &HIGH);
    let minus = negated(b, square);
    let power = exp(b, minus);
    let high = b.mul(high, power);
    let high = b.sub(one, high);
    let high = abs(b, high);
    let high = with_sign(b, high, x);
    let is_low = b.compare(Condition::Less, magnitude, one);
    let result = b.select(is_low, low, high);
    let nan = b.compare(Condition::Unordered, x, x);
    b.select(nan, x, result)
}
