//! Listings: a kernel's code as text, in which each line is linked to the line of the kernel that
//! it came from.
//!
//! The code is compiled as for a run: lowering marks instructions with their [`Origin`], Cranelift
//! and our own instruction selection carry the marks to the machine code, and the listing finds
//! them by the offsets of the disassembled instructions. Nothing is placed in memory, so that a
//! machine can list code of another architecture.

mod locations;

use self::locations::fill_locations;
use crate::error::Error;
use crate::image::{FunctionId, ImageBuilder, Target};
use crate::isa::listed::Listed;
use crate::isa::x64;
use crate::origin::{Origin, lines_by_origin};
use cranelift_codegen::{Context, FinalizedMachReloc, FinalizedRelocTarget};
use rustc_hash::FxHashMap;
use std::fmt::Write;
use tegula_fusion::Kernel;
use tegula_plan::KernelText;
use tegula_target::IsaLevel;

/// The machine whose code is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedMachine {
    /// x86-64 with the instructions of a level.
    X86(IsaLevel),
    /// AArch64 with its 128-bit vectors. Only a build with the feature `aarch64` has it.
    Aarch64,
}

impl ListedMachine {
    /// The instruction set level of its code.
    pub fn vectors(self) -> IsaLevel {
        match self {
            Self::X86(level) => level,
            Self::Aarch64 => IsaLevel::ArmV8,
        }
    }
}

/// One line of Cranelift IR or of assembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedLine {
    /// The text of the line.
    pub text: String,
    /// The line of [`LinkedListing::kernels`] that it was generated from, counted from 1; 0 if
    /// there is none.
    pub source: usize,
}

/// The code of a plan's kernels as text.
#[derive(Debug)]
pub struct LinkedListing {
    /// The kernels after all passes, in the kernel language; the parts of a kernel that was split
    /// follow one another.
    pub kernels: String,
    /// Cranelift IR before its optimisation.
    pub clif: Vec<LinkedLine>,
    /// Assembly, or the error if the code cannot be compiled for the machine.
    pub assembly: Result<Vec<LinkedLine>, Error>,
}

/// The code of a SIMD body that was not compiled by Cranelift.
pub(super) struct LinkedBody {
    pub id: FunctionId,
    pub name: String,
    pub code: Vec<u8>,
    /// The origins of instructions: each holds from its offset up to that of the next.
    pub origins: Vec<(u32, Origin)>,
}

/// A listing under construction.
pub(super) struct Linker {
    machine: ListedMachine,
    names: FxHashMap<FunctionId, String>,
    pub(super) listing: LinkedListing,
}

impl Linker {
    /// An empty listing of code for a machine.
    pub(super) fn new(machine: ListedMachine) -> Self {
        Self {
            machine,
            names: FxHashMap::default(),
            listing: LinkedListing {
                kernels: String::new(),
                clif: Vec::new(),
                assembly: Ok(Vec::new()),
            },
        }
    }

    /// Adds the function that was built for a kernel, and the SIMD bodies that it calls.
    pub(super) fn function(
        &mut self,
        (id, name, kernel): (FunctionId, &str, &Kernel),
        image: &mut ImageBuilder,
        context: &mut Context,
        bodies: Vec<LinkedBody>,
    ) {
        let above = self.listing.kernels.lines().count();
        let _ = write!(self.listing.kernels, "{name} = {}", KernelText(kernel));
        let lines = lines_by_origin(kernel);
        let source = |origin: Origin| lines.get(&origin).map_or(0, |line| above + line);
        self.names.insert(id, name.to_owned());
        for body in &bodies {
            self.names.insert(body.id, body.name.clone());
        }
        self.listing.clif.push(heading(format!("; {name}")));
        let text = context.func.display().to_string();
        let clif = text.lines().map(|line| clif_line(line, &source));
        self.listing.clif.extend(clif);
        let compiled = self.compiled(image, context, &source);
        let Ok(assembly) = &mut self.listing.assembly else {
            return;
        };
        match compiled {
            Ok(lines) => {
                assembly.push(heading(format!("{name}:")));
                assembly.extend(lines);
            }
            Err(error) => {
                self.listing.assembly = Err(error);
                return;
            }
        }
        for body in bodies {
            assembly.push(heading(format!("{}:", body.name)));
            for instruction in x64::instructions(&body.code) {
                let next = body
                    .origins
                    .partition_point(|(at, _)| *at <= instruction.at);
                let origin = next.checked_sub(1).and_then(|last| body.origins.get(last));
                assembly.push(LinkedLine {
                    text: format!("  {instruction}"),
                    source: source(origin.map_or(Origin::None, |(_, origin)| *origin)),
                });
            }
        }
    }

