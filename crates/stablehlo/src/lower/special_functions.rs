//! Special functions of CHLO, written out in elementary ones: `erf_inv`, `lgamma`, `digamma` and
//! `next_after`.
//!
//! Coefficients of the inverse error function: M. Giles, "Approximating the erfinv function",
//! GPU Computing Gems, volume 2, 2011 (f32), and his later one of three pieces (f64), as XLA has
//! them. Those of the gamma function: Lanczos' approximation with g = 7 and nine terms.

#![allow(
    clippy::excessive_precision,
    reason = "coefficients stand as their authors give them"
)]

use super::{Frame, Local, Lowerer};
use crate::Error;
use tegula_ir::{ArrayShape, Binary, DimNumbers, Direction, ElementType, Op, Order, Shape, Unary};

/// Lanczos' g.
const LANCZOS_G: f64 = 7.0;

/// The term that stands alone, and those over z + 1, z + 2, ...
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

/// Coefficients of the inverse error function for f32, highest power first: for w below 5, and
/// from there on.
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

/// For f64: for w below 6.25, ...
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

/// ... below 16, ...
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

/// ... and from there on.
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

/// Writes formulas over arrays of one shape and type.
struct Formula<'l, 'm, 'f> {
    lowerer: &'l Lowerer<'m>,
    frame: &'f mut Frame,
    shape: ArrayShape,
}

type Value = Result<Local, Error>;

