//! Random library operations: transforms, decompositions, random numbers, batch
//! norms, selections; and several arrays reduced or sorted together.

use super::{Body, Generator, Known, Regime, list, shape_text};
use std::fmt::Write;
use tegula_ir::ElementType;

impl Generator {
    /// One of the operations of this file.
    pub(super) fn library(&mut self, body: &mut Body) {
        let general = self.regime == Regime::General;
        match self.random.below(11) {
            0 => self.top_k(body),
            1 => self.arg_max(body),
            2 => self.sort_pair(body),
            3 => self.random_bits(body),
            4 => self.random_numbers(body),
            5 if general => self.fft(body),
            6 if general => self.decomposition(body),
            7 if general => self.batch_norm(body),
            8 | 9 => self.groups(body),
            _ => self.map(body),
        }
    }

    pub(super) fn ordered(&mut self, body: &Body) -> Option<Known> {
        self.any_where(body, |k| {
            !k.dims.is_empty()
                && !k.ty.is_complex()
                && k.ty != ElementType::Pred
                && k.ty.bits() >= 8
        })
    }

    fn top_k(&mut self, body: &mut Body) {
        let Some(x) = self.ordered(body) else { return };
        let mut dims = x.dims.clone();
        let last = dims.len() - 1;
        dims[last] = self.random.between(0, x.dims[last]);
        let largest = self.random.once_in(2);
        let parts = [
            (x.ty, dims.clone(), x.bits),
            (ElementType::S32, dims.clone(), 64),
        ];
        let text = format!("topk({}), k={}, largest={largest}", x.name, dims[last]);
        self.define_tuple(body, &parts, &text);
    }

    /// The largest element and its index (arg-max).
    fn arg_max(&mut self, body: &mut Body) {
        let Some(x) = self.ordered(body) else { return };
        let along = self.random.below(x.dims.len());
        let places = self.name();
        let shape = shape_text(ElementType::S32, &x.dims);
        let _ = writeln!(
            body.text,
            "  {places} = {shape} iota(), iota_dimension={along}"
        );
        let (first, zero) = (
            self.scalar(body, x.ty, 1),
            self.scalar(body, ElementType::S32, 0),
        );
        let (apply, ty) = (self.name(), x.ty);
        let _ = writeln!(
            self.computations,
            "{apply} {{\n  a = {ty}[] parameter(0)\n  i = s32[] parameter(1)\n  b = {ty}[] parameter(2)\n  j = s32[] parameter(3)\n  p = pred[] compare(a, b), direction=GE\n  x = {ty}[] select(p, a, b)\n  k = s32[] select(p, i, j)\n  ROOT r = ({ty}[], s32[]) tuple(x, k)\n}}\n"
        );
        let mut dims = x.dims.clone();
        dims.remove(along);
        let parts = [
            (x.ty, dims.clone(), x.bits.max(4)),
            (ElementType::S32, dims, 64),
        ];
        let text = format!(
            "reduce({}, {places}, {}, {}), dimensions={{{along}}}, to_apply={apply}",
            x.name, first.name, zero.name
        );
        self.define_tuple(body, &parts, &text);
    }

    /// Sorts two arrays by the keys in the first.
    fn sort_pair(&mut self, body: &mut Body) {
        let Some(x) = self.ordered(body) else { return };
        let Some(y) = self.any_where(body, |k| k.dims == x.dims) else {
            return;
        };
        let along = self.random.below(x.dims.len());
        let (apply, ty) = (self.name(), x.ty);
        let order = if ty.is_float() {
            ", type=TOTALORDER"
        } else {
            ""
        };
        let _ = writeln!(
            self.computations,
            "{apply} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  c = {0}[] parameter(2)\n  d = {0}[] parameter(3)\n  ROOT p = pred[] compare(a, b), direction=LT{order}\n}}\n",
            y.ty
        );
        let parts = [
            (x.ty, x.dims.clone(), x.bits),
            (y.ty, y.dims.clone(), y.bits),
        ];
        let text = format!(
            "sort({}, {}), dimensions={{{along}}}, is_stable=true, to_apply={apply}",
            x.name, y.name
        );
        self.define_tuple(body, &parts, &text);
    }

