//! Random operations: elementwise, data movement, reductions, products.

use super::{Body, Generator, Known, MAX_ELEMENTS, Regime, TYPES, list};
use tegula_ir::helpers::product_type;
use tegula_ir::{Category, ElementType};

pub(super) const UNARY_EXACT: &[&str] = &[
    "negate",
    "abs",
    "floor",
    "ceil",
    "sign",
    "round-nearest-even",
];
pub(super) const UNARY_GENERAL: &[&str] = &[
    "exponential",
    "tanh",
    "logistic",
    "sine",
    "cosine",
    "erf",
    "exponential-minus-one",
    "cbrt",
    "sqrt",
    "rsqrt",
    "log",
    "log-plus-one",
    "tan",
    "round-nearest-afz",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atanh",
    "cosh",
    "sinh",
];
pub(super) const UNARY_INTEGER: &[&str] = &[
    "negate",
    "abs",
    "sign",
    "not",
    "popcnt",
    "count-leading-zeros",
];
pub(super) const BINARY_INTEGER: &[&str] = &[
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "maximum",
    "minimum",
    "and",
    "or",
    "xor",
    "shift-left",
    "shift-right-logical",
    "shift-right-arithmetic",
    "power",
    "mulhi",
];

/// The number of bits that an integer may need, which may be more than a float's significand has.
fn width(ty: ElementType) -> u32 {
    match ty {
        ElementType::Pred => 1,
        ty => ty.bits(),
    }
}

impl Generator {
    /// Adds one random operation, if the one drawn is possible.
    pub(super) fn step(&mut self, body: &mut Body) {
        match self.random.below(38) {
            0 | 1 => self.unary(body),
            2..=5 => self.binary(body),
            6 => self.compare(body),
            7 => self.select(body),
            8 => self.clamp(body),
            9 => self.convert(body),
            10 => self.broadcast(body),
            11 => self.reshape(body),
            12 => self.transpose(body),
            13 => self.slice(body),
            14 => self.reverse(body),
            15 => self.concatenate(body),
            16 => self.pad(body),
            17 | 18 => self.reduce(body),
            19 => self.dot(body),
            20 => self.iota(body),
            21 => self.dynamic_slice(body),
            22 => self.dynamic_update_slice(body),
            23 => self.control(body),
            24 => self.indexed(body),
            25 => self.convolution(body),
            26 => self.select_and_scatter(body),
            27 => self.general_gather(body),
            28 => self.general_scatter(body),
            29 | 30 => self.library(body),
            31 | 32 => self.representation(body),
            33 => self.complex(body),
            34 | 35 => self.wrapper(body),
            _ => self.constant(body),
        }
    }

    fn unary(&mut self, body: &mut Body) {
        let x = self.any(body);
        let op = match x.ty.category() {
            Category::Boolean => "not",
            Category::Signed | Category::Unsigned => self.random.pick(UNARY_INTEGER),
            Category::Complex => "negate",
            _ if self.regime == Regime::General && self.random.once_in(2) => {
                self.random.pick(UNARY_GENERAL)
            }
            _ => self.random.pick(UNARY_EXACT),
        };
        self.define(body, x.ty, &x.dims, x.bits, &format!("{op}({})", x.name));
    }

    fn binary(&mut self, body: &mut Body) {
        let a = self.any(body);
        let Some(b) = self.any_where(body, |k| k.ty == a.ty && k.dims == a.dims) else {
            return;
        };
        let (op, bits) = match a.ty.category() {
            Category::Boolean => (*self.random.pick(&["and", "or", "xor"]), 64),
            Category::Signed | Category::Unsigned => (*self.random.pick(BINARY_INTEGER), 64),
            Category::Complex => {
                let sum = a.bits.max(b.bits) + 1;
                let choices = [
                    ("add", sum),
                    ("subtract", sum),
                    ("multiply", a.bits + b.bits + 1),
                    ("divide", 99),
                ];
                *self.random.pick(&choices)
            }
            Category::Float => {
                let sum = a.bits.max(b.bits) + 1;
                let choices = [
                    ("add", sum),
                    ("subtract", sum),
                    ("maximum", a.bits.max(b.bits)),
                    ("minimum", a.bits.max(b.bits)),
                    ("multiply", a.bits + b.bits),
                    ("divide", 99),
                    ("remainder", 99),
                    ("power", 99),
                    ("atan2", 99),
                ];
                *self.random.pick(&choices)
            }
        };
        if self.fits(a.ty, bits) {
            self.define(
                body,
                a.ty,
                &a.dims,
                bits,
                &format!("{op}({}, {})", a.name, b.name),
            );
        }
    }

