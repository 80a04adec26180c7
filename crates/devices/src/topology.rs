//! How many devices run a program, and what they are to each other.

use tegula_ir::Module;

/// How many devices there are.
///
/// Device `(replica, partition)` has the number `replica * partitions + partition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Topology {
    /// Replicas: they run the program on data of their own.
    pub replicas: usize,
    /// Partitions of each replica: they share the work of one program.
    pub partitions: usize,
}

impl Topology {
    /// One device.
    pub const ALONE: Self = Self {
        replicas: 1,
        partitions: 1,
    };

    /// The number of devices; the largest there is on overflow.
    pub fn devices(self) -> usize {
        self.replicas.saturating_mul(self.partitions)
    }

    /// The number of a device.
    pub fn device(self, replica: usize, partition: usize) -> usize {
        replica * self.partitions + partition
    }

    /// The replica that a device belongs to.
    pub fn replica(self, device: usize) -> usize {
        device / self.partitions.max(1)
    }

    /// The partition of its replica that a device is.
    pub fn partition(self, device: usize) -> usize {
        device % self.partitions.max(1)
    }

    /// The topology on which so many devices run a program: the one that it states, else so many
    /// partitions if it tells partitions apart, and so many replicas if not.
    ///
    /// # Errors
    /// The topology that it states, which has another number of devices.
    pub fn of(module: &Module, devices: usize) -> Result<Self, Self> {
        let count = |stated: Option<i64>| {
            let stated = stated.and_then(|count| usize::try_from(count).ok());
            stated.filter(|count| *count > 0).unwrap_or(1)
        };
        let stated = Self {
            replicas: count(module.attributes.replica_count),
            partitions: count(module.attributes.num_partitions),
        };
        if stated.devices() == devices {
            return Ok(stated);
        }
        if stated != Self::ALONE {
            return Err(stated);
        }
        let mut instructions = module.instructions.values();
        let has_partitions = instructions.any(|instruction| instruction.op.is_between_partitions());
        Ok(match has_partitions {
            true => Self {
                replicas: 1,
                partitions: devices,
            },
            false => Self {
                replicas: devices,
                partitions: 1,
            },
        })
    }
}
