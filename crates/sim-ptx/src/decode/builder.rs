//! The kernel under construction: scopes of names, allocation of registers and variables, the
//! instructions so far, and jumps to labels that are not defined yet.

use std::collections::HashMap;

use super::kernel::{Fill, Place, Variables};
use crate::operation::{Instruction, Op, P, R32, R64, Slot, Test, Type};
use crate::text::ParseError;
use crate::text::syntax::{Position, Source, SourceLine, Variable};

/// The maximum number of instructions of a kernel, after inlining.
const MOST_INSTRUCTIONS: usize = 1 << 18;

/// The maximum number of registers of each size in a kernel, after inlining.
const MOST_REGISTERS: u32 = 1 << 18;
/// The maximum local memory of a thread on a device, in bytes.
const MOST_LOCAL: u64 = 512 << 10;

/// The meaning of a name.
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
pub(super) struct Scope<'a> {
    pub(super) parent: Option<usize>,
    pub(super) names: HashMap<&'a str, Entity>,
    /// `.reg .b32 %r<9>`: the count and the first slot, by prefix.
    pub(super) ranges: HashMap<&'a str, (u32, Entity)>,
    pub(super) labels: HashMap<&'a str, u32>,
    pub(super) tables: HashMap<&'a str, Vec<&'a str>>,
}

/// A jump whose target is determined at the end of its function.
pub(super) struct Jump<'a> {
    instruction: usize,
    scope: usize,
    label: &'a str,
    position: Position,
}

pub(super) struct Builder<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) variables: &'a Variables<'a>,
    pub(super) code: Vec<Instruction>,
    pub(super) places: Vec<Place>,
    pub(super) line: Option<SourceLine>,
    pub(super) words: u32,
    pub(super) doubles: u32,
    pub(super) predicates: u32,
    pub(super) fills: Vec<(Slot, Fill)>,
    pub(super) filled: HashMap<(bool, Fill), Slot>,
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) scope: usize,
    pub(super) jumps: Vec<Jump<'a>>,
    /// The return instructions of the function that is being inlined.
    pub(super) returns: Vec<usize>,
    pub(super) depth: u32,
    pub(super) shared: u64,
    /// The offsets of module-level shared variables that the kernel uses, by variable.
    pub(super) module_shared: HashMap<u32, u64>,
    pub(super) dynamic_align: u64,
    pub(super) local: u64,
}

impl<'a> Builder<'a> {
    /// A builder without statements.
    pub(super) fn new(source: &'a Source<'a>, variables: &'a Variables<'a>) -> Self {
        Self {
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
        }
    }

    pub(super) fn open(&mut self, parent: Option<usize>) {
        self.scopes.push(Scope {
            parent,
            ..Scope::default()
        });
        self.scope = self.scopes.len() - 1;
    }

    pub(super) fn registers(
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

    /// A 32-bit register without a name.
    pub(super) fn scratch_word(&mut self) -> R32 {
        self.words += 1;
        R32(self.words - 1)
    }

    /// A 64-bit register without a name.
    pub(super) fn scratch_double(&mut self) -> R64 {
        self.doubles += 1;
        R64(self.doubles - 1)
    }

    /// A predicate register without a name.
    pub(super) fn scratch_predicate(&mut self) -> P {
        self.predicates += 1;
        P(self.predicates - 1)
    }

    pub(super) fn variable(&mut self, variable: &'a Variable<'a>) -> Result<(), ParseError> {
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

    pub(super) fn emit(
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
                        format!("`{name}` is not a predicate"),
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

    /// Looks up a name in the enclosing scopes, and then in the module.
    pub(super) fn lookup(&mut self, name: &str) -> Option<Entity> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let mut scope = Some(self.scope);
        while let Some(index) = scope {
            let here = &self.scopes[index];
            if let Some(entity) = here.names.get(name) {
                return Some(*entity);
            }
            // `%r12` belongs to the prefix `%r`; a prefix may itself end in digits.
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

    /// A 32-bit slot that is initialised with `fill`.
    pub(super) fn word(&mut self, fill: Fill) -> R32 {
        if let Some(&Slot::W(r)) = self.filled.get(&(false, fill)) {
            return r;
        }
        let r = self.scratch_word();
        self.filled.insert((false, fill), Slot::W(r));
        self.fills.push((Slot::W(r), fill));
        r
    }

    /// A 64-bit slot that is initialised with `fill`.
    pub(super) fn double(&mut self, fill: Fill) -> R64 {
        if let Some(&Slot::D(r)) = self.filled.get(&(true, fill)) {
            return r;
        }
        let r = self.scratch_double();
        self.filled.insert((true, fill), Slot::D(r));
        self.fills.push((Slot::D(r), fill));
        r
    }

    /// Records that the next instruction jumps to `label`.
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

    /// Determines the targets of the jumps that were recorded since `first`.
    pub(super) fn resolve_jumps(&mut self, first: usize) -> Result<(), ParseError> {
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
                    format!("label `{}` is not defined", jump.label),
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
}
