//! Expands batch norms into reductions and elementwise operations.
//!
//! They are computed in f64 and rounded once, as the reference evaluator defines them: subtracting
//! the mean from an element cancels, and products must not be rounded before they are summed.
//! Exporters write batch norms out themselves, so speed matters little here.

use super::converted;
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ComputationId, Dims, ElementType, Error, InstructionId,
    ModuleBuilder, Op, Shape, Unary,
};

/// The computation of a batch norm on operands of these shapes.
pub(super) fn expand(
    builder: &mut ModuleBuilder,
    op: &Op,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let (epsilon, feature) = match op {
        Op::BatchNormTraining {
            epsilon,
            feature_index,
        }
        | Op::BatchNormInference {
            epsilon,
            feature_index,
        }
        | Op::BatchNormGrad {
            epsilon,
            feature_index,
        } => (*epsilon, *feature_index),
        _ => return Err(Error::bug("expected a batch norm")),
    };
    let add = builder.reducer(Binary::Add, ElementType::F64)?;
    let mut b = builder.computation(op.opcode().name());
    let mut wide = Vec::with_capacity(operands.len());
    for shape in operands {
        let parameter = b.parameter(shape.clone());
        wide.push(converted(&mut b, parameter, ElementType::F64)?);
    }
    let x = *wide
        .first()
        .ok_or_else(|| Error::bug("expected operands of a batch norm"))?;
    let dims = b.array_shape(x)?.dims.clone();
    let mut norm = Norm {
        add,
        x,
        dims,
        feature,
        epsilon,
        b,
    };
    let results = match (op, &wide[..]) {
        (Op::BatchNormTraining { .. }, &[x, scale, offset]) => norm.training(x, scale, offset)?,
        (Op::BatchNormInference { .. }, &[x, scale, offset, mean, variance]) => {
            let centred = norm.centred(x, mean)?;
            vec![norm.normalised(centred, variance, scale, offset)?]
        }
        (_, &[x, scale, mean, variance, grad]) => norm.gradient(x, scale, mean, variance, grad)?,
        _ => {
            return Err(Error::input(
                "a batch norm has the wrong number of operands",
            ));
        }
    };
    norm.finish(&results, result)
}

struct Norm<'b> {
    /// The reducer that adds two f64.
    add: ComputationId,
    /// The operand; `dims` are its sizes.
    x: InstructionId,
    dims: Dims,
    /// The number of the feature dimension.
    feature: i64,
    epsilon: f32,
    b: ComputationBuilder<'b>,
}

