//! Lowers CHLO operations to the operations that they are composed of.

use super::operations::{binary, comparison};
use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use tegula_ir::{Binary, DimNumbers, Direction, Op, Order, Shape, Unary};

/// The HLO operation for a unary CHLO operation that HLO has.
pub(super) fn known_unary(name: &str) -> Option<Unary> {
    Some(match name {
        "acos" => Unary::Acos,
        "acosh" => Unary::Acosh,
        "asin" => Unary::Asin,
        "asinh" => Unary::Asinh,
        "atanh" => Unary::Atanh,
        "cosh" => Unary::Cosh,
        "erf" => Unary::Erf,
        "sinh" => Unary::Sinh,
        "tan" => Unary::Tan,
        _ => return None,
    })
}

impl<'m> Lowerer<'m> {
    pub(super) fn chlo(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        match name {
            "scan" => return self.scan(access, frame),
            "ragged_dot" => return self.ragged_dot(access, frame),
            _ => {}
        }
        let operands = self.operands(access, frame)?;
        if let Some(name) = name.strip_prefix("broadcast_") {
            return self.chlo_broadcast(name, access, frame, &operands);
        }
        let x = self.first(access, &operands)?;
        if let Some(unary) = known_unary(name) {
            let local = self.push(frame, Op::Unary(unary), &[x], None)?;
            return self.bind(access, frame, local);
        }
        if let Some(local) = self.special_function(name, frame, &operands)? {
            return self.bind(access, frame, local);
        }
        let local = match name {
            "top_k" => {
                let op = Op::TopK {
                    k: access.integer("k")?,
                    largest: true,
                    is_stable: None,
                };
                return self.push_results(access, frame, op, &operands);
            }
            "square" => self.square(frame, x)?,
            "atan" => self.atan(frame, x)?,
            "conj" => self.conjugate(frame, x)?,
            "mulhi" => self.push(frame, Op::Binary(Binary::Mulhi), &operands, None)?,
            "is_inf" => {
                let magnitude = self.push(frame, Op::Unary(Unary::Abs), &[x], None)?;
                self.equals(frame, magnitude, f64::INFINITY)?
            }
            "is_pos_inf" => self.equals(frame, x, f64::INFINITY)?,
            "is_neg_inf" => self.equals(frame, x, f64::NEG_INFINITY)?,
            _ => {
                return Err(access.unsupported(
                    "this operation is not supported: decompose it first \
                     (chlo-legalize-to-stablehlo)",
                ));
            }
        };
        self.bind(access, frame, local)
    }

    fn conjugate(&self, frame: &mut Frame, x: Local) -> Result<Local, Error> {
        if !is_complex(frame, x) {
            return Ok(x);
        }
        let real = self.push(frame, Op::Unary(Unary::Real), &[x], None)?;
        let imaginary = self.push(frame, Op::Unary(Unary::Imag), &[x], None)?;
        let negative = self.push(frame, Op::Unary(Unary::Negate), &[imaginary], None)?;
        let op = Op::Binary(Binary::Complex);
        self.push(frame, op, &[real, negative], None)
    }

    /// For a complex number, the arc tangent is `-i atanh(i z)`.
    fn atan(&self, frame: &mut Frame, x: Local) -> Result<Local, Error> {
        if !is_complex(frame, x) {
            let one = self.filled_like(frame, x, 1.0)?;
            return self.push(frame, Op::Binary(Binary::Atan2), &[x, one], None);
        }
        let unary = |frame: &mut Frame, op, x| self.push(frame, Op::Unary(op), &[x], None);
        let pair = |frame: &mut Frame, a, b| {
            let op = Op::Binary(Binary::Complex);
            self.push(frame, op, &[a, b], None)
        };
        let (a, b) = (unary(frame, Unary::Real, x)?, unary(frame, Unary::Imag, x)?);
        let negative = unary(frame, Unary::Negate, b)?;
        let turned = pair(frame, negative, a)?;
        let value = unary(frame, Unary::Atanh, turned)?;
        let (a, b) = (
            unary(frame, Unary::Real, value)?,
            unary(frame, Unary::Imag, value)?,
        );
        let negative = unary(frame, Unary::Negate, a)?;
        pair(frame, b, negative)
    }

