//! The complementary error function and the inverse error function.
//!
//! Coefficients of the former are from S. L. Moshier, Cephes Mathematical Library, `ndtr.c` and
//! `ndtrf.c`. Those of the latter are from M. Giles, "Approximating the erfinv function", GPU
//! Computing Gems, volume 2, 2011 (f32), and his later version in three pieces (f64), as in XLA.

#![allow(
    clippy::excessive_precision,
    reason = "coefficients stand as their authors give them"
)]

use super::{Formula, Value};
use crate::lower::Local;
use tegula_ir::{Binary, Direction, ElementType, Unary};

/// Coefficients of the inverse error function for f32, the highest power first: for w below 5, and
/// for other w.
const ERF_INV_F32: [[f64; 9]; 2] = [
    [
        2.81022636e-08,
        3.43273939e-07,
        -3.5233877e-06,
        -4.39150654e-06,
        0.00021858087,
        -0.00125372503,
        -0.00417768164,
        0.246640727,
        1.50140941,
    ],
    [
        -0.000200214257,
        0.000100950558,
        0.00134934322,
        -0.00367342844,
        0.00573950773,
        -0.0076224613,
        0.00943887047,
        1.00167406,
        2.83297682,
    ],
];

/// For f64 and w below 6.25.
const ERF_INV_F64_SMALL: [f64; 23] = [
    -3.6444120640178196996e-21,
    -1.685059138182016589e-19,
    1.2858480715256400167e-18,
    1.115787767802518096e-17,
    -1.333171662854620906e-16,
    2.0972767875968561637e-17,
    6.6376381343583238325e-15,
    -4.0545662729752068639e-14,
    -8.1519341976054721522e-14,
    2.6335093153082322977e-12,
    -1.2975133253453532498e-11,
    -5.4154120542946279317e-11,
    1.051212273321532285e-09,
    -4.1126339803469836976e-09,
    -2.9070369957882005086e-08,
    4.2347877827932403518e-07,
    -1.3654692000834678645e-06,
    -1.3882523362786468719e-05,
    0.0001867342080340571352,
    -0.00074070253416626697512,
    -0.0060336708714301490533,
    0.24015818242558961693,
    1.6536545626831027356,
];

/// For f64 and w below 16.
const ERF_INV_F64_MIDDLE: [f64; 19] = [
    2.2137376921775787049e-09,
    9.0756561938885390979e-08,
    -2.7517406297064545428e-07,
    1.8239629214389227755e-08,
    1.5027403968909827627e-06,
    -4.013867526981545969e-06,
    2.9234449089955446044e-06,
    1.2475304481671778723e-05,
    -4.7318229009055733981e-05,
    6.8284851459573175448e-05,
    2.4031110387097893999e-05,
    -0.0003550375203628474796,
    0.00095328937973738049703,
    -0.0016882755560235047313,
    0.0024914420961078508066,
    -0.0037512085075692412107,
    0.005370914553590063617,
    1.0052589676941592334,
    3.0838856104922207635,
];

/// For f64 and larger w.
const ERF_INV_F64_LARGE: [f64; 17] = [
    -2.7109920616438573243e-11,
    -2.5556418169965252055e-10,
    1.5076572693500548083e-09,
    -3.7894654401267369937e-09,
    7.6157012080783393804e-09,
    -1.4960026627149240478e-08,
    2.9147953450901080826e-08,
    -6.7711997758452339498e-08,
    2.2900482228026654717e-07,
    -9.9298272942317002539e-07,
    4.5260625972231537039e-06,
    -1.9681778105531670567e-05,
    7.5995277030017761139e-05,
    -0.00021503011930044477347,
    -0.00013871931833623122026,
    1.0103004648645343977,
    4.8499064014085844221,
];

/// Coefficients of erfc in 1/x^2 for f32: for |x| below 2, and for larger |x|.
const ERFC_F32_MIDDLE: [f64; 9] = [
    2.326819970068386e-2,
    -1.387039388740657e-1,
    3.687424674597105e-1,
    -5.824733027278666e-1,
    6.210004621745983e-1,
    -4.944515323274145e-1,
    3.404879937665872e-1,
    -2.741127028184656e-1,
    5.638259427386472e-1,
];
const ERFC_F32_LARGE: [f64; 8] = [
    -1.047766399936249e+1,
    1.297719955372516e+1,
    -7.495518717768503,
    2.921019019210786,
    -1.015265279202700,
    4.218463358204948e-1,
    -2.820767439740514e-1,
    5.641895067754075e-1,
];

