//! The pass pipeline from a module to its fused graph: [`flatten`], then [`fuse`].
//!
//! Between the two, layouts are chosen (`tegula_layout`). The passes [`expand`](crate::expand),
//! [`hoist_loop_products`](crate::hoist_loop_products) and
//! [`sink_loop_reductions`](crate::sink_loop_reductions) on modules come before them.

use crate::cluster::cluster;
use crate::error::Error;
use crate::fused::Fused;
use crate::fused_text::{ClustersText, FusedText};
use crate::limits::Limits;
use crate::program::Program;
use crate::program::flatten::flatten_module;
use crate::program::text::ProgramText;
use crate::rewrite::dce::remove_dead;
use crate::rewrite::fold_constants::fold_constants;
use crate::rewrite::fold_transposes::fold;
use crate::rewrite::fuse_accumulation::accumulate;
use crate::rewrite::gvn::merge;
use crate::rewrite::loop_invariant_motion::move_out;
use crate::schedule::emit_regions::emit_kernels;
use tegula_ir::{Module, PassManager};

/// The names of the passes of [`flatten`] and of those of [`fuse`].
pub const PASSES: [&[&str]; 2] = [
    &["flatten", "fold-constants", "gvn", "dce"],
    &[
        "loop-invariant-motion",
        "fold-transposes",
        "fuse-accumulation",
        "cluster",
        "emit-kernels",
    ],
];

/// What to do with counted loops of few iterations and little work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortLoops {
    /// Keep them as loops.
    Kept,
    /// Unroll them. Their states become ordinary values, which fuse with their users. (JAX's random
    /// numbers are computed in such loops.)
    Unrolled,
}

/// Flattens a verified, [expanded](crate::expand) module: removes tuples, calls and copies, and
/// merges equal results of costly operations.
///
/// # Errors
/// An instruction that has no meaning on one device, a size that does not follow from those of
/// the inputs (of a module whose sizes are [resolved](tegula_ir::infer_symbolic_dims)), or a program
/// beyond [`MAX_NODES`](crate::MAX_NODES) or [`MAX_DEPTH`](crate::MAX_DEPTH).
pub fn flatten(
    module: &Module,
    short_loops: ShortLoops,
    passes: &mut PassManager<'_>,
) -> Result<Program, Error> {
    let unroll = short_loops == ShortLoops::Unrolled;
    let mut program = passes.run("flatten", || flatten_module(module, unroll))?;
    let mut rewrites = Rewrites {
        module,
        program: &mut program,
        passes,
    };
    rewrites.show("flatten");
    rewrites.run("fold-constants", fold_constants);
    rewrites.run("gvn", merge);
    rewrites.run("dce", remove_dead);
    Ok(program)
}

/// Fuses a flattened program, within a backend's `limits` on kernels.
///
/// # Errors
/// An operation that cannot be compiled yet, by name.
pub fn fuse(
    module: &Module,
    mut program: Program,
    limits: Limits,
    passes: &mut PassManager<'_>,
) -> Result<Fused, Error> {
    let mut rewrites = Rewrites {
        module,
        program: &mut program,
        passes,
    };
    rewrites.run("loop-invariant-motion", move_out);
    rewrites.run("fold-transposes", |module, program| {
        fold(module, program, limits.shallow);
    });
    rewrites.run("fuse-accumulation", accumulate);
    let clusters = passes.run("cluster", || cluster(module, &program, limits));
    let text = ClustersText {
        module,
        program: &program,
        clusters: &clusters,
    };
    passes.show("cluster", &text);
    let fused = passes.run("emit-kernels", || {
        emit_kernels(module, program, clusters, limits)
    })?;
    let text = FusedText {
        module,
        fused: &fused,
    };
    passes.show("emit-kernels", &text);
    Ok(fused)
}

/// Runs passes that rewrite a flat program.
struct Rewrites<'a, 'o> {
    module: &'a Module,
    program: &'a mut Program,
    passes: &'a mut PassManager<'o>,
}

impl Rewrites<'_, '_> {
    fn run(&mut self, name: &'static str, pass: impl FnOnce(&Module, &mut Program)) {
        self.passes.run(name, || pass(self.module, self.program));
        self.show(name);
    }

    fn show(&mut self, name: &'static str) {
        let (module, program) = (self.module, &*self.program);
        self.passes.show(name, &ProgramText { module, program });
    }
}