    pub(super) fn compare(&mut self, body: &mut Body) {
        let a = self.any(body);
        let Some(b) = self.any_where(body, |k| k.ty == a.ty && k.dims == a.dims) else {
            return;
        };
        let directions = if a.ty.is_complex() { 2 } else { 6 };
        let direction = *self
            .random
            .pick(&["EQ", "NE", "LT", "LE", "GT", "GE"][..directions]);
        let total = if a.ty.is_float() && self.random.once_in(4) {
            ", type=TOTALORDER"
        } else {
            ""
        };
        let text = format!(
            "compare({}, {}), direction={direction}{total}",
            a.name, b.name
        );
        self.define(body, ElementType::Pred, &a.dims, 64, &text);
    }

    pub(super) fn select(&mut self, body: &mut Body) {
        let a = self.any(body);
        let b = self.any_where(body, |k| k.ty == a.ty && k.dims == a.dims);
        let p = self.any_where(body, |k| k.ty == ElementType::Pred && k.dims == a.dims);
        if let (Some(b), Some(p)) = (b, p) {
            let text = format!("select({}, {}, {})", p.name, a.name, b.name);
            self.define(body, a.ty, &a.dims, a.bits.max(b.bits), &text);
        }
    }

    pub(super) fn clamp(&mut self, body: &mut Body) {
        let x = self.any(body);
        if x.ty == ElementType::Pred || x.ty.is_complex() {
            return;
        }
        let bound = |k: &Known| k.ty == x.ty && k.dims == x.dims;
        if let (Some(low), Some(high)) = (self.any_where(body, bound), self.any_where(body, bound))
        {
            let bits = x.bits.max(low.bits).max(high.bits);
            let text = format!("clamp({}, {}, {})", low.name, x.name, high.name);
            self.define(body, x.ty, &x.dims, bits, &text);
        }
    }

    fn convert(&mut self, body: &mut Body) {
        let x = self.any(body);
        let to = *self.random.pick(TYPES);
        if x.ty.is_complex() {
            return;
        }
        let bits = match (x.ty.is_float(), to.is_float()) {
            (true, true) => x.bits,
            (false, true) => width(x.ty),
            _ => 64,
        };
        if self.fits(to, bits) {
            self.define(body, to, &x.dims, bits, &format!("convert({})", x.name));
        }
    }

    fn constant(&mut self, body: &mut Body) {
        let ty = *self.random.pick(TYPES);
        let n = self.random.between(-3, 5);
        let text = match ty.category() {
            Category::Boolean => (n % 2 == 0).to_string(),
            Category::Signed => n.to_string(),
            Category::Unsigned => n.unsigned_abs().to_string(),
            _ => format!("{}", n as f64 / 2.0),
        };
        self.define(body, ty, &[], 4, &format!("constant({text})"));
        // A broadcast makes the scalar usable by more operations.
        let scalar = body.known[body.known.len() - 1].clone();
        let like = self.any(body);
        if like.elements() <= MAX_ELEMENTS {
            let text = format!("broadcast({}), dimensions={{}}", scalar.name);
            self.define(body, ty, &like.dims, 4, &text);
        }
    }

    fn iota(&mut self, body: &mut Body) {
        let dims = self.dims();
        let ty = *self.random.pick(TYPES);
        if dims.is_empty() || ty == ElementType::Pred {
            return;
        }
        let along = self.random.below(dims.len());
        self.define(
            body,
            ty,
            &dims,
            4,
            &format!("iota(), iota_dimension={along}"),
        );
    }

    fn broadcast(&mut self, body: &mut Body) {
        let x = self.any(body);
        let mut dims = Vec::new();
        let mut places = Vec::new();
        for &size in &x.dims {
            if self.random.once_in(3) {
                dims.push(self.random.between(1, 4));
            }
            places.push(dims.len() as i64);
            dims.push(size);
        }
        if self.random.once_in(2) || x.dims.is_empty() {
            dims.push(self.random.between(0, 5));
        }
        if dims.iter().product::<i64>() <= MAX_ELEMENTS && dims.len() <= 5 {
            let text = format!("broadcast({}), dimensions={}", x.name, list(&places));
            self.define(body, x.ty, &dims, x.bits, &text);
        }
    }

    fn reshape(&mut self, body: &mut Body) {
        let x = self.any(body);
        let mut rest = x.elements();
        let mut dims = Vec::new();
        if rest == 0 {
            dims = vec![0, 2];
        }
        while rest > 1 && dims.len() < 4 {
            let divisors: Vec<i64> = (2..=rest.min(64)).filter(|d| rest % d == 0).collect();
            let take = if divisors.is_empty() || dims.len() == 3 {
                rest
            } else {
                *self.random.pick(&divisors)
            };
            dims.push(take);
            rest /= take;
        }
        if self.random.once_in(4) {
            let at = self.random.below(dims.len() + 1);
            dims.insert(at, 1);
        }
        self.define(body, x.ty, &dims, x.bits, &format!("reshape({})", x.name));
    }

