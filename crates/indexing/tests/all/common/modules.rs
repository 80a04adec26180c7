//! Modules built by hand.

use std::sync::Arc;

use tegula_indexing::{IndexingMap, OperandIndexing};
use tegula_ir::{
    Computation, ComputationId, ElementType, Instruction, InstructionId, Module, ModuleAttributes,
    Op, Shape, Span,
};

/// A module under construction; every array is f32.
pub(crate) struct Program {
    pub(crate) module: Module,
    computation: ComputationId,
}

impl Program {
    pub(crate) fn new() -> Self {
        let mut module = Module {
            name: Arc::from("m"),
            attributes: ModuleAttributes::default(),
            instructions: Default::default(),
            computations: Default::default(),
            entry: ComputationId::from_u32(0),
            symbols: Vec::new(),
            required: Vec::new(),
            sizes: tegula_ir::RunTimeSizes::default(),
            source: Arc::from(""),
        };
        let computation = Self::computation(&mut module);
        Self {
            module,
            computation,
        }
    }

    fn computation(module: &mut Module) -> ComputationId {
        module.computations.push(Computation {
            name: Arc::from("c"),
            instructions: Vec::new(),
            parameters: Vec::new(),
            root: InstructionId::from_u32(0),
            execution_thread: None,
            span: Span::default(),
        })
    }

    /// Instructions go into a new computation until the next call.
    pub(crate) fn start_computation(&mut self) -> ComputationId {
        self.computation = Self::computation(&mut self.module);
        self.computation
    }

    pub(crate) fn push(
        &mut self,
        op: Op,
        operands: &[InstructionId],
        shape: Shape,
    ) -> InstructionId {
        let is_parameter = matches!(op, Op::Parameter(_));
        let id = self.module.instructions.push(Instruction {
            name: Arc::from(format!("i{}", self.module.instructions.len())),
            op,
            operands: operands.iter().copied().collect(),
            shape,
            computation: self.computation,
            span: Span::default(),
            annotations: None,
        });
        let computation = &mut self.module.computations[self.computation];
        computation.instructions.push(id);
        computation.root = id;
        if is_parameter {
            computation.parameters.push(id);
        }
        id
    }

    pub(crate) fn array(
        &mut self,
        op: Op,
        operands: &[InstructionId],
        dims: &[i64],
    ) -> InstructionId {
        self.push(op, operands, Shape::array(ElementType::F32, dims))
    }

    pub(crate) fn parameter(&mut self, dims: &[i64]) -> InstructionId {
        let number = self.module.computations[self.computation].parameters.len();
        self.array(Op::Parameter(u32::try_from(number).unwrap_or(0)), &[], dims)
    }
}

/// A module of one operation over parameters, and the operation.
pub(crate) fn one_op(op: Op, operands: &[&[i64]], output: &[i64]) -> (Module, InstructionId) {
    let mut program = Program::new();
    let operands: Vec<_> = operands
        .iter()
        .map(|dims| program.parameter(dims))
        .collect();
    let id = program.array(op, &operands, output);
    (program.module, id)
}

/// The only map of an operand.
pub(crate) fn map_of(found: &[OperandIndexing], operand: usize) -> &IndexingMap {
    match &found[operand].maps {
        Ok(maps) if maps.len() == 1 => &maps[0],
        other => panic!("operand {operand}: {other:?}"),
    }
}

/// An operation without a map: an all-to-all with an unknown number of participants.
pub(crate) fn all_to_all_of_unknown_groups() -> Op {
    Op::AllToAll {
        collective: collective(&[]),
        dimension: Some(0),
    }
}

/// A collective over the given replica groups.
pub(crate) fn collective(groups: &[&[i64]]) -> tegula_ir::Collective {
    tegula_ir::Collective {
        replica_groups: tegula_ir::ReplicaGroups::Lists(
            groups.iter().map(|group| group.to_vec()).collect(),
        ),
        channel_id: None,
        use_global_device_ids: false,
        constrain_layout: false,
    }
}
