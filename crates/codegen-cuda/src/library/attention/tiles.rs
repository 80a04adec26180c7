//! Attention without tensor cores: a block of 16 x 16 threads, each of which has some adjacent rows
//! of scores, and of these some columns and some elements of values.
//!
//! Queries stay in shared memory throughout, transposed: an element of all rows is contiguous. The
//! keys of a tile are stored in the same way, and its values in their own order. Weights pass
//! through shared memory from the threads that compute them to those that multiply them.

use super::super::gemm::{COLUMNS, Product, ROWS, SUMMED, Text};
use super::Attention;
use crate::error::Error;
use crate::function::Function;

/// The side length of a block, in threads.
const SIDE: i64 = 16;
const THREADS: i64 = SIDE * SIDE;
/// The number of columns of a tile.
const TILE: i64 = 2 * SIDE;
/// The number of elements in 16 bytes.
const VECTOR: i64 = 4;
/// The padding of a row of shared memory, in elements: when eight lanes write one element of four
/// positions each, for four rows, these are in different banks.
const MORE: i64 = 4;

pub(super) fn function(attention: &Attention<'_>) -> Result<Option<Function>, Error> {
    let Some([_, rows, _]) = attention.representative() else {
        return Ok(None);
    };
    let widest = attention.widths().map(|w| w.as_constant().unwrap_or(1));
    let rows = match (rows, widest[0].max(widest[1])) {
        (..=16, _) => SIDE,
        (..=32, _) | (_, 65..) => 2 * SIDE,
        _ => 4 * SIDE,
    };
    let form = "in shared memory";
    attention.priced(form, [rows, TILE], THREADS as u32, || {
        write(attention, rows)
    })
}

/// The number of elements of a value, rounded up to what threads handle: multiples of 16, 32 or 64.
fn padded(width: i64) -> i64 {
    match width {
        ..=16 => SIDE,
        17..=32 => 2 * SIDE,
        _ => (width + 63) / 64 * 64,
    }
}

/// Writes code that fills `tile` with rows of queries or keys from `first` on, of `count`,
/// transposed; elements out of bounds are zero.
fn fill(text: &mut Text<'_>, product: &Product<'_>, side: usize, rows: i64, depth: i64) {
    let (array, tile, own_group, [first, count]) = match side {
        0 => ("a", "queries", ROWS, ["row0", "rows"]),
        _ => ("b", "stage", COLUMNS, ["column0", "columns"]),
    };
    let index = text.index;
    let pitch = rows + MORE;
    if product.lies_in_runs(side, SUMMED, VECTOR) {
        let steps = rows * ((depth / VECTOR + 1) / 2 * 2);
        // Two adjacent threads read one sector together; if the number of vectors is odd, one
        // thread is left over.
        let odd = match depth / VECTOR % 2 {
            0 => String::new(),
            _ => format!("            if (k >= {depth}) continue;\n"),
        };
        text.line(&format!(
            "        for (int t = threadIdx.x; t < {steps}; t += {THREADS}) {{
            const int own = t / 2 % {rows}, k = (t / {twice} * 2 + t % 2) * {VECTOR};
{odd}            const {index} row = {first} + own;
            tegula_vector<float, {VECTOR}> four = {{}};
            if (row < {count}) four = *(const tegula_vector<float, {VECTOR}> *)&{array}[{array}_row(row) + {array}_k(k)];
            #pragma unroll
            for (int e = 0; e < {VECTOR}; ++e) {tile}[(k + e) * {pitch} + own] = four.at[e];
        }}",
            twice = 2 * rows,
        ));
        return;
    }
    let (own, k) = match product.is_innermost(side, own_group) {
        true => (format!("t % {rows}"), format!("t / {rows}")),
        false => (format!("t / {depth}"), format!("t % {depth}")),
    };
    text.line(&format!(
        "        for (int t = threadIdx.x; t < {steps}; t += {THREADS}) {{
            const int own = {own}, k = {k};
            const {index} row = {first} + own;
            {tile}[k * {pitch} + own] = row < {count} ? {array}[{array}_row(row) + {array}_k(k)] : 0.0f;
        }}",
        steps = rows * depth,
    ));
}

/// Writes code that fills `stage` with the values of a tile in their own order; elements out of
/// bounds are zero.
fn fill_values(text: &mut Text<'_>, product: &Product<'_>, width: i64) {
    let index = text.index;
    let pitch = padded(width);
    let step = match product.lies_in_runs(1, COLUMNS, VECTOR) {
        true => VECTOR,
        false => 1,
    };
    let steps = TILE * pitch / step;
    let (own, k) = match step == 1 && product.is_innermost(1, SUMMED) {
        true => (format!("t % {TILE}"), format!("t / {TILE}")),
        false => (
            format!("t / {}", pitch / step),
            format!("t % {} * {step}", pitch / step),
        ),
    };
    let some = format!("tegula_vector<float, {step}>");
    text.line(&format!(
        "        for (int t = threadIdx.x; t < {steps}; t += {THREADS}) {{
            const int own = {own}, k = {k};
            const {index} row = column0 + own;
            {some} some = {{}};
            if (row < columns && k < {width}) some = *(const {some} *)&v[v_row(row) + v_k(k)];
            *({some} *)&stage[own * {pitch} + k] = some;
        }}"
    ));
}

