//! A dot by tiles in shared memory: a block of 16 x 16 threads computes a tile of the
//! result, each thread some elements of it that are 16 apart, so that what neighbours
//! read and write lies together.
//!
//! Labels of the contraction are in four groups: of both operands and the result
//! (batches), of the left and the result (rows), of the right and the result
//! (columns), of both operands only (summed). An element's place in an array is the
//! sum of what its row, column, batch and position in the sum contribute. Sums are
//! fused multiply-adds in the accumulator's type: their rounding, like their order, is
//! not the program's.

mod tensor;

use super::dot::{accumulator, label_sizes};
use crate::error::Error;
use crate::function::{Function, linear};
use crate::scalars::convert;
use crate::terms::{Terms, is_short};
use crate::types::{carrier, load, storage, store, wrapped};
use rustc_hash::FxHashMap;
use tegula_expr::{Interval, Term, Var, residue_of};
use tegula_fusion::{Contraction, Label, Labels};
use tegula_ir::{ArrayShape, ElementType, Symbol};

/// Threads along each side of a block.
const SIDE: i64 = 16;
/// Positions of the sum that are in shared memory at once.
const DEPTH: i64 = 16;
/// Rows and columns of the tiles of a large result.
const LARGE: i64 = 8 * SIDE;
/// Blocks that occupy every multiprocessor of a large GPU: an H100 has so many.
pub(super) const BLOCKS: i64 = 132;
/// Neighbours that are read at once, 16 bytes of four-byte elements.
const VECTOR: i64 = 4;
/// Where a result has fewer rows or columns, most of a tile would be empty.
const SMALLEST: i64 = 8;

/// The four groups of labels, in the order of the numbers that count them.
pub(super) const BATCH: usize = 0;
pub(super) const ROWS: usize = 1;
pub(super) const COLUMNS: usize = 2;
pub(super) const SUMMED: usize = 3;

/// Elements between neighbours along a label, by label; none for a label that an array
/// lacks.
pub(super) type Strides = FxHashMap<Label, Term>;

/// A sum of products over labels, ready to be written.
pub(super) struct Product<'a> {
    /// Of the left operand, the right one and the result.
    pub types: [ElementType; 3],
    pub sizes: FxHashMap<Label, Term>,
    pub groups: [Vec<Label>; 4],
    /// Of the left operand, the right one and the result.
    pub strides: [Strides; 3],
    /// Where the left operand's elements are, if that is no sum of what labels
    /// contribute.
    pub window: Option<Window>,
    /// Whether an array like the result, the third parameter, is added to it.
    pub added: bool,
    pub symbols: &'a [Symbol],
}

/// Elements of the left operand that lie in a window, as terms over the numbers of the
/// four groups: see [`Product::digits`].
pub(super) struct Window {
    /// Where an element is.
    pub place: Term,
    /// Not zero where there is one; elsewhere it is zero.
    pub inside: Term,
    /// How many neighbours in the sum lie together, the first at a multiple: a power of two.
    pub runs: i64,
}

/// The strides of a dense array whose dimensions run over these labels.
pub(super) fn dense(labels: &[Label], sizes: &FxHashMap<Label, Term>) -> Strides {
    let mut stride = Term::constant(1);
    let mut strides = Strides::default();
    for label in labels.iter().rev() {
        strides.insert(*label, stride.clone());
        if let Some(size) = sizes.get(label) {
            stride = stride.mul(size);
        }
    }
    strides
}

/// How wide the tile is along rows or columns.
fn tile(size: i64) -> i64 {
    match size {
        ..=16 => SIDE,
        17..=32 => 2 * SIDE,
        _ => 4 * SIDE,
    }
}

