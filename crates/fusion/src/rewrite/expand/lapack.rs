//! Expands custom calls of LAPACK routines into HLO operations.

use super::{qr, sizes};
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ComputationId, CustomCall, Direction, ElementType,
    Error, InstructionId, Lapack, Literal, ModuleBuilder, Op, Shape,
};

/// The computation of a factorisation. Triangular solves are an HLO operation and need none.
pub(super) fn expand(
    builder: &mut ModuleBuilder,
    routine: Lapack,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    match routine {
        Lapack::Qr => return qr::decomposition(builder, operands, result),
        Lapack::Reflections => return qr::reflections(builder, operands),
        _ => {}
    }
    let ([a], Some(parts)) = (operands, result.as_tuple()) else {
        return Err(Error::input(
            "expected a factorisation with one operand, and a tuple as its result",
        ));
    };
    let least = builder.reducer(Binary::Minimum, ElementType::S32)?;
    let most = builder.reducer(Binary::Maximum, ElementType::S32)?;
    let mut b = builder.computation("lapack");
    let a = b.parameter(a.clone());
    let matrix = Matrix::of(&mut b, a)?;
    let results = match (routine, parts) {
        (Lapack::Cholesky { lower }, [_, _]) => matrix.cholesky(&mut b, lower, most)?,
        (Lapack::Lu, [factors, pivots, _]) => {
            matrix.lu(&mut b, [factors.clone(), pivots.clone()], least)?
        }
        _ => {
            return Err(Error::input(
                "the custom call has another number of results than the LAPACK routine",
            ));
        }
    };
    let root = b.tuple(&results)?;
    b.finish(root)
}

/// Matrices, with the row and column number of each of their elements.
struct Matrix {
    a: InstructionId,
    dims: Vec<i64>,
    row: InstructionId,
    column: InstructionId,
}

impl Matrix {
    fn of(b: &mut ComputationBuilder<'_>, a: InstructionId) -> Result<Self, Error> {
        let dims = sizes(b, a)?;
        let rank = dims.len() as i64;
        if rank < 2 {
            return Err(Error::input(
                "expected a matrix: an array of at least two dimensions",
            ));
        }
        let row = b.iota(ElementType::S32, &dims, rank - 2)?;
        let column = b.iota(ElementType::S32, &dims, rank - 1)?;
        Ok(Self {
            a,
            dims,
            row,
            column,
        })
    }

    /// The last two dimensions.
    fn both(&self) -> [i64; 2] {
        let rank = self.dims.len() as i64;
        [rank - 2, rank - 1]
    }

    fn number(&self, b: &mut ComputationBuilder<'_>, value: i32) -> Result<InstructionId, Error> {
        let value = b.scalar(value)?;
        b.broadcast(value, &self.dims, &[])
    }

    /// The Cholesky factor, in its triangle of `a`, and LAPACK's `info`: 1 if there is no factor.
    fn cholesky(
        &self,
        b: &mut ComputationBuilder<'_>,
        lower: bool,
        most: ComputationId,
    ) -> Result<Vec<InstructionId>, Error> {
        let factor = b.push(Op::Cholesky { lower }, &[self.a])?;
        let direction = if lower { Direction::Ge } else { Direction::Le };
        let inside = b.compare(direction, self.row, self.column)?;
        let kept = b.select(inside, factor, self.a)?;
        let fails = b.compare(Direction::Ne, factor, factor)?;
        let fails = b.convert(fails, ElementType::S32)?;
        let zero = b.scalar(0i32)?;
        let info = b.reduce(fails, zero, &self.both(), most)?;
        Ok(vec![kept, info])
    }

    /// The LU factors, the pivot rows counted from 1, and LAPACK's `info`: the number of the first
    /// zero on the diagonal.
    fn lu(
        &self,
        b: &mut ComputationBuilder<'_>,
        [factors, pivots]: [Shape; 2],
        least: ComputationId,
    ) -> Result<Vec<InstructionId>, Error> {
        let mut permuted = self.dims.clone();
        permuted.pop();
        let permutation = Shape::array(ElementType::S32, &permuted);
        let call = Op::CustomCall(Box::new(CustomCall {
            target: "LuDecomposition".into(),
            operand_layouts: None,
            has_side_effect: false,
            api_version: None,
            called: Vec::new(),
            aliasing: Vec::new(),
            extra: Vec::new(),
        }));
        let shape = Shape::Tuple(vec![factors, pivots, permutation]);
        let lu = b.push_with_shape(call, &[self.a], shape)?;
        let [factors, pivots] = [b.get_tuple_element(lu, 0)?, b.get_tuple_element(lu, 1)?];
        let (one, counts) = (b.scalar(1i32)?, sizes(b, pivots)?);
        let ones = b.broadcast(one, &counts, &[])?;
        let rows = b.binary(Binary::Add, pivots, ones)?;
        // The number of the row, counted from 1, if its diagonal element is zero; otherwise the
        // largest number.
        let scalar = ArrayShape::new(b.array_shape(factors)?.element_type, &[]);
        let nothing = Literal::zeros(&scalar).map_err(|e| Error::input(e.to_string()))?;
        let nothing = b.constant(nothing)?;
        let nothing = b.broadcast(nothing, &self.dims, &[])?;
        let is_zero = b.compare(Direction::Eq, factors, nothing)?;
        let diagonal = b.compare(Direction::Eq, self.row, self.column)?;
        let counts = b.binary(Binary::And, is_zero, diagonal)?;
        let one = self.number(b, 1)?;
        let from_one = b.binary(Binary::Add, self.row, one)?;
        let none = self.number(b, i32::MAX)?;
        let places = b.select(counts, from_one, none)?;
        let largest = b.scalar(i32::MAX)?;
        let first = b.reduce(places, largest, &self.both(), least)?;
        let batch = sizes(b, first)?;
        let largest = b.broadcast(largest, &batch, &[])?;
        let found = b.compare(Direction::Ne, first, largest)?;
        let zero = b.scalar(0i32)?;
        let zeros = b.broadcast(zero, &batch, &[])?;
        let info = b.select(found, first, zeros)?;
        Ok(vec![factors, rows, info])
    }
}
