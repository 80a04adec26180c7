//! Groups of devices that take part together in a collective.
//!
//! The meaning of the numbers in `replica_groups=` depends on the operation's channel and flags.
//! These are XLA's modes, which StableHLO has as well:
//!
//! | `channel_id=` | `use_global_device_ids=` | a number is | a group consists of |
//! |---|---|---|---|
//! | no | no | a replica | these replicas, separately for each partition |
//! | yes | (operation has none) | a partition | these partitions, separately for each replica |
//! | yes | false | a replica | all partitions of these replicas |
//! | yes | true | a device | these devices |
//!
//! Without groups, all devices that the mode allows take part together.

use crate::topology::Topology;
use tegula_ir::{Collective, Module, Op, ReplicaGroups};

/// The meaning of the numbers in groups; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    CrossReplica,
    CrossPartition,
    CrossReplicaAndPartition,
    FlattenedIds,
}

impl Mode {
    /// The mode of an operation with the flag for global ids, or of one without that flag (`None`).
    fn new(channel_id: Option<i64>, global: Option<bool>) -> Result<Self, GroupError> {
        match (channel_id, global) {
            (None, None | Some(false)) => Ok(Self::CrossReplica),
            (None, Some(true)) => Err(GroupError::GlobalWithoutChannel),
            (Some(_), None) => Ok(Self::CrossPartition),
            (Some(_), Some(false)) => Ok(Self::CrossReplicaAndPartition),
            (Some(_), Some(true)) => Ok(Self::FlattenedIds),
        }
    }

    /// The number of valid numbers.
    fn numbers(self, topology: Topology) -> usize {
        match self {
            Self::CrossReplica | Self::CrossReplicaAndPartition => topology.replicas,
            Self::CrossPartition => topology.partitions,
            Self::FlattenedIds => topology.devices(),
        }
    }

    /// The number that represents a device.
    fn number(self, topology: Topology, device: usize) -> usize {
        match self {
            Self::CrossReplica | Self::CrossReplicaAndPartition => topology.replica(device),
            Self::CrossPartition => topology.partition(device),
            Self::FlattenedIds => device,
        }
    }

    /// The devices that a number represents, from the view of a device.
    fn devices(self, topology: Topology, device: usize, number: usize) -> Vec<usize> {
        match self {
            Self::CrossReplica => vec![topology.device(number, topology.partition(device))],
            Self::CrossPartition => vec![topology.device(topology.replica(device), number)],
            Self::CrossReplicaAndPartition => (0..topology.partitions)
                .map(|partition| topology.device(number, partition))
                .collect(),
            Self::FlattenedIds => vec![number],
        }
    }
}

/// The group of a device in a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Numbers of the devices, in the operation's order.
    pub members: Vec<usize>,
    /// The device's position among them.
    pub position: usize,
}

/// The reason why an operation's groups are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Global ids need a channel.
    #[error("`use_global_device_ids` needs a `channel_id`")]
    GlobalWithoutChannel,
    /// Global ids need groups.
    #[error("`use_global_device_ids` needs `replica_groups` that name devices")]
    GlobalWithoutGroups,
    /// A number is out of range.
    #[error("the groups contain {number}: expected numbers from 0 to below {count}")]
    OutOfRange {
        /// The number.
        number: i64,
        /// The number of valid numbers.
        count: usize,
    },
    /// A number occurs twice.
    #[error("the groups contain {number} twice: expected each number once")]
    Twice {
        /// The number.
        number: i64,
    },
    /// A device is not in any group.
    #[error("device {device} is in no group: expected each device in one group")]
    Left {
        /// The device.
        device: usize,
    },
    /// The iota form does not describe a list of groups.
    #[error(
        "the iota form of the groups must have two dimensions: the number of groups and the size of a group"
    )]
    Iota,
    /// The operation is not a collective.
    #[error("expected a collective operation, which has groups")]
    NoCollective,
}

/// The groups that an operation states, and the meaning of their numbers.
fn grouped(op: &Op) -> Result<(&Collective, Mode), GroupError> {
    let (collective, global) = match op {
        Op::AllGather { collective, .. }
        | Op::AllReduce { collective, .. }
        | Op::ReduceScatter { collective, .. } => {
            (collective, Some(collective.use_global_device_ids))
        }
        Op::AllToAll { collective, .. }
        | Op::RaggedAllToAll(collective)
        | Op::CollectiveBroadcast(collective) => (collective, None),
        _ => return Err(GroupError::NoCollective),
    };
    Ok((collective, Mode::new(collective.channel_id, global)?))
}

impl Group {
    /// The group of a device in a collective.
    ///
    /// # Errors
    /// Groups that are invalid for this topology or do not contain the device. A
    /// `collective-broadcast` need not contain all devices; for the others the result is `None`.
    pub fn of(op: &Op, topology: Topology, device: usize) -> Result<Option<Self>, GroupError> {
        if let Op::CollectivePermute { channel_id, .. } = op {
            let mode = Mode::new(*channel_id, None)?;
            return Self::all(mode, topology, device).map(Some);
        }
        let (collective, mode) = grouped(op)?;
        match (Self::stated(collective, mode, topology, device)?, op) {
            (None, Op::CollectiveBroadcast(_)) => Ok(None),
            (None, _) => Err(GroupError::Left { device }),
            (group, _) => Ok(group),
        }
    }

