//! Collectives: operations on the arrays of several devices.
//!
//! Each device gives all its operands to all members of its group and computes its own result from
//! everyone's operands. Results follow the positions of members in the group: sums of floats begin
//! with the first member's element and are rounded to the type after each addition.
//!
//! Start operations exchange the arrays at once; done operations return the result that the start
//! operation computed.

use crate::callee::Callee;
use crate::dispatch::left_out;
use crate::elementwise;
use crate::error::{OpError, invalid, unsupported};
use crate::eval::Evaluator;
use crate::movement::indices;
use crate::value::Value;
use std::sync::Arc;
use tegula_arena::EntityRef;
use tegula_devices::{Alone, Communicator, Exchange, Group, Outgoing};
use tegula_ir::{ArrayShape, ComputationId, ElementType, InstructionId, Literal, Op, Shape};
use tegula_scalar::{Bits, BitsMut};

/// The operands of each member, by position in the group and number of the operand.
type Parts = Vec<Arc<[Literal]>>;

/// The operands of all members of a group, as one of them sees them.
struct Gathered {
    parts: Parts,
    /// The position of this device.
    own: usize,
}

impl Gathered {
    /// The operand of this number of each member, by position.
    fn of(&self, operand: usize) -> Result<Vec<&Literal>, OpError> {
        let all = self.parts.iter().map(|part| part.get(operand));
        let all = all.collect::<Option<Vec<_>>>();
        all.ok_or_else(|| invalid("the devices of the group pass different numbers of operands"))
    }

    /// Computes one result for each operand.
    fn each(
        &self,
        mut result: impl FnMut(&[&Literal]) -> Result<Literal, OpError>,
    ) -> Result<Vec<Literal>, OpError> {
        let count = self.parts.first().map_or(0, |part| part.len());
        (0..count)
            .map(|operand| result(&self.of(operand)?))
            .collect()
    }
}

