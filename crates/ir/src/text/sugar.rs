//! Expands `X-start(operands)`, the short form of an `async-start` whose computation does `X`.

use super::tree::{Attribute, Value};
use super::tree::{OperandSource, Payload, RawComputation, RawInstruction, RawOpcode, RawOperand};
use crate::{Error, Opcode, Shape, Span};
use smallvec::SmallVec;

/// The parameter names of a wrapped computation, which also limit the number of its operands.
const NAMES: [&str; 32] = [
    "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14",
    "p15", "p16", "p17", "p18", "p19", "p20", "p21", "p22", "p23", "p24", "p25", "p26", "p27",
    "p28", "p29", "p30", "p31",
];

/// Expands every `X-start` and adds the computations that contain `X`. Their names are
/// `async_NAME`, after the instruction; `names` owns the text.
pub(crate) fn expand<'a>(
    source: &str,
    computations: &mut Vec<RawComputation<'a>>,
    names: &'a [String],
) -> Result<(), Error> {
    let mut names = names.iter();
    let mut wrapped = Vec::new();
    for computation in computations.iter_mut() {
        for instruction in &mut computation.instructions {
            let RawOpcode::Start(opcode) = instruction.opcode else {
                continue;
            };
            let name = names
                .next()
                .ok_or_else(|| Error::bug("a name is missing"))?;
            let inner = wrap(instruction, opcode, name)
                .map_err(|error| error.at(source, instruction.span))?;
            wrapped.push(inner);
        }
    }
    // They go first, so that the last computation stays the default entry.
    computations.splice(0..0, wrapped);
    Ok(())
}

/// A name for the computation of each `X-start`.
pub(crate) fn wrapped_names(computations: &[RawComputation<'_>]) -> Vec<String> {
    let mut used: rustc_hash::FxHashSet<String> =
        computations.iter().map(|c| c.name.to_owned()).collect();
    let instructions = computations.iter().flat_map(|c| &c.instructions);
    instructions
        .filter(|instruction| matches!(instruction.opcode, RawOpcode::Start(_)))
        .map(|instruction| {
            let mut name = format!("async_{}", instruction.name.unwrap_or("nested"));
            while !used.insert(name.clone()) {
                name.push('_');
            }
            name
        })
        .collect()
}

fn wrap<'a>(
    outer: &mut RawInstruction<'a>,
    opcode: Opcode,
    name: &'a str,
) -> Result<RawComputation<'a>, Error> {
    let span = outer.span;
    let (operand_shapes, result) = match outer.shape.as_ref().and_then(Shape::as_tuple) {
        Some([Shape::Tuple(operands), result, ..]) if operands.len() == outer.operands.len() => {
            (operands.clone(), result.clone())
        }
        _ => {
            let message = format!(
                "`{opcode}-start` needs a shape `((operands), result, ...)` in front of it"
            );
            return Err(Error::input(message));
        }
    };
    let mut instructions = Vec::new();
    let mut operands = SmallVec::new();
    for (index, shape) in operand_shapes.into_iter().enumerate() {
        let Some(&parameter) = NAMES.get(index) else {
            return Err(Error::limit(
                "a `-start` with this many operands is not supported",
            ));
        };
        operands.push(RawOperand {
            source: OperandSource::Name(parameter),
            span,
            shape: None,
            elements: SmallVec::new(),
        });
        instructions.push(RawInstruction {
            name: Some(parameter),
            span,
            shape: Some(shape),
            opcode: RawOpcode::Plain(Opcode::Parameter),
            operands: SmallVec::new(),
            payload: Payload::Parameter(index as i64),
            attributes: Vec::new(),
        });
    }
    let outer_only = |attribute: &Attribute<'_>| {
        attribute.name == "async_execution_thread" || super::scope::is_annotation(attribute.name)
    };
    let (mut kept, inner): (Vec<_>, Vec<_>) = std::mem::take(&mut outer.attributes)
        .into_iter()
        .partition(outer_only);
    let execution_thread = kept.iter().find_map(|attribute| match &attribute.value {
        Value::Text(thread) => Some(thread.clone()),
        _ => None,
    });
    kept.push(Attribute {
        name: "calls",
        span,
        value: Value::Names(vec![(name, span)]),
        text: "",
    });
    outer.attributes = kept;
    instructions.push(RawInstruction {
        name: Some("result"),
        span,
        shape: Some(result),
        opcode: RawOpcode::Plain(opcode),
        operands,
        payload: Payload::None,
        attributes: inner,
    });
    Ok(RawComputation {
        name,
        span: Span {
            end: span.start,
            ..span
        },
        entry: false,
        program_shape: None,
        root: instructions.len() - 1,
        instructions,
        execution_thread,
    })
}
