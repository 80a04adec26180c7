//! Attention on tensor cores: each warp has 16 rows of scores. The result of the product of queries
//! and keys, as held by a warp's lanes, can be used directly as the left operand of the product
//! with values, after conversion to half precision.
//!
//! The keys of the next tile are copied while weights are multiplied with values, and values are
//! copied while scores are computed.

use super::super::gemm::{COLUMNS, Product, SUMMED, Text};
use super::Attention;
use crate::error::Error;
use crate::function::Function;
use crate::types::{storage, store};
use std::f32::consts::LOG2_E;
use tegula_ir::ElementType;

/// The number of columns of a tile.
const TILE: i64 = 64;
/// The number of elements in 16 bytes.
const VECTOR: i64 = 8;
/// The number of warps of a block with many rows.
const WARPS: i64 = 4;

/// Packs two floats as adjacent 16-bit numbers.
fn pair(ty: ElementType, low: &str, high: &str) -> String {
    let name = match ty {
        ElementType::BF16 => "tegula_pair_bf16",
        _ => "tegula_pair_f16",
    };
    format!("{name}({low}, {high})")
}

pub(super) fn function(attention: &Attention<'_>) -> Result<Option<Function>, Error> {
    let Some([_, rows, _]) = attention.representative() else {
        return Ok(None);
    };
    let warps = ((rows + 15) / 16).clamp(1, WARPS);
    let threads = 32 * warps;
    let form = "on tensor cores";
    let tile = [16 * warps, TILE];
    attention.priced(form, tile, threads as u32, || write(attention, warps))
}

/// Rows of an array to be copied to shared memory.
struct Fill<'a> {
    product: &'a Product<'a>,
    side: usize,
    /// The label group along a row; `outer` is that of the rows.
    inner: usize,
    outer: usize,
    array: &'static str,
    tile: &'static str,
    rows: i64,
    /// The number of elements of a row; `pitch` includes the padding of the product's shape.
    width: i64,
    pitch: i64,
    threads: i64,
}

impl Fill<'_> {
    /// Writes code that fills a tile with the rows from `first` on, of `count`; elements out of
    /// bounds are zero.
    fn write(&self, text: &mut Text<'_>, element: &str, first: &str, count: &str) {
        let Self {
            array,
            tile,
            rows,
            width,
            pitch,
            threads,
            ..
        } = *self;
        let index = text.index;
        let wide = self.product.lies_in_runs(self.side, self.inner, VECTOR);
        let step = if wide { VECTOR } else { 1 };
        let steps = rows * pitch / step;
        // Adjacent threads read adjacent elements.
        let across = wide || !self.product.is_innermost(self.side, self.outer);
        let (row, at) = match across {
            true => (
                format!("t / {}", pitch / step),
                format!("t % {} * {step}", pitch / step),
            ),
            false => (format!("t % {rows}"), format!("t / {rows}")),
        };
        let place = format!("{array}_row(row) + {array}_k(k)");
        let target = format!("{tile}[own][k]");
        let copy = match wide {
            true => format!(
                "tegula_copy_ahead(&{target}, inside ? {array} + {place} : {array}, inside ? 16 : 0);"
            ),
            false => format!("{target} = inside ? {array}[{place}] : ({element})0;"),
        };
        text.line(&format!(
            "        #pragma unroll
        for (int i = 0; i < {rounds}; ++i) {{
            const int t = (int)threadIdx.x + {threads} * i;
            if (t >= {steps}) break;
            const int own = {row};
            const {index} k = {at}, row = {first} + own;
            const bool inside = row < {count} && k < {width};
            {copy}
        }}",
            rounds = (steps + threads - 1) / threads,
        ));
    }
}