impl<'a> Product<'a> {
    /// The product that a dot is; its arrays are the factors, one that is `added`, if one
    /// is, and the result.
    pub(super) fn of_dot(
        contraction: &Contraction,
        operands: [&ArrayShape; 2],
        result: ElementType,
        added: bool,
        symbols: &'a [Symbol],
    ) -> Self {
        let mut groups: [Vec<Label>; 4] = Default::default();
        let side =
            |labels: &[Labels], label: Label| labels.iter().flatten().any(|&own| own == label);
        for &label in &contraction.out {
            let group = match (side(&contraction.lhs, label), side(&contraction.rhs, label)) {
                (true, true) => BATCH,
                (true, false) => ROWS,
                _ => COLUMNS,
            };
            groups[group].push(label);
        }
        for &label in contraction.lhs.iter().flatten() {
            if !contraction.out.contains(&label) {
                groups[SUMMED].push(label);
            }
        }
        let sizes = label_sizes(contraction, operands);
        let flat = |labels: &[Labels]| -> Vec<Label> { labels.iter().flatten().copied().collect() };
        let strides = [
            dense(&flat(&contraction.lhs), &sizes),
            dense(&flat(&contraction.rhs), &sizes),
            dense(&contraction.out, &sizes),
        ];
        let [lhs, rhs] = operands.map(|shape| shape.element_type);
        Self {
            types: [lhs, rhs, result],
            sizes,
            groups,
            strides,
            window: None,
            added,
            symbols,
        }
    }

    pub(super) fn size(&self, label: Label) -> Term {
        self.sizes
            .get(&label)
            .cloned()
            .unwrap_or_else(|| Term::constant(1))
    }

    pub(super) fn group_size(&self, group: usize) -> Term {
        let labels = self.groups[group].iter();
        labels.fold(Term::constant(1), |all, &label| all.mul(&self.size(label)))
    }

    fn var(&self, group: usize) -> Var {
        Var(self.symbols.len() as u32 + group as u32)
    }

    /// The position along each label of a group, from the group's number.
    pub(super) fn digits(&self, group: usize) -> Vec<(Label, Term)> {
        let mut rest = Term::var(self.var(group));
        let mut digits = Vec::new();
        let labels = &self.groups[group];
        for (level, &label) in labels.iter().enumerate().rev() {
            let size = self.size(label);
            digits.push((
                label,
                if level == 0 {
                    rest.clone()
                } else {
                    rest.modulo(&size)
                },
            ));
            rest = rest.floor_div(&size);
        }
        digits
    }

    /// What a group contributes to the place of an element, with strides by label.
    fn place(&self, group: usize, strides: &FxHashMap<Label, Term>) -> Term {
        self.digits(group)
            .iter()
            .fold(Term::constant(0), |place, (label, at)| {
                match strides.get(label) {
                    Some(stride) => place.add(&at.mul(stride)),
                    None => place,
                }
            })
    }

    /// Whether neighbours of a group are neighbours in an array: the last label of the
    /// group that has several positions has stride 1.
    pub(super) fn is_innermost(&self, side: usize, group: usize) -> bool {
        let labels = self.groups[group].iter().rev();
        let mut labels = labels.filter(|&&l| self.size(l).as_constant() != Some(1));
        let stride = labels
            .next()
            .and_then(|label| self.strides[side].get(label));
        stride.is_some_and(|stride| stride.as_constant() == Some(1))
    }

    /// Whether neighbours of a group in runs of `count` lie together in an array, the
    /// first at a multiple.
    pub(super) fn lies_in_runs(&self, side: usize, group: usize, count: i64) -> bool {
        if !self.is_innermost(side, group) {
            return false;
        }
        let ranges: Vec<Interval> = self
            .symbols
            .iter()
            .map(|s| Interval::new(s.lower, s.upper))
            .collect();
        let is_multiple = |term: &Term| {
            let residue = residue_of(term, &ranges);
            residue.modulus % count == 0 && residue.remainder % count == 0
        };
        let mut inner = self.groups[group].iter().rev();
        let Some(inner) = inner.find(|&&l| self.size(l).as_constant() != Some(1)) else {
            return false;
        };
        is_multiple(&self.size(*inner))
            && self.strides[side]
                .iter()
                .filter(|(label, _)| *label != inner)
                .filter(|(label, _)| self.size(**label).as_constant() != Some(1))
                .all(|(_, stride)| is_multiple(stride))
    }