    fn random_bits(&mut self, body: &mut Body) {
        use ElementType::{S8, S32, U4, U8, U16, U32, U64};
        let (algorithm, words) = *self.random.pick(&[
            ("rng_three_fry", 2),
            ("rng_philox", 2),
            ("rng_philox", 3),
            ("rng_default", 3),
        ]);
        let (state_ty, words) = *self.random.pick(&[(U64, words), (U32, 2 * words)]);
        let ty = *self.random.pick(&[U32, U32, U64, U8, U16, S32, S8, U4]);
        let state = self.fresh(body, state_ty, &[words]);
        let dims = self.dims();
        let parts = [(state_ty, vec![words], 64), (ty, dims, 64)];
        let text = format!("rng-bit-generator({}), algorithm={algorithm}", state.name);
        self.define_tuple(body, &parts, &text);
    }

    fn random_numbers(&mut self, body: &mut Body) {
        use ElementType::{BF16, F32, F64, S32, U32};
        let ty = *self.random.pick(&[F32, F32, F64, BF16, S32, U32]);
        let normal = ty.is_float() && self.random.once_in(2);
        let (a, b) = (self.scalar(body, ty, 1), self.scalar(body, ty, 6));
        let dims = self.dims();
        let name = if normal { "rng_normal" } else { "rng_uniform" };
        let text = format!("rng({}, {}), distribution={name}", a.name, b.name);
        self.define(body, ty, &dims, 99, &text);
    }

    fn fft(&mut self, body: &mut Body) {
        use ElementType::{C64, C128, F32, F64};
        let (complex, real) = *self.random.pick(&[(C64, F32), (C64, F32), (C128, F64)]);
        let mut dims: Vec<i64> = (0..=self.random.below(3))
            .map(|_| self.random.between(1, 8))
            .collect();
        let count = 1 + self.random.below(dims.len());
        let last = dims.len() - 1;
        let lengths = dims[dims.len() - count..].to_vec();
        let half = dims[last] / 2 + 1;
        let kind = *self.random.pick(&["FFT", "IFFT", "RFFT", "IRFFT"]);
        let (from, to) = match kind {
            "RFFT" => (real, complex),
            "IRFFT" => (complex, real),
            _ => (complex, complex),
        };
        let mut input = dims.clone();
        match kind {
            "RFFT" => dims[last] = half,
            "IRFFT" => input[last] = half,
            _ => {}
        }
        let x = self.fresh(body, from, &input);
        let text = format!(
            "fft({}), fft_type={kind}, fft_length={}",
            x.name,
            list(&lengths)
        );
        self.define(body, to, &dims, 99, &text);
    }