impl Evaluator<'_> {
    /// Evaluates `replica-id` and `partition-id`; they are 0 where only one device runs.
    pub(crate) fn own_number(&self, id: InstructionId) -> Result<Literal, OpError> {
        let mut result = Literal::zeros(&self.resolve(&self.module[id].shape)?)?;
        if let Some(communicator) = &self.communicator {
            let (topology, device) = (communicator.topology(), communicator.device());
            let number = match self.module[id].op {
                Op::ReplicaId => topology.replica(device),
                _ => topology.partition(device),
            };
            BitsMut::of(&mut result).set(0, number as u128);
        }
        Ok(result)
    }

    pub(crate) fn collective(
        &mut self,
        id: InstructionId,
        operands: Vec<Value>,
    ) -> Result<Value, OpError> {
        let module = self.module;
        let (op, shape) = (&module[id].op, &module[id].shape);
        let communicator = match &self.communicator {
            Some(communicator) => Arc::clone(communicator),
            None if Group::is_alone(module, op) => Arc::new(Alone),
            None => return Err(left_out(op)),
        };
        let operands = operands.into_iter().map(Value::into_array);
        let operands: Vec<Literal> = operands.collect::<Result<_, _>>()?;
        if matches!(op, Op::CollectivePermute { .. }) && writes_in_place(&operands) {
            return Err(unsupported(
                "a collective-permute that writes its result into its second operand",
            ));
        }
        let given = operands.clone();
        let topology = communicator.topology();
        let Some(group) = Group::of(op, topology, communicator.device())? else {
            // A broadcast to groups that do not include this device.
            let zeros = operands
                .iter()
                .map(|operand| Literal::zeros(operand.shape()));
            let zeros: Vec<Literal> = zeros.collect::<Result<_, _>>()?;
            return arranged(zeros, shape);
        };
        let exchange = Exchange {
            name: &module[id].name,
            site: id.index(),
            members: &group.members,
        };
        if let Op::AllReduce { to_apply, .. } = op {
            let results = self.combined_once(*to_apply, exchange, operands, &*communicator)?;
            return arranged(results, shape);
        }
        let results = match communicator.sends_bytes() {
            true => self.sent(op, exchange, group.position, operands, &*communicator)?,
            false => {
                let all = Gathered {
                    parts: communicator.exchange(exchange, operands)?,
                    own: group.position,
                };
                self.combined(op, &all, &*communicator)?
            }
        };
        match op {
            Op::AllGather { start: true, .. } | Op::CollectivePermute { start: true, .. } => {
                let one = |literals: Vec<Literal>| {
                    let mut values: Vec<Value> = literals.into_iter().map(Value::Array).collect();
                    match values.len() {
                        1 => values.remove(0),
                        _ => Value::Tuple(values),
                    }
                };
                self.started(id, vec![one(given), one(results)])
            }
            _ => arranged(results, shape),
        }
    }

    /// This device's results of an operation that moves arrays: each member receives only what it
    /// needs.
    fn sent(
        &mut self,
        op: &Op,
        exchange: Exchange<'_>,
        own: usize,
        operands: Vec<Literal>,
        communicator: &dyn Communicator,
    ) -> Result<Vec<Literal>, OpError> {
        let count = exchange.members.len();
        let one_each = operands.len() == count;
        let outgoing = match op {
            Op::ReduceScatter { dimension, .. }
            | Op::AllToAll {
                dimension: Some(dimension),
                ..
            } => {
                let member = |member| {
                    let parts = operands
                        .iter()
                        .map(|whole| part(whole, *dimension, member, count));
                    parts.collect::<Result<Vec<_>, _>>()
                };
                Outgoing::Parts((0..count).map(member).collect::<Result<_, _>>()?)
            }
            Op::AllToAll { .. } if one_each => {
                Outgoing::Parts(operands.into_iter().map(|operand| vec![operand]).collect())
            }
            Op::CollectiveBroadcast(_) => Outgoing::FromFirst(operands),
            Op::CollectivePermute {
                pairs, channel_id, ..
            } => {
                let (number, numbers) = permuted(communicator, *channel_id);
                let source = source_of(pairs, number, numbers)?;
                let zeros = operands
                    .iter()
                    .map(|operand| Literal::zeros(operand.shape()));
                let zeros: Vec<Literal> = zeros.collect::<Result<_, _>>()?;
                let targets = pairs.iter().filter(|(from, _)| *from == number as i64);
                let targets = targets.filter_map(|(_, to)| usize::try_from(*to).ok());
                let outgoing = Outgoing::Permuted {
                    arrays: operands,
                    source,
                    targets: targets.collect(),
                };
                let arrived = communicator.begin(exchange, outgoing)?.wait()?;
                return Ok(arrived.first().map_or(zeros, |arrays| arrays.to_vec()));
            }
            _ => Outgoing::ToAll(operands),
        };
        let parts = communicator.begin(exchange, outgoing)?.wait()?;
        let all = Gathered { parts, own };
        match op {
            Op::ReduceScatter { to_apply, .. } => all.each(|parts| self.folded(parts, *to_apply)),
            Op::AllToAll {
                dimension: Some(dimension),
                ..
            } => all.each(|parts| joined(parts, *dimension)),
            Op::AllToAll { .. } if one_each => {
                let sent = all.parts.iter().filter_map(|part| part.first().cloned());
                Ok(sent.collect())
            }
            _ => self.combined(op, &all, communicator),
        }
    }

    /// Combines the arrays of all members once, since all members have the same result.
    fn combined_once(
        &mut self,
        to_apply: ComputationId,
        exchange: Exchange<'_>,
        operands: Vec<Literal>,
        communicator: &dyn Communicator,
    ) -> Result<Vec<Literal>, OpError> {
        let mut error = None;
        let combined = communicator.exchange_combined(exchange, operands, &mut |parts| {
            let all = Gathered {
                parts: parts.to_vec(),
                own: 0,
            };
            let combined = all.each(|parts| self.folded(parts, to_apply));
            combined
                .map(Arc::from)
                .map_err(|own| error = Some(own))
                .ok()
        })?;
        match (combined, error) {
            (Some(combined), _) => Ok(combined.to_vec()),
            (None, Some(error)) => Err(error),
            (None, None) => Err(invalid(
                "another device of the group failed to combine the arrays",
            )),
        }
    }

    /// This device's results.
    fn combined(
        &mut self,
        op: &Op,
        all: &Gathered,
        communicator: &dyn Communicator,
    ) -> Result<Vec<Literal>, OpError> {
        let (own, count) = (all.own, all.parts.len());
        match op {
            Op::AllGather { dimension, .. } => all.each(|parts| joined(parts, *dimension)),
            Op::ReduceScatter {
                dimension,
                to_apply,
                ..
            } => all.each(|parts| {
                let own = parts
                    .iter()
                    .map(|whole| part(whole, *dimension, own, count));
                let own: Vec<Literal> = own.collect::<Result<_, _>>()?;
                self.folded(&own.iter().collect::<Vec<_>>(), *to_apply)
            }),
            Op::AllToAll {
                dimension: Some(dimension),
                ..
            } => all.each(|parts| {
                let sent = parts
                    .iter()
                    .map(|whole| part(whole, *dimension, own, count));
                let sent: Vec<Literal> = sent.collect::<Result<_, _>>()?;
                joined(&sent.iter().collect::<Vec<_>>(), *dimension)
            }),
            // Operand q of each member goes to member q.
            Op::AllToAll { .. } => {
                let (sent, operands) = (all.of(own)?, all.parts.first().map_or(0, |p| p.len()));
                match operands == count {
                    true => Ok(sent.into_iter().cloned().collect()),
                    false => Err(invalid(format!(
                        "expected {count} operands, one for each device of the group, found \
                            {operands}"
                    ))),
                }
            }
            Op::RaggedAllToAll(_) => ragged(all).map(|result| vec![result]),
            Op::CollectiveBroadcast(_) => all.each(|parts| match parts {
                [first, ..] => Ok((*first).clone()),
                [] => Err(invalid("expected at least one device in the group")),
            }),
            Op::CollectivePermute {
                pairs, channel_id, ..
            } => {
                let (number, numbers) = permuted(communicator, *channel_id);
                let source = source_of(pairs, number, numbers)?;
                all.each(|parts| match source {
                    Some(source) => (parts.get(source).copied().cloned())
                        .ok_or_else(|| invalid("the source device of a pair is not in the group")),
                    None => Ok(Literal::zeros(parts[own].shape())?),
                })
            }
            op => Err(left_out(op)),
        }
    }

    /// Combines the members' arrays element by element, from the first member to the last.
    fn folded(&mut self, parts: &[&Literal], to_apply: ComputationId) -> Result<Literal, OpError> {
        let (first, others) = parts
            .split_first()
            .ok_or_else(|| invalid("expected at least one device in the group"))?;
        let mut result = (*first).clone();
        let len = result.len();
        let mut callee = Callee::new(self, to_apply);
        for other in others {
            same_shape(first, other)?;
            if let Some(op) = callee.as_binary() {
                result = elementwise::binary(op, &result, other)?;
                continue;
            }
            let other = Bits::of(other);
            let mut sums = BitsMut::of(&mut result);
            for i in 0..len {
                let sum = callee.call_one(&[sums.get(i), other.get(i)])?;
                sums.set(i, sum);
            }
        }
        Ok(result)
    }
}