    /// The function, if tiles suit the product.
    ///
    /// # Errors
    /// A type that cannot be converted: a bug.
    pub(super) fn function(&self, name: &str) -> Result<Option<Function>, Error> {
        let out = self.types[2];
        if !out.is_float() && !out.is_integer() {
            return Ok(None);
        }
        let representative: Vec<i64> = self
            .symbols
            .iter()
            .map(|s| 64.clamp(s.lower, s.upper.max(s.lower)))
            .collect();
        let value = |term: &Term| {
            term.eval(&|var: Var| representative.get(var.0 as usize).copied())
                .ok()
        };
        let sizes = [BATCH, ROWS, COLUMNS, SUMMED].map(|group| value(&self.group_size(group)));
        let [_, Some(rows), Some(columns), Some(depth)] = sizes else {
            return Ok(None);
        };
        if rows < SMALLEST || columns < SMALLEST || depth < 2 {
            return Ok(None);
        }
        if let Some(function) = tensor::function(self, name, [rows, columns, depth])? {
            return Ok(Some(function));
        }
        let large = |size: i64| (size + LARGE - 1) / LARGE;
        let batch = value(&self.group_size(BATCH)).unwrap_or(1);
        // A thread with four times the elements reads half as much of shared memory for
        // each; but every multiprocessor needs a block.
        let many = batch * large(rows) * large(columns) >= BLOCKS;
        let is_large = many && rows.min(columns) >= LARGE && self.window.is_none();
        let (tile_rows, tile_columns) = match is_large {
            true => (LARGE, LARGE),
            false => (tile(rows), tile(columns)),
        };
        let text = Text::new(self, [tile_rows, tile_columns], name);
        let text = text.write()?;
        let tiles = |group, tile| self.group_size(group).ceil_div(&Term::constant(tile));
        let blocks = self
            .group_size(BATCH)
            .mul(&tiles(ROWS, tile_rows))
            .mul(&tiles(COLUMNS, tile_columns));
        Ok(Some(Function {
            name: name.to_owned(),
            reason: format!("tiles of {tile_rows} x {tile_columns} in shared memory, {DEPTH} deep"),
            text,
            block: [(SIDE * SIDE) as u32, 1, 1],
            grid: linear(blocks),
            symbols: (0..self.symbols.len() as u32).collect(),
            guarded: false,
        }))
    }
}

/// The text of a function that computes tiles of so many rows and columns.
pub(super) struct Text<'a> {
    pub product: &'a Product<'a>,
    pub tiles: [i64; 2],
    pub name: &'a str,
    terms: Terms,
    /// The type of indices.
    pub index: &'static str,
    pub lines: String,
}

impl<'a> Text<'a> {
    pub(super) fn new(product: &'a Product<'a>, tiles: [i64; 2], name: &'a str) -> Self {
        let mut ranges: Vec<Interval> = product
            .symbols
            .iter()
            .map(|s| Interval::new(s.lower, s.upper))
            .collect();
        for group in [BATCH, ROWS, COLUMNS, SUMMED] {
            let most =
                tegula_expr::range_of(&product.group_size(group), &ranges[..product.symbols.len()])
                    .upper;
            // Tiles reach beyond the last row.
            ranges.push(Interval::new(0, most.saturating_add(128)));
        }
        let mut terms = Terms::new(ranges);
        for symbol in 0..product.symbols.len() as u32 {
            terms.name(Var(symbol), &format!("s{symbol}"), true);
        }
        // All places are computed in 64 bits if one array needs it.
        let places = (0..3).flat_map(|side| (0..4).map(move |group| (side, group)));
        let wide = places
            .map(|(side, group)| terms.range(&product.place(group, &product.strides[side])))
            .fold(Interval::point(0), |all, one| all.add(&one));
        let window = product.window.as_ref();
        let window = window.map(|window| terms.range(&window.place));
        let wide = !is_short(wide) || window.is_some_and(|range| !is_short(range));
        let index = if wide { "long long" } else { "int" };
        for (group, name) in [
            (BATCH, "batch"),
            (ROWS, "row"),
            (COLUMNS, "column"),
            (SUMMED, "k"),
        ] {
            terms.name(product.var(group), name, wide);
        }
        Self {
            product,
            tiles,
            name,
            terms,
            index,
            lines: String::new(),
        }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.lines.push_str(text);
        self.lines.push('\n');
    }

