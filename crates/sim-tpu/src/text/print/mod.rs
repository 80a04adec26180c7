//! The printer of kernels.

mod compute;

use super::hlo_forms::ENTRY;
use crate::expand::expand;
use crate::program::{
    BufferId, Comparison, Grid, Print, PrintedValue, Role, SemaphoreRef, Slice, SliceEntry,
    Statement, StatementKind, TpuProgram, VariableId,
};
use compute::{Called, compute_text};
use rustc_hash::FxHashSet;
use std::fmt::Write;
use tegula_arena::{EntityRef, SecondaryMap};
use tegula_expr::{Cmp, Style, Term, Var};

/// The form in which a kernel is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrintForm {
    /// As it is, with grids as grids.
    #[default]
    Short,
    /// With every grid expanded into loops, starts and waits.
    Expanded,
}

/// Prints a kernel. Parsing the text and printing it again gives the same text.
pub fn print_kernel(program: &TpuProgram, form: PrintForm) -> String {
    let expanded;
    let program = match form {
        PrintForm::Short => program,
        PrintForm::Expanded => {
            expanded = expand(program).into_owned();
            &expanded
        }
    };
    let mut printer = Printer::new(program);
    printer.statements(&program.body, 1);
    let body = std::mem::take(&mut printer.out);
    let mut text = format!("kernel {} {{\n", identifier(&program.name, "kernel"));
    if program.emulates {
        text.push_str("  emulate\n");
    }
    for computation in printer.called.texts() {
        text.push_str("  computation ");
        text.push_str(&computation.replace('\n', "\n  "));
        text.push('\n');
    }
    for semaphores in program.semaphores.keys() {
        let array = &program.semaphores[semaphores];
        let name = &printer.names.semaphores[semaphores];
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  sem {name}[{}]", array.count);
    }
    text.push_str(&body);
    text.push_str("}\n");
    text
}

/// The text of one statement without its bodies, as findings show it.
pub fn print_statement(program: &TpuProgram, statement: &Statement) -> String {
    let mut printer = Printer::new(program);
    printer.statement_head(&statement.kind);
    let text = printer.out.trim();
    text.strip_suffix('{').unwrap_or(text).trim_end().to_owned()
}

/// The printed name of every buffer, semaphore, variable and register; each is a valid identifier.
pub(super) struct NamesOf {
    pub(super) buffers: SecondaryMap<BufferId, String>,
    semaphores: SecondaryMap<crate::program::SemaphoreId, String>,
    variables: SecondaryMap<VariableId, String>,
}

/// A name with characters that an identifier cannot contain replaced; `otherwise` if it is empty.
fn identifier(name: &str, otherwise: &str) -> String {
    let good = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '.' {
            c
        } else {
            '_'
        }
    };
    let mut text: String = name.trim_end_matches('.').chars().map(good).collect();
    while text.contains("..") {
        text = text.replace("..", ".");
    }
    match text.chars().next() {
        None => otherwise.to_owned(),
        Some(first) if first.is_ascii_alphabetic() || first == '_' => text,
        Some(_) => format!("_{text}"),
    }
}

fn unique(name: &str, taken: &mut FxHashSet<String>) -> String {
    let mut text = name.to_owned();
    let mut number = 1;
    while !taken.insert(text.clone()) {
        number += 1;
        text = format!("{name}_{number}");
    }
    text
}

impl NamesOf {
    /// A variable's printed name.
    pub(super) fn variable(&self, id: VariableId) -> &str {
        &self.variables[id]
    }

    fn new(program: &TpuProgram) -> Self {
        let mut taken = FxHashSet::default();
        let mut buffers = SecondaryMap::new();
        for (id, buffer) in &program.buffers {
            buffers[id] = unique(&identifier(&buffer.name, "buffer"), &mut taken);
        }
        let mut semaphores = SecondaryMap::new();
        for (id, array) in &program.semaphores {
            semaphores[id] = unique(&identifier(&array.name, "semaphore"), &mut taken);
        }
        let mut variables = SecondaryMap::new();
        for (id, variable) in &program.variables {
            variables[id] = identifier(&variable.name, "v").replace('.', "_");
        }
        Self {
            buffers,
            semaphores,
            variables,
        }
    }
}

