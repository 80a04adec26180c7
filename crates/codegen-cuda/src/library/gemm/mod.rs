//! Tiled matrix products in shared memory, for dots and convolutions. A block computes a tile of
//! the result, on the ordinary units (`tiles`) or on tensor cores (`tensor`). If tiles are few,
//! several blocks share the sum of each (`split`).
//!
//! The labels of the contraction are in four groups: those of both operands and the result
//! (batches), of the left operand and the result (rows), of the right operand and the result
//! (columns), and of both operands only (summed). The linear index of an element in an array is the
//! sum of the contributions of its batch, row, column and position in the sum. Sums use fused
//! multiply-adds in the accumulator's type: the program specifies neither their rounding nor their
//! order.

mod split;
mod tensor;
mod tiles;

use super::dot::label_sizes;
use crate::error::Error;
use crate::function::{Function, KernelSequence, linear};
use crate::scalars::convert;
use crate::terms::{Terms, is_short};
use crate::types::{carrier, load, storage, store};
use rustc_hash::FxHashMap;
use split::Split;
use tegula_expr::{Interval, Term, Var, residue_of};
use tegula_fusion::{Contraction, Label, Labels};
use tegula_ir::{ArrayShape, ElementType, Symbol};

/// The number of blocks that occupy every multiprocessor of a large GPU: an H100 has this many
/// multiprocessors.
pub(super) const BLOCKS: i64 = 132;
/// If a result has fewer rows or columns, most of a tile would be empty.
const SMALLEST: i64 = 8;
/// With at most this many elements in a result, one thread per element would leave three quarters
/// of a large GPU's multiprocessors without a block of 256 threads.
const FEW_ELEMENTS: i64 = BLOCKS / 4 * 256;

/// The numbers of the four groups of labels.
pub(super) const BATCH: usize = 0;
pub(super) const ROWS: usize = 1;
pub(super) const COLUMNS: usize = 2;
pub(super) const SUMMED: usize = 3;

/// The stride of each label in an array, in elements; labels that the array lacks have none.
pub(super) type Strides = FxHashMap<Label, Term>;

/// A sum of products over labels, from which code is generated.
#[derive(Clone)]
pub(super) struct Product<'a> {
    /// The types of the left operand, the right operand and the result.
    pub types: [ElementType; 3],
    pub sizes: FxHashMap<Label, Term>,
    pub groups: [Vec<Label>; 4],
    /// The strides of the left operand, the right operand and the result.
    pub strides: [Strides; 3],
    /// The index of the left operand's elements, if it is not a sum of the labels' contributions.
    pub window: Option<Window>,
    /// Whether an array like the result, which is the third parameter then, is added to it.
    pub added: bool,
    pub symbols: &'a [Symbol],
}

/// The elements of the left operand in a window, as terms over the positions in the four groups;
/// see [`Product::digits`].
#[derive(Clone)]
pub(super) struct Window {
    /// The linear index of an element.
    pub place: Term,
    /// Nonzero if there is an element; in the padding, the operand is zero.
    pub inside: Term,
    /// The length of contiguous, aligned runs of elements along the sum: a power of two.
    pub runs: i64,
}

/// The strides of a dense array whose dimensions have these labels.
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

/// The size of a product; for symbolic sizes, that of a typical run.
pub(super) struct Sizes {
    batch: i64,
    rows: i64,
    columns: i64,
    depth: i64,
    /// Whether all sizes are static.
    known: bool,
}

impl Sizes {
    /// The number of elements of the result.
    fn elements(&self) -> i64 {
        [self.rows, self.columns]
            .into_iter()
            .fold(self.batch, i64::saturating_mul)
    }

    /// The number of tiles of this size in the result.
    fn tiles(&self, [rows, columns]: [i64; 2]) -> i64 {
        let across = |size: i64, tile: i64| size.saturating_add(tile - 1) / tile;
        [across(self.rows, rows), across(self.columns, columns)]
            .into_iter()
            .fold(self.batch, i64::saturating_mul)
    }
}

/// The work of a block.
pub(super) struct Tiling {
    /// The rows and columns of a tile.
    tile: [i64; 2],
    split: Option<Split>,
    /// Whether tensor cores are used.
    tensor: bool,
}

impl Tiling {
    /// Tiles on the ordinary units, without splitting the sum.
    fn whole(tile: [i64; 2]) -> Self {
        Self {
            tile,
            split: None,
            tensor: false,
        }
    }
}

impl<'a> Product<'a> {
    /// The product of a dot. Its arrays are the factors, an addend if `added`, and the result.
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

    /// The position along each label of a group, computed from the position in the group.
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

    /// The contribution of a group to the linear index of an element, with these strides.
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