    pub(super) fn constant(&mut self, name: &str, term: &Term) {
        let mut statements = Vec::new();
        let value = self.terms.term(term, &mut statements);
        for statement in statements {
            self.line(&format!("    {statement}"));
        }
        let index = self.index;
        self.line(&format!("    const {index} {name} = {};", value.text));
    }

    /// What a block of its own has to say before a term, and the term's expression.
    pub(super) fn within(&mut self, term: &Term) -> [String; 2] {
        self.terms.open_block();
        let mut statements = Vec::new();
        let value = self.terms.term(term, &mut statements);
        self.terms.close_block();
        [
            statements.iter().map(|s| format!("{s} ")).collect(),
            value.text,
        ]
    }

    /// A function object from a group's number to what it contributes to a place.
    pub(super) fn place(&mut self, name: &str, side: usize, group: usize, argument: &str) {
        let place = self.product.place(group, &self.product.strides[side]);
        let [before, text] = self.within(&place);
        let index = self.index;
        self.line(&format!(
            "    const auto {name} = [&]({index} {argument}) -> {index} {{ {before}return {text}; }};"
        ));
    }

    /// A function object from a row and a position in the sum to the place of an
    /// element of the left operand, or -1 where there is none.
    pub(super) fn window(&mut self, window: &Window) {
        self.terms.open_block();
        let mut statements = Vec::new();
        let inside = self.terms.term(&window.inside, &mut statements).text;
        let place = self.terms.term(&window.place, &mut statements).text;
        self.terms.close_block();
        let index = self.index;
        let before: String = statements.iter().map(|s| format!("{s} ")).collect();
        self.line(&format!(
            "    const auto a_at = [&]({index} row, {index} k) -> {index} {{ {before}return {inside} ? {place} : -1; }};"
        ));
    }

