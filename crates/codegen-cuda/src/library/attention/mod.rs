//! Fused attention: a dot that computes scores, their softmax along rows, and the dot of the
//! weights with values become one function, if all three occur in a plan and nothing else reads the
//! intermediate results.
//!
//! A block has some rows of scores and goes through the columns in tiles. For each row, it keeps
//! the largest score so far, the sum of the exponentials relative to it, and the weighted sum of
//! values. When a larger score is found, both sums are scaled down. Scores are rounded and masked
//! as in the program. Dividing by the row's sum is done after the second product instead of before
//! it. Scores are never stored in memory.
//!
//! The dimensions of the scores except the last are *batches*, which keys or values have too, and
//! *rows*, which only queries have: heads that share keys are rows of one block.

mod pattern;
mod tensor;
mod tiles;

use super::dot::label_sizes;
use super::gemm::{BATCH, BLOCKS, COLUMNS, Product, ROWS, SUMMED, Text, dense};
use crate::body::Body;
use crate::emit;
use crate::error::Error;
use crate::function::{Function, KernelSequence, Slot, Work, linear};
use crate::types::{carrier, rounded, storage};
use pattern::Softmax;
use tegula_expr::{Term, Var};
use tegula_fusion::kernel::Statement;
use tegula_fusion::{Contraction, Kernel, Label, Labels};
use tegula_ir::{ArrayShape, Dim, ElementType, Symbol};

/// The most elements of queries, keys and values; more would not fit together.
const WIDEST: i64 = 128;
/// Estimates in seconds: the time of a launch, the time per byte moved to or from memory, the time
/// of one tile for a block that is alone on its multiprocessor, and the time of one step of a dot.
const LAUNCH: f64 = 2.5e-6;
const BYTE: f64 = 1.0 / 4.3e12;
const TURN: f64 = 1.5e-6;
const DOT_TURN: f64 = 0.4e-6;
/// The terms of a sum in one step of a dot.
const DOT_DEPTH: f64 = 16.0;

/// A dot, a softmax and a dot, each of which reads the result of the one before.
pub(crate) struct Steps<'a> {
    /// The dot that computes scores, its operands, and the scores.
    pub scored: &'a Contraction,
    pub factors: [&'a ArrayShape; 2],
    pub scores: &'a ArrayShape,
    /// The softmax kernel, with the numbers of the parameters that are the scores and the weights.
    pub kernel: &'a Kernel,
    pub read: usize,
    pub written: usize,
    /// The dot of weights and values; its operands are in this order if `first`.
    pub weighed: &'a Contraction,
    pub first: bool,
    pub weights: &'a ArrayShape,
    pub values: &'a ArrayShape,
    pub out: &'a ArrayShape,
    /// Whether the result may overlap what the function reads.
    pub aside: bool,
    pub symbols: &'a [Symbol],
}

/// The functions, and whether the left factor of the first dot is the queries. The arguments are
/// queries, keys, values, the result, and the kernel's other inputs.
pub(crate) struct Fused {
    pub series: KernelSequence,
    pub left_is_queries: bool,
}

/// The function, if the steps are attention of a supported kind and fusing them saves time.
///
/// # Errors
/// A type that cannot be converted, which is a bug in Tegula.
pub(crate) fn function(name: &str, steps: &Steps<'_>) -> Result<Option<Fused>, Error> {
    let Some((attention, left_is_queries)) = Attention::of(name, steps) else {
        return Ok(None);
    };
    let function = match attention.form() {
        Some(Form::Tensor) => tensor::function(&attention)?,
        Some(Form::Tiles) => tiles::function(&attention)?,
        None => None,
    };
    let Some(function) = function else {
        return Ok(None);
    };
    let given = 4 + attention.others().count();
    let mut series = KernelSequence::one(function, given);
    if steps.aside {
        copy_behind(&mut series, name, steps)?;
    }
    Ok(Some(Fused {
        series,
        left_is_queries,
    }))
}

