//! Prints HLO computations as statements.
//!
//! A module of one operation is printed as that operation; any other module as a `call` of its
//! entry computation, which goes into the kernel's head.

use super::Printer;
use crate::program::{Compute, Operand};
use crate::text::hlo_forms::{combiner, is_elementwise, literal_type};
use std::sync::Arc;
use tegula_ir::{
    ArrayShape, Binary, Computation, ElementType, Instruction, InstructionId, Literal, Module, Op,
    PrintStyle, Shape, parse_module, print_instruction, print_module,
};

/// The computations that statements call, by name.
pub(super) struct Called {
    entry: &'static str,
    texts: Vec<(String, String)>,
}

impl Called {
    pub(super) fn new(entry: &'static str) -> Self {
        Self {
            entry,
            texts: Vec::new(),
        }
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|(_, text)| text.as_str())
    }

    /// Adds a module's computations to the head; returns the module with the names that they have
    /// there.
    fn add(&mut self, module: &Module, with_entry: bool) -> Module {
        let mut module = module.clone();
        for id in module.computations.keys().collect::<Vec<_>>() {
            if id == module.entry && !with_entry {
                continue;
            }
            let wanted = module.computations[id].name.to_string();
            let wanted = if wanted == self.entry {
                "body".to_owned()
            } else {
                wanted.replace(
                    |c: char| !c.is_ascii_alphanumeric() && !"_.-".contains(c),
                    "_",
                )
            };
            let mut name = wanted.clone();
            for number in 2.. {
                module.computations[id].name = Arc::from(name.as_str());
                let text = computation_text(&module, &module.computations[id]);
                match self.texts.iter().find(|(known, _)| *known == name) {
                    Some((_, known)) if *known == text => break,
                    Some(_) => name = format!("{wanted}.{number}"),
                    None => {
                        self.texts.push((name, text));
                        break;
                    }
                }
            }
        }
        module
    }
}

/// The text of a computation, `NAME {`, instructions, `}`, as the printer of modules writes it.
fn computation_text(module: &Module, computation: &Computation) -> String {
    let mut text = format!("{} {{\n", computation.name);
    for &id in &computation.instructions {
        let root = if id == computation.root { "ROOT " } else { "" };
        let line = print_instruction(module, id, PrintStyle::Short);
        text.push_str(&format!("  {root}{line}\n"));
    }
    text.push('}');
    text
}

/// The text `DST = op(operands), attributes`.
pub(super) fn compute_text(printer: &mut Printer<'_>, compute: &Compute) -> String {
    let destinations: Vec<String> = compute
        .destinations
        .iter()
        .map(|slice| printer.slice(slice))
        .collect();
    let destination = match destinations.as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(", ")),
    };
    let equals = if compute.accumulate { "+=" } else { "=" };
    let module = &*compute.operation;
    let types = operand_types(printer, compute);
    let root = module.entry_computation().root;
    let (opcode, attributes) = if is_single(module, compute.operands.len()) {
        let opcode = module[root].op.opcode();
        let text = if has_plain_combiner(module) {
            print_instruction(module, root, PrintStyle::Short)
        } else {
            let module = printer.called.add(module, false);
            print_instruction(&module, root, PrintStyle::Short)
        };
        (opcode, behind_operands(&text, opcode.name()).to_owned())
    } else {
        let module = printer.called.add(module, true);
        let name = &module.entry_computation().name;
        (tegula_ir::Opcode::Call, format!(", to_apply={name}"))
    };
    let result = module[root].shape.as_array();
    let result = result.map_or(ElementType::F32, |array| array.element_type);
    let operands = compute.operands.iter().enumerate().map(|(i, operand)| {
        match operand {
            Operand::Slice(slice) => printer.slice(slice),
            Operand::Literal(literal) => {
                // A number's type is printed only where the parser would assume another one.
                let mut others = types.clone();
                for (slot, operand) in others.iter_mut().zip(&compute.operands) {
                    if matches!(operand, Operand::Literal(l) if l.shape().rank() == 0) {
                        *slot = None;
                    }
                }
                let expected = literal_type(opcode, i, &others, result);
                let value = literal_text(literal);
                match literal.shape().rank() {
                    0 if literal.element_type() == expected => value,
                    _ => format!("{} {value}", literal.shape()),
                }
            }
        }
    });
    let operands: Vec<String> = operands.collect();
    format!(
        "{destination} {equals} {opcode}({}){attributes}",
        operands.join(", ")
    )
}

