//! Operations between devices.

use super::{Frame, Lowerer, access::Access};
use crate::Error;
use crate::mlir::Attribute;
use tegula_ir::{Collective, Op, ReplicaGroups};

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
            "all_to_all" => {
                let split = access.integer("split_dimension")?;
                if access.integer("concat_dimension")? != split {
                    return Err(access.unsupported(
                        "`split_dimension` and `concat_dimension` differ: transpose the operand \
                         and the result instead",
                    ));
                }
                Op::AllToAll {
                    collective: self.described(access)?,
                    dimension: Some(split),
                }
            }
            "collective_broadcast" => {
                if access.flag("has_dynamic_root")? {
                    return Err(access.unsupported(
                        "a root that is known only at run time (`has_dynamic_root`)",
                    ));
                }
                Op::CollectiveBroadcast(self.described(access)?)
            }
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

    /// Who takes part, and how devices are numbered.
    fn described(&self, access: &Access<'_>) -> Result<Collective, Error> {
        let groups = match access.operation.attribute("replica_groups") {
            Some(value @ Attribute::Struct { .. }) => self.groups_of_axes(access, value)?,
            Some(Attribute::Elements(_)) => ReplicaGroups::Lists(groups(access)?),
            Some(_) => {
                return Err(access.unsupported("this form of `replica_groups` is not known"));
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

/// Rows of device numbers; shorter groups are filled up with -1.
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
