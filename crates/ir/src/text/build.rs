//! Builds a [`Module`] from the syntax tree: resolves names to ids, orders callees before callers,
//! infers missing shapes, and gives open sizes symbols.

use super::ops::Attributes;
use super::order::callees_first;
use super::scope::{Scope, is_annotation};
use super::tree::{
    Attribute, Named, OperandSource, Payload, RawComputation, RawInstruction, RawOpcode, Value,
};
use super::values::fold_space;
use crate::{
    Annotations, Computation, ComputationId, Error, Instruction, InstructionId, Module,
    ModuleAttributes, Op, Opcode, Shape, Span,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use tegula_arena::{Arena, EntityRef};

/// The maximum number of leaves in all inferred shapes together: a few bytes of text can request a
/// copy of a large shape.
const MAX_INFERRED_LEAVES: usize = 1 << 22;

/// Builds a module from the syntax tree.
pub(crate) fn build_module<'a>(
    source: &'a str,
    name: &str,
    attributes: ModuleAttributes,
    computations: Vec<RawComputation<'a>>,
) -> Result<Module, Error> {
    let (computations, entry) = callees_first(source, computations)?;
    let mut scope = Scope {
        source,
        computations: FxHashMap::default(),
    };
    for (index, computation) in computations.iter().enumerate() {
        let id = ComputationId::new(index);
        scope.computations.insert(computation.name, id);
    }
    let mut module = Module {
        name: name.into(),
        attributes,
        instructions: Arena::new(),
        computations: Arena::with_capacity(computations.len()),
        entry: ComputationId::new(entry),
        symbols: Vec::new(),
        sizes: crate::RunTimeSizes::default(),
        required: Vec::new(),
        source: source.into(),
    };
    let mut leaves = MAX_INFERRED_LEAVES;
    for raw in computations {
        let computation = Builder::new(&scope, &mut module, &mut leaves, &raw).run(raw)?;
        module.computations.push(computation);
    }
    super::symbols::resolve_entry_layout(&mut module);
    Ok(module)
}

/// Builds one computation.
struct Builder<'s, 'a> {
    scope: &'s Scope<'a>,
    module: &'s mut Module,
    /// The number of leaves that inferred shapes may still have.
    leaves: &'s mut usize,
    id: ComputationId,
    names: FxHashMap<&'a str, InstructionId>,
    /// The names generated for nested instructions.
    invented: rustc_hash::FxHashSet<String>,
    next_number: u64,
    instructions: Vec<InstructionId>,
    parameters: Vec<Option<InstructionId>>,
    /// Control predecessors, which may be named before they are defined.
    predecessors: Vec<(InstructionId, Vec<Named<'a>>)>,
}

impl<'s, 'a> Builder<'s, 'a> {
    fn new(
        scope: &'s Scope<'a>,
        module: &'s mut Module,
        leaves: &'s mut usize,
        raw: &RawComputation<'a>,
    ) -> Self {
        let id = module.computations.next_key();
        let count = raw.instructions.len();
        Self {
            scope,
            module,
            leaves,
            id,
            names: FxHashMap::with_capacity_and_hasher(count, Default::default()),
            invented: Default::default(),
            next_number: 0,
            instructions: Vec::with_capacity(count),
            parameters: Vec::new(),
            predecessors: Vec::new(),
        }
    }

    fn run(mut self, raw: RawComputation<'a>) -> Result<Computation, Error> {
        if raw
            .instructions
            .iter()
            .any(|raw| raw.name.is_none() || !raw.operands.is_empty())
        {
            self.reserve_names(&raw);
        }
        // Ids by position in `raw`; they differ from the positions, because `#i` adds instructions.
        let mut by_position = Vec::with_capacity(raw.instructions.len());
        for instruction in raw.instructions {
            let id = self.instruction(instruction, &by_position)?;
            by_position.push(id);
        }
        let Some(&root) = by_position.get(raw.root) else {
            return Err(Error::bug("a computation has no root").at(self.scope.source, raw.span));
        };
        self.link_predecessors()?;
        let parameters = self.numbered_parameters(raw.span)?;
        if let Some((_, result)) = &raw.program_shape {
            self.check_program_shape(raw.span, root, result)?;
        }
        Ok(Computation {
            name: raw.name.into(),
            instructions: self.instructions,
            parameters,
            root,
            execution_thread: raw.execution_thread.map(Into::into),
            span: raw.span,
        })
    }

    /// Reserves every written name, so that no generated name equals it.
    fn reserve_names(&mut self, raw: &RawComputation<'a>) {
        let inventing = |raw: &RawInstruction<'_>| {
            raw.name.is_none()
                || raw
                    .operands
                    .iter()
                    .any(|operand| !operand.elements.is_empty())
        };
        if raw.instructions.iter().any(inventing) {
            let names = raw.instructions.iter().filter_map(|raw| raw.name);
            self.invented.extend(names.map(str::to_owned));
        }
    }

