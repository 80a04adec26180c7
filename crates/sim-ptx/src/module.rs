//! A PTX module: its decoded kernels and its variables.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode::{self, Kernel, Parameter, Variables};
use crate::memory::{Memory, MemoryError};
use crate::text::syntax::{Initial, Source};
use crate::text::{ParseError, parse};

/// The next id of a module, by which device memory distinguishes modules.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The maximum size of a module's variables in bytes.
const MOST_VARIABLES: u64 = 1 << 30;

/// A variable of the module, to be placed in device memory.
#[derive(Clone, Debug)]
struct Global {
    name: String,
    /// The initial bytes; empty for shared variables, which are not in device memory.
    bytes: Vec<u8>,
    /// The addresses of other variables in the bytes: position, variable, offset.
    addresses: Vec<(usize, usize, i64)>,
}

/// The resources that a kernel needs, for hosts that query them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelAttributes {
    /// The shared memory that the kernel declares, in bytes.
    pub static_shared: u64,
    /// The local memory of each thread, in bytes.
    pub local: u64,
    /// The maximum number of threads of a block in a launch.
    pub max_threads: u32,
    /// The number of 32-bit registers of a thread in the PTX, which is more than a device needs.
    pub registers: u32,
}

/// A decoded PTX module.
#[derive(Debug)]
pub struct Module {
    id: u64,
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
    files: Vec<(u32, String)>,
}

impl Module {
    /// Reads and decodes a module.
    ///
    /// # Errors
    /// The text is not PTX, or a kernel has an unknown instruction.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let source = parse(text.trim_end_matches('\0'))?;
        let mut variables: Variables<'_> = HashMap::new();
        for (index, variable) in source.variables.iter().enumerate() {
            variables.insert(variable.name, (index as u32, variable));
        }
        let entries = source
            .functions
            .iter()
            .filter(|f| f.entry && f.body.is_some());
        let kernels = entries
            .map(|f| decode::decode(&source, &variables, f))
            .collect::<Result<_, _>>()?;
        let globals = globals(&source, &variables)?;
        let files = source
            .files
            .iter()
            .map(|(number, path)| (*number, (*path).to_owned()))
            .collect();
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            kernels,
            globals,
            files,
        })
    }

    /// The names of the kernels, in the order of the text.
    #[must_use]
    pub fn kernels(&self) -> Vec<&str> {
        self.kernels.iter().map(|k| k.name.as_str()).collect()
    }

    /// The parameters of a kernel, with their offsets.
    #[must_use]
    pub fn parameters(&self, kernel: &str) -> Option<&[Parameter]> {
        self.kernel(kernel).map(|k| k.params.as_slice())
    }

    /// The resources that a kernel needs.
    #[must_use]
    pub fn attributes(&self, kernel: &str) -> Option<KernelAttributes> {
        self.kernel(kernel).map(|k| KernelAttributes {
            static_shared: k.static_shared,
            local: k.local,
            max_threads: k
                .threads
                .map_or(1024, |(t, _)| t.iter().product::<u32>().min(1024)),
            registers: (k.words + 2 * k.doubles).min(255),
        })
    }

    /// The address and the size of a `.global` or `.const` variable, if the module is loaded.
    #[must_use]
    pub fn variable(&self, memory: &Memory, name: &str) -> Option<(u64, u64)> {
        let index = self
            .globals
            .iter()
            .position(|g| g.name == name && !g.bytes.is_empty())?;
        let address = *memory.module(self.id)?.get(index)?;
        Some((address, self.globals[index].bytes.len() as u64))
    }

    /// Places the module's variables in memory, with their initial values, unless they are there
    /// already. Returns their addresses.
    ///
    /// # Errors
    /// The memory is too small.
    pub(crate) fn load(&self, memory: &mut Memory) -> Result<Vec<u64>, MemoryError> {
        if let Some(addresses) = memory.module(self.id) {
            return Ok(addresses.to_vec());
        }
        let mut addresses = Vec::new();
        for global in &self.globals {
            addresses.push(if global.bytes.is_empty() {
                0
            } else {
                memory.allocate(global.bytes.len() as u64)?
            });
        }
        for (global, address) in self.globals.iter().zip(&addresses) {
            let mut bytes = global.bytes.clone();
            for &(at, variable, offset) in &global.addresses {
                let target = addresses[variable].wrapping_add_signed(offset);
                bytes[at..at + 8].copy_from_slice(&target.to_le_bytes());
            }
            if !bytes.is_empty() {
                memory.write(*address, &bytes)?;
            }
        }
        memory.add_module(self.id, addresses.clone());
        Ok(addresses)
    }

    /// Loads the module's variables, in advance of a launch.
    ///
    /// # Errors
    /// The memory is too small.
    pub fn load_variables(&self, memory: &mut Memory) -> Result<(), MemoryError> {
        self.load(memory).map(drop)
    }

    /// Frees the module's variables.
    pub fn unload(&self, memory: &mut Memory) {
        memory.remove_module(self.id);
    }

    pub(crate) fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }

    pub(crate) fn files(&self) -> &[(u32, String)] {
        &self.files
    }
}

fn globals(source: &Source<'_>, variables: &Variables<'_>) -> Result<Vec<Global>, ParseError> {
    let mut globals = Vec::new();
    let mut total = 0u64;
    for variable in &source.variables {
        let mut global = Global {
            name: variable.name.to_owned(),
            bytes: Vec::new(),
            addresses: Vec::new(),
        };
        if variable.space != "shared" {
            if variable.external {
                let message = format!(
                    "`{}` is defined in another module: link them first",
                    variable.name
                );
                return Err(ParseError::new(variable.position, message));
            }
            let bytes = if variable.bytes == 0 {
                variable.initial.len() as u64 * variable.element
            } else {
                variable.bytes
            };
            total = total.saturating_add(bytes);
            if total > MOST_VARIABLES {
                let message = "the module's variables take more than 1 GiB";
                return Err(ParseError::new(variable.position, message));
            }
            global.bytes = vec![0; bytes as usize];
            let element = variable.element as usize;
            for (index, initial) in variable.initial.iter().enumerate() {
                let at = index * element;
                let Some(place) = global.bytes.get_mut(at..at + element) else {
                    let message =
                        format!("`{}` has more initial values than elements", variable.name);
                    return Err(ParseError::new(variable.position, message));
                };
                match initial {
                    Initial::Bits(bits) => {
                        let image = bits.to_le_bytes();
                        let n = element.min(8);
                        place[..n].copy_from_slice(&image[..n]);
                    }
                    Initial::Address { name, offset } => match variables.get(name) {
                        Some((target, _)) if element == 8 => {
                            global.addresses.push((at, *target as usize, *offset));
                        }
                        _ => {
                            let message = format!(
                                "the address of `{name}` cannot initialise `{}`",
                                variable.name
                            );
                            return Err(ParseError::new(variable.position, message));
                        }
                    },
                }
            }
        }
        globals.push(global);
    }
    Ok(globals)
}
