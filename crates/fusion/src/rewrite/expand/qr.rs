//! Expands QR decompositions into Householder reflections, as loops over columns.
//!
//! A reflection `1 - tau v v^T` makes a column zero below the diagonal; `v` is 1 on the diagonal
//! and zero above it. A column is divided by its largest element before it is squared, to avoid
//! overflow.

use super::{plain, sizes};
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ComputationId, Direction, DotDims, ElementType, Error,
    InstructionId, ModuleBuilder, Shape, Unary,
};

/// A computation under construction, on matrices of one shape.
struct Work<'b, 'm> {
    b: &'b mut ComputationBuilder<'m>,
    /// The sizes of the matrices.
    dims: Vec<i64>,
    ty: ElementType,
    /// The column of the current loop iteration.
    step: InstructionId,
}

impl Work<'_, '_> {
    fn batch(&self) -> &[i64] {
        &self.dims[..self.dims.len() - 2]
    }

    /// The sizes of an array with one element per row.
    fn rows(&self) -> Vec<i64> {
        self.dims[..self.dims.len() - 1].to_vec()
    }

    fn number(&mut self, value: i32, dims: &[i64]) -> Result<InstructionId, Error> {
        let value = self.b.scalar(value)?;
        let value = self.b.convert(value, self.ty)?;
        self.b.broadcast(value, dims, &[])
    }

    /// Compares an index along a dimension with the current step.
    fn beside(
        &mut self,
        direction: Direction,
        dims: &[i64],
        dim: usize,
    ) -> Result<InstructionId, Error> {
        let index = self.b.iota(ElementType::S32, dims, dim as i64)?;
        let step = self.b.broadcast(self.step, dims, &[])?;
        self.b.compare(direction, index, step)
    }

    /// Broadcasts one value per matrix to `dims`.
    fn of_batch(&mut self, x: InstructionId, dims: &[i64]) -> Result<InstructionId, Error> {
        let batch: Vec<i64> = (0..self.batch().len() as i64).collect();
        self.b.broadcast(x, dims, &batch)
    }

    /// Broadcasts one value per row or column to all elements.
    fn along(&mut self, x: InstructionId, dim: usize) -> Result<InstructionId, Error> {
        let mut kept: Vec<i64> = (0..self.batch().len() as i64).collect();
        kept.push(dim as i64);
        let dims = self.dims.clone();
        self.b.broadcast(x, &dims, &kept)
    }

    /// The elements at the current step along the last dimension.
    fn at_step(&mut self, x: InstructionId) -> Result<InstructionId, Error> {
        let mut dims = sizes(self.b, x)?;
        let zero = self.b.scalar(0i32)?;
        let mut starts = vec![zero; dims.len() - 1];
        starts.push(self.step);
        dims.pop();
        let mut window = dims.clone();
        window.push(1);
        let slice = self.b.dynamic_slice(x, &starts, &window)?;
        self.b.reshape(slice, &dims)
    }

    /// `v tau (v^T a)`.
    fn change(
        &mut self,
        a: InstructionId,
        vector: InstructionId,
        tau: InstructionId,
    ) -> Result<InstructionId, Error> {
        let batch = self.batch().len();
        let dims = DotDims {
            lhs_batch: (0..batch as i64).collect(),
            rhs_batch: (0..batch as i64).collect(),
            lhs_contracting: [batch as i64].into_iter().collect(),
            rhs_contracting: [batch as i64].into_iter().collect(),
        };
        let sums = self.b.dot(vector, a, dims)?;
        let all = sizes(self.b, sums)?;
        let tau = self.of_batch(tau, &all)?;
        let sums = self.b.binary(Binary::Multiply, sums, tau)?;
        let (vector, sums) = (self.along(vector, batch)?, self.along(sums, batch + 1)?);
        self.b.binary(Binary::Multiply, vector, sums)
    }
}

/// A reflection: the new diagonal element, `tau` and `v`.
struct Reflection {
    diagonal: InstructionId,
    tau: InstructionId,
    vector: InstructionId,
}

