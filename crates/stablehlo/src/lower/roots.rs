//! Lowers collectives with a root: one member of each group, which provides an array, or which
//! receives the result of a reduction.
//!
//! HLO has only the broadcast from the first member. The others are composed: of an all-gather and
//! a slice at the root, and of an all-reduce whose result is replaced by zeros on the other
//! members.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use tegula_ir::{
    ArrayShape, Collective, Dim, DimNumbers, Direction, ElementType, Literal, Op, Order, Shape,
    SliceDim,
};

/// The maximum number of replicas, which bounds the work for hostile programs.
const MAX_REPLICAS: usize = 1 << 16;

/// The groups of replicas of an operation with roots.
struct Groups {
    collective: Collective,
    lists: Vec<Vec<i64>>,
}

impl<'m> Lowerer<'m> {
    /// A reduction whose result only the root of each group receives; the other members get zeros.
    pub(super) fn collective_reduce(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
        operands: &[Local],
    ) -> Result<(), Error> {
        let groups = self.groups_with_roots(access)?;
        let (arrays, roots) = match access.flag("has_dynamic_root")? {
            true => {
                arrays_and_roots(access, operands).map(|(arrays, roots)| (arrays, Some(roots)))?
            }
            false => (operands, None),
        };
        let position = self.position(frame, &groups.lists)?;
        let op = Op::AllReduce {
            collective: groups.collective,
            to_apply: self.scalar_region(access, 0)?,
            start: false,
        };
        let sums = self.push(frame, op, arrays, None)?;
        let sums = match arrays.len() {
            1 => vec![sums],
            _ => self.elements(frame, sums)?,
        };
        let mut results = Vec::new();
        for (place, sum) in sums.into_iter().enumerate() {
            let root = match roots {
                Some(roots) => self.root(frame, roots, place)?,
                None => self.scalar(frame, 0)?,
            };
            let equal = Op::Compare {
                direction: Direction::Eq,
                order: Order::Partial,
            };
            let is_root = self.push(frame, equal, &[position, root], None)?;
            let shape = frame.shape(sum).clone();
            let zero = self.scalar_like(frame, sum, 0.0)?;
            let spread = Op::Broadcast(DimNumbers::new());
            let zeros = self.push(frame, spread, &[zero], Some(shape))?;
            results.push(self.push(frame, Op::Select, &[is_root, sum, zeros], None)?);
        }
        self.bind_all(access, frame, &results)
    }

    /// A broadcast whose roots are known only at run time: the last operand contains, for each
    /// array, the root's position in the group.
    pub(super) fn broadcast_from_roots(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
        operands: &[Local],
    ) -> Result<(), Error> {
        let groups = self.groups_with_roots(access)?;
        let (arrays, roots) = arrays_and_roots(access, operands)?;
        let size = groups.lists.first().map_or(0, Vec::len) as i64;
        if size == 0 || groups.lists.iter().any(|group| group.len() as i64 != size) {
            return Err(access.unsupported(
                "roots in groups that are not stated, or differ in size, are not supported",
            ));
        }
        let mut results = Vec::new();
        for (place, array) in arrays.iter().enumerate() {
            let shape = self.array(access, frame, *array)?.clone();
            // The arrays of all members are gathered along a new dimension, from which the root's
            // is taken.
            let mut stacked = shape.clone();
            stacked.dims.insert(0, Dim::from(1));
            let alone = self.push(frame, Op::Reshape, &[*array], Some(Shape::Array(stacked)))?;
            let gather = Op::AllGather {
                collective: groups.collective.clone(),
                dimension: 0,
                start: false,
            };
            let sizes: Option<DimNumbers> = shape.dims.iter().map(Dim::as_static).collect();
            let sizes = sizes.ok_or_else(|| {
                access.unsupported("a broadcast of symbolic size is not supported")
            })?;
            let all = self.push(frame, gather, &[alone], None)?;
            let mut starts = vec![all, self.root(frame, roots, place)?];
            for _ in &sizes {
                starts.push(self.scalar(frame, 0)?);
            }
            let op = Op::DynamicSlice(std::iter::once(1).chain(sizes).collect());
            let own = self.push(frame, op, &starts, None)?;
            results.push(self.push(frame, Op::Reshape, &[own], Some(Shape::Array(shape)))?);
        }
        self.bind_all(access, frame, &results)
    }

    /// The groups, which must be of replicas: the operations of which these are composed number
    /// devices across partitions in another way than a broadcast does.
    fn groups_with_roots(&self, access: &Access<'_>) -> Result<Groups, Error> {
        let collective = self.described(access)?;
        if collective.channel_id.is_some() || collective.use_global_device_ids {
            return Err(access.unsupported("roots of groups across partitions are not supported"));
        }
        let lists = collective.replica_groups.listed();
        let lists = lists
            .ok_or_else(|| access.unsupported("this form of `replica_groups` is not supported"))?;
        Ok(Groups { collective, lists })
    }

    /// The position of this replica in its group; -1 if it is in none.
    fn position(&self, frame: &mut Frame, groups: &[Vec<i64>]) -> Result<Local, Error> {
        let own = self.push(frame, Op::ReplicaId, &[], None)?;
        let scalar = || Some(Shape::Array(ArrayShape::new(ElementType::S32, &[])));
        let Some(&last) = groups.iter().flatten().max() else {
            return self.push(frame, Op::Convert, &[own], scalar());
        };
        let count = usize::try_from(last)
            .ok()
            .filter(|&last| last < MAX_REPLICAS);
        let count = 1 + count.ok_or_else(|| {
            Error::input(format!(
                "expected replicas below {MAX_REPLICAS}, found {last}"
            ))
        })?;
        let mut positions = vec![-1_i32; count];
        for (position, &id) in groups.iter().flat_map(|group| group.iter().enumerate()) {
            if let Some(entry) = usize::try_from(id)
                .ok()
                .and_then(|id| positions.get_mut(id))
            {
                *entry = position as i32;
            }
        }
        let table = Literal::from_values(&[count as i64], &positions);
        let table = table.map_err(|error| Error::input(error.to_string()))?;
        let table = self.push(frame, Op::Constant([table].into()), &[], None)?;
        let op = Op::DynamicSlice([1].into_iter().collect());
        let found = self.push(frame, op, &[table, own], None)?;
        self.push(frame, Op::Reshape, &[found], scalar())
    }

    /// The root of one array.
    fn root(&self, frame: &mut Frame, roots: Local, place: usize) -> Result<Local, Error> {
        let start = place as i64;
        let only = SliceDim {
            start,
            limit: start + 1,
            stride: 1,
        };
        let root = self.push(frame, Op::Slice(vec![only]), &[roots], None)?;
        let scalar = Shape::Array(ArrayShape::new(ElementType::S32, &[]));
        self.push(frame, Op::Reshape, &[root], Some(scalar))
    }

    fn scalar(&self, frame: &mut Frame, value: i32) -> Result<Local, Error> {
        let constant = Op::Constant([Literal::from_value(value)].into());
        self.push(frame, constant, &[], None)
    }
}

/// The arrays, and the last operand, which contains their roots.
fn arrays_and_roots<'o>(
    access: &Access<'_>,
    operands: &'o [Local],
) -> Result<(&'o [Local], Local), Error> {
    match operands.split_last() {
        Some((roots, arrays)) if !arrays.is_empty() => Ok((arrays, *roots)),
        _ => Err(access.error("expected arrays and their roots as operands")),
    }
}
