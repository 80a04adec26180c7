//! Loops, calls and pairs of arrays with open sizes.

use super::{Generator, Known, Size};
use std::fmt::Write;
use tegula_ir::ElementType;

impl Generator {
    /// An elementwise operation on all pairs of elements of two vectors, by broadcasts.
    pub(super) fn outer(&mut self, value: &Known) {
        let rows = |v: &&Known| v.ty == value.ty && v.dims.len() == 1;
        let rows: Vec<Known> = self.values.iter().filter(rows).cloned().collect();
        if rows.is_empty() {
            return;
        }
        let (a, b) = (
            self.random.pick(&rows).clone(),
            self.random.pick(&rows).clone(),
        );
        let dims = [a.dims[0].clone(), b.dims[0].clone()];
        let down = format!("broadcast({}), dimensions={{0}}", a.name);
        let down = self.emit(value.ty, &dims, &down);
        let along = format!("broadcast({}), dimensions={{1}}", b.name);
        let along = self.emit(value.ty, &dims, &along);
        self.combine(&down, &along);
    }

    /// A loop that exchanges two arrays in each iteration.
    pub(super) fn swap(&mut self, value: &Known) {
        let other = self.like(value);
        self.names += 1;
        let (number, array) = (self.names, value.shape());
        let state = format!("(s32[], {array}, {array})");
        let _ = write!(
            self.called,
            "condition{number} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n  ROOT more = pred[] compare(i, n), direction=LT\n}}\n\n"
        );
        let _ = write!(
            self.called,
            "body{number} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n  next = s32[] add(i, one)\n  x = {array} get-tuple-element(s), index=1\n  y = {array} get-tuple-element(s), index=2\n  z = {array} maximum(x, y)\n  ROOT t = {state} tuple(next, y, z)\n}}\n\n"
        );
        let zero = self.constant(ElementType::S32, 0);
        let _ = writeln!(
            self.body,
            "  init{number} = {state} tuple({zero}, {}, {})",
            value.name, other.name
        );
        let _ = writeln!(
            self.body,
            "  loop{number} = {state} while(init{number}), condition=condition{number}, body=body{number}"
        );
        let operation = format!("get-tuple-element(loop{number}), index=1");
        let result = self.emit(value.ty, &value.dims, &operation);
        self.values.push(result);
    }

    /// A computation that is called with arrays of several sizes.
    pub(super) fn call(&mut self, value: &Known) {
        let open = vec!["?"; value.dims.len()].join(",");
        let (ty, rank) = (value.ty, value.dims.len());
        let name = format!("twice_{ty}_{rank}");
        if !self.called.contains(&name) {
            let shape = format!("{ty}[{open}]");
            let _ = write!(
                self.called,
                "{name} {{\n  x = {shape} parameter(0)\n  y = {shape} negate(x)\n  ROOT z = {shape} subtract(x, y)\n}}\n\n"
            );
        }
        let operation = match self.random.once_in(2) {
            true => format!("call({}), to_apply={name}", value.name),
            false => format!("fusion({}), kind=kLoop, calls={name}", value.name),
        };
        let result = self.emit(ty, &value.dims, &operation);
        self.keep(&result);
    }

    /// Sorts elements together with their indices.
    pub(super) fn sort_pairs(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        self.names += 1;
        let (number, ty, array) = (self.names, value.ty, value.shape());
        let along = self.random.below(value.dims.len());
        let _ = write!(
            self.called,
            "before{number} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n  ROOT p = pred[] compare(a, b), direction=GT\n}}\n\n"
        );
        let places = format!("iota(), iota_dimension={along}");
        let places = self.emit(ElementType::S32, &value.dims, &places);
        let places_shape = places.shape();
        let _ = writeln!(
            self.body,
            "  sorted{number} = ({array}, {places_shape}) sort({}, {}), dimensions={{{along}}}, is_stable=true, to_apply=before{number}",
            value.name, places.name
        );
        for (index, ty) in [(0, ty), (1, ElementType::S32)] {
            let operation = format!("get-tuple-element(sorted{number}), index={index}");
            let result = self.emit(ty, &value.dims, &operation);
            self.keep(&result);
        }
    }

    /// Flattens an array and appends it to another vector.
    pub(super) fn merge(&mut self, value: &Known) {
        let product = value.dims.iter().try_fold(1i64, |product, dim| match dim {
            Size::Known(size) => Some(product * size),
            _ => None,
        });
        let count = match product {
            Some(product) => Size::Known(product),
            None => {
                let dims: Vec<String> = value.dims.iter().map(Size::formula).collect();
                Size::Derived(format!("({})", dims.join(" * ")))
            }
        };
        let row = self.emit(
            value.ty,
            std::slice::from_ref(&count),
            &format!("reshape({})", value.name),
        );
        let rows = |v: &&Known| v.ty == value.ty && v.dims.len() == 1;
        let rows: Vec<Known> = self.values.iter().filter(rows).cloned().collect();
        if rows.is_empty() {
            return self.values.push(row);
        }
        let other = self.random.pick(&rows).clone();
        let size = match (&other.dims[0], &count) {
            (Size::Known(a), Size::Known(b)) => Size::Known(a + b),
            (a, b) => Size::Derived(format!("({} + {})", a.formula(), b.formula())),
        };
        let operation = format!(
            "concatenate({}, {}), dimensions={{0}}",
            other.name, row.name
        );
        let result = self.emit(value.ty, &[size], &operation);
        self.values.push(result);
    }
}