    /// All groups of a collective, as device numbers in the operation's order.
    ///
    /// # Errors
    /// As [`Group::of`], but devices may be in no group.
    pub fn all_of(op: &Op, topology: Topology) -> Result<Vec<Vec<usize>>, GroupError> {
        let (collective, mode) = grouped(op)?;
        let lists = match &collective.replica_groups {
            ReplicaGroups::Lists(groups) if groups.iter().all(Vec::is_empty) => match mode {
                Mode::FlattenedIds => return Err(GroupError::GlobalWithoutGroups),
                _ => vec![(0..mode.numbers(topology) as i64).collect()],
            },
            groups => groups.listed().ok_or(GroupError::Iota)?,
        };
        let lists = checked(&lists, mode.numbers(topology))?;
        // The devices whose views of the groups do not overlap.
        let apart: Vec<usize> = match mode {
            Mode::CrossReplica => (0..topology.partitions).collect(),
            Mode::CrossPartition => (0..topology.replicas)
                .map(|replica| topology.device(replica, 0))
                .collect(),
            Mode::CrossReplicaAndPartition | Mode::FlattenedIds => vec![0],
        };
        let mut groups = Vec::new();
        for &device in &apart {
            for numbers in &lists {
                let members = numbers.iter();
                let members = members.flat_map(|&number| mode.devices(topology, device, number));
                groups.push(members.collect());
            }
        }
        Ok(groups)
    }

    /// The pairs of a permute, as device numbers: source, target.
    ///
    /// # Errors
    /// An invalid number; an operation that is not a permute.
    pub fn pairs(op: &Op, topology: Topology) -> Result<Vec<(usize, usize)>, GroupError> {
        let Op::CollectivePermute {
            pairs, channel_id, ..
        } = op
        else {
            return Err(GroupError::NoCollective);
        };
        let mode = Mode::new(*channel_id, None)?;
        let count = mode.numbers(topology);
        let checked = |number: i64| {
            let found = usize::try_from(number).ok().filter(|found| *found < count);
            found.ok_or(GroupError::OutOfRange { number, count })
        };
        let apart = match mode {
            Mode::CrossPartition => topology.replicas,
            _ => topology.partitions,
        };
        let mut found = Vec::new();
        for &(from, to) in pairs {
            let (from, to) = (checked(from)?, checked(to)?);
            for other in 0..apart {
                let device = |number| match mode {
                    Mode::CrossPartition => topology.device(other, number),
                    _ => topology.device(number, other),
                };
                found.push((device(from), device(to)));
            }
        }
        Ok(found)
    }

    /// Whether a collective exchanges nothing, because the module is for one device and the
    /// operation names no other.
    pub fn is_alone(module: &Module, op: &Op) -> bool {
        let attributes = &module.attributes;
        let counts = [attributes.replica_count, attributes.num_partitions];
        counts.into_iter().flatten().all(|count| count == 1)
            && matches!(Self::of(op, Topology::ALONE, 0), Ok(Some(_)))
    }

    /// The group of all devices that the mode allows.
    fn all(mode: Mode, topology: Topology, device: usize) -> Result<Self, GroupError> {
        let numbers: Vec<usize> = (0..mode.numbers(topology)).collect();
        Self::new(mode, topology, device, &numbers).ok_or(GroupError::Left { device })
    }

    fn stated(
        collective: &Collective,
        mode: Mode,
        topology: Topology,
        device: usize,
    ) -> Result<Option<Self>, GroupError> {
        let groups = match &collective.replica_groups {
            ReplicaGroups::Lists(groups) if groups.iter().all(Vec::is_empty) => {
                return match mode {
                    Mode::FlattenedIds => Err(GroupError::GlobalWithoutGroups),
                    _ => Self::all(mode, topology, device).map(Some),
                };
            }
            groups => groups.listed().ok_or(GroupError::Iota)?,
        };
        let groups = checked(&groups, mode.numbers(topology))?;
        let own = mode.number(topology, device);
        let group = groups.into_iter().find(|group| group.contains(&own));
        Ok(group.and_then(|numbers| Self::new(mode, topology, device, &numbers)))
    }

    fn new(mode: Mode, topology: Topology, device: usize, numbers: &[usize]) -> Option<Self> {
        let members: Vec<usize> = numbers
            .iter()
            .flat_map(|&number| mode.devices(topology, device, number))
            .collect();
        let position = members.iter().position(|&member| member == device)?;
        Some(Self { members, position })
    }
}

/// The groups, if all numbers are in range and occur once.
fn checked(groups: &[Vec<i64>], count: usize) -> Result<Vec<Vec<usize>>, GroupError> {
    let mut seen = vec![false; count];
    for &number in groups.iter().flatten() {
        let slot = usize::try_from(number).ok().and_then(|n| seen.get_mut(n));
        match slot {
            None => return Err(GroupError::OutOfRange { number, count }),
            Some(seen) if *seen => return Err(GroupError::Twice { number }),
            Some(seen) => *seen = true,
        }
    }
    let numbers = |group: &Vec<i64>| group.iter().map(|&number| number as usize).collect();
    Ok(groups.iter().map(numbers).collect())
}
