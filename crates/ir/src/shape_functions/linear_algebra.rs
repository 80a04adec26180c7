//! Shape functions of transforms, factorisations and normalisations.

use super::context::{Context, Inferred, ShapeOf, array};
use crate::{DimNumbers, ElementType, Error, FftType};
use tegula_expr::Provider;

impl<P: Provider> Context<'_, P> {
    pub(super) fn fft(&mut self, kind: FftType, length: &DimNumbers) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        let mut dims = self.dims(0)?;
        let Some(first) = dims.len().checked_sub(length.len()) else {
            return Err(self.error(format_args!(
                "{} lengths for {} dimensions",
                length.len(),
                dims.len()
            )));
        };
        let result = match (kind, ty) {
            (FftType::Fft | FftType::Ifft, ElementType::C64 | ElementType::C128) => ty,
            (FftType::Rfft, ElementType::F32) => ElementType::C64,
            (FftType::Rfft, ElementType::F64) => ElementType::C128,
            (FftType::Irfft, ElementType::C64) => ElementType::F32,
            (FftType::Irfft, ElementType::C128) => ElementType::F64,
            _ => return Err(self.error(format_args!("{kind} is not defined for {ty}"))),
        };
        for (index, &length_here) in length.iter().enumerate() {
            let last = index + 1 == length.len();
            let Some(size) = dims.get(first + index).cloned() else {
                continue;
            };
            // The spectrum of a real signal is symmetric, so half of it and the middle are enough.
            let half = length_here.div_euclid(2).saturating_add(1);
            let (full, half) = (self.literal(length_here), self.literal(half));
            let (expected, replaced) = match kind {
                FftType::Rfft if last => (full, Some(half)),
                FftType::Irfft if last => (half, Some(full)),
                _ => (full, None),
            };
            // An empty signal keeps its sizes.
            if self.provider.as_literal(&size) != Some(0) {
                self.same(&size, &expected, "the size and what the length asks for")?;
            }
            if let (Some(replaced), Some(slot)) = (replaced, dims.get_mut(first + index)) {
                *slot = replaced;
            }
        }
        Ok(array(result, dims))
    }

    fn square(&mut self, operand: usize) -> Result<usize, Error> {
        let rank = self.rank(operand)?;
        let Some(rows) = rank.checked_sub(2) else {
            return Err(self.error(format_args!("operand {operand} must be a matrix")));
        };
        let ty = self.array(operand)?.element_type;
        if !ty.is_float() && !ty.is_complex() {
            return Err(self.error(format_args!("not defined for {ty}")));
        }
        let height = self.provider.shape(operand, rows);
        let width = self.provider.shape(operand, rows + 1);
        self.same(&height, &width, "rows and columns")?;
        Ok(rank)
    }

    pub(super) fn cholesky(&mut self) -> Inferred<P::Index> {
        self.square(0)?;
        self.same_as(0)
    }

    pub(super) fn triangular_solve(&mut self, left_side: bool) -> Inferred<P::Index> {
        let rank = self.square(0)?;
        self.expect_type(1, self.array(0)?.element_type)?;
        if self.rank(1)? != rank {
            return Err(self.error("both operands must have the same number of dimensions"));
        }
        for dim in 0..rank - 2 {
            let (a, b) = (self.provider.shape(0, dim), self.provider.shape(1, dim));
            self.same(&a, &b, "batch sizes")?;
        }
        let solved = if left_side { rank - 2 } else { rank - 1 };
        let (a, b) = (
            self.provider.shape(0, rank - 1),
            self.provider.shape(1, solved),
        );
        self.same(&a, &b, "sizes of the matrix and of the right-hand side")?;
        self.same_as(1)
    }

    /// Checks that each operand from `first` on has one number for each feature.
    fn per_feature(&mut self, feature: i64, operands: std::ops::Range<usize>) -> Result<(), Error> {
        let size = self.dim(0, feature)?;
        for operand in operands {
            // The statistics may have a wider type than the array that they normalise.
            let ty = self.array(operand)?.element_type;
            if !ty.is_float() {
                return Err(
                    self.error(format_args!("operand {operand} must be floats, found {ty}"))
                );
            }
            if self.rank(operand)? != 1 {
                return Err(self.error(format_args!("operand {operand} must have one dimension")));
            }
            let found = self.provider.shape(operand, 0);
            self.same(
                &size,
                &found,
                format_args!("features and the size of operand {operand}"),
            )?;
        }
        Ok(())
    }

    pub(super) fn batch_norm_training(&mut self, feature: i64) -> Inferred<P::Index> {
        self.per_feature(feature, 1..3)?;
        self.with_two_per_feature(feature)
    }

    pub(super) fn batch_norm_inference(&mut self, feature: i64) -> Inferred<P::Index> {
        self.per_feature(feature, 1..5)?;
        self.same_as(0)
    }

    pub(super) fn batch_norm_grad(&mut self, feature: i64) -> Inferred<P::Index> {
        self.per_feature(feature, 1..4)?;
        self.expect_type(4, self.array(0)?.element_type)?;
        self.same_dims(0, 4)?;
        self.with_two_per_feature(feature)
    }

    /// The operand's shape, and two arrays with one number for each feature, of the scale's type.
    fn with_two_per_feature(&mut self, feature: i64) -> Inferred<P::Index> {
        let ty = self.array(1)?.element_type;
        let size = self.dim(0, feature)?;
        let whole = self.same_as(0)?;
        let each = array(ty, [size]);
        Ok(ShapeOf::Tuple(vec![whole, each.clone(), each]))
    }
}
