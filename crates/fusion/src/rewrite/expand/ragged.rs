//! Expands `ragged-dot` into a loop over its groups. A `ragged-dot` is a matrix product whose rows,
//! terms or batches come in groups of different sizes.
//!
//! It has three meanings, depending on the ragged dimension of the left operand. If that is a
//! dimension of the result (`[b,m,k], [g,b,k,n], [b,g] -> [b,m,n]`), each group of rows has its own
//! right operand. If it is contracted (`[b,m,k], [b,k,n], [b,g] -> [g,b,m,n]`), each group of terms
//! has its own result. If it is a batch dimension, the groups change nothing.
//!
//! Each step computes the full product and selects its own rows from it, or computes it with the
//! terms of other groups set to zero. For `g` groups, that is `g` times the necessary work.
//! Elements of other groups are removed by `select` rather than by multiplying by zero, so that a
//! NaN in one group does not spread to others.

use super::mixed::narrowed;
use super::{along, converted, plain};
use tegula_ir::helpers::{Dimensions, RaggedRole, kept_dimensions, product_type};
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ComputationId, DimNumbers, Direction, DotDims,
    ElementType, Error, InstructionId, ModuleBuilder, Op, Shape,
};

/// The indices of the loop states.
const LHS: usize = 1;
const RHS: usize = 2;
const SIZES: usize = 3;
/// The end of the groups so far, and the largest end so far.
const END: usize = 4;
const REACHED: usize = 5;
const RESULT: usize = 6;

/// The attributes of a `ragged-dot`.
struct Ragged {
    /// The ordinary product for one group.
    product: Op,
    dims: DotDims,
    role: RaggedRole,
    ragged: usize,
    group: Option<usize>,
    /// The dimensions of the left operand that the array of group sizes has too.
    prefix: Dimensions,
    lhs_rank: usize,
}

impl Ragged {
    fn of(op: &Op, lhs: &ArrayShape, sizes: &ArrayShape) -> Option<Self> {
        let Op::RaggedDot {
            dims,
            precision,
            lhs_ragged_dims,
            rhs_group_dims,
        } = op
        else {
            return None;
        };
        let ragged = usize::try_from(*lhs_ragged_dims.first()?).ok()?;
        let role = dims.ragged_role(ragged);
        let group = rhs_group_dims.first().map(|&dim| usize::try_from(dim));
        let group = group.transpose().ok()?;
        let prefix = match sizes.rank() {
            1 => Dimensions::new(),
            _ => dims.group_prefix(ragged, lhs.rank()),
        };
        let without_group = |list: &DimNumbers| -> DimNumbers {
            let moved = |&dim| dim - i64::from(group.is_some_and(|group| dim > group as i64));
            list.iter().map(moved).collect()
        };
        let own = DotDims {
            rhs_batch: without_group(&dims.rhs_batch),
            rhs_contracting: without_group(&dims.rhs_contracting),
            ..dims.clone()
        };
        Some(Self {
            product: Op::Dot {
                dims: own,
                precision: precision.clone(),
                algorithm: None,
            },
            dims: dims.clone(),
            role,
            ragged,
            group,
            prefix,
            lhs_rank: lhs.rank(),
        })
    }
}

/// The computation of a `ragged-dot`.
pub(super) fn expand(
    builder: &mut ModuleBuilder,
    op: &Op,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let ([Shape::Array(lhs), Shape::Array(rhs), Shape::Array(sizes)], Shape::Array(result)) =
        (operands, result)
    else {
        return Err(Error::input(
            "expected a ragged dot product of three arrays, with an array as its result",
        ));
    };
    let ragged = Ragged::of(op, lhs, sizes);
    let ragged =
        ragged.ok_or_else(|| Error::input("the ragged dot product has no ragged dimension"))?;
    let ty = product_type(lhs.element_type, rhs.element_type, result.element_type);
    let sums = result.with_element_type(ty);
    let (lhs, rhs, sizes) = (plain(lhs), plain(rhs), plain(sizes));
    let of_groups = sizes.with_element_type(ElementType::S64);
    let mut of_prefix = of_groups.clone();
    of_prefix.dims.pop();
    let states = [
        ArrayShape::new(ElementType::S32, &[]),
        lhs.with_element_type(ty),
        rhs.with_element_type(ty),
        of_groups,
        of_prefix.clone(),
        of_prefix.clone(),
        sums.clone(),
    ];
    let states = Shape::Tuple(states.map(Shape::Array).to_vec());
    let measured = (SIZES as i64, sizes.rank() as i64 - 1);
    let looped = match along::is_empty(&states, measured) || ragged.role == RaggedRole::Batch {
        true => None,
        false => {
            let condition = along::steps_left(builder, &states, measured)?;
            Some((condition, ragged.body(builder, states)?))
        }
    };
    let mut b = builder.computation("ragged_product");
    let [l, r, s] = [lhs, rhs, sizes].map(|shape| b.parameter(Shape::Array(shape)));
    let (l, r) = (converted(&mut b, l, ty)?, converted(&mut b, r, ty)?);
    let done = match looped {
        None if ragged.role == RaggedRole::Batch => {
            b.push_with_shape(ragged.product, &[l, r], Shape::Array(sums))?
        }
        None => along::zeros(&mut b, &sums)?,
        Some((condition, body)) => {
            let s = converted(&mut b, s, ElementType::S64)?;
            let none = along::zeros(&mut b, &of_prefix)?;
            let start = along::zeros(&mut b, &sums)?;
            let zero = b.scalar(0i32)?;
            let init = b.tuple(&[zero, l, r, s, none, none, start])?;
            let done = b.while_loop(condition, body, init)?;
            b.get_tuple_element(done, RESULT as i64)?
        }
    };
    let root = narrowed(&mut b, done, result)?;
    b.finish(root)
}

