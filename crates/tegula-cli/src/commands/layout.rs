//! `tegula layout`: prints a program with layouts, tiles and memory spaces, and the reasons for
//! them.

use super::compile::CompileTarget;
use crate::documents::{
    self, KernelWindows, LayoutAlternative, LayoutReason, LayoutReasons, Layouts, Order, Orders,
    PlacedBuffer, PlacedReason,
};
use crate::exit_code::SUCCESS;
use crate::inputs::{DimArgs, Source, read_module};
use crate::options::Common;
use crate::report::Failure;
use anyhow::anyhow;
use clap::Args;
use std::fmt::Write;
use std::path::PathBuf;
use tegula::{PassManager, PlanOptions};
use tegula_fusion::ValueId;
use tegula_ir::{Module, PrintStyle};
use tegula_layout::assign::{Alternative, Assignment, Explanation, name_of};
use tegula_target::Chip;
use tegula_tpu_schedule::{Buffer, Schedule, Step, Views};
use tegula_tpu_schedule::{windows::Choice, windows::Windows, windows::windows};

/// The options of `tegula layout`.
#[derive(Debug, Args)]
pub(crate) struct LayoutArgs {
    /// The program's file: HLO text, StableHLO (text or bytecode), an artifact that `jax.export`
    /// serialized, or an ONNX model. The contents decide which one it is. `-` reads standard input.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// The kind of machine. For tpu, the program is printed with tiled layouts and memory spaces.
    /// For cpu and cuda, where a layout is an order of dimensions, the arrays that are not
    /// row-major are listed with the reasons.
    #[arg(long, value_enum, default_value = "tpu")]
    pub target: CompileTarget,
    /// The chip for the target tpu: v4, v5e, v5p, v6e or 7x.
    #[arg(long, default_value = "v5e")]
    pub chip: String,
    /// Write to this file instead of standard output.
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Explain the layout and the memory of this instruction's result: what was compared, at what
    /// cost.
    #[arg(long, value_name = "NAME")]
    pub why: Option<String>,
}

/// A program with its layouts, its memory spaces and its schedule.
struct ScheduledProgram<'a> {
    chip: &'a Chip,
    module: &'a Module,
    assignment: Assignment,
    schedule: Schedule,
}

/// Prints a program with its layouts, or the reasons for one instruction.
pub(crate) fn layout(args: &LayoutArgs, common: &Common) -> Result<u8, Failure> {
    let source = read_module(&args.model, &args.dims)?;
    match args.target {
        CompileTarget::Cpu => return orders(args, common, &source, PlanOptions::default()),
        CompileTarget::Cuda => return orders(args, common, &source, PlanOptions::gpu()),
        CompileTarget::Tpu => {}
    }
    let chip = crate::chip::load(&args.chip)?;
    let failed = |error: tegula::Error| source.failure(error);
    // The name is accepted with or without the `%` of HLO text.
    let why = args.why.as_deref().map(|name| name.trim_start_matches('%'));
    let laid = tegula::tpu::schedule_for(
        &source.module,
        &chip,
        &|name| Some(name) == why,
        &mut PassManager::new(),
    )
    .map_err(failed)?;
    let laid = ScheduledProgram {
        chip: &chip,
        module: &laid.module,
        assignment: laid.assignment,
        schedule: laid.schedule,
    };
    if let Some(name) = why {
        return laid.why(name, common);
    }
    let written = tegula_tpu_schedule::to_module(
        laid.module,
        &laid.assignment,
        &laid.schedule,
        Views::Bitcasts,
    )
    .map_err(|error| failed(error.into()))?;
    let text = tegula_ir::print_module(&written, PrintStyle::Short);
    if let Some(path) = &args.output {
        crate::terminal::result_file::write(path, &text)?;
    }
    if common.json {
        documents::print(&laid.document(&chip));
    } else if args.output.is_none() {
        say!("{}", text.trim_end_matches('\n'));
    }
    Ok(SUCCESS)
}

/// Prints the arrays of the compiled program whose layout is not row-major.
fn orders(
    args: &LayoutArgs,
    common: &Common,
    source: &Source,
    options: PlanOptions,
) -> Result<u8, Failure> {
    let options = PlanOptions {
        reasons: true,
        ..options
    };
    let planned = tegula::plan_for(&source.module, &options).map_err(|e| source.failure(e))?;
    let mut reasons = planned.reasons;
    if let Some(name) = &args.why {
        reasons.retain(|(own, ..)| own == name);
    }
    let lines: Vec<String> = reasons.iter().map(super::fused_text::order).collect();
    let mut text = lines.join("\n");
    if text.is_empty() {
        text.push_str("row-major");
    }
    if let Some(path) = &args.output {
        crate::terminal::result_file::write(path, &text)?;
    }
    if common.json {
        let orders = reasons.iter().map(|(name, layout, reason)| Order {
            name: name.clone(),
            layout: layout.to_string(),
            why: super::fused_text::why(reason),
        });
        let orders = orders.collect();
        documents::print(&Orders { orders });
    } else if args.output.is_none() {
        say!("{text}");
    }
    Ok(SUCCESS)
}

