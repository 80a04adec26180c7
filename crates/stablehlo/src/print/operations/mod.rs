//! Prints operations: names of values, blocks, regions, the generic form.

mod forms;

use super::Form;
use super::attributes::{self, types};
use crate::mlir::{Attributes, Block, FunctionType, Module, Operation, Region, Type, ValueId};
use std::fmt::Write;

/// Writes a module.
pub(super) struct Printer<'m> {
    module: &'m Module,
    form: Form,
    pub(super) out: String,
    /// The name of each value, such as `%arg0`, `%3` or `%3#1`; empty before it is defined.
    names: Vec<String>,
    results: usize,
    arguments: usize,
    indent: usize,
    /// Whether the block being printed is a function's own, in which the dialect `func` is implied.
    in_function: bool,
}

impl<'m> Printer<'m> {
    pub(super) fn new(module: &'m Module, form: Form) -> Self {
        Self {
            module,
            form,
            out: String::new(),
            names: vec![String::new(); module.values.len()],
            results: 0,
            arguments: 0,
            indent: 0,
            in_function: false,
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Prints the whole module.
    pub(super) fn module(&mut self) {
        let module = self.module;
        self.operation(&module.operation);
    }

    pub(super) fn name(&self, value: ValueId) -> &str {
        match self.names.get(value.index()).map(String::as_str) {
            None | Some("") => "%undefined",
            Some(name) => name,
        }
    }

    pub(super) fn type_of(&self, value: ValueId) -> &'m Type {
        self.module.type_of(value)
    }

    /// The types of operands and results.
    pub(super) fn signature(&self, operation: &Operation) -> FunctionType {
        let types = |values: &[ValueId]| values.iter().map(|v| self.type_of(*v).clone()).collect();
        FunctionType {
            inputs: types(&operation.operands),
            results: types(&operation.results),
        }
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
    }

    /// Appends operands with commas between them.
    pub(super) fn operands(&mut self, operands: &[ValueId]) {
        for (place, operand) in operands.iter().enumerate() {
            if place > 0 {
                self.out.push_str(", ");
            }
            let name = self.name(*operand).to_owned();
            self.out.push_str(&name);
        }
    }

    fn operation(&mut self, operation: &'m Operation) {
        if !operation.results.is_empty() {
            let name = format!("%{}", self.results);
            self.results += 1;
            let several = operation.results.len() > 1;
            for (place, result) in operation.results.iter().enumerate() {
                if let Some(slot) = self.names.get_mut(result.index()) {
                    *slot = match several {
                        true => format!("{name}#{place}"),
                        false => name.clone(),
                    };
                }
            }
            self.out.push_str(&name);
            if several {
                let _ = write!(self.out, ":{}", operation.results.len());
            }
            self.out.push_str(" = ");
        }
        if self.form == Form::Generic || !forms::write(self, operation) {
            self.generic(operation);
        }
    }

    fn generic(&mut self, operation: &'m Operation) {
        let _ = write!(self.out, "\"{}\"(", operation.name);
        self.operands(&operation.operands);
        self.out.push(')');
        if !operation.properties.is_empty() {
            self.out.push_str(" <");
            attributes::dictionary(&operation.properties, &mut self.out);
            self.out.push('>');
        }
        if !operation.regions.is_empty() {
            self.out.push_str(" (");
            for (place, region) in operation.regions.iter().enumerate() {
                if place > 0 {
                    self.out.push_str(", ");
                }
                self.region(region, true, is_isolated(operation));
            }
            self.out.push(')');
        }
        self.dictionary(&operation.attributes);
        self.out.push_str(" : ");
        types::write_function(&self.signature(operation), &mut self.out);
    }

    /// Appends ` {...}`, unless it is empty.
    pub(super) fn dictionary(&mut self, entries: &Attributes) {
        if !entries.is_empty() {
            self.out.push(' ');
            attributes::dictionary(entries, &mut self.out);
        }
    }

    /// Prints a region in braces. The label of its first block is printed if `label` is set and
    /// there are arguments.
    pub(super) fn region(&mut self, region: &'m Region, label: bool, isolated: bool) {
        let outside = (self.results, self.arguments);
        let outside_in_function = std::mem::replace(&mut self.in_function, isolated);
        if isolated {
            (self.results, self.arguments) = (0, 0);
        }
        self.out.push('{');
        for (place, block) in region.blocks.iter().enumerate() {
            self.name_arguments(block);
            if place > 0 || (label && !block.arguments.is_empty()) {
                self.new_line();
                self.block_label(place, block);
            }
            self.indent += 1;
            for operation in &block.operations {
                self.new_line();
                self.operation(operation);
            }
            self.indent -= 1;
        }
        self.new_line();
        self.out.push('}');
        self.in_function = outside_in_function;
        if isolated {
            (self.results, self.arguments) = outside;
        }
    }

    /// Whether operations of `func` are printed without their dialect here.
    pub(super) fn is_in_function(&self) -> bool {
        self.in_function
    }

    /// Names the arguments of a block that have no name yet.
    pub(super) fn name_arguments(&mut self, block: &Block) {
        for argument in &block.arguments {
            let name = format!("%arg{}", self.arguments);
            if let Some(slot) = self.names.get_mut(argument.index())
                && slot.is_empty()
            {
                *slot = name;
                self.arguments += 1;
            }
        }
    }

    /// Gives values the same names as others.
    pub(super) fn name_alike(&mut self, values: &[ValueId], like: &[ValueId]) {
        for (value, like) in values.iter().zip(like) {
            let name = self.name(*like).to_owned();
            if let Some(slot) = self.names.get_mut(value.index()) {
                *slot = name;
            }
        }
    }

    fn block_label(&mut self, place: usize, block: &Block) {
        let _ = write!(self.out, "^bb{place}");
        if !block.arguments.is_empty() {
            self.out.push('(');
            for (place, argument) in block.arguments.iter().enumerate() {
                if place > 0 {
                    self.out.push_str(", ");
                }
                self.argument(*argument);
            }
            self.out.push(')');
        }
        self.out.push(':');
    }

    /// Prints `%name: type`.
    pub(super) fn argument(&mut self, argument: ValueId) {
        let name = self.name(argument).to_owned();
        self.out.push_str(&name);
        self.out.push_str(": ");
        types::write(self.type_of(argument), &mut self.out);
    }

    /// Begins a new line at the current depth.
    pub(super) fn continue_line(&mut self) {
        self.indent += 1;
        self.new_line();
        self.indent -= 1;
    }
}

fn is_isolated(operation: &Operation) -> bool {
    matches!(&*operation.name, "builtin.module" | "func.func")
}