fn write(attention: &Attention<'_>, warps: i64) -> Result<String, Error> {
    let (scored, weighed) = (&attention.scored, &attention.weighed);
    let ty = scored.types[0];
    let element = storage(ty);
    let [depth, width] = attention.widths().map(|w| w.as_constant().unwrap_or(1));
    let whole = |size: i64| (size + 15) / 16 * 16;
    let (deep, wide) = (whole(depth), whole(width));
    let (rows, threads) = (16 * warps, 32 * warps);
    let shared = format!(
        "    __shared__ __align__(16) {element} keys[{TILE}][{}];
    __shared__ __align__(16) {element} values[{TILE}][{}];",
        deep + VECTOR,
        wide + VECTOR
    );
    let mut text = attention.open(&shared, rows, threads as u32)?;
    let index = text.index;
    let fill = |product, side, groups: [usize; 2], array, tile, rows, width, pitch| Fill {
        product,
        side,
        inner: groups[0],
        outer: groups[1],
        array,
        tile,
        rows,
        width,
        pitch,
        threads,
    };
    let queries = fill(
        scored,
        0,
        [SUMMED, super::ROWS],
        "a",
        "keys",
        rows,
        depth,
        deep,
    );
    let keys = fill(scored, 1, [SUMMED, COLUMNS], "b", "keys", TILE, depth, deep);
    let values = fill(
        weighed,
        1,
        [COLUMNS, SUMMED],
        "v",
        "values",
        TILE,
        width,
        wide,
    );
    for (name, fill) in [("fill_keys", keys), ("fill_values", values)] {
        text.line(&format!(
            "    const auto {name} = [&](const {index} first) {{"
        ));
        fill.write(&mut text, element, "first", "columns");
        text.line("    };");
    }
    text.line("    const int lane = threadIdx.x % 32, own0 = threadIdx.x / 32 * 16;");
    text.line("    {");
    queries.write(&mut text, element, "row0", "rows");
    let multiply = match ty {
        ElementType::BF16 => "tegula_multiply_bf16",
        _ => "tegula_multiply_f16",
    };
    // If all tiles are full, columns need no bounds check.
    let columns = scored.group_size(COLUMNS).as_constant();
    let is_column = match columns {
        Some(columns) if columns % TILE == 0 => "true",
        _ => "column < columns",
    };
    let steps = deep / 16;
    text.line(&format!(
        "    }}
    tegula_copies_done();
    __syncthreads();
    unsigned int query[{steps}][4];
    #pragma unroll
    for (int k = 0; k < {steps}; ++k) tegula_matrices(query[k], &keys[own0 + lane % 16][16 * k + lane / 16 * 8]);
    __syncthreads();
    fill_keys(0);
    const float low = __int_as_float(0xff800000);
    float sum[{n}][4] = {{}}, top[2] = {{low, low}}, total[2] = {{}};
    for ({index} column0 = 0; column0 < columns; column0 += {TILE}) {{
        tegula_copies_done();
        // All warps have read the values of the tile before.
        __syncthreads();
        fill_values(column0);
        float s[{m}][4] = {{}};
        #pragma unroll
        for (int k = 0; k < {steps}; ++k) {{
            #pragma unroll
            for (int j = 0; j < {m}; j += 2) {{
                unsigned int y[4];
                tegula_matrices(y, &keys[8 * j + lane / 16 * 8 + lane % 8][16 * k + lane / 8 % 2 * 8]);
                {multiply}(s[j], query[k], y[0], y[1]);
                {multiply}(s[j + 1], query[k], y[2], y[3]);
            }}
        }}
        float high[2] = {{top[0], top[1]}};
        #pragma unroll
        for (int e = 0; e < 4; ++e) {{
            {index} row = row0 + own0 + lane / 4 + e / 2 * 8;
            if (row >= rows) row = rows - 1;
            #pragma unroll
            for (int j = 0; j < {m}; ++j) {{
                const {index} column = column0 + 8 * j + lane % 4 * 2 + e % 2;
                s[j][e] = {is_column} ? score(row, column, s[j][e]) : low;
                high[e / 2] = tegula_maximum(high[e / 2], s[j][e]);
            }}
        }}
        #pragma unroll
        for (int half = 0; half < 2; ++half) {{
            #pragma unroll
            for (int other = 1; other < 4; other *= 2)
                high[half] = tegula_maximum(high[half], __shfl_xor_sync(0xffffffffu, high[half], other));
            // Weights are powers of two, e^(x - top) = 2^(x log2(e) - top log2(e)): their error
            // of 2^-22 and less is far below a half's 2^-9 and 2^-12.
            const float base = high[half] == low ? 0.0f : high[half] * {LOG2_E}f;
            const float scale = tegula_power_of_two(fmaf(top[half], {LOG2_E}f, -base));
            top[half] = high[half];
            total[half] *= scale;
            #pragma unroll
            for (int j = 0; j < {m}; ++j) {{
                #pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; ++e) {{
                    s[j][e] = tegula_power_of_two(fmaf(s[j][e], {LOG2_E}f, -base));
                    total[half] += s[j][e];
                }}
            }}
            #pragma unroll
            for (int j = 0; j < {n}; ++j) {{
                sum[j][2 * half] *= scale;
                sum[j][2 * half + 1] *= scale;
            }}
        }}
        tegula_copies_done();
        // All warps have read the keys.
        __syncthreads();
        if (column0 + {TILE} < columns) fill_keys(column0 + {TILE});
        #pragma unroll
        for (int k = 0; k < {quarters}; ++k) {{
            const unsigned int x[4] = {{
                {x0},
                {x1},
                {x2},
                {x3}}};
            #pragma unroll
            for (int j = 0; j < {n}; j += 2) {{
                unsigned int y[4];
                tegula_matrices_transposed(y, &values[16 * k + lane % 16][8 * j + lane / 16 * 8]);
                {multiply}(sum[j], x, y[0], y[1]);
                {multiply}(sum[j + 1], x, y[2], y[3]);
            }}
        }}
    }}",
        n = wide / 8,
        m = TILE / 8,
        quarters = TILE / 16,
        x0 = pair(ty, "s[2 * k][0]", "s[2 * k][1]"),
        x1 = pair(ty, "s[2 * k][2]", "s[2 * k][3]"),
        x2 = pair(ty, "s[2 * k + 1][0]", "s[2 * k + 1][1]"),
        x3 = pair(ty, "s[2 * k + 1][2]", "s[2 * k + 1][3]"),
    ));
    store_rows(&mut text, weighed, width);
    Ok(text.lines)
}

