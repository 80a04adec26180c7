//! The printer of HLO text. XLA can read what it prints, and text from XLA that is read and printed
//! is unchanged, with two exceptions: constants are never abbreviated, and the short forms of
//! asynchronous operations are expanded.

mod literal;

pub use literal::shortest_float;
mod op;
mod shape;
mod values;

use crate::text::strings::quote;
use crate::{Computation, ComputationId, Instruction, InstructionId, Literal, Module, Op, Shape};
use op::Attributes;
use shape::write_separator;
use std::fmt::{Arguments, Write};
use values::braced;

/// How much is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrintStyle {
    /// Everything: `%` before names, program shapes, layouts, metadata.
    #[default]
    Canonical,
    /// As XLA's `ShortParsable`: no `%`, no program shapes, no metadata.
    Short,
}

/// Prints a module.
pub fn print_module(module: &Module, style: PrintStyle) -> String {
    let mut printer = Printer {
        module,
        style,
        set_aside: None,
        out: String::new(),
    };
    printer.header();
    for id in module.computations.keys() {
        printer.out.push('\n');
        printer.computation(id);
    }
    printer.out
}

/// A key that differs for programs that compile differently: the text without metadata, the symbols
/// and checks of open sizes, and a list of the constants that are too large for the text, in the
/// text's order.
pub fn identity(module: &Module) -> (String, Vec<&Literal>) {
    let mut printer = Printer {
        module,
        style: PrintStyle::Canonical,
        set_aside: Some(Vec::new()),
        out: String::new(),
    };
    printer.header();
    for id in module.computations.keys() {
        printer.out.push('\n');
        printer.computation(id);
    }
    // Writing to a string cannot fail.
    let (symbols, sizes, required) = (&module.symbols, &module.sizes, &module.required);
    let _ = write!(printer.out, "\n{symbols:?} {sizes:?} {required:?}");
    (printer.out, printer.set_aside.unwrap_or_default())
}

/// Prints one instruction as in [`print_module`], on one line, without indentation.
pub fn print_instruction(module: &Module, id: InstructionId, style: PrintStyle) -> String {
    let mut printer = Printer {
        module,
        style,
        set_aside: None,
        out: String::new(),
    };
    printer.instruction(&module[id]);
    printer.out
}

impl std::fmt::Display for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print_module(self, PrintStyle::Canonical))
    }
}

/// The number of elements up to which a constant is part of [`identity`]'s text.
const MAX_ELEMENTS_IN_IDENTITY: usize = 16;

/// The printer's state, with the text printed so far.
pub(crate) struct Printer<'m> {
    module: &'m Module,
    style: PrintStyle,
    /// If large constants are left out of the text: those left out so far.
    set_aside: Option<Vec<&'m Literal>>,
    out: String,
}

impl<'m> Printer<'m> {
    pub(crate) fn write(&mut self, arguments: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(arguments);
    }