/// Whether the operands of a permutation are those of the form that updates its second operand in
/// place.
fn writes_in_place(operands: &[Literal]) -> bool {
    let is_index = |literal: &Literal| literal.element_type() == ElementType::S32;
    matches!(operands, [_, _, to, from] if is_index(to) && is_index(from))
}

/// The number of a device in a permutation, and how many numbers there are: those of partitions if
/// there is a channel, else those of replicas.
fn permuted(communicator: &dyn Communicator, channel_id: Option<i64>) -> (usize, usize) {
    let (topology, device) = (communicator.topology(), communicator.device());
    match channel_id {
        Some(_) => (topology.partition(device), topology.partitions),
        None => (topology.replica(device), topology.replicas),
    }
}

/// The number from which a permutation sends to this number.
fn source_of(
    pairs: &[(i64, i64)],
    number: usize,
    numbers: usize,
) -> Result<Option<usize>, OpError> {
    let mut found = None;
    for &(source, target) in pairs {
        let known = |n: i64| usize::try_from(n).ok().filter(|&n| n < numbers);
        let (Some(source), Some(target)) = (known(source), known(target)) else {
            return Err(invalid(format!(
                "the pair {{{source},{target}}} names an unknown device: expected numbers below {numbers}"
            )));
        };
        if target == number && found.replace(source).is_some() {
            return Err(invalid(format!(
                "expected at most one source for each target, but two pairs send to {target}"
            )));
        }
    }
    Ok(found)
}

/// Arrays as a value of a shape: the array itself for an array shape, else a tuple.
fn arranged(literals: Vec<Literal>, shape: &Shape) -> Result<Value, OpError> {
    let mut values: Vec<Value> = literals.into_iter().map(Value::Array).collect();
    match shape {
        Shape::Tuple(_) => Ok(Value::Tuple(values)),
        _ => values
            .pop()
            .ok_or_else(|| invalid("expected at least one array for the result")),
    }
}

fn same_shape(a: &Literal, b: &Literal) -> Result<(), OpError> {
    match a.shape() == b.shape() {
        true => Ok(()),
        false => Err(invalid(
            "expected arrays of equal shapes from all devices of the group",
        )),
    }
}

