//! Tiled products on the ordinary units: a block of 16 x 16 threads computes a tile of the result.
//! The elements of a thread are 16 apart, so adjacent threads read and write adjacent elements of
//! memory.

use super::split::Split;
use super::{BLOCKS, COLUMNS, Product, ROWS, SUMMED, Sizes, Text, Tiling};
use crate::error::Error;
use crate::library::dot::{accumulator, sum_type};
use crate::scalars::convert;
use crate::types::{carrier, load, storage, store};
use tegula_ir::ElementType;

/// The side length of a block, in threads.
const SIDE: i64 = 16;
/// The number of positions of the sum that are in shared memory at once.
pub(super) const DEPTH: i64 = 16;
/// The number of threads of a block.
pub(super) const THREADS: i64 = SIDE * SIDE;
/// The rows and columns of tiles for a large result.
const LARGE: i64 = 8 * SIDE;
/// The number of elements read at once: 16 bytes of four-byte elements.
const VECTOR: i64 = 4;

/// The side length of a tile along rows or columns.
fn tile(size: i64) -> i64 {
    match size {
        ..=16 => SIDE,
        17..=32 => 2 * SIDE,
        _ => 4 * SIDE,
    }
}

/// The tiles of a product, and the split of its sum.
pub(super) fn tiling(product: &Product<'_>, sizes: &Sizes) -> Tiling {
    let Sizes { rows, columns, .. } = *sizes;
    // A thread with four times as many elements reads half as much shared memory per element, but
    // every multiprocessor needs a block.
    let many = sizes.tiles([LARGE, LARGE]) >= BLOCKS;
    if many && rows.min(columns) >= LARGE && product.window.is_none() {
        return Tiling::whole([LARGE, LARGE]);
    }
    let mut tile = [tile(rows), tile(columns)];
    if !sizes.known {
        return Tiling::whole(tile);
    }
    loop {
        let tiles = sizes.tiles(tile);
        let split = Split::of(tiles, sizes.depth, DEPTH);
        let blocks = tiles * split.map_or(1, |split| split.slices);
        // If there are still fewer blocks than multiprocessors, smaller tiles are faster; but a
        // thread needs several elements to make its reads of shared memory worthwhile.
        let longer = usize::from(tile[1] > tile[0]);
        if blocks >= BLOCKS || tile[longer] <= 2 * SIDE {
            return Tiling {
                tile,
                split,
                tensor: false,
            };
        }
        tile[longer] /= 2;
    }
}

