//! The first elements of each row in order, found by a radix select on their keys.
//!
//! A block handles a row. It searches for the key of the k-th element, digit by digit from the
//! highest: among the keys that share the digits found so far, it counts the values of the next
//! digit. So a row is read once for each digit. Then it is read once more to collect the elements
//! before that key, and the first of the elements equal to it. These few elements are ranked by
//! comparing each with all others. Keys are unsigned and ascend in the requested order; equal
//! elements keep their order.

use crate::function::{Function, linear};
use crate::terms::{Terms, is_short};
use crate::types::{carrier, is_narrow_float, load, storage};
use tegula_expr::{Interval, Term};
use tegula_ir::{ArrayShape, Dim, ElementType, Symbol};

/// The number of threads of a block.
const THREADS: i64 = 256;
/// The most elements that are kept of a row: they are compared with each other, and take 12 bytes
/// each of shared memory.
const MOST: i64 = 1024;

/// The function for the first elements of each row and their indices; `None` if rows have no static
/// size, too many elements are requested, or they are floats of one byte.
pub(super) fn function(
    name: &str,
    operand: &ArrayShape,
    results: [&ArrayShape; 2],
    largest: bool,
    symbols: &[Symbol],
) -> Option<Function> {
    let (length, outer) = operand.dims.split_last()?;
    let length = length.term().as_constant()?;
    let wanted = results[0].dims.last()?.term().as_constant()?;
    if wanted < 1 || wanted > length.min(MOST) || length > i64::from(i32::MAX) - THREADS {
        return None;
    }
    let ty = operand.element_type;
    let (bits, key) = key(ty, largest)?;
    let word = match bits {
        64 => "unsigned long long",
        _ => "unsigned int",
    };
    let rows = outer
        .iter()
        .map(Dim::term)
        .fold(Term::constant(1), |all, size| all.mul(&size));
    let ranges = symbols.iter().map(|s| Interval::new(s.lower, s.upper));
    let terms = Terms::new(ranges.collect());
    let is_short = is_short(terms.range(&rows.mul(&Term::constant(length))));
    let index = if is_short { "int" } else { "long long" };
    let (element, value, place) = (storage(ty), carrier(ty), storage(results[1].element_type));
    let loaded = load(ty, "x");
    let mut parameters = format!(
        "const {element} *__restrict__ from, {element} *__restrict__ values, {place} *__restrict__ places"
    );
    for symbol in 0..symbols.len() as u32 {
        parameters += &format!(", const long long s{symbol}");
    }
    let top = bits - 8;
    let text = format!(
        "__device__ {word} {name}_key({element} x) {{
    const {value} v = {loaded};
    return {key};
}}

