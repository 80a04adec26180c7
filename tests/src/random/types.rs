//! Random operations on the representation of numbers, and on complex numbers.

use super::{Body, Generator, Known, Regime, TYPES, shape_text};
use std::fmt::Write;
use tegula_ir::{Category, ElementType};

impl Generator {
    /// One of the operations of this file.
    pub(super) fn representation(&mut self, body: &mut Body) {
        match self.random.below(6) {
            0 => self.reduce_precision(body),
            1 => self.stochastic_convert(body),
            2 => self.bitcast(body),
            3 => self.complex_bits(body),
            _ => self.bitcast_convert(body),
        }
    }

    /// A value that was not rounded, so that all targets give the same bits: a parameter, or an
    /// integer in the dyadic regime.
    fn exact(&mut self, body: &Body) -> Option<Known> {
        let dyadic = self.regime == Regime::Dyadic;
        self.any_where(body, |k| {
            !k.ty.is_complex()
                && k.ty != ElementType::Pred
                && (k.name.starts_with('p') || (k.ty.is_integer() && dyadic))
        })
    }

    fn reduce_precision(&mut self, body: &mut Body) {
        let Some(x) = self
            .exact(body)
            .filter(|x| x.ty.is_float() && x.ty.bits() >= 16)
        else {
            return;
        };
        let (exponent, mantissa) = (self.random.between(3, 8), self.random.between(1, 23));
        let text = format!(
            "reduce-precision({}), exponent_bits={exponent}, mantissa_bits={mantissa}",
            x.name
        );
        self.define(body, x.ty, &x.dims, x.bits, &text);
    }

    fn stochastic_convert(&mut self, body: &mut Body) {
        use ElementType::{S8, S16, S32, U16, U32, U64};
        let Some(x) = self
            .exact(body)
            .filter(|x| x.ty.is_float() && x.ty.bits() >= 16)
        else {
            return;
        };
        let random = match x.ty.bits() {
            16 => U16,
            32 => U32,
            _ => U64,
        };
        let random = self.fresh(body, random, &x.dims);
        let to = *self.random.pick(&[S8, S16, S32]);
        let text = format!("stochastic-convert({}, {})", x.name, random.name);
        self.define(body, to, &x.dims, 64, &text);
    }

    /// The shape of a `bitcast-convert` to another type.
    fn seen_as(&mut self, x: &Known, to: ElementType) -> Option<Vec<i64>> {
        let mut dims = x.dims.clone();
        let (from, to) = (i64::from(x.ty.bits()), i64::from(to.bits()));
        if to < from {
            dims.push(from / to);
        } else if to > from && dims.pop() != Some(to / from) {
            return None;
        }
        Some(dims)
    }

    fn bitcast_convert(&mut self, body: &mut Body) {
        let Some(mut x) = self.exact(body) else {
            return;
        };
        let to = *self.random.pick(TYPES);
        if to == ElementType::Pred {
            return;
        }
        if to.bits() > x.ty.bits() && x.ty.is_integer() {
            let mut dims: Vec<i64> = x.dims.iter().copied().take(2).collect();
            dims.push(i64::from(to.bits() / x.ty.bits()));
            x = self.fresh(body, x.ty, &dims);
        }
        let Some(dims) = self.seen_as(&x, to) else {
            return;
        };
        if dims.iter().product::<i64>() > super::MAX_ELEMENTS {
            return;
        }
        let text = format!("bitcast-convert({})", x.name);
        if !to.is_float() {
            return self.define(body, to, &dims, 64, &text);
        }
        // NaNs are replaced by 1, because their bits may differ between targets.
        let names: Vec<String> = (0..4).map(|_| self.name()).collect();
        let [raw, finite, zero, zeros] = &names[..] else {
            return;
        };
        let shape = shape_text(to, &dims);
        let lines = [
            format!("{raw} = {shape} {text}"),
            format!(
                "{finite} = {} is-finite({raw})",
                shape_text(ElementType::Pred, &dims)
            ),
            format!("{zero} = {to}[] constant(1)"),
            format!("{zeros} = {shape} broadcast({zero}), dimensions={{}}"),
        ];
        for line in lines {
            let _ = writeln!(body.text, "  {line}");
        }
        self.define(
            body,
            to,
            &dims,
            99,
            &format!("select({finite}, {raw}, {zeros})"),
        );
    }

