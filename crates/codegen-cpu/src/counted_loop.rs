//! Counted loops in Cranelift: the blocks, and what is carried from turn to turn.
//!
//! ```text
//! header(counter, carried..): counter < end ? inside : exit
//! inside: ...; jump header(counter + step, next..)
//! exit:
//! ```

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;

/// A loop whose body is being built.
pub(crate) struct CountedLoop {
    header: Block,
    inside: Block,
    exit: Block,
    /// The counter of this turn, an i64.
    pub(crate) counter: Value,
    /// What this turn is given; after the loop, what its last turn gave.
    pub(crate) carried: SmallVec<[Value; 4]>,
}

impl CountedLoop {
    /// Opens a loop while the counter, from `begin` on, is below `end`; the builder
    /// is inside it then.
    pub(crate) fn open(
        builder: &mut FunctionBuilder<'_>,
        begin: Value,
        end: Value,
        init: &[Value],
    ) -> Self {
        let header = builder.create_block();
        let inside = builder.create_block();
        let exit = builder.create_block();
        let counter = builder.append_block_param(header, types::I64);
        let mut carried = SmallVec::with_capacity(init.len());
        for &value in init {
            let ty = builder.func.dfg.value_type(value);
            carried.push(builder.append_block_param(header, ty));
        }
        builder.ins().jump(header, &arguments(begin, init));
        builder.switch_to_block(header);
        let more = builder.ins().icmp(IntCC::SignedLessThan, counter, end);
        builder.ins().brif(more, inside, &[], exit, &[]);
        builder.switch_to_block(inside);
        Self {
            header,
            inside,
            exit,
            counter,
            carried,
        }
    }

    /// Ends the turn with what the next is given; the builder is after the loop then.
    /// Gives what the last turn gave, or the loop was given if there was none.
    pub(crate) fn close(
        self,
        builder: &mut FunctionBuilder<'_>,
        step: i64,
        next: &[Value],
    ) -> SmallVec<[Value; 4]> {
        let counter = builder.ins().iadd_imm_s(self.counter, step);
        builder.ins().jump(self.header, &arguments(counter, next));
        builder.seal_block(self.header);
        builder.seal_block(self.inside);
        builder.switch_to_block(self.exit);
        builder.seal_block(self.exit);
        self.carried
    }
}

fn arguments(counter: Value, carried: &[Value]) -> Vec<BlockArg> {
    let all = std::iter::once(counter).chain(carried.iter().copied());
    all.map(BlockArg::from).collect()
}
