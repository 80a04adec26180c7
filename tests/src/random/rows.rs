//! Random programs over rows that are long enough to be vectorised: rows scattered and gathered by
//! loaded indices, lookups in small tables, gathers at constant indices, chains of products, sums
//! of rows.

use super::{Body, Generator, Known, MAX_ELEMENTS, RandomProgram, Regime, input, list, root};
use std::fmt::Write;
use tegula_ir::ElementType;

const FLOATS: &[ElementType] = &[
    ElementType::F32,
    ElementType::F32,
    ElementType::F64,
    ElementType::BF16,
];
const NUMBERS: &[ElementType] = &[
    ElementType::F32,
    ElementType::F32,
    ElementType::F64,
    ElementType::BF16,
    ElementType::F16,
    ElementType::S32,
    ElementType::U8,
    ElementType::S8,
    ElementType::S16,
    ElementType::S64,
    ElementType::U32,
];
const INDICES: &[ElementType] = &[
    ElementType::S32,
    ElementType::S32,
    ElementType::S64,
    ElementType::U32,
    ElementType::U64,
    ElementType::S8,
    ElementType::U8,
    ElementType::S16,
    ElementType::U16,
];
const ROWS: &[i64] = &[1, 2, 3, 5, 8, 12, 16, 21, 36];
const COLUMNS: &[i64] = &[1, 7, 9, 12, 15, 16, 17, 20, 24, 31, 33, 48, 64, 65, 96, 100];

/// The random program for a seed.
pub fn random_rows(seed: u64, regime: Regime) -> RandomProgram {
    let mut generator = Generator::of(seed, regime);
    let (ty, index) = (
        *generator.random.pick(NUMBERS),
        *generator.random.pick(INDICES),
    );
    let float = *generator.random.pick(FLOATS);
    let [rows, taken] = [(); 2].map(|()| *generator.random.pick(ROWS));
    let columns = *generator.random.pick(COLUMNS);
    let declared = [
        (ty, vec![rows, columns]),
        (index, vec![taken]),
        (ty, vec![taken, columns]),
        (
            float,
            vec![*generator.random.pick(&[1, 2, 3, 4]), rows.max(2), 12],
        ),
    ];
    let mut body = Body::default();
    let mut inputs = Vec::new();
    for (i, (ty, dims)) in declared.into_iter().enumerate() {
        let known = Known {
            name: format!("p{i}"),
            ty,
            dims,
            bits: if ty.is_float() { 4 } else { 64 },
        };
        body.push(known.clone(), &format!("parameter({i})"));
        inputs.push(input(&mut generator.random, regime, &known));
    }
    for _ in 0..2 + generator.random.below(6) {
        match generator.random.below(10) {
            0 | 1 => generator.scatter_of_rows(&mut body),
            2 => generator.gather_of_rows(&mut body),
            3 => generator.table(&mut body),
            4 => generator.gather_at_constants(&mut body),
            5 | 6 => generator.products(&mut body),
            7 => generator.less_its_largest(&mut body),
            8 => generator.with_a_small_array(&mut body),
            _ => generator.step(&mut body),
        }
    }
    let chosen = generator.results(&body);
    let header = generator.aliases(&body.known[..inputs.len()], &chosen);
    let text = format!(
        "HloModule rows_{seed}{header}\n\n{}ENTRY main {{\n{}{}}}\n",
        generator.computations,
        body.text,
        root(&chosen)
    );
    RandomProgram { text, inputs }
}

fn is_number(known: &Known) -> bool {
    known.ty != ElementType::Pred && !known.ty.is_complex() && known.ty.bits() >= 8
}

impl Generator {
    fn rows(&mut self, body: &Body) -> Option<Known> {
        self.any_where(body, |k| {
            k.dims.len() == 2 && is_number(k) && k.elements() > 0
        })
    }

    /// An array of rows, and a list of row indices.
    fn rows_by_number(&mut self, body: &Body) -> Option<(Known, Known)> {
        let rows = self.rows(body)?;
        let fits = |k: &Known| {
            let is_list = k.dims.len() == 1 && k.ty.is_integer() && k.ty.bits() >= 8;
            is_list && k.dims[0] * rows.dims[1] <= MAX_ELEMENTS
        };
        let numbers = self.any_where(body, fits)?;
        Some((rows, numbers))
    }