    /// A `bitcast-convert` of complex numbers to their own type or to their parts, or of parts to
    /// complex numbers. The values are the same, so their number of significand bits is too.
    fn complex_bits(&mut self, body: &mut Body) {
        use ElementType::{C64, C128, F32, F64};
        if self.regime != Regime::Dyadic {
            return;
        }
        let Some(x) = self.any_where(body, |k| k.ty.is_complex()) else {
            let pairs = |k: &Known| matches!(k.ty, F32 | F64) && k.dims.last() == Some(&2);
            if let Some(x) = self.any_where(body, pairs) {
                let ty = if x.ty == F32 { C64 } else { C128 };
                let dims = &x.dims[..x.dims.len() - 1];
                self.define(
                    body,
                    ty,
                    dims,
                    x.bits,
                    &format!("bitcast-convert({})", x.name),
                );
            }
            return;
        };
        let text = format!("bitcast-convert({})", x.name);
        if self.random.once_in(2) {
            return self.define(body, x.ty, &x.dims, x.bits, &text);
        }
        let part = if x.ty == C64 { F32 } else { F64 };
        let dims: Vec<i64> = x.dims.iter().copied().chain([2]).collect();
        self.define(body, part, &dims, x.bits, &text);
    }

    /// A `bitcast` between shapes with layouts.
    fn bitcast(&mut self, body: &mut Body) {
        let x = self.any(body);
        if x.ty.bits() < 8 || x.dims.len() < 2 {
            return;
        }
        let (from, to) = (
            self.permutation(x.dims.len()),
            self.permutation(x.dims.len()),
        );
        let named = self.name();
        let _ = writeln!(
            body.text,
            "  {named} = {}{} copy({})",
            x.shape(),
            super::list(&from),
            x.name
        );
        let mut dims = x.dims.clone();
        let order = self.permutation(dims.len());
        dims = order.iter().map(|&d| dims[d as usize]).collect();
        let raw = self.name();
        let _ = writeln!(
            body.text,
            "  {raw} = {}{} bitcast({named})",
            shape_text(x.ty, &dims),
            super::list(&to)
        );
        self.define(body, x.ty, &dims, x.bits, &format!("copy({raw})"));
    }

    /// Makes complex numbers of real ones, or computes functions or parts of complex numbers.
    pub(super) fn complex(&mut self, body: &mut Body) {
        use ElementType::{C64, C128, F32, F64};
        if let Some(x) = self
            .any_where(body, |k| k.ty.is_complex())
            .filter(|_| !self.random.once_in(3))
        {
            let part = if x.ty == C64 { F32 } else { F64 };
            let general = self.regime == Regime::General;
            let functions = [
                "exponential",
                "sine",
                "cosine",
                "sqrt",
                "rsqrt",
                "log",
                "tanh",
                "logistic",
            ];
            match self.random.below(5) {
                0 => self.define(body, part, &x.dims, x.bits, &format!("real({})", x.name)),
                1 => self.define(body, part, &x.dims, x.bits, &format!("imag({})", x.name)),
                2 if general => self.define(body, part, &x.dims, 99, &format!("abs({})", x.name)),
                3 if general => {
                    let function = *self.random.pick(&functions);
                    self.define(body, x.ty, &x.dims, 99, &format!("{function}({})", x.name));
                }
                _ => self.define(body, x.ty, &x.dims, x.bits, &format!("negate({})", x.name)),
            }
            return;
        }
        let Some(re) = self.any_where(body, |k| matches!(k.ty, F32 | F64)) else {
            return;
        };
        let Some(im) = self.any_where(body, |k| k.ty == re.ty && k.dims == re.dims) else {
            return;
        };
        let ty = if re.ty == F32 { C64 } else { C128 };
        let text = format!("complex({}, {})", re.name, im.name);
        self.define(body, ty, &re.dims, re.bits.max(im.bits), &text);
    }

    /// The zero of a type as text.
    pub(super) fn zero(ty: ElementType) -> &'static str {
        match ty.category() {
            Category::Boolean => "false",
            Category::Complex => "(0, 0)",
            _ => "0",
        }
    }
}