/// Makes the function write the result, its fourth argument, to a scratch array, and copies that
/// afterwards.
fn copy_behind(series: &mut KernelSequence, name: &str, steps: &Steps<'_>) -> Result<(), Error> {
    let element = steps.out.element_type.storage_bytes() as i64;
    let dims = steps.out.dims.iter().map(Dim::term);
    let bytes = dims.fold(Term::constant(element), |all, dim| all.mul(&dim));
    for step in &mut series.steps {
        if let Work::Launch { arrays, .. } = step {
            let result = arrays.iter_mut().filter(|slot| **slot == Slot::Given(3));
            result.for_each(|slot| *slot = Slot::Scratch(0));
        }
    }
    series.scratch.push(bytes);
    let kernel = super::copy(steps.out, steps.symbols);
    let copy = emit::functions(&format!("{name}_copy"), &kernel, true)?;
    for step in copy.steps {
        if let Work::Launch { function, .. } = step {
            series.steps.push(Work::Launch {
                function: function + series.functions.len(),
                arrays: vec![Slot::Scratch(0), Slot::Given(3)],
            });
        }
    }
    series.functions.extend(copy.functions);
    Ok(())
}

enum Form {
    Tensor,
    Tiles,
}

struct Attention<'a> {
    name: &'a str,
    softmax: Softmax<'a>,
    read: usize,
    written: usize,
    aside: bool,
    /// The product of queries and keys to scores; `weighed` is that of weights and values to the
    /// result.
    scored: Product<'a>,
    weighed: Product<'a>,
    /// For each dimension of the scores, its label in the first product.
    labels: Vec<Label>,
}

