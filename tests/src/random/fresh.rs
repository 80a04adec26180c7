//! Makes values of a requested type and shape, and writes operations that return tuples.

use super::{Body, Generator, Known, shape_text};
use std::fmt::Write;
use tegula_ir::{Category, ElementType};

impl Generator {
    /// A value with small integers of both signs, in no simple order.
    pub(super) fn fresh(&mut self, body: &mut Body, ty: ElementType, dims: &[i64]) -> Known {
        let count: i64 = dims.iter().product();
        let (step, from) = (self.random.between(1, 50), self.random.between(0, 9));
        let name = |g: &mut Self| g.name();
        let flat = format!("s32[{count}]");
        let (iota, step_name, from_name) = (name(self), name(self), name(self));
        let (steps, froms, scaled, moved) = (name(self), name(self), name(self), name(self));
        let (seven, sevens, rest) = (name(self), name(self), name(self));
        let (three, threes, small, shaped) = (name(self), name(self), name(self), name(self));
        let text = &mut body.text;
        let lines = [
            format!("{iota} = {flat} iota(), iota_dimension=0"),
            format!("{step_name} = s32[] constant({step})"),
            format!("{steps} = {flat} broadcast({step_name}), dimensions={{}}"),
            format!("{from_name} = s32[] constant({from})"),
            format!("{froms} = {flat} broadcast({from_name}), dimensions={{}}"),
            format!("{scaled} = {flat} multiply({iota}, {steps})"),
            format!("{moved} = {flat} add({scaled}, {froms})"),
            format!("{seven} = s32[] constant(7)"),
            format!("{sevens} = {flat} broadcast({seven}), dimensions={{}}"),
            format!("{rest} = {flat} remainder({moved}, {sevens})"),
            format!(
                "{three} = s32[] constant({})",
                if ty.is_signed() || !ty.is_integer() {
                    3
                } else {
                    0
                }
            ),
            format!("{threes} = {flat} broadcast({three}), dimensions={{}}"),
            format!("{small} = {flat} subtract({rest}, {threes})"),
            format!(
                "{shaped} = {} reshape({small})",
                shape_text(ElementType::S32, dims)
            ),
        ];
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
        self.define(body, ty, dims, 3, &format!("convert({shaped})"));
        body.known[body.known.len() - 1].clone()
    }

    /// A scalar constant.
    pub(super) fn scalar(&mut self, body: &mut Body, ty: ElementType, value: i64) -> Known {
        let text = match ty.category() {
            Category::Boolean => (value != 0).to_string(),
            Category::Complex => format!("({value}, 0)"),
            _ => value.to_string(),
        };
        self.define(body, ty, &[], 4, &format!("constant({text})"));
        body.known[body.known.len() - 1].clone()
    }

    /// Defines a sum of products plus 0. The sign of a zero sum depends on its initial value, which
    /// the definition of a product leaves open; adding 0 makes it positive.
    pub(super) fn define_sum(
        &mut self,
        body: &mut Body,
        ty: ElementType,
        dims: &[i64],
        bits: u32,
        operation: &str,
    ) {
        if !ty.is_float() && !ty.is_complex() {
            return self.define(body, ty, dims, bits, operation);
        }
        let raw = self.name();
        let shape = shape_text(ty, dims);
        let _ = writeln!(body.text, "  {raw} = {shape} {operation}");
        let (zero, zeros) = (self.name(), self.name());
        let value = if ty.is_complex() { "(0, 0)" } else { "0" };
        let _ = writeln!(body.text, "  {zero} = {ty}[] constant({value})");
        let _ = writeln!(
            body.text,
            "  {zeros} = {shape} broadcast({zero}), dimensions={{}}"
        );
        self.define(body, ty, dims, bits, &format!("add({raw}, {zeros})"));
    }

    /// Defines an operation that returns a tuple of arrays, and each of these arrays as a value.
    pub(super) fn define_tuple(
        &mut self,
        body: &mut Body,
        parts: &[(ElementType, Vec<i64>, u32)],
        operation: &str,
    ) {
        let name = self.name();
        let shapes: Vec<String> = parts
            .iter()
            .map(|(ty, dims, _)| shape_text(*ty, dims))
            .collect();
        let _ = writeln!(body.text, "  {name} = ({}) {operation}", shapes.join(", "));
        for (i, (ty, dims, bits)) in parts.iter().enumerate() {
            self.define(
                body,
                *ty,
                dims,
                *bits,
                &format!("get-tuple-element({name}), index={i}"),
            );
        }
    }
}
