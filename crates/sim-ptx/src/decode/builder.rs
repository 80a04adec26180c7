//! Walks the statements of a kernel and of the functions it calls.

use std::collections::HashMap;

use super::instruction::Decoding;
use super::{flow, table};
use crate::operation::{Instruction, Op, P, R32, R64, Slot, Test, Type};
use crate::text::ParseError;
use crate::text::syntax::{
    Function, Operand, Position, Raw, Source, SourceLine, Statement, Variable,
};

/// Calls within calls that are followed.
const DEEPEST_CALL: u32 = 32;
/// Instructions of a kernel with its calls written out.
const MOST_INSTRUCTIONS: usize = 1 << 18;

/// Registers of a kernel of each size, with its calls written out.
const MOST_REGISTERS: u32 = 1 << 18;
/// Bytes of local memory that a thread can have on a device.
const MOST_LOCAL: u64 = 512 << 10;

/// A kernel ready to run.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) code: Vec<Instruction>,
    /// Where each instruction comes from.
    pub(crate) places: Vec<Place>,
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    /// Slots that have their value before the kernel starts.
    pub(crate) fills: Vec<(Slot, Fill)>,
    pub(crate) params: Vec<Parameter>,
    pub(crate) param_bytes: u64,
    pub(crate) static_shared: u64,
    /// Alignment of the dynamic shared memory, which follows the static one.
    pub(crate) dynamic_align: u64,
    /// Bytes of local memory of a thread.
    pub(crate) local: u64,
    pub(crate) threads: Option<([u32; 3], bool)>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the PTX.
    pub name: String,
    /// Byte offset in the parameter buffer.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// The place of an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) source: Option<SourceLine>,
}

/// What a slot holds from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    Bits(u64),
    Special(Special),
    /// The address of a module variable plus bytes.
    Variable {
        index: u32,
        offset: i64,
    },
    /// The address of dynamic shared memory, `generic`: in the generic space.
    Dynamic {
        offset: i64,
    },
}

/// Special registers that do not change while a block runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Thread(u8),
    BlockSize(u8),
    Block(u8),
    GridSize(u8),
    Lane,
    Warp,
    Warps,
    Multiprocessor,
    Multiprocessors,
    LaneMaskEq,
    LaneMaskLt,
    LaneMaskLe,
    LaneMaskGt,
    LaneMaskGe,
    DynamicShared,
    TotalShared,
    GridId,
}

/// Module variables by name, in the order of the text.
pub(crate) type Variables<'a> = HashMap<&'a str, (u32, &'a Variable<'a>)>;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entity {
    Word(R32),
    Double(R64),
    Predicate(P),
    Shared(u64),
    Dynamic,
    Local(u64),
    Param(u64),
    Variable(u32),
}

#[derive(Debug, Default)]
struct Scope<'a> {
    parent: Option<usize>,
    names: HashMap<&'a str, Entity>,
    /// `.reg .b32 %r<9>`: count and first slot by prefix.
    ranges: HashMap<&'a str, (u32, Entity)>,
    labels: HashMap<&'a str, u32>,
    tables: HashMap<&'a str, Vec<&'a str>>,
}

/// A jump whose target is filled in when its function ends.
struct Jump<'a> {
    instruction: usize,
    scope: usize,
    label: &'a str,
    position: Position,
}

pub(super) struct Builder<'a> {
    source: &'a Source<'a>,
    variables: &'a Variables<'a>,
    code: Vec<Instruction>,
    places: Vec<Place>,
    line: Option<SourceLine>,
    words: u32,
    doubles: u32,
    predicates: u32,
    fills: Vec<(Slot, Fill)>,
    filled: HashMap<(bool, Fill), Slot>,
    scopes: Vec<Scope<'a>>,
    scope: usize,
    jumps: Vec<Jump<'a>>,
    /// Instructions that return from the function being written out.
    returns: Vec<usize>,
    depth: u32,
    shared: u64,
    /// Module-level shared variables that the kernel names, by variable.
    module_shared: HashMap<u32, u64>,
    dynamic_align: u64,
    local: u64,
}