impl<'a> Attention<'a> {
    fn of(name: &'a str, steps: &Steps<'a>) -> Option<(Self, bool)> {
        let softmax = pattern::softmax(steps.kernel, steps.read, steps.written)?;
        let flat = |labels: &[Labels]| -> Vec<Label> { labels.iter().flatten().copied().collect() };
        let sizes = label_sizes(steps.scored, steps.factors);
        let size = |label: &Label| sizes.get(label).cloned();
        let out = &steps.scored.out;
        // The scores must have the dimensions of the dot, and the weights those of the scores.
        let dims = steps.scores.dims.iter().map(Dim::term);
        let own = out
            .iter()
            .map(|l| size(l).unwrap_or_else(|| Term::constant(1)));
        if !dims.eq(own) || steps.weights.dims != steps.scores.dims {
            return None;
        }
        let (&key, outer) = out.split_last()?;
        let left = flat(&steps.scored.lhs);
        let right = flat(&steps.scored.rhs);
        let left_is_queries = match (left.contains(&key), right.contains(&key)) {
            (false, true) => true,
            (true, false) => false,
            _ => return None,
        };
        let (queries, keys, q, k) = match left_is_queries {
            true => (left, right, steps.factors[0], steps.factors[1]),
            false => (right, left, steps.factors[1], steps.factors[0]),
        };
        let (weights, values) = match steps.first {
            true => (&steps.weighed.lhs, flat(&steps.weighed.rhs)),
            false => (&steps.weighed.rhs, flat(&steps.weighed.lhs)),
        };
        let weights: Vec<Option<Label>> = weights
            .iter()
            .map(|labels| match labels[..] {
                [] => Some(None),
                [label] => Some(Some(label)),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let (&weight_key, weights) = weights.split_last()?;
        let weight_key = weight_key?;
        // Only the columns are summed over in the second product.
        let result = &steps.weighed.out;
        let summed = |label: &Label| !result.contains(label);
        let mut all = weights.iter().flatten().chain(&values);
        if weights.len() != outer.len()
            || !values.contains(&weight_key)
            || !summed(&weight_key)
            || all.any(|label| summed(label) && *label != weight_key)
        {
            return None;
        }
        let mut first: [Vec<Label>; 4] = Default::default();
        let mut second: [Vec<Label>; 4] = Default::default();
        for (&label, weight) in outer.iter().zip(weights) {
            let shared = weight.is_some_and(|weight| values.contains(&weight));
            let group = match keys.contains(&label) || shared {
                true => BATCH,
                false => ROWS,
            };
            first[group].push(label);
            second[group].extend(*weight);
        }
        first[COLUMNS].push(key);
        second[SUMMED].push(weight_key);
        first[SUMMED] = queries
            .iter()
            .copied()
            .filter(|l| !out.contains(l))
            .collect();
        let own = result.iter().copied();
        second[COLUMNS] = own.filter(|l| !weights.contains(&Some(*l))).collect();
        let operands = match steps.first {
            true => [steps.weights, steps.values],
            false => [steps.values, steps.weights],
        };
        let second_sizes = label_sizes(steps.weighed, operands);
        let weighed = Product {
            types: [steps.weights, steps.values, steps.out].map(|s| s.element_type),
            groups: second,
            strides: [
                Default::default(),
                dense(&values, &second_sizes),
                dense(result, &second_sizes),
            ],
            sizes: second_sizes,
            window: None,
            added: false,
            symbols: steps.symbols,
        };
        let scored = Product {
            types: [q, k, steps.scores].map(|s| s.element_type),
            groups: first,
            strides: [
                dense(&queries, &sizes),
                dense(&keys, &sizes),
                Default::default(),
            ],
            sizes,
            window: None,
            added: false,
            symbols: steps.symbols,
        };
        let attention = Self {
            name,
            softmax,
            read: steps.read,
            written: steps.written,
            aside: steps.aside,
            scored,
            weighed,
            labels: out.clone(),
        };
        Some((attention, left_is_queries))
    }

    fn form(&self) -> Option<Form> {
        let fits = |term: Term| matches!(term.as_constant(), Some(1..=WIDEST));
        let [depth, width] = self.widths().map(fits);
        if !depth || !width {
            return None;
        }
        let [q, k, scores] = self.scored.types;
        let [weights, values, out] = self.weighed.types;
        let single = ElementType::F32;
        let halves = matches!(q, ElementType::BF16 | ElementType::F16);
        if halves && [k, weights, values] == [q; 3] {
            let results = [scores, out].iter().all(|&ty| ty == q || ty == single);
            return results.then_some(Form::Tensor);
        }
        let all = [q, k, scores, weights, values, out];
        (all == [single; 6]).then_some(Form::Tiles)
    }

    /// The number of elements of a query or key, and of a value.
    fn widths(&self) -> [Term; 2] {
        [
            self.scored.group_size(SUMMED),
            self.weighed.group_size(COLUMNS),
        ]
    }

    /// The numbers of batches, rows and columns at representative sizes.
    fn representative(&self) -> Option<[i64; 3]> {
        let symbols = self.scored.symbols.iter();
        let representative: Vec<i64> = symbols
            .map(|s| 64.clamp(s.lower, s.upper.max(s.lower)))
            .collect();
        let value = |group| {
            let size = self.scored.group_size(group);
            size.eval(&|var: Var| representative.get(var.0 as usize).copied())
                .ok()
        };
        Some([value(BATCH)?, value(ROWS)?, value(COLUMNS)?])
    }

    /// The function, if blocks with this many rows that go through this many columns at a time are
    /// estimated to be faster than three functions that exchange the scores through memory.
    fn priced(
        &self,
        form: &str,
        [rows, columns]: [i64; 2],
        threads: u32,
        text: impl FnOnce() -> Result<String, Error>,
    ) -> Result<Option<Function>, Error> {
        let Some([batch, all_rows, all_columns]) = self.representative() else {
            return Ok(None);
        };
        let elements = batch as f64 * all_rows as f64 * all_columns as f64;
        let bytes = [self.scored.types[2], self.weighed.types[0]].map(ElementType::storage_bytes);
        let moved = 2.0 * elements * (bytes[0] + bytes[1]) as f64;
        let launches = if self.aside { 1.0 } else { 2.0 };
        let saved = launches * LAUNCH + moved * BYTE;
        // Rows are spread over blocks, but columns are not, which separate dots would spread too.
        let blocks = batch as f64 * (all_rows as f64 / rows as f64).ceil();
        let idle = (1.0 - blocks / BLOCKS as f64).max(0.0);
        let turns = (all_columns as f64 / columns as f64).ceil();
        let [depth, _] = self.widths().map(|w| w.as_constant().unwrap_or(1));
        let in_dots = (depth + all_columns) as f64 / DOT_DEPTH;
        let lost = idle * (TURN * turns - DOT_TURN * in_dots).max(0.0);
        if lost > saved {
            return Ok(None);
        }
        let tiles = self.scored.group_size(ROWS).ceil_div(&Term::constant(rows));
        Ok(Some(Function {
            name: self.name.to_owned(),
            reason: format!(
                "attention, {rows} rows by {columns} columns of scores at a time {form}; \
                 {moved:.0} bytes of scores and weights are not moved"
            ),
            text: text()?,
            block: [threads, 1, 1],
            grid: linear(self.scored.group_size(BATCH).mul(&tiles)),
            symbols: (0..self.scored.symbols.len() as u32).collect(),
            guarded: false,
        }))
    }

    /// Writes the head of the function up to the declaration of `shared` memory, and declares all
    /// names: the sizes `rows` and `columns`, the block's `row0` and `batch`, the functions for
    /// indices of elements, and `score`.
    fn open(&self, shared: &str, rows: i64, threads: u32) -> Result<Text<'_>, Error> {
        let mut text = Text::new(&self.scored, [0, 0], self.name);
        let mut other = Text::new(&self.weighed, [0, 0], self.name);
        if other.index != text.index {
            (text.index, other.index) = ("long long", "long long");
        }
        let index = text.index;
        let mut parameters = String::new();
        for (name, ty) in [
            ("a", self.scored.types[0]),
            ("b", self.scored.types[1]),
            ("v", self.weighed.types[1]),
        ] {
            parameters += &format!("const {} *__restrict__ {name}, ", storage(ty));
        }
        parameters += &format!("{} *__restrict__ c", storage(self.weighed.types[2]));
        for param in self.others() {
            let ty = storage(self.softmax.kernel.params[param].element_type);
            parameters += &format!(", const {ty} *__restrict__ p{param}");
        }
        for symbol in 0..self.scored.symbols.len() {
            parameters += &format!(", const long long s{symbol}");
        }
        text.line(&format!(
            "extern \"C\" __global__ void __launch_bounds__({threads}) {}({parameters}) {{",
            self.name
        ));
        text.line(shared);
        text.constant("rows", &self.scored.group_size(ROWS));
        text.constant("columns", &self.scored.group_size(COLUMNS));
        text.line(&format!(
            "    const {index} down = (rows + {}) / {rows};
    const {index} row0 = blockIdx.x % down * {rows};
    const {index} batch = blockIdx.x / down;",
            rows - 1
        ));
        text.place("a_batch", 0, BATCH, "batch");
        text.place("a_row", 0, ROWS, "row");
        text.place("a_k", 0, SUMMED, "k");
        text.place("b_batch", 1, BATCH, "batch");
        text.place("b_row", 1, COLUMNS, "column");
        text.place("b_k", 1, SUMMED, "k");
        other.place("v_batch", 1, BATCH, "batch");
        other.place("v_row", 1, SUMMED, "k");
        other.place("v_k", 1, COLUMNS, "column");
        other.place("c_batch", 2, BATCH, "batch");
        other.place("c_row", 2, ROWS, "row");
        other.place("c_column", 2, COLUMNS, "column");
        text.lines += &other.lines;
        text.line(
            "    a += a_batch(batch);\n    b += b_batch(batch);\n    \
             v += v_batch(batch);\n    c += c_batch(batch);",
        );
        self.score(&mut text)?;
        Ok(text)
    }

    /// The kernel's further parameters, which the function is given too.
    fn others(&self) -> impl Iterator<Item = usize> + '_ {
        let all = 0..self.softmax.kernel.given();
        all.filter(|&p| p != self.read && p != self.written)
    }