    fn scatter_of_rows(&mut self, body: &mut Body) {
        let Some((x, i)) = self.rows_by_number(body) else {
            return;
        };
        let dims = [i.dims[0], x.dims[1]];
        let known = self.any_where(body, |k| k.ty == x.ty && k.dims == dims);
        let updates = match known {
            Some(known) => known,
            None => self.fresh(body, x.ty, &dims),
        };
        let bits = x.bits.max(updates.bits) + 65 - (dims[0].max(1) as u64).leading_zeros();
        let operation = *self.random.pick(&["add", "maximum", "minimum", "set"]);
        let (apply, bits) = match operation {
            "add" if self.fits(x.ty, bits) => (self.combiner("add", x.ty), bits),
            "set" => (self.second(x.ty), x.bits.max(updates.bits)),
            "minimum" => (self.combiner("minimum", x.ty), x.bits.max(updates.bits)),
            _ => (self.combiner("maximum", x.ty), x.bits.max(updates.bits)),
        };
        let text = format!(
            "scatter({}, {}, {}), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={apply}",
            x.name, i.name, updates.name
        );
        self.define(body, x.ty, &x.dims, bits, &text);
    }

    /// A combiner that returns its second operand, the update.
    fn second(&mut self, ty: ElementType) -> String {
        let name = self.name();
        let _ = write!(
            self.computations,
            "{name} {{\n  a = {ty}[] parameter(0)\n  ROOT b = {ty}[] parameter(1)\n}}\n\n"
        );
        name
    }

    fn gather_of_rows(&mut self, body: &mut Body) {
        let Some((x, i)) = self.rows_by_number(body) else {
            return;
        };
        let dims = [i.dims[0], x.dims[1]];
        let text = format!(
            "gather({}, {}), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{}}}",
            x.name, i.name, x.dims[1]
        );
        self.define(body, x.ty, &dims, x.bits, &text);
    }

    /// A lookup in a short table: one index for each element.
    fn table(&mut self, body: &mut Body) {
        let Some(x) = self.rows(body) else { return };
        let ty = *self.random.pick(NUMBERS);
        let size = self.random.between(1, 17);
        let table = self.fresh(body, ty, &[size]);
        let ty = *self
            .random
            .pick(&[ElementType::S32, ElementType::S32, ElementType::S8]);
        let index = self.fresh(body, ty, &x.dims);
        let text = format!(
            "gather({}, {}), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=2, slice_sizes={{1}}",
            table.name, index.name
        );
        self.define(body, table.ty, &x.dims, table.bits, &text);
    }

