//! Counted loops in Cranelift: their blocks and loop-carried values.
//!
//! ```text
//!     counter < end ? inside(counter, carried..) : exit(carried..)
//! inside: ...; counter + step < end ? inside(counter + step, next..) : exit(next..)
//! exit:
//! ```
//!
//! The condition is tested before the first iteration and again at the end of each, so that an
//! iteration has only one jump.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;

/// A loop whose body is being built.
pub(crate) struct CountedLoop {
    inside: Block,
    exit: Block,
    end: Value,
    /// The counter of this iteration, an i64.
    pub(crate) counter: Value,
    /// The values carried into this iteration.
    pub(crate) carried: SmallVec<[Value; 4]>,
    /// The values that the last iteration carried out, or the initial ones if there was none.
    results: SmallVec<[Value; 4]>,
}

impl CountedLoop {
    /// Opens a loop whose counter runs from `begin` to `end` (exclusive); the builder is inside it
    /// afterwards.
    pub(crate) fn open(
        builder: &mut FunctionBuilder<'_>,
        begin: Value,
        end: Value,
        init: &[Value],
    ) -> Self {
        let inside = builder.create_block();
        let exit = builder.create_block();
        let counter = builder.append_block_param(inside, types::I64);
        let mut carried = SmallVec::with_capacity(init.len());
        let mut results = SmallVec::with_capacity(init.len());
        for &value in init {
            let ty = builder.func.dfg.value_type(value);
            carried.push(builder.append_block_param(inside, ty));
            results.push(builder.append_block_param(exit, ty));
        }
        let turn = Self {
            inside,
            exit,
            end,
            counter,
            carried,
            results,
        };
        turn.go_on(builder, begin, init);
        builder.switch_to_block(inside);
        turn
    }

    /// Branches to an iteration with this counter, or out of the loop.
    fn go_on(&self, builder: &mut FunctionBuilder<'_>, counter: Value, carried: &[Value]) {
        let more = builder.ins().icmp(IntCC::SignedLessThan, counter, self.end);
        let out: Vec<BlockArg> = carried.iter().copied().map(BlockArg::from).collect();
        let again: Vec<BlockArg> = std::iter::once(BlockArg::from(counter))
            .chain(out.iter().copied())
            .collect();
        builder
            .ins()
            .brif(more, self.inside, &again, self.exit, &out);
    }

    /// Ends the iteration with the values carried to the next one; the builder is after the loop
    /// afterwards. Returns the values that the last iteration carried out, or the initial ones if
    /// there was none.
    pub(crate) fn close(
        self,
        builder: &mut FunctionBuilder<'_>,
        step: i64,
        next: &[Value],
    ) -> SmallVec<[Value; 4]> {
        let counter = builder.ins().iadd_imm_s(self.counter, step);
        self.go_on(builder, counter, next);
        builder.seal_block(self.inside);
        builder.switch_to_block(self.exit);
        builder.seal_block(self.exit);
        self.results
    }
}
