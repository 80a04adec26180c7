//! Device memory: allocations with bounds, and a record of the bytes that were written.
//!
//! Addresses are never reused and allocations are far apart, so an access past an end or to freed
//! memory hits nothing. Three windows below all allocations map shared, local and parameter memory
//! in the generic address space.

use crate::history::History;
use std::collections::VecDeque;

use crate::region::Region;

/// The generic address at which shared memory starts.
pub(crate) const SHARED_WINDOW: u64 = 1 << 32;
/// The generic address at which local memory starts.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 32;
/// The generic address at which the kernel's parameters start.
pub(crate) const PARAM_WINDOW: u64 = 3 << 32;
/// The lowest address of an allocation.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;
/// The alignment of allocations, which is that of the CUDA driver.
const ALIGNMENT: u64 = 512;
/// The number of unused bytes between allocations.
const GAP: u64 = 1 << 20;
/// The number of freed allocations that are remembered for messages.
const REMEMBERED: usize = 256;

/// The reason why device memory cannot be allocated or accessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The memory is too small.
    #[error("out of device memory: {asked} bytes asked, {free} of {capacity} free")]
    OutOfMemory {
        /// The requested number of bytes.
        asked: u64,
        /// The number of free bytes.
        free: u64,
        /// The size of the device's memory in bytes.
        capacity: u64,
    },
    /// The freed address is not the start of an allocation.
    #[error(
        "{address:#x} is not the start of an allocation: it was freed before, or never allocated"
    )]
    NotAllocated {
        /// The address.
        address: u64,
    },
    /// A copy is out of bounds of an allocation.
    #[error("{bytes} bytes at {address:#x}: {place}")]
    OutOfBounds {
        /// The first address.
        address: u64,
        /// The number of bytes.
        bytes: u64,
        /// The position of the address relative to allocations.
        place: String,
    },
}

/// One allocation.
#[derive(Debug)]
struct Allocation {
    start: u64,
    region: Region,
}

/// Global memory of the simulated device.
#[derive(Debug)]
pub struct Memory {
    capacity: u64,
    used: u64,
    next: u64,
    /// The allocations, sorted by address.
    allocations: Vec<Allocation>,
    /// The start and the size of the allocations freed last.
    freed: VecDeque<(u64, u64)>,
    /// The addresses of module variables, by module.
    modules: Vec<(u64, Vec<u64>)>,
    /// The event clock at the end of the last launch.
    pub(crate) clock: u32,
}