/// Coefficients of erfc in |x| for f64, numerator and denominator: for |x| below 8, and for larger
/// |x|.
const ERFC_F64_MIDDLE: [[f64; 9]; 2] = [
    [
        2.46196981473530512524e-10,
        5.64189564831068821977e-1,
        7.46321056442269912687,
        4.86371970985681366614e1,
        1.96520832956077098242e2,
        5.26445194995477358631e2,
        9.34528527171957607540e2,
        1.02755188689515710272e3,
        5.57535335369399327526e2,
    ],
    [
        1.0,
        1.32281951154744992508e1,
        8.67072140885989742329e1,
        3.54937778887819891062e2,
        9.75708501743205489753e2,
        1.82390916687909736289e3,
        2.24633760818710981792e3,
        1.65666309194161350182e3,
        5.57535340817727675546e2,
    ],
];
const ERFC_F64_LARGE: [[f64; 7]; 2] = [
    [
        0.0,
        5.64189583547755073984e-1,
        1.27536670759978104416,
        5.01905042251180477414,
        6.16021097993053585195,
        7.40974269950448939160,
        2.97886665372100240670,
    ],
    [
        1.0,
        2.26052863220117276590,
        9.39603524938001434673,
        1.20489539808096656605e1,
        1.70814450747565897222e1,
        9.60896809063285878198,
        3.36907645100081516050,
    ],
];

impl Formula<'_, '_, '_> {
    /// `1 - erf(x)` without cancellation: for |x| of 1 or more, a quotient of polynomials times
    /// `exp(-x^2)`.
    pub(super) fn erfc(&mut self, x: Local) -> Value {
        let one = self.number(x, 1.0)?;
        let erf = self.unary(Unary::Erf, x)?;
        let near = self.sub(one, erf)?;
        let magnitude = self.unary(Unary::Abs, x)?;
        let square = self.mul(x, x)?;
        let exponent = self.unary(Unary::Negate, square)?;
        let decay = self.unary(Unary::Exp, exponent)?;
        let ratio = match self.shape.element_type {
            ElementType::F64 => {
                let middle = self.quotient(magnitude, &ERFC_F64_MIDDLE)?;
                let large = self.quotient(magnitude, &ERFC_F64_LARGE)?;
                let is_middle = self.is_below(magnitude, 8.0)?;
                self.select(is_middle, middle, large)?
            }
            _ => {
                let inverse = self.div(one, square)?;
                let middle = self.polynomial(inverse, &ERFC_F32_MIDDLE)?;
                let large = self.polynomial(inverse, &ERFC_F32_LARGE)?;
                let is_middle = self.is_below(magnitude, 2.0)?;
                let ratio = self.select(is_middle, middle, large)?;
                self.div(ratio, magnitude)?
            }
        };
        let tail = self.mul(decay, ratio)?;
        // If the exponential is zero, the quotient may be one of infinities.
        let zero = self.number(x, 0.0)?;
        let is_nothing = self.compare(Direction::Eq, decay, zero)?;
        let tail = self.select(is_nothing, zero, tail)?;
        let two = self.number(x, 2.0)?;
        let other = self.binary(Binary::Subtract, two, tail)?;
        let is_negative = self.compare(Direction::Lt, x, zero)?;
        let far = self.select(is_negative, other, tail)?;
        let is_near = self.is_below(magnitude, 1.0)?;
        let value = self.select(is_near, near, far)?;
        let is_nan = self.compare(Direction::Ne, x, x)?;
        self.select(is_nan, x, value)
    }

    fn quotient<const N: usize>(&mut self, x: Local, parts: &[[f64; N]; 2]) -> Value {
        let over = self.polynomial(x, &parts[0])?;
        let under = self.polynomial(x, &parts[1])?;
        self.div(over, under)
    }

    pub(super) fn erf_inv(&mut self, x: Local) -> Value {
        // w = -log((1 - x) (1 + x))
        let square = self.mul(x, x)?;
        let negative = self.unary(Unary::Negate, square)?;
        let log = self.unary(Unary::Log1p, negative)?;
        let w = self.unary(Unary::Negate, log)?;
        let polynomial = match self.shape.element_type {
            ElementType::F64 => self.erf_inv_f64(w)?,
            _ => {
                let small = self.shifted(w, 2.5)?;
                let small = self.polynomial(small, &ERF_INV_F32[0])?;
                let root = self.unary(Unary::Sqrt, w)?;
                let large = self.shifted(root, 3.0)?;
                let large = self.polynomial(large, &ERF_INV_F32[1])?;
                let is_small = self.is_below(w, 5.0)?;
                self.select(is_small, small, large)?
            }
        };
        let value = self.mul(polynomial, x)?;
        // At the ends of the domain, the result is infinite.
        let one = self.number(x, 1.0)?;
        let magnitude = self.unary(Unary::Abs, x)?;
        let is_end = self.compare(Direction::Eq, magnitude, one)?;
        let infinity = self.number(x, f64::INFINITY)?;
        let end = self.mul(x, infinity)?;
        self.select(is_end, end, value)
    }

    fn erf_inv_f64(&mut self, w: Local) -> Value {
        let small = self.shifted(w, 3.125)?;
        let small = self.polynomial(small, &ERF_INV_F64_SMALL)?;
        let root = self.unary(Unary::Sqrt, w)?;
        let middle = self.shifted(root, 3.25)?;
        let middle = self.polynomial(middle, &ERF_INV_F64_MIDDLE)?;
        let large = self.shifted(root, 5.0)?;
        let large = self.polynomial(large, &ERF_INV_F64_LARGE)?;
        let is_middle = self.is_below(w, 16.0)?;
        let larger = self.select(is_middle, middle, large)?;
        let is_small = self.is_below(w, 6.25)?;
        self.select(is_small, small, larger)
    }
}