impl Ragged {
    /// The loop body: the product of one group.
    fn body(&self, builder: &mut ModuleBuilder, states: Shape) -> Result<ComputationId, Error> {
        let mut b = builder.computation("group_product");
        let p = b.parameter(states);
        let mut states = along::elements(&mut b, p)?;
        let step = states[0];
        let last = b.array_shape(states[SIZES])?.rank() - 1;
        let size = along::at(&mut b, states[SIZES], last, step)?;
        let end = b.binary(Binary::Add, states[END], size)?;
        let bounds = [states[REACHED], end];
        states[RESULT] = match self.role {
            RaggedRole::Contracted => {
                states[REACHED] = end;
                self.terms(&mut b, &states, bounds)?
            }
            _ => {
                // A row belongs to the first group whose end is beyond it, even if some sizes are
                // negative.
                states[REACHED] = b.binary(Binary::Maximum, states[REACHED], end)?;
                self.rows(&mut b, &states, bounds)?
            }
        };
        states[END] = end;
        states[0] = along::next_step(&mut b, step)?;
        let root = b.tuple(&states)?;
        b.finish(root)
    }

    /// The result with the rows of the current group written.
    fn rows(
        &self,
        b: &mut ComputationBuilder<'_>,
        states: &[InstructionId],
        bounds: [InstructionId; 2],
    ) -> Result<InstructionId, Error> {
        let group = self
            .group
            .ok_or_else(|| Error::input("the ragged dot product has no group dimension"))?;
        let rhs = along::at(b, states[RHS], group, states[0])?;
        let shape = plain(b.array_shape(states[RESULT])?);
        let sums = Shape::Array(shape.clone());
        let product = b.push_with_shape(self.product.clone(), &[states[LHS], rhs], sums)?;
        // The dimensions of the result: batches, then the free dimensions of the left operand.
        let others = [&self.dims.lhs_batch[..], &self.dims.lhs_contracting].concat();
        let batches = self.dims.lhs_batch.iter().map(|&dim| dim as usize);
        let free = kept_dimensions(&others, self.lhs_rank);
        let order: Vec<usize> = batches.chain(free).collect();
        let inside = self.within(b, bounds, &shape, &order)?;
        b.select(inside, product, states[RESULT])
    }

    /// The result with the product of the current group's terms written.
    fn terms(
        &self,
        b: &mut ComputationBuilder<'_>,
        states: &[InstructionId],
        bounds: [InstructionId; 2],
    ) -> Result<InstructionId, Error> {
        let own: Vec<usize> = (0..self.lhs_rank).collect();
        let lhs = self.only_within(b, states[LHS], bounds, &own)?;
        // For each dimension of the right operand, the dimension of the left operand that it is
        // paired with.
        let rank = b.array_shape(states[RHS])?.rank();
        let mut pairs = vec![usize::MAX; rank];
        let DotDims {
            lhs_batch,
            rhs_batch,
            lhs_contracting,
            rhs_contracting,
        } = &self.dims;
        let left = lhs_batch.iter().chain(lhs_contracting);
        for (&l, &r) in left.zip(rhs_batch.iter().chain(rhs_contracting)) {
            pairs[r as usize] = l as usize;
        }
        let rhs = self.only_within(b, states[RHS], bounds, &pairs)?;
        let mut shape = plain(b.array_shape(states[RESULT])?);
        shape.dims.remove(0);
        let sums = Shape::Array(shape);
        let product = b.push_with_shape(self.product.clone(), &[lhs, rhs], sums)?;
        along::written_at(b, states[RESULT], product, 0, states[0])
    }

    /// An operand with everything outside the current group set to zero.
    fn only_within(
        &self,
        b: &mut ComputationBuilder<'_>,
        x: InstructionId,
        bounds: [InstructionId; 2],
        dims: &[usize],
    ) -> Result<InstructionId, Error> {
        let shape = plain(b.array_shape(x)?);
        let inside = self.within(b, bounds, &shape, dims)?;
        let zeros = along::zeros(b, &shape)?;
        b.select(inside, x, zeros)
    }

    /// Whether an array's elements are between bounds along the ragged dimension. `dims` gives for
    /// each dimension of the array the corresponding dimension of the left operand.
    fn within(
        &self,
        b: &mut ComputationBuilder<'_>,
        [start, end]: [InstructionId; 2],
        shape: &ArrayShape,
        dims: &[usize],
    ) -> Result<InstructionId, Error> {
        let of = |dim: usize| dims.iter().position(|&d| d == dim);
        let places: Option<Vec<usize>> = self.prefix.iter().map(|&dim| of(dim)).collect();
        let (Some(places), Some(ragged)) = (places, of(self.ragged)) else {
            return Err(Error::bug(
                "an operand does not have all dimensions of the groups",
            ));
        };
        let place = along::index(b, ragged, shape)?;
        let start = along::spread(b, start, &places, shape)?;
        let end = along::spread(b, end, &places, shape)?;
        let begun = b.compare(Direction::Ge, place, start)?;
        let not_over = b.compare(Direction::Lt, place, end)?;
        b.binary(Binary::And, begun, not_over)
    }
}