impl Reflection {
    /// The reflection that makes the current column zero below the diagonal.
    fn of(
        work: &mut Work<'_, '_>,
        a: InstructionId,
        [add, most]: [ComputationId; 2],
    ) -> Result<Self, Error> {
        let (rows, batch) = (work.rows(), work.batch().to_vec());
        let last = rows.len() - 1;
        let column = work.at_step(a)?;
        let here = work.beside(Direction::Eq, &rows, last)?;
        let below = work.beside(Direction::Gt, &rows, last)?;
        let (none, one) = (work.number(0, &rows)?, work.number(1, &rows)?);
        let under = work.b.select(below, column, none)?;
        let corner = work.b.select(here, column, none)?;
        let zero = work.number(0, &[])?;
        let corner = work.b.reduce(corner, zero, &[last as i64], add)?;
        let size = work.b.unary(Unary::Abs, under)?;
        let largest = work.b.reduce(size, zero, &[last as i64], most)?;
        let size = work.b.unary(Unary::Abs, corner)?;
        let largest = work.b.binary(Binary::Maximum, largest, size)?;
        let (nothing, ones) = (work.number(0, &batch)?, work.number(1, &batch)?);
        let is_zero = work.b.compare(Direction::Eq, largest, nothing)?;
        let scale = work.b.select(is_zero, ones, largest)?;
        let alpha = work.b.binary(Binary::Divide, corner, scale)?;
        let scales = work.of_batch(scale, &rows)?;
        let under = work.b.binary(Binary::Divide, under, scales)?;
        let squares = work.b.binary(Binary::Multiply, under, under)?;
        let sum = work.b.reduce(squares, zero, &[last as i64], add)?;
        let square = work.b.binary(Binary::Multiply, alpha, alpha)?;
        let square = work.b.binary(Binary::Add, square, sum)?;
        let length = work.b.unary(Unary::Sqrt, square)?;
        let minus = work.b.unary(Unary::Negate, length)?;
        let negative = work.b.compare(Direction::Lt, alpha, nothing)?;
        // The sign that avoids cancellation in `beta - alpha`.
        let beta = work.b.select(negative, length, minus)?;
        // If the column is already zero below the diagonal, the reflection is the identity.
        let done = work.b.compare(Direction::Eq, sum, nothing)?;
        let over = work.b.binary(Binary::Subtract, beta, alpha)?;
        let tau = work.b.binary(Binary::Divide, over, beta)?;
        let tau = work.b.select(done, nothing, tau)?;
        let scaled = work.b.binary(Binary::Multiply, beta, scale)?;
        let diagonal = work.b.select(done, corner, scaled)?;
        let pivot = work.b.binary(Binary::Subtract, alpha, beta)?;
        let pivot = work.b.select(done, ones, pivot)?;
        let pivots = work.of_batch(pivot, &rows)?;
        let vector = work.b.binary(Binary::Divide, under, pivots)?;
        let vector = work.b.select(here, one, vector)?;
        Ok(Self {
            diagonal,
            tau,
            vector,
        })
    }
}

/// The triangle with the reflections' vectors below it, and each `tau`.
pub(super) fn decomposition(
    builder: &mut ModuleBuilder,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let ([Shape::Array(a)], Some([_, Shape::Array(taus)])) = (operands, result.as_tuple()) else {
        return Err(Error::input(
            "expected a QR decomposition of one array, with two arrays as its result",
        ));
    };
    let ty = a.element_type;
    let (a, taus) = (Shape::Array(plain(a)), Shape::Array(plain(taus)));
    let shapes = [Shape::array(ElementType::S32, &[]), a.clone(), taus.clone()];
    let reducers = [
        builder.reducer(Binary::Add, ty)?,
        builder.reducer(Binary::Maximum, ty)?,
    ];
    let state = Shape::Tuple(shapes.to_vec());
    let count = last_size(&taus)?;
    let condition = condition(builder, &state, count)?;
    let mut b = builder.computation("reflect");
    let p = b.parameter(state);
    let [step, a_now, taus_now] = [0, 1, 2].map(|i| b.get_tuple_element(p, i));
    let (step, a_now, taus_now) = (step?, a_now?, taus_now?);
    let mut work = Work {
        dims: sizes(&b, a_now)?,
        b: &mut b,
        ty,
        step,
    };
    let new = Reflection::of(&mut work, a_now, reducers)?;
    let next = reflected(&mut work, a_now, &new)?;
    let places = sizes(work.b, taus_now)?;
    let here = work.beside(Direction::Eq, &places, places.len() - 1)?;
    let tau = work.of_batch(new.tau, &places)?;
    let taus_next = work.b.select(here, tau, taus_now)?;
    let one = b.scalar(1i32)?;
    let step = b.binary(Binary::Add, step, one)?;
    let root = b.tuple(&[step, next, taus_next])?;
    let body = b.finish(root)?;

    let mut b = builder.computation("geqrf");
    let a = b.parameter(a);
    let zero = b.scalar(0i32)?;
    let none = b.convert(zero, ty)?;
    let places = taus.as_array().and_then(ArrayShape::static_dims);
    let places = places
        .ok_or_else(|| Error::input("a dynamic size"))?
        .to_vec();
    let none = b.broadcast(none, &places, &[])?;
    if count == 0 {
        let root = b.tuple(&[a, none])?;
        return b.finish(root);
    }
    let init = b.tuple(&[zero, a, none])?;
    let done = b.while_loop(condition, body, init)?;
    let [a, taus] = [b.get_tuple_element(done, 1)?, b.get_tuple_element(done, 2)?];
    let root = b.tuple(&[a, taus])?;
    b.finish(root)
}

