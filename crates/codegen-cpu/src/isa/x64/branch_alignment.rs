//! Keeps jumps of loops inside blocks of 32 bytes of code.
//!
//! Intel's cores from Skylake to Cascade Lake do not cache the decoded instructions of a block of
//! 32 bytes if a jump in it, or a comparison that is fused with one, ends at the block's end or
//! crosses it ("Mitigations for Jump Conditional Code Erratum", Intel 341810, November 2019). They
//! decode such a block again in each iteration: the same loop of a few instructions took 62 or
//! 100 us for 50,000 iterations, depending on its address (Cascade Lake, November 2026).
//!
//! In bodies, the encoder inserts NOPs before such a jump ([`padding`]). Cranelift cannot do that
//! for its functions, so each begins at the offset in a block where the fewest of its loops' jumps
//! are affected ([`best_start`]). Other cores were not measured.

use cranelift_codegen::CompiledCode;

/// The size of a block whose decoded instructions are cached together.
const BLOCK: usize = 32;

/// Bytes of a conditional jump and of an unconditional one, each with a displacement of 32 bits.
pub(super) const CONDITIONAL: usize = 6;
pub(super) const UNCONDITIONAL: usize = 5;

/// The assumed number of iterations of a loop, and the maximum depth of loops that is counted.
const ITERATIONS: u64 = 8;
const DEEPEST: u32 = 6;

/// Whether an instruction from `start` up to `end` (exclusive) ends at the end of a block or
/// crosses it.
fn crosses(start: usize, end: usize) -> bool {
    start / BLOCK != end / BLOCK
}

/// The number of NOP bytes needed before a jump of `bytes` bytes that would begin at offset `at`.
pub(super) fn padding(at: usize, bytes: usize) -> usize {
    match crosses(at, at + bytes) {
        true => BLOCK - at % BLOCK,
        false => 0,
    }
}

/// A jump inside a loop.
#[derive(Debug, PartialEq, Eq)]
struct LoopJump {
    /// The range of its bytes, including a comparison that is fused with it.
    start: usize,
    end: usize,
    /// The relative frequency of its execution.
    weight: u64,
}

/// The offset at which a function compiled by Cranelift should begin: at least `from`, a multiple
/// of `alignment`, and such that the jumps that [`crosses`] affects are executed least often. The
/// code must have been compiled with the setting `machine_code_cfg_info`.
pub(crate) fn best_start(compiled: &CompiledCode, from: usize, alignment: u32) -> usize {
    let jumps = loop_jumps(
        compiled.code_buffer(),
        &compiled.bb_starts,
        &compiled.bb_edges,
    );
    let cost = |start: &usize| -> u64 {
        let affected = jumps
            .iter()
            .filter(|jump| crosses(start + jump.start, start + jump.end));
        affected.map(|jump| jump.weight).sum()
    };
    let alignment = alignment.max(1) as usize;
    let first = from.next_multiple_of(alignment);
    let starts = (first..first + BLOCK).step_by(alignment);
    starts.min_by_key(cost).unwrap_or(first)
}

/// Finds the jumps of a function that are inside loops. A backward jump and its target enclose a
/// loop.
fn loop_jumps(code: &[u8], starts: &[u32], edges: &[(u32, u32)]) -> Vec<LoopJump> {
    let loops: Vec<(u32, u32)> = edges
        .iter()
        .filter(|(from, to)| to <= from)
        .copied()
        .collect();
    let mut jumps = Vec::new();
    if loops.is_empty() {
        return jumps;
    }
    // A block ends where the next one begins. The last block returns and is not examined.
    for pair in starts.windows(2) {
        let (block, end) = (pair[0], pair[1] as usize);
        let around = loops
            .iter()
            .filter(|&&(from, to)| (to..=from).contains(&block));
        let depth = around.count() as u32;
        let Some(code) = code.get(block as usize..end).filter(|_| depth > 0) else {
            continue;
        };
        let weight = ITERATIONS.pow(depth.min(DEEPEST));
        let mut rest = code;
        if rest.len() >= UNCONDITIONAL && rest[rest.len() - UNCONDITIONAL] == 0xe9 {
            rest = &rest[..rest.len() - UNCONDITIONAL];
            let start = block as usize + rest.len();
            jumps.push(LoopJump { start, end, weight });
        }
        if let Some(before) = rest.len().checked_sub(CONDITIONAL)
            && let [0x0f, 0x80..=0x8f, ..] = rest[before..]
        {
            let end = block as usize + rest.len();
            let start = end - CONDITIONAL - fused_bytes(&rest[..before]);
            jumps.push(LoopJump { start, end, weight });
        }
    }
    jumps
}

/// The number of bytes of the integer comparison at the end of `code`; 0 if there is none.
fn fused_bytes(code: &[u8]) -> usize {
    let ends_with = |bytes: usize, opcodes: &[u8]| {
        let Some(at) = code.len().checked_sub(bytes) else {
            return false;
        };
        (0x40..=0x4f).contains(&code[at]) && opcodes.contains(&code[at + 1])
    };
    // `cmp r, imm32` with a prefix, `cmp r, imm8`, then `cmp` and `test` of two registers.
    if ends_with(7, &[0x81]) {
        7
    } else if ends_with(4, &[0x83]) {
        4
    } else if ends_with(3, &[0x39, 0x3b, 0x84, 0x85]) {
        3
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_that_reach_the_end_of_a_block_are_padded() {
        assert_eq!(padding(0, 6), 0);
        assert_eq!(padding(25, 6), 0);
        // Ends at the boundary, then crosses it.
        assert_eq!(padding(26, 6), 6);
        assert_eq!(padding(31, 6), 1);
        assert_eq!(padding(32, 6), 0);
    }

    /// A loop of one block, `cmp r8, r9; jl back`, after an entry of this many bytes.
    fn loop_behind(entry: usize) -> (Vec<u8>, Vec<u32>, Vec<(u32, u32)>) {
        let mut code = vec![0x90; entry];
        code.extend([0x4d, 0x39, 0xc8, 0x0f, 0x8c, 0xf7, 0xff, 0xff, 0xff, 0xc3]);
        let first = entry as u32;
        let starts = vec![0, first, first + 9];
        (
            code,
            starts,
            vec![(0, first), (first, first), (first, first + 9)],
        )
    }

    #[test]
    fn jumps_of_loops_are_found_with_what_is_fused() {
        let (code, starts, edges) = loop_behind(20);
        let weight = ITERATIONS;
        let jump = LoopJump {
            start: 20,
            end: 29,
            weight,
        };
        assert_eq!(loop_jumps(&code, &starts, &edges), [jump]);
        // Without the jump back there is no loop.
        assert_eq!(loop_jumps(&code, &starts, &[(0, 20)]), []);
    }
}