/// Stores the sums of a tile's rows. If rows of the result are contiguous, each lane stores as many
/// adjacent elements as fill sectors together.
fn store_rows(text: &mut Text<'_>, weighed: &Product<'_>, width: i64) {
    let out = weighed.types[2];
    let index = text.index;
    let narrow = out != ElementType::F32;
    let together = if narrow { 4 } else { 2 };
    let runs = weighed.lies_in_runs(2, COLUMNS, together);
    let part = |j: &str, e: i64| format!("sum[{j}][2 * half + {e}]");
    let place = "c[c_row(row) + c_column(column)]";
    let (step, per_lane, stored) = match (runs, narrow) {
        (true, true) => {
            let packed = |j: &str| {
                let [low, high] = [0, 1].map(|e| part(j, e));
                pair(out, &low, &high)
            };
            let (first, second) = (packed("j"), packed("j + 1"));
            let four = format!(
                "const tegula_vector<unsigned int, 2> four = tegula_neighbours({first}, {second});
            if (inside && column < {width}) *(tegula_vector<unsigned int, 2> *)&{place} = four;"
            );
            (2, 4, four)
        }
        (true, false) => {
            let [low, high] = [0, 1].map(|e| part("j", e));
            let pair = format!(
                "const tegula_vector<float, 2> pair = {{{{{low}, {high}}}}};
            if (inside && column < {width}) *(tegula_vector<float, 2> *)&{place} = pair;"
            );
            (1, 2, pair)
        }
        (false, _) => {
            let one = |e: i64| {
                let value = store(out, &part("j", e));
                format!(
                    "if (inside && column + {e} < {width}) c[c_row(row) + c_column(column + {e})] = {value};"
                )
            };
            (1, 2, one(0) + "\n            " + &one(1))
        }
    };
    text.line(&format!(
        "    #pragma unroll
    for (int half = 0; half < 2; ++half) {{
        #pragma unroll
        for (int other = 1; other < 4; other *= 2) total[half] += __shfl_xor_sync(0xffffffffu, total[half], other);
        const {index} row = row0 + own0 + lane / 4 + 8 * half;
        const bool inside = row < rows;
        #pragma unroll
        for (int j = 0; j < {n}; ++j) {{
            sum[j][2 * half] /= total[half];
            sum[j][2 * half + 1] /= total[half];
        }}
        #pragma unroll
        for (int j = 0; j < {n}; j += {step}) {{
            const {index} column = 8 * j + lane % 4 * {per_lane};
            {stored}
        }}
    }}
}}",
        n = (width + 15) / 16 * 2,
    ));
}
