//! The table of supported opcodes, with the decoder and the supported forms of each. The list in
//! the documentation is generated from it.

use super::instruction::{Decoded, Decoding};
use super::{collective, compare, control, convert, float, integer, matrix, memory, moves};
use crate::operation::{Float1, Int1, Int2, Logic, Op};

/// An opcode.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// The supported forms, for the documentation.
    pub(crate) forms: &'static str,
    pub(super) decode: fn(&mut Decoding<'_, '_>) -> Decoded,
}

/// The entry of an opcode.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    TABLE
        .binary_search_by(|entry| entry.name.cmp(name))
        .ok()
        .map(|index| &TABLE[index])
}

macro_rules! table {
    ($($name:literal, $forms:literal, $decode:expr;)*) => {
        /// Sorted by name.
        pub(crate) static TABLE: &[Entry] =
            &[$(Entry { name: $name, forms: $forms, decode: $decode }),*];
    };
}

table! {
    "abs", "s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64; ftz", |d| float::sign(d, Float1::Abs, Int1::Abs);
    "activemask", "b32", moves::activemask;
    "add", "16, 32, 64-bit integers (sat for s32; cc); f16 f16x2 bf16 bf16x2 f32 f64; rn rz rm rp, ftz, sat", float::add;
    "addc", "32 and 64-bit integers; cc", |d| integer::add_carry(d, false);
    "and", "pred b16 b32 b64", |d| integer::bitwise(d, Int2::And, Logic::And);
    "applypriority", "ignored", memory::prefetch;
    "atom", "global, shared, generic; add min max and or xor inc dec exch cas; b16 (cas) and 32, 64-bit types, f16 f16x2 bf16 bf16x2 f32 f64", |d| memory::atomic(d, true);
    "bar", "sync, arrive, red.and/or/popc; with a count of threads; warp.sync", |d| control::barrier(d, true);
    "barrier", "as bar, also without aligned", |d| control::barrier(d, false);
    "bfe", "32 and 64 bits", integer::bfe;
    "bfi", "32 and 64 bits", integer::bfi;
    "bfind", "32 and 64 bits; shiftamt", |d| integer::count(d, Int1::Bfind { shift: false });
    "bmsk", "b32", integer::bmsk;
    "bra", "with and without uni", control::bra;
    "brev", "b32 b64", |d| { let kind = d.kind()?; integer::one(d, Int1::Brev, kind) };
    "brkpt", "as trap", |d| control::none(d, Op::Trap);
    "brx", "idx", control::brx;
    "call", "direct calls, written out; `__assertfail`", |d| control::none(d, Op::Nop);
    "clz", "b32 b64", |d| integer::count(d, Int1::Clz);
    "cnot", "b16 b32 b64", |d| { let kind = d.kind()?; integer::one(d, Int1::CNot, kind) };
    "copysign", "f32 f64", float::copysign;
    "cos", "approx.f32", |d| float::function(d, Float1::Cos);
    "cp", "async.ca/cg.shared.global of 4, 8, 16 bytes, commit_group, wait_group, wait_all", memory::copy;
    "cvt", "between all integers and f16 bf16 f32 f64; tf32; packs of two f32 to f16x2 bf16x2 e4m3x2 e5m2x2; fp8 to f16x2; all roundings, sat, satfinite, relu, ftz", convert::cvt;
    "cvta", "global const shared local param, with and without to", moves::cvta;
    "discard", "ignored", memory::prefetch;
    "div", "integers; f32 (rn rz rm rp, full, approx), f64", float::div;
    "dp2a", "lo hi, u32 s32", integer::dp2a;
    "dp4a", "u32 s32", integer::dp4a;
    "elect", "sync", collective::elect;
    "ex2", "approx: f32 f16 f16x2 bf16 bf16x2", |d| float::function(d, Float1::Ex2);
    "exit", "", |d| control::none(d, Op::Exit);
    "fence", "all: the simulated memory is sequentially consistent", memory::fence;
    "fma", "f16 f16x2 bf16 bf16x2 f32 f64; rn rz rm rp, ftz, sat, relu", float::fma;
    "isspacep", "global const shared local param", moves::isspacep;
    "ld", "global const shared local param, generic; 8 to 64 bits, v2 v4 v8; nc, volatile, relaxed, acquire, cache hints", |d| memory::transfer(d, true);
    "ldmatrix", "m8n8.x1/x2/x4.b16, trans", |d| matrix::matrix(d, true);
    "ldu", "as ld", |d| memory::transfer(d, true);
    "lg2", "approx.f32", |d| float::function(d, Float1::Lg2);
    "lop3", "b32", integer::lop3;
    "mad", "lo, hi, wide of 16, 32, 64-bit integers; cc for 32 bits; f32 f64", float::mad;
    "madc", "lo, hi of 32 bits; cc", |d| integer::mad(d, true);
    "match", "any.sync, all.sync; b32 b64", collective::matching;
    "max", "integers; f16 f16x2 bf16 bf16x2 f32 f64; NaN, ftz, relu", |d| float::extreme(d, true);
    "membar", "all: the simulated memory is sequentially consistent", memory::fence;
    "min", "integers; f16 f16x2 bf16 bf16x2 f32 f64; NaN, ftz, relu", |d| float::extreme(d, false);
    "mma", "sync.aligned m16n8k4/k8 tf32, m16n8k8/k16 f16 bf16, m16n8k16/k32 u8 s8, m16n8k32 e4m3 e5m2; row.col", matrix::mma;
    "mov", "all sizes; packing and unpacking of vectors; special registers; addresses of variables", moves::mov;
    "mul", "lo, hi, wide of integers; f16 f16x2 bf16 bf16x2 f32 f64; rn rz rm rp, ftz, sat", float::mul;
    "mul24", "lo", integer::mul24;
    "nanosleep", "does not wait", control::nanosleep;
    "neg", "s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64; ftz", |d| float::sign(d, Float1::Neg, Int1::Neg);
    "not", "pred b16 b32 b64", integer::not;
    "or", "pred b16 b32 b64", |d| integer::bitwise(d, Int2::Or, Logic::Or);
    "popc", "b32 b64", |d| integer::count(d, Int1::Popc);
    "prefetch", "ignored", memory::prefetch;
    "prefetchu", "ignored", memory::prefetch;
    "prmt", "b32; f4e b4e rc8 ecl ecr rc16", integer::prmt;
    "rcp", "f32 (rn rz rm rp, approx), f64 (rn, approx.ftz)", |d| float::function(d, Float1::Rcp);
    "red", "as atom, without a result", |d| memory::atomic(d, false);
    "redux", "sync; add min max and or xor of 32 bits", collective::redux;
    "rem", "integers", |d| { let kind = d.kind()?; integer::two(d, Int2::Rem, kind) };
    "ret", "", |d| control::none(d, Op::Exit);
    "rsqrt", "approx: f32, f64 (ftz)", |d| float::function(d, Float1::Rsqrt);
    "sad", "u32 s32", integer::sad;
    "selp", "16, 32, 64 bits", compare::selp;
    "set", "results u32 s32 f32", compare::set;
    "setp", "integers, f16 f16x2 bf16 bf16x2 f32 f64; all comparisons; and, or, xor; two results", compare::setp;
    "shf", "l, r; clamp, wrap", integer::funnel;
    "shfl", "sync; up, down, bfly, idx", collective::shfl;
    "shl", "b16 b32 b64", |d| integer::shift(d, Int2::Shl);
    "shr", "16, 32, 64 bits", |d| integer::shift(d, Int2::Shr);
    "sin", "approx.f32", |d| float::function(d, Float1::Sin);
    "slct", "selected by s32 or f32", compare::slct;
    "sqrt", "f32 (rn rz rm rp, approx), f64", |d| float::function(d, Float1::Sqrt);
    "st", "global shared local param, generic; 8 to 64 bits, v2 v4 v8; volatile, relaxed, release, cache hints", |d| memory::transfer(d, false);
    "stmatrix", "m8n8.x1/x2/x4.b16, trans", |d| matrix::matrix(d, false);
    "sub", "as add", float::sub;
    "subc", "32 and 64-bit integers; cc", |d| integer::add_carry(d, true);
    "szext", "clamp", integer::szext;
    "tanh", "approx: f32 f16 f16x2 bf16 bf16x2", |d| float::function(d, Float1::Tanh);
    "testp", "f32 f64; all properties", float::testp;
    "trap", "a finding; the launch ends", |d| control::none(d, Op::Trap);
    "vote", "sync; all, any, uni, ballot", collective::vote;
    "xor", "pred b16 b32 b64", |d| integer::bitwise(d, Int2::Xor, Logic::Xor);
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }
}