    /// The Cholesky factorisation of a diagonally dominant matrix, or a triangular solve.
    fn decomposition(&mut self, body: &mut Body) {
        use ElementType::{F32, F64};
        let ty = *self.random.pick(&[F32, F64]);
        let (n, batch) = (self.random.between(1, 4), self.random.between(1, 3));
        let dims = [batch, n, n];
        let m = self.fresh(body, ty, &dims);
        let names: Vec<String> = (0..8).map(|_| self.name()).collect();
        let [t, sum, rows, columns, p, heavy, heavies, none] = &names[..] else {
            return;
        };
        let (zeros, diagonal) = (self.name(), self.name());
        let shape = m.shape();
        let places = shape_text(ElementType::S32, &dims);
        let lines = [
            format!("{t} = {shape} transpose({}), dimensions={{0,2,1}}", m.name),
            format!("{sum} = {shape} add({}, {t})", m.name),
            format!("{rows} = {places} iota(), iota_dimension=1"),
            format!("{columns} = {places} iota(), iota_dimension=2"),
            format!(
                "{p} = {} compare({rows}, {columns}), direction=EQ",
                shape_text(ElementType::Pred, &dims)
            ),
            format!("{heavy} = {ty}[] constant(25)"),
            format!("{heavies} = {shape} broadcast({heavy}), dimensions={{}}"),
            format!("{none} = {ty}[] constant(0)"),
            format!("{zeros} = {shape} broadcast({none}), dimensions={{}}"),
            format!("{diagonal} = {shape} select({p}, {heavies}, {zeros})"),
        ];
        for line in lines {
            let _ = writeln!(body.text, "  {line}");
        }
        let a = self.name();
        let _ = writeln!(body.text, "  {a} = {shape} add({sum}, {diagonal})");
        let lower = self.random.once_in(2);
        if self.random.once_in(2) {
            return self.define(
                body,
                ty,
                &dims,
                99,
                &format!("cholesky({a}), lower={lower}"),
            );
        }
        let left = self.random.once_in(2);
        let other = self.random.between(1, 3);
        let b_dims = if left {
            [batch, n, other]
        } else {
            [batch, other, n]
        };
        let b = self.fresh(body, ty, &b_dims);
        let transpose = *self.random.pick(&["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]);
        let text = format!(
            "triangular-solve({a}, {}), left_side={left}, lower={lower}, unit_diagonal=false, transpose_a={transpose}",
            b.name
        );
        self.define(body, ty, &b_dims, 99, &text);
    }

    fn batch_norm(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| {
            !k.dims.is_empty()
                && k.elements() > 0
                && matches!(
                    k.ty,
                    ElementType::F32 | ElementType::F64 | ElementType::BF16
                )
        }) else {
            return;
        };
        let feature = self.random.below(x.dims.len());
        let each = [x.dims[feature]];
        let attributes = format!("epsilon=0.5, feature_index={feature}");
        let (scale, offset) = (self.fresh(body, x.ty, &each), self.fresh(body, x.ty, &each));
        let root = self.fresh(body, x.ty, &each);
        let whole = (x.ty, x.dims.clone(), 99);
        let vector = (x.ty, each.to_vec(), 99);
        match self.random.below(3) {
            0 => {
                let text = format!(
                    "batch-norm-training({}, {}, {}), {attributes}",
                    x.name, scale.name, offset.name
                );
                self.define_tuple(body, &[whole, vector.clone(), vector], &text);
            }
            kind => {
                let mean = self.fresh(body, x.ty, &each);
                self.define(
                    body,
                    x.ty,
                    &each,
                    6,
                    &format!("multiply({0}, {0})", root.name),
                );
                let variance = body.known[body.known.len() - 1].name.clone();
                if kind == 1 {
                    let text = format!(
                        "batch-norm-inference({}, {}, {}, {}, {variance}), {attributes}",
                        x.name, scale.name, offset.name, mean.name
                    );
                    return self.define(body, x.ty, &x.dims, 99, &text);
                }
                let grad = self.fresh(body, x.ty, &x.dims);
                let text = format!(
                    "batch-norm-grad({}, {}, {}, {variance}, {}), {attributes}",
                    x.name, scale.name, mean.name, grad.name
                );
                self.define_tuple(body, &[whole, vector.clone(), vector], &text);
            }
        }
    }

    /// A `map` whose computation has a conditional.
    fn map(&mut self, body: &mut Body) {
        let a = self.any(body);
        if a.ty.is_complex() || a.ty == ElementType::Pred {
            return;
        }
        let Some(b) = self.any_where(body, |k| k.ty == a.ty && k.dims == a.dims) else {
            return;
        };
        let (first, second, apply, ty) = (self.name(), self.name(), self.name(), a.ty);
        let _ = writeln!(
            self.computations,
            "{first} {{\n  t = ({ty}[], {ty}[]) parameter(0)\n  a = {ty}[] get-tuple-element(t), index=0\n  b = {ty}[] get-tuple-element(t), index=1\n  ROOT r = {ty}[] maximum(a, b)\n}}\n\n{second} {{\n  a = {ty}[] parameter(0)\n  w = {ty}[1] reshape(a)\n  n = {ty}[1] negate(w)\n  ROOT r = {ty}[] reshape(n)\n}}\n"
        );
        let (selector, branches) = if self.random.once_in(2) {
            let branches = format!("true_computation={first}, false_computation={second}");
            (
                "  s = pred[] compare(a, b), direction=LT\n".to_owned(),
                branches,
            )
        } else {
            (
                "  s = s32[] convert(b)\n".to_owned(),
                format!("branch_computations={{{first}, {second}}}"),
            )
        };
        let _ = writeln!(
            self.computations,
            "{apply} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n{selector}  t = ({ty}[], {ty}[]) tuple(b, a)\n  ROOT r = {ty}[] conditional(s, t, a), {branches}\n}}\n"
        );
        let order: Vec<i64> = (0..a.dims.len() as i64).collect();
        let text = format!(
            "map({}, {}), dimensions={}, to_apply={apply}",
            a.name,
            b.name,
            list(&order)
        );
        self.define(body, a.ty, &a.dims, a.bits.max(b.bits), &text);
    }
}
