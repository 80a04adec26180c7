//! Bodies as machine code of AVX-512 or AVX2.
//!
//! A body becomes a leaf function of the System V calling convention, `fn(slots,
//! n)`: the inputs, eight bytes each, the reductions' places behind them, and the
//! number of lanes, at least one. The inputs are gone when it returns. It has no relocations;
//! its constants lie behind the code.
//!
//! A body of several rows is `fn(slots, n, rows)`: so many rows of `n` lanes, with the slots of
//! each behind those of the row before, or with what each turn of a loop finds out itself
//! ([`RowsIn`]).
//!
//! The two sets of instructions ([`set`]) differ in how wide vectors are, in how many, in what
//! a mask is, and in which operations have an instruction ([`opcodes`]); [`missing`] has what
//! AVX2 needs several for, [`lanes`] what it does lane by lane. What neither has makes the
//! body one for the portable lowering.

mod arithmetic;
mod assembler;
mod conversions;
mod encode;
mod in_flight;
mod inputs;
mod lanes;
mod listing;
mod machine;
mod masks;
mod memory;
mod missing;
mod opcodes;
mod pairs;
mod reduce;
mod rows;
mod select;
mod set;
mod strided;

pub(crate) use listing::listing;
pub(crate) use set::InstructionSet;

use self::in_flight::{LONG, in_flight};
use super::body::Body;
use super::exclusive::shared;
use super::schedule::scheduled;
use super::turns::RowsIn;

/// The lowering, with what it keeps from one body to the next.
pub(crate) struct Wide {
    set: InstructionSet,
    allocator: encode::Allocator,
}

impl Wide {
    /// To instructions of a set.
    pub(crate) fn new(set: InstructionSet) -> Self {
        Self {
            set,
            allocator: encode::Allocator::new(set),
        }
    }

    /// Whether lanes at equal distances are stores and loads of neighbours.
    pub(crate) fn puts_in_turn(&self) -> bool {
        self.set == InstructionSet::Avx512
    }

    /// A body's code; `None` if something in it has no instruction. `lanes_at_most`: what is
    /// known of the number of lanes, which several rows have exactly; `streamed`: the accesses
    /// that store past the caches, as [`streaming`](crate::streaming) finds them.
    pub(crate) fn lower(
        &mut self,
        body: &Body,
        lanes_at_most: Option<i64>,
        rows: RowsIn<'_>,
        streamed: &[u32],
    ) -> Option<Vec<u8>> {
        // With AVX2 a choice costs as much as a multiplication, and constants take registers.
        let shared = match self.set {
            InstructionSet::Avx512 => shared(body),
            InstructionSet::Avx2 => None,
        };
        let body = shared.as_ref().unwrap_or(body);
        let streamed = self.streamed(body, streamed);
        let in_flight = in_flight(self.set, body, lanes_at_most);
        let ordered = (body.size() >= LONG).then(|| scheduled(body, self.set, in_flight));
        let body = ordered.as_ref().unwrap_or(body);
        let assembler = select::select(self.set, (body, &streamed), lanes_at_most, rows)?;
        let (blocks, registers, pool) = assembler.finish();
        let machine = machine::Machine::new(self.set, blocks, registers);
        encode::encode(&mut self.allocator, &machine, &pool)
    }

    /// Those of the accesses that there is an instruction for.
    fn streamed(&self, body: &Body, streamed: &[u32]) -> Vec<u32> {
        let lanes = self.set.lanes(body.is_wide()) as u32;
        let bytes = |access: u32| lanes * body.accesses[access as usize].storage.bytes;
        let all = streamed.iter().copied();
        all.filter(|&access| bytes(access) >= LEAST_STREAMED)
            .collect()
    }
}

/// The fewest bytes that are stored past the caches: those of the shortest vector.
const LEAST_STREAMED: u32 = 16;