impl Norm<'_> {
    /// Broadcasts one value per feature to the shape of the array.
    fn spread(&mut self, of_features: InstructionId) -> Result<InstructionId, Error> {
        let dims = self.dims.clone();
        self.broadcast(of_features, dims, &[self.feature])
    }

    fn broadcast(
        &mut self,
        x: InstructionId,
        dims: Dims,
        mapping: &[i64],
    ) -> Result<InstructionId, Error> {
        let shape = Shape::Array(ArrayShape {
            element_type: self.b.array_shape(x)?.element_type,
            dims,
            layout: None,
        });
        let op = Op::Broadcast(mapping.into());
        self.b.push_with_shape(op, &[x], shape)
    }

    /// A constant, broadcast to the shape of `like`.
    fn number(&mut self, value: f64, like: InstructionId) -> Result<InstructionId, Error> {
        let value = self.b.scalar(value)?;
        self.as_often(value, like)
    }

    fn as_often(
        &mut self,
        value: InstructionId,
        like: InstructionId,
    ) -> Result<InstructionId, Error> {
        let dims = self.b.array_shape(like)?.dims.clone();
        self.broadcast(value, dims, &[])
    }

    fn binary(
        &mut self,
        op: Binary,
        a: InstructionId,
        b: InstructionId,
    ) -> Result<InstructionId, Error> {
        self.b.binary(op, a, b)
    }

    /// The sum over the elements of each feature.
    fn sums(&mut self, of: InstructionId) -> Result<InstructionId, Error> {
        let zero = self.b.scalar(0f64)?;
        let others: Vec<i64> = (0..self.dims.len() as i64)
            .filter(|&d| d != self.feature)
            .collect();
        self.b.reduce(of, zero, &others, self.add)
    }

    /// The number of elements per feature, broadcast to the shape of `like`.
    fn count(&mut self, like: InstructionId) -> Result<InstructionId, Error> {
        let others = self.dims.iter().enumerate();
        let others = others.filter(|&(d, _)| d as i64 != self.feature);
        let known = others.clone().filter_map(|(_, dim)| dim.as_static());
        let known: f64 = known.map(|size| size as f64).product();
        let open: Vec<usize> = others
            .filter(|(_, dim)| dim.as_static().is_none())
            .map(|(d, _)| d)
            .collect();
        let mut count = self.b.scalar(known)?;
        for dimension in open {
            let size = Op::GetDimensionSize(dimension as i64);
            let size = self.b.push(size, &[self.x])?;
            let size = converted(&mut self.b, size, ElementType::F64)?;
            count = self.binary(Binary::Multiply, count, size)?;
        }
        self.as_often(count, like)
    }

    fn centred(&mut self, x: InstructionId, mean: InstructionId) -> Result<InstructionId, Error> {
        let mean = self.spread(mean)?;
        self.binary(Binary::Subtract, x, mean)
    }

    /// `variance + epsilon` of each feature.
    fn above_zero(&mut self, variance: InstructionId) -> Result<InstructionId, Error> {
        let epsilon = self.number(self.epsilon.into(), variance)?;
        self.binary(Binary::Add, variance, epsilon)
    }

    fn normalised(
        &mut self,
        centred: InstructionId,
        variance: InstructionId,
        scale: InstructionId,
        offset: InstructionId,
    ) -> Result<InstructionId, Error> {
        let above_zero = self.above_zero(variance)?;
        let deviation = self.b.unary(Unary::Sqrt, above_zero)?;
        let (deviation, scale, offset) = (
            self.spread(deviation)?,
            self.spread(scale)?,
            self.spread(offset)?,
        );
        let unit = self.binary(Binary::Divide, centred, deviation)?;
        let scaled = self.binary(Binary::Multiply, unit, scale)?;
        self.binary(Binary::Add, scaled, offset)
    }

    fn training(
        &mut self,
        x: InstructionId,
        scale: InstructionId,
        offset: InstructionId,
    ) -> Result<Vec<InstructionId>, Error> {
        let sum = self.sums(x)?;
        let count = self.count(sum)?;
        let mean = self.binary(Binary::Divide, sum, count)?;
        let centred = self.centred(x, mean)?;
        let square = self.binary(Binary::Multiply, centred, centred)?;
        let squares = self.sums(square)?;
        let variance = self.binary(Binary::Divide, squares, count)?;
        Ok(vec![
            self.normalised(centred, variance, scale, offset)?,
            mean,
            variance,
        ])
    }

    /// The gradients. With `s = variance + epsilon` and `n` elements per feature, the operand's
    /// gradient is `scale / sqrt(s) / n (n g - sum g - centred / s sum (g centred))`.
    fn gradient(
        &mut self,
        x: InstructionId,
        scale: InstructionId,
        mean: InstructionId,
        variance: InstructionId,
        grad: InstructionId,
    ) -> Result<Vec<InstructionId>, Error> {
        let centred = self.centred(x, mean)?;
        let above_zero = self.above_zero(variance)?;
        let deviation = self.b.unary(Unary::Sqrt, above_zero)?;
        let grad_sum = self.sums(grad)?;
        let product = self.binary(Binary::Multiply, grad, centred)?;
        let moment = self.sums(product)?;
        let grad_scale = self.binary(Binary::Divide, moment, deviation)?;

        let factor = self.binary(Binary::Divide, scale, deviation)?;
        let count = self.count(factor)?;
        let factor = self.binary(Binary::Divide, factor, count)?;
        let (factor, spread_sum, moment, above_zero) = (
            self.spread(factor)?,
            self.spread(grad_sum)?,
            self.spread(moment)?,
            self.spread(above_zero)?,
        );
        let count = self.count(grad)?;
        let whole = self.binary(Binary::Multiply, count, grad)?;
        let rest = self.binary(Binary::Subtract, whole, spread_sum)?;
        let along = self.binary(Binary::Divide, centred, above_zero)?;
        let along = self.binary(Binary::Multiply, along, moment)?;
        let rest = self.binary(Binary::Subtract, rest, along)?;
        Ok(vec![
            self.binary(Binary::Multiply, factor, rest)?,
            grad_scale,
            grad_sum,
        ])
    }

    /// Rounds the results to the element types of the declared shape.
    fn finish(mut self, results: &[InstructionId], shape: &Shape) -> Result<ComputationId, Error> {
        let stated = crate::array_leaves(shape);
        let mut rounded = Vec::with_capacity(results.len());
        for (&result, leaf) in results.iter().zip(stated) {
            rounded.push(converted(&mut self.b, result, leaf.element_type)?);
        }
        let root = match (shape, &rounded[..]) {
            (Shape::Array(_), &[root]) => root,
            _ => self.b.tuple(&rounded)?,
        };
        self.b.finish(root)
    }
}