pub(super) struct Printer<'p> {
    pub(super) program: &'p TpuProgram,
    pub(super) names: NamesOf,
    called: Called,
    out: String,
}

impl<'p> Printer<'p> {
    fn new(program: &'p TpuProgram) -> Self {
        Self {
            program,
            names: NamesOf::new(program),
            called: Called::new(ENTRY),
            out: String::new(),
        }
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = self.out.write_fmt(arguments);
    }

    fn statements(&mut self, statements: &[Statement], depth: usize) {
        for statement in statements {
            self.out.push_str(&"  ".repeat(depth));
            self.statement_head(&statement.kind);
            match &statement.kind {
                StatementKind::For { body, .. } => self.block(body, depth),
                StatementKind::While {
                    condition,
                    test,
                    body,
                } => {
                    self.block(condition, depth);
                    let test = self.comparison(test);
                    self.write(format_args!(" {test} {{"));
                    self.block(body, depth);
                }
                StatementKind::If {
                    then, otherwise, ..
                } => {
                    self.block(then, depth);
                    if !otherwise.is_empty() {
                        self.out.push_str(" else {");
                        self.block(otherwise, depth);
                    }
                }
                StatementKind::Grid(grid) => {
                    self.out.push('\n');
                    self.windows(grid, depth + 1);
                    self.statements(&grid.body, depth + 1);
                    self.out.push_str(&"  ".repeat(depth));
                    self.out.push('}');
                }
                _ => {}
            }
            self.out.push('\n');
        }
    }

    fn block(&mut self, body: &[Statement], depth: usize) {
        self.out.push('\n');
        self.statements(body, depth + 1);
        self.out.push_str(&"  ".repeat(depth));
        self.out.push('}');
    }