impl Formula<'_, '_, '_> {
    fn unary(&mut self, op: Unary, x: Local) -> Value {
        self.lowerer.push(self.frame, Op::Unary(op), &[x], None)
    }

    fn binary(&mut self, op: Binary, a: Local, b: Local) -> Value {
        self.lowerer.push(self.frame, Op::Binary(op), &[a, b], None)
    }

    fn add(&mut self, a: Local, b: Local) -> Value {
        self.binary(Binary::Add, a, b)
    }

    fn sub(&mut self, a: Local, b: Local) -> Value {
        self.binary(Binary::Subtract, a, b)
    }

    fn mul(&mut self, a: Local, b: Local) -> Value {
        self.binary(Binary::Multiply, a, b)
    }

    fn div(&mut self, a: Local, b: Local) -> Value {
        self.binary(Binary::Divide, a, b)
    }

    fn number(&mut self, like: Local, value: f64) -> Value {
        let scalar = self.lowerer.scalar_like(self.frame, like, value)?;
        let shape = Some(self.frame.shape(like).clone());
        self.lowerer.push(
            self.frame,
            Op::Broadcast(DimNumbers::new()),
            &[scalar],
            shape,
        )
    }

    fn compare(&mut self, direction: Direction, a: Local, b: Local) -> Value {
        let order = Order::Partial;
        let op = Op::Compare { direction, order };
        self.lowerer.push(self.frame, op, &[a, b], None)
    }

    fn is_below(&mut self, a: Local, bound: f64) -> Value {
        let bound = self.number(a, bound)?;
        self.compare(Direction::Lt, a, bound)
    }

    fn select(&mut self, condition: Local, a: Local, b: Local) -> Value {
        self.lowerer
            .push(self.frame, Op::Select, &[condition, a, b], None)
    }

    /// By Horner's rule, the highest power first.
    fn polynomial(&mut self, x: Local, coefficients: &[f64]) -> Value {
        let (first, rest) = coefficients.split_first().unwrap_or((&0.0, &[]));
        let mut sum = self.number(x, *first)?;
        for coefficient in rest {
            let product = self.mul(sum, x)?;
            let coefficient = self.number(x, *coefficient)?;
            sum = self.add(product, coefficient)?;
        }
        Ok(sum)
    }

    fn with_type(&self, ty: ElementType) -> Shape {
        Shape::Array(self.shape.with_element_type(ty))
    }

    fn erf_inv(&mut self, x: Local) -> Value {
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
        // At the ends of the domain it is infinite.
        let one = self.number(x, 1.0)?;
        let magnitude = self.unary(Unary::Abs, x)?;
        let is_end = self.compare(Direction::Eq, magnitude, one)?;
        let infinity = self.number(x, f64::INFINITY)?;
        let end = self.mul(x, infinity)?;
        self.select(is_end, end, value)
    }

    fn shifted(&mut self, x: Local, by: f64) -> Value {
        let by = self.number(x, by)?;
        self.sub(x, by)
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

    /// What Lanczos' approximation is made of, at z = x - 1, or -x below 1/2: z, the logarithm of
    /// t = z + g + 1/2, and t.
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

    fn lgamma(&mut self, x: Local) -> Value {
        let (reflects, z, log_t, t) = self.lanczos_argument(x)?;
        let mut sum = self.number(x, LANCZOS_BASE)?;
        for (place, coefficient) in LANCZOS.iter().enumerate() {
            let shift = self.number(x, place as f64 + 1.0)?;
            let under = self.add(z, shift)?;
            let over = self.number(x, *coefficient)?;
            let term = self.div(over, under)?;
            sum = self.add(sum, term)?;
        }
        // log(sqrt(2 pi)) + (z + 1/2) log(t) - t + log(sum); (z + 1/2 - t / log(t)) log(t) loses
        // less.
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

    /// log(pi / |sin(pi x)|) - lgamma(1 - x), infinite at the poles.
    fn reflected_lgamma(&mut self, x: Local, of_reflection: Local) -> Value {
        let magnitude = self.unary(Unary::Abs, x)?;
        let floor = self.unary(Unary::Floor, magnitude)?;
        let fraction = self.sub(magnitude, floor)?;
        // sin(pi f) = sin(pi (1 - f)), which is exact near 1.
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

    fn digamma(&mut self, x: Local) -> Value {
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
        // Poles at the whole numbers that are not positive.
        let floor = self.unary(Unary::Floor, x)?;
        let is_whole = self.compare(Direction::Eq, x, floor)?;
        let zero = self.number(x, 0.0)?;
        let is_low = self.compare(Direction::Le, x, zero)?;
        let is_pole = self.binary(Binary::And, is_whole, is_low)?;
        let nan = self.number(x, f64::NAN)?;
        self.select(is_pole, nan, value)
    }

    /// The number next to x in the direction of y, by its bits: magnitudes are in the order of
    /// their bits.
    fn next_after(&mut self, x: Local, y: Local) -> Value {
        let bits = self.shape.element_type.bits();
        let ty = match bits {
            16 => ElementType::S16,
            32 => ElementType::S32,
            _ => ElementType::S64,
        };
        let integers = self.with_type(ty);
        let cast = |this: &mut Self, value: Local, shape: Shape| {
            this.lowerer
                .push(this.frame, Op::BitcastConvert, &[value], Some(shape))
        };
        let x_bits = cast(self, x, integers)?;
        // One step away from zero, or towards it.
        let one = self.number(x_bits, 1.0)?;
        let away = self.add(x_bits, one)?;
        let towards = self.sub(x_bits, one)?;
        let zero = self.number(x, 0.0)?;
        let is_negative = self.compare(Direction::Lt, x, zero)?;
        let goes_up = self.compare(Direction::Lt, x, y)?;
        let same = self.binary(Binary::Xor, is_negative, goes_up)?;
        let step = self.select(same, away, towards)?;
        // From zero: the smallest number of y's sign.
        let y_bits = cast(self, y, self.with_type(ty))?;
        let lowest = self.lowest(ty)?;
        let sign = self.binary(Binary::And, y_bits, lowest)?;
        let smallest = self.binary(Binary::Or, sign, one)?;
        let is_zero = self.compare(Direction::Eq, x, zero)?;
        let step = self.select(is_zero, smallest, step)?;
        let floats = self.with_type(self.shape.element_type);
        let next = cast(self, step, floats)?;
        let is_same = self.compare(Direction::Eq, x, y)?;
        let next = self.select(is_same, y, next)?;
        // A sum with a NaN is one.
        let sum = self.add(x, y)?;
        let x_nan = self.compare(Direction::Ne, x, x)?;
        let y_nan = self.compare(Direction::Ne, y, y)?;
        let is_nan = self.binary(Binary::Or, x_nan, y_nan)?;
        self.select(is_nan, sum, next)
    }

    /// The sign bit of a signed type, everywhere.
    fn lowest(&mut self, ty: ElementType) -> Value {
        let literal = match ty {
            ElementType::S16 => tegula_ir::Literal::from_value(i16::MIN),
            ElementType::S32 => tegula_ir::Literal::from_value(i32::MIN),
            _ => tegula_ir::Literal::from_value(i64::MIN),
        };
        let op = Op::Constant([literal].into());
        let scalar = self.lowerer.push(self.frame, op, &[], None)?;
        let shape = Some(self.with_type(ty));
        self.lowerer.push(
            self.frame,
            Op::Broadcast(DimNumbers::new()),
            &[scalar],
            shape,
        )
    }
}

impl Lowerer<'_> {
    /// A special function of this name; [`None`] if it is not one of those here.
    pub(super) fn special_function(
        &self,
        name: &str,
        frame: &mut Frame,
        operands: &[Local],
    ) -> Result<Option<Local>, Error> {
        let Some((&x, rest)) = operands.split_first() else {
            return Ok(None);
        };
        let Some(array) = frame.shape(x).as_array().cloned() else {
            return Ok(None);
        };
        if let ("next_after", &[y]) = (name, rest) {
            let shape = array;
            let mut formula = Formula {
                lowerer: self,
                frame,
                shape,
            };
            return formula.next_after(x, y).map(Some);
        }
        if !matches!(name, "erf_inv" | "lgamma" | "digamma") {
            return Ok(None);
        }
        // Narrow formats are computed in f32.
        let own = array.element_type;
        let narrow = own.bits() < 32;
        let shape = match narrow {
            true => array.with_element_type(ElementType::F32),
            false => array.with_element_type(own),
        };
        let mut x = x;
        if narrow {
            let wide = Some(Shape::Array(shape.clone()));
            x = self.push(frame, Op::Convert, &[x], wide)?;
        }
        let mut formula = Formula {
            lowerer: self,
            frame,
            shape,
        };
        let mut value = match name {
            "erf_inv" => formula.erf_inv(x)?,
            "lgamma" => formula.lgamma(x)?,
            _ => formula.digamma(x)?,
        };
        if narrow {
            let shape = Some(Shape::Array(array.with_element_type(own)));
            value = self.push(frame, Op::Convert, &[value], shape)?;
        }
        Ok(Some(value))
    }
}