    /// The square of a complex number `a + ib` is `(a - b) (a + b) + 2 a b i`, which avoids
    /// cancellation.
    fn square(&self, frame: &mut Frame, x: Local) -> Result<Local, Error> {
        let binary = |frame: &mut Frame, op, a, b| self.push(frame, Op::Binary(op), &[a, b], None);
        if !is_complex(frame, x) {
            return binary(frame, Binary::Multiply, x, x);
        }
        let a = self.push(frame, Op::Unary(Unary::Real), &[x], None)?;
        let b = self.push(frame, Op::Unary(Unary::Imag), &[x], None)?;
        let difference = binary(frame, Binary::Subtract, a, b)?;
        let sum = binary(frame, Binary::Add, a, b)?;
        let real = binary(frame, Binary::Multiply, difference, sum)?;
        // With equal magnitudes, the product must not be of a zero and an infinity.
        let zero = self.filled_like(frame, a, 0.0)?;
        let magnitude = |frame: &mut Frame, x| self.push(frame, Op::Unary(Unary::Abs), &[x], None);
        let smaller = {
            let difference = magnitude(frame, difference)?;
            let sum = magnitude(frame, sum)?;
            binary(frame, Binary::Minimum, difference, sum)?
        };
        let is_zero = self.equals(frame, smaller, 0.0)?;
        let real = self.push(frame, Op::Select, &[is_zero, zero, real], None)?;
        let product = binary(frame, Binary::Multiply, a, b)?;
        let imaginary = binary(frame, Binary::Add, product, product)?;
        binary(frame, Binary::Complex, real, imaginary)
    }

    /// An array with the shape of another and one value in all elements.
    pub(super) fn filled_like(
        &self,
        frame: &mut Frame,
        like: Local,
        value: f64,
    ) -> Result<Local, Error> {
        let scalar = self.scalar_like(frame, like, value)?;
        let shape = frame.shape(like).clone();
        self.push(
            frame,
            Op::Broadcast(DimNumbers::new()),
            &[scalar],
            Some(shape),
        )
    }

    fn equals(&self, frame: &mut Frame, x: Local, value: f64) -> Result<Local, Error> {
        let other = self.filled_like(frame, x, value)?;
        let op = Op::Compare {
            direction: Direction::Eq,
            order: Order::Partial,
        };
        self.push(frame, op, &[x, other], None)
    }

    /// An elementwise operation whose operands are broadcast as in numpy, or as
    /// `broadcast_dimensions` says.
    fn chlo_broadcast(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
        operands: &[Local],
    ) -> Result<(), Error> {
        let op = match (name, binary(name)) {
            (_, Some(binary)) => Op::Binary(binary),
            ("select", _) => Op::Select,
            ("compare", _) => comparison(access)?,
            _ => return Err(access.unsupported("this operation is not supported")),
        };
        let result = self.result_shape(access, 0, None)?;
        let stated = match access.operation.attribute("broadcast_dimensions") {
            Some(_) => Some(access.dims("broadcast_dimensions")?),
            None => None,
        };
        let mut same = Vec::new();
        for operand in operands {
            same.push(self.broadcast_to(access, frame, *operand, &result, stated.as_ref())?);
        }
        let local = self.push(frame, op, &same, None)?;
        self.bind(access, frame, local)
    }

    fn broadcast_to(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        operand: Local,
        result: &Shape,
        stated: Option<&DimNumbers>,
    ) -> Result<Local, Error> {
        let mut array = self.array(access, frame, operand)?.clone();
        let Some(target) = result.as_array() else {
            return Err(access.error("expected a tensor as the result"));
        };
        let (rank, wanted) = (array.rank(), target.rank());
        if rank > wanted {
            return Err(access.error("an operand has more dimensions than the result"));
        }
        let dims: DimNumbers = match stated {
            Some(dims) if dims.len() == rank => dims.clone(),
            _ => (wanted - rank..wanted).map(|dim| dim as i64).collect(),
        };
        array.dims = target.dims.clone();
        self.broadcast_in_dim(access, frame, operand, &dims, Shape::Array(array))
    }
}

fn is_complex(frame: &Frame, x: Local) -> bool {
    let array = frame.shape(x).as_array();
    array.is_some_and(|array| array.element_type.complex_part().is_some())
}
