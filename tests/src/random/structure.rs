//! Random operations with run-time indices, sorts, windows, and control flow.

use super::{Body, Generator, Known, MAX_ELEMENTS, list};
use std::fmt::Write;
use tegula_ir::ElementType;

impl Generator {
    /// A scalar index: an `s32` value, which may be far out of bounds of any array.
    fn index(&mut self, body: &mut Body) -> String {
        if let Some(known) = self.any_where(body, |k| k.ty == ElementType::S32 && k.dims.is_empty())
        {
            return known.name;
        }
        let value = self.random.between(-3, 9);
        self.define(
            body,
            ElementType::S32,
            &[],
            64,
            &format!("constant({value})"),
        );
        body.known[body.known.len() - 1].name.clone()
    }

    pub(super) fn dynamic_slice(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| !k.dims.is_empty()) else {
            return;
        };
        let sizes: Vec<i64> = x
            .dims
            .iter()
            .map(|&size| self.random.between(size.min(1), size))
            .collect();
        let starts: Vec<String> = sizes.iter().map(|_| self.index(body)).collect();
        let text = format!(
            "dynamic-slice({}, {}), dynamic_slice_sizes={}",
            x.name,
            starts.join(", "),
            list(&sizes)
        );
        self.define(body, x.ty, &sizes, x.bits, &text);
    }

    pub(super) fn dynamic_update_slice(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| !k.dims.is_empty()) else {
            return;
        };
        let fits = |k: &Known| {
            k.ty == x.ty
                && k.dims.len() == x.dims.len()
                && k.dims.iter().zip(&x.dims).all(|(a, b)| a <= b)
        };
        let Some(update) = self.any_where(body, fits) else {
            return;
        };
        let starts: Vec<String> = x.dims.iter().map(|_| self.index(body)).collect();
        let text = format!(
            "dynamic-update-slice({}, {}, {})",
            x.name,
            update.name,
            starts.join(", ")
        );
        self.define(body, x.ty, &x.dims, x.bits.max(update.bits), &text);
    }

    /// Gather, scatter, sort, reduce-window.
    pub(super) fn indexed(&mut self, body: &mut Body) {
        match self.random.below(5) {
            0 => self.gather(body),
            1 => self.scatter(body),
            2 => self.sort(body),
            3 => self.running(body),
            _ => self.reduce_window(body),
        }
    }

    /// Gathers rows of an array by a list of indices.
    fn gather(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| !k.dims.is_empty() && k.elements() > 0) else {
            return;
        };
        let Some(indices) = self.any_where(body, |k| k.ty == ElementType::S32 && k.dims.len() == 1)
        else {
            return;
        };
        let rank = x.dims.len();
        let mut sizes = x.dims.clone();
        sizes[0] = 1;
        let mut dims = indices.dims.clone();
        dims.extend(&x.dims[1..]);
        if dims.iter().product::<i64>() > MAX_ELEMENTS {
            return;
        }
        let offsets: Vec<i64> = (1..rank as i64).collect();
        let text = format!(
            "gather({}, {}), offset_dims={}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={}",
            x.name,
            indices.name,
            list(&offsets),
            list(&sizes)
        );
        self.define(body, x.ty, &dims, x.bits, &text);
    }

    fn scatter(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| {
            !k.dims.is_empty() && k.ty != ElementType::Pred && !k.ty.is_complex()
        }) else {
            return;
        };
        let indices = self.any_where(body, |k| k.ty == ElementType::S32 && k.dims.len() == 1);
        let Some(indices) = indices else { return };
        let mut wanted = indices.dims.clone();
        wanted.extend(&x.dims[1..]);
        let Some(updates) = self.any_where(body, |k| k.ty == x.ty && k.dims == wanted) else {
            return;
        };
        let count = (indices.elements().max(1) as u64).leading_zeros();
        let bits = x.bits.max(updates.bits) + 65 - count;
        let op = if self.fits(x.ty, bits) {
            "add"
        } else {
            "maximum"
        };
        let apply = self.combiner(op, x.ty);
        let window: Vec<i64> = (1..x.dims.len() as i64).collect();
        let text = format!(
            "scatter({}, {}, {}), update_window_dims={}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={apply}",
            x.name,
            indices.name,
            updates.name,
            list(&window)
        );
        self.define(body, x.ty, &x.dims, bits, &text);
    }

    fn sort(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| {
            !k.dims.is_empty() && k.ty != ElementType::Pred && !k.ty.is_complex()
        }) else {
            return;
        };
        let along = self.random.below(x.dims.len());
        let direction = *self.random.pick(&["LT", "GT"]);
        let order = if x.ty.is_float() {
            ", type=TOTALORDER"
        } else {
            ""
        };
        let name = self.name();
        let ty = x.ty;
        let (first, second) = *self.random.pick(&[("a", "b"), ("b", "a"), ("ka", "kb")]);
        let _ = writeln!(
            self.computations,
            "{name} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  ka = {ty}[] negate(a)\n  kb = {ty}[] negate(b)\n  ROOT c = pred[] compare({first}, {second}), direction={direction}{order}\n}}\n"
        );
        let text = format!(
            "sort({}), dimensions={{{along}}}, is_stable=true, to_apply={name}",
            x.name
        );
        self.define(body, x.ty, &x.dims, x.bits, &text);
    }

    /// An array of at most this rank, and an initial value for reducing it.
    pub(super) fn summed(&mut self, body: &Body, rank: usize) -> Option<(Known, Known)> {
        let x = self.any_where(body, |k| {
            (1..=rank).contains(&k.dims.len())
                && k.ty != ElementType::Pred
                && !k.ty.is_complex()
                && k.elements() > 0
        })?;
        let init = self.any_where(body, |k| k.ty == x.ty && k.dims.is_empty())?;
        Some((x, init))
    }

    fn reduce_window(&mut self, body: &mut Body) {
        let Some((x, init)) = self.summed(body, 3) else {
            return;
        };
        let mut dims = Vec::new();
        let (mut sizes, mut strides, mut pads) = (Vec::new(), Vec::new(), Vec::new());
        for &size in &x.dims {
            let window = self.random.between(1, 3);
            let stride = self.random.between(1, 2);
            let (low, high) = (self.random.between(0, 2), self.random.between(0, 2));
            let room = size + low + high - window;
            if room < 0 {
                return;
            }
            dims.push(room / stride + 1);
            sizes.push(window.to_string());
            strides.push(stride.to_string());
            pads.push(format!("{low}_{high}"));
        }
        let bits = x.bits.max(init.bits) + 6;
        let op = if self.fits(x.ty, bits) {
            "add"
        } else {
            "minimum"
        };
        let apply = self.combiner(op, x.ty);
        let text = format!(
            "reduce-window({}, {}), window={{size={} stride={} pad={}}}, to_apply={apply}",
            x.name,
            init.name,
            sizes.join("x"),
            strides.join("x"),
            pads.join("x")
        );
        self.define(body, x.ty, &dims, bits, &text);
    }

    /// A call, a conditional, or a loop of one of two kinds.
    pub(super) fn control(&mut self, body: &mut Body) {
        if self.depth >= 2 {
            return;
        }
        self.depth += 1;
        match self.random.below(4) {
            0 => self.call(body),
            1 => self.conditional(body),
            2 => self.recurrence(body),
            _ => self.counted_loop(body),
        }
        self.depth -= 1;
    }

    /// Writes a computation with one parameter and a result of a requested type and shape. Returns
    /// its name and the number of significand bits of its result.
    pub(super) fn function(&mut self, parameter: &Known, result: &Known) -> (String, u32) {
        let name = self.name();
        let mut inner = Body::default();
        let argument = Known {
            name: self.name(),
            ..parameter.clone()
        };
        inner.push(argument, "parameter(0)");
        for _ in 0..1 + self.random.below(4) {
            self.step(&mut inner);
        }
        // The last value of the requested type and shape, possibly the parameter itself.
        let fits = |k: &&Known| k.ty == result.ty && k.dims == result.dims;
        let last = inner.known.iter().rev().find(fits).cloned();
        let last = last.unwrap_or_else(|| {
            let scalar = Known {
                name: self.name(),
                ty: result.ty,
                dims: Vec::new(),
                bits: 1,
            };
            let zero = Self::zero(result.ty);
            inner.push(scalar.clone(), &format!("constant({zero})"));
            let whole = Known {
                name: self.name(),
                bits: 1,
                ..result.clone()
            };
            inner.push(
                whole.clone(),
                &format!("broadcast({}), dimensions={{}}", scalar.name),
            );
            whole
        });
        let root = format!("  ROOT r = {} copy({})\n", last.shape(), last.name);
        let _ = writeln!(self.computations, "{name} {{\n{}{root}}}\n", inner.text);
        (name, last.bits)
    }

    fn call(&mut self, body: &mut Body) {
        let x = self.any(body);
        let wanted = self.any(body);
        let (name, bits) = self.function(&x, &wanted);
        let text = format!("call({}), to_apply={name}", x.name);
        self.define(body, wanted.ty, &wanted.dims, bits, &text);
    }

    fn conditional(&mut self, body: &mut Body) {
        let Some(p) = self.any_where(body, |k| {
            k.dims.is_empty() && matches!(k.ty, ElementType::Pred | ElementType::S32)
        }) else {
            return;
        };
        let wanted = self.any(body);
        let (a, b) = (self.any(body), self.any(body));
        let (first, bits_a) = self.function(&a, &wanted);
        let (second, bits_b) = self.function(&b, &wanted);
        let branches = if p.ty == ElementType::Pred {
            format!("true_computation={first}, false_computation={second}")
        } else {
            format!("branch_computations={{{first}, {second}}}")
        };
        let text = format!(
            "conditional({}, {}, {}), {branches}",
            p.name, a.name, b.name
        );
        self.define(body, wanted.ty, &wanted.dims, bits_a.max(bits_b), &text);
    }

    /// A loop of a few iterations that changes two of its states.
    fn counted_loop(&mut self, body: &mut Body) {
        let x = self.any(body);
        let y = self.any(body);
        let trips = self.random.between(0, 4);
        // Values may need more bits after each iteration. In the dyadic regime, a float needs
        // enough spare bits for that.
        if x.ty.is_float()
            && self.regime == super::Regime::Dyadic
            && x.bits + 8 > super::significand(x.ty)
        {
            return;
        }
        let state = format!("(s32[], {}, {})", x.shape(), y.shape());
        let (condition, step) = (self.name(), self.name());
        let _ = writeln!(
            self.computations,
            "{condition} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant({trips})\n  ROOT c = pred[] compare(i, n), direction=LT\n}}\n"
        );
        let mut text = format!(
            "{step} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        );
        let _ = writeln!(text, "  x = {} get-tuple-element(s), index=1", x.shape());
        let _ = writeln!(text, "  y = {} get-tuple-element(s), index=2", y.shape());
        let _ = writeln!(
            text,
            "  one = s32[] constant(1)\n  next = s32[] add(i, one)"
        );
        let op = match x.ty {
            ElementType::Pred => "xor",
            ty if ty.is_float() => "maximum",
            ty if ty.is_complex() => "subtract",
            _ => "add",
        };
        let _ = writeln!(text, "  z = {} {op}(x, x)", x.shape());
        let swap = x.ty == y.ty && x.dims == y.dims && self.random.once_in(2);
        let (first, second) = if swap { ("y", "z") } else { ("z", "y") };
        let _ = writeln!(
            text,
            "  ROOT r = {state} tuple(next, {first}, {second})\n}}\n"
        );
        self.computations.push_str(&text);
        let (zero, init, result) = (self.name(), self.name(), self.name());
        let _ = writeln!(body.text, "  {zero} = s32[] constant(0)");
        let _ = writeln!(
            body.text,
            "  {init} = {state} tuple({zero}, {}, {})",
            x.name, y.name
        );
        let _ = writeln!(
            body.text,
            "  {result} = {state} while({init}), condition={condition}, body={step}"
        );
        let bits = if swap { x.bits.max(y.bits) } else { x.bits };
        self.define(
            body,
            x.ty,
            &x.dims,
            bits,
            &format!("get-tuple-element({result}), index=1"),
        );
        let bits = if swap { bits } else { y.bits };
        self.define(
            body,
            y.ty,
            &y.dims,
            bits,
            &format!("get-tuple-element({result}), index=2"),
        );
    }
}