    /// The number only grows, so each taken name is tried once at most.
    fn invent_name(&mut self, opcode: Opcode) -> Arc<str> {
        loop {
            let name = format!("{opcode}.{}", self.next_number);
            self.next_number += 1;
            if self.invented.insert(name.clone()) {
                return name.into();
            }
        }
    }

    fn instruction(
        &mut self,
        mut raw: RawInstruction<'a>,
        by_position: &[InstructionId],
    ) -> Result<InstructionId, Error> {
        let span = raw.span;
        let mut operands = self.operands(&raw, by_position)?;
        let payload = std::mem::replace(&mut raw.payload, Payload::None);
        let rest = std::mem::take(&mut raw.attributes);
        let opcode = match raw.opcode {
            RawOpcode::Plain(opcode) => opcode,
            RawOpcode::Start(_) => Opcode::AsyncStart,
            RawOpcode::Update => Opcode::AsyncUpdate,
            RawOpcode::Done => Opcode::AsyncDone,
        };
        let mut attributes = Attributes::new(self.scope, span, opcode, rest);
        let op = attributes.operation(&raw, payload)?;
        let rest = attributes.into_rest();
        // Older texts repeat the shape of random numbers as a third operand.
        if opcode == Opcode::Rng {
            operands.truncate(2);
        }
        let shape = self.shape(&raw, &op, &operands)?;
        let name: Arc<str> = match raw.name {
            Some(name) => name.into(),
            None => self.invent_name(opcode),
        };
        let id = self.module.instructions.next_key();
        let annotations = self.annotations(id, opcode, rest)?;
        self.module.instructions.push(Instruction {
            name,
            op,
            operands,
            shape,
            computation: self.id,
            span,
            annotations,
        });
        self.instructions.push(id);
        if let Some(name) = raw.name
            && self.names.insert(name, id).is_some()
        {
            let message = format!("an instruction `{name}` is already defined");
            return Err(self.scope.error(span, message));
        }
        if let Op::Parameter(number) = self.module[id].op {
            self.add_parameter(number, id, span)?;
        }
        Ok(id)
    }

    fn operands(
        &mut self,
        raw: &RawInstruction<'a>,
        by_position: &[InstructionId],
    ) -> Result<SmallVec<[InstructionId; 4]>, Error> {
        let mut operands = SmallVec::with_capacity(raw.operands.len());
        for operand in &raw.operands {
            let found = match operand.source {
                OperandSource::Name(name) => self.names.get(name).copied(),
                OperandSource::Nested(position) => by_position.get(position).copied(),
            };
            let Some(mut id) = found else {
                let OperandSource::Name(name) = operand.source else {
                    return Err(Error::bug("a nested operand was not built")
                        .at(self.scope.source, operand.span));
                };
                let message = format!("no instruction `{name}` is defined before this one");
                return Err(self.scope.error(operand.span, message));
            };
            for &element in &operand.elements {
                id = self.element(id, element, operand.span)?;
            }
            let found = &self.module[id].shape;
            if let Some(stated) = &operand.shape
                && !super::symbols::agrees(stated, found)
            {
                let message = format!("the operand is {found:#}, not {stated:#}");
                return Err(self.scope.error(operand.span, message));
            }
            operands.push(id);
        }
        Ok(operands)
    }

    /// Adds the `get-tuple-element` that `#element` denotes.
    fn element(
        &mut self,
        tuple: InstructionId,
        element: i64,
        span: Span,
    ) -> Result<InstructionId, Error> {
        let place = usize::try_from(element).ok();
        let shape = self.module[tuple]
            .shape
            .as_tuple()
            .and_then(|elements| elements.get(place?))
            .cloned();
        let Some(shape) = shape else {
            let message = format!("the operand has no tuple element {element}");
            return Err(self.scope.error(span, message));
        };
        let name = self.invent_name(Opcode::GetTupleElement);
        let id = self.module.instructions.push(Instruction {
            name,
            op: Op::GetTupleElement(element),
            operands: SmallVec::from_slice(&[tuple]),
            shape,
            computation: self.id,
            span,
            annotations: None,
        });
        self.instructions.push(id);
        Ok(id)
    }

