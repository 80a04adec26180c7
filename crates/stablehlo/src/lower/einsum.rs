//! Lowers `einsum` and `torch_index_select`: contractions with labelled dimensions, and selection
//! along a dimension. Both are old operations of StableHLO.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use tegula_ir::{DimNumbers, DotDims, GatherDims, Op, TO_END};

impl<'m> Lowerer<'m> {
    /// Lowers `einsum "ab,bc->ac"`: labels that all arrays have are batch dimensions, and labels
    /// that the result lacks are summed over.
    pub(super) fn einsum(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let config = access.string("einsum_config")?;
        let (inputs, output) = config
            .split_once("->")
            .ok_or_else(|| access.error(format!("expected `->` in `{config}`")))?;
        let inputs: Vec<&str> = inputs.split(',').collect();
        let is_plain = |letters: &str| {
            letters.chars().all(|c| c.is_ascii_alphabetic())
                && letters
                    .chars()
                    .enumerate()
                    .all(|(i, c)| letters.find(c) == Some(i))
        };
        if inputs.len() != operands.len() || !inputs.iter().chain([&output]).all(|l| is_plain(l)) {
            return Err(access.unsupported(format!(
                "`{config}` is not supported: expected letters for {} operands, each at most once in an operand",
                operands.len()
            )));
        }
        for (letters, operand) in inputs.iter().zip(&operands) {
            if self.array(access, frame, *operand)?.rank() != letters.len() {
                return Err(access.error(format!("`{letters}` does not fit the operand's rank")));
            }
        }
        let (local, letters) = match (inputs.as_slice(), operands.as_slice()) {
            ([a, b], [x, y]) => {
                let (x, a) = self.summed(frame, *x, a, &[b, output])?;
                let (y, b) = self.summed(frame, *y, b, &[&a, output])?;
                self.contracted(access, frame, (x, &a), (y, &b), output)?
            }
            ([a], [x]) => self.summed(frame, *x, a, &[output])?,
            _ => return Err(access.error("expected one or two operands")),
        };
        let place = |letter: char| letters.find(letter).map(|at| at as i64);
        let order: Option<DimNumbers> = output.chars().map(place).collect();
        let order = order.filter(|order| order.len() == letters.len());
        let order = order.ok_or_else(|| {
            access.error(format!(
                "`{config}`: expected a result with the operands' remaining letters"
            ))
        })?;
        let local = self.push(frame, Op::Transpose(order), &[local], None)?;
        self.bind(access, frame, local)
    }

    /// Sums over the labels that none of the other arrays has.
    fn summed(
        &mut self,
        frame: &mut Frame,
        x: Local,
        letters: &str,
        others: &[&str],
    ) -> Result<(Local, String), Error> {
        let is_alone = |c: char| !others.iter().any(|other| other.contains(c));
        let alone: DimNumbers = letters
            .chars()
            .enumerate()
            .filter(|(_, c)| is_alone(*c))
            .map(|(place, _)| place as i64)
            .collect();
        let kept: String = letters.chars().filter(|c| !is_alone(*c)).collect();
        if alone.is_empty() {
            return Ok((x, kept));
        }
        let element = frame.shape(x).as_array().map(|array| array.element_type);
        let element = element.ok_or_else(|| Error::input("expected a tensor"))?;
        let to_apply = self.sum_of(element)?;
        let zero = self.scalar_like(frame, x, 0.0)?;
        let op = Op::Reduce {
            dimensions: alone,
            to_apply,
        };
        Ok((self.push(frame, op, &[x, zero], None)?, kept))
    }

    /// The computation that adds two numbers.
    pub(super) fn sum_of(
        &mut self,
        element: tegula_ir::ElementType,
    ) -> Result<tegula_ir::ComputationId, Error> {
        let mut sum = Frame::new("sum");
        let scalar = tegula_ir::Shape::array(element, &[]);
        let a = sum.parameter(scalar.clone(), None);
        let b = sum.parameter(scalar, None);
        let root = self.push(&mut sum, Op::Binary(tegula_ir::Binary::Add), &[a, b], None)?;
        self.finish_frame(sum, root)
    }

    fn contracted(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        (x, a): (Local, &str),
        (y, b): (Local, &str),
        output: &str,
    ) -> Result<(Local, String), Error> {
        let mut dims = DotDims::default();
        let mut letters = String::new();
        for (place, c) in a.chars().enumerate() {
            let Some(other) = b.find(c) else { continue };
            let (left, right) = match output.contains(c) {
                true => (&mut dims.lhs_batch, &mut dims.rhs_batch),
                false => (&mut dims.lhs_contracting, &mut dims.rhs_contracting),
            };
            left.push(place as i64);
            right.push(other as i64);
            if output.contains(c) {
                letters.push(c);
            }
        }
        letters.extend(a.chars().filter(|c| !b.contains(*c)));
        letters.extend(b.chars().filter(|c| !a.contains(*c)));
        let op = Op::Dot {
            dims,
            precision: access.precision()?,
            algorithm: None,
        };
        Ok((self.push(frame, op, &[x, y], None)?, letters))
    }

    /// Gathers slices along dimension `dim` at the indices in an array.
    pub(super) fn torch_index_select(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let operand = self.operand(access, frame, 0)?;
        let index = self.operand(access, frame, 1)?;
        let rank = self.array(access, frame, operand)?.rank() as i64;
        let index_rank = self.array(access, frame, index)?.rank() as i64;
        let dim = access.integer("dim")?;
        let batch = access.integer("batch_dims")?;
        if !(0..rank).contains(&dim) || !(0..=dim.min(index_rank)).contains(&batch) {
            return Err(access.error(format!("`dim` is {dim} and `batch_dims` is {batch}")));
        }
        let before = batch..dim;
        let behind = dim + index_rank - batch..rank + index_rank - batch - 1;
        let dims = GatherDims {
            offset_dims: before.chain(behind).collect(),
            collapsed_slice_dims: [dim].into_iter().collect(),
            start_index_map: [dim].into_iter().collect(),
            operand_batching_dims: (0..batch).collect(),
            start_indices_batching_dims: (0..batch).collect(),
            index_vector_dim: index_rank,
        };
        let sizes = self.array(access, frame, operand)?.dims.iter().enumerate();
        let slice_sizes = sizes.map(|(place, size)| {
            let place = place as i64;
            match place == dim || place < batch {
                true => 1,
                false => size.as_static().unwrap_or(TO_END),
            }
        });
        let op = Op::Gather {
            dims,
            slice_sizes: slice_sizes.collect(),
            indices_are_sorted: false,
        };
        self.push_result(access, frame, op, &[operand, index], None)
    }
}
