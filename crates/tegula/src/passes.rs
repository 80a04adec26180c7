//! The pass pipelines of all targets: the names of the passes, and running a pipeline with an
//! observer.

use crate::Error;
use crate::planning::{PlanOptions, plan_observed};
use crate::{Options, Target};
use tegula_codegen_cpu::{KERNEL_PASSES, Listing};
use tegula_ir::{Module, PassManager};

/// The names of the passes of a target's pipeline, in order. [`Target::Interp`] has none.
pub fn passes(target: Target) -> Vec<&'static str> {
    let mut passes = match target {
        Target::Interp => return Vec::new(),
        #[cfg(feature = "tpu")]
        Target::Tpu => return crate::tpu::passes(),
        #[cfg(not(feature = "tpu"))]
        Target::Tpu => return Vec::new(),
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
        &["expand", "hoist-loop-products", "sink-loop-reductions"],
        flatten,
        &["choose-layouts", "apply-layouts"],
        fuse,
        &tegula_plan::PASSES,
    ];
    parts.concat()
}

/// Runs a target's pipeline on a verified module, for the observer of `manager`.
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
        #[cfg(feature = "tpu")]
        Target::Tpu => {
            let chip = options.chip()?;
            return crate::tpu::TpuExecutable::observed(module, &chip, manager).map(|_| ());
        }
        #[cfg(not(feature = "tpu"))]
        Target::Tpu => return Err(crate::backend::missing("TPUs", "tpu")),
        #[cfg(feature = "cuda")]
        Target::Cuda | Target::CudaSim => PlanOptions::gpu(),
        #[cfg(not(feature = "cuda"))]
        Target::Cuda | Target::CudaSim => return Err(crate::backend::missing("CUDA", "cuda")),
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
        #[cfg(feature = "cuda")]
        Target::Cuda | Target::CudaSim => {
            use tegula_codegen_cuda::{Arch, Listing, listing};
            let bytes = manager.run("emit-cuda", || listing(&plan, Arch::OLDEST, Listing::Cuda))?;
            manager.show("emit-cuda", &String::from_utf8_lossy(&bytes));
        }
        _ => {}
    }
    Ok(())
}