    pub(super) fn permutation(&mut self, rank: usize) -> Vec<i64> {
        let mut order: Vec<i64> = (0..rank as i64).collect();
        for i in (1..rank).rev() {
            let j = self.random.below(i + 1);
            order.swap(i, j);
        }
        order
    }

    fn transpose(&mut self, body: &mut Body) {
        let x = self.any(body);
        let order = self.permutation(x.dims.len());
        let dims: Vec<i64> = order.iter().map(|&d| x.dims[d as usize]).collect();
        let text = format!("transpose({}), dimensions={}", x.name, list(&order));
        self.define(body, x.ty, &dims, x.bits, &text);
    }

    fn slice(&mut self, body: &mut Body) {
        let x = self.any(body);
        let mut texts = Vec::new();
        let mut dims = Vec::new();
        for &size in &x.dims {
            let start = self.random.between(0, size);
            let limit = self.random.between(start, size);
            let stride = self.random.between(1, 3);
            // Keeps one in eight empty slices: they must be tested, but too many would make most
            // programs empty.
            let (start, limit) = if start == limit && !self.random.once_in(8) {
                (0, size)
            } else {
                (start, limit)
            };
            dims.push((limit - start + stride - 1) / stride);
            texts.push(format!("[{start}:{limit}:{stride}]"));
        }
        let text = format!("slice({}), slice={{{}}}", x.name, texts.join(", "));
        self.define(body, x.ty, &dims, x.bits, &text);
    }

    fn reverse(&mut self, body: &mut Body) {
        let x = self.any(body);
        let along: Vec<i64> = (0..x.dims.len() as i64)
            .filter(|_| self.random.once_in(2))
            .collect();
        let text = format!("reverse({}), dimensions={}", x.name, list(&along));
        self.define(body, x.ty, &x.dims, x.bits, &text);
    }

    fn concatenate(&mut self, body: &mut Body) {
        let x = self.any(body);
        if x.dims.is_empty() {
            return;
        }
        let along = self.random.below(x.dims.len());
        let fits = |k: &Known| {
            k.ty == x.ty
                && k.dims.len() == x.dims.len()
                && k.dims
                    .iter()
                    .zip(&x.dims)
                    .enumerate()
                    .all(|(d, (a, b))| d == along || a == b)
        };
        let mut parts = vec![x.clone()];
        for _ in 0..self.random.below(3) {
            parts.extend(self.any_where(body, fits));
        }
        let mut dims = x.dims.clone();
        dims[along] = parts.iter().map(|k| k.dims[along]).sum();
        let bits = parts.iter().map(|k| k.bits).max().unwrap_or(0);
        if dims.iter().product::<i64>() <= MAX_ELEMENTS {
            let names: Vec<String> = parts.into_iter().map(|k| k.name).collect();
            let text = format!("concatenate({}), dimensions={{{along}}}", names.join(", "));
            self.define(body, x.ty, &dims, bits, &text);
        }
    }

    fn pad(&mut self, body: &mut Body) {
        let x = self.any(body);
        let Some(value) = self.any_where(body, |k| k.ty == x.ty && k.dims.is_empty()) else {
            return;
        };
        if x.dims.is_empty() {
            return;
        }
        let mut texts = Vec::new();
        let mut dims = Vec::new();
        for &size in &x.dims {
            let interior = self.random.between(0, 2);
            let spread = size + (size - 1).max(0) * interior;
            let low = self.random.between(-1, 2);
            let high = self.random.between(-1, 2).max(-(spread + low));
            if spread + low + high < 0 {
                return;
            }
            dims.push(spread + low + high);
            texts.push(format!("{low}_{high}_{interior}"));
        }
        if dims.iter().product::<i64>() <= MAX_ELEMENTS {
            let text = format!(
                "pad({}, {}), padding={}",
                x.name,
                value.name,
                texts.join("x")
            );
            self.define(body, x.ty, &dims, x.bits.max(value.bits), &text);
        }
    }

    fn reduce(&mut self, body: &mut Body) {
        let x = self.any(body);
        let along: Vec<i64> = (0..x.dims.len() as i64)
            .filter(|_| self.random.once_in(2))
            .collect();
        let Some(init) = self.any_where(body, |k| k.ty == x.ty && k.dims.is_empty()) else {
            return;
        };
        let kept: Vec<i64> = (0..x.dims.len())
            .filter(|d| !along.contains(&(*d as i64)))
            .map(|d| x.dims[d])
            .collect();
        let count: i64 = along.iter().map(|&d| x.dims[d as usize]).product();
        let sum_bits = x.bits.max(init.bits) + 65 - (count.max(1) as u64).leading_zeros();
        let (op, bits) = match x.ty.category() {
            Category::Boolean => (*self.random.pick(&["and", "or"]), 64),
            Category::Signed | Category::Unsigned => (
                *self
                    .random
                    .pick(&["add", "maximum", "minimum", "multiply", "or", "xor"]),
                64,
            ),
            Category::Complex => ("add", sum_bits),
            Category::Float => *self.random.pick(&[
                ("add", sum_bits),
                ("maximum", x.bits.max(init.bits)),
                ("minimum", x.bits.max(init.bits)),
            ]),
        };
        if self.fits(x.ty, bits) {
            let apply = self.combiner(op, x.ty);
            let text = format!(
                "reduce({}, {}), dimensions={}, to_apply={apply}",
                x.name,
                init.name,
                list(&along)
            );
            self.define(body, x.ty, &kept, bits, &text);
        }
    }

