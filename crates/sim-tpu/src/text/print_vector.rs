//! Prints vector and scalar code.

use super::print::Printer;
use crate::program::{
    RegisterId, ScalarOperation, VectorBlock, VectorOp, VectorOperand, VectorOperation,
    VectorResult, View,
};
use tegula_arena::EntityRef;
use tegula_mosaic::ir::{Constant, Op};
use tegula_mosaic::types::Element;

/// Converts a name such as `AddInt` to `add_int`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// The text of an operation with its attributes.
fn operation(op: &Op, element: Option<Element>) -> String {
    let list = |values: &[i64]| format!("{values:?}");
    match op {
        Op::Constant(Constant::Splat(bits)) => match element.map(|e| (e, scalar(e, *bits))) {
            Some((_, Some(text))) => format!("constant {text}"),
            _ => format!("constant {bits:#x}"),
        },
        Op::Constant(Constant::Elements(elements)) => format!("constant of {}", elements.len()),
        Op::Unary(op) => snake(&format!("{op:?}")),
        Op::Binary(op) => snake(&format!("{op:?}")),
        Op::CompareInt(p) => format!("compare {}", snake(&format!("{p:?}"))),
        Op::CompareFloat(p) => {
            let parts = [
                (p.less, "lt"),
                (p.equal, "eq"),
                (p.greater, "gt"),
                (p.unordered, "unordered"),
            ];
            let parts: Vec<&str> = parts
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, n)| *n)
                .collect();
            format!("compare {}", parts.join("|"))
        }
        Op::Cast(cast) => format!("cast {}", snake(&format!("{cast:?}"))),
        Op::Iota(along) => format!("iota {}", list(along)),
        Op::Reduce(kind, along) => {
            format!("reduce {} {}", snake(&format!("{kind:?}")), list(along))
        }
        Op::ReduceIndex(kind, axis) => format!("arg {} {axis}", snake(&format!("{kind:?}"))),
        Op::Transpose(permutation) => format!("transpose {}", list(permutation)),
        Op::Concatenate(dim) => format!("concatenate {dim}"),
        Op::Slice(offsets, sizes, steps) => {
            format!("slice {} {} {}", list(offsets), list(sizes), list(steps))
        }
        Op::Extract(position) => format!("extract {}", list(position)),
        Op::Rotate(dim, None) => format!("rotate {dim}"),
        Op::Rotate(dim, Some((by, along))) => format!("rotate {dim} stride {by} along {along}"),
        Op::Repeat(dim, times) => format!("repeat {dim} {times}"),
        Op::Gather(along) => format!("gather {}", list(along)),
        Op::Matmul(dims, precision) => format!(
            "matmul {} {} {}",
            list(&dims.lhs_contracting),
            list(&dims.rhs_contracting),
            snake(&format!("{precision:?}"))
        ),
        other => {
            let text = format!("{other:?}");
            snake(text.split([' ', '(', '{']).next().unwrap_or_default())
        }
    }
}

fn scalar(element: Element, bits: u64) -> Option<String> {
    let held = crate::machine::scalar::constant(element, bits).ok()?;
    Some(match element {
        Element::Float(_) => format!("{:?}", f32::from_bits(held as u32)),
        _ => held.to_string(),
    })
}

impl Printer<'_> {
    /// The text of a block, one operation on each line; `indent` is the block's own indentation.
    pub(super) fn vector_block(&self, block: &VectorBlock, indent: &str) -> String {
        let mut text = String::from("vector {\n");
        for operation in &block.operations {
            text.push_str(indent);
            text.push_str("  ");
            text.push_str(&self.vector_operation(operation));
            text.push('\n');
        }
        text.push_str(indent);
        text.push('}');
        text
    }

    /// The text of one operation.
    pub(super) fn vector_operation(&self, made: &VectorOperation) -> String {
        let operands: Vec<String> = made
            .operands
            .iter()
            .map(|o| self.vector_operand(o))
            .collect();
        let element = match made.result {
            Some(VectorResult::Register(id)) => self.program.registers.get(id).map(|r| r.element),
            _ => None,
        };
        let result = match made.result {
            Some(VectorResult::Register(id)) => format!("{} = ", self.register(id)),
            Some(VectorResult::Variable(id)) => format!("let {} = ", self.names.variable(id)),
            None => String::new(),
        };
        match &made.op {
            VectorOp::Move => format!("{result}{}", operands.join(", ")),
            VectorOp::Load(view) => {
                let mask = operands
                    .first()
                    .map_or(String::new(), |mask| format!(" where {mask}"));
                format!("{result}{}{mask}", self.view(view))
            }
            VectorOp::Store { view, add } => {
                let mask = operands
                    .get(1)
                    .map_or(String::new(), |mask| format!(" where {mask}"));
                let value = operands.first().cloned().unwrap_or_default();
                let sign = if *add { "+=" } else { "=" };
                format!("{} {sign} {value}{mask}", self.view(view))
            }
            VectorOp::Compute(op) => {
                format!(
                    "{result}{}({})",
                    operation(op, element),
                    operands.join(", ")
                )
            }
        }
    }

    fn vector_operand(&self, operand: &VectorOperand) -> String {
        match operand {
            VectorOperand::Register(id) => self.register_name(*id),
            VectorOperand::Scalar(term, Element::Float(_)) if term.as_constant().is_some() => {
                let bits = term.as_constant().unwrap_or(0) as u32;
                format!("{:?}", f32::from_bits(bits))
            }
            VectorOperand::Scalar(term, _) => self.term(term),
        }
    }

    fn register_name(&self, id: RegisterId) -> String {
        format!("r{}", id.index())
    }

    /// The text of a register with its type, where it takes a value.
    fn register(&self, id: RegisterId) -> String {
        let name = self.register_name(id);
        match self.program.registers.get(id) {
            Some(register) => {
                let dims: Vec<String> = register.dims.iter().map(ToString::to_string).collect();
                format!("{name} : {}[{}]", register.element, dims.join(","))
            }
            None => name,
        }
    }

    fn view(&self, view: &View) -> String {
        let mut text = self.slice(&view.slice);
        for (dims, entries) in &view.reshaped {
            let entries: Vec<String> = entries.iter().map(|entry| self.entry(entry)).collect();
            text.push_str(&format!(" as {dims:?}[{}]", entries.join(", ")));
        }
        if view.strides.iter().any(|stride| *stride != 1) {
            text.push_str(&format!(" strides {:?}", view.strides));
        }
        text
    }

    /// The text of a computation with scalars.
    pub(super) fn scalar_operation(
        &self,
        operation: &ScalarOperation,
        operands: &[String],
    ) -> String {
        let name = match operation {
            ScalarOperation::Unary(op, element) => {
                format!("{}.{element}", snake(&format!("{op:?}")))
            }
            ScalarOperation::Binary(op, element) => {
                format!("{}.{element}", snake(&format!("{op:?}")))
            }
            ScalarOperation::CompareInt(p, element) => {
                format!("compare_{}.{element}", snake(&format!("{p:?}")))
            }
            ScalarOperation::CompareFloat(_) => "compare_float".to_owned(),
            ScalarOperation::Select => "select".to_owned(),
            ScalarOperation::Cast(cast, from, to) => {
                format!("{}.{from}.{to}", snake(&format!("{cast:?}")))
            }
        };
        format!("{name}({})", operands.join(", "))
    }
}