/// Decodes one kernel.
pub(crate) fn decode<'a>(
    source: &'a Source<'a>,
    variables: &'a Variables<'a>,
    function: &'a Function<'a>,
) -> Result<Kernel, ParseError> {
    let mut builder = Builder {
        source,
        variables,
        code: Vec::new(),
        places: Vec::new(),
        line: None,
        words: 0,
        doubles: 0,
        predicates: 0,
        fills: Vec::new(),
        filled: HashMap::new(),
        scopes: vec![Scope::default()],
        scope: 0,
        jumps: Vec::new(),
        returns: Vec::new(),
        depth: 0,
        shared: 0,
        module_shared: HashMap::new(),
        dynamic_align: 16,
        local: 0,
    };
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

    fn open(&mut self, parent: Option<usize>) {
        self.scopes.push(Scope {
            parent,
            ..Scope::default()
        });
        self.scope = self.scopes.len() - 1;
    }

    fn registers(
        &mut self,
        kind: &str,
        name: &'a str,
        count: Option<u32>,
        position: Position,
    ) -> Result<(), ParseError> {
        let Some(kind) = Type::parse(kind) else {
            return Err(ParseError::new(
                position,
                format!("registers of type `.{kind}` are not supported"),
            ));
        };
        let first = self.allocate(kind, count.unwrap_or(1));
        if self.words.max(self.doubles).max(self.predicates) > MOST_REGISTERS {
            return Err(ParseError::new(
                position,
                "more than 2^18 registers of a size",
            ));
        }
        let scope = &mut self.scopes[self.scope];
        match count {
            Some(count) => drop(scope.ranges.insert(name, (count, first))),
            None => drop(scope.names.insert(name, first)),
        }
        Ok(())
    }

    fn allocate(&mut self, kind: Type, count: u32) -> Entity {
        let take = |next: &mut u32| {
            *next += count;
            *next - count
        };
        match kind.bits() {
            1 => Entity::Predicate(P(take(&mut self.predicates))),
            64 => Entity::Double(R64(take(&mut self.doubles))),
            _ => Entity::Word(R32(take(&mut self.words))),
        }
    }

    /// A register that no name has.
    pub(super) fn scratch_word(&mut self) -> R32 {
        self.words += 1;
        R32(self.words - 1)
    }

    /// A register of 64 bits that no name has.
    pub(super) fn scratch_double(&mut self) -> R64 {
        self.doubles += 1;
        R64(self.doubles - 1)
    }

    /// A predicate that no name has.
    pub(super) fn scratch_predicate(&mut self) -> P {
        self.predicates += 1;
        P(self.predicates - 1)
    }

    fn variable(&mut self, variable: &'a Variable<'a>) -> Result<(), ParseError> {
        let place = |end: &mut u64| {
            let offset = end.next_multiple_of(variable.align);
            *end = offset + variable.bytes;
            offset
        };
        let entity = match variable.space {
            "shared" if variable.bytes == 0 => {
                self.dynamic_align = self.dynamic_align.max(variable.align);
                Entity::Dynamic
            }
            "shared" => Entity::Shared(place(&mut self.shared)),
            "local" | "param" => Entity::Local(place(&mut self.local)),
            space => {
                let message = format!(
                    "`.{space}` variables in functions are not supported: move it to the module"
                );
                return Err(ParseError::new(variable.position, message));
            }
        };
        if self.shared > 1 << 24 || self.local > MOST_LOCAL {
            return Err(ParseError::new(
                variable.position,
                "the variables take more than 16 MiB of shared or 512 KiB of local memory",
            ));
        }
        self.scopes[self.scope].names.insert(variable.name, entity);
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

    fn emit(
        &mut self,
        op: Op,
        guard: Option<(&'a str, bool)>,
        position: Position,
    ) -> Result<(), ParseError> {
        let guard = match guard {
            None => None,
            Some((name, negated)) => match self.lookup(name) {
                Some(Entity::Predicate(p)) => Some(Test { p, negated }),
                _ => {
                    return Err(ParseError::new(
                        position,
                        format!("`{name}` is no predicate"),
                    ));
                }
            },
        };
        if self.code.len() >= MOST_INSTRUCTIONS {
            return Err(ParseError::new(
                position,
                "the kernel has more than 2^18 instructions",
            ));
        }
        self.code.push(Instruction { guard, op });
        self.places.push(Place {
            line: position.line,
            source: self.line,
        });
        Ok(())
    }

    /// What a name stands for in the scopes around here, then in the module.
    pub(super) fn lookup(&mut self, name: &str) -> Option<Entity> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let mut scope = Some(self.scope);
        while let Some(index) = scope {
            let here = &self.scopes[index];
            if let Some(entity) = here.names.get(name) {
                return Some(*entity);
            }
            // `%r12` with the prefix `%r`; a prefix may itself end in digits.
            for split in name.len() - digits..name.len() {
                let Some(&(count, first)) = here.ranges.get(&name[..split]) else {
                    continue;
                };
                let Ok(number) = name[split..].parse::<u32>() else {
                    continue;
                };
                if number < count {
                    return Some(match first {
                        Entity::Word(r) => Entity::Word(R32(r.0 + number)),
                        Entity::Double(r) => Entity::Double(R64(r.0 + number)),
                        Entity::Predicate(p) => Entity::Predicate(P(p.0 + number)),
                        other => other,
                    });
                }
            }
            scope = here.parent;
        }
        let &(index, variable) = self.variables.get(name)?;
        Some(match (variable.space, variable.bytes) {
            ("shared", 0) => {
                self.dynamic_align = self.dynamic_align.max(variable.align);
                Entity::Dynamic
            }
            ("shared", _) => {
                let shared = &mut self.shared;
                Entity::Shared(*self.module_shared.entry(index).or_insert_with(|| {
                    let offset = shared.next_multiple_of(variable.align);
                    *shared = offset + variable.bytes;
                    offset
                }))
            }
            _ => Entity::Variable(index),
        })
    }

    /// A slot of 32 bits that holds `fill`.
    pub(super) fn word(&mut self, fill: Fill) -> R32 {
        if let Some(&Slot::W(r)) = self.filled.get(&(false, fill)) {
            return r;
        }
        let r = self.scratch_word();
        self.filled.insert((false, fill), Slot::W(r));
        self.fills.push((Slot::W(r), fill));
        r
    }

    /// A slot of 64 bits that holds `fill`.
    pub(super) fn double(&mut self, fill: Fill) -> R64 {
        if let Some(&Slot::D(r)) = self.filled.get(&(true, fill)) {
            return r;
        }
        let r = self.scratch_double();
        self.filled.insert((true, fill), Slot::D(r));
        self.fills.push((Slot::D(r), fill));
        r
    }

    /// Notes that the instruction decoded next jumps to `label`.
    pub(super) fn jump(&mut self, label: &'a str, position: Position) {
        self.jumps.push(Jump {
            instruction: self.code.len(),
            scope: self.scope,
            label,
            position,
        });
    }

    /// The labels of a `.branchtargets` list.
    pub(super) fn targets(&self, name: &str) -> Option<Vec<&'a str>> {
        let mut scope = Some(self.scope);
        while let Some(index) = scope {
            if let Some(labels) = self.scopes[index].tables.get(name) {
                return Some(labels.clone());
            }
            scope = self.scopes[index].parent;
        }
        None
    }

    /// Fills in the targets of the jumps noted since `first`.
    fn resolve_jumps(&mut self, first: usize) -> Result<(), ParseError> {
        for jump in self.jumps.split_off(first) {
            let mut scope = Some(jump.scope);
            let mut found = None;
            while let Some(index) = scope {
                found = self.scopes[index].labels.get(jump.label).copied();
                if found.is_some() {
                    break;
                }
                scope = self.scopes[index].parent;
            }
            let Some(at) = found else {
                return Err(ParseError::new(
                    jump.position,
                    format!("there is no label `{}`", jump.label),
                ));
            };
            match &mut self.code[jump.instruction].op {
                Op::Branch { target, .. } => *target = at,
                Op::BranchTable { targets, .. } => targets.push(at),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes out the function that is called.
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
                "`{name}` has another number of parameters or results"
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
        // Callers pass `.param` variables, which are local memory here; the callee's
        // names stand for the same bytes.
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
                    "the argument for `{}` is no `.param` variable",
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
        // The end has an instruction of its own, so that a function may end a kernel.
        self.emit(Op::Nop, None, position)
    }
}
