//! Bodies as AVX-512 machine code.
//!
//! A body becomes a leaf function of the System V calling convention, `fn(slots,
//! n)`: the inputs, eight bytes each, the reductions' places behind them, and the
//! number of lanes, at least one. It has no relocations; its constants lie behind
//! the code.

mod assembler;
mod conversions;
mod encode;
mod listing;
mod machine;
mod memory;
mod opcodes;
mod reduce;
mod select;

pub(crate) use listing::listing;

use super::body::Body;
use super::schedule::scheduled;

/// The lowering, with what it keeps from one body to the next.
#[derive(Default)]
pub(crate) struct Wide(encode::Allocator);

impl Wide {
    /// A body's code; `None` if something in it has no instruction.
    /// `lanes_at_most`: what is known of the number of lanes.
    pub(crate) fn lower(&mut self, body: &Body, lanes_at_most: Option<i64>) -> Option<Vec<u8>> {
        let in_flight = select::in_flight(body, lanes_at_most);
        let ordered = (body.values.len() >= select::LONG).then(|| scheduled(body, in_flight));
        let assembler = select::select(ordered.as_ref().unwrap_or(body), lanes_at_most)?;
        let (blocks, registers, pool) = assembler.finish();
        let machine = machine::Machine::new(blocks, registers);
        encode::encode(&mut self.0, &machine, &pool)
    }
}

/// Whether this machine has what the code uses.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Whether this machine has what the code uses.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_supported() -> bool {
    false
}