    /// Writes a lambda that maps a row, a column and the sum of products there to the number whose
    /// exponential is taken.
    fn score(&self, text: &mut Text<'_>) -> Result<(), Error> {
        let softmax = &self.softmax;
        let index = text.index;
        text.line(&format!(
            "    const auto score = [&](const {index} row, const {index} column, const float sum) -> float {{"
        ));
        let mut body = Body::new(softmax.kernel);
        let mut left = softmax.kernel.domain.clone();
        for group in [BATCH, ROWS] {
            for (label, position) in self.scored.digits(group) {
                let at = self.labels.iter().position(|&own| own == label);
                let Some(var) = at.and_then(|at| softmax.dims.get(at).copied().flatten()) else {
                    continue;
                };
                let [before, value] = text.within(&position);
                text.line(&format!("    {before}"));
                body.declare_index(var, &value);
                left.retain(|&other| other != var);
            }
        }
        for var in left {
            body.declare_index(var, "0");
        }
        body.declare_index(softmax.column, "column");
        let ty = self.scored.types[2];
        let given = rounded(ty, "sum");
        let block = softmax.block.statements.iter();
        for statement in softmax.before.iter().copied().chain(block) {
            match statement {
                Statement::Load { result, param, .. } if *param == self.read => {
                    let name = body.scalar(*result);
                    body.line(&format!("const {} {name} = {given};", carrier(ty)));
                }
                // Results that only later loops use are not needed.
                other if other.is_store() || other.uses(&softmax.kernel.vars, softmax.largest) => {}
                other => body.statement(other)?,
            }
        }
        let value = body.scalar(softmax.value);
        body.line(&format!("return {value};"));
        text.lines += &body.finish();
        text.line("    };");
        Ok(())
    }
}
