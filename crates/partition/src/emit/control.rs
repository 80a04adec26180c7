//! Loops, branches, boundaries of manual computations, and the entry computation.

use super::operation::laid_out;
use super::{Emitted, Emitter, Frame, Local};
use crate::Freedom;
use crate::error::Error;
use crate::graph::{Kind, Node, Region, RegionId, ValueId};
use crate::report::Choice;
use crate::sharding::{Cut, Sharding};
use std::sync::Arc;
use tegula_ir::{ComputationId, Dims, DraftId, Module, Op, Shape};

impl Emitter<'_> {
    /// Emits the whole program.
    pub(super) fn entry(mut self, free: &Freedom) -> Result<Emitted, Error> {
        let graph = self.graph;
        let region = &graph.regions[graph.entry];
        let source = self.module.entry_computation();
        let mut frame = Frame::new(&source.name);
        let mut leaves = region.parameters.iter();
        for &id in &source.parameters {
            let parameter = &self.module[id];
            let values: Vec<ValueId> = leaves
                .by_ref()
                .take(parameter.shape.leaf_count())
                .copied()
                .collect();
            let shapes: Vec<Shape> = values
                .iter()
                .map(|value| self.local_shape(*value))
                .collect();
            let shape = with_leaves(&parameter.shape, &mut shapes.into_iter());
            let made = frame.draft.parameter(shape, Some(&parameter.name));
            let ids = self.leaves_of(&mut frame, made)?;
            for (value, id) in values.into_iter().zip(ids) {
                let sharding = self.found.sharding(value).clone();
                frame.values.insert(value, Local { id, sharding });
                if let Some(unreduced) = graph.unreduced(value) {
                    frame.partial.insert(value, unreduced.clone());
                }
            }
        }
        self.nodes(&mut frame, region)?;
        self.site = Arc::clone(&source.name);
        let mut results = Vec::new();
        let mut unreduced_results = Vec::new();
        let mut ids = Vec::new();
        for (number, (value, stated)) in
            region.results.iter().zip(&graph.stated_results).enumerate()
        {
            let own = self.found.sharding(*value).clone();
            let is_stated = graph.values[*value].stated.is_some();
            let target = match stated {
                Some(stated) if stated.sharding.rank() == own.rank() => stated.sharding.clone(),
                _ if free.wants_equal_parts() && (is_stated || free.allows(number)) => {
                    self.equal_parts(*value, own)
                }
                _ if is_stated || free.allows(number) => own,
                _ => Sharding::replicated(own.rank(), own.devices()),
            };
            self.reason = "the program's result is needed in its stated sharding".to_owned();
            let unreduced = match stated {
                Some(stated) => stated.unreduced.as_ref(),
                None => graph.unreduced(*value),
            };
            ids.push(match unreduced {
                Some(unreduced) => self.partial(&mut frame, *value, &target, unreduced)?,
                None => self.wanted(&mut frame, *value, &target)?,
            });
            results.push(target);
            unreduced_results.push(unreduced.cloned());
        }
        let root = self.tuple_of(
            &mut frame,
            &self.module[source.root].shape.clone(),
            &mut ids.into_iter(),
        )?;
        self.choices();
        let (source, devices) = (self.module, self.graph.devices);
        let Self {
            mut builder,
            report,
            site,
            ..
        } = self;
        let entry = frame
            .draft
            .finish(&mut builder, root)
            .map_err(|error| Error::build(&site, error))?;
        let attributes = builder.attributes_mut();
        let kept = &source.attributes;
        attributes.replica_count = kept.replica_count;
        attributes.num_partitions = Some(devices as i64);
        attributes.input_output_alias = kept.input_output_alias.clone();
        attributes.buffer_donor = kept.buffer_donor.clone();
        let layouts = kept.entry_layout.clone();
        let mut module = builder.build_unverified(entry);
        module.attributes.entry_layout = layouts.map(|stated| local_layouts(&module, stated));
        module.required = source.required.clone();
        keep_possible_aliases(&mut module);
        tegula_ir::verify(&module).map_err(|errors| Error::build(&site, errors.into()))?;
        Ok(Emitted {
            module,
            results,
            unreduced_results,
            report,
        })
    }

    /// The sharding without those cuts that would need padding.
    fn equal_parts(&self, value: ValueId, sharding: Sharding) -> Sharding {
        let data = &self.graph.values[value];
        let mut even = sharding;
        for dim in 0..even.rank() {
            let divides = |cut: &Cut| data.size(dim).is_some_and(|size| cut.divides(size));
            if even.cut(dim).is_some_and(|cut| !divides(cut)) {
                even = even.with(dim, None);
            }
        }
        even
    }

    /// Records the sharding of each array in the report.
    fn choices(&mut self) {
        for (value, data) in self.graph.values.iter().enumerate() {
            self.report.choices.push(Choice {
                name: Arc::clone(&data.name),
                sharding: self.found.sharding(value).to_string(),
                reasons: self.found.reasons(value).to_vec(),
            });
        }
    }

    fn local_shape(&self, value: ValueId) -> Shape {
        super::local::part_shape(&self.graph.values[value].shape, self.found.sharding(value))
    }

    /// A value, resharded to a given sharding.
    pub(super) fn wanted(
        &mut self,
        frame: &mut Frame,
        value: ValueId,
        target: &Sharding,
    ) -> Result<DraftId, Error> {
        self.combine(frame, value)?;
        let data = &self.graph.values[value];
        let local = frame.values.get(&value).cloned();
        let local =
            local.ok_or_else(|| self.bug("expected a value that is emitted before its use"))?;
        let Some(array) = data.shape.as_array() else {
            return Ok(local.id);
        };
        let dims: Dims = array.dims.clone();
        Ok(self.reshard(frame, &local, target, &dims, data.scope)?.id)
    }

    /// The arrays of a value, which may be a tuple.
    pub(super) fn leaves_of(
        &mut self,
        frame: &mut Frame,
        id: DraftId,
    ) -> Result<Vec<DraftId>, Error> {
        let Shape::Tuple(elements) = frame.draft.shape(id).clone() else {
            return Ok(vec![id]);
        };
        let mut leaves = Vec::new();
        for index in 0..elements.len() {
            let element = self.push(frame, Op::GetTupleElement(index as i64), &[id], None)?;
            leaves.extend(self.leaves_of(frame, element)?);
        }
        Ok(leaves)
    }

    /// A value of this shape, built from its arrays.
    pub(super) fn tuple_of(
        &mut self,
        frame: &mut Frame,
        shape: &Shape,
        leaves: &mut dyn Iterator<Item = DraftId>,
    ) -> Result<DraftId, Error> {
        let Shape::Tuple(elements) = shape else {
            return leaves
                .next()
                .ok_or_else(|| self.bug("expected an array for each leaf of a tuple"));
        };
        let mut ids = Vec::new();
        for element in elements {
            ids.push(self.tuple_of(frame, element, leaves)?);
        }
        self.push(frame, Op::Tuple, &ids, None)
    }

    fn nodes(&mut self, frame: &mut Frame, region: &Region) -> Result<(), Error> {
        let rotations = self.rotations(region);
        for (at, node) in region.nodes.iter().enumerate() {
            self.site = Arc::clone(&self.module[node.instruction].name);
            match rotations.at(at) {
                Some(rotation) => self.rotated(frame, node, rotation)?,
                None if rotations.is_unneeded(at) => {}
                None => self.node(frame, node)?,
            }
        }
        Ok(())
    }

    fn node(&mut self, frame: &mut Frame, node: &Node) -> Result<(), Error> {
        match &node.kind {
            Kind::Operation => self.operation(frame, node),
            Kind::Constraint => {
                for (operand, result) in node.operands.iter().zip(&node.results) {
                    let target = self.found.sharding(*result).clone();
                    self.reason = format!("its sharding is stated as {target}");
                    let id = match self.graph.unreduced(*result) {
                        Some(unreduced) => {
                            frame.partial.insert(*result, unreduced.clone());
                            self.partial(frame, *operand, &target, unreduced)?
                        }
                        None => self.wanted(frame, *operand, &target)?,
                    };
                    frame.values.insert(
                        *result,
                        Local {
                            id,
                            sharding: target,
                        },
                    );
                }
                Ok(())
            }
            Kind::Inspection => {
                for (operand, result) in node.operands.iter().zip(&node.results) {
                    let own = self.found.sharding(*operand).clone();
                    let id = self.wanted(frame, *operand, &own)?;
                    frame.values.insert(*result, Local { id, sharding: own });
                }
                Ok(())
            }
            Kind::Barrier => self.barrier(frame, node),
            Kind::Once => self.once(frame, node),
            Kind::CustomPartitioning => self.custom_partitioning(frame, node),
            Kind::OnParts => {
                let mut ids = Vec::new();
                for value in &node.operands {
                    let own = self.found.sharding(*value).clone();
                    ids.push(self.wanted(frame, *value, &own)?);
                }
                let made = self.push(frame, node.op.clone(), &ids, Some(node.shape.clone()))?;
                self.annotate(frame, node, made);
                Ok(())
            }
            Kind::Enter(cuts) => self.boundary(frame, node, cuts, true),
            Kind::Exit(cuts) => self.boundary(frame, node, cuts, false),
            Kind::While { condition, body } => self.while_loop(frame, node, *condition, *body),
            Kind::Conditional(branches) => self.conditional(frame, node, branches),
        }
    }

    /// An `opt-barrier` on all arrays together.
    fn barrier(&mut self, frame: &mut Frame, node: &Node) -> Result<(), Error> {
        let mut ids = Vec::new();
        for (operand, result) in node.operands.iter().zip(&node.results) {
            let target = self.found.sharding(*result).clone();
            ids.push(self.wanted(frame, *operand, &target)?);
        }
        let given = self.tuple_of(frame, &node.shape, &mut ids.into_iter())?;
        let made = self.push(frame, Op::OptBarrier, &[given], None)?;
        let leaves = self.leaves_of(frame, made)?;
        self.insert(frame, node, leaves);
        Ok(())
    }

    fn insert(&self, frame: &mut Frame, node: &Node, leaves: Vec<DraftId>) {
        for (result, id) in node.results.iter().zip(leaves) {
            let sharding = self.found.sharding(*result).clone();
            frame.values.insert(*result, Local { id, sharding });
        }
    }

    /// A boundary of a manual computation. The parts stay the same, but they are parts of different
    /// arrays: outside, the whole array is cut along the manual axes and also as each part is cut
    /// inside.
    fn boundary(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        cuts: &[Sharding],
        enters: bool,
    ) -> Result<(), Error> {
        for ((operand, result), manual) in node.operands.iter().zip(&node.results).zip(cuts) {
            let inner_value = if enters { *result } else { *operand };
            let inner = match (enters, frame.values.get(operand)) {
                (false, Some(local)) => local.sharding.clone(),
                _ => self.found.sharding(inner_value).clone(),
            };
            let mut outer = Vec::new();
            for dim in 0..manual.rank() {
                outer.push(match (manual.cut(dim), inner.cut(dim)) {
                    (Some(manual), Some(inner)) => manual.then(inner),
                    (manual, inner) => manual.or(inner).cloned(),
                });
            }
            let outer = Sharding::new(self.graph.devices, outer);
            self.reason = format!("the manual computation takes its operand as {outer}");
            let unreduced = self.graph.at_borders.get(result).cloned();
            let local = match enters {
                true => {
                    let id = match &unreduced {
                        Some(unreduced) => self.partial(frame, *operand, &outer, unreduced)?,
                        None => self.wanted(frame, *operand, &outer)?,
                    };
                    Local {
                        id,
                        sharding: inner,
                    }
                }
                false => {
                    let mut id = self.wanted(frame, *operand, &inner)?;
                    if let Some(unreduced) = unreduced {
                        if outer == *self.found.sharding(*result) {
                            frame.partial.insert(*result, unreduced);
                        } else {
                            self.reason =
                                "the manual computation returns partial results".to_owned();
                            id = self.all_reduce(frame, id, unreduced.op, &unreduced.groups)?;
                        }
                    }
                    let data = &self.graph.values[*result];
                    let dims = data
                        .shape
                        .as_array()
                        .map(|array| array.dims.clone())
                        .unwrap_or_default();
                    let target = self.found.sharding(*result).clone();
                    self.reason =
                        format!("the result of the manual computation is needed as {target}");
                    self.reshard(
                        frame,
                        &Local {
                            id,
                            sharding: outer,
                        },
                        &target,
                        &dims,
                        data.scope,
                    )?
                }
            };
            frame.values.insert(*result, local);
        }
        Ok(())
    }

    /// A computation whose single parameter is a tuple of all arrays; `root` builds the result.
    fn region(
        &mut self,
        region: RegionId,
        name: &str,
        parameter: &Shape,
        results: &[Sharding],
        root: &Shape,
    ) -> Result<ComputationId, Error> {
        let graph = self.graph;
        let region = &graph.regions[region];
        let mut frame = Frame::new(name);
        let shapes: Vec<Shape> = region
            .parameters
            .iter()
            .map(|value| self.local_shape(*value))
            .collect();
        let shape = with_leaves(parameter, &mut shapes.into_iter());
        let made = frame.draft.parameter(shape, None);
        let ids = self.leaves_of(&mut frame, made)?;
        for (value, id) in region.parameters.iter().zip(ids) {
            let sharding = self.found.sharding(*value).clone();
            frame.values.insert(*value, Local { id, sharding });
        }
        let site = Arc::clone(&self.site);
        self.nodes(&mut frame, region)?;
        self.site = site;
        let mut ids = Vec::new();
        for (value, target) in region.results.iter().zip(results) {
            self.reason = format!("the result of `{name}` is needed in the caller's sharding");
            ids.push(self.wanted(&mut frame, *value, target)?);
        }
        let root = self.tuple_of(&mut frame, root, &mut ids.into_iter())?;
        let site = Arc::clone(&self.site);
        let finished = frame.draft.finish(&mut self.builder, root);
        finished.map_err(|error| Error::build(&site, error))
    }

    fn while_loop(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        condition: RegionId,
        body: RegionId,
    ) -> Result<(), Error> {
        let state: Vec<Sharding> = node
            .results
            .iter()
            .map(|value| self.found.sharding(*value).clone())
            .collect();
        let mut ids = Vec::new();
        for (operand, target) in node.operands.iter().zip(&state) {
            self.reason = "the loop keeps its state in this sharding".to_owned();
            ids.push(self.wanted(frame, *operand, target)?);
        }
        let whole = vec![Sharding::replicated(0, self.graph.devices)];
        let names = node.op.called_computations();
        let name = |at: usize| {
            names
                .get(at)
                .map_or_else(|| "loop".into(), |id| Arc::clone(&self.module[*id].name))
        };
        let (condition_name, body_name) = (name(0), name(1));
        let predicate = Shape::array(tegula_ir::ElementType::Pred, &[]);
        let condition = self.region(condition, &condition_name, &node.shape, &whole, &predicate)?;
        let body = self.region(body, &body_name, &node.shape, &state, &node.shape)?;
        let init = self.tuple_of(frame, &node.shape, &mut ids.into_iter())?;
        let made = self.push(frame, Op::While { condition, body }, &[init], None)?;
        frame.draft.set_name(made, &self.site);
        self.keep_annotations(frame, node, made);
        let leaves = self.leaves_of(frame, made)?;
        self.insert(frame, node, leaves);
        Ok(())
    }

    fn conditional(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        branches: &[RegionId],
    ) -> Result<(), Error> {
        let graph = self.graph;
        let results: Vec<Sharding> = node
            .results
            .iter()
            .map(|value| self.found.sharding(*value).clone())
            .collect();
        let selector = node.operands.first().copied().unwrap_or_default();
        let rank = graph.values[selector].rank();
        let selector = self.wanted(frame, selector, &Sharding::replicated(rank, graph.devices))?;
        let source = &self.module[node.instruction];
        let names = node.op.called_computations();
        let mut operands = vec![selector];
        let mut called = Vec::new();
        let mut given = node.operands.iter().skip(1);
        for (at, branch) in branches.iter().enumerate() {
            let parameters = &graph.regions[*branch].parameters;
            let mut ids = Vec::new();
            for (parameter, operand) in parameters.iter().zip(given.by_ref()) {
                self.reason = "the branch takes its operand in this sharding".to_owned();
                let target = self.found.sharding(*parameter).clone();
                ids.push(self.wanted(frame, *operand, &target)?);
            }
            let shape = source
                .operands
                .get(at + 1)
                .map(|operand| self.module[*operand].shape.clone());
            let shape = shape.ok_or_else(|| self.bug("expected an operand for each branch"))?;
            operands.push(self.tuple_of(frame, &shape, &mut ids.into_iter())?);
            let name = names
                .get(at)
                .map_or_else(|| "branch".into(), |id| Arc::clone(&self.module[*id].name));
            called.push(self.region(*branch, &name, &shape, &results, &node.shape)?);
        }
        let Op::Conditional { predicated, .. } = node.op else {
            return Err(self.bug("expected a conditional"));
        };
        let op = Op::Conditional {
            branches: called,
            predicated,
        };
        let made = self.push(frame, op, &operands, None)?;
        frame.draft.set_name(made, &self.site);
        let leaves = self.leaves_of(frame, made)?;
        self.insert(frame, node, leaves);
        Ok(())
    }

    /// Keeps backend annotations of a loop, such as its trip count.
    fn keep_annotations(&self, frame: &mut Frame, node: &Node, id: DraftId) {
        let source = self.module[node.instruction].annotations.as_deref();
        if let Some(config) = source.and_then(|annotations| annotations.backend_config.clone()) {
            frame.draft.annotations_mut(id).backend_config = Some(config);
        }
    }
}

