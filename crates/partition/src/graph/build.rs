//! Builds the graph of a module.

use super::{Graph, Kind, Node, Region, RegionId, Scope, ScopeId, Value, ValueId};
use crate::call_partitioner::{Calls, INSPECTION};
use crate::error::Error;
use crate::read::{Stated, Unreduced, hlo, shardy};
use crate::sharding::{Cut, Sharding};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use tegula_ir::{ComputationId, CustomCall, Instruction, InstructionId, Module, Op, Shape};

/// The graph of a module for this number of devices.
///
/// # Errors
/// An invalid sharding.
pub(crate) fn build(
    module: &Module,
    meshes: &shardy::Meshes,
    devices: usize,
    calls: &Calls,
) -> Result<Graph, Error> {
    let mut builder = Builder {
        module,
        meshes,
        calls,
        manual_calls: manual_calls(module),
        graph: Graph {
            values: Vec::new(),
            regions: Vec::new(),
            scopes: vec![Scope {
                parent: 0,
                cut: Cut::whole(devices),
            }],
            entry: 0,
            at_borders: FxHashMap::default(),
            alike: BTreeMap::new(),
            wanted_partial: FxHashMap::default(),
            stated_results: Vec::new(),
            devices,
        },
    };
    let mut region = Region::default();
    let entry = module.entry_computation();
    let mut arguments = Vec::new();
    for &id in &entry.parameters {
        let values = builder.results(id, &module[id].shape, 0)?;
        region.parameters.extend(&values);
        arguments.push(values);
    }
    region.results = builder.computation(module.entry, arguments, 0, &mut region.nodes)?;
    if matches!(module[entry.root].op, Op::Tuple) {
        let leaves = leaves(&module[entry.root].shape);
        builder.graph.stated_results = builder.stated(entry.root, &leaves)?;
    }
    builder
        .graph
        .stated_results
        .resize(region.results.len(), None);
    builder.graph.entry = builder.graph.regions.len();
    builder.graph.regions.push(region);
    let mut graph = builder.graph;
    graph.wanted_partial = wanted_partial(&graph);
    Ok(graph)
}

/// Values for which a sharding constraint requests partial results.
fn wanted_partial(graph: &Graph) -> FxHashMap<ValueId, Unreduced> {
    let nodes = graph.regions.iter().flat_map(|region| &region.nodes);
    let stated = nodes.filter(|node| matches!(node.kind, Kind::Constraint));
    let pairs = stated.flat_map(|node| node.operands.iter().zip(&node.results));
    let wanted = pairs.filter_map(|(operand, result)| {
        let unreduced = graph.unreduced(*result)?;
        Some((*operand, unreduced.clone()))
    });
    wanted.collect()
}

/// The calls of manual computations, each with the custom call that combines its results and states
/// the manual axes.
fn manual_calls(module: &Module) -> FxHashMap<InstructionId, InstructionId> {
    let mut calls = FxHashMap::default();
    for (id, instruction) in &module.instructions {
        if target(instruction) != Some("xla.sdy.LocalToGlobalShape") {
            continue;
        }
        for &operand in &instruction.operands {
            let source = match module[operand].op {
                Op::GetTupleElement(_) => module[operand].operands.first().copied(),
                _ => Some(operand),
            };
            if let Some(source) = source
                && matches!(module[source].op, Op::Call { .. })
            {
                calls.insert(source, id);
            }
        }
    }
    calls
}

fn target(instruction: &Instruction) -> Option<&str> {
    match &instruction.op {
        Op::CustomCall(call) => Some(&call.target),
        _ => None,
    }
}

fn attribute(instruction: &Instruction, name: &str) -> Option<String> {
    let annotations = instruction.annotations.as_deref()?;
    let mut attributes = annotations.frontend_attributes.iter();
    let (_, text) = attributes.find(|(own, _)| &**own == name)?;
    Some(shardy::plain(text))
}

fn leaves(shape: &Shape) -> Vec<Shape> {
    let mut leaves = Vec::new();
    shape.for_each_leaf(&mut |leaf| leaves.push(leaf.clone()));
    leaves
}

fn rank(shape: &Shape) -> usize {
    shape.as_array().map_or(0, tegula_ir::ArrayShape::rank)
}