impl Text<'_> {
    /// Writes a function on the ordinary units.
    ///
    /// # Errors
    /// A type that cannot be converted, which is a bug in Tegula.
    pub(super) fn write(mut self) -> Result<String, Error> {
        let product = self.product;
        let [lhs, rhs, out] = product.types;
        let wide = accumulator(out);
        let sum = sum_type(wide);
        self.head(THREADS);
        self.shared([lhs, rhs], sum);
        self.positions();
        let index = self.index;
        // Adjacent threads store adjacent elements of the result.
        let [x, y] = match product.is_innermost(2, ROWS) {
            true => ["row", "column"],
            false => ["column", "row"],
        };
        self.line(&format!("    const int {x}_thread = threadIdx.x % {SIDE};"));
        self.line(&format!("    const int {y}_thread = threadIdx.x / {SIDE};"));
        let [m, n] = self.tiles.map(|tile| tile / SIDE);
        self.line(&format!("    {sum} sum[{m}][{n}] = {{}};"));
        let [begin, end] = self.bounds();
        self.line(&format!(
            "    for ({index} k0 = {begin}; k0 < {end}; k0 += {DEPTH}) {{"
        ));
        self.fill(0, "left", "a", "row", [lhs, wide], sum)?;
        self.fill(1, "right", "b", "column", [rhs, wide], sum)?;
        self.line("        __syncthreads();");
        self.multiply(wide, [m, n]);
        self.line("        __syncthreads();\n    }");
        self.store(wide, [m, n])?;
        self.line("}");
        Ok(self.lines)
    }

    /// Declares the tiles of both operands in shared memory.
    fn shared(&mut self, types: [ElementType; 2], sum: &str) {
        // Rows are padded by two elements: when 16 positions of the sum of two rows are written at
        // once, they are in 32 different banks. If four columns are written at once, the padding is
        // four, so that they are aligned; two rows of 16 columns are in 32 banks without padding.
        for (side, tile) in ["left", "right"].into_iter().enumerate() {
            let own = [ROWS, COLUMNS][side];
            let more = match self.vector(side, types[side], sum) {
                Some(group) if group == own && self.tiles[side] == SIDE => 0,
                Some(group) if group == own => VECTOR,
                _ => 2,
            };
            let pitch = self.tiles[side] + more;
            self.line(&format!(
                "    __shared__ __align__(16) {sum} {tile}[{DEPTH}][{pitch}];"
            ));
        }
    }

    /// Writes code that multiplies the tiles in shared memory.
    fn multiply(&mut self, wide: ElementType, [m, n]: [i64; 2]) {
        let sum = sum_type(wide);
        let next = match wide {
            ElementType::F64 => "fma(x[i], y[j], sum[i][j])",
            _ if wide.is_float() => "fmaf(x[i], y[j], sum[i][j])",
            _ => "sum[i][j] + x[i] * y[j]",
        };
        self.line(&format!(
            "        #pragma unroll
        for (int k = 0; k < {DEPTH}; ++k) {{
            {sum} x[{m}], y[{n}];
            #pragma unroll
            for (int i = 0; i < {m}; ++i) x[i] = left[k][row_thread + {SIDE} * i];
            #pragma unroll
            for (int j = 0; j < {n}; ++j) y[j] = right[k][column_thread + {SIDE} * j];
            #pragma unroll
            for (int i = 0; i < {m}; ++i) {{
                #pragma unroll
                for (int j = 0; j < {n}; ++j) sum[i][j] = {next};
            }}
        }}"
        ));
    }

    /// Stores the sums.
    fn store(&mut self, wide: ElementType, [m, n]: [i64; 2]) -> Result<(), Error> {
        let index = self.index;
        let [.., out] = self.product.types;
        let own = carrier(wide);
        let place = "c_row(row) + c_column(column)";
        let total = self
            .product
            .total("sum[i][j]", &load(out, &format!("d[{place}]")));
        let value = convert(wide, out, "total")
            .ok_or_else(|| Error::Bug(format!("no conversion from {wide} to {out}")))?;
        let value = store(out, &value);
        let windowed = self.product.window.is_some() && wide.is_float();
        if windowed {
            self.line("    unsigned int odd = 0;");
        }
        self.line(&format!(
            "    #pragma unroll
    for (int i = 0; i < {m}; ++i) {{
        const {index} row = row0 + row_thread + {SIDE} * i;
        if (row >= rows) continue;
        #pragma unroll
        for (int j = 0; j < {n}; ++j) {{
            const {index} column = column0 + column_thread + {SIDE} * j;
            if (column >= columns) continue;
            const {own} total = {total};
            c[{place}] = {value};"
        ));
        if windowed {
            // One bit per element, so that the code to recompute a sum occurs only once.
            self.line(&format!(
                "            if (total != total) odd |= 1u << (i * {n} + j);"
            ));
        }
        self.line("        }\n    }");
        match windowed {
            true => self.skip_padding(wide, n),
            false => Ok(()),
        }
    }

    /// Recomputes sums that are NaN over the existing elements only: a NaN may be the product of an
    /// infinity and a zero that stands for padding.
    fn skip_padding(&mut self, wide: ElementType, columns_of_thread: i64) -> Result<(), Error> {
        let index = self.index;
        let again = self.again(wide)?;
        self.line(&format!(
            "    for (; odd != 0; odd &= odd - 1) {{
        const int element = __ffs((int)odd) - 1;
        const {index} row = row0 + row_thread + {SIDE} * (element / {columns_of_thread});
        const {index} column = column0 + column_thread + {SIDE} * (element % {columns_of_thread});
{again}
    }}"
        ));
        Ok(())
    }

    /// The group along which four adjacent elements of an operand are read at once, if any.
    fn vector(&self, side: usize, from: ElementType, sum: &str) -> Option<usize> {
        let four_bytes = matches!(sum, "float" | "unsigned int") && from.storage_bytes() <= 4;
        let windowed = side == 0 && self.product.window.is_some();
        if !four_bytes || windowed {
            return None;
        }
        let groups = [SUMMED, [ROWS, COLUMNS][side]];
        let mut groups = groups.into_iter();
        groups.find(|&group| self.product.lies_in_runs(side, group, VECTOR))
    }

    /// Writes code that fills a tile of an operand, four elements at once.
    fn fill_by_four(
        &mut self,
        group: usize,
        [tile, array, number]: [&str; 3],
        from: ElementType,
        [sum, value]: [&str; 2],
    ) {
        let width = self.tiles[usize::from(array == "b")];
        let (index, threads) = (self.index, THREADS);
        let count = width * DEPTH / VECTOR;
        let element = storage(from);
        let (own, k, target) = match group == SUMMED {
            true => (
                format!("t / {}", DEPTH / VECTOR),
                format!("t % {} * {VECTOR}", DEPTH / VECTOR),
                format!("for (int e = 0; e < {VECTOR}; ++e) {tile}[k + e][own] = values.at[e];"),
            ),
            false => (
                format!("t % {} * {VECTOR}", width / VECTOR),
                format!("t / {}", width / VECTOR),
                format!("*(tegula_vector<{sum}, {VECTOR}> *)&{tile}[k][own] = values;"),
            ),
        };
        let own_type = carrier(from);
        let loaded = load(from, "elements.at[e]");
        let unroll = match group == SUMMED {
            true => "            #pragma unroll\n",
            false => "",
        };
        self.line(&format!(
            "        #pragma unroll
        for (int i = 0; i < {rounds}; ++i) {{
            const int t = (int)threadIdx.x + {threads} * i;
            if (t >= {count}) break;
            const int own = {own}, k = {k};
            const {index} {number} = {number}0 + own;
            tegula_vector<{sum}, {VECTOR}> values = {{}};
            if ({number} < {number}s && k0 + k < depth) {{
                const tegula_vector<{element}, {VECTOR}> elements = *(const tegula_vector<{element}, {VECTOR}> *)&{array}[{array}_{number}({number}) + {array}_k(k0 + k)];
                #pragma unroll
                for (int e = 0; e < {VECTOR}; ++e) {{
                    const {own_type} element = {loaded};
                    values.at[e] = ({sum})({value});
                }}
            }}
{unroll}            {target}
        }}",
            rounds = (count + threads - 1) / threads,
        ));
    }

    /// Writes code that fills a tile of an operand in shared memory; elements out of bounds are
    /// zero.
    fn fill(
        &mut self,
        side: usize,
        tile: &str,
        array: &str,
        number: &str,
        [from, to]: [ElementType; 2],
        sum: &str,
    ) -> Result<(), Error> {
        if let Some(group) = self.vector(side, from, sum) {
            let value = convert(from, to, "element")
                .ok_or_else(|| Error::Bug(format!("no conversion from {from} to {to}")))?;
            self.fill_by_four(group, [tile, array, number], from, [sum, &value]);
            return Ok(());
        }
        let (width, index) = (self.tiles[side], self.index);
        let elements = width * DEPTH / THREADS;
        self.line("        #pragma unroll");
        self.line(&format!("        for (int i = 0; i < {elements}; ++i) {{"));
        let at = format!("(int)threadIdx.x + {THREADS} * i");
        // Adjacent threads read adjacent elements of the array.
        let (own, k) = match self.product.is_innermost(side, SUMMED) {
            true => (format!("({at}) / {DEPTH}"), format!("({at}) % {DEPTH}")),
            false => (format!("({at}) % {width}"), format!("({at}) / {width}")),
        };
        self.line(&format!("            const int own = {own}, k = {k};"));
        self.line(&format!(
            "            const {index} {number} = {number}0 + own;"
        ));
        let windowed = side == 0 && self.product.window.is_some();
        let (element, inside) = match windowed {
            true => ("a[at]".to_owned(), " && at >= 0"),
            false => (
                format!("{array}[{array}_{number}({number}) + {array}_k(k0 + k)]"),
                "",
            ),
        };
        let loaded = load(from, &element);
        let value = convert(from, to, "element")
            .ok_or_else(|| Error::Bug(format!("no conversion from {from} to {to}")))?;
        let own_type = carrier(from);
        if windowed {
            self.line(&format!(
                "            const {index} at = a_at(row, k0 + k);"
            ));
        }
        self.line(&format!("            {sum} value = 0;"));
        self.line(&format!(
            "            if ({number} < {number}s && k0 + k < depth{inside}) {{"
        ));
        self.line(&format!(
            "                const {own_type} element = {loaded};"
        ));
        self.line(&format!("                value = ({sum})({value});"));
        self.line("            }");
        self.line(&format!("            {tile}[k][own] = value;"));
        self.line("        }");
        Ok(())
    }
}