    fn write(mut self) -> Result<String, Error> {
        let product = self.product;
        let [lhs, rhs, out] = product.types;
        let wide = accumulator(out);
        // Integers are summed modulo a power of two, which unsigned ones are.
        let sum = match (wide.is_float(), wide.bits()) {
            (true, _) => carrier(wide),
            (false, 64) => "unsigned long long",
            (false, _) => "unsigned int",
        };
        let (a, b, c) = (storage(lhs), storage(rhs), storage(out));
        // The result may lie where what is added does.
        let result = match product.added {
            true => format!("const {c} *d, {c} *c"),
            false => format!("{c} *__restrict__ c"),
        };
        let mut parameters =
            format!("const {a} *__restrict__ a, const {b} *__restrict__ b, {result}");
        for symbol in 0..product.symbols.len() as u32 {
            parameters += &format!(", const long long s{symbol}");
        }
        let threads = SIDE * SIDE;
        let (name, index) = (self.name, self.index);
        let [rows, columns] = self.tiles;
        self.line(&format!(
            "extern \"C\" __global__ void __launch_bounds__({threads}) {name}({parameters}) {{"
        ));
        // Two columns more: where 16 positions of the sum of two rows are written at
        // once, they lie in 32 banks. Where four columns are written at once, they are at
        // a multiple of four; two rows of 16 columns are 32 banks as they are.
        for (side, tile) in ["left", "right"].into_iter().enumerate() {
            let own = [ROWS, COLUMNS][side];
            let more = match self.vector(side, [lhs, rhs][side], sum) {
                Some(group) if group == own && self.tiles[side] == SIDE => 0,
                Some(group) if group == own => VECTOR,
                _ => 2,
            };
            let pitch = self.tiles[side] + more;
            self.line(&format!(
                "    __shared__ __align__(16) {sum} {tile}[{DEPTH}][{pitch}];"
            ));
        }
        for (group, name) in [(ROWS, "rows"), (COLUMNS, "columns"), (SUMMED, "depth")] {
            let size = product.group_size(group);
            self.constant(name, &size);
        }
        self.line(&format!(
            "    const {index} across = (columns + {}) / {columns};",
            columns - 1
        ));
        self.line(&format!(
            "    const {index} down = (rows + {}) / {rows};",
            rows - 1
        ));
        self.line(&format!("    const {index} tile = blockIdx.x;"));
        self.line(&format!(
            "    const {index} column0 = tile % across * {columns};"
        ));
        self.line(&format!(
            "    const {index} row0 = tile / across % down * {rows};"
        ));
        self.line(&format!("    const {index} batch = tile / across / down;"));
        for (side, array) in ["a", "b", "c"].into_iter().enumerate() {
            if side > 0 || product.window.is_none() {
                self.place(&format!("{array}_batch"), side, BATCH, "batch");
            }
        }
        match &product.window {
            Some(window) => self.window(window),
            None => {
                self.place("a_row", 0, ROWS, "row");
                self.place("a_k", 0, SUMMED, "k");
                self.line("    a += a_batch(batch);");
            }
        }
        self.place("b_column", 1, COLUMNS, "column");
        self.place("b_k", 1, SUMMED, "k");
        self.place("c_row", 2, ROWS, "row");
        self.place("c_column", 2, COLUMNS, "column");
        self.line("    b += b_batch(batch);");
        self.line("    c += c_batch(batch);");
        if product.added {
            self.line("    d += c_batch(batch);");
        }
        // What is next to each other in the result is stored by neighbouring threads.
        let by_column = !product.is_innermost(2, ROWS);
        let (x, y) = if by_column {
            ("column", "row")
        } else {
            ("row", "column")
        };
        self.line(&format!("    const int {x}_thread = threadIdx.x % {SIDE};"));
        self.line(&format!("    const int {y}_thread = threadIdx.x / {SIDE};"));
        let (m, n) = (rows / SIDE, columns / SIDE);
        self.line(&format!("    {sum} sum[{m}][{n}] = {{}};"));
        self.line(&format!(
            "    for ({index} k0 = 0; k0 < depth; k0 += {DEPTH}) {{"
        ));
        self.fill(0, "left", "a", "row", [lhs, wide], sum)?;
        self.fill(1, "right", "b", "column", [rhs, wide], sum)?;
        self.line("        __syncthreads();");
        self.line("        #pragma unroll");
        self.line(&format!("        for (int k = 0; k < {DEPTH}; ++k) {{"));
        self.line(&format!("            {sum} x[{m}], y[{n}];"));
        self.line("            #pragma unroll");
        self.line(&format!(
            "            for (int i = 0; i < {m}; ++i) x[i] = left[k][row_thread + {SIDE} * i];"
        ));
        self.line("            #pragma unroll");
        self.line(&format!(
            "            for (int j = 0; j < {n}; ++j) y[j] = right[k][column_thread + {SIDE} * j];"
        ));
        self.line("            #pragma unroll");
        self.line(&format!("            for (int i = 0; i < {m}; ++i) {{"));
        self.line("                #pragma unroll");
        let product = match wide {
            ElementType::F64 => "fma(x[i], y[j], sum[i][j])",
            _ if wide.is_float() => "fmaf(x[i], y[j], sum[i][j])",
            _ => "sum[i][j] + x[i] * y[j]",
        };
        self.line(&format!(
            "                for (int j = 0; j < {n}; ++j) sum[i][j] = {product};"
        ));
        self.line("            }\n        }");
        self.line("        __syncthreads();\n    }");
        if self.product.window.is_some() && wide.is_float() {
            self.line("    unsigned int odd = 0;");
        }
        self.line("    #pragma unroll");
        self.line(&format!("    for (int i = 0; i < {m}; ++i) {{"));
        self.line(&format!(
            "        const {index} row = row0 + row_thread + {SIDE} * i;"
        ));
        self.line("        if (row >= rows) continue;");
        self.line("        #pragma unroll");
        self.line(&format!("        for (int j = 0; j < {n}; ++j) {{"));
        self.line(&format!(
            "            const {index} column = column0 + column_thread + {SIDE} * j;"
        ));
        let own = carrier(wide);
        let total = if wide.is_float() {
            "sum[i][j]".to_owned()
        } else {
            wrapped(wide, "sum[i][j]")
        };
        let value = convert(wide, out, "total")
            .ok_or_else(|| Error::Bug(format!("no conversion from {wide} to {out}")))?;
        let value = store(out, &value);
        self.line("            if (column >= columns) continue;");
        let total = match self.product.added {
            true => format!("{total} + d[c_row(row) + c_column(column)]"),
            false => total,
        };
        self.line(&format!("            const {own} total = {total};"));
        self.line(&format!(
            "            c[c_row(row) + c_column(column)] = {value};"
        ));
        let windowed = self.product.window.is_some() && wide.is_float();
        if windowed {
            // One bit per element: what is done for them comes once in the program.
            self.line(&format!(
                "            if (total != total) odd |= 1u << (i * {n} + j);"
            ));
        }
        self.line("        }\n    }");
        if windowed {
            self.skip_padding([lhs, rhs, wide, out], n)?;
        }
        self.line("}");
        Ok(self.lines)
    }

