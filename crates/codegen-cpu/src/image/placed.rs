//! Code that is placed in memory and can be run.

use super::libcalls::General;
use super::{CodeImage, FunctionId, Target, instruction_cache, routines};
use crate::error::Error;
use crate::simd::mathlib::sine_table;
use memmap2::{Mmap, MmapMut};

/// An image at an address. The memory is executable and not writable.
pub(crate) struct PlacedCode {
    /// [`None`] if there is no code.
    memory: Option<Mmap>,
    functions: Vec<u32>,
    /// The operations whose addresses are in the code.
    _operations: Box<[General]>,
}

impl PlacedCode {
    /// Places an image in memory.
    ///
    /// # Errors
    /// The image names a routine that does not exist, has an invalid reference, or there is not
    /// enough memory.
    pub(crate) fn new(image: CodeImage) -> Result<Self, Error> {
        let CodeImage {
            mut code,
            functions,
            routines,
            operations,
            relocations,
        } = image;
        if let Some(outside) = functions.iter().find(|&&at| at as usize >= code.len()) {
            return Err(damaged(&format!("a function at byte {outside}")));
        }
        let operations = operations.into_boxed_slice();
        let addresses: Result<Vec<u64>, Error> = routines
            .iter()
            .map(|name| {
                let address = routines::address_of(name);
                let address = address.ok_or_else(|| damaged(&format!("a routine `{name}`")))?;
                Ok(address as u64)
            })
            .collect();
        let addresses = addresses?;
        if code.is_empty() {
            return Ok(Self {
                memory: None,
                functions,
                _operations: operations,
            });
        }
        let no_memory = |_| Error::OutOfMemory(i64::try_from(code.len()).unwrap_or(i64::MAX));
        let mut memory = MmapMut::map_anon(code.len()).map_err(no_memory)?;
        let base = memory.as_ptr() as u64;
        for relocation in &relocations {
            let address = match relocation.target {
                Target::Function(FunctionId(number)) => {
                    let start = functions.get(number as usize);
                    start.map(|&start| base + u64::from(start))
                }
                Target::Routine(number) => addresses.get(number as usize).copied(),
                Target::Operation(number) => {
                    let operation = operations.get(number as usize);
                    operation.map(|o| std::ptr::from_ref(o) as u64)
                }
                Target::SineTable => Some(sine_table().as_ptr() as u64),
                Target::Constant(_) => None,
            };
            let address = address.ok_or_else(|| damaged(&format!("{:?}", relocation.target)))?;
            let address = address.wrapping_add_signed(relocation.addend);
            let (at, here) = (relocation.at, base + u64::from(relocation.at));
            let applied = relocation.kind.apply(&mut code, at, here, address);
            applied.ok_or_else(|| damaged(&format!("{:?} at byte {at}", relocation.kind)))?;
        }
        memory.copy_from_slice(&code);
        let memory = memory
            .make_exec()
            .map_err(|error| Error::Cpu(format!("memory cannot be made executable: {error}")))?;
        instruction_cache::forget(&memory);
        Ok(Self {
            memory: Some(memory),
            functions,
            _operations: operations,
        })
    }

    /// The address of a function; null if the number is invalid.
    pub(crate) fn address(&self, function: FunctionId) -> *const u8 {
        let start = self.functions.get(function.0 as usize);
        match (&self.memory, start) {
            (Some(memory), Some(&start)) => memory[start as usize..].as_ptr(),
            _ => std::ptr::null(),
        }
    }
}

fn damaged(what: &str) -> Error {
    Error::Bug(format!(
        "the code image is damaged: it refers to {what}, which does not exist"
    ))
}
