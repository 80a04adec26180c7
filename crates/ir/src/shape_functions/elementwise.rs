//! Shape functions of elementwise operations.

use super::context::{Context, Inferred, Sizes, array};
use crate::{Binary, Category, Direction, ElementType, Error, Unary, unary_result_type};
use tegula_expr::Provider;

impl<P: Provider> Context<'_, P> {
    fn wrong_type(&self, ty: ElementType) -> Error {
        self.error(format_args!("not defined for {ty}"))
    }

    fn require(&self, ty: ElementType, categories: &[Category]) -> Result<(), Error> {
        match categories.contains(&ty.category()) {
            true => Ok(()),
            false => Err(self.wrong_type(ty)),
        }
    }

    pub(super) fn unary(&mut self, op: Unary) -> Inferred<P::Index> {
        use Category::{Boolean, Complex, Float, Signed, Unsigned};
        let ty = self.array(0)?.element_type;
        self.require(
            ty,
            match op {
                Unary::Not => &[Boolean, Signed, Unsigned],
                Unary::Popcnt | Unary::CountLeadingZeros => &[Signed, Unsigned],
                Unary::Abs | Unary::Negate | Unary::Sign => &[Signed, Unsigned, Float, Complex],
                Unary::Ceil
                | Unary::Floor
                | Unary::RoundNearestAfz
                | Unary::RoundNearestEven
                | Unary::IsFinite
                | Unary::Erf => &[Float],
                _ => &[Float, Complex],
            },
        )?;
        Ok(array(unary_result_type(op, ty), self.dims(0)?))
    }

    pub(super) fn binary(&mut self, op: Binary) -> Inferred<P::Index> {
        use Category::{Boolean, Complex, Float, Signed, Unsigned};
        let ty = self.array(0)?.element_type;
        self.expect_type(1, ty)?;
        let dims = self.same_dims(0, 1)?;
        self.require(
            ty,
            match op {
                Binary::And | Binary::Or | Binary::Xor => &[Boolean, Signed, Unsigned],
                Binary::ShiftLeft
                | Binary::ShiftRightArithmetic
                | Binary::ShiftRightLogical
                | Binary::Mulhi => &[Signed, Unsigned],
                Binary::Atan2 => &[Float, Complex],
                Binary::Complex => &[Float],
                Binary::Remainder => &[Signed, Unsigned, Float],
                Binary::Maximum | Binary::Minimum => &[Boolean, Signed, Unsigned, Float],
                Binary::Divide | Binary::Power | Binary::Subtract => {
                    &[Signed, Unsigned, Float, Complex]
                }
                Binary::Add | Binary::Multiply => &[Boolean, Signed, Unsigned, Float, Complex],
            },
        )?;
        let result = match (op, ty) {
            (Binary::Complex, ElementType::F32) => ElementType::C64,
            (Binary::Complex, ElementType::F64) => ElementType::C128,
            (Binary::Complex, _) => return Err(self.wrong_type(ty)),
            _ => ty,
        };
        Ok(array(result, dims))
    }

    pub(super) fn compare(&mut self, direction: Direction) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        self.expect_type(1, ty)?;
        let dims = self.same_dims(0, 1)?;
        if ty.is_complex() && !matches!(direction, Direction::Eq | Direction::Ne) {
            return Err(self.error("complex numbers have no order"));
        }
        Ok(array(ElementType::Pred, dims))
    }

    /// The sizes of the main operand. The other operand must be a scalar or have the same sizes.
    fn with_scalar(
        &mut self,
        main: Sizes<P::Index>,
        operand: usize,
    ) -> Result<Sizes<P::Index>, Error> {
        let dims = self.dims(operand)?;
        if dims.is_empty() {
            return Ok(main);
        }
        if dims.len() != main.len() {
            return Err(self.error(format_args!(
                "operand {operand} must be a scalar or have all {} dimensions",
                main.len()
            )));
        }
        let pairs = main.iter().zip(&dims).enumerate();
        pairs
            .map(|(dim, (x, y))| self.same(x, y, format_args!("sizes of dimension {dim}")))
            .collect()
    }

    pub(super) fn select(&mut self) -> Inferred<P::Index> {
        self.expect_type(0, ElementType::Pred)?;
        let ty = self.array(1)?.element_type;
        self.expect_type(2, ty)?;
        let main = self.same_dims(1, 2)?;
        Ok(array(ty, self.with_scalar(main, 0)?))
    }

    pub(super) fn clamp(&mut self) -> Inferred<P::Index> {
        let ty = self.array(1)?.element_type;
        self.expect_type(0, ty)?;
        self.expect_type(2, ty)?;
        let main = self.dims(1)?;
        let main = self.with_scalar(main, 0)?;
        Ok(array(ty, self.with_scalar(main, 2)?))
    }

    /// The operand's sizes with the stated element type.
    pub(super) fn convert(&mut self) -> Inferred<P::Index> {
        let from = self.array(0)?.element_type;
        let to = self.stated_array()?.element_type;
        if from.is_complex() && !to.is_complex() {
            return Err(self
                .error(format_args!("a complex number cannot become {to}"))
                .with_help("take `real` or `imag` of it first"));
        }
        Ok(array(to, self.dims(0)?))
    }

    pub(super) fn stochastic_convert(&mut self) -> Inferred<P::Index> {
        let to = self.stated_array()?.element_type;
        let dims = self.same_dims(0, 1)?;
        let random = self.array(1)?.element_type;
        self.require(random, &[Category::Unsigned])?;
        Ok(array(to, dims))
    }

    /// The sizes after the bits of elements are reinterpreted. If the widths differ, the narrow
    /// side has one more dimension, the last, over the narrow elements in a wide one.
    pub(super) fn bitcast_convert(&mut self) -> Inferred<P::Index> {
        let from = self.array(0)?.element_type;
        let to = self.stated_array()?.element_type;
        let mut dims = self.dims(0)?;
        let (wide, narrow) = (from.bits().max(to.bits()), from.bits().min(to.bits()));
        if !wide.is_multiple_of(narrow) {
            return Err(self.error(format_args!("{from} and {to} have no common width")));
        }
        let ratio = self.literal(i64::from(wide / narrow));
        if from.bits() > to.bits() {
            dims.push(ratio);
        } else if from.bits() < to.bits() {
            match dims.pop() {
                Some(last) => self.same(&last, &ratio, "the last dimension and the width ratio")?,
                None => return Err(self.error(format_args!("a scalar {from} is too narrow"))),
            };
        }
        Ok(array(to, dims))
    }

    pub(super) fn reduce_precision(&mut self) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        self.require(ty, &[Category::Float])?;
        self.same_as(0)
    }
}