fn operand_types(printer: &Printer<'_>, compute: &Compute) -> Vec<Option<ElementType>> {
    let types = compute.operands.iter().map(|operand| match operand {
        Operand::Slice(slice) => {
            let buffer = printer.program.buffers.get(slice.buffer)?;
            Some(buffer.shape.element_type)
        }
        Operand::Literal(literal) => Some(literal.element_type()),
    });
    types.collect()
}

/// The text after the operands of a printed instruction.
fn behind_operands<'a>(text: &'a str, opcode: &str) -> &'a str {
    let operands = text
        .split_once(&format!(" {opcode}("))
        .map_or("", |(_, rest)| rest);
    operands.split_once(')').map_or("", |(_, rest)| rest)
}

/// Whether the entry is one operation on its parameters in order, with scalars broadcast only where
/// the parser broadcasts them.
fn is_single(module: &Module, operands: usize) -> bool {
    let entry = module.entry_computation();
    let root = &module[entry.root];
    let elementwise = is_elementwise(root.op.opcode());
    let spread = |id: InstructionId| -> InstructionId {
        let broadcast = &module[id];
        let from = broadcast.operands.first().copied();
        match (&broadcast.op, from) {
            (Op::Broadcast(dims), Some(from))
                if elementwise && dims.is_empty() && rank(&root.shape) > 0 =>
            {
                from
            }
            _ => id,
        }
    };
    let in_order = root.operands.iter().enumerate().all(|(i, &id)| {
        let source = &module[spread(id)];
        matches!(source.op, Op::Parameter(number) if number as usize == i)
    });
    let spreads = root
        .operands
        .iter()
        .filter(|id| spread(**id) != **id)
        .count();
    let plain = !matches!(root.op, Op::Parameter(_) | Op::Constant(_) | Op::Tuple);
    plain
        && in_order
        && root.operands.len() == operands
        && entry.instructions.len() == operands + spreads + 1
}

fn rank(shape: &Shape) -> usize {
    shape.as_array().map_or(0, ArrayShape::rank)
}

/// Whether every called computation is one that the parser generates.
fn has_plain_combiner(module: &Module) -> bool {
    let entry = module.entry_computation();
    let first = entry.parameters.first().map(|&id| &module[id].shape);
    let ty = first
        .and_then(Shape::as_array)
        .map(|array| array.element_type);
    module.computations.iter().all(|(id, computation)| {
        let root: &Instruction = &module[computation.root];
        let Op::Binary(binary) = root.op else {
            return id == module.entry;
        };
        let name = Binary::opcode(binary).name();
        id == module.entry
            || &*computation.name == name
                && ty.is_some_and(|ty| {
                    let made = combiner(name, ty);
                    made.trim_end() == computation_text(module, computation)
                })
    })
}

/// A literal without its shape, as the HLO printer writes it.
fn literal_text(literal: &Literal) -> String {
    let Ok(mut module) = parse_module("ENTRY e { ROOT c = f32[] constant(0) }") else {
        return String::new();
    };
    let root = module.entry_computation().root;
    let constant = &mut module.instructions[root];
    constant.shape = Shape::Array(literal.shape().clone());
    constant.op = Op::Constant(Arc::from(vec![literal.clone()]));
    let text = print_module(&module, PrintStyle::Short);
    let (_, rest) = text.split_once(" constant(").unwrap_or_default();
    let end = rest.rfind(')').unwrap_or(rest.len());
    rest.get(..end).unwrap_or("").trim().to_owned()
}