    fn gather_at_constants(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| !k.dims.is_empty() && k.elements() > 0) else {
            return;
        };
        let along = self.random.below(x.dims.len());
        let count = self.random.between(1, 9);
        let mut dims = x.dims.clone();
        dims.remove(along);
        let place = self.random.below(dims.len() + 1);
        dims.insert(place, count);
        if dims.iter().product::<i64>() > MAX_ELEMENTS {
            return;
        }
        // Most indices are consecutive.
        let mut at = self.random.between(-2, x.dims[along]);
        let mut numbers = Vec::new();
        for _ in 0..count {
            numbers.push(at.to_string());
            at = match self.random.once_in(4) {
                true => self.random.between(-2, x.dims[along] + 1),
                false => at + 1,
            };
        }
        let indices = self.name();
        let _ = writeln!(
            body.text,
            "  {indices} = s32[{count}] constant({{{}}})",
            numbers.join(", ")
        );
        let mut sizes = x.dims.clone();
        sizes[along] = 1;
        let offsets: Vec<i64> = (0..dims.len())
            .filter(|&d| d != place)
            .map(|d| d as i64)
            .collect();
        let text = format!(
            "gather({}, {indices}), offset_dims={}, collapsed_slice_dims={{{along}}}, start_index_map={{{along}}}, index_vector_dim=1, slice_sizes={}",
            x.name,
            list(&offsets),
            list(&sizes)
        );
        self.define(body, x.ty, &dims, x.bits, &text);
    }

    /// A product, an elementwise operation on it, and possibly a product of the result.
    fn products(&mut self, body: &mut Body) {
        let wanted = |k: &Known| {
            (2..=3).contains(&k.dims.len())
                && k.ty.is_float()
                && k.ty.bits() >= 16
                && k.elements() > 0
        };
        let Some(mut x) = self.any_where(body, wanted) else {
            return;
        };
        for last in [false, true] {
            let rank = x.dims.len();
            let (depth, columns) = (x.dims[rank - 1], *self.random.pick(&[1, 5, 8, 16, 20]));
            let bits = x.bits + 3 + 64 - (depth.max(1) as u64).leading_zeros();
            let mut dims = x.dims.clone();
            dims[rank - 1] = columns;
            if !self.fits(x.ty, bits) || dims.iter().product::<i64>() > MAX_ELEMENTS {
                return;
            }
            // Either one matrix for the whole batch or one for each element of it.
            let batched = rank == 3 && self.random.once_in(2);
            let batch = if batched { vec![x.dims[0]] } else { Vec::new() };
            let turned = self.random.once_in(2);
            let sides = if turned {
                [columns, depth]
            } else {
                [depth, columns]
            };
            let weights = self.fresh(body, x.ty, &[&batch[..], &sides].concat());
            let contracted = batch.len() + usize::from(turned);
            let batches = match batched {
                true => ", lhs_batch_dims={0}, rhs_batch_dims={0}",
                false => "",
            };
            let text = format!(
                "dot({}, {}), lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{contracted}}}{batches}",
                x.name,
                weights.name,
                rank - 1
            );
            self.define_sum(body, x.ty, &dims, bits, &text);
            x = body.known[body.known.len() - 1].clone();
            if last || self.random.once_in(4) {
                return;
            }
            // These operations are exact. After a function such as `logistic`, an operation could
            // depend on the small distance of its result from 1.
            let operation = *self.random.pick(&["abs", "negate"]);
            let text = format!("{operation}({})", x.name);
            self.define(body, x.ty, &dims, x.bits, &text);
            x = body.known[body.known.len() - 1].clone();
        }
    }

    /// Subtracts from each row its largest element, as in a softmax.
    fn less_its_largest(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| k.dims.len() >= 2 && is_number(k)) else {
            return;
        };
        if !self.fits(x.ty, x.bits + 1) {
            return;
        }
        let low = self.scalar(body, x.ty, 0);
        let apply = self.combiner("maximum", x.ty);
        let (others, last) = x.dims.split_at(x.dims.len() - 1);
        let others = others.to_vec();
        let text = format!(
            "reduce({}, {}), dimensions={{{}}}, to_apply={apply}",
            x.name,
            low.name,
            others.len()
        );
        self.define(body, x.ty, &others, x.bits, &text);
        let largest = body.known[body.known.len() - 1].clone();
        let kept: Vec<i64> = (0..others.len() as i64).collect();
        let text = format!("broadcast({}), dimensions={}", largest.name, list(&kept));
        let dims = [&others[..], last].concat();
        self.define(body, x.ty, &dims, x.bits, &text);
        let repeated = body.known[body.known.len() - 1].clone();
        let text = format!("subtract({}, {})", x.name, repeated.name);
        self.define(body, x.ty, &dims, x.bits + 1, &text);
    }

    /// Adds each row to each row of a small array, and takes the maximum along one of the three
    /// dimensions.
    fn with_a_small_array(&mut self, body: &mut Body) {
        let Some(x) = self.rows(body) else { return };
        let (rows, columns) = (x.dims[0], x.dims[1]);
        let small = self.random.between(2, 6);
        if rows * columns * small > 2 * MAX_ELEMENTS || !self.fits(x.ty, x.bits.max(3) + 1) {
            return;
        }
        let other = self.fresh(body, x.ty, &[small, columns]);
        let dims = [rows, small, columns];
        let mut sides = Vec::new();
        for (side, kept) in [(&x, "{0,2}"), (&other, "{1,2}")] {
            let text = format!("broadcast({}), dimensions={kept}", side.name);
            self.define(body, x.ty, &dims, side.bits, &text);
            sides.push(body.known[body.known.len() - 1].name.clone());
        }
        let bits = x.bits.max(3) + 1;
        let text = format!("add({})", sides.join(", "));
        self.define(body, x.ty, &dims, bits, &text);
        let sums = body.known[body.known.len() - 1].name.clone();
        let low = self.scalar(body, x.ty, 1);
        let apply = self.combiner("maximum", x.ty);
        let along = self.random.below(3);
        let mut left = dims.to_vec();
        left.remove(along);
        let text = format!(
            "reduce({sums}, {}), dimensions={{{along}}}, to_apply={apply}",
            low.name
        );
        self.define(body, x.ty, &left, bits, &text);
    }
}
