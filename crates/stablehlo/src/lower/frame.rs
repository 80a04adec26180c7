//! The instructions of one computation while it is made.
//!
//! A builder of `tegula_ir` holds the module while a computation is open, and computations that
//! it calls have to be finished before. So instructions are collected here, with the shapes that
//! their shape functions give, and handed over when the computation ends.

use crate::Error;
use crate::mlir::ValueId;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tegula_ir::{
    Annotations, ComputationId, InstructionId, Module, ModuleBuilder, Op, Shape, infer_shape,
};

/// An instruction of a [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Local(usize);

struct Pending {
    op: Op,
    operands: Vec<Local>,
    shape: Shape,
    name: Option<Arc<str>>,
    annotations: Option<Annotations>,
    offset: usize,
}

/// A computation that is being made.
pub(super) struct Frame {
    name: String,
    instructions: Vec<Pending>,
    parameters: u32,
    values: FxHashMap<ValueId, Local>,
    /// Where the operation that is being translated is in the input.
    pub(super) offset: usize,
}

impl Frame {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            instructions: Vec::new(),
            parameters: 0,
            values: FxHashMap::default(),
            offset: 0,
        }
    }

    /// The next parameter.
    pub(super) fn parameter(&mut self, shape: Shape, name: Option<&str>) -> Local {
        let number = self.parameters;
        self.parameters += 1;
        self.add(Pending {
            op: Op::Parameter(number),
            operands: Vec::new(),
            shape,
            name: name.map(Arc::from),
            annotations: None,
            offset: self.offset,
        })
    }

    fn add(&mut self, pending: Pending) -> Local {
        self.instructions.push(pending);
        Local(self.instructions.len() - 1)
    }

    /// Appends an operation; without `stated` its shape is what the operands determine.
    pub(super) fn push(
        &mut self,
        module: &Module,
        op: Op,
        operands: &[Local],
        stated: Option<Shape>,
    ) -> Result<Local, Error> {
        let shapes: Vec<&Shape> = operands.iter().map(|local| self.shape(*local)).collect();
        let inferred = infer_shape(module, &op, &shapes, stated.as_ref());
        let inferred = inferred.map_err(|error| Error::input(error.message().to_owned()))?;
        Ok(self.add(Pending {
            op,
            operands: operands.to_vec(),
            shape: stated.unwrap_or(inferred),
            name: None,
            annotations: None,
            offset: self.offset,
        }))
    }

    pub(super) fn shape(&self, local: Local) -> &Shape {
        &self.instructions[local.0].shape
    }

    /// Names an instruction after its value in the input.
    pub(super) fn set_name(&mut self, local: Local, name: &str) {
        let pending = &mut self.instructions[local.0];
        if !matches!(pending.op, Op::Parameter(_)) {
            pending.name = Some(name.into());
        }
    }

    /// What goes with an instruction beyond its meaning.
    pub(super) fn annotations_mut(&mut self, local: Local) -> &mut Annotations {
        self.instructions[local.0]
            .annotations
            .get_or_insert_default()
    }

    pub(super) fn bind(&mut self, value: ValueId, local: Local) {
        self.values.insert(value, local);
    }

    pub(super) fn local(&self, value: ValueId) -> Option<Local> {
        self.values.get(&value).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Where each instruction came from.
    pub(super) fn offsets(&self) -> Vec<usize> {
        self.instructions.iter().map(|i| i.offset).collect()
    }

    /// Adds the computation with this result to the module.
    pub(super) fn finish(
        self,
        builder: &mut ModuleBuilder,
        root: Local,
    ) -> Result<ComputationId, Error> {
        let mut computation = builder.computation(&self.name);
        let mut ids: Vec<InstructionId> = Vec::with_capacity(self.instructions.len());
        let failed = |error: tegula_ir::Error| Error::input(error.message().to_owned());
        for pending in self.instructions {
            let id = match pending.op {
                Op::Parameter(number) => {
                    let name = pending.name.unwrap_or_else(|| format!("p{number}").into());
                    computation.named_parameter(&name, pending.shape)
                }
                op => {
                    let operands: Vec<InstructionId> =
                        pending.operands.iter().map(|local| ids[local.0]).collect();
                    computation
                        .push_named(pending.name.as_deref(), op, &operands, Some(pending.shape))
                        .map_err(failed)?
                }
            };
            if let Some(annotations) = pending.annotations {
                *computation.annotations_mut(id).map_err(failed)? = annotations;
            }
            ids.push(id);
        }
        computation.finish(ids[root.0]).map_err(failed)
    }
}
