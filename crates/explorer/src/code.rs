//! A kernel's code as text: the kernel language before and after each pass, Cranelift IR, and
//! assembly, with the source line of each generated line.

use crate::memory::flat_steps;
use crate::{Problem, Session};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use tegula_codegen_cpu::{
    IsaLevel, LinkedLine, ListedMachine, Options, linked_listing, run_kernel_passes,
};
use tegula_fusion::{FusedRegion, Unit};
use tegula_ir::PassManager;
use tegula_plan::{KernelId, KernelText, Plan, Step};

/// The instruction set of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isa {
    /// SSE4.2: 128-bit vectors.
    X86V2,
    /// AVX2: 256-bit vectors.
    X86V3,
    /// AVX-512.
    X86V4,
    /// AArch64: 128-bit vectors.
    Aarch64,
}

impl Isa {
    fn machine(self) -> ListedMachine {
        match self {
            Self::X86V2 => ListedMachine::X86(IsaLevel::X86V2),
            Self::X86V3 => ListedMachine::X86(IsaLevel::X86V3),
            Self::X86V4 => ListedMachine::X86(IsaLevel::X86V4),
            Self::Aarch64 => ListedMachine::Aarch64,
        }
    }
}

/// A kernel of the plan. Equal kernels are listed once.
#[derive(Clone, Debug, Serialize)]
pub struct KernelInfo {
    /// Its number.
    pub kernel: u32,
    /// Its name in the plan's text.
    pub name: String,
    /// The fused units that call it, as indices into the graph's units.
    pub units: Vec<usize>,
}

/// A kernel after one pass.
#[derive(Clone, Debug, Serialize)]
pub struct PassText {
    /// The pass's name.
    pub pass: String,
    /// The kernel, or its parts, after the pass.
    pub text: String,
}

/// Lines of Cranelift IR or assembly.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CodeLines {
    /// The lines.
    pub lines: Vec<String>,
    /// For each line, the line of [`KernelCode::compiled`] that it was generated from, counted
    /// from 1; 0 if it has no source line.
    pub sources: Vec<usize>,
}

impl CodeLines {
    fn of(lines: Vec<LinkedLine>) -> Self {
        let (lines, sources) = lines.into_iter().map(|l| (l.text, l.source)).unzip();
        Self { lines, sources }
    }

    fn named(self, named: &impl Fn(&str) -> String) -> Self {
        let lines = self.lines.iter().map(|line| named(line)).collect();
        Self { lines, ..self }
    }
}

/// A kernel at each stage of compilation.
#[derive(Clone, Debug, Serialize)]
pub struct KernelCode {
    /// Its name.
    pub name: String,
    /// The kernel before all passes.
    pub text: String,
    /// The passes that changed it, in order.
    pub passes: Vec<PassText>,
    /// The kernel after all passes, from which code is generated; part by part if it was split.
    pub compiled: String,
    /// Cranelift IR, or the reason why it is missing.
    pub clif: Result<CodeLines, String>,
    /// Assembly, or the reason why it is missing.
    pub assembly: Result<CodeLines, String>,
}

impl Session {
    /// The kernels of the plan.
    ///
    /// # Errors
    /// As [`Session::planned`].
    pub fn kernels(&self) -> Result<Vec<KernelInfo>, Problem> {
        let planned = self.planned()?;
        let mut calls = Vec::new();
        unit_calls(&planned.fused.entry, &mut 0, &mut calls);
        let steps = flat_steps(&planned.plan);
        let steps: Vec<Option<KernelId>> = steps
            .iter()
            .filter_map(|flat| match flat.step {
                Step::Kernel { kernel, .. } => Some(Some(*kernel)),
                Step::Library { .. } => Some(None),
                _ => None,
            })
            .collect();
        // The plan's steps are in the order of the units.
        let same = calls.len() == steps.len();
        let same = same
            && calls
                .iter()
                .zip(&steps)
                .all(|(call, step)| call.1 == step.is_some());
        let units = |kernel: KernelId| -> Vec<usize> {
            let pairs = calls.iter().zip(&steps).filter(|_| same);
            let own = pairs.filter(|(_, step)| **step == Some(kernel));
            own.map(|(call, _)| call.0).collect()
        };
        let kernels = planned.plan.kernels.keys().map(|id| KernelInfo {
            kernel: id.as_u32(),
            name: id.to_string(),
            units: units(id),
        });
        Ok(kernels.collect())
    }