struct Builder<'m> {
    module: &'m Module,
    meshes: &'m shardy::Meshes,
    calls: &'m Calls,
    manual_calls: FxHashMap<InstructionId, InstructionId>,
    graph: Graph,
}

type Values = FxHashMap<InstructionId, Vec<ValueId>>;

impl Builder<'_> {
    /// New values for the arrays of a result.
    fn results(
        &mut self,
        id: InstructionId,
        shape: &Shape,
        scope: ScopeId,
    ) -> Result<Vec<ValueId>, Error> {
        let leaves = leaves(shape);
        let mut stated = self.stated(id, &leaves)?.into_iter();
        let name = &self.module[id].name;
        let values = leaves.into_iter().map(|shape| {
            self.graph.values.push(Value {
                shape,
                name: Arc::clone(name),
                scope,
                stated: stated.next().flatten(),
            });
            self.graph.values.len() - 1
        });
        Ok(values.collect())
    }

    /// The shardings that an instruction states for the arrays of its result.
    fn stated(&self, id: InstructionId, leaves: &[Shape]) -> Result<Vec<Option<Stated>>, Error> {
        let (instruction, devices) = (&self.module[id], self.graph.devices);
        let ranks: Vec<usize> = leaves.iter().map(rank).collect();
        let wrong = |text: &str| Error::Sharding {
            name: instruction.name.to_string(),
            text: text.to_owned(),
            expected: shardy::expected(text, self.meshes)
                .or_else(|| hlo::expected(text, devices))
                .unwrap_or_else(|| {
                    let rank = ranks.first().copied().unwrap_or(0);
                    format!("one for {devices} devices and {rank} dimensions")
                }),
        };
        if let Some(text) = attribute(instruction, "xla.sdy.sharding") {
            let all = shardy::shardings(&text, self.meshes, devices).ok_or_else(|| wrong(&text))?;
            let fits = all.len() == ranks.len()
                && all
                    .iter()
                    .zip(&ranks)
                    .all(|(own, rank)| own.stated.sharding.rank() == *rank);
            // A sharding without dimensions, for one device or for all, may be stated once for all
            // results, even for a call that has none.
            let whole = |rank: &usize| Some(Stated::replicated(*rank, devices));
            return match fits {
                true => Ok(all.into_iter().map(|axes| Some(axes.stated)).collect()),
                false if all.iter().all(shardy::Axes::has_no_axes) => {
                    Ok(ranks.iter().map(whole).collect())
                }
                false => Err(wrong(&text)),
            };
        }
        let annotations = instruction.annotations.as_deref();
        let Some(text) = annotations.and_then(|annotations| annotations.sharding.as_deref()) else {
            return Ok(vec![None; leaves.len()]);
        };
        let all = hlo::read(text, &ranks, devices).ok_or_else(|| wrong(text))?;
        Ok(all.into_iter().map(Some).collect())
    }

    /// Inlines a computation; returns the values of its root.
    fn computation(
        &mut self,
        id: ComputationId,
        arguments: Vec<Vec<ValueId>>,
        scope: ScopeId,
        nodes: &mut Vec<Node>,
    ) -> Result<Vec<ValueId>, Error> {
        let module = self.module;
        let mut values: Values = FxHashMap::default();
        let mut arguments = arguments;
        for &instruction in &module[id].instructions {
            let found = match &module[instruction].op {
                Op::Parameter(number) => {
                    let own = arguments.get_mut(*number as usize);
                    own.map(std::mem::take).unwrap_or_default()
                }
                _ => self.instruction(instruction, &values, scope, nodes)?,
            };
            values.insert(instruction, found);
        }
        Ok(values.remove(&module[id].root).unwrap_or_default())
    }

    fn instruction(
        &mut self,
        id: InstructionId,
        values: &Values,
        scope: ScopeId,
        nodes: &mut Vec<Node>,
    ) -> Result<Vec<ValueId>, Error> {
        let module = self.module;
        let instruction = &module[id];
        let of = |operand: &InstructionId| values.get(operand).cloned().unwrap_or_default();
        let by_operand: Vec<Vec<ValueId>> = instruction.operands.iter().map(of).collect();
        let operands: Vec<ValueId> = by_operand.iter().flatten().copied().collect();
        let scopes = operands.iter().map(|value| self.graph.values[*value].scope);
        let scope = scopes.fold(scope, ScopeId::max);
        match &instruction.op {
            Op::Tuple
            | Op::Domain(_)
            | Op::CopyStart { .. }
            | Op::CopyDone
            | Op::AsyncUpdate
            | Op::AsyncDone
            | Op::CollectiveDone(_) => Ok(operands),
            Op::GetTupleElement(index) => {
                let source = instruction
                    .operands
                    .first()
                    .map(|operand| &module[*operand].shape);
                let elements = source.and_then(Shape::as_tuple).unwrap_or_default();
                let index = usize::try_from(*index).unwrap_or(usize::MAX);
                // The start of an asynchronous operation is represented by its result alone.
                let Some(element) = elements.get(index) else {
                    return Ok(operands);
                };
                let before = elements.iter().take(index).map(Shape::leaf_count).sum();
                let own = operands.into_iter().skip(before);
                Ok(own.take(element.leaf_count()).collect())
            }
            Op::Call { to_apply, .. }
            | Op::Fusion {
                calls: to_apply, ..
            }
            | Op::AsyncStart {
                calls: to_apply, ..
            } => {
                let scope = match self.manual_calls.get(&id).copied() {
                    Some(end) if operands.is_empty() => self.scope_of(end, scope)?,
                    _ => scope,
                };
                self.computation(*to_apply, by_operand, scope, nodes)
            }
            Op::While { condition, body } => {
                let results = self.results(id, &instruction.shape, scope)?;
                let condition = self.region(*condition, &operands, scope)?;
                let body = self.region(*body, &operands, scope)?;
                let kind = Kind::While { condition, body };
                Ok(self.push(id, kind, operands, results, nodes))
            }
            Op::Conditional { branches, .. } => {
                let mut regions = Vec::new();
                for (branch, taken) in branches.iter().zip(by_operand.iter().skip(1)) {
                    regions.push(self.region(*branch, taken, scope)?);
                }
                let results = self.results(id, &instruction.shape, scope)?;
                Ok(self.push(id, Kind::Conditional(regions), operands, results, nodes))
            }
            Op::OptBarrier => {
                let results = self.results(id, &instruction.shape, scope)?;
                Ok(self.push(id, Kind::Barrier, operands, results, nodes))
            }
            Op::CustomCall(call) => self.custom_call(id, call, operands, scope, nodes),
            Op::Copy => {
                let results = self.results(id, &instruction.shape, scope)?;
                if let Some(group) = attribute(instruction, "xla.sdy.sharding_group_id") {
                    self.graph.alike.entry(group).or_default().extend(&results);
                }
                let kind = match results
                    .first()
                    .map(|value| &self.graph.values[*value].stated)
                {
                    Some(Some(_)) => Kind::Constraint,
                    _ => Kind::Operation,
                };
                Ok(self.push(id, kind, operands, results, nodes))
            }
            _ => {
                let results = self.results(id, &result_shape(instruction), scope)?;
                Ok(self.push(id, Kind::Operation, operands, results, nodes))
            }
        }
    }

    fn push(
        &mut self,
        id: InstructionId,
        kind: Kind,
        operands: Vec<ValueId>,
        results: Vec<ValueId>,
        nodes: &mut Vec<Node>,
    ) -> Vec<ValueId> {
        let instruction = &self.module[id];
        nodes.push(Node {
            instruction: id,
            op: finished(&instruction.op),
            kind,
            operands,
            results: results.clone(),
            shape: result_shape(instruction),
        });
        results
    }

    /// A region for a computation, with its own parameters.
    fn region(
        &mut self,
        id: ComputationId,
        given: &[ValueId],
        scope: ScopeId,
    ) -> Result<RegionId, Error> {
        let mut region = Region::default();
        let mut arguments = Vec::new();
        let mut at = 0;
        for &parameter in &self.module[id].parameters {
            let values = self.results(parameter, &self.module[parameter].shape, scope)?;
            for value in &values {
                let outer = given
                    .get(at)
                    .map_or(scope, |given| self.graph.values[*given].scope);
                self.graph.values[*value].scope = outer.max(scope);
                at += 1;
            }
            region.parameters.extend(&values);
            arguments.push(values);
        }
        region.results = self.computation(id, arguments, scope, &mut region.nodes)?;
        self.graph.regions.push(region);
        Ok(self.graph.regions.len() - 1)
    }

    fn custom_call(
        &mut self,
        id: InstructionId,
        call: &CustomCall,
        operands: Vec<ValueId>,
        scope: ScopeId,
        nodes: &mut Vec<Node>,
    ) -> Result<Vec<ValueId>, Error> {
        let instruction = &self.module[id];
        let (kind, scope) = match &*call.target {
            "Sharding" | "xla.sdy.FuncResultSharding" | "xla.sdy.ShardingConstraint" => {
                (Kind::Constraint, scope)
            }
            INSPECTION => (Kind::Inspection, scope),
            "xla.sdy.GlobalToLocalShape" => {
                let cuts = self.manual_cuts(id, "xla.sdy.in_shardings", operands.len())?;
                let inner = self.scope_of(id, scope)?;
                let results = self.results(id, &instruction.shape, inner)?;
                self.check_parts(id, &operands, &results, &cuts)?;
                self.state_unreduced(id, "xla.sdy.in_shardings", &results)?;
                self.state_auto(id, "xla.sdy.in_shardings", &results)?;
                return Ok(self.push(id, Kind::Enter(cuts), operands, results, nodes));
            }
            "xla.sdy.LocalToGlobalShape" => {
                let cuts = self.manual_cuts(id, "xla.sdy.out_shardings", operands.len())?;
                let outer = self.graph.scopes[scope].parent;
                let results = self.results(id, &instruction.shape, outer)?;
                self.check_parts(id, &results, &operands, &cuts)?;
                self.state_unreduced(id, "xla.sdy.out_shardings", &results)?;
                return Ok(self.push(id, Kind::Exit(cuts), operands, results, nodes));
            }
            "SPMDFullToShardShape" => return self.spmd_border(id, operands, scope, true, nodes),
            "SPMDShardToFullShape" => return self.spmd_border(id, operands, scope, false, nodes),
            // JAX's callbacks that take parts. Nothing is known about results, so the call must
            // have none.
            "xla_ffi_partitioned_python_cpu_callback" if instruction.shape.leaf_count() == 0 => {
                (Kind::OnParts, scope)
            }
            target if self.calls.partitioner(target).is_some() => (Kind::CustomPartitioning, scope),
            _ if self.is_made_once(id, call, scope) => (Kind::Once, scope),
            _ => (Kind::Operation, scope),
        };
        let results = self.results(id, &instruction.shape, scope)?;
        Ok(self.push(id, kind, operands, results, nodes))
    }

    /// Whether one device executes a custom call for all others in its part of the scope.
    fn is_made_once(&self, id: InstructionId, call: &CustomCall, scope: ScopeId) -> bool {
        let parts = self.graph.scopes[scope].cut.parts();
        let has_others = usize::try_from(parts).is_ok_and(|parts| parts < self.graph.devices);
        has_others && (call.has_side_effect || self.is_on_one_device(id))
    }

    /// Whether the program places an instruction on one device.
    fn is_on_one_device(&self, id: InstructionId) -> bool {
        let instruction = &self.module[id];
        if let Some(text) = attribute(instruction, "xla.sdy.sharding") {
            let all = shardy::shardings(&text, self.meshes, self.graph.devices);
            return all.is_some_and(|all| {
                !all.is_empty() && all.iter().all(shardy::Axes::is_of_one_device)
            });
        }
        let annotations = instruction.annotations.as_deref();
        let text = annotations.and_then(|annotations| annotations.sharding.as_deref());
        text.is_some_and(|text| text.contains("maximal"))
    }

    /// The shardings and the manual axes that a boundary of a manual computation states.
    fn boundary(
        &self,
        id: InstructionId,
        name: &str,
    ) -> Result<(Vec<shardy::Axes>, Vec<String>), Error> {
        let (instruction, devices) = (&self.module[id], self.graph.devices);
        let text = attribute(instruction, name).unwrap_or_default();
        let wrong = || Error::Sharding {
            name: instruction.name.to_string(),
            text: text.clone(),
            expected: format!(
                "one for {devices} devices and {} dimensions",
                rank(&instruction.shape)
            ),
        };
        let all = shardy::shardings(&text, self.meshes, devices).ok_or_else(wrong)?;
        let axes = attribute(instruction, "xla.sdy.manual_axes").unwrap_or_default();
        let axes = shardy::manual_axes(&axes).ok_or_else(wrong)?;
        Ok((all, axes))
    }

    /// The cuts of arrays along the manual axes.
    fn manual_cuts(
        &self,
        id: InstructionId,
        name: &str,
        count: usize,
    ) -> Result<Vec<Sharding>, Error> {
        let (all, axes) = self.boundary(id, name)?;
        let own = &self.module[id].name;
        if all.len() != count {
            let reason = format!("expected {count} shardings, found {}", all.len());
            return Err(Error::manual(own, reason));
        }
        let cuts = all.iter().map(|stated| {
            stated.cut_where(self.graph.devices, &|axis| {
                axes.iter().any(|own| own == axis)
            })
        });
        let cuts: Option<Vec<Sharding>> = cuts.collect();
        cuts.ok_or_else(|| {
            Error::manual(
                own,
                "the number of devices in its mesh is not that of the program",
            )
        })
    }

    /// Records which results of a boundary are unreduced along manual axes.
    fn state_unreduced(
        &mut self,
        id: InstructionId,
        name: &str,
        results: &[ValueId],
    ) -> Result<(), Error> {
        let (all, axes) = self.boundary(id, name)?;
        let is_manual = |axis: &str| axes.iter().any(|own| own == axis);
        for (value, stated) in results.iter().zip(&all) {
            let unreduced = stated.unreduced_where(self.graph.devices, &is_manual);
            let unreduced = unreduced.ok_or_else(|| {
                let reason = "expected unreduced axes that its mesh has";
                Error::manual(&self.module[id].name, reason)
            })?;
            if let Some(unreduced) = unreduced {
                self.graph.at_borders.insert(*value, unreduced);
            }
        }
        Ok(())
    }

    /// Records the results' stated cuts along axes that are not manual.
    fn state_auto(
        &mut self,
        id: InstructionId,
        name: &str,
        results: &[ValueId],
    ) -> Result<(), Error> {
        let (all, axes) = self.boundary(id, name)?;
        for (value, stated) in results.iter().zip(&all) {
            let auto = |axis: &str| !axes.iter().any(|own| own == axis);
            let sharding = stated.cut_where(self.graph.devices, &auto);
            self.graph.values[*value].stated = sharding.map(|sharding| Stated {
                sharding,
                open: stated.stated.open.clone(),
                manual: None,
                unreduced: None,
            });
        }
        Ok(())
    }

    /// The scope inside a boundary.
    fn scope_of(&mut self, id: InstructionId, parent: ScopeId) -> Result<ScopeId, Error> {
        let name = match target(&self.module[id]) {
            Some("xla.sdy.LocalToGlobalShape") => "xla.sdy.out_shardings",
            _ => "xla.sdy.in_shardings",
        };
        let (all, axes) = self.boundary(id, name)?;
        let along = all
            .first()
            .and_then(|stated| stated.along(&axes, self.graph.devices));
        let own = &self.module[id].name;
        let along = along.ok_or_else(|| Error::manual(own, "expected axes that its mesh has"))?;
        self.inner_scope(own, parent, &along)
    }

    fn inner_scope(&mut self, name: &str, parent: ScopeId, along: &Cut) -> Result<ScopeId, Error> {
        let cut = self.graph.scopes[parent].cut.then(along);
        let cut = cut.ok_or_else(|| {
            Error::manual(
                name,
                "its manual axes need more devices than the enclosing computation has",
            )
        })?;
        let mut scopes = self.graph.scopes.iter();
        if let Some(found) = scopes.position(|scope| scope.cut == cut && scope.parent == parent) {
            return Ok(found);
        }
        self.graph.scopes.push(Scope { parent, cut });
        Ok(self.graph.scopes.len() - 1)
    }

    /// Checks that the arrays inside have the shapes of the parts.
    fn check_parts(
        &self,
        id: InstructionId,
        whole: &[ValueId],
        parts: &[ValueId],
        cuts: &[Sharding],
    ) -> Result<(), Error> {
        for ((whole, part), cut) in whole.iter().zip(parts).zip(cuts) {
            let (whole, part) = (&self.graph.values[*whole], &self.graph.values[*part]);
            for dim in 0..whole.rank().max(part.rank()) {
                let parts = cut.cut(dim).map_or(1, Cut::parts);
                let expected = whole
                    .size(dim)
                    .map(|size| (size % parts == 0, size / parts));
                let fits = match expected {
                    Some((even, size)) => even && part.size(dim) == Some(size),
                    None => parts == 1 && part.size(dim).is_none(),
                };
                if !fits {
                    let reason = format!(
                        "dimension {dim} of {} divided into {parts} equal parts does not match {}",
                        whole.shape, part.shape
                    );
                    return Err(Error::manual(&self.module[id].name, reason));
                }
            }
        }
        Ok(())
    }

    /// Handles `SPMDFullToShardShape`, which `enters` a manual computation, and
    /// `SPMDShardToFullShape`. The sharding of the whole array states how it is cut; that of the
    /// part states which of these cuts stay under the partitioner's control inside.
    fn spmd_border(
        &mut self,
        id: InstructionId,
        operands: Vec<ValueId>,
        scope: ScopeId,
        enters: bool,
        nodes: &mut Vec<Node>,
    ) -> Result<Vec<ValueId>, Error> {
        let instruction = &self.module[id];
        let name = Arc::clone(&instruction.name);
        let wrong = |reason: &str| Error::manual(&name, reason);
        let given = operands
            .first()
            .and_then(|value| self.graph.values[*value].stated.clone());
        let own = self.stated(id, &leaves(&instruction.shape))?;
        let own = own.into_iter().next().flatten();
        let (whole, part) = match enters {
            true => (given, own),
            false => (own, given),
        };
        let whole = whole.ok_or_else(|| wrong("expected a sharding of the whole array"))?;
        let rank = whole.sharding.rank();
        let part = part.unwrap_or_else(|| Stated::replicated(rank, self.graph.devices));
        let cut = manual_part(&whole.sharding, &part.sharding);
        let cut = cut.ok_or_else(|| {
            wrong("expected a sharding of the part that refines that of the whole array")
        })?;
        let cuts = std::slice::from_ref(&cut);
        let (kind, results) = if enters {
            let along = part.manual.clone();
            let along = along.ok_or_else(|| wrong("expected a manual sharding"))?;
            let scope = self.inner_scope(&name, scope, &along)?;
            let results = self.results(id, &instruction.shape, scope)?;
            if let Some(result) = results.first() {
                self.graph.values[*result].stated = Some(Stated {
                    manual: None,
                    ..part
                });
            }
            self.check_parts(id, &operands, &results, cuts)?;
            (Kind::Enter(vec![cut]), results)
        } else {
            let scope = self.graph.scopes[scope].parent;
            let results = self.results(id, &instruction.shape, scope)?;
            self.check_parts(id, &results, &operands, cuts)?;
            (Kind::Exit(vec![cut]), results)
        };
        Ok(self.push(id, kind, operands, results, nodes))
    }
}

