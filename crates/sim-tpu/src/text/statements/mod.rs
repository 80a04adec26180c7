//! The parser for kernels and their statements.

mod computations;
mod loads;

use super::cursor::{Cursor, Read};
use crate::program::{
    BufferId, Compute, Operand, SemaphoreId, Space, Statement, StatementKind, TpuProgram, Variable,
    VariableId,
};
use computations::Computations;
use loads::Loads;
use rustc_hash::FxHashMap;
use tegula_expr::Term;

/// The deepest nesting of bodies.
const MAX_NESTING: usize = 64;
/// The most statements of a kernel.
const MAX_STATEMENTS: usize = 1 << 20;

/// The parser's state.
pub(super) struct Reader<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) program: TpuProgram,
    pub(super) buffers: FxHashMap<String, BufferId>,
    pub(super) semaphores: FxHashMap<String, SemaphoreId>,
    /// The names in scope, innermost last.
    pub(super) variables: Vec<(String, VariableId)>,
    pub(super) computations: Computations,
    pub(super) loads: Loads,
    nesting: usize,
    statements: usize,
}

/// Words that a name in a term cannot be.
const OPERATORS: [&str; 10] = [
    "mod", "floordiv", "ceildiv", "floorDiv", "ceilDiv", "min", "max", "select", "in", "clipped",
];

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a str, text: &'a str) -> Self {
        Self {
            cursor: Cursor::new(source, text),
            program: TpuProgram::default(),
            buffers: FxHashMap::default(),
            semaphores: FxHashMap::default(),
            variables: Vec::new(),
            computations: Computations::default(),
            loads: Loads::default(),
            nesting: 0,
            statements: 0,
        }
    }

    /// Parses `kernel NAME { ... }` and nothing else.
    pub(super) fn kernel(mut self) -> Read<TpuProgram> {
        if !self.cursor.eat_word("kernel") {
            return Err(self.cursor.error("expected `kernel`"));
        }
        self.cursor
            .name("the kernel")?
            .clone_into(&mut self.program.name);
        self.cursor.expect("{")?;
        self.program.body = self.statements_to_brace()?;
        if self.cursor.peek().is_some() {
            return Err(self
                .cursor
                .error("expected the end of the text after the kernel"));
        }
        Ok(self.program)
    }

    pub(super) fn variable(&self, name: &str) -> Option<VariableId> {
        let found = self.variables.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, id)| *id)
    }

    fn new_variable(&mut self) -> Read<VariableId> {
        self.cursor.space();
        let start = self.cursor.at;
        let name = self.cursor.name("a variable")?;
        if name.contains('.') || OPERATORS.contains(&name) {
            let message = format!("`{name}` cannot be the name of a variable");
            return Err(self.cursor.error_at(start, start + name.len(), message));
        }
        let variable = Variable {
            name: name.to_owned(),
            range: None,
        };
        Ok(self.program.variables.push(variable))
    }

    fn in_scope(&mut self, variable: VariableId) {
        let name = self.program.variables[variable].name.clone();
        self.variables.push((name, variable));
    }

    /// Parses statements up to and including `}`. Names defined in the body go out of scope.
    pub(super) fn statements_to_brace(&mut self) -> Read<Vec<Statement>> {
        let scope = self.variables.len();
        let body = self.statements_in_scope()?;
        self.variables.truncate(scope);
        Ok(body)
    }

    /// Like [`Self::statements_to_brace`], but the names stay in scope.
    fn statements_in_scope(&mut self) -> Read<Vec<Statement>> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            let message = format!("bodies are nested more than {MAX_NESTING} deep");
            return Err(self.cursor.error(message));
        }
        // Statements for loads of the enclosing statement do not belong to its body.
        let outside = std::mem::take(&mut self.loads.before);
        let mut body = Vec::new();
        loop {
            while self.cursor.eat(";") {}
            if self.cursor.eat("}") {
                break;
            }
            if self.cursor.peek().is_none() {
                return Err(self.cursor.error("expected a statement or `}`"));
            }
            self.statements += 1;
            if self.statements > MAX_STATEMENTS {
                let message = format!("a kernel has at most {MAX_STATEMENTS} statements");
                return Err(self.cursor.error(message));
            }
            let line = self.cursor.line_of(self.cursor.at);
            let kind = self.statement()?;
            body.append(&mut self.loads.before);
            body.extend(kind.map(|kind| Statement { kind, line }));
            body.append(&mut self.loads.behind);
        }
        self.loads.before = outside;
        self.nesting -= 1;
        Ok(body)
    }

    fn statement(&mut self) -> Read<Option<StatementKind>> {
        let word = self.cursor.word();
        if word.is_empty() || self.cursor.behind_word() == Some(b'[') {
            return self.compute().map(Some);
        }
        let start = self.cursor.at;
        self.cursor.at += word.len();
        if let Some(space) = Space::from_name(word) {
            return self.buffer(space).map(Some);
        }
        let kind = match word {
            "sem" => {
                self.semaphore_arrays()?;
                return Ok(None);
            }
            "emulate" if self.nesting == 1 => {
                self.program.emulates = true;
                return Ok(None);
            }
            "computation" if self.nesting == 1 => {
                let Self {
                    cursor,
                    computations,
                    ..
                } = self;
                computations.read(cursor)?;
                return Ok(None);
            }
            "free" => self.free()?,
            "launch" => StatementKind::Launch,
            // `start`, `wait` and `await` are accepted for older texts.
            "dma_start" | "start" => self.start()?,
            "dma_wait" | "wait" => {
                let semaphore = self.semaphore()?;
                let bytes = self.cursor.same_line() && self.cursor.eat(",");
                let bytes = bytes.then(|| self.term(&[";"], true)).transpose()?;
                StatementKind::Wait { semaphore, bytes }
            }
            "signal" | "semaphore_wait" | "await" => {
                let semaphore = self.semaphore()?;
                let stated = self.cursor.same_line() && self.cursor.eat(",");
                let amount = if stated {
                    self.term(&[";"], true)?
                } else {
                    Term::constant(1)
                };
                if word == "signal" {
                    StatementKind::Signal {
                        semaphore,
                        amount,
                        core: None,
                    }
                } else {
                    StatementKind::Await { semaphore, amount }
                }
            }
            "for" => {
                let scope = self.variables.len();
                let (variable, low, high) = self.range(&["{"])?;
                self.cursor.expect("{")?;
                let body = self.statements_to_brace()?;
                self.variables.truncate(scope);
                StatementKind::For {
                    variable,
                    low,
                    high,
                    body,
                }
            }
            "while" => self.while_loop()?,
            "if" => self.branches()?,
            "let" => self.name_value()?,
            "set" => {
                let variable = self.known_variable()?;
                self.cursor.expect("=")?;
                let value = self.term(&[";"], true)?;
                StatementKind::Set { variable, value }
            }
            "assume" => return self.assume(),
            "grid" => self.grid()?,
            _ => {
                let message = format!("`{word}` does not begin a statement");
                let end = start + word.len();
                return Err(self.cursor.error_at(start, end, message));
            }
        };
        Ok(Some(kind))
    }

    fn free(&mut self) -> Read<StatementKind> {
        self.cursor.space();
        let start = self.cursor.at;
        let name = self.cursor.name("a buffer")?;
        match self.buffers.get(name) {
            Some(&buffer) => Ok(StatementKind::Free(buffer)),
            None => {
                let message = format!("buffer `{name}` is not declared");
                Err(self.cursor.error_at(start, start + name.len(), message))
            }
        }
    }

    /// Parses `SRC -> DST, SEM`.
    fn start(&mut self) -> Read<StatementKind> {
        self.cursor.space();
        let at = self.cursor.at;
        let source = self.slice()?;
        self.cursor.expect("->")?;
        let destination = self.slice()?;
        let end = self.cursor.at;
        self.cursor.expect(",")?;
        let semaphore = self.semaphore()?;
        let shapes = (
            source.shape(&self.program),
            destination.shape(&self.program),
        );
        if let (Some(from), Some(to)) = &shapes
            && from != to
        {
            let message =
                format!("the source is {from} and the destination {to}: a copy needs equal shapes");
            return Err(self.cursor.error_at(at, end, message));
        }
        Ok(StatementKind::Start {
            source,
            destination,
            semaphore,
            remote: None,
        })
    }

    /// Parses `NAME in LOW..HIGH`; the name is in scope afterwards.
    pub(super) fn range(&mut self, stops: &[&str]) -> Read<(VariableId, Term, Term)> {
        let variable = self.new_variable()?;
        if !self.cursor.eat_word("in") {
            return Err(self.cursor.error("expected `in` and a range"));
        }
        let low = self.term(&[".."], false)?;
        self.cursor.expect("..")?;
        let high = self.term(stops, false)?;
        self.in_scope(variable);
        Ok((variable, low, high))
    }

    /// Parses `{ statements } COMPARISON { statements }`; names of the first body are in scope in
    /// the rest.
    fn while_loop(&mut self) -> Read<StatementKind> {
        let scope = self.variables.len();
        self.cursor.expect("{")?;
        let mut condition = self.statements_in_scope()?;
        let test = self.comparison()?;
        condition.append(&mut self.loads.before);
        self.cursor.expect("{")?;
        let body = self.statements_to_brace()?;
        self.variables.truncate(scope);
        Ok(StatementKind::While {
            condition,
            test,
            body,
        })
    }

    fn branches(&mut self) -> Read<StatementKind> {
        let condition = self.comparison()?;
        self.cursor.expect("{")?;
        let then = self.statements_to_brace()?;
        let mut otherwise = Vec::new();
        if self.cursor.eat_word("else") {
            self.cursor.expect("{")?;
            otherwise = self.statements_to_brace()?;
        }
        Ok(StatementKind::If {
            condition,
            then,
            otherwise,
        })
    }

    /// Parses `NAME = TERM` or `NAME = load(SLICE)` after `let`.
    fn name_value(&mut self) -> Read<StatementKind> {
        let variable = self.new_variable()?;
        self.cursor.expect("=")?;
        self.cursor.space();
        let start = self.cursor.at;
        let kind = match self.lone_load()? {
            Some(source) => {
                let line = self.cursor.line_of(start);
                let range = self.range_of_load(variable, &source);
                let range = range.map(|kind| Statement { kind, line });
                self.loads.behind.extend(range);
                StatementKind::Load { variable, source }
            }
            None => StatementKind::Let {
                variable,
                value: self.term(&[";"], true)?,
            },
        };
        self.in_scope(variable);
        Ok(kind)
    }

    fn known_variable(&mut self) -> Read<VariableId> {
        self.cursor.space();
        let start = self.cursor.at;
        let name = self.cursor.name("a variable")?;
        let message = format!("variable `{name}` is not declared");
        let wrong = self.cursor.error_at(start, start + name.len(), message);
        self.variable(name).ok_or(wrong)
    }

    /// Parses `NAME in [low, high]`, where the name is a variable or an array of scalars.
    fn assume(&mut self) -> Read<Option<StatementKind>> {
        self.cursor.space();
        let start = self.cursor.at;
        let name = self.cursor.word();
        let scalars = self.buffers.get(name).copied();
        let scalars = scalars.filter(|&id| self.program.buffers[id].space == Space::Smem);
        let variable = match (self.variable(name), scalars) {
            (None, Some(_)) => {
                self.cursor.at += name.len();
                None
            }
            _ => Some(self.known_variable()?),
        };
        if !self.cursor.eat_word("in") {
            return Err(self.cursor.error("expected `in [low, high]`"));
        }
        self.cursor.expect("[")?;
        let low = self.term(&[","], false)?;
        self.cursor.expect(",")?;
        let high = self.term(&[], false)?;
        self.cursor.expect("]")?;
        if let Some(variable) = variable {
            return Ok(Some(self.assumed(variable, low, high)));
        }
        match scalars {
            Some(buffer) if self.assumed_of_elements(buffer, &low, &high) => Ok(None),
            _ => {
                let message = "expected numbers as the bounds of an array's elements";
                Err(self.cursor.error_at(start, self.cursor.at, message))
            }
        }
    }

    /// Parses `DST = op(operands), attributes`; several destinations are in parentheses.
    fn compute(&mut self) -> Read<StatementKind> {
        self.cursor.space();
        let start = self.cursor.at;
        let mut destinations = Vec::new();
        if self.cursor.eat("(") {
            loop {
                destinations.push(self.slice()?);
                if self.cursor.eat(")") {
                    break;
                }
                self.cursor.expect(",")?;
            }
        } else {
            destinations.push(self.slice()?);
        }
        let accumulate = self.cursor.eat("+=");
        if !accumulate {
            self.cursor.expect("=")?;
        }
        let (operation, operands) = self.operation(&destinations)?;
        let end = self.cursor.at;
        let slices = operands.iter().filter_map(|operand| match operand {
            Operand::Slice(slice) => Some(slice),
            Operand::Literal(_) => None,
        });
        for slice in slices.chain(&destinations) {
            let buffer = &self.program.buffers[slice.buffer];
            if !matches!(buffer.space, Space::Vmem | Space::Smem) {
                let message = format!(
                    "`{}` is in {}: the core computes on VMEM and SMEM, so copy it there first",
                    buffer.name,
                    buffer.space.name().to_uppercase()
                );
                return Err(self.cursor.error_at(start, end, message));
            }
        }
        Ok(StatementKind::Compute(Box::new(Compute {
            destinations,
            accumulate,
            operation,
            operands,
        })))
    }
}
