//! Lowers special functions of CHLO to elementary functions.
//!
//! - `error`: `erfc`, `erf_inv`;
//! - `gamma`: `lgamma`, `digamma`, `zeta`, `polygamma`;
//! - `bessel`: `bessel_i1e`;
//! - this module: the builder of formulas over arrays, and `next_after`.

mod bessel;
mod error;
mod gamma;

use super::{Frame, Local, Lowerer};
use crate::Error;
use tegula_ir::{ArrayShape, Binary, DimNumbers, Direction, ElementType, Op, Order, Shape, Unary};

/// A builder of formulas over arrays of the same shape and type.
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

    /// Evaluates a polynomial by Horner's rule; the coefficients are in order of decreasing powers.
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

    /// `x` minus a number.
    fn shifted(&mut self, x: Local, by: f64) -> Value {
        let by = self.number(x, by)?;
        self.sub(x, by)
    }

    fn with_type(&self, ty: ElementType) -> Shape {
        Shape::Array(self.shape.with_element_type(ty))
    }

    /// The number next to x in the direction of y, found by its bits: magnitudes are ordered like
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
        // One step away from zero or towards it.
        let one = self.number(x_bits, 1.0)?;
        let away = self.add(x_bits, one)?;
        let towards = self.sub(x_bits, one)?;
        let zero = self.number(x, 0.0)?;
        let is_negative = self.compare(Direction::Lt, x, zero)?;
        let goes_up = self.compare(Direction::Lt, x, y)?;
        let same = self.binary(Binary::Xor, is_negative, goes_up)?;
        let step = self.select(same, away, towards)?;
        // The number next to zero is the smallest one with y's sign.
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
        // If x or y is NaN, their sum is NaN.
        let sum = self.add(x, y)?;
        let x_nan = self.compare(Direction::Ne, x, x)?;
        let y_nan = self.compare(Direction::Ne, y, y)?;
        let is_nan = self.binary(Binary::Or, x_nan, y_nan)?;
        self.select(is_nan, sum, next)
    }

    /// The sign bit of a signed type, in all elements.
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
    /// The special function of this name; [`None`] if it is not one of this module's.
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
        if !matches!(
            (name, rest),
            ("erfc" | "erf_inv" | "lgamma" | "digamma" | "bessel_i1e", [])
                | ("zeta" | "polygamma", [_])
        ) {
            return Ok(None);
        }
        // Narrow formats are computed in f32.
        let own = array.element_type;
        let narrow = own.bits() < 32;
        let shape = match narrow {
            true => array.with_element_type(ElementType::F32),
            false => array.with_element_type(own),
        };
        let mut widened = operands.to_vec();
        if narrow {
            let wide = Shape::Array(shape.clone());
            for operand in &mut widened {
                *operand = self.push(frame, Op::Convert, &[*operand], Some(wide.clone()))?;
            }
        }
        let mut formula = Formula {
            lowerer: self,
            frame,
            shape,
        };
        let mut value = match (name, widened.as_slice()) {
            ("erfc", &[x]) => formula.erfc(x)?,
            ("erf_inv", &[x]) => formula.erf_inv(x)?,
            ("lgamma", &[x]) => formula.lgamma(x)?,
            ("digamma", &[x]) => formula.digamma(x)?,
            ("bessel_i1e", &[x]) => formula.bessel_i1e(x)?,
            ("zeta", &[s, q]) => formula.zeta(s, q)?,
            ("polygamma", &[n, x]) => formula.polygamma(n, x)?,
            _ => return Ok(None),
        };
        if narrow {
            let shape = Some(Shape::Array(array.with_element_type(own)));
            value = self.push(frame, Op::Convert, &[value], shape)?;
        }
        Ok(Some(value))
    }
}
