//! The pipelines of all targets: which passes there are, and running them for whoever wants to see
//! what each gives.

use crate::Error;
use crate::compiled::{Options, PlanOptions, Target, plan_observed};
use crate::tpu::TpuExecutable;
use tegula_codegen_cpu::{KERNEL_PASSES, Listing};
use tegula_codegen_cuda::Arch;
use tegula_ir::{Module, PassManager};

/// The passes of a target's pipeline by name, in their order. [`Target::Interp`] has none.
pub fn passes(target: Target) -> Vec<&'static str> {
    let mut passes = match target {
        Target::Interp => return Vec::new(),
        Target::Tpu => return crate::tpu::passes(),
        Target::Plan | Target::Cpu | Target::Cuda | Target::CudaSim => plan_passes(),
    };
    match target {
        Target::Cpu => {
            passes.extend(KERNEL_PASSES);
            passes.push("lower-to-clif");
        }
        Target::Cuda | Target::CudaSim => passes.push("emit-cuda"),
        _ => {}
    }
    passes
}

fn plan_passes() -> Vec<&'static str> {
    let [flatten, fuse] = tegula_fusion::PASSES;
    let parts: [&[&str]; 5] = [
        &["expand", "sink-loop-reductions"],
        flatten,
        &["choose-layouts", "apply-layouts"],
        fuse,
        &tegula_plan::PASSES,
    ];
    parts.concat()
}

/// Runs the pipeline of a target over a verified module for the observer of `manager`.
///
/// # Errors
/// As [`compile`](crate::compile).
pub fn run_passes(
    module: &Module,
    options: &Options,
    manager: &mut PassManager<'_>,
) -> Result<(), Error> {
    let plan_options = match options.target {
        Target::Interp => return Ok(()),
        Target::Tpu => {
            let chip = options.chip()?;
            return TpuExecutable::observed(module, &chip, manager).map(|_| ());
        }
        Target::Cuda | Target::CudaSim => PlanOptions::gpu(),
        Target::Plan | Target::Cpu => PlanOptions::default(),
    };
    let plan = plan_observed(module, &plan_options, manager)?.plan;
    match options.target {
        Target::Cpu => {
            let options = tegula_codegen_cpu::Options {
                cpu: options.cpu,
                threads: options.threads,
                ..Default::default()
            };
            tegula_codegen_cpu::run_kernel_passes(&plan, &options, manager);
            let text = manager.run("lower-to-clif", || {
                tegula_codegen_cpu::listing(&plan, &options, Listing::Clif)
            })?;
            manager.show("lower-to-clif", &text);
        }
        Target::Cuda | Target::CudaSim => {
            let bytes = manager.run("emit-cuda", || {
                let what = tegula_codegen_cuda::Listing::Cuda;
                tegula_codegen_cuda::listing(&plan, Arch::OLDEST, what)
            })?;
            manager.show("emit-cuda", &String::from_utf8_lossy(&bytes));
        }
        _ => {}
    }
    Ok(())
}
