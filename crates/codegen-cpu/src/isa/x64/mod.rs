//! Lowers SIMD bodies to machine code of AVX-512 or AVX2.
//!
//! A body becomes a leaf function of the System V calling convention, `fn(slots, n)`. The slots are
//! the inputs, eight bytes each, followed by the reductions; `n` is the number of lanes, at least
//! one. The function may overwrite the inputs. It has no relocations; its constants are stored
//! after the code.
//!
//! A body of several rows is `fn(slots, n, rows)`: it computes `rows` rows of `n` lanes. Either
//! each row has its own slots, after those of the row before, or each iteration of a loop computes
//! its inputs itself ([`RowsIn`]).
//!
//! The two instruction sets ([`features`]) differ in the width and number of vectors, in the form
//! of masks, and in which operations have an instruction ([`opcodes`]). [`legalize_avx2`] expands
//! operations for which AVX2 needs several instructions, [`scalarize`] those that it does lane by
//! lane. A body with an operation that neither supports uses the portable lowering.

mod arithmetic;
mod assembler;
mod backward_access;
pub(crate) mod branch_alignment;
mod conversions;
mod disasm;
mod emit;
mod features;
mod half_precision;
mod inputs;
mod inst;
mod interleaved64;
mod isel;
mod legalize_avx2;
mod masks;
mod memory;
mod narrow_gather;
mod opcodes;
mod row_loop;
mod scalarize;
mod spanned_gather;
mod unroll_factor;

use self::unroll_factor::{LONG, in_flight};
use crate::simd::ir::Body;
use crate::simd::list_schedule::scheduled;
use crate::simd::merge_selected_polynomials::shared;
use crate::simd::row_addressing::RowsIn;
pub(crate) use disasm::{instructions, listing};
pub(crate) use features::InstructionSet;

/// The lowering, with memory that is reused between bodies.
pub(crate) struct Wide {
    set: InstructionSet,
    allocator: emit::Allocator,
}

impl Wide {
    /// A lowering to this instruction set.
    pub(crate) fn new(set: InstructionSet) -> Self {
        Self {
            set,
            allocator: emit::Allocator::new(set),
        }
    }

    /// A body's code and its origins; `None` if an operation has no instruction. `lanes_at_most`:
    /// the maximum number of lanes (for several rows, the exact number); `streamed`: the accesses
    /// that store past the caches, as determined by
    /// [`streaming`](crate::program::nontemporal_stores).
    pub(crate) fn lower(
        &mut self,
        body: &Body,
        lanes_at_most: Option<i64>,
        rows: RowsIn<'_>,
        streamed: &[u32],
    ) -> Option<emit::LinkedCode> {
        // With AVX2 a select costs as much as a multiplication, and constants take registers.
        let shared = match self.set {
            InstructionSet::Avx512 => shared(body),
            InstructionSet::Avx2 => None,
        };
        let body = shared.as_ref().unwrap_or(body);
        let streamed = self.streamed(body, streamed);
        let in_flight = in_flight(self.set, body, lanes_at_most);
        let ordered = (body.size() >= LONG).then(|| scheduled(body, self.set.alive(), in_flight));
        let body = ordered.as_ref().unwrap_or(body);
        let assembler = isel::select(self.set, (body, &streamed), lanes_at_most, rows)?;
        let (blocks, registers, pool) = assembler.finish();
        let machine = inst::Machine::new(self.set, blocks, registers);
        emit::encode(&mut self.allocator, &machine, &pool)
    }

    /// The accesses for whose vectors there is a non-temporal store.
    fn streamed(&self, body: &Body, streamed: &[u32]) -> Vec<u32> {
        let lanes = self.set.lanes(body.is_wide()) as u32;
        let bytes = |access: u32| lanes * body.accesses[access as usize].storage.bytes;
        let all = streamed.iter().copied();
        all.filter(|&access| bytes(access) >= LEAST_STREAMED)
            .collect()
    }
}

/// The minimum bytes of a non-temporal store: those of the shortest vector.
const LEAST_STREAMED: u32 = 16;
