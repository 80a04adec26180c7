//! Topologies: the numbers of replicas and partitions that run a program.

use tegula_ir::Module;

/// The numbers of replicas and partitions.
///
/// Device `(replica, partition)` has the number `replica * partitions + partition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Topology {
    /// The number of replicas, which run the program on different data.
    pub replicas: usize,
    /// The number of partitions of each replica, which share the work of one program.
    pub partitions: usize,
}

impl Topology {
    /// A single device.
    pub const ALONE: Self = Self {
        replicas: 1,
        partitions: 1,
    };

    /// The number of devices; the largest `usize` on overflow.
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

    /// A device's partition number within its replica.
    pub fn partition(self, device: usize) -> usize {
        device % self.partitions.max(1)
    }

    /// The topology in which this number of devices runs a program: the one that the program
    /// states; otherwise partitions if the program distinguishes these, and replicas if not.
    ///
    /// # Errors
    /// The topology that the program states, if it has another number of devices.
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