    /// Compiles the function in a context and disassembles it.
    fn compiled(
        &self,
        image: &mut ImageBuilder,
        context: &mut Context,
        source: &impl Fn(Origin) -> usize,
    ) -> Result<Vec<LinkedLine>, Error> {
        let compiled = image.compile_listed(context, fill_locations)?;
        let code = compiled.code_buffer().to_vec();
        let relocations = compiled.buffer.relocs().to_vec();
        let locations = compiled.buffer.get_srclocs_sorted().to_vec();
        let mut lines = Vec::new();
        for instruction in self.disassembled(&code, &relocations)? {
            let range = instruction.at..instruction.end;
            let mut text = format!("  {instruction}");
            for relocation in relocations.iter().filter(|r| range.contains(&r.offset)) {
                if let FinalizedRelocTarget::ExternalName(name) = &relocation.target {
                    let target = image.target(name, &context.func)?;
                    let _ = write!(text, "  # {}", self.name(target, image));
                }
            }
            let found = locations
                .iter()
                .find(|location| location.start <= range.start && range.start < location.end);
            lines.push(LinkedLine {
                text,
                source: found.map_or(0, |location| source(Origin::at(location.loc))),
            });
        }
        Ok(lines)
    }

    fn disassembled(
        &self,
        code: &[u8],
        relocations: &[FinalizedMachReloc],
    ) -> Result<Vec<Listed>, Error> {
        match self.machine {
            ListedMachine::X86(_) => Ok(x64::instructions(code)),
            #[cfg(feature = "aarch64")]
            ListedMachine::Aarch64 => {
                let is_data = |r: &&FinalizedMachReloc| {
                    matches!(r.kind, cranelift_codegen::binemit::Reloc::Abs8)
                };
                let data: Vec<u32> = relocations
                    .iter()
                    .filter(is_data)
                    .map(|r| r.offset)
                    .collect();
                Ok(crate::isa::aarch64::instructions(code, &data))
            }
            #[cfg(not(feature = "aarch64"))]
            ListedMachine::Aarch64 => {
                let _ = relocations;
                let message = "this build cannot list AArch64 code: use the feature `aarch64`";
                Err(Error::Cpu(message.to_owned()))
            }
        }
    }

    /// The name of an external target of code.
    fn name(&self, target: Target, image: &ImageBuilder) -> String {
        match target {
            Target::Function(id) => self.names.get(&id).cloned().unwrap_or_default(),
            Target::Routine(number) => {
                let name = image.routine_name(number as usize);
                name.unwrap_or("a routine").to_owned()
            }
            Target::Operation(number) => format!("operation {number}"),
            Target::SineTable => "table of sines".to_owned(),
            Target::Constant(number) => format!("constant {number}"),
        }
    }
}

fn heading(text: String) -> LinkedLine {
    LinkedLine { text, source: 0 }
}

/// A line of Cranelift's text, which begins with the source location if there is one.
fn clif_line(line: &str, source: &impl Fn(Origin) -> usize) -> LinkedLine {
    let trimmed = line.trim();
    let located = trimmed.strip_prefix('@').and_then(|rest| {
        let (bits, text) = rest.split_once(' ')?;
        let bits = u32::from_str_radix(bits, 16).ok()?;
        Some((
            Origin::at(cranelift_codegen::ir::SourceLoc::new(bits)),
            text,
        ))
    });
    let (origin, text) = located.unwrap_or((Origin::None, trimmed));
    let is_outer = text.is_empty()
        || text.starts_with("function ")
        || text == "}"
        || text.starts_with("block") && text.ends_with(':');
    LinkedLine {
        text: match is_outer {
            true => text.to_owned(),
            false => format!("    {}", text.trim_start()),
        },
        source: source(origin),
    }
}

#[cfg(test)]
mod tests;