/// How an array is split along a dimension: the number of outer rows, the dimension's size, the
/// bytes of one inner slice, and the array's sizes.
fn around(shape: &ArrayShape, dimension: i64) -> Result<(usize, usize, usize, Vec<i64>), OpError> {
    let dims = shape
        .static_dims()
        .ok_or_else(|| invalid("expected an array with known sizes"))?;
    let at = usize::try_from(dimension)
        .ok()
        .filter(|&at| at < dims.len());
    let at = at.ok_or_else(|| {
        invalid(format!(
            "dimension {dimension} is out of range for the array's rank"
        ))
    })?;
    let product = |dims: &[i64]| dims.iter().product::<i64>() as usize;
    let inner = product(&dims[at + 1..]) * shape.element_type.storage_bytes();
    Ok((
        product(&dims[..at]),
        dims[at] as usize,
        inner,
        dims.to_vec(),
    ))
}

/// Part `index` of an array that is cut into `count` equal parts along a dimension.
fn part(whole: &Literal, dimension: i64, index: usize, count: usize) -> Result<Literal, OpError> {
    let (outer, size, inner, mut dims) = around(whole.shape(), dimension)?;
    if count == 0 || size % count != 0 {
        return Err(invalid(format!(
            "a dimension of {size} elements cannot be split into {count} equal parts"
        )));
    }
    let rows = size / count;
    dims[dimension as usize] = rows as i64;
    let mut own = Literal::zeros(&ArrayShape::new(whole.element_type(), &dims))?;
    let block = rows * inner;
    let blocks = own.bytes_mut().chunks_exact_mut(block.max(1));
    for (o, own) in (0..outer).zip(blocks) {
        let start = (o * size + index * rows) * inner;
        own.copy_from_slice(&whole.bytes()[start..start + block]);
    }
    Ok(own)
}

/// Concatenates arrays along a dimension.
fn joined(parts: &[&Literal], dimension: i64) -> Result<Literal, OpError> {
    let first = parts
        .first()
        .ok_or_else(|| invalid("expected at least one device in the group"))?;
    let (outer, size, inner, mut dims) = around(first.shape(), dimension)?;
    for part in parts {
        same_shape(first, part)?;
    }
    dims[dimension as usize] *= parts.len() as i64;
    let mut whole = Literal::zeros(&ArrayShape::new(first.element_type(), &dims))?;
    let block = size * inner;
    let mut blocks = whole.bytes_mut().chunks_exact_mut(block.max(1));
    for o in 0..outer {
        for (part, whole) in parts.iter().zip(&mut blocks) {
            whole.copy_from_slice(&part.bytes()[o * block..(o + 1) * block]);
        }
    }
    Ok(whole)
}

/// Evaluates `ragged-all-to-all(input, output, input_offsets, send_sizes, output_offsets,
/// recv_sizes)`.
///
/// Row `j` of the last four operands, with `updates` entries each, concerns member `j`:
/// `send_sizes` rows of the input, from `input_offsets` on, are sent to it and written there from
/// `output_offsets` on.
fn ragged(all: &Gathered) -> Result<Literal, OpError> {
    let operand = |number: usize| -> Result<Vec<Vec<i64>>, OpError> {
        let tables = all.of(number)?;
        tables.iter().map(|table| indices(table)).collect()
    };
    let (inputs, outputs) = (all.of(0)?, all.of(1)?);
    let (from, sizes, to) = (operand(2)?, operand(3)?, operand(4)?);
    let (own, count) = (all.own, all.parts.len());
    let mut result = outputs[own].clone();
    let (_, room, row, _) = around(result.shape(), 0)?;
    for (member, input) in inputs.iter().enumerate() {
        let (_, rows, input_row, _) = around(input.shape(), 0)?;
        let entries = sizes[member].len();
        let tables = [&from[member], &to[member]];
        if input_row != row || entries % count != 0 || tables.iter().any(|t| t.len() != entries) {
            return Err(invalid(
                "expected offsets and sizes with the same number of entries for each device, and rows of equal size",
            ));
        }
        let updates = entries / count;
        for entry in own * updates..(own + 1) * updates {
            let inside = |start: i64, size: i64, room: usize| {
                let (start, size) = (usize::try_from(start).ok()?, usize::try_from(size).ok()?);
                let end = start.checked_add(size).filter(|&end| end <= room)?;
                Some(start * row..end * row)
            };
            let size = sizes[member][entry];
            let source = inside(from[member][entry], size, rows);
            let target = inside(to[member][entry], size, room);
            let (Some(source), Some(target)) = (source, target) else {
                return Err(invalid(format!(
                    "the rows that position {member} sends to position {own} are out of bounds of the input or the output"
                )));
            };
            result.bytes_mut()[target].copy_from_slice(&input.bytes()[source]);
        }
    }
    Ok(result)
}