/// The layouts that a program states for its parameters and result, with the shapes of a device's
/// parts.
fn local_layouts(module: &Module, stated: (Vec<Shape>, Shape)) -> (Vec<Shape>, Shape) {
    let entry = module.entry_computation();
    let (parameters, result) = stated;
    let pairs = entry.parameters.iter().zip(&parameters);
    let parameters = pairs.map(|(id, stated)| laid_out(module[*id].shape.clone(), stated));
    (
        parameters.collect(),
        laid_out(module[entry.root].shape.clone(), &result),
    )
}

/// The shape with its leaves replaced.
fn with_leaves(shape: &Shape, leaves: &mut dyn Iterator<Item = Shape>) -> Shape {
    match shape {
        Shape::Tuple(elements) => Shape::Tuple(
            elements
                .iter()
                .map(|element| with_leaves(element, leaves))
                .collect(),
        ),
        other => leaves.next().unwrap_or_else(|| other.clone()),
    }
}

/// Drops aliases of arrays whose parts have different shapes.
fn keep_possible_aliases(module: &mut Module) {
    let at = |shape: &Shape, path: &[i64]| -> Option<Shape> {
        let mut shape = shape;
        for step in path {
            shape = shape.as_tuple()?.get(usize::try_from(*step).ok()?)?;
        }
        Some(shape.clone())
    };
    let entry = module.entry_computation();
    let result = module[entry.root].shape.clone();
    let parameters: Vec<Shape> = entry
        .parameters
        .iter()
        .map(|id| module[*id].shape.clone())
        .collect();
    module.attributes.input_output_alias.retain(|alias| {
        let parameter = usize::try_from(alias.parameter)
            .ok()
            .and_then(|number| parameters.get(number));
        let given = parameter.and_then(|shape| at(shape, &alias.parameter_index));
        let taken = at(&result, &alias.output_index);
        given.is_some() && given == taken
    });
}
