//! A frame: a [`Draft`] of a computation's instructions, with the input's values that they
//! correspond to.

use crate::Error;
use crate::mlir::ValueId;
use rustc_hash::FxHashMap;
use tegula_ir::{Annotations, ComputationId, Draft, Module, ModuleBuilder, Op, Shape};

/// An instruction of a [`Frame`].
pub(super) type Local = tegula_ir::DraftId;

/// A computation under construction.
pub(super) struct Frame {
    draft: Draft,
    offsets: Vec<usize>,
    values: FxHashMap<ValueId, Local>,
    /// The position in the input of the operation that is being lowered.
    pub(super) offset: usize,
}

fn failed(error: &tegula_ir::Error) -> Error {
    Error::input(error.message().to_owned())
}

impl Frame {
    pub(super) fn new(name: &str) -> Self {
        Self {
            draft: Draft::new(name),
            offsets: Vec::new(),
            values: FxHashMap::default(),
            offset: 0,
        }
    }

    /// Appends the next parameter.
    pub(super) fn parameter(&mut self, shape: Shape, name: Option<&str>) -> Local {
        self.offsets.push(self.offset);
        self.draft.parameter(shape, name)
    }

    /// Appends an operation. Its shape is `stated`, or else determined by the operands.
    pub(super) fn push(
        &mut self,
        module: &Module,
        op: Op,
        operands: &[Local],
        stated: Option<Shape>,
    ) -> Result<Local, Error> {
        let local = self.draft.push(module, op, operands, stated);
        let local = local.map_err(|error| failed(&error))?;
        self.offsets.push(self.offset);
        Ok(local)
    }

    pub(super) fn op(&self, local: Local) -> &Op {
        self.draft.op(local)
    }

    pub(super) fn shape(&self, local: Local) -> &Shape {
        self.draft.shape(local)
    }

    /// Names an instruction after its value in the input.
    pub(super) fn set_name(&mut self, local: Local, name: &str) {
        self.draft.set_name(local, name);
    }

    /// The annotations of an instruction, for writing.
    pub(super) fn annotations_mut(&mut self, local: Local) -> &mut Annotations {
        self.draft.annotations_mut(local)
    }

    pub(super) fn bind(&mut self, value: ValueId, local: Local) {
        self.values.insert(value, local);
    }

    pub(super) fn local(&self, value: ValueId) -> Option<Local> {
        self.values.get(&value).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.draft.len()
    }

    /// The position in the input of each instruction.
    pub(super) fn offsets(&self) -> Vec<usize> {
        self.offsets.clone()
    }

    /// Adds the computation to the module, with this result.
    pub(super) fn finish(
        self,
        builder: &mut ModuleBuilder,
        root: Local,
    ) -> Result<ComputationId, Error> {
        let id = self.draft.finish(builder, root);
        id.map_err(|error| failed(&error))
    }
}