impl Memory {
    /// Memory of `capacity` bytes. Host memory is only used when it is allocated.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            used: 0,
            next: FIRST_ADDRESS,
            allocations: Vec::new(),
            freed: VecDeque::new(),
            modules: Vec::new(),
            clock: 1,
        }
    }

    /// The size of the device's memory in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The number of allocated bytes.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// An allocation of `bytes` bytes (at least one), aligned to 512.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        let taken = bytes.max(1).checked_next_multiple_of(ALIGNMENT);
        let free = self.capacity - self.used;
        let taken = match taken {
            Some(taken) if taken <= free => taken,
            _ => {
                return Err(MemoryError::OutOfMemory {
                    asked: bytes,
                    free,
                    capacity: self.capacity,
                });
            }
        };
        let region = Region::new(bytes.max(1) as usize).ok_or(MemoryError::OutOfMemory {
            asked: bytes,
            free,
            capacity: self.capacity,
        })?;
        let start = self.next;
        self.next += taken + GAP;
        self.used += taken;
        self.allocations.push(Allocation { start, region });
        Ok(start)
    }

    /// Frees the allocation that starts at `address`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`].
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let Ok(index) = self.allocations.binary_search_by_key(&address, |a| a.start) else {
            return Err(MemoryError::NotAllocated { address });
        };
        let allocation = self.allocations.remove(index);
        let bytes = allocation.region.data.len() as u64;
        self.used -= bytes.next_multiple_of(ALIGNMENT);
        self.freed.push_back((address, bytes));
        if self.freed.len() > REMEMBERED {
            self.freed.pop_front();
        }
        Ok(())
    }

    /// The start and the size of the allocation that contains `address`.
    #[must_use]
    pub fn allocation_of(&self, address: u64) -> Option<(u64, u64)> {
        let index = self.find(address)?;
        let allocation = &self.allocations[index];
        Some((allocation.start, allocation.region.data.len() as u64))
    }

    /// Copies `bytes` to `address`.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (index, at) = self.range(address, bytes.len() as u64)?;
        let region = &mut self.allocations[index].region;
        region.data[at..at + bytes.len()].copy_from_slice(bytes);
        region.mark_written(at, bytes.len());
        Ok(())
    }

    /// Copies from `address` to `bytes`. Uninitialised bytes are read as zeros.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let (index, at) = self.range(address, bytes.len() as u64)?;
        bytes.copy_from_slice(&self.allocations[index].region.data[at..at + bytes.len()]);
        Ok(())
    }

    /// Sets `bytes` bytes, beginning at `address`, to `value`.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn fill(&mut self, address: u64, bytes: u64, value: u8) -> Result<(), MemoryError> {
        let (index, at) = self.range(address, bytes)?;
        let region = &mut self.allocations[index].region;
        region.data[at..at + bytes as usize].fill(value);
        region.mark_written(at, bytes as usize);
        Ok(())
    }

    /// Copies within device memory; uninitialised bytes stay uninitialised.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), MemoryError> {
        let (source, source_at) = self.range(from, bytes)?;
        let (target, target_at) = self.range(to, bytes)?;
        let bytes = bytes as usize;
        let data = self.allocations[source].region.data[source_at..source_at + bytes].to_vec();
        let written: Vec<bool> = (0..bytes)
            .map(|i| self.allocations[source].region.is_written(source_at + i))
            .collect();
        let region = &mut self.allocations[target].region;
        region.data[target_at..target_at + bytes].copy_from_slice(&data);
        if written.iter().all(|w| *w) {
            region.mark_written(target_at, bytes);
        } else {
            for (i, written) in written.into_iter().enumerate() {
                region.set_written(target_at + i, written);
            }
        }
        Ok(())
    }

    fn range(&self, address: u64, bytes: u64) -> Result<(usize, usize), MemoryError> {
        let found = self.find(address).filter(|index| {
            let allocation = &self.allocations[*index];
            bytes <= allocation.region.data.len() as u64 - (address - allocation.start)
        });
        match found {
            Some(index) => Ok((index, (address - self.allocations[index].start) as usize)),
            None => {
                let place = self.describe(address, bytes);
                Err(MemoryError::OutOfBounds {
                    address,
                    bytes,
                    place,
                })
            }
        }
    }

    /// The index of the allocation that contains `address`.
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let index = self
            .allocations
            .partition_point(|a| a.start <= address)
            .checked_sub(1)?;
        let allocation = &self.allocations[index];
        (address - allocation.start < allocation.region.data.len() as u64).then_some(index)
    }

    /// The start and the size of an allocation by index, if it exists.
    #[inline]
    pub(crate) fn bounds(&self, index: usize) -> Option<(u64, u64)> {
        let allocation = self.allocations.get(index)?;
        Some((allocation.start, allocation.region.data.len() as u64))
    }

    #[inline]
    pub(crate) fn region(&mut self, index: usize) -> &mut Region {
        &mut self.allocations[index].region
    }

    /// Describes the position of `address` relative to the allocations.
    pub(crate) fn describe(&self, address: u64, bytes: u64) -> String {
        for &(start, size) in &self.freed {
            if address >= start && address < start + size {
                return format!(
                    "byte {} of an allocation of {size} bytes that was freed",
                    address - start
                );
            }
        }
        let after = self.allocations.partition_point(|a| a.start <= address);
        if let Some(allocation) = after.checked_sub(1).map(|i| &self.allocations[i]) {
            let size = allocation.region.data.len() as u64;
            let past = address
                .saturating_add(bytes)
                .saturating_sub(allocation.start + size);
            if address < allocation.start + size + GAP / 2 {
                return format!("{past} bytes past the end of an allocation of {size} bytes");
            }
        }
        if let Some(allocation) = self.allocations.get(after) {
            let before = allocation.start - address;
            if before < GAP / 2 {
                let size = allocation.region.data.len();
                return format!("{before} bytes before an allocation of {size} bytes");
            }
        }
        if address < 1 << 16 {
            "a null pointer".to_owned()
        } else {
            "no allocation is near".to_owned()
        }
    }

    /// The addresses of a module's variables, if it is loaded.
    pub(crate) fn module(&self, id: u64) -> Option<&[u64]> {
        self.modules
            .iter()
            .find(|m| m.0 == id)
            .map(|m| m.1.as_slice())
    }

    pub(crate) fn add_module(&mut self, id: u64, addresses: Vec<u64>) {
        self.modules.push((id, addresses));
    }

    pub(crate) fn remove_module(&mut self, id: u64) {
        while let Some(index) = self.modules.iter().position(|m| m.0 == id) {
            for address in self.modules.remove(index).1 {
                // Shared variables have no address.
                if address != 0 {
                    let _freed = self.free(address);
                }
            }
        }
    }

    /// Forgets all recorded accesses.
    pub(crate) fn forget_accesses(&mut self) {
        for allocation in &mut self.allocations {
            allocation.region.history = History::default();
        }
        self.clock = 1;
    }
}
