//! A draft: the instructions of one computation that is not yet part of a module.
//!
//! A [`ModuleBuilder`] is borrowed while a computation is under construction, and callees have to
//! be finished before their callers. An importer that meets a loop in the middle of a computation
//! therefore collects instructions in a draft, with the shapes that their shape functions compute,
//! and adds the whole computation to the module at its end.

use crate::{
    Annotations, ComputationId, Error, InstructionId, Module, ModuleBuilder, Op, Shape, infer_shape,
};
use std::sync::Arc;

/// An instruction of a [`Draft`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DraftId(usize);

#[derive(Debug)]
struct Pending {
    op: Op,
    operands: Vec<DraftId>,
    shape: Shape,
    name: Option<Arc<str>>,
    annotations: Option<Annotations>,
}

/// A computation under construction.
#[derive(Debug)]
pub struct Draft {
    name: String,
    instructions: Vec<Pending>,
    parameters: u32,
}

impl Draft {
    /// An empty computation of this name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            instructions: Vec::new(),
            parameters: 0,
        }
    }

    /// Appends the next parameter.
    pub fn parameter(&mut self, shape: Shape, name: Option<&str>) -> DraftId {
        let number = self.parameters;
        self.parameters += 1;
        self.add(Op::Parameter(number), &[], shape, name.map(Arc::from))
    }

    fn add(
        &mut self,
        op: Op,
        operands: &[DraftId],
        shape: Shape,
        name: Option<Arc<str>>,
    ) -> DraftId {
        self.instructions.push(Pending {
            op,
            operands: operands.to_vec(),
            shape,
            name,
            annotations: None,
        });
        DraftId(self.instructions.len() - 1)
    }

    /// Appends an operation. Its shape is `stated`, or else what its shape function computes from
    /// the operands.
    ///
    /// # Errors
    /// The operands do not suit the operation.
    pub fn push(
        &mut self,
        module: &Module,
        op: Op,
        operands: &[DraftId],
        stated: Option<Shape>,
    ) -> Result<DraftId, Error> {
        let shapes: Vec<&Shape> = operands.iter().map(|id| self.shape(*id)).collect();
        let inferred = infer_shape(module, &op, &shapes, stated.as_ref())?;
        Ok(self.add(op, operands, stated.unwrap_or(inferred), None))
    }

    /// An instruction's operation and operands.
    pub fn instruction(&self, id: DraftId) -> (&Op, &[DraftId]) {
        let pending = &self.instructions[id.0];
        (&pending.op, &pending.operands)
    }

    /// The operation of an instruction of this draft.
    pub fn op(&self, id: DraftId) -> &Op {
        &self.instructions[id.0].op
    }

    /// The shape of an instruction of this draft.
    pub fn shape(&self, id: DraftId) -> &Shape {
        &self.instructions[id.0].shape
    }

    /// Names an instruction; parameters keep their names.
    pub fn set_name(&mut self, id: DraftId, name: &str) {
        let pending = &mut self.instructions[id.0];
        if !matches!(pending.op, Op::Parameter(_)) {
            pending.name = Some(name.into());
        }
    }

    /// The annotations of an instruction, for writing.
    pub fn annotations_mut(&mut self, id: DraftId) -> &mut Annotations {
        self.instructions[id.0].annotations.get_or_insert_default()
    }

    /// The number of instructions.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Whether there are no instructions.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// The instructions, in order.
    pub fn ids(&self) -> impl Iterator<Item = DraftId> + use<> {
        (0..self.instructions.len()).map(DraftId)
    }

    /// Adds the computation to the module, with this instruction as its root.
    ///
    /// # Errors
    /// As [`ComputationBuilder::push_named`](crate::ComputationBuilder::push_named).
    pub fn finish(
        self,
        builder: &mut ModuleBuilder,
        root: DraftId,
    ) -> Result<ComputationId, Error> {
        let mut computation = builder.computation(&self.name);
        let mut ids: Vec<InstructionId> = Vec::with_capacity(self.instructions.len());
        for pending in self.instructions {
            let id = match pending.op {
                Op::Parameter(number) => {
                    let name = pending.name.unwrap_or_else(|| format!("p{number}").into());
                    computation.named_parameter(&name, pending.shape)
                }
                op => {
                    let operands: Vec<InstructionId> =
                        pending.operands.iter().map(|id| ids[id.0]).collect();
                    computation.push_named(
                        pending.name.as_deref(),
                        op,
                        &operands,
                        Some(pending.shape),
                    )?
                }
            };
            if let Some(annotations) = pending.annotations {
                *computation.annotations_mut(id)? = annotations;
            }
            ids.push(id);
        }
        computation.finish(ids[root.0])
    }
}