impl ScheduledProgram<'_> {
    fn name(&self, buffer: &Buffer) -> &str {
        let name = name_of(self.module, &self.assignment.program, buffer.value);
        name.unwrap_or("constant")
    }

    fn shape(&self, buffer: &Buffer) -> String {
        let shape = &self.assignment.program.values[buffer.value].shape;
        tegula_layout::assign::with_layout(shape, &buffer.layout).to_string()
    }

    fn document(&self, chip: &Chip) -> Layouts {
        let buffers = self.schedule.buffers.iter().map(|buffer| PlacedBuffer {
            name: self.name(buffer).to_owned(),
            shape: self.shape(buffer),
            bytes: buffer.bytes,
            memory_space: buffer.space(),
            offset: buffer.offset,
            reason: buffer.reason.to_string(),
        });
        let steps = &self.schedule.steps;
        let copies = steps
            .iter()
            .filter(|s| matches!(s, Step::Relayout { .. }))
            .count();
        Layouts {
            chip: chip.name.to_string(),
            layout_seconds: self.assignment.cost,
            is_best: self.assignment.is_best,
            vmem_bytes: self.schedule.vmem_bytes,
            vmem_peak_bytes: self.schedule.vmem_peak,
            copies,
            prefetches: self.schedule.transfers.len(),
            buffers: buffers.collect(),
        }
    }

    fn why(&self, name: &str, common: &Common) -> Result<u8, Failure> {
        let program = &self.assignment.program;
        let own = |value: ValueId| name_of(self.module, program, value) == Some(name);
        let values: Vec<_> = program.values.keys().filter(|&value| own(value)).collect();
        if values.is_empty() {
            let values = program.values.keys();
            let names = values.filter_map(|value| name_of(self.module, program, value));
            let help = crate::instruction_names::nearest(names, name).map_or_else(
                || "`tegula layout` without --why prints all".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(Failure::Other(anyhow!(
                "no instruction `{name}` computes an array; {help}"
            )));
        }
        let mut text = String::new();
        let mut all = Vec::new();
        for value in values {
            let buffers = self.schedule.buffers.iter().enumerate();
            let own = buffers.filter(|(_, buffer)| buffer.value == value);
            let places: Vec<(usize, &Buffer)> = own.collect();
            for (id, buffer) in &places {
                let _ = writeln!(text, "{name} = {}", self.shape(buffer));
                let _ = writeln!(text, "  {}", self.place(*id, buffer));
            }
            if places.is_empty() {
                let kernels = self.assignment.regions.iter().flat_map(|r| &r.kernels);
                let inside = kernels.filter(|kernel| kernel.inside.contains_key(&value));
                for kernel in inside {
                    let root = program.nodes[kernel.root].results.first();
                    let root = root.and_then(|&root| name_of(self.module, program, root));
                    let root = root.unwrap_or("a kernel");
                    let layout = kernel.inside.get(&value).map(ToString::to_string);
                    let layout = layout.unwrap_or_default();
                    let _ = writeln!(
                        text,
                        "{name} is not written to memory: `{root}` computes it in registers, as {layout}"
                    );
                }
            }
            let explanation = self.assignment.explanations.get(&value);
            if let Some(explanation) = explanation {
                explain(explanation, &mut text);
            }
            let windows = self.windows(value);
            if let Some(windows) = &windows {
                self.show_windows(windows, &mut text);
            }
            let buffers = places.iter().map(|(_, buffer)| PlacedReason {
                shape: self.shape(buffer),
                memory_space: buffer.space(),
                reason: buffer.reason.to_string(),
            });
            all.push(LayoutReason {
                name: name.to_owned(),
                windows: windows.map(|windows| KernelWindows {
                    block: windows.chosen.block,
                    grid: windows.chosen.grid,
                    vmem_bytes: windows.chosen.vmem_bytes,
                    hbm_bytes: windows.chosen.hbm_bytes,
                    seconds: windows.chosen.seconds,
                    masked: windows.masked,
                }),
                buffers: buffers.collect(),
                fixed: explanation.and_then(|e| e.fixed),
                wishes: explanation.map(|e| e.wishes.clone()),
                alternatives: explanation.map(|e| e.alternatives.iter().map(alternative).collect()),
            });
        }
        if common.json {
            documents::print(&LayoutReasons { why: all });
        } else {
            say!("{}", text.trim_end_matches('\n'));
        }
        Ok(SUCCESS)
    }

    /// Returns the windows of the kernel that writes a value.
    fn windows(&self, value: ValueId) -> Option<Windows> {
        let program = &self.assignment.program;
        let kernels = self
            .assignment
            .regions
            .iter()
            .flat_map(|region| &region.kernels);
        let mut writers = kernels.filter(|kernel| {
            program.nodes[kernel.root].results.contains(&value) && !kernel.is_view
        });
        let kernel = writers.next()?;
        let in_hbm = |value: ValueId| {
            let own = self
                .schedule
                .buffers
                .iter()
                .filter(|buffer| buffer.value == value);
            let spaces: Vec<i64> = own.map(Buffer::space).collect();
            !spaces.is_empty()
                && spaces
                    .iter()
                    .all(|&space| space == tegula_tpu_schedule::HBM)
        };
        let limit = tegula_tpu_schedule::Options::default().scoped_bytes;
        windows(
            self.module,
            &self.assignment,
            kernel,
            self.chip,
            limit,
            &in_hbm,
        )
    }

    fn show_windows(&self, windows: &Windows, text: &mut String) {
        let _ = writeln!(text, "  windows of its kernel, for arrays in HBM:");
        let one = |choice: &Choice| {
            format!(
                "block {:?} x grid {:?}: {} bytes of VMEM, {:.0} bytes of HBM moved, {:.3} us",
                choice.block,
                choice.grid,
                choice.vmem_bytes,
                choice.hbm_bytes,
                choice.seconds * 1e6
            )
        };
        let _ = writeln!(text, "  * {}", one(&windows.chosen));
        for window in &windows.windows {
            let name = name_of(self.module, &self.assignment.program, window.value);
            let _ = writeln!(
                text,
                "      {}: {:?}, {} bytes twice",
                name.unwrap_or("constant"),
                window.dims,
                window.bytes
            );
        }
        if !windows.masked.is_empty() {
            let _ = writeln!(
                text,
                "      the last block is masked along {:?}",
                windows.masked
            );
        }
        for choice in &windows.alternatives {
            let _ = writeln!(text, "    {}", one(choice));
        }
    }

    /// Describes a buffer's memory and lifetime, with the reason.
    fn place(&self, id: usize, buffer: &Buffer) -> String {
        let lives = self.schedule.lifetimes();
        let (first, last) = lives[self.schedule.base(id)];
        let space = match buffer.space() {
            tegula_tpu_schedule::VMEM => "VMEM".to_owned(),
            tegula_tpu_schedule::HBM => "HBM".to_owned(),
            other => format!("S({other})"),
        };
        let offset = buffer
            .offset
            .map(|at| format!(" at {at}"))
            .unwrap_or_default();
        let mut why = buffer.reason.to_string();
        let base = self.schedule.base(id);
        if base != id {
            why = format!("{why}: {}", self.schedule.buffers[base].reason);
        }
        format!(
            "{space}{offset}, {} bytes, steps {first} to {last}: {why}",
            buffer.bytes,
        )
    }
}

fn alternative(alternative: &Alternative) -> LayoutAlternative {
    LayoutAlternative {
        layout: alternative.layout.to_string(),
        traffic_seconds: alternative.traffic,
        wishes_seconds: alternative.wishes,
        links_seconds: alternative.links,
        chosen: alternative.chosen,
    }
}

fn explain(explanation: &Explanation, text: &mut String) {
    if let Some(fixed) = explanation.fixed {
        let _ = writeln!(text, "  no choice: {fixed}");
    }
    for wish in &explanation.wishes {
        let _ = writeln!(text, "  requested: {wish}");
    }
    if explanation.alternatives.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "  microseconds: memory traffic + requests not met + copies and transposes"
    );
    for alternative in &explanation.alternatives {
        let us = |seconds: f64| seconds * 1e6;
        let _ = writeln!(
            text,
            "  {} {:>9.3} = {:.3} + {:.3} + {:.3}  {}",
            if alternative.chosen { "*" } else { " " },
            us(alternative.traffic + alternative.wishes + alternative.links),
            us(alternative.traffic),
            us(alternative.wishes),
            us(alternative.links),
            alternative.layout,
        );
    }
}