extern \"C\" __global__ void __launch_bounds__({THREADS}) {name}({parameters}) {{
    __shared__ unsigned int count[256];
    __shared__ unsigned int found, rest;
    __shared__ unsigned int warps[{THREADS} / 32];
    __shared__ {word} kept[{wanted}];
    __shared__ int at[{wanted}];
    const {element} *__restrict__ row = from + ({index})blockIdx.x * {length};
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // What all keys so far begin with, and the rank that is looked for among those.
    {word} last = 0;
    unsigned int wanted = {wanted};
    #pragma unroll 1
    for (int shift = {top}; shift >= 0; shift -= 8) {{
        count[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < {length}; i += {THREADS}) {{
            const {word} key = {name}_key(row[i]);
            if (shift == {top} || key >> (shift + 8) == last) atomicAdd(&count[(unsigned int)(key >> shift) & 255], 1u);
        }}
        __syncthreads();
        if (warp == 0) {{
            unsigned int own = 0;
            #pragma unroll
            for (int e = 0; e < 8; ++e) own += count[8 * lane + e];
            unsigned int before = own;
            #pragma unroll
            for (int d = 1; d < 32; d *= 2) {{
                const unsigned int other = __shfl_up_sync(0xffffffffu, before, d);
                if (lane >= d) before += other;
            }}
            before -= own;
            if (before < wanted && wanted <= before + own) {{
                unsigned int digit = 8 * lane, here = count[digit];
                while (before + here < wanted) {{
                    before += here;
                    here = count[++digit];
                }}
                found = digit;
                rest = wanted - before;
            }}
        }}
        __syncthreads();
        last = last << 8 | found;
        wanted = rest;
    }}
    // Those before the last key come first here, then the first of those that equal it.
    const unsigned int less = {wanted} - wanted, below = (1u << lane) - 1;
    unsigned int taken = 0, equal = 0;
    #pragma unroll 1
    for (int base = 0; base < {length} && (taken < less || equal < wanted); base += {THREADS}) {{
        const int i = base + (int)threadIdx.x;
        const bool inside = i < {length};
        const {word} key = inside ? {name}_key(row[i]) : 0;
        const bool before = inside && key < last, same = inside && key == last;
        const unsigned int befores = __ballot_sync(0xffffffffu, before);
        const unsigned int sames = __ballot_sync(0xffffffffu, same);
        if (lane == 0) warps[warp] = __popc(befores) | __popc(sames) << 16;
        __syncthreads();
        unsigned int ahead = 0, all = 0;
        #pragma unroll
        for (int w = 0; w < {THREADS} / 32; ++w) {{
            if (w < warp) ahead += warps[w];
            all += warps[w];
        }}
        const unsigned int nth = equal + (ahead >> 16) + __popc(sames & below);
        if (before || (same && nth < wanted)) {{
            const unsigned int slot = same ? less + nth : taken + (ahead & 0xffff) + __popc(befores & below);
            kept[slot] = key;
            at[slot] = i;
        }}
        taken += all & 0xffff;
        equal += all >> 16;
        __syncthreads();
    }}
    for (int slot = threadIdx.x; slot < {wanted}; slot += {THREADS}) {{
        const {word} key = kept[slot];
        const int i = at[slot];
        int rank = 0;
        for (int other = 0; other < {wanted}; ++other) {{
            rank += kept[other] < key || (kept[other] == key && at[other] < i);
        }}
        values[({index})blockIdx.x * {wanted} + rank] = row[i];
        places[({index})blockIdx.x * {wanted} + rank] = ({place})i;
    }}
}}
"
    );
    Some(Function {
        name: name.to_owned(),
        reason: format!(
            "a block per row chooses {wanted} of {length} by {} digits",
            bits / 8
        ),
        text,
        block: [THREADS as u32, 1, 1],
        grid: linear(rows),
        symbols: (0..symbols.len() as u32).collect(),
        guarded: false,
    })
}

/// The number of bits of an element's key, and the key's expression, from the value `v` or the
/// stored bits `x`.
fn key(ty: ElementType, largest: bool) -> Option<(u32, String)> {
    let (bits, ascending) = match ty {
        _ if ty.is_complex() => return None,
        ElementType::F64 => (
            64,
            "(unsigned long long)tegula_total_order(v) ^ 0x8000000000000000ull".to_owned(),
        ),
        // The ordered image of a bf16 has nothing in its low half.
        ElementType::BF16 => (
            16,
            "((unsigned int)tegula_total_order(v) ^ 0x80000000u) >> 16".to_owned(),
        ),
        // Conversion would lose a NaN's sign and make it quiet, so that some different NaNs become
        // equal.
        ElementType::F16 => (16, "tegula_f16_order(x)".to_owned()),
        _ if is_narrow_float(ty) => return None,
        _ if ty.is_float() => (
            32,
            "(unsigned int)tegula_total_order(v) ^ 0x80000000u".to_owned(),
        ),
        ElementType::Pred => (8, "v ? 1u : 0u".to_owned()),
        _ => {
            let bits = u32::try_from(ty.storage_bytes() * 8).ok()?;
            let (word, suffix) = match bits {
                64 => ("unsigned long long", "ull"),
                _ => ("unsigned int", "u"),
            };
            let sign = match ty.is_signed() {
                true => 1u64 << (bits - 1),
                false => 0,
            };
            let all = u64::MAX >> (64 - bits);
            (
                bits,
                format!("((({word})v ^ {sign:#x}{suffix}) & {all:#x}{suffix})"),
            )
        }
    };
    let all = u64::MAX >> (64 - bits);
    let key = match largest {
        true if bits == 64 => format!("~({ascending})"),
        true => format!("~({ascending}) & {all:#x}u"),
        false => ascending,
    };
    Some((bits, key))
}
