//! Lowers operations between devices.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use crate::mlir::Attribute;
use tegula_ir::{Collective, Dim, Op, ReplicaGroups, Shape};

impl<'m> Lowerer<'m> {
    pub(super) fn collective(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let op = match name {
            "replica_id" => Op::ReplicaId,
            "partition_id" => Op::PartitionId,
            "all_gather" => Op::AllGather {
                collective: self.described(access)?,
                dimension: access.integer("all_gather_dim")?,
                start: false,
            },
            "all_reduce" => Op::AllReduce {
                collective: self.described(access)?,
                to_apply: self.scalar_region(access, 0)?,
                start: false,
            },
            "reduce_scatter" => Op::ReduceScatter {
                collective: self.described(access)?,
                dimension: access.integer("scatter_dimension")?,
                to_apply: self.scalar_region(access, 0)?,
            },
            "all_to_all" => return self.all_to_all(access, frame, &operands),
            "collective_reduce" => return self.collective_reduce(access, frame, &operands),
            "collective_broadcast" if access.flag("has_dynamic_root")? => {
                return self.broadcast_from_roots(access, frame, &operands);
            }
            "collective_broadcast" => Op::CollectiveBroadcast(self.described(access)?),
            "collective_permute" => {
                let pairs = access.integers("source_target_pairs")?;
                Op::CollectivePermute {
                    pairs: pairs.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
                    channel_id: channel(access)?,
                    start: false,
                }
            }
            _ => return Err(access.unsupported("this operation is not supported")),
        };
        self.push_results(access, frame, op, &operands)
    }

    /// Lowers an all-to-all, which splits its operand along one dimension and concatenates the
    /// received parts along another. HLO's uses the same dimension for both, so the result is
    /// rearranged afterwards.
    fn all_to_all(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
        operands: &[Local],
    ) -> Result<(), Error> {
        let split = access.integer("split_dimension")?;
        let concat = access.integer("concat_dimension")?;
        let count = access.integer("split_count")?;
        let mut results = Vec::new();
        for operand in operands {
            let op = Op::AllToAll {
                collective: self.described(access)?,
                dimension: Some(split),
            };
            let rank = self.array(access, frame, *operand)?.rank() as i64;
            if !(0..rank).contains(&split) || !(0..rank).contains(&concat) {
                return Err(access.error(format!(
                    "expected dimensions below {rank}, found {split} and {concat}"
                )));
            }
            let mut result = self.push(frame, op, &[*operand], None)?;
            if split != concat {
                result = self.moved(access, frame, result, (split, concat, count))?;
            }
            results.push(result);
        }
        self.bind_all(access, frame, &results)
    }

    /// Moves `count` parts that are adjacent along one dimension to another dimension.
    fn moved(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        array: Local,
        (from, to, count): (i64, i64, i64),
    ) -> Result<Local, Error> {
        let shape = self.array(access, frame, array)?.clone();
        let fixed: Option<Vec<i64>> = shape.dims.iter().map(Dim::as_static).collect();
        let dims = fixed
            .ok_or_else(|| access.unsupported("an exchange of symbolic size is not supported"))?;
        let (from, to) = (from as usize, to as usize);
        let is_whole = count > 0 && dims[from] % count == 0;
        let joined = dims[to].checked_mul(count).filter(|_| is_whole);
        let joined = joined.ok_or_else(|| {
            access.error(format!(
                "a dimension of {} cannot be cut into {count} parts",
                dims[from]
            ))
        })?;
        // The parts become a separate dimension, which is moved before the one that they join.
        let mut cut = dims.clone();
        cut[from] /= count;
        let mut result = cut.clone();
        result[to] = joined;
        cut.insert(from, count);
        let mut order: Vec<i64> = (0..cut.len() as i64)
            .filter(|&d| d != from as i64)
            .collect();
        order.insert(to, from as i64);
        let of = |dims: &[i64]| {
            let mut like = shape.clone();
            like.dims = dims.iter().map(|&size| Dim::from(size)).collect();
            Some(Shape::Array(like))
        };
        let cut = self.push(frame, Op::Reshape, &[array], of(&cut))?;
        let op = Op::Transpose(order.into_iter().collect());
        let turned = self.push(frame, op, &[cut], None)?;
        self.push(frame, Op::Reshape, &[turned], of(&result))
    }

    /// Lowers the start of an asynchronous operation, whose results `async_done` waits for. Its
    /// region is inlined here, so each collective is finished where it starts.
    pub(super) fn async_start(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let block = self.only_block(access, access.region(0)?)?;
        let results = self.inlined_block(access, block, &operands, frame)?;
        let [future] = access.operation.results.as_slice() else {
            return Err(access.error("expected one result, a future"));
        };
        let results = self.tuple(frame, &results)?;
        frame.bind(*future, results);
        Ok(())
    }

    /// Lowers the wait for an `async_start`, whose results exist already.
    pub(super) fn async_done(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let future = self.operand(access, frame, 0)?;
        let results = self.elements(frame, future)?;
        self.bind_all(access, frame, &results)
    }

    /// The groups of a collective, and how devices are numbered.
    pub(super) fn described(&self, access: &Access<'_>) -> Result<Collective, Error> {
        let groups = match access.operation.attribute("replica_groups") {
            Some(value @ Attribute::Struct { .. }) => self.groups_of_axes(access, value)?,
            Some(Attribute::Elements(_)) => ReplicaGroups::Lists(groups(access)?),
            Some(_) => {
                return Err(access.unsupported("this form of `replica_groups` is not supported"));
            }
            None => ReplicaGroups::Lists(Vec::new()),
        };
        Ok(Collective {
            replica_groups: groups,
            channel_id: channel(access)?,
            use_global_device_ids: access.flag("use_global_device_ids")?,
            constrain_layout: false,
        })
    }
}

fn channel(access: &Access<'_>) -> Result<Option<i64>, Error> {
    if access.operation.attribute("channel_handle").is_none() {
        return Ok(None);
    }
    let handle = access.number("channel_handle", "handle")?;
    Ok((handle > 0).then_some(handle))
}

/// The groups as rows of device numbers; shorter rows are padded with -1.
fn groups(access: &Access<'_>) -> Result<Vec<Vec<i64>>, Error> {
    let Some(value) = access.operation.attribute("replica_groups") else {
        return Ok(Vec::new());
    };
    let Attribute::Elements(elements) = value else {
        return Err(access.error("expected rows of device numbers as `replica_groups`"));
    };
    let columns = elements
        .ty
        .as_tensor()
        .and_then(|tensor| match tensor.dims.as_slice() {
            [_, columns] => *columns,
            _ => None,
        });
    let columns = columns.and_then(|columns| usize::try_from(columns).ok());
    let numbers = access.integers("replica_groups")?;
    let columns = columns.ok_or_else(|| access.error("expected rows of device numbers"))?;
    if columns == 0 {
        return Ok(Vec::new());
    }
    let rows = numbers.chunks(columns);
    Ok(rows
        .map(|row| row.iter().copied().filter(|id| *id >= 0).collect())
        .collect())
}
