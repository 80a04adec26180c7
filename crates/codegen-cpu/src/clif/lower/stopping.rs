//! Cancellation inside a kernel: long loops poll the run's stop flag.
//!
//! A kernel returns early, with incomplete results, if the [stop flag](tegula_limits::StopFlag) of
//! the run is set; the run time tests the flag again and returns an error. A loop polls before it
//! begins, and only if it is [`LONG`], so that the cost is negligible. A single loop that would run
//! for very long is split into chunks. The chunks do not depend on whether the flag is polled,
//! because partial sums depend on them: code in objects does not poll.

use super::{Lower, Values};
use crate::clif::counted_loop::CountedLoop;
use crate::error::Error;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use smallvec::SmallVec;
use tegula_expr::Var;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, ScalarId, Statement};

/// A loop with at least this many iterations, including those of inner loops, polls before it
/// begins.
const LONG: i64 = 1 << 12;
/// A loop with at least this many iterations and no long inner loop is split into chunks: it takes
/// tens of milliseconds.
const VERY_LONG: i64 = 1 << 24;
/// Iterations of a chunk.
const CHUNK: i64 = 1 << 20;

/// The iterations of a loop, including those of inner loops. A symbolic size counts as one
/// iteration.
fn iterations(kernel: &Kernel, var: Var, body: &Block) -> i64 {
    let own = kernel.constant_extent(var).unwrap_or(1).max(0);
    own.saturating_mul(inner_iterations(kernel, body).max(1))
}

/// The iterations of the loops in a block.
fn inner_iterations(kernel: &Kernel, block: &Block) -> i64 {
    let of = |statement: &Statement| match statement {
        Statement::Loop { var, body, .. } => iterations(kernel, *var, body),
        Statement::If {
            then, otherwise, ..
        } => inner_iterations(kernel, then).saturating_add(inner_iterations(kernel, otherwise)),
        _ => 0,
    };
    block
        .statements
        .iter()
        .fold(0, |sum, s| sum.saturating_add(of(s)))
}

/// Whether the code of a kernel polls the stop flag.
pub(crate) fn looks(kernel: &Kernel) -> bool {
    fn in_block(kernel: &Kernel, block: &Block) -> bool {
        block.statements.iter().any(|statement| match statement {
            Statement::Loop { var, body, .. } => {
                iterations(kernel, *var, body) >= LONG || in_block(kernel, body)
            }
            Statement::If {
                then, otherwise, ..
            } => in_block(kernel, then) || in_block(kernel, otherwise),
            _ => false,
        })
    }
    in_block(kernel, &kernel.body)
}

/// A loop of a kernel.
pub(super) struct LoopStatement<'s> {
    pub(super) var: Var,
    pub(super) carried: &'s [ScalarId],
    pub(super) body: &'s Block,
}

impl Lower<'_, '_> {
    /// Loads the address of the stop flag, which comes after the arguments and the symbols' values.
    pub(super) fn stop_flag(&mut self, args: Value) {
        if self.imports.stops() && looks(self.kernel) {
            let flags = MemFlagsData::trusted().with_readonly();
            let place = 8 * (self.kernel.given() as i32 + 1);
            self.flag = Some(self.builder.ins().load(types::I64, flags, args, place));
        }
    }

    /// Runs all iterations of a loop. Returns the final carried values.
    pub(super) fn whole_loop(
        &mut self,
        looped: &LoopStatement<'_>,
        init: &[Value],
    ) -> Result<SmallVec<[Value; 4]>, Error> {
        let begin = self.integer(types::I64, 0);
        let end = self.extent(looped.var)?;
        let inner = inner_iterations(self.kernel, looped.body);
        let all = iterations(self.kernel, looped.var, looped.body);
        if inner >= LONG || all < VERY_LONG {
            if all >= LONG {
                self.return_if_stopped();
            }
            return self.part_of_loop(looped, [begin, end], init);
        }
        let turn = CountedLoop::open(self.builder, begin, end, init);
        self.open_terms();
        self.return_if_stopped();
        let chunk = (CHUNK / inner.max(1)).max(1);
        let behind = self.builder.ins().iadd_imm_s(turn.counter, chunk);
        let behind = self.builder.ins().smin(behind, end);
        let (first, carried) = (turn.counter, turn.carried.clone());
        let next = self.part_of_loop(looped, [first, behind], &carried);
        self.close_terms();
        Ok(turn.close(self.builder, chunk, &next?))
    }

    /// Runs some iterations of a loop: as a vector loop, as a row loop, or one after the other.
    fn part_of_loop(
        &mut self,
        &LoopStatement { var, carried, body }: &LoopStatement<'_>,
        [begin, end]: [Value; 2],
        init: &[Value],
    ) -> Result<SmallVec<[Value; 4]>, Error> {
        if let Some(run) = self.vectors.loops.get(&var) {
            let lanes = self.builder.ins().isub(end, begin);
            return self.run_of_lanes(run, [begin, lanes], carried, init);
        }
        if init.is_empty() && self.loop_in_turns(var, body, [begin, end])? {
            return Ok(SmallVec::new());
        }
        self.count(begin, end, Some(var), init, &mut |lower, _, state| {
            lower.define_flat(carried, state);
            lower.statements(body)?;
            let next: Values = lower.flat(&body.results).into_iter().collect();
            Ok(next)
        })
    }

    /// Returns from the function if the run is to stop.
    fn return_if_stopped(&mut self) {
        let Some(flag) = self.flag else {
            return;
        };
        let [stop, go_on] = [(); 2].map(|()| self.builder.create_block());
        // An atomic load is not moved out of loops.
        let flags = MemFlagsData::trusted();
        let stopped = self.builder.ins().atomic_load(types::I8, flags, flag);
        self.builder.ins().brif(stopped, stop, &[], go_on, &[]);
        self.builder.switch_to_block(stop);
        self.builder.seal_block(stop);
        self.builder.func.layout.set_cold(stop);
        self.builder.ins().return_(&[]);
        self.builder.switch_to_block(go_on);
        self.builder.seal_block(go_on);
    }
}