    fn sigil(&self) -> &'static str {
        match self.style {
            PrintStyle::Canonical => "%",
            PrintStyle::Short => "",
        }
    }

    pub(crate) fn computation_name(&self, id: ComputationId) -> String {
        let name = self.module.computations.get(id).map_or("", |c| &c.name);
        format!("{}{name}", self.sigil())
    }

    fn instruction_name(&self, id: InstructionId) -> String {
        let name = self.module.instructions.get(id).map_or("", |i| &i.name);
        format!("{}{name}", self.sigil())
    }

    fn header(&mut self) {
        let attributes = &self.module.attributes;
        self.write(format_args!("HloModule {}", self.module.name));
        if attributes.is_scheduled {
            self.out.push_str(", is_scheduled=true");
        }
        if !attributes.input_output_alias.is_empty() {
            let aliases: Vec<String> = attributes
                .input_output_alias
                .iter()
                .map(|alias| {
                    let output = braced(&alias.output_index);
                    let index = braced(&alias.parameter_index);
                    format!("{output}: ({}, {index}, {})", alias.parameter, alias.kind)
                })
                .collect();
            self.write(format_args!(
                ", input_output_alias={{ {} }}",
                aliases.join(", ")
            ));
        }
        if !attributes.buffer_donor.is_empty() {
            let donors: Vec<String> = attributes
                .buffer_donor
                .iter()
                .map(|(parameter, index)| format!("({parameter}, {})", braced(index)))
                .collect();
            self.write(format_args!(", buffer_donor={{ {} }}", donors.join(", ")));
        }
        if attributes.alias_passthrough_params {
            self.out.push_str(", alias_passthrough_params=true");
        }
        if let Some((parameters, result)) = &attributes.entry_layout {
            let parameters = numbered_list(parameters.iter().map(Shape::to_string));
            self.write(format_args!(
                ", entry_computation_layout={{({parameters})->{result}}}"
            ));
        }
        for (name, value) in &attributes.other {
            self.write(format_args!(", {name}={value}"));
        }
        if let Some(count) = attributes.replica_count {
            self.write(format_args!(", replica_count={count}"));
        }
        if let Some(count) = attributes.num_partitions {
            self.write(format_args!(", num_partitions={count}"));
        }
        self.pairs("frontend_attributes", &attributes.frontend_attributes);
        self.out.push('\n');
        if self.style == PrintStyle::Canonical && self.set_aside.is_none() {
            self.stack_frames();
        }
    }

    fn pairs(&mut self, name: &str, pairs: &[(std::sync::Arc<str>, std::sync::Arc<str>)]) {
        if !pairs.is_empty() {
            let pairs = pairs.iter().map(|(key, value)| format!("{key}={value}"));
            self.write(format_args!(", {name}={}", braced(pairs)));
        }
    }

    fn stack_frames(&mut self) {
        let frames = &self.module.attributes.stack_frames;
        for (table, names) in [
            ("FileNames", &frames.file_names),
            ("FunctionNames", &frames.function_names),
        ] {
            if !names.is_empty() {
                self.write(format_args!("\n{table}\n"));
            }
            for (number, name) in names {
                self.write(format_args!("{number} {}\n", quote(name)));
            }
        }
        for (table, entries) in [
            ("FileLocations", &frames.file_locations),
            ("StackFrames", &frames.frames),
        ] {
            if !entries.is_empty() {
                self.write(format_args!("\n{table}\n"));
            }
            for (number, fields) in entries {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                self.write(format_args!("{number} {{{}}}\n", fields.join(" ")));
            }
        }
    }

    fn computation(&mut self, id: ComputationId) {
        let module = self.module;
        let computation = &module[id];
        if id == module.entry {
            self.out.push_str("ENTRY ");
        }
        self.write(format_args!("{}{}", self.sigil(), computation.name));
        if self.style == PrintStyle::Canonical {
            self.program_shape(computation);
        }
        self.out.push_str(" {\n");
        for &instruction in &computation.instructions {
            let root = instruction == computation.root;
            self.out.push_str(if root { "  ROOT " } else { "  " });
            self.instruction(&module[instruction]);
            self.out.push('\n');
        }
        self.out.push('}');
        if let Some(thread) = &computation.execution_thread {
            self.write(format_args!(", execution_thread={}", quote(thread)));
        }
        self.out.push('\n');
    }

    fn program_shape(&mut self, computation: &Computation) {
        let module = self.module;
        let parameters = computation.parameters.iter().map(|&id| {
            let parameter = &module[id];
            format!("{}: {:#}", parameter.name, parameter.shape)
        });
        let parameters: Vec<String> = parameters.collect();
        let result = &module[computation.root].shape;
        self.write(format_args!(" ({}) -> {result:#}", parameters.join(", ")));
    }

    fn instruction(&mut self, instruction: &'m Instruction) {
        let opcode = instruction.op.opcode();
        self.write(format_args!(
            "{}{} = {} {opcode}(",
            self.sigil(),
            instruction.name,
            instruction.shape
        ));
        match &instruction.op {
            Op::Parameter(number) => self.write(format_args!("{number}")),
            Op::Constant(literals) => self.literals(&instruction.shape, literals),
            _ => {
                for (index, &operand) in instruction.operands.iter().enumerate() {
                    let numbered = self.style == PrintStyle::Canonical;
                    // Writing to a string cannot fail.
                    let _ = match index {
                        1.. if !numbered => self.out.write_str(", "),
                        _ => write_separator(&mut self.out, index),
                    };
                    let name = self.instruction_name(operand);
                    self.out.push_str(&name);
                }
            }
        }
        self.out.push(')');
        Attributes::new(self).operation(instruction);
        self.annotations(instruction);
    }

    fn literals(&mut self, shape: &Shape, literals: &'m [Literal]) {
        let mut rest = literals.iter();
        self.literal_of(shape, &mut rest);
    }

    fn literal_of(&mut self, shape: &Shape, rest: &mut std::slice::Iter<'m, Literal>) {
        match shape {
            Shape::Tuple(elements) => {
                self.out.push_str("( ");
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.literal_of(element, rest);
                }
                self.out.push_str(" )");
            }
            _ => {
                let Some(literal) = rest.next() else {
                    return;
                };
                match &mut self.set_aside {
                    Some(aside) if literal.len() > MAX_ELEMENTS_IN_IDENTITY => {
                        self.out.push_str("{...}");
                        aside.push(literal);
                    }
                    _ => {
                        let _ = literal::write_literal(&mut self.out, literal);
                    }
                }
            }
        }
    }

    fn annotations(&mut self, instruction: &Instruction) {
        let Some(annotations) = &instruction.annotations else {
            return;
        };
        if let Some(sharding) = &annotations.sharding {
            self.write(format_args!(", sharding={sharding}"));
        }
        self.pairs("frontend_attributes", &annotations.frontend_attributes);
        if !annotations.control_predecessors.is_empty() {
            let predecessors = &annotations.control_predecessors;
            let names: Vec<String> = predecessors
                .iter()
                .map(|&id| self.instruction_name(id))
                .collect();
            self.write(format_args!(
                ", control-predecessors={{{}}}",
                names.join(", ")
            ));
        }
        for (name, value) in &annotations.other {
            self.write(format_args!(", {name}={value}"));
        }
        if let (Some(metadata), PrintStyle::Canonical, None) =
            (&annotations.metadata, self.style, &self.set_aside)
        {
            self.write(format_args!(", metadata={metadata}"));
        }
        if let Some(config) = &annotations.backend_config {
            self.write(format_args!(", backend_config={config}"));
        }
    }
}

/// Items separated by `, `, every fifth numbered.
fn numbered_list(items: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for (index, item) in items.enumerate() {
        // Writing to a string cannot fail.
        let _ = write_separator(&mut text, index);
        text.push_str(&item);
    }
    text
}
