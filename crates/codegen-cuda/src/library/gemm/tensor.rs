//! A dot or convolution in half precision on tensor cores. A block of eight warps computes a tile
//! of the result by products of 16 x 8 x 16 elements, which are exact and summed in f32.
//!
//! Tiles of both operands are double-buffered in shared memory: while one pair is multiplied, the
//! next one is copied. Copies are 16 bytes at a time if positions of a group are contiguous in
//! aligned runs of eight, otherwise element by element. A tile has the order of its operand in
//! memory; fragments are transposed when they are loaded, if necessary. Rows of a tile are padded
//! by eight elements, so that the rows of a fragment are in different banks.

use super::split::Split;
use super::{BLOCKS, COLUMNS, Product, ROWS, SUMMED, Sizes, Text, Tiling, Window};
use crate::error::Error;
use crate::types::{load, storage, store};
use tegula_ir::ElementType;

/// The number of threads of a block: two warps down the tile, four across.
pub(super) const THREADS: i64 = 256;
/// The number of positions of the sum that are in shared memory at once.
pub(super) const DEPTH: i64 = 32;
/// The number of elements in 16 bytes.
const VECTOR: i64 = 8;
/// The fewest rows, columns or positions of the sum: with fewer, most of a tensor core's product
/// would be empty.
const SMALLEST: i64 = 16;

/// How a tile of an operand is filled, and in which order it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fill {
    /// Whether positions of the sum are contiguous, rather than rows or columns.
    summed: bool,
    /// Whether 16 bytes are copied at once.
    wide: bool,
}

/// The tiles of a product and the split of its sum, if tensor cores can compute it.
pub(super) fn tiling(product: &Product<'_>, sizes: &Sizes) -> Option<Tiling> {
    let [lhs, rhs, out] = product.types;
    let halves = matches!(lhs, ElementType::BF16 | ElementType::F16) && lhs == rhs;
    let result = out == ElementType::F32 || out == lhs;
    let small = sizes.rows.min(sizes.columns).min(sizes.depth) < SMALLEST;
    if !halves || !result || small {
        return None;
    }
    // Converts the tile's size down and across to rows and columns.
    let transposed = is_transposed(product);
    let oriented = |[down, across]: [i64; 2]| match transposed {
        true => [across, down],
        false => [down, across],
    };
    let split = |tile| match sizes.known {
        true => Split::of(sizes.tiles(tile), sizes.depth, DEPTH),
        false => None,
    };
    let down = if transposed {
        sizes.columns
    } else {
        sizes.rows
    };
    let blocks = |tile| sizes.tiles(tile) * split(tile).map_or(1, |split| split.slices);
    let [narrow, middle, large] = [[32, 64], [64, 64], [128, 128]].map(oriented);
    // Half of a large tile would be empty if a side of the result is not longer than 64.
    let many = sizes.tiles(large) >= BLOCKS && sizes.rows.min(sizes.columns) > 64;
    let tile = match (down, many) {
        (..=32, _) => narrow,
        // There would still be fewer blocks than multiprocessors.
        (_, false) if sizes.known && blocks(middle) < BLOCKS => narrow,
        (_, false) => middle,
        (_, true) => large,
    };
    Some(Tiling {
        tile,
        split: split(tile),
        tensor: true,
    })
}

/// Whether columns run down the tile: the contiguous direction of the result runs across.
pub(super) fn is_transposed(product: &Product<'_>) -> bool {
    product.is_innermost(2, ROWS) && !product.is_innermost(2, COLUMNS)
}

/// The source of a function on tensor cores.
///
/// # Errors
/// A type that cannot be converted, which is a bug in Tegula.
pub(super) fn text(text: Text<'_>) -> Result<String, Error> {
    let [rows, columns] = text.tiles;
    let row = (Side::new(0, ROWS, "row"), rows);
    let column = (Side::new(1, COLUMNS, "column"), columns);
    let [down, across] = match is_transposed(text.product) {
        true => [column, row],
        false => [row, column],
    };
    let tensor = Tensor {
        text,
        sides: [down.0, across.0],
        tile: [down.1, across.1],
    };
    tensor.write()
}

/// An operand, and the label group that only it has.
#[derive(Clone, Copy, Debug)]
struct Side {
    operand: usize,
    group: usize,
    /// The variable that holds the position within the group; `array` is the operand's name.
    number: &'static str,
    array: &'static str,
}