    /// The written shape with its open sizes resolved; without a written shape, the inferred one.
    fn shape(
        &mut self,
        raw: &RawInstruction<'a>,
        op: &Op,
        operands: &[InstructionId],
    ) -> Result<Shape, Error> {
        let entry = self.module.entry == self.id;
        if let Some(mut shape) = raw.shape.clone() {
            if super::symbols::is_open(&shape) {
                let inferred = super::symbols::infer_open(self.module, op, operands, &shape);
                let named = super::symbols::Naming {
                    instruction: raw.name.unwrap_or("nested"),
                    entry_parameter: match op {
                        Op::Parameter(number) if entry => Some(*number),
                        _ => None,
                    },
                };
                super::symbols::resolve(self.module, &mut shape, inferred.as_ref(), &named);
            }
            return Ok(shape);
        }
        let shapes: SmallVec<[&Shape; 4]> = operands
            .iter()
            .map(|&operand| &self.module[operand].shape)
            .collect();
        let shape = crate::infer_shape(self.module, op, &shapes, None)
            .map_err(|error| error.at(self.scope.source, raw.span))?;
        *self.leaves = self.leaves.saturating_sub(shape.leaf_count());
        match *self.leaves {
            0 => Err(
                Error::limit("the inferred shapes of this program are too large")
                    .at(self.scope.source, raw.span),
            ),
            _ => Ok(shape),
        }
    }

    fn annotations(
        &mut self,
        id: InstructionId,
        opcode: Opcode,
        mut rest: Vec<Attribute<'a>>,
    ) -> Result<Option<Box<Annotations>>, Error> {
        if rest.is_empty() {
            return Ok(None);
        }
        rest.sort_by_key(|attribute| attribute.span);
        let mut annotations = Annotations::default();
        for attribute in rest {
            // The slice sizes of an in-place permutation are kept as text.
            let permuted = matches!(
                opcode,
                Opcode::CollectivePermute | Opcode::CollectivePermuteStart
            );
            let kept = permuted && attribute.name == "slice_sizes";
            if !kept && !is_annotation(attribute.name) {
                let message = format!("`{opcode}` has no `{}=`", attribute.name);
                return Err(self.scope.error(attribute.span, message));
            }
            match (attribute.name, attribute.value) {
                (_, Value::Metadata(metadata)) => annotations.metadata = Some(*metadata),
                (_, Value::Attributes(pairs)) => annotations.frontend_attributes = pairs,
                (_, Value::Names(names)) => self.predecessors.push((id, names)),
                ("sharding", _) => annotations.sharding = Some(fold_space(attribute.text)),
                ("backend_config", _) => annotations.backend_config = Some(attribute.text.into()),
                (name, _) => {
                    let text = fold_space(attribute.text);
                    annotations.other.push((name.into(), text));
                }
            }
        }
        Ok(Some(Box::new(annotations)))
    }

    fn link_predecessors(&mut self) -> Result<(), Error> {
        for (id, names) in std::mem::take(&mut self.predecessors) {
            let mut ids = Vec::with_capacity(names.len());
            for (name, span) in names {
                let found = self.names.get(name).copied();
                ids.push(found.ok_or_else(|| {
                    let message = format!("no instruction `{name}` is defined here");
                    self.scope.error(span, message)
                })?);
            }
            let annotations = self.module.instructions[id]
                .annotations
                .get_or_insert_default();
            annotations.control_predecessors = ids;
        }
        Ok(())
    }

    fn add_parameter(&mut self, number: u32, id: InstructionId, span: Span) -> Result<(), Error> {
        let number = number as usize;
        // Every parameter takes some bytes of text, so the text's length bounds the numbers.
        if number > self.scope.source.len() {
            let message = format!("parameter {number} is not preceded by parameters 0 to {number}");
            return Err(self.scope.error(span, message));
        }
        if self.parameters.len() <= number {
            self.parameters.resize(number + 1, None);
        }
        match self.parameters.get_mut(number) {
            Some(place @ None) => {
                *place = Some(id);
                Ok(())
            }
            _ => {
                let message = format!("parameter {number} is already defined");
                Err(self.scope.error(span, message))
            }
        }
    }

    fn numbered_parameters(&self, span: Span) -> Result<Vec<InstructionId>, Error> {
        let missing = self.parameters.iter().position(Option::is_none);
        match missing {
            None => Ok(self.parameters.iter().copied().flatten().collect()),
            Some(number) => {
                let message = format!("this computation lacks parameter {number}");
                Err(self.scope.error(span, message))
            }
        }
    }

    /// Compares the result shape in a computation's header with its root's shape. As in XLA's
    /// parser, the header's parameters are not compared: the body states them again, and some
    /// programs have outdated headers.
    fn check_program_shape(
        &self,
        span: Span,
        root: InstructionId,
        result: &Shape,
    ) -> Result<(), Error> {
        let root = &self.module[root];
        if super::symbols::agrees(result, &root.shape) {
            return Ok(());
        }
        let message = format!(
            "the header says {result}, but `{}` is {}",
            root.name, root.shape
        );
        Err(self.scope.error(span, message))
    }
}