/// A sharding without its inner cuts, which leaves the manual ones.
fn manual_part(whole: &Sharding, inner: &Sharding) -> Option<Sharding> {
    let mut cuts = Vec::new();
    for dim in 0..whole.rank() {
        let (outer, inner) = (whole.cut(dim), inner.cut(dim));
        cuts.push(match (outer, inner) {
            (outer, None) => outer.cloned(),
            (None, Some(_)) => return None,
            (Some(outer), Some(inner)) => {
                let factor = inner.parts();
                if outer.parts() % factor != 0 {
                    return None;
                }
                let places = outer.places().iter().map(|place| place / factor);
                let cut = Cut::new(outer.parts() / factor, places.collect())?;
                if cut.then(inner).as_ref() != Some(outer) {
                    return None;
                }
                Some(cut)
            }
        });
    }
    Some(Sharding::new(whole.devices(), cuts))
}

/// The synchronous form of an asynchronous operation.
fn finished(op: &Op) -> Op {
    let mut op = op.clone();
    match &mut op {
        Op::AllGather { start, .. }
        | Op::AllReduce { start, .. }
        | Op::CollectivePermute { start, .. } => {
            *start = false;
        }
        _ => {}
    }
    op
}

/// The result shape in the synchronous form, without the operands that a start returns.
fn result_shape(instruction: &Instruction) -> Shape {
    match (&instruction.op, &instruction.shape) {
        (
            Op::AllGather { start: true, .. } | Op::CollectivePermute { start: true, .. },
            Shape::Tuple(parts),
        ) => parts.get(1).cloned().unwrap_or(Shape::Token),
        (_, shape) => shape.clone(),
    }
}