    /// A computation that applies a binary operation to two scalars.
    pub(super) fn combiner(&mut self, op: &str, ty: ElementType) -> String {
        let name = self.name();
        self.computations.push_str(&format!(
            "{name} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  ROOT c = {ty}[] {op}(a, b)\n}}\n\n"
        ));
        name
    }

    fn dot(&mut self, body: &mut Body) {
        let Some(a) = self.any_where(body, |k| !k.dims.is_empty() && k.ty != ElementType::Pred)
        else {
            return;
        };
        let contract = self.random.below(a.dims.len());
        let size = a.dims[contract];
        let mixed = self.random.once_in(4);
        let Some(b) = self.any_where(body, |k| (k.ty == a.ty || mixed) && k.dims.contains(&size))
        else {
            return;
        };
        let result = if mixed {
            *self.random.pick(TYPES)
        } else {
            a.ty
        };
        let other = b.dims.iter().position(|&d| d == size).unwrap_or(0);
        // Other dimensions of equal size become batch or contracting dimensions, in any order.
        let (mut batch, mut contracted) = (Vec::new(), vec![(contract, other)]);
        for i in (0..a.dims.len()).filter(|&i| i != contract) {
            let taken: Vec<usize> = batch.iter().chain(&contracted).map(|&(_, j)| j).collect();
            let mut others = (0..b.dims.len()).filter(|j| !taken.contains(j));
            let Some(j) = others.find(|&j| b.dims[j] == a.dims[i]) else {
                continue;
            };
            let list = match self.random.below(4) {
                0 | 1 => &mut batch,
                2 => &mut contracted,
                _ => continue,
            };
            list.insert(self.random.below(list.len() + 1), (i, j));
        }
        let bound: Vec<(usize, usize)> = batch.iter().chain(&contracted).copied().collect();
        let free = |of: &Known, bound: Vec<usize>| -> Vec<i64> {
            let kept = (0..of.dims.len()).filter(|d| !bound.contains(d));
            kept.map(|d| of.dims[d]).collect()
        };
        let mut dims: Vec<i64> = batch.iter().map(|&(i, _)| a.dims[i]).collect();
        dims.extend(free(&a, bound.iter().map(|&(i, _)| i).collect()));
        dims.extend(free(&b, bound.iter().map(|&(_, j)| j).collect()));
        let terms: i64 = contracted.iter().map(|&(i, _)| a.dims[i]).product();
        let sums = product_type(a.ty, b.ty, result);
        let in_sums = |k: &Known| match sums.is_float() && !k.ty.is_float() {
            true => width(k.ty),
            false => k.bits,
        };
        let bits = in_sums(&a) + in_sums(&b) + 65 - (terms.max(1) as u64).leading_zeros();
        let fits = self.fits(sums, bits) && self.fits(result, bits);
        // A sum of floats that is then truncated to an integer may give another integer, because it
        // is rounded.
        let cuts = self.regime == Regime::General && sums != result && !result.is_float();
        if dims.iter().product::<i64>() > MAX_ELEMENTS || !fits || cuts {
            return;
        }
        let named = |side: &str, kind: &str, of: Vec<i64>| match of.as_slice() {
            [] => String::new(),
            of => format!(", {side}_{kind}_dims={}", list(of)),
        };
        let sides = |pairs: &[(usize, usize)]| -> [Vec<i64>; 2] {
            let (a, b): (Vec<i64>, Vec<i64>) =
                pairs.iter().map(|&(i, j)| (i as i64, j as i64)).unzip();
            [a, b]
        };
        let ([ba, bb], [ca, cb]) = (sides(&batch), sides(&contracted));
        let text = format!(
            "dot({}, {}){}{}{}{}",
            a.name,
            b.name,
            named("lhs", "batch", ba),
            named("rhs", "batch", bb),
            named("lhs", "contracting", ca),
            named("rhs", "contracting", cb)
        );
        if self.regime == Regime::General {
            return self.define(body, result, &dims, bits, &text);
        }
        self.define_sum(body, result, &dims, bits, &text);
    }
}