    /// One kernel at each stage of compilation.
    ///
    /// # Errors
    /// As [`Session::planned`]; `kernel` is not a kernel of the plan.
    pub fn kernel_code(&self, kernel: u32, isa: Isa) -> Result<KernelCode, Problem> {
        let plan = &self.planned()?.plan;
        let id = KernelId::from_u32(kernel);
        let found = plan.kernels.get(id);
        let found = found.ok_or_else(|| {
            Problem::new("unknown kernel number: choose one from the list of kernels")
        })?;
        let machine = isa.machine();
        let options = Options {
            cpu: machine.vectors(),
            ..Options::default()
        };
        let alone = alone(plan, id);
        let mut passes: Vec<PassText> = Vec::new();
        let mut observer = |pass: &'static str, result: &dyn Display| {
            let text = result.to_string();
            match passes.last_mut() {
                // A kernel that was split is shown part by part, so its parts are joined.
                Some(last) if last.pass == pass => last.text.push_str(&format!("\n{text}")),
                _ => passes.push(PassText {
                    pass: pass.to_owned(),
                    text,
                }),
            }
        };
        run_kernel_passes(&alone, &options, &mut PassManager::observed(&mut observer));
        // The plan of this kernel alone calls it `k0`.
        let named = |text: &str| rename_first(text, &id.to_string());
        let (compiled, clif, assembly) = match linked_listing(&alone, machine) {
            Ok(listing) => (
                named(&listing.kernels),
                Ok(CodeLines::of(listing.clif)),
                listing.assembly.map(CodeLines::of),
            ),
            Err(error) => (String::new(), Err(error.to_string()), Err(error)),
        };
        Ok(KernelCode {
            name: id.to_string(),
            text: format!("{id} = {}", KernelText(found)),
            passes: passes
                .into_iter()
                .map(|pass| PassText {
                    text: named(&pass.text),
                    ..pass
                })
                .collect(),
            compiled,
            clif: clif.map(|code| code.named(&named)),
            assembly: assembly
                .map(|code| code.named(&named))
                .map_err(|e| e.to_string()),
        })
    }
}

/// Renames kernel `k0` to `name` in a listing. Only lines that begin with the name are changed.
fn rename_first(text: &str, name: &str) -> String {
    let line = |line: &str| {
        let (before, rest) = match line.strip_prefix("; ") {
            Some(rest) => ("; ", rest),
            None => ("", line),
        };
        match rest.strip_prefix("k0") {
            Some(rest) if !rest.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("{before}{name}{rest}")
            }
            _ => line.to_owned(),
        }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// A copy of the plan with one kernel and the first step that calls it.
fn alone(plan: &Plan, kernel: KernelId) -> Plan {
    let call = flat_steps(plan)
        .into_iter()
        .find_map(|flat| match flat.step {
            Step::Kernel { kernel: own, args } if *own == kernel => Some(args.clone()),
            _ => None,
        });
    let mut alone = plan.clone();
    alone.kernels.clear();
    let id = alone.kernels.push(plan.kernels[kernel].clone());
    alone.steps = call
        .map(|args| Step::Kernel { kernel: id, args })
        .into_iter()
        .collect();
    alone
}

/// Lists the kernels and library calls of a region in order, each with the unit's index among all
/// units and whether it is a kernel.
fn unit_calls(region: &FusedRegion, next: &mut usize, calls: &mut Vec<(usize, bool)>) {
    for (_, unit) in region.units() {
        let place = *next;
        *next += 1;
        match unit {
            Unit::Kernel(_) => calls.push((place, true)),
            Unit::Library { .. } => calls.push((place, false)),
            Unit::Copy { .. } => {}
            Unit::While {
                condition, body, ..
            } => {
                unit_calls(condition, next, calls);
                unit_calls(body, next, calls);
            }
            Unit::Conditional { branches, .. } => {
                for branch in branches {
                    unit_calls(branch, next, calls);
                }
            }
        }
    }
}