impl Side {
    fn new(operand: usize, group: usize, number: &'static str) -> Self {
        let array = ["a", "b"][operand];
        Self {
            operand,
            group,
            number,
            array,
        }
    }
}

struct Tensor<'a> {
    text: Text<'a>,
    /// The operand down the tile, and the one across it.
    sides: [Side; 2],
    tile: [i64; 2],
}

impl Tensor<'_> {
    /// The window, if this operand has one.
    fn window_of(&self, side: Side) -> Option<&Window> {
        self.text
            .product
            .window
            .as_ref()
            .filter(|_| side.operand == 0)
    }

    fn fill_of(&self, side: Side) -> Fill {
        let product = self.text.product;
        if let Some(window) = self.window_of(side) {
            return Fill {
                summed: product.is_innermost(side.operand, SUMMED),
                wide: window.runs >= VECTOR,
            };
        }
        let wide = |group| product.lies_in_runs(side.operand, group, VECTOR);
        let (summed, own) = (wide(SUMMED), wide(side.group));
        Fill {
            summed: summed || !own && product.is_innermost(side.operand, SUMMED),
            wide: summed || own,
        }
    }

    fn line(&mut self, text: &str) {
        self.text.line(text);
    }

    fn write(mut self) -> Result<String, Error> {
        let product = self.text.product;
        let [lhs, _, out] = product.types;
        let index = self.text.index;
        let element = storage(lhs);
        self.text.head(THREADS);
        let fills = self.sides.map(|side| self.fill_of(side));
        for ((tile, width), fill) in ["down", "across"].iter().zip(self.tile).zip(fills) {
            let [outer, inner] = match fill.summed {
                true => [width, DEPTH],
                false => [DEPTH, width],
            };
            self.line(&format!(
                "    __shared__ __align__(16) {element} {tile}_tile[2][{outer}][{}];",
                inner + VECTOR
            ));
        }
        self.text.positions();
        self.line("    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
        let [m, n] = [self.tile[0] / 2, self.tile[1] / 4];
        self.line(&format!(
            "    const int down0 = warp / 4 * {m}, across0 = warp % 4 * {n};"
        ));
        self.line(&format!(
            "    const auto fill = [&]({index} k0, int buffer) {{"
        ));
        for ((tile, width), (side, fill)) in ["down", "across"]
            .into_iter()
            .zip(self.tile)
            .zip(self.sides.into_iter().zip(fills))
        {
            self.fill(tile, width, side, fill, element);
        }
        self.line("    };");
        self.line(&format!("    float sum[{}][{}][4] = {{}};", m / 16, n / 8));
        self.line("    int buffer = 0;");
        let [begin, end] = self.text.bounds();
        self.line(&format!("    fill({begin}, 0);"));
        self.line(&format!(
            "    for ({index} k0 = {begin}; k0 < {end}; k0 += {DEPTH}) {{"
        ));
        self.line("        tegula_copies_done();");
        // All warps must have read the buffer that is filled next.
        self.line("        __syncthreads();");
        self.line(&format!(
            "        if (k0 + {DEPTH} < {end}) fill(k0 + {DEPTH}, buffer ^ 1);"
        ));
        self.multiply(lhs, fills, [m, n]);
        self.line("        buffer ^= 1;\n    }");
        self.store(out, [m, n])?;
        if product.window.is_some() {
            self.skip_padding(n)?;
        }
        self.line("}");
        Ok(self.text.lines)
    }

    /// Recomputes sums that are NaN over the existing elements only: a NaN may be the product of an
    /// infinity and a zero that stands for padding.
    fn skip_padding(&mut self, n: i64) -> Result<(), Error> {
        let index = self.text.index;
        let [down, across] = self.sides.map(|side| side.number);
        let again = self.text.again(ElementType::F32)?;
        let m = self.tile[0] / 2;
        // One bit per element, so that the code to recompute a sum occurs only once.
        self.line(&format!(
            "    unsigned long long odd = 0;
    #pragma unroll
    for (int i = 0; i < {rows}; ++i) {{
        #pragma unroll
        for (int j = 0; j < {columns}; ++j) {{
            #pragma unroll
            for (int e = 0; e < 4; ++e) {{
                if (sum[i][j][e] != sum[i][j][e]) odd |= 1ull << ((i * {columns} + j) * 4 + e);
            }}
        }}
    }}
    // What a lane has may have been stored by another.
    __syncwarp();
    for (; odd != 0; odd &= odd - 1) {{
        const int element = __ffsll((long long)odd) - 1;
        const int i = element / {each}, j = element / 4 % {columns}, e = element % 4;
        const {index} {down} = {down}0 + down0 + 16 * i + e / 2 * 8 + lane / 4;
        const {index} {across} = {across}0 + across0 + 8 * j + lane % 4 * 2 + e % 2;
        if ({down} >= {down}s || {across} >= {across}s) continue;
{again}
    }}",
            rows = m / 16,
            columns = n / 8,
            each = n / 2,
        ));
        Ok(())
    }

    /// Writes code that fills a tile; elements out of bounds are zero.
    fn fill(&mut self, tile: &str, width: i64, side: Side, fill: Fill, element: &str) {
        let Side { number, array, .. } = side;
        let index = self.text.index;
        let step = if fill.wide { VECTOR } else { 1 };
        // Adjacent threads read adjacent elements.
        let inner = if fill.summed { DEPTH } else { width } / step;
        let count = width * DEPTH / step;
        self.line("        #pragma unroll");
        self.line(&format!(
            "        for (int i = 0; i < {}; ++i) {{",
            (count + THREADS - 1) / THREADS
        ));
        self.line(&format!(
            "            const int t = (int)threadIdx.x + {THREADS} * i;"
        ));
        if count % THREADS != 0 {
            self.line(&format!("            if (t >= {count}) break;"));
        }
        let (outer, inner) = (format!("t / {inner}"), format!("t % {inner} * {step}"));
        let (own, k) = match fill.summed {
            true => (outer, inner),
            false => (inner, outer),
        };
        self.line(&format!("            const int own = {own}, k = {k};"));
        self.line(&format!(
            "            const {index} {number} = {number}0 + own;"
        ));
        self.line(&format!(
            "            const bool inside = {number} < {number}s && k0 + k < depth;"
        ));
        let at = match fill.summed {
            true => "own][k",
            false => "k][own",
        };
        let place = match self.window_of(side) {
            Some(_) => {
                self.line(&format!(
                    "            const {index} at = inside ? a_at(row, k0 + k) : -1;"
                ));
                "at".to_owned()
            }
            None => format!("{array}_{number}({number}) + {array}_k(k0 + k)"),
        };
        let inside = match place.as_str() {
            "at" => "at >= 0",
            _ => "inside",
        };
        let target = format!("{tile}_tile[buffer][{at}]");
        match fill.wide {
            true => self.line(&format!(
                "            tegula_copy_ahead(&{target}, {inside} ? {array} + {place} : {array}, {inside} ? 16 : 0);"
            )),
            false => self.line(&format!(
                "            {target} = {inside} ? {array}[{place}] : ({element})0;"
            )),
        }
        self.line("        }");
    }

    /// Writes code that multiplies the tiles in shared memory.
    fn multiply(&mut self, ty: ElementType, fills: [Fill; 2], [m, n]: [i64; 2]) {
        let function = match ty {
            ElementType::BF16 => "tegula_multiply_bf16",
            _ => "tegula_multiply_f16",
        };
        let (m, n) = (m / 16, n / 8);
        self.line("        #pragma unroll");
        self.line(&format!("        for (int k = 0; k < {DEPTH}; k += 16) {{"));
        // The row and matrix that each lane addresses for loading four matrices: two along the sum,
        // two along the tile. Which of them are adjacent in a fragment differs between the
        // operands.
        let [down, across] = fills;
        let (a, a_place) = match down.summed {
            true => (
                "tegula_matrices",
                "[down0 + 16 * i + lane % 16][k + lane / 16 * 8]",
            ),
            false => (
                "tegula_matrices_transposed",
                "[k + lane / 16 * 8 + lane % 8][down0 + 16 * i + lane / 8 % 2 * 8]",
            ),
        };
        let (b, b_place) = match across.summed {
            true => (
                "tegula_matrices",
                "[across0 + 8 * j + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8]",
            ),
            false => (
                "tegula_matrices_transposed",
                "[k + lane % 16][across0 + 8 * j + lane / 16 * 8]",
            ),
        };
        self.line(&format!("            unsigned int x[{m}][4];"));
        self.line("            #pragma unroll");
        self.line(&format!(
            "            for (int i = 0; i < {m}; ++i) {a}(x[i], &down_tile[buffer]{a_place});"
        ));
        self.line("            #pragma unroll");
        self.line(&format!("            for (int j = 0; j < {n}; j += 2) {{"));
        self.line("                unsigned int y[4];");
        self.line(&format!(
            "                {b}(y, &across_tile[buffer]{b_place});"
        ));
        self.line("                #pragma unroll");
        self.line(&format!("                for (int i = 0; i < {m}; ++i) {{"));
        self.line(&format!(
            "                    {function}(sum[i][j], x[i], y[0], y[1]);"
        ));
        self.line(&format!(
            "                    {function}(sum[i][j + 1], x[i], y[2], y[3]);"
        ));
        self.line("                }\n            }\n        }");
    }

    /// Stores the sums. If rows of the result consist of whole sectors, each lane stores as many
    /// adjacent elements as make up whole sectors together.
    fn store(&mut self, out: ElementType, [m, n]: [i64; 2]) -> Result<(), Error> {
        let index = self.text.index;
        let [down, across] = self.sides.map(|side| side.number);
        let across_group = self.sides[1].group;
        let vector = |count| {
            let product = self.text.product;
            product.lies_in_runs(2, across_group, count)
        };
        let element = storage(out);
        let narrow = out != ElementType::F32;
        let together = if narrow { 4 } else { 2 };
        let wide = vector(together);
        let place = format!("c_{down}({down}) + c_{across}({across})");
        self.line("    #pragma unroll");
        self.line(&format!("    for (int i = 0; i < {}; ++i) {{", m / 16));
        self.line("        #pragma unroll");
        self.line("        for (int half = 0; half < 2; ++half) {");
        self.line(&format!(
            "            const {index} {down} = {down}0 + down0 + 16 * i + 8 * half + lane / 4;"
        ));
        if narrow && wide {
            return self.store_pairs(n, &place, out);
        }
        self.line(&format!("            if ({down} >= {down}s) continue;"));
        self.line("            #pragma unroll");
        self.line(&format!(
            "            for (int j = 0; j < {}; ++j) {{",
            n / 8
        ));
        self.line(&format!(
            "                const {index} {across} = {across}0 + across0 + 8 * j + lane % 4 * 2;"
        ));
        let next = |e: usize| {
            let own = format!("c_{across}({across})");
            place.replace(&own, &format!("c_{across}({across} + {e})"))
        };
        let values = [0, 1].map(|e| {
            let added = load(out, &format!("d[{}]", next(e)));
            let sum = format!("sum[i][j][2 * half + {e}]");
            store(out, &self.text.product.total(&sum, &added))
        });
        if wide {
            self.line(&format!(
                "                if ({across} >= {across}s) continue;"
            ));
            self.line(&format!(
                "                const tegula_vector<{element}, 2> pair = {{{{{}, {}}}}};",
                values[0], values[1]
            ));
            self.line(&format!(
                "                *(tegula_vector<{element}, 2> *)&c[{place}] = pair;"
            ));
        } else {
            for (e, value) in values.iter().enumerate() {
                let next = next(e);
                self.line(&format!(
                    "                if ({across} + {e} < {across}s) c[{next}] = {value};"
                ));
            }
        }
        self.line("            }\n        }\n    }");
        Ok(())
    }

    /// Stores elements of two bytes. Two adjacent products have 16 adjacent elements, a sector. A
    /// lane has two elements of each product, and gets four adjacent ones by exchanging with the
    /// three neighbouring lanes.
    fn store_pairs(&mut self, n: i64, place: &str, out: ElementType) -> Result<(), Error> {
        let index = self.text.index;
        let [down, across] = self.sides.map(|side| side.number);
        let packed = |j: &str| {
            let [low, high] = [0, 1].map(|e| store(out, &format!("sum[i][{j}][2 * half + {e}]")));
            format!("(unsigned int){low} | (unsigned int){high} << 16")
        };
        let (first, second) = (packed("j"), packed("j + 1"));
        self.line("            #pragma unroll");
        self.line(&format!(
            "            for (int j = 0; j < {}; j += 2) {{
                const tegula_vector<unsigned int, 2> four = tegula_neighbours({first}, {second});
                const {index} {across} = {across}0 + across0 + 8 * j + lane % 4 * 4;
                if ({down} < {down}s && {across} < {across}s) *(tegula_vector<unsigned int, 2> *)&c[{place}] = four;
            }}
        }}
    }}",
            n / 8
        ));
        Ok(())
    }
}
