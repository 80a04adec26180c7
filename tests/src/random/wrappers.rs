//! Random operations that wrap others and change no value: fusions, asynchronous pairs, barriers.
//! Also custom calls, with a handler that the tests register.

use super::{Body, Generator, Known};
use std::fmt::Write;
use std::sync::Once;
use tegula_ir::{ArrayShape, ElementType, Literal};

/// The target of a custom call that reverses the elements of its operand.
const REVERSED: &str = "tegula.tests.reversed";

/// Registers the handler of the custom call in random programs, once per process.
pub(super) fn register_custom_calls() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let handler = |_: &tegula::CustomCall, operands: &[Literal], results: &[ArrayShape]| {
            let (Some(operand), Some(result)) = (operands.first(), results.first()) else {
                return Err("one operand gives one result".to_owned());
            };
            let size = operand.element_type().storage_bytes();
            let elements = operand.bytes().chunks_exact(size).rev();
            let bytes: Vec<u8> = elements.flatten().copied().collect();
            let reversed = Literal::from_bytes(result, &bytes).map_err(|e| e.to_string())?;
            Ok(vec![reversed])
        };
        tegula::register_custom_call(REVERSED, handler).expect("the name is free");
    });
}

impl Generator {
    pub(super) fn wrapper(&mut self, body: &mut Body) {
        match self.random.below(8) {
            0 => self.barrier(body),
            1 => self.copy_pair(body),
            2 => self.fusion(body),
            3 => self.async_pair(body),
            4 => self.token(body),
            5 => self.size_of(body),
            6 => self.place_of_run(body),
            _ => self.custom_call(body),
        }
    }

    /// Passes several values through one barrier.
    fn barrier(&mut self, body: &mut Body) {
        let count = 1 + self.random.below(3);
        let values: Vec<Known> = (0..count).map(|_| self.any(body)).collect();
        let shapes: Vec<String> = values.iter().map(Known::shape).collect();
        let names: Vec<&str> = values.iter().map(|k| k.name.as_str()).collect();
        let tuple = self.name();
        let (shapes, names) = (shapes.join(", "), names.join(", "));
        let _ = writeln!(body.text, "  {tuple} = ({shapes}) tuple({names})");
        let parts: Vec<_> = (values.iter())
            .map(|k| (k.ty, k.dims.clone(), k.bits))
            .collect();
        self.define_tuple(body, &parts, &format!("opt-barrier({tuple})"));
    }

    fn copy_pair(&mut self, body: &mut Body) {
        let x = self.any(body);
        let (start, shape) = (self.name(), x.shape());
        let _ = writeln!(
            body.text,
            "  {start} = ({shape}, {shape}, u32[]) copy-start({})",
            x.name
        );
        self.define(body, x.ty, &x.dims, x.bits, &format!("copy-done({start})"));
    }

    /// Writes a computation. Returns the value to apply it to, its name, and its result.
    fn called(&mut self, body: &Body) -> Option<(Known, String, Known)> {
        if self.depth >= 2 {
            return None;
        }
        self.depth += 1;
        let (x, wanted) = (self.any(body), self.any(body));
        let (name, bits) = self.function(&x, &wanted);
        self.depth -= 1;
        Some((x, name, Known { bits, ..wanted }))
    }

    fn fusion(&mut self, body: &mut Body) {
        let Some((x, name, result)) = self.called(body) else {
            return;
        };
        let kind = *self.random.pick(&["kLoop", "kInput", "kOutput", "kCustom"]);
        let text = format!("fusion({}), kind={kind}, calls={name}", x.name);
        self.define(body, result.ty, &result.dims, result.bits, &text);
    }

    /// An asynchronous call: `async-start`, possibly `async-update`, and `async-done`.
    fn async_pair(&mut self, body: &mut Body) {
        let Some((x, name, result)) = self.called(body) else {
            return;
        };
        let state = format!("(({}), {}, s32[])", x.shape(), result.shape());
        let mut last = self.name();
        let _ = writeln!(
            body.text,
            "  {last} = {state} async-start({}), calls={name}",
            x.name
        );
        if self.random.once_in(2) {
            let update = self.name();
            let _ = writeln!(body.text, "  {update} = {state} async-update({last})");
            last = update;
        }
        let text = format!("async-done({last})");
        self.define(body, result.ty, &result.dims, result.bits, &text);
    }

    /// A value that depends on a token (`add-dependency`).
    fn token(&mut self, body: &mut Body) {
        let x = self.any(body);
        let token = self.name();
        let _ = writeln!(body.text, "  {token} = token[] after-all()");
        let text = format!("add-dependency({}, {token})", x.name);
        self.define(body, x.ty, &x.dims, x.bits, &text);
    }

    fn size_of(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| !k.dims.is_empty()) else {
            return;
        };
        let dimension = self.random.below(x.dims.len());
        let text = format!("get-dimension-size({}), dimensions={{{dimension}}}", x.name);
        self.define(body, ElementType::S32, &[], 64, &text);
    }

    /// The number of the replica or partition, which is 0 because there is only one.
    fn place_of_run(&mut self, body: &mut Body) {
        let op = *self.random.pick(&["replica-id()", "partition-id()"]);
        self.define(body, ElementType::U32, &[], 64, op);
    }

    fn custom_call(&mut self, body: &mut Body) {
        let x = self.any(body);
        let text = format!("custom-call({}), custom_call_target=\"{REVERSED}\"", x.name);
        self.define(body, x.ty, &x.dims, x.bits, &text);
    }
}
