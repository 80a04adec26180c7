//! Writes kernels as instructions: single operations and fusions, and the instructions that hold
//! their operands.

use crate::builder::is_immediate;
use rustc_hash::FxHashMap;
use tegula_fusion::{Def, NodeId, Program, ValueId};
use tegula_ir::{
    ArrayShape, ComputationBuilder, ComputationId, Error, FusionKind, InstructionId, Layout,
    Module, Op, Shape,
};
use tegula_layout::assign::{Assignment, Kernel, with_layout};

/// A kernel that is ready to be written.
pub(super) enum Prepared {
    /// A single operation.
    Plain,
    /// A fusion of this computation.
    Fusion(ComputationId),
}

/// An instruction's operation in a program with assigned layouts. The meaning of a bitcast depends on
/// layouts; one of a row-major array to a row-major array of the same type is a reshape.
pub(super) fn written_op(module: &Module, instruction: InstructionId) -> Op {
    let op = module.op_to_run(instruction);
    let is_row_major = |shape: &ArrayShape| {
        let layout = shape.layout.as_ref();
        layout.is_none_or(|layout| layout.is_row_major())
    };
    let own = &module[instruction];
    let operand = own.operands.first().map(|&id| &module[id].shape);
    match (operand.and_then(Shape::as_array), own.shape.as_array()) {
        (Some(from), Some(to))
            if op == Op::Bitcast
                && from.element_type == to.element_type
                && is_row_major(from)
                && is_row_major(to) =>
        {
            Op::Reshape
        }
        _ => op,
    }
}

/// The instructions that hold values inside a computation, with their layouts.
pub(super) type Env = FxHashMap<ValueId, (InstructionId, Layout)>;

pub(super) fn layout_of(assignment: &Assignment, value: ValueId) -> Layout {
    let layout = assignment.layouts.get(&value).cloned();
    layout.unwrap_or_else(|| assignment.flat(value))
}

/// The instruction that holds a value in a layout. Constants are written where they are used, and
/// another layout requires a copy.
pub(super) fn held(
    new: &mut ComputationBuilder<'_>,
    program: &Program,
    value: ValueId,
    wanted: &Layout,
    env: &mut Env,
) -> Result<InstructionId, Error> {
    let shape = |layout: &Layout| with_layout(&program.values[value].shape, layout);
    let Some((id, layout)) = env.get(&value).cloned() else {
        let Def::Constant(literal) = &program.values[value].def else {
            return Err(Error::bug("a value is read before it is defined"));
        };
        let op = Op::Constant([literal.clone()].into());
        let id = new.push_named(Some("constant"), op, &[], Some(shape(wanted)))?;
        env.insert(value, (id, wanted.clone()));
        return Ok(id);
    };
    let order = |layout: &Layout| (layout.minor_to_major.clone(), layout.tiles.clone());
    if order(&layout) == order(wanted) {
        return Ok(id);
    }
    new.push_named(Some("copy"), Op::Copy, &[id], Some(shape(wanted)))
}

/// Writes one operation; returns the instructions that hold its results.
pub(super) fn operation(
    new: &mut ComputationBuilder<'_>,
    assignment: &Assignment,
    module: &Module,
    id: NodeId,
    op: Op,
    env: &mut Env,
    layout: &dyn Fn(ValueId) -> Layout,
) -> Result<Vec<InstructionId>, Error> {
    let program = &assignment.program;
    let node = &program.nodes[id];
    let mut operands = Vec::new();
    for &operand in &node.operands {
        let wanted = env.get(&operand).map(|(_, layout)| layout.clone());
        let wanted = wanted.unwrap_or_else(|| assignment.flat(operand));
        operands.push(held(new, program, operand, &wanted, env)?);
    }
    let layouts: Vec<Layout> = node.results.iter().map(|&value| layout(value)).collect();
    let shapes: Vec<Shape> = node
        .results
        .iter()
        .zip(&layouts)
        .map(|(&value, layout)| with_layout(&program.values[value].shape, layout))
        .collect();
    let name = &module[node.origin].name;
    let made = match (shapes.as_slice(), &module[node.origin].shape) {
        ([one], Shape::Array(_)) => {
            vec![new.push_named(Some(name), op, &operands, Some(one.clone()))?]
        }
        _ => {
            let tuple = Some(Shape::Tuple(shapes.clone()));
            let all = new.push_named(Some(name), op, &operands, tuple)?;
            elements(new, all, &shapes)?
        }
    };
    for ((&value, layout), &id) in node.results.iter().zip(layouts).zip(&made) {
        env.insert(value, (id, layout));
    }
    Ok(made)
}