    /// Whether adjacent positions of a group are adjacent in an array: the last label of the group
    /// with several positions has stride 1.
    pub(super) fn is_innermost(&self, side: usize, group: usize) -> bool {
        let labels = self.groups[group].iter().rev();
        let mut labels = labels.filter(|&&l| self.size(l).as_constant() != Some(1));
        let stride = labels
            .next()
            .and_then(|label| self.strides[side].get(label));
        stride.is_some_and(|stride| stride.as_constant() == Some(1))
    }

    /// Whether runs of `count` adjacent positions of a group are contiguous in an array, and
    /// aligned to `count`.
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

    fn sizes(&self) -> Option<Sizes> {
        let typical: Vec<i64> = self
            .symbols
            .iter()
            .map(|s| 64.clamp(s.lower, s.upper.max(s.lower)))
            .collect();
        let groups = [BATCH, ROWS, COLUMNS, SUMMED].map(|group| self.group_size(group));
        let value = |term: &Term| {
            let value = term.eval(&|var: Var| typical.get(var.0 as usize).copied());
            value.ok()
        };
        let [batch, rows, columns, depth] = [0, 1, 2, 3].map(|group: usize| value(&groups[group]));
        Some(Sizes {
            batch: batch.unwrap_or(1),
            rows: rows?,
            columns: columns?,
            depth: depth?,
            known: groups.iter().all(|size| size.as_constant().is_some()),
        })
    }

    /// The functions, if tiles suit the product. Their arguments are the factors, the addend if
    /// there is one, and the result.
    ///
    /// # Errors
    /// A type that cannot be converted, which is a bug in Tegula.
    pub(super) fn functions(&self, name: &str) -> Result<Option<KernelSequence>, Error> {
        let out = self.types[2];
        if !out.is_float() && !out.is_integer() {
            return Ok(None);
        }
        let Some(sizes) = self.sizes().filter(|sizes| sizes.depth >= 2) else {
            return Ok(None);
        };
        let tiling = match tensor::tiling(self, &sizes) {
            Some(tiling) => tiling,
            None => tiles::tiling(self, &sizes),
        };
        if sizes.rows.min(sizes.columns) < SMALLEST && !self.suits_few(&sizes, &tiling) {
            return Ok(None);
        }
        Ok(Some(match tiling.split {
            None => {
                let given = 3 + usize::from(self.added);
                KernelSequence::one(self.function(name, &tiling)?, given)
            }
            Some(split) => {
                let partial = self.partial().function(name, &tiling)?;
                self.in_slices(partial, split, sizes.elements())?
            }
        }))
    }

    /// Whether to use tiles although they are mostly empty because the result has few rows or
    /// columns: the gradient of a small convolution's kernel has a long sum for each of few
    /// elements. Dots of this kind are reductions, which are split over blocks as well.
    fn suits_few(&self, sizes: &Sizes, tiling: &Tiling) -> bool {
        let is_split = tiling.split.is_some();
        self.window.is_some() && is_split && sizes.elements() <= FEW_ELEMENTS
    }

    /// A function whose blocks do the work described by `tiling`.
    fn function(&self, name: &str, tiling: &Tiling) -> Result<Function, Error> {
        let mut text = Text::new(self, tiling.tile, name);
        text.split = tiling.split;
        let [mut rows, mut columns] = tiling.tile;
        let (text, units, threads) = match tiling.tensor {
            true => {
                if tensor::is_transposed(self) {
                    std::mem::swap(&mut rows, &mut columns);
                }
                let depth = tensor::DEPTH;
                let units = format!("on tensor cores, {depth} deep, the next copied ahead");
                (tensor::text(text)?, units, tensor::THREADS)
            }
            false => {
                let units = format!("in shared memory, {} deep", tiles::DEPTH);
                (text.write()?, units, tiles::THREADS)
            }
        };
        let slices = tiling.split.map_or(1, |split| split.slices);
        let split = match tiling.split {
            Some(Split { slices, chunk }) => {
                format!("; {slices} slices of the sum, {chunk} positions each")
            }
            None => String::new(),
        };
        let tiles = |group, tile| self.group_size(group).ceil_div(&Term::constant(tile));
        let blocks = self
            .group_size(BATCH)
            .mul(&tiles(ROWS, tiling.tile[0]))
            .mul(&tiles(COLUMNS, tiling.tile[1]))
            .mul(&Term::constant(slices));
        Ok(Function {
            name: name.to_owned(),
            reason: format!("tiles of {rows} x {columns} {units}{split}"),
            text,
            block: [threads as u32, 1, 1],
            grid: linear(blocks),
            symbols: (0..self.symbols.len() as u32).collect(),
            guarded: false,
        })
    }
}

