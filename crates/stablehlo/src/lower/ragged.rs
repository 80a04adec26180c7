//! `chlo.ragged_dot`: a product of matrices whose rows, terms or batches come in groups of different
//! sizes.
//!
//! Three meanings, by what the ragged dimension of the left side is. A dimension of the result
//! (`[b,m,k], [g,b,k,n], [b,g] -> [b,m,n]`): each group of rows has a right side of its own. A
//! dimension that is summed over (`[b,m,k], [b,k,n], [b,g] -> [g,b,m,n]`): each group of terms has a
//! result of its own. A batch: groups change nothing.
//!
//! The left side is written once for each group, with zeros where another group is, which makes
//! one ordinary product of it. That computes as many times too much as there are groups.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use tegula_ir::{
    ArrayShape, Binary, Dim, DimNumbers, Direction, DotDims, Op, Order, Shape, WindowDim,
};

const NUMBERS: &str = "ragged_dot_dimension_numbers";

impl<'m> Lowerer<'m> {
    pub(super) fn ragged_dot(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let [lhs, rhs, sizes] = [0, 1, 2].map(|place| self.operand(access, frame, place));
        let (lhs, mut rhs, sizes) = (lhs?, rhs?, sizes?);
        let dims = DotDims {
            lhs_batch: access.field(NUMBERS, "lhs_batching_dimensions")?,
            rhs_batch: access.field(NUMBERS, "rhs_batching_dimensions")?,
            lhs_contracting: access.field(NUMBERS, "lhs_contracting_dimensions")?,
            rhs_contracting: access.field(NUMBERS, "rhs_contracting_dimensions")?,
        };
        let ragged = access.field(NUMBERS, "lhs_ragged_dimensions")?;
        let group = access.field(NUMBERS, "rhs_group_dimensions")?;
        let rank = self.array(access, frame, lhs)?.rank() as i64;
        let ragged = match ragged.as_slice() {
            [only] if (0..rank).contains(only) => *only,
            _ => return Err(access.error("expected one ragged dimension of the left side")),
        };
        if dims.lhs_batch.contains(&ragged) {
            return self.ragged_product(access, frame, [lhs, rhs], dims);
        }
        let grouped = self.grouped(access, frame, (lhs, ragged), sizes, &dims)?;
        let behind = |list: &[i64]| list.iter().map(|dim| dim + 1).collect::<DimNumbers>();
        let mut all = DotDims {
            lhs_batch: behind(&dims.lhs_batch),
            lhs_contracting: behind(&dims.lhs_contracting),
            ..dims.clone()
        };
        if dims.lhs_contracting.contains(&ragged) {
            let groups = self.array(access, frame, grouped)?.dims[0].clone();
            rhs = self.repeated(access, frame, rhs, groups)?;
            all.rhs_batch = behind(&dims.rhs_batch);
            all.rhs_contracting = behind(&dims.rhs_contracting);
            all.lhs_batch.insert(0, 0);
            all.rhs_batch.insert(0, 0);
        } else {
            let [group] = group.as_slice() else {
                return Err(access.error("expected one group dimension of the right side"));
            };
            all.lhs_contracting.insert(0, 0);
            all.rhs_contracting.insert(0, *group);
        }
        self.ragged_product(access, frame, [grouped, rhs], all)
    }

    fn ragged_product(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        operands: [Local; 2],
        dims: DotDims,
    ) -> Result<(), Error> {
        let op = Op::Dot {
            dims,
            precision: access.precision()?,
            algorithm: None,
        };
        self.push_result(access, frame, op, &operands, None)
    }

    /// An array once for each group, as a new first dimension.
    fn repeated(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        x: Local,
        groups: Dim,
    ) -> Result<Local, Error> {
        let mut shape = self.array(access, frame, x)?.clone();
        let rank = shape.rank() as i64;
        shape.dims.insert(0, groups);
        let op = Op::Broadcast((1..=rank).collect());
        self.push(frame, op, &[x], Some(Shape::Array(shape)))
    }

    /// The left side once for each group, zero where the group is not.
    fn grouped(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        (lhs, ragged): (Local, i64),
        sizes: Local,
        dims: &DotDims,
    ) -> Result<Local, Error> {
        let array = self.array(access, frame, sizes)?.clone();
        let own = array.rank();
        let groups = array.dims.last().cloned();
        let groups = groups.ok_or_else(|| access.error("expected sizes of groups"))?;
        if own != 1 && own != 1 + dims.lhs_batch.len() {
            return Err(access.unsupported("sizes of groups that differ along other dimensions"));
        }
        let ends = self.ends_of_groups(access, frame, sizes, &array)?;
        let starts = self.push(frame, Op::Binary(Binary::Subtract), &[ends, sizes], None)?;
        let repeated = self.repeated(access, frame, lhs, groups)?;
        let mut shape = self.array(access, frame, repeated)?.clone();
        shape.element_type = array.element_type;
        let shape = Shape::Array(shape);
        // Dimensions of the sizes: batches, where they have them, then groups.
        let batches = dims.lhs_batch.iter().take(own - 1).map(|dim| dim + 1);
        let places: DimNumbers = batches.chain([0]).collect();
        let spread =
            |frame: &mut Frame, x| self.broadcast_in_dim(access, frame, x, &places, shape.clone());
        let (starts, ends) = (spread(frame, starts)?, spread(frame, ends)?);
        let place = self.push(frame, Op::Iota(1 + ragged), &[], Some(shape.clone()))?;
        let compare = |frame: &mut Frame, direction, a, b| {
            let order = Order::Partial;
            self.push(frame, Op::Compare { direction, order }, &[a, b], None)
        };
        let begun = compare(frame, Direction::Ge, place, starts)?;
        let not_over = compare(frame, Direction::Lt, place, ends)?;
        let within = self.push(frame, Op::Binary(Binary::And), &[begun, not_over], None)?;
        let zero = self.filled_like(frame, repeated, 0.0)?;
        self.push(frame, Op::Select, &[within, repeated, zero], None)
    }

    /// Where each group ends: running sums of the sizes.
    fn ends_of_groups(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        sizes: Local,
        array: &ArrayShape,
    ) -> Result<Local, Error> {
        let groups = array.dims.last().and_then(Dim::as_static);
        let groups = groups.ok_or_else(|| access.unsupported("a number of groups not known"))?;
        let mut window = vec![WindowDim::TRIVIAL; array.rank()];
        if let Some(last) = window.last_mut() {
            last.size = groups.max(1);
            last.padding_low = groups.max(1) - 1;
        }
        let op = Op::ReduceWindow {
            window,
            to_apply: self.sum_of(array.element_type)?,
        };
        let zero = self.scalar_like(frame, sizes, 0.0)?;
        self.push(frame, op, &[sizes, zero], None)
    }
}