/// A tuple whose elements keep their layouts.
pub(super) fn tuple_of(
    new: &mut ComputationBuilder<'_>,
    elements: &[InstructionId],
) -> Result<InstructionId, Error> {
    let shapes: Result<Vec<Shape>, Error> =
        elements.iter().map(|&id| new.shape(id).cloned()).collect();
    new.push_named(
        Some("tuple"),
        Op::Tuple,
        elements,
        Some(Shape::Tuple(shapes?)),
    )
}

/// The elements of a tuple.
pub(super) fn elements(
    new: &mut ComputationBuilder<'_>,
    tuple: InstructionId,
    shapes: &[Shape],
) -> Result<Vec<InstructionId>, Error> {
    let element = |(at, shape): (usize, &Shape)| {
        let op = Op::GetTupleElement(at as i64);
        new.push_named(Some("get-tuple-element"), op, &[tuple], Some(shape.clone()))
    };
    shapes.iter().enumerate().map(element).collect()
}

/// Writes a kernel whose operands are in `env`; returns the instructions that hold its results.
pub(super) fn run_kernel(
    new: &mut ComputationBuilder<'_>,
    (module, assignment, imported): (
        &Module,
        &Assignment,
        &FxHashMap<ComputationId, ComputationId>,
    ),
    kernel: &Kernel,
    prepared: &Prepared,
    env: &mut Env,
    results: &[(ValueId, Layout)],
) -> Result<Vec<InstructionId>, Error> {
    let program = &assignment.program;
    let layout = |value: ValueId| {
        let found = results.iter().find(|(own, _)| *own == value);
        found.map_or_else(
            || layout_of(assignment, value),
            |(_, layout)| layout.clone(),
        )
    };
    let node = &program.nodes[kernel.root];
    match prepared {
        Prepared::Plain => {
            let mut op = written_op(module, node.origin);
            op.map_computations(|id| imported.get(&id).copied().unwrap_or(id));
            operation(new, assignment, module, kernel.root, op, env, &layout)
        }
        Prepared::Fusion(calls) => {
            let mut operands = Vec::new();
            for read in kernel
                .reads
                .iter()
                .filter(|read| !is_immediate(program, read.value))
            {
                let (id, _) = env.get(&read.value).ok_or_else(|| {
                    Error::bug("a kernel reads a value that is not defined before it")
                })?;
                operands.push(*id);
            }
            let kind = if kernel.has_product {
                FusionKind::Output
            } else {
                FusionKind::Loop
            };
            let op = Op::Fusion {
                kind,
                calls: *calls,
            };
            let name = &module[node.origin].name;
            let shapes: Vec<Shape> = results
                .iter()
                .map(|(value, layout)| with_layout(&program.values[*value].shape, layout))
                .collect();
            if let [one] = shapes.as_slice() {
                return Ok(vec![new.push_named(
                    Some(name),
                    op,
                    &operands,
                    Some(one.clone()),
                )?]);
            }
            let tuple = Some(Shape::Tuple(shapes.clone()));
            let all = new.push_named(Some(name), op, &operands, tuple)?;
            elements(new, all, &shapes)
        }
    }
}