fn write(attention: &Attention<'_>, rows: i64) -> Result<String, Error> {
    let (scored, weighed) = (&attention.scored, &attention.weighed);
    let [depth, width] = attention.widths().map(|w| w.as_constant().unwrap_or(1));
    let (pitch, wide) = (rows + MORE, padded(width));
    let stage = (depth * (TILE + MORE)).max(TILE * wide);
    let shared = format!(
        "    __shared__ __align__(16) float queries[{}], stage[{stage}], weights[{}];",
        depth * pitch,
        TILE * pitch
    );
    let mut text = attention.open(&shared, rows, THREADS as u32)?;
    let index = text.index;
    // The rows of a thread, its columns of scores, and its runs of elements of a value.
    let (m, n) = (rows / SIDE, TILE / SIDE);
    let run = (wide / SIDE).min(VECTOR);
    let runs = wide / SIDE / run;
    text.line("    const int row_thread = threadIdx.x / 16, column_thread = threadIdx.x % 16;");
    text.line("    {");
    fill(&mut text, scored, 0, rows, depth);
    text.line(&format!(
        "    }}
    const float low = __int_as_float(0xff800000);
    float sum[{m}][{runs}][{run}] = {{}}, top[{m}], total[{m}] = {{}};
    #pragma unroll
    for (int i = 0; i < {m}; ++i) top[i] = low;
    for ({index} column0 = 0; column0 < columns; column0 += {TILE}) {{
        __syncthreads();"
    ));
    fill(&mut text, scored, 1, TILE, depth);
    text.line(&format!(
        "        __syncthreads();
        float s[{m}][{n}] = {{}};
        #pragma unroll 8
        for (int k = 0; k < {depth}; ++k) {{
            const tegula_vector<float, {m}> x = *(const tegula_vector<float, {m}> *)&queries[k * {pitch} + row_thread * {m}];
            const tegula_vector<float, {n}> y = *(const tegula_vector<float, {n}> *)&stage[k * {key_pitch} + column_thread * {n}];
            #pragma unroll
            for (int i = 0; i < {m}; ++i) {{
                #pragma unroll
                for (int j = 0; j < {n}; ++j) s[i][j] = fmaf(x.at[i], y.at[j], s[i][j]);
            }}
        }}
        #pragma unroll
        for (int i = 0; i < {m}; ++i) {{
            {index} row = row0 + row_thread * {m} + i;
            if (row >= rows) row = rows - 1;
            float high = top[i];
            #pragma unroll
            for (int j = 0; j < {n}; ++j) {{
                const {index} column = column0 + column_thread * {n} + j;
                s[i][j] = column < columns ? score(row, column, s[i][j]) : low;
                high = tegula_maximum(high, s[i][j]);
            }}
            #pragma unroll
            for (int other = 1; other < 16; other *= 2)
                high = tegula_maximum(high, __shfl_xor_sync(0xffffffffu, high, other));
            const float base = high == low ? 0.0f : high;
            const float scale = expf(top[i] - base);
            top[i] = high;
            total[i] *= scale;
            #pragma unroll
            for (int j = 0; j < {n}; ++j) {{
                s[i][j] = expf(s[i][j] - base);
                total[i] += s[i][j];
            }}
            #pragma unroll
            for (int j = 0; j < {runs}; ++j) {{
                #pragma unroll
                for (int e = 0; e < {run}; ++e) sum[i][j][e] *= scale;
            }}
        }}
        #pragma unroll
        for (int j = 0; j < {n}; ++j) {{
            tegula_vector<float, {m}> some;
            #pragma unroll
            for (int i = 0; i < {m}; ++i) some.at[i] = s[i][j];
            *(tegula_vector<float, {m}> *)&weights[(column_thread * {n} + j) * {pitch} + row_thread * {m}] = some;
        }}
        // All threads have read the keys.
        __syncthreads();",
        key_pitch = TILE + MORE,
    ));
    fill_values(&mut text, weighed, width);
    text.line(&format!(
        "        __syncthreads();
        #pragma unroll 8
        for (int k = 0; k < {TILE}; ++k) {{
            const tegula_vector<float, {m}> x = *(const tegula_vector<float, {m}> *)&weights[k * {pitch} + row_thread * {m}];
            #pragma unroll
            for (int j = 0; j < {runs}; ++j) {{
                const tegula_vector<float, {run}> y = *(const tegula_vector<float, {run}> *)&stage[k * {wide} + (16 * j + column_thread) * {run}];
                #pragma unroll
                for (int i = 0; i < {m}; ++i) {{
                    #pragma unroll
                    for (int e = 0; e < {run}; ++e) sum[i][j][e] = fmaf(x.at[i], y.at[e], sum[i][j][e]);
                }}
            }}
        }}
    }}
    #pragma unroll
    for (int i = 0; i < {m}; ++i) {{
        #pragma unroll
        for (int other = 1; other < 16; other *= 2) total[i] += __shfl_xor_sync(0xffffffffu, total[i], other);
        const {index} row = row0 + row_thread * {m} + i;
        if (row >= rows) continue;
        #pragma unroll
        for (int j = 0; j < {runs}; ++j) {{
            const {index} column = (16 * j + column_thread) * {run};"
    ));
    if run > 1 && weighed.lies_in_runs(2, COLUMNS, run) {
        text.line(&format!(
            "            tegula_vector<float, {run}> some;
            #pragma unroll
            for (int e = 0; e < {run}; ++e) some.at[e] = sum[i][j][e] / total[i];
            if (column < {width}) *(tegula_vector<float, {run}> *)&c[c_row(row) + c_column(column)] = some;"
        ));
    } else {
        text.line(&format!(
            "            #pragma unroll
            for (int e = 0; e < {run}; ++e) {{
                if (column + e < {width}) c[c_row(row) + c_column(column + e)] = sum[i][j][e] / total[i];
            }}"
        ));
    }
    text.line("        }\n    }\n}");
    Ok(text.lines)
}
