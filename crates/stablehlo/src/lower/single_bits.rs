//! Lowers `bitcast_convert` between numbers and truth values: StableHLO's `i1` is a single bit.
//!
//! HLO's `pred` is a byte, so the bits are computed. A number of N bits becomes N truth values
//! along a last dimension, the lowest bit first, by shifts; the reverse is a sum of powers of two.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use tegula_ir::{ArrayShape, Binary, Dim, DimNumbers, Direction, ElementType, Op, Order, Shape};

/// The unsigned integer type with the number's width.
fn word(access: &Access<'_>, ty: ElementType) -> Result<ElementType, Error> {
    let is_complex = ty.complex_part().is_some();
    match ty.bits() {
        8 => Ok(ElementType::U8),
        16 => Ok(ElementType::U16),
        32 => Ok(ElementType::U32),
        64 if !is_complex => Ok(ElementType::U64),
        _ => Err(access.unsupported(format!("single bits of {ty} are not supported"))),
    }
}

impl<'m> Lowerer<'m> {
    /// Converts numbers to their bits.
    pub(super) fn bits_of(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
        numbers: Local,
    ) -> Result<(), Error> {
        let mut shape = self.array(access, frame, numbers)?.clone();
        let ty = word(access, shape.element_type)?;
        shape.element_type = ty;
        let words = Some(Shape::Array(shape.clone()));
        let words = self.push(frame, Op::BitcastConvert, &[numbers], words)?;
        let outer: DimNumbers = (0..shape.dims.len() as i64).collect();
        shape.dims.push(Dim::from(i64::from(ty.bits())));
        let spread = Some(Shape::Array(shape.clone()));
        let words = self.push(frame, Op::Broadcast(outer), &[words], spread)?;
        let places = self.places(frame, &shape)?;
        let shift = Op::Binary(Binary::ShiftRightLogical);
        let shifted = self.push(frame, shift, &[words, places], None)?;
        let one = self.filled(frame, shifted, 1.0)?;
        let bit = self.push(frame, Op::Binary(Binary::And), &[shifted, one], None)?;
        let equal = Op::Compare {
            direction: Direction::Eq,
            order: Order::Partial,
        };
        let bits = self.push(frame, equal, &[bit, one], None)?;
        self.bind_all(access, frame, &[bits])
    }

    /// Converts bits to numbers of a type.
    pub(super) fn of_bits(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
        bits: Local,
        ty: ElementType,
    ) -> Result<(), Error> {
        let mut shape = self.array(access, frame, bits)?.clone();
        shape.element_type = word(access, ty)?;
        let last = shape.dims.len() as i64 - 1;
        let width = shape.dims.last().and_then(Dim::as_static);
        if width != Some(i64::from(ty.bits())) {
            return Err(access.error(format!(
                "expected a last dimension of {} bits for {ty}",
                ty.bits()
            )));
        }
        let like = Some(Shape::Array(shape.clone()));
        let words = self.push(frame, Op::Convert, &[bits], like)?;
        let places = self.places(frame, &shape)?;
        let shift = Op::Binary(Binary::ShiftLeft);
        let shifted = self.push(frame, shift, &[words, places], None)?;
        let zero = self.scalar_like(frame, shifted, 0.0)?;
        let sum = Op::Reduce {
            dimensions: [last].into_iter().collect(),
            to_apply: self.sum_of(shape.element_type)?,
        };
        let words = self.push(frame, sum, &[shifted, zero], None)?;
        shape.dims.pop();
        shape.element_type = ty;
        let numbers = Some(Shape::Array(shape));
        let numbers = self.push(frame, Op::BitcastConvert, &[words], numbers)?;
        self.bind_all(access, frame, &[numbers])
    }

    /// The position of each bit, along the last dimension.
    fn places(&self, frame: &mut Frame, shape: &ArrayShape) -> Result<Local, Error> {
        let last = shape.dims.len() as i64 - 1;
        self.push(
            frame,
            Op::Iota(last),
            &[],
            Some(Shape::Array(shape.clone())),
        )
    }

    /// An array with the shape of `like`, filled with one number.
    fn filled(&self, frame: &mut Frame, like: Local, value: f64) -> Result<Local, Error> {
        let shape = Some(frame.shape(like).clone());
        let scalar = self.scalar_like(frame, like, value)?;
        self.push(frame, Op::Broadcast(DimNumbers::new()), &[scalar], shape)
    }
}
