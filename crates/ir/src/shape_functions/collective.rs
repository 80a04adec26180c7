//! Shape functions of operations between devices.

use super::context::{Context, Inferred, ShapeOf, array};
use crate::{Collective, Op, Opcode, ReplicaGroups, Shape};
use tegula_expr::Provider;

impl<P: Provider> Context<'_, P> {
    pub(super) fn collective(&mut self) -> Inferred<P::Index> {
        match self.op {
            Op::AllReduce { .. } | Op::CollectiveBroadcast(_) => self.each_operand(Self::same_as),
            Op::AllToAll {
                dimension: Some(_), ..
            } => self.each_operand(Self::same_as),
            // Devices exchange whole operands, so the result is a tuple, even of one element.
            Op::AllToAll { .. } => {
                let elements = (0..self.operands.len()).map(|operand| self.same_as(operand));
                elements.collect::<Result<_, _>>().map(ShapeOf::Tuple)
            }
            Op::RaggedAllToAll(_) => self.same_as(1),
            Op::AllGather {
                collective,
                dimension,
                start,
            } => self.all_gather(collective, *dimension, *start),
            Op::ReduceScatter {
                collective,
                dimension,
                ..
            } => self.reduce_scatter(collective, *dimension),
            Op::CollectivePermute { start: false, .. } => match self.operands.len() {
                // The in-place form, whose second operand is written to.
                4 => self.same_as(1),
                _ => self.each_operand(Self::same_as),
            },
            Op::CollectivePermute { start: true, .. } => match self.operands.len() {
                1 => self.started(0, vec![self.operand(0)?.clone()], Vec::new()),
                _ => self.as_stated(),
            },
            Op::CollectiveDone(Opcode::AllReduceDone) => self.same_as(0),
            Op::CollectiveDone(_) => self.element(1),
            _ => Err(self.error("has no shape function")),
        }
    }

    /// The number of devices in a group, if it is stated.
    ///
    /// With a channel and without global ids, each replica of a group represents all its
    /// partitions, and the instruction does not state their number.
    fn group_size(&self, collective: &Collective) -> Option<i64> {
        if collective.channel_id.is_some() && !collective.use_global_device_ids {
            return None;
        }
        match &collective.replica_groups {
            ReplicaGroups::Lists(groups) => {
                let size = groups.first().map(Vec::len).filter(|&size| size > 0)?;
                i64::try_from(size).ok()
            }
            ReplicaGroups::Iota { dims, .. } => dims.get(1).copied(),
        }
    }

    fn all_gather(
        &mut self,
        collective: &Collective,
        dimension: i64,
        start: bool,
    ) -> Inferred<P::Index> {
        let Some(size) = self.group_size(collective) else {
            return self.as_stated();
        };
        let result = self.each_operand(|context, operand| {
            let place = context.dimension(operand, dimension)?;
            let ty = context.array(operand)?.element_type;
            let mut dims = context.dims(operand)?;
            let factor = context.literal(size);
            if let Some(dim) = dims.get_mut(place) {
                *dim = context.provider.mul(dim, &factor);
            }
            Ok(array(ty, dims))
        })?;
        if !start {
            return Ok(result);
        }
        let operands = match self.operands {
            [operand] => (*operand).clone(),
            operands => Shape::Tuple(operands.iter().map(|&shape| shape.clone()).collect()),
        };
        Ok(ShapeOf::Tuple(vec![ShapeOf::Same(operands), result]))
    }

    fn reduce_scatter(&mut self, collective: &Collective, dimension: i64) -> Inferred<P::Index> {
        let Some(size) = self.group_size(collective) else {
            return self.as_stated();
        };
        self.each_operand(|context, operand| {
            let place = context.dimension(operand, dimension)?;
            let ty = context.array(operand)?.element_type;
            let mut dims = context.dims(operand)?;
            let divisor = context.literal(size);
            if let Some(dim) = dims.get_mut(place) {
                let rest = context.provider.modulo(dim, &divisor);
                let zero = context.literal(0);
                context.same(&rest, &zero, "the remainder of the scattered size and 0")?;
                *dim = context.provider.floor_div(dim, &divisor);
            }
            Ok(array(ty, dims))
        })
    }
}