    /// Prints a statement up to and including the brace of its body.
    fn statement_head(&mut self, kind: &StatementKind) {
        match kind {
            StatementKind::Declare(buffer) => self.declaration(*buffer),
            StatementKind::Free(buffer) => {
                let name = self.names.buffers[*buffer].clone();
                self.write(format_args!("free {name}"));
            }
            StatementKind::Launch => self.out.push_str("launch"),
            StatementKind::Start {
                source,
                destination,
                semaphore,
                remote,
            } => {
                let (from, to) = (self.slice(source), self.slice(destination));
                let semaphore = self.semaphore(semaphore);
                self.write(format_args!("dma_start {from} -> {to}, {semaphore}"));
                if let Some(remote) = remote {
                    let core = self.term(&remote.core);
                    self.write(format_args!(" on core {core}"));
                    if let Some(sent) = &remote.sent {
                        let sent = self.semaphore(sent);
                        self.write(format_args!(" sent {sent}"));
                    }
                }
            }
            StatementKind::WaitCopy {
                source,
                destination,
                semaphore,
            } => {
                let (from, to) = (self.slice(source), self.slice(destination));
                let semaphore = self.semaphore(semaphore);
                self.write(format_args!("dma_wait {semaphore} for {from} -> {to}"));
            }
            StatementKind::Vector(block) => {
                let text = match &block.operations[..] {
                    // A finding is about a single operation.
                    [one] => self.vector_operation(one),
                    _ => self.vector_block(block, &self.indent()),
                };
                self.out.push_str(&text);
            }
            StatementKind::Scalar {
                variable,
                operation,
                operands,
            } => {
                let operands: Vec<String> = operands.iter().map(|term| self.term(term)).collect();
                let value = self.scalar_operation(operation, &operands);
                let name = self.names.variables[*variable].clone();
                self.write(format_args!("let {name} = {value}"));
            }
            StatementKind::StoreScalar { destination, value } => {
                let (destination, value) = (self.slice(destination), self.term(value));
                self.write(format_args!("{destination} = {value}"));
            }
            StatementKind::AssumeMultiple {
                variable,
                value,
                multiple,
                ..
            } => {
                let name = self.names.variables[*variable].clone();
                let value = self.term(value);
                self.write(format_args!(
                    "let {name} = multiple_of({value}, {multiple})"
                ));
            }
            StatementKind::ReadSemaphore {
                variable,
                semaphore,
            } => {
                let name = self.names.variables[*variable].clone();
                let semaphore = self.semaphore(semaphore);
                self.write(format_args!("let {name} = count({semaphore})"));
            }
            StatementKind::CoreNumber { variable } => {
                let name = self.names.variables[*variable].clone();
                self.write(format_args!("let {name} = core"));
            }
            StatementKind::Delay { nanoseconds } => {
                let nanoseconds = self.term(nanoseconds);
                self.write(format_args!("delay {nanoseconds}"));
            }
            StatementKind::Print(print) => self.print(print),
            StatementKind::Assert { condition, message } => {
                let condition = self.term(condition);
                let _ = write!(self.out, "assert {condition}, {message:?}");
            }
            StatementKind::Require { condition, .. } => {
                let condition = self.term(condition);
                let _ = write!(self.out, "require {condition}");
            }
            StatementKind::Wait { semaphore, bytes } => {
                let semaphore = self.semaphore(semaphore);
                self.write(format_args!("dma_wait {semaphore}"));
                if let Some(bytes) = bytes {
                    let bytes = self.term(bytes);
                    self.write(format_args!(", {bytes}"));
                }
            }
            StatementKind::Signal {
                semaphore,
                amount,
                core,
            } => {
                let (semaphore, amount) = (self.semaphore(semaphore), self.term(amount));
                self.write(format_args!("signal {semaphore}, {amount}"));
                if let Some(core) = core {
                    let core = self.term(core);
                    self.write(format_args!(" on core {core}"));
                }
            }
            StatementKind::Await { semaphore, amount } => {
                let (semaphore, amount) = (self.semaphore(semaphore), self.term(amount));
                self.write(format_args!("semaphore_wait {semaphore}, {amount}"));
            }
            StatementKind::Compute(compute) => {
                let text = compute_text(self, compute);
                self.out.push_str(&text);
            }
            StatementKind::For {
                variable,
                low,
                high,
                ..
            } => {
                let name = self.names.variables[*variable].clone();
                let (low, high) = (self.term(low), self.term(high));
                self.write(format_args!("for {name} in {low}..{high} {{"));
            }
            StatementKind::While { .. } => self.out.push_str("while {"),
            StatementKind::If { condition, .. } => {
                let condition = self.comparison(condition);
                self.write(format_args!("if {condition} {{"));
            }
            StatementKind::Let { variable, value } => {
                let name = self.names.variables[*variable].clone();
                let value = self.term(value);
                self.write(format_args!("let {name} = {value}"));
            }
            StatementKind::Set { variable, value } => {
                let name = self.names.variables[*variable].clone();
                let value = self.term(value);
                self.write(format_args!("set {name} = {value}"));
            }
            StatementKind::Load { variable, source } => {
                let name = self.names.variables[*variable].clone();
                let source = self.slice(source);
                self.write(format_args!("let {name} = load({source})"));
            }
            StatementKind::Assume {
                variable,
                low,
                high,
            } => {
                let name = self.names.variables[*variable].clone();
                let (low, high) = (self.term(low), self.term(high));
                self.write(format_args!("assume {name} in [{low}, {high}]"));
            }
            StatementKind::Grid(grid) => {
                let dimensions = grid.dimensions.iter().map(|dimension| {
                    let parallel = if dimension.parallel { "parallel " } else { "" };
                    let name = &self.names.variables[dimension.variable];
                    let (low, high) = (self.term(&dimension.low), self.term(&dimension.high));
                    format!("{parallel}{name} in {low}..{high}")
                });
                let dimensions: Vec<String> = dimensions.collect();
                self.write(format_args!("grid {} {{", dimensions.join(", ")));
            }
        }
    }