    /// A NaN may be the product of an infinity and the padding, which is no element:
    /// such a sum is done again over what there is.
    fn skip_padding(
        &mut self,
        types: [ElementType; 4],
        columns_of_thread: i64,
    ) -> Result<(), Error> {
        let index = self.index;
        let again = self.again(types)?;
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

    /// The statements that compute an element of the result term by term, without what
    /// lies in the padding.
    pub(super) fn again(&self, [lhs, rhs, wide, out]: [ElementType; 4]) -> Result<String, Error> {
        let index = self.index;
        let converted = |from: ElementType, to: ElementType, name: &str| {
            convert(from, to, name)
                .ok_or_else(|| Error::Bug(format!("no conversion from {from} to {to}")))
        };
        let (x, y) = (converted(lhs, wide, "x")?, converted(rhs, wide, "y")?);
        let (x_type, y_type, own) = (carrier(lhs), carrier(rhs), carrier(wide));
        let x_load = load(lhs, "a[at]");
        let y_load = load(rhs, "b[b_column(column) + b_k(k)]");
        let value = store(out, &converted(wide, out, "total")?);
        Ok(format!(
            "        {own} total = 0;
        #pragma unroll 1
        for ({index} k = 0; k < depth; ++k) {{
            const {index} at = a_at(row, k);
            if (at < 0) continue;
            const {x_type} x = {x_load};
            const {y_type} y = {y_load};
            total += {x} * {y};
        }}
        c[c_row(row) + c_column(column)] = {value};"
        ))
    }

    /// The group of which four neighbours of an operand are read at once, if so.
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

    /// Fills a tile of an operand by four elements at once.
    fn fill_by_four(
        &mut self,
        group: usize,
        [tile, array, number]: [&str; 3],
        from: ElementType,
        [sum, value]: [&str; 2],
    ) {
        let width = self.tiles[usize::from(array == "b")];
        let (index, threads) = (self.index, SIDE * SIDE);
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

    /// Fills a tile of an operand in shared memory; what is outside is zero.
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
        let elements = width * DEPTH / (SIDE * SIDE);
        self.line("        #pragma unroll");
        self.line(&format!("        for (int i = 0; i < {elements}; ++i) {{"));
        let at = format!("(int)threadIdx.x + {} * i", SIDE * SIDE);
        // Neighbouring threads read what lies together.
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