/// Applies a reflection: updates the columns to the right, and stores the vector in the current
/// column.
fn reflected(
    work: &mut Work<'_, '_>,
    a: InstructionId,
    new: &Reflection,
) -> Result<InstructionId, Error> {
    let dims = work.dims.clone();
    let (row, column) = (dims.len() - 2, dims.len() - 1);
    let change = work.change(a, new.vector, new.tau)?;
    let changed = work.b.binary(Binary::Subtract, a, change)?;
    let is_right = work.beside(Direction::Gt, &dims, column)?;
    let in_column = work.beside(Direction::Eq, &dims, column)?;
    let on_diagonal = work.beside(Direction::Eq, &dims, row)?;
    let below = work.beside(Direction::Gt, &dims, row)?;
    let diagonal = work.of_batch(new.diagonal, &dims)?;
    let vector = work.along(new.vector, row)?;
    let inside = work.b.select(below, vector, a)?;
    let inside = work.b.select(on_diagonal, diagonal, inside)?;
    let left = work.b.select(in_column, inside, a)?;
    work.b.select(is_right, changed, left)
}

/// The first columns of the product of reflections; the last reflection is applied first.
pub(super) fn reflections(
    builder: &mut ModuleBuilder,
    operands: &[Shape],
) -> Result<ComputationId, Error> {
    let [Shape::Array(a), Shape::Array(taus)] = operands else {
        return Err(Error::input(
            "expected vectors and factors as the operands of Householder reflections",
        ));
    };
    let ty = a.element_type;
    let (a, taus) = (Shape::Array(plain(a)), Shape::Array(plain(taus)));
    let counter = Shape::array(ElementType::S32, &[]);
    let state = Shape::Tuple(vec![counter, a.clone(), a.clone(), taus.clone()]);
    let count = last_size(&taus)?;
    let condition = condition(builder, &state, count)?;
    let mut b = builder.computation("apply");
    let p = b.parameter(state);
    let parts: Vec<InstructionId> = (0..4)
        .map(|i| b.get_tuple_element(p, i))
        .collect::<Result<_, _>>()?;
    let [turn, q, vectors, factors] = parts[..] else {
        return Err(Error::bug("the loop has an unexpected number of states"));
    };
    let last = b.scalar(i32::try_from(count - 1).unwrap_or(i32::MAX))?;
    let step = b.binary(Binary::Subtract, last, turn)?;
    let mut work = Work {
        dims: sizes(&b, q)?,
        b: &mut b,
        ty,
        step,
    };
    let rows = work.rows();
    let here = work.beside(Direction::Eq, &rows, rows.len() - 1)?;
    let below = work.beside(Direction::Gt, &rows, rows.len() - 1)?;
    let (none, one) = (work.number(0, &rows)?, work.number(1, &rows)?);
    let column = work.at_step(vectors)?;
    let vector = work.b.select(below, column, none)?;
    let vector = work.b.select(here, one, vector)?;
    let tau = work.at_step(factors)?;
    let change = work.change(q, vector, tau)?;
    let next = work.b.binary(Binary::Subtract, q, change)?;
    let one = b.scalar(1i32)?;
    let turn = b.binary(Binary::Add, turn, one)?;
    let root = b.tuple(&[turn, next, vectors, factors])?;
    let body = b.finish(root)?;

    let mut b = builder.computation("orgqr");
    let (a, taus) = (b.parameter(a), b.parameter(taus));
    let dims = sizes(&b, a)?;
    let rank = dims.len() as i64;
    let row = b.iota(ElementType::S32, &dims, rank - 2)?;
    let column = b.iota(ElementType::S32, &dims, rank - 1)?;
    let diagonal = b.compare(Direction::Eq, row, column)?;
    let one = b.convert(diagonal, ty)?;
    if count == 0 {
        return b.finish(one);
    }
    let zero = b.scalar(0i32)?;
    let init = b.tuple(&[zero, one, a, taus])?;
    let done = b.while_loop(condition, body, init)?;
    let root = b.get_tuple_element(done, 1)?;
    b.finish(root)
}

/// The loop condition: whether fewer than `count` iterations were done, by the counter in the first
/// state.
fn condition(
    builder: &mut ModuleBuilder,
    state: &Shape,
    count: i64,
) -> Result<ComputationId, Error> {
    let mut b = builder.computation("columns_left");
    let p = b.parameter(state.clone());
    let step = b.get_tuple_element(p, 0)?;
    let count = b.scalar(i32::try_from(count).unwrap_or(i32::MAX))?;
    let root = b.compare(Direction::Lt, step, count)?;
    b.finish(root)
}

fn last_size(shape: &Shape) -> Result<i64, Error> {
    let dims = shape.as_array().and_then(ArrayShape::static_dims);
    let last = dims.and_then(|dims| dims.last().copied());
    last.ok_or_else(|| Error::input("expected an array whose last dimension has a known size"))
}