    fn declaration(&mut self, id: BufferId) {
        let Some(buffer) = self.program.buffers.get(id) else {
            return;
        };
        let name = self.names.buffers[id].clone();
        self.write(format_args!(
            "{} {name} : {}",
            buffer.space.name(),
            buffer.shape
        ));
        match buffer.role {
            Role::Scratch => {}
            Role::Parameter(number) => self.write(format_args!(" = parameter({number})")),
            Role::Result(number) => self.write(format_args!(" = result({number})")),
            Role::Updated { parameter, result } => {
                self.write(format_args!(" = parameter({parameter}) = result({result})"));
            }
        }
        if let Some(offset) = buffer.offset {
            self.write(format_args!(" at {offset}"));
        }
        if buffer.program_lifetime {
            self.out.push_str(" program");
        }
    }

    fn windows(&mut self, grid: &Grid, depth: usize) {
        for window in &grid.windows {
            let indent = "  ".repeat(depth);
            let out = if window.output { "out " } else { "" };
            let block = self.names.buffers[window.block].clone();
            let array = self.names.buffers[window.array].clone();
            let sizes: Vec<String> = window.sizes.iter().map(ToString::to_string).collect();
            let indices: Vec<String> = window.indices.iter().map(|t| self.term(t)).collect();
            let offset = self.program.buffers[window.block].offset;
            let place = offset.map_or(String::new(), |offset| format!(" at {offset}"));
            if !window.transform.is_empty() {
                self.out.push_str(&format!("{indent}at {{\n"));
                self.statements(&window.transform, depth + 1);
                self.out.push_str(&format!("{indent}}}\n"));
            }
            let line = format!(
                "{indent}window {out}{block} = {array} block ({}) at ({}) buffers {}{place}\n",
                sizes.join(", "),
                indices.join(", "),
                window.buffers
            );
            self.out.push_str(&line);
        }
    }

    /// The indentation of the line that is being written.
    fn indent(&self) -> String {
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        line.chars().take_while(|c| *c == ' ').collect()
    }

    pub(super) fn term(&self, term: &Term) -> String {
        let name = |var: Var| self.names.variables[VariableId::new(var.0 as usize)].clone();
        term.display(&name, Style::Document).to_string()
    }

    fn print(&mut self, print: &Print) {
        let _ = write!(self.out, "print {:?}", print.text);
        for value in &print.values {
            let value = match value {
                PrintedValue::Scalar(term, _) => self.term(term),
                PrintedValue::Array(slice, _) => self.slice(slice),
            };
            let _ = write!(self.out, ", {value}");
        }
    }

    fn comparison(&self, condition: &Comparison) -> String {
        let operator = match condition.cmp {
            Cmp::Eq => "==",
            Cmp::Ne => "!=",
            Cmp::Lt => "<",
            Cmp::Le => "<=",
        };
        let side = |term: &Term| {
            let text = self.term(term);
            match term.node() {
                tegula_expr::Node::Cmp(..) => format!("({text})"),
                _ => text,
            }
        };
        format!(
            "{} {operator} {}",
            side(&condition.left),
            side(&condition.right)
        )
    }

    fn semaphore(&self, semaphore: &SemaphoreRef) -> String {
        let name = &self.names.semaphores[semaphore.array];
        format!("{name}[{}]", self.term(&semaphore.index))
    }

    pub(super) fn entry(&self, entry: &SliceEntry) -> String {
        match entry {
            SliceEntry::Whole => ":".to_owned(),
            SliceEntry::Element(at) => self.term(at),
            SliceEntry::Sized { start, size } => {
                format!("{} +: {}", self.term(start), self.term(size))
            }
            SliceEntry::Range {
                start,
                size,
                clipped,
            } => {
                let clipped = if *clipped { " clipped" } else { "" };
                format!("{} +: {size}{clipped}", self.term(start))
            }
        }
    }

    pub(super) fn slice(&self, slice: &Slice) -> String {
        let entries: Vec<String> = slice
            .entries
            .iter()
            .map(|entry| self.entry(entry))
            .collect();
        format!(
            "{}[{}]",
            self.names.buffers[slice.buffer],
            entries.join(", ")
        )
    }
}
