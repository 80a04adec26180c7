//! Planning: the passes from a module to a Plan, which all targets with a single memory share.

use crate::boundary::Boundary;
use crate::{Error, LayoutPolicy};
use std::borrow::Cow;
use tegula_fusion::{Fused, Limits, ProgramText, Routines, ShortLoops};
use tegula_ir::{Module, PassManager};
use tegula_layout::apply_layouts::{apply_layouts, drawn};
use tegula_layout::assign::{Machine, Ordered, Reason, dense_orders, stated_orders};
use tegula_plan::{Plan, StripLimits};

/// Options of planning.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Limits on the memory within kernels.
    pub limits: Limits,
    /// The machine whose costs are estimated.
    pub machine: Machine,
    /// The orders of dimensions in memory.
    pub orders: LayoutPolicy,
    /// The limits of strip-mining; [`None`] disables it.
    pub strips: Option<StripLimits>,
    /// Whether to record the reasons for layouts.
    pub reasons: bool,
    /// How LAPACK routines are compiled.
    pub routines: Routines,
}

/// The options for a CPU.
impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            machine: Machine::cpu(),
            orders: LayoutPolicy::LeastCost,
            strips: Some(StripLimits::CPU),
            reasons: false,
            routines: Routines::Called,
        }
    }
}

impl PlanOptions {
    /// The options for a GPU.
    #[cfg(feature = "cuda")]
    pub fn gpu() -> Self {
        Self {
            limits: tegula_codegen_cuda::LIMITS,
            machine: Machine::gpu(),
            strips: None,
            routines: Routines::Expanded,
            ..Self::default()
        }
    }
}

/// A planned program, as input for a backend.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// The module, with composite operations expanded. The fused graph refers to its instructions.
    pub module: Cow<'a, Module>,
    /// The fused graph, which says which operations share a kernel.
    pub fused: Fused,
    /// The plan: kernels, buffers and steps.
    pub plan: Plan,
    /// If [`PlanOptions::reasons`] is set: the arrays whose layout is not row-major, each with the
    /// instruction, the layout and the reason.
    pub reasons: Vec<(String, tegula_ir::Layout, Reason)>,
    pub(crate) boundary: Boundary,
}

impl Planned<'_> {
    /// The same program with an owned module.
    pub fn into_owned(self) -> Planned<'static> {
        Planned {
            module: Cow::Owned(self.module.into_owned()),
            fused: self.fused,
            plan: self.plan,
            reasons: self.reasons,
            boundary: self.boundary,
        }
    }
}

/// Fuses and plans a module for a CPU. The instructions of the fused graph are those of the
/// [expanded](tegula_fusion::expand) module, after [products are moved before
/// loops](tegula_fusion::hoist_loop_products) and [sums after
/// loops](tegula_fusion::sink_loop_reductions), with new instructions for arrays whose layout is
/// not row-major.
///
/// # Errors
/// An operation that is not supported yet.
pub fn plan(module: &Module) -> Result<Planned<'_>, Error> {
    plan_for(module, &PlanOptions::default())
}

/// As [`plan`], with options for a machine and a backend.
///
/// # Errors
/// An operation that is not supported yet.
pub fn plan_for<'a>(module: &'a Module, options: &PlanOptions) -> Result<Planned<'a>, Error> {
    plan_observed(module, options, &mut PassManager::new())
}

/// As [`plan_for`], with an optional observer of the passes.
pub(crate) fn plan_observed<'a>(
    module: &'a Module,
    options: &PlanOptions,
    passes: &mut PassManager<'_>,
) -> Result<Planned<'a>, Error> {
    let given = module;
    let module = passes.run("expand", || {
        tegula_fusion::expand_for(module, options.routines)
    })?;
    passes.show("expand", &*module);
    tegula_limits::check()?;
    let module = passes.run("hoist-loop-products", || {
        tegula_fusion::hoist_loop_products(module)
    });
    passes.show("hoist-loop-products", &*module);
    let module = passes.run("sink-loop-reductions", || {
        tegula_fusion::sink_loop_reductions(module)
    });
    passes.show("sink-loop-reductions", &*module);
    let short_loops = match options.orders {
        // Tests with random orders exercise loops in full, however short they are.
        LayoutPolicy::Random(_) => ShortLoops::Kept,
        LayoutPolicy::LeastCost | LayoutPolicy::FromProgram => ShortLoops::Unrolled,
    };
    tegula_limits::check()?;
    let program = tegula_fusion::flatten(&module, short_loops, passes)?;
    tegula_limits::check()?;
    let ordered = passes.run("choose-layouts", || ordered(&module, program, options));
    passes.show("choose-layouts", &ordered.orders);
    let boundary = Boundary::of(given, &ordered.program, &ordered.orders);
    let (module, program) = passes.run("apply-layouts", || {
        apply_layouts(module, ordered.program, &ordered.orders)
    })?;
    let text = ProgramText {
        module: &module,
        program: &program,
    };
    passes.show("apply-layouts", &text);
    tegula_limits::check()?;
    let (mut limits, mut strips) = (options.limits, options.strips);
    if let LayoutPolicy::Random(_) = options.orders {
        limits.shallow = 0;
        strips = strips.map(|_| StripLimits::ALWAYS);
    }
    let fused = tegula_fusion::fuse(&module, program, limits, passes)?;
    tegula_limits::check()?;
    let plan = tegula_plan::plan(&module, &fused, strips, passes)?;
    tegula_limits::check()?;
    Ok(Planned {
        module,
        fused,
        plan,
        reasons: ordered.reasons,
        boundary,
    })
}

/// The flattened program, with the dimension orders of its arrays.
fn ordered(module: &Module, program: tegula_fusion::Program, options: &PlanOptions) -> Ordered {
    match options.orders {
        LayoutPolicy::LeastCost => dense_orders(module, program, &options.machine, options.reasons),
        LayoutPolicy::FromProgram => stated_orders(module, program),
        LayoutPolicy::Random(seed) => Ordered {
            orders: drawn(&program, seed),
            program,
            reasons: Vec::new(),
        },
    }
}
