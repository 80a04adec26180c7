//! The part of the verifier that checks places alone: that ids exist, every buffer is inside its
//! memory, and every value fits its buffer.

use super::{Alias, BufferId, Place, Plan, Step, ValueId};
use tegula_ir::ALIGNMENT;

/// Checks that every id in the plan exists. Nothing else can be checked before that.
pub(super) fn ids_exist(plan: &Plan) -> Result<(), String> {
    for (id, value) in &plan.values {
        if plan.buffers.get(value.buffer).is_none() {
            return Err(format!(
                "{id} is stored in {}, which does not exist",
                value.buffer
            ));
        }
    }
    ids(plan, &plan.parameters)?;
    ids(plan, &plan.results)?;
    steps(plan, &plan.steps)
}

fn ids(plan: &Plan, ids: &[ValueId]) -> Result<(), String> {
    match ids.iter().find(|&&id| plan.values.get(id).is_none()) {
        Some(id) => Err(format!("{id} does not exist")),
        None => Ok(()),
    }
}

fn steps(plan: &Plan, steps_: &[Step]) -> Result<(), String> {
    steps_.iter().try_for_each(|step| match step {
        Step::Kernel { kernel, args } => match plan.kernels.get(*kernel) {
            Some(_) => ids(plan, args),
            None => Err(format!("{kernel} does not exist")),
        },
        Step::Library {
            operands, results, ..
        } => ids(plan, operands).and_then(|()| ids(plan, results)),
        Step::Copy { from, to } => ids(plan, &[*from, *to]),
        Step::While {
            condition,
            predicate,
            body,
        } => {
            ids(plan, &[*predicate])?;
            steps(plan, condition)?;
            steps(plan, body)
        }
        Step::Conditional { selector, branches } => {
            ids(plan, &[*selector])?;
            branches.iter().try_for_each(|branch| steps(plan, branch))
        }
        Step::Strips { steps: inner, .. } => steps(plan, inner),
    })
}

/// The errors in the places of buffers and values.
pub(super) fn misplaced(plan: &Plan) -> Vec<String> {
    let mut errors = Vec::new();
    if plan.arena_bytes.as_constant().is_none_or(|bytes| bytes < 0) {
        errors.push("the size of the arena is not a number of bytes".to_owned());
    }
    errors.extend(plan.buffers.keys().filter_map(|id| buffer(plan, id).err()));
    for (id, value) in &plan.values {
        let bytes = value.shape.byte_size();
        if bytes.is_none() || plan.buffers[value.buffer].bytes.as_constant() < bytes {
            errors.push(format!("{id} is larger than its buffer {}", value.buffer));
        }
    }
    let lies_in = |id: ValueId| &plan.buffers[plan.values[id].buffer].place;
    for (i, &id) in plan.parameters.iter().enumerate() {
        let output = plan.aliases.iter().find(|a| a.parameter == i);
        let place = match output {
            Some(alias) => Place::output(alias.output),
            None => Place::Parameter(i),
        };
        if *lies_in(id) != place {
            errors.push(format!(
                "{id} is parameter {i}, but is not stored in its memory"
            ));
        }
    }
    errors.extend((0..plan.aliases.len()).filter_map(|i| alias(plan, i).err()));
    for (i, &id) in plan.results.iter().enumerate() {
        if *lies_in(id) != Place::output(i) {
            errors.push(format!(
                "{id} is result {i}, but is not stored in its memory"
            ));
        }
    }
    errors
}

/// Checks that a result is aliased with one parameter of the same size, and with no other.
fn alias(plan: &Plan, number: usize) -> Result<(), String> {
    let (before, alias) = match plan.aliases.get(..=number).and_then(<[_]>::split_last) {
        Some((alias, before)) => (before, *alias),
        None => return Ok(()),
    };
    let Alias { parameter, output } = alias;
    let twice = before
        .iter()
        .any(|a| a.parameter == parameter || a.output == output);
    let bytes = |id: Option<&ValueId>| plan.values[*id?].shape.byte_size();
    let (from, to) = (
        bytes(plan.parameters.get(parameter)),
        bytes(plan.results.get(output)),
    );
    match from.is_some() && from == to && !twice {
        true => Ok(()),
        false => Err(format!(
            "output {output} cannot start as parameter {parameter}: one is missing, taken, or of another size"
        )),
    }
}

fn buffer(plan: &Plan, id: BufferId) -> Result<(), String> {
    let buffer = &plan.buffers[id];
    let bytes = buffer.bytes.as_constant().filter(|&bytes| bytes >= 0);
    let bytes = bytes.ok_or_else(|| format!("the size of {id} is not a number of bytes"))?;
    let of_value = |id: Option<&ValueId>| plan.values[*id?].shape.byte_size();
    let (what, available) = match &buffer.place {
        Place::Arena(offset) => {
            let arena = ("the arena", plan.arena_bytes.as_constant());
            return inside(id, arena, offset.as_constant(), bytes);
        }
        Place::Parameter(i) => (format!("parameter {i}"), of_value(plan.parameters.get(*i))),
        Place::Output { result, from } => {
            let available = of_value(plan.results.get(*result));
            let what = format!("output {result}");
            return inside(id, (&what, available), Some(*from), bytes);
        }
        Place::Constant(i) => (
            format!("constant {i}"),
            plan.constants.get(*i).map(|c| c.bytes().len() as i64),
        ),
    };
    match available {
        None => Err(format!("{id} is in {what}, which does not exist")),
        Some(available) if available < bytes => Err(format!(
            "{id} has {bytes} bytes of {what}, which has {available}"
        )),
        Some(_) => Ok(()),
    }
}

/// Checks that a buffer with this start and size is inside the available memory, and aligned.
fn inside(
    id: BufferId,
    (what, available): (&str, Option<i64>),
    start: Option<i64>,
    bytes: i64,
) -> Result<(), String> {
    let start = start.filter(|&start| start >= 0);
    let start = start.ok_or_else(|| format!("the offset of {id} in {what} is unknown"))?;
    let available = available.ok_or_else(|| format!("{id} is in {what}, which does not exist"))?;
    if start % ALIGNMENT as i64 != 0 {
        return Err(format!(
            "{id} is misaligned: its offset {start} is not a multiple of {ALIGNMENT}"
        ));
    }
    match start.checked_add(bytes) {
        Some(end) if end <= available => Ok(()),
        _ => Err(format!(
            "{id} of {bytes} bytes at {start} is not inside {what} of {available} bytes"
        )),
    }
}
