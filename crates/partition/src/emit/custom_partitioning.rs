//! Custom calls that a [`CallPartitioner`](crate::CallPartitioner) partitions: its program replaces
//! the call.

use super::local::part_shape;
use super::{Emitter, Frame, Local};
use crate::call_partitioner::WholeCall;
use crate::error::Error;
use crate::graph::{Node, ValueId};
use crate::read::shardy::plain;
use crate::sharding::Sharding;
use rustc_hash::FxHashMap;
use tegula_ir::{DraftId, Module, Op, Shape};

impl Emitter<'_> {
    /// Requests the program of one device, and calls it.
    pub(super) fn custom_partitioning(
        &mut self,
        frame: &mut Frame,
        node: &Node,
    ) -> Result<(), Error> {
        let Op::CustomCall(call) = &node.op else {
            return Err(self.bug("expected a custom call"));
        };
        let calls = self.calls;
        let Some(partitioner) = calls.partitioner(&call.target) else {
            return Err(self.bug("expected a registered partitioner for the call's target"));
        };
        let annotations = self.module[node.instruction].annotations.as_deref();
        let config = annotations.and_then(|annotations| annotations.backend_config.as_deref());
        let config = config.map(plain).unwrap_or_default();
        let whole = WholeCall {
            target: &call.target,
            config: &config,
            operands: self.as_found(&node.operands),
            results: self.as_found(&node.results),
        };
        let wrong = |reason: String| Error::Call {
            name: self.site.to_string(),
            reason,
        };
        let cut = partitioner.cut(&whole).map_err(wrong)?;
        check(&cut.operands, &whole.operands, "operand").map_err(wrong)?;
        check(&cut.results, &whole.results, "result").map_err(wrong)?;
        check_program(
            &cut.program,
            (&cut.operands, &whole.operands),
            (&cut.results, &whole.results),
        )
        .map_err(wrong)?;
        self.note("the partitioner registered for its target provides the program of one device");
        let mut operands = Vec::new();
        for (number, (value, sharding)) in node.operands.iter().zip(&cut.operands).enumerate() {
            self.reason = format!("its partitioner needs operand {number} as {sharding}");
            operands.push(self.wanted(frame, *value, sharding)?);
        }
        let results = self.call_program(frame, &cut.program, &operands)?;
        for ((value, id), sharding) in node.results.iter().zip(results).zip(cut.results) {
            let target = self.found.sharding(*value).clone();
            self.reason = format!("its result is needed as {target}");
            let local = Local { id, sharding };
            let (dims, scope) = (self.dims_of(*value), self.scope_of(node));
            let local = self.reshard(frame, &local, &target, &dims, scope)?;
            frame.values.insert(*value, local);
        }
        Ok(())
    }

    /// The shapes and the propagated shardings of values.
    fn as_found(&self, values: &[ValueId]) -> Vec<(Shape, Sharding)> {
        let of = |value: &ValueId| {
            let shape = self.graph.values[*value].shape.clone();
            (shape, self.found.sharding(*value).clone())
        };
        values.iter().map(of).collect()
    }

    /// Emits a call of another program, that of one device; returns its result arrays.
    fn call_program(
        &mut self,
        frame: &mut Frame,
        program: &Module,
        operands: &[DraftId],
    ) -> Result<Vec<DraftId>, Error> {
        let mut program = program.clone();
        for instruction in program.instructions.values_mut() {
            if let Some(channel) = instruction.op.collective_channel_mut() {
                *channel = self.channel();
            }
        }
        let mut known = FxHashMap::default();
        let to_apply = self.copied_from(&program, program.entry, &mut known)?;
        let shape = program[program.entry_computation().root].shape.clone();
        let op = Op::Call {
            to_apply,
            is_composite: false,
        };
        let made = self.push(frame, op, operands, Some(shape))?;
        self.leaves_of(frame, made)
    }
}

/// Checks that each array has a sharding of its rank.
fn check(cut: &[Sharding], whole: &[(Shape, Sharding)], what: &str) -> Result<(), String> {
    if cut.len() != whole.len() {
        let (found, expected) = (cut.len(), whole.len());
        return Err(format!(
            "expected {expected} shardings of {what}s, found {found}"
        ));
    }
    for (number, (cut, (shape, _))) in cut.iter().zip(whole).enumerate() {
        let rank = shape.as_array().map_or(0, tegula_ir::ArrayShape::rank);
        if cut.rank() != rank {
            let found = cut.rank();
            return Err(format!(
                "expected a sharding of {rank} dimensions for {what} {number}, found one of {found} dimensions"
            ));
        }
    }
    Ok(())
}

type Arrays<'a> = (&'a [Sharding], &'a [(Shape, Sharding)]);

/// Checks that the program's parameters and results have the part shapes of its shardings.
fn check_program(
    program: &Module,
    operands: Arrays<'_>,
    results: Arrays<'_>,
) -> Result<(), String> {
    let entry = program.entry_computation();
    let parts = |(cut, whole): Arrays<'_>| -> Vec<Shape> {
        let pairs = cut.iter().zip(whole);
        pairs
            .map(|(cut, (shape, _))| part_shape(shape, cut))
            .collect()
    };
    let given: Vec<Shape> = entry
        .parameters
        .iter()
        .map(|&id| program[id].shape.clone())
        .collect();
    let mut made = Vec::new();
    program[entry.root]
        .shape
        .for_each_leaf(&mut |leaf| made.push(leaf.clone()));
    for (what, found, expected) in [
        ("takes", given, parts(operands)),
        ("gives", made, parts(results)),
    ] {
        let same = found.len() == expected.len()
            && found
                .iter()
                .zip(&expected)
                .all(|(a, b)| a.same_ignoring_layout(b));
        if !same {
            let list = |shapes: &[Shape]| {
                let texts: Vec<String> = shapes.iter().map(|shape| format!("{shape:#}")).collect();
                texts.join(", ")
            };
            let (found, expected) = (list(&found), list(&expected));
            return Err(format!("its program {what} {found}, expected {expected}"));
        }
    }
    Ok(())
}