/// The source of a function that computes tiles of this size.
pub(super) struct Text<'a> {
    pub product: &'a Product<'a>,
    pub tiles: [i64; 2],
    pub name: &'a str,
    /// How blocks share the sum, if they do.
    split: Option<Split>,
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
            // Tiles extend beyond the last row.
            ranges.push(Interval::new(0, most.saturating_add(128)));
        }
        let mut terms = Terms::new(ranges);
        for symbol in 0..product.symbols.len() as u32 {
            terms.name(Var(symbol), &format!("s{symbol}"), true);
        }
        // All indices are computed in 64 bits if one array needs that.
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
            split: None,
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

    /// A term's expression, and the statements that must precede it in a nested block.
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

    /// Writes a lambda that maps a position in a group to its contribution to a linear index.
    pub(super) fn place(&mut self, name: &str, side: usize, group: usize, argument: &str) {
        let place = self.product.place(group, &self.product.strides[side]);
        let [before, text] = self.within(&place);
        let index = self.index;
        self.line(&format!(
            "    const auto {name} = [&]({index} {argument}) -> {index} {{ {before}return {text}; }};"
        ));
    }

    /// Writes a lambda that maps a row and a position in the sum to the linear index of an element
    /// of the left operand, or -1 if there is none.
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

    /// Writes the function's head: the arrays `a`, `b` and `c`, and before `c` the addend `d` if
    /// there is one.
    pub(super) fn head(&mut self, threads: i64) {
        let product = self.product;
        let [a, b, c] = product.types.map(storage);
        // The result may be at the same place as the addend.
        let result = match product.added {
            true => format!("const {c} *d, {c} *c"),
            false => format!("{c} *__restrict__ c"),
        };
        let mut parameters =
            format!("const {a} *__restrict__ a, const {b} *__restrict__ b, {result}");
        for symbol in 0..product.symbols.len() {
            parameters += &format!(", const long long s{symbol}");
        }
        // With a split sum, a multiprocessor has at most two blocks. So the compiler may use half
        // of all registers, which avoids spilling a few for the sake of more blocks.
        let bounds = match self.split {
            Some(_) => format!("{threads}, 2"),
            None => threads.to_string(),
        };
        let name = self.name;
        self.line(&format!(
            "extern \"C\" __global__ void __launch_bounds__({bounds}) {name}({parameters}) {{"
        ));
    }

    /// Declares the sizes, the block's tile and its part of the sum, and the functions for indices.
    pub(super) fn positions(&mut self) {
        let (product, index) = (self.product, self.index);
        for (group, name) in [(ROWS, "rows"), (COLUMNS, "columns"), (SUMMED, "depth")] {
            let size = product.group_size(group);
            self.constant(name, &size);
        }
        let [rows, columns] = self.tiles;
        let block = self.slice();
        self.line(&format!(
            "    const {index} tiles_down = (rows + {}) / {rows};
    const {index} tiles_across = (columns + {}) / {columns};
    const {index} tile = {block};
    const {index} column0 = tile % tiles_across * {columns};
    const {index} row0 = tile / tiles_across % tiles_down * {rows};
    const {index} batch = tile / tiles_across / tiles_down;",
            rows - 1,
            columns - 1
        ));
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
        self.line("    b += b_batch(batch);\n    c += c_batch(batch);");
        if product.added {
            self.line("    d += c_batch(batch);");
        }
    }

    /// Declares the block's part of the sum and where its partial results go, if the sum is split.
    /// Returns the number of the block's tile.
    fn slice(&mut self) -> String {
        let Some(Split { slices, chunk }) = self.split else {
            return "blockIdx.x".to_owned();
        };
        let elements = [BATCH, ROWS, COLUMNS].into_iter();
        let elements = elements.fold(Term::constant(1), |all, group| {
            all.mul(&self.product.group_size(group))
        });
        self.constant("elements", &elements);
        let index = self.index;
        self.line(&format!(
            "    const {index} begin = (int)(blockIdx.x % {slices}u) * ({index}){chunk};
    const {index} end = depth - begin < {chunk} ? depth : begin + {chunk};
    c += (long long)(blockIdx.x % {slices}u) * elements;"
        ));
        format!("blockIdx.x / {slices}u")
    }

    /// The first and last position of the block's part of the sum.
    pub(super) fn bounds(&self) -> [&'static str; 2] {
        match self.split {
            Some(_) => ["begin", "end"],
            None => ["0", "depth"],
        }
    }

    /// The statements that compute an element of the result term by term, leaving out what is in
    /// the padding.
    pub(super) fn again(&self, wide: ElementType) -> Result<String, Error> {
        let [lhs, rhs, out] = self.product.types;
        let index = self.index;
        let [begin, end] = self.bounds();
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
        for ({index} k = {begin}; k < {end}; ++k) {{
            const {index} at = a_at(row, k);
            if (at < 0) continue;
            const {x_type} x = {x_load};
            const {y_type} y = {y_load};
            total += {x} * {y};
        }}
        c[c_row(row) + c_column(column)] = {value};"
        ))
    }
}
