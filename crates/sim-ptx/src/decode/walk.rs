//! Decodes the statements of a kernel, and of the functions that it calls, which are inlined.

use super::builder::{Builder, Entity};
use super::instruction::Decoding;
use super::kernel::{Kernel, Parameter, Variables};
use super::{flow, table};
use crate::operation::Op;
use crate::text::ParseError;
use crate::text::syntax::{Function, Operand, Position, Raw, Source, Statement};

/// The maximum depth of calls.
const DEEPEST_CALL: u32 = 32;

/// Decodes one kernel.
pub(crate) fn decode<'a>(
    source: &'a Source<'a>,
    variables: &'a Variables<'a>,
    function: &'a Function<'a>,
) -> Result<Kernel, ParseError> {
    let mut builder = Builder::new(source, variables);
    let mut params = Vec::new();
    let mut param_bytes = 0u64;
    for param in &function.params {
        let offset = param_bytes.next_multiple_of(param.align);
        param_bytes = offset + param.bytes;
        builder.scopes[0]
            .names
            .insert(param.name, Entity::Param(offset));
        params.push(Parameter {
            name: param.name.to_owned(),
            offset,
            bytes: param.bytes,
        });
    }
    builder.statements(function.body.as_deref().unwrap_or_default())?;
    builder.resolve_jumps(0)?;
    builder.emit(Op::Exit, None, function.position)?;
    for index in std::mem::take(&mut builder.returns) {
        builder.code[index].op = Op::Exit;
    }
    flow::reconverge(&mut builder.code);
    Ok(Kernel {
        name: function.name.to_owned(),
        code: builder.code,
        places: builder.places,
        words: builder.words,
        doubles: builder.doubles,
        predicates: builder.predicates,
        fills: builder.fills,
        params,
        param_bytes,
        static_shared: builder.shared,
        dynamic_align: builder.dynamic_align,
        local: builder.local.next_multiple_of(16),
        threads: function.threads,
    })
}

impl<'a> Builder<'a> {
    fn statements(&mut self, statements: &'a [Statement<'a>]) -> Result<(), ParseError> {
        let outer = self.scope;
        for statement in statements {
            match statement {
                Statement::Register {
                    kind,
                    name,
                    count,
                    position,
                } => {
                    self.registers(kind, name, *count, *position)?;
                }
                Statement::Variable(variable) => self.variable(variable)?,
                Statement::Label { name, position } => {
                    let at = self.code.len() as u32;
                    if self.scopes[self.scope].labels.insert(name, at).is_some() {
                        return Err(ParseError::new(
                            *position,
                            format!("the label `{name}` occurs twice"),
                        ));
                    }
                }
                Statement::Targets { name, labels } => {
                    self.scopes[self.scope].tables.insert(name, labels.clone());
                }
                Statement::Open => self.open(Some(self.scope)),
                Statement::Close => self.scope = self.scopes[self.scope].parent.unwrap_or(outer),
                Statement::Line(line) => self.line = Some(*line),
                Statement::Instruction(raw) => self.instruction(raw)?,
            }
        }
        self.scope = outer;
        Ok(())
    }

    fn instruction(&mut self, raw: &'a Raw<'a>) -> Result<(), ParseError> {
        match raw.opcode {
            "call" => return self.call(raw),
            "ret" => {
                let index = self.code.len();
                self.returns.push(index);
                return self.emit(Op::Exit, raw.guard, raw.position);
            }
            _ => {}
        }
        let Some(entry) = table::find(raw.opcode) else {
            return Err(ParseError::new(
                raw.position,
                format!("the instruction `{}` is not supported", raw.opcode),
            ));
        };
        let mut decoding = Decoding::new(raw, self);
        let op = (entry.decode)(&mut decoding)?;
        decoding.finish()?;
        self.emit(op, raw.guard, raw.position)
    }

    /// Inlines the called function.
    fn call(&mut self, raw: &'a Raw<'a>) -> Result<(), ParseError> {
        let error = |message: String| ParseError::new(raw.position, message);
        if raw.modifiers.iter().any(|m| *m != "uni") {
            return Err(error(format!(
                "`call.{}` is not supported",
                raw.modifiers.join(".")
            )));
        }
        if raw.guard.is_some() {
            return Err(error(
                "a call under a predicate is not supported: branch around it".to_owned(),
            ));
        }
        let mut operands = raw.operands.iter();
        let mut next = operands.next();
        let results: &[Operand<'a>] = if let Some(Operand::List(results)) = next {
            next = operands.next();
            results
        } else {
            &[]
        };
        let Some(Operand::Name(name)) = next else {
            return Err(error("a call needs the name of a function".to_owned()));
        };
        let arguments: &[Operand<'a>] = if let Some(Operand::List(arguments)) = operands.next() {
            arguments
        } else {
            &[]
        };
        if operands.next().is_some() {
            return Err(error(
                "calls through a register are not supported".to_owned(),
            ));
        }
        if *name == "__assertfail" {
            return self.emit(Op::AssertFail, None, raw.position);
        }
        let source = self.source;
        let mut named = source.functions.iter().filter(|f| f.name == *name);
        let Some(function) = named.find(|f| f.body.is_some()) else {
            let hint = if *name == "vprintf" {
                ": remove printf"
            } else {
                ""
            };
            return Err(error(format!(
                "the function `{name}` has no body in this module{hint}"
            )));
        };
        if self.depth >= DEEPEST_CALL {
            return Err(error(format!(
                "calls more than {DEEPEST_CALL} deep, or a recursion through `{name}`"
            )));
        }
        if arguments.len() != function.params.len() || results.len() != function.returns.len() {
            return Err(error(format!(
                "the call of `{name}` has the wrong number of parameters or results"
            )));
        }
        self.inline(function, results, arguments, raw.position)
    }

    fn inline(
        &mut self,
        function: &'a Function<'a>,
        results: &[Operand<'a>],
        arguments: &[Operand<'a>],
        position: Position,
    ) -> Result<(), ParseError> {
        // Arguments are `.param` variables, which are in local memory here. The callee's names
        // refer to the same bytes.
        let mut bound = Vec::new();
        let pairs = function
            .params
            .iter()
            .zip(arguments)
            .chain(function.returns.iter().zip(results));
        for (parameter, argument) in pairs {
            let entity = if let Operand::Name(name) = argument {
                self.lookup(name)
            } else {
                None
            };
            let Some(Entity::Local(offset)) = entity else {
                let message = format!(
                    "the argument for `{}` is not a `.param` variable",
                    parameter.name
                );
                return Err(ParseError::new(position, message));
            };
            bound.push((parameter.name, Entity::Local(offset)));
        }
        let (outer, line) = (self.scope, self.line);
        let returns = std::mem::take(&mut self.returns);
        let first_jump = self.jumps.len();
        self.depth += 1;
        self.open(None);
        self.scopes[self.scope].names.extend(bound);
        self.statements(function.body.as_deref().unwrap_or_default())?;
        self.resolve_jumps(first_jump)?;
        self.depth -= 1;
        let end = self.code.len() as u32;
        for index in std::mem::replace(&mut self.returns, returns) {
            self.code[index].op = Op::Branch {
                target: end,
                reconverge: 0,
            };
        }
        (self.scope, self.line) = (outer, line);
        // The end needs an instruction, because a kernel may end with an inlined function.
        self.emit(Op::Nop, None, position)
    }
}
