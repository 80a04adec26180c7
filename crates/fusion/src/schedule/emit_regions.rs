//! Turns a clustered program into its fused graph: makes the kernels and calls of each region and
//! orders them.

use crate::COLLECTIVE;
use crate::analysis::scan::as_scan;
use crate::cluster::{Class, Clusters, Reason, classify};
use crate::emit::read_maps::ReadMaps;
use crate::emit::scan;
use crate::emit::updates;
use crate::emit::{Context, Emitter};
use crate::error::Error;
use crate::fused::{BoundKernel, Fused, FusedRegion, LibraryOp, Steps, Unit, Waiting};
use crate::kernel::{Access, Kernel};
use crate::limits::Limits;
use crate::program::{NodeId, NodeKind, Program, Region, ValueId};
use crate::rewrite::dce::{acts, exchanges_data, has_effect};
use crate::rewrite::expand::is_annotation;
use crate::schedule::hoist_kernels::take_before;
use crate::schedule::row_fusion::join_rows;
use crate::schedule::schedule_for_memory::with_least_alive;
use petgraph::graph::DiGraph;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tegula_ir::{ComputationId, ElementType, Module, Op};

/// Makes the kernels of a clustered program.
pub(crate) fn emit_kernels(
    module: &Module,
    program: Program,
    mut clusters: Clusters,
    limits: Limits,
) -> Result<Fused, Error> {
    let maps = ReadMaps::new(module);
    let context = Context {
        module,
        program: &program,
        clusters: &clusters,
        maps,
        shallow: limits.shallow as i64,
        spread_updates: limits.spread_updates,
    };
    let builder = Builder {
        context: &context,
        limits,
        kept: RefCell::default(),
    };
    let entry = builder.region(&program.entry)?;
    let kept = builder.kept.into_inner();
    kept.into_iter().for_each(|value| clusters.keep(value));
    Ok(Fused {
        program,
        clusters,
        entry,
    })
}

struct Builder<'a> {
    context: &'a Context<'a>,
    limits: Limits,
    /// The values that row-fused kernels keep for themselves.
    kept: RefCell<Vec<ValueId>>,
}

impl Builder<'_> {
    fn region(&self, region: &Region) -> Result<FusedRegion, Error> {
        let steps = self.steps(region)?;
        self.arranged(region, steps)
    }

    /// A loop's body, and the steps hoisted out of it.
    fn body(&self, body: &Region, states: &[ValueId]) -> Result<(FusedRegion, Steps), Error> {
        let mut steps = self.steps(body)?;
        let before = take_before(self.context, &mut steps, states, &body.results);
        Ok((self.arranged(body, steps)?, before))
    }

    /// The steps of a region, in order.
    fn steps(&self, region: &Region) -> Result<Steps, Error> {
        let mut steps = Vec::new();
        for &id in &region.nodes {
            // A kernel of several operations is placed at the last of them.
            if self
                .context
                .clusters
                .together(id)
                .last()
                .is_none_or(|&last| last == id)
            {
                self.node(id, &mut steps)?;
            }
        }
        in_order(self.context, steps)
    }

    /// The graph of a region's steps, after row fusion.
    fn arranged(&self, region: &Region, mut steps: Steps) -> Result<FusedRegion, Error> {
        let waiting = as_they_stand(self.context, &steps);
        let clusters = &self.context.clusters;
        // Such sums need not be computed in each run, but fused into a kernel of rows they would
        // be.
        let alone = |value| clusters.reason(value) == Reason::SumOfConstants;
        let kept = join_rows(&mut steps, &waiting, &region.results, alone, self.limits);
        if !kept.is_empty() {
            self.kept.borrow_mut().extend(kept);
        }
        let mut steps = in_order(self.context, steps)?;
        steps.retain(|units| !units.is_empty());
        // Loop states and inputs that the module's header aliases with outputs are updated in
        // place, which relies on the existing order.
        let is_entry = std::ptr::eq(region, &raw const self.context.program.entry);
        if is_entry && self.context.module.attributes.input_output_alias.is_empty() {
            let waiting = as_they_stand(self.context, &steps);
            let program = self.context.program;
            steps = with_least_alive(program, steps, waiting, &region.results);
        }
        let units: Vec<(NodeId, Unit)> = steps.into_iter().flatten().collect();
        let mut graph = DiGraph::with_capacity(units.len(), units.len() * 2);
        let mut made = FxHashMap::default();
        for (id, unit) in units {
            let (reads, writes) = (unit.reads(), unit.writes());
            let index = graph.add_node((id, unit));
            for value in reads {
                if let Some(&from) = made.get(&value) {
                    graph.add_edge(from, index, value);
                }
            }
            for value in writes {
                made.insert(value, index);
            }
        }
        Ok(FusedRegion {
            graph,
            results: region.results.clone(),
        })
    }

    /// Appends the steps of a node.
    fn node(&self, id: NodeId, steps: &mut Steps) -> Result<(), Error> {
        let node = &self.context.program.nodes[id];
        let unit = match &node.kind {
            NodeKind::While {
                condition,
                body,
                states,
            } => {
                let (body, before) = self.body(body, states)?;
                steps.extend(before);
                Unit::While {
                    condition: self.region(condition)?,
                    body,
                    states: states.clone(),
                    operands: node.operands.to_vec(),
                    results: node.results.to_vec(),
                }
            }
            NodeKind::Conditional { branches } => {
                let Some(&selector) = node.operands.first() else {
                    return Err(Error::bug(
                        self.context.module,
                        node.origin,
                        "the conditional has no selector",
                    ));
                };
                let branches: Result<_, _> = branches.iter().map(|b| self.region(b)).collect();
                Unit::Conditional {
                    selector,
                    branches: branches?,
                    results: node.results.to_vec(),
                }
            }
            NodeKind::Op | NodeKind::Contraction(_) => {
                let kept = node
                    .results
                    .iter()
                    .any(|&v| self.context.clusters.is_materialised(v));
                if kept || has_effect(self.context.module, node) {
                    let mut units = Vec::new();
                    self.operation(id, &mut units)?;
                    steps.push(units);
                }
                return Ok(());
            }
        };
        steps.push(vec![(id, unit)]);
        Ok(())
    }

    fn operation(&self, id: NodeId, units: &mut Vec<(NodeId, Unit)>) -> Result<(), Error> {
        let node = &self.context.program.nodes[id];
        match classify(self.context.module, self.context.program, id) {
            Class::Library if self.context.module[node.origin].op == Op::BitcastConvert => {
                let (from, to) = (node.operands[0], node.results[0]);
                units.push((id, Unit::Copy { from, to }));
            }
            Class::Library => units.push((id, self.library(id)?)),
            Class::Update => {
                let new = updates::update(self.context, id)?;
                units.extend(new.into_iter().map(|unit| (id, unit)));
            }
            Class::Scan => {
                let scan = as_scan(self.context.module, self.context.program, node);
                let Some(scan) = scan else {
                    return Err(Error::bug(
                        self.context.module,
                        node.origin,
                        "expected a scan",
                    ));
                };
                units.push((id, scan::scan(self.context, id, scan)?));
            }
            Class::Pointwise(_) | Class::Loop => {
                let relabel = matches!(
                    self.context.module[node.origin].op,
                    Op::Reshape | Op::Bitcast
                );
                let (from, to) = (node.operands.first(), node.results.first());
                match (from, to) {
                    (Some(&from), Some(&to))
                        if relabel && self.context.clusters.is_materialised(from) =>
                    {
                        units.push((id, Unit::Copy { from, to }));
                    }
                    _ => units.push((id, Unit::Kernel(self.kernel(id)?))),
                }
            }
        }
        Ok(())
    }

    /// The kernel that computes all results of a node over their index space, and those of the
    /// nodes that share its kernel.
    fn kernel(&self, id: NodeId) -> Result<BoundKernel, Error> {
        let nodes = &self.context.program.nodes;
        let together = match self.context.clusters.together(id) {
            [] => std::slice::from_ref(&id),
            together => together,
        };
        let values = together.iter().flat_map(|&n| &nodes[n].results).copied();
        let written = |v: &ValueId| self.context.clusters.is_materialised(*v);
        let values: Vec<ValueId> = values.filter(written).collect();
        let mut emitter = Emitter::new(self.context, nodes[id].origin);
        emitter.over(&values, &mut |e, index| {
            values.iter().map(|&v| e.element(v, index)).collect()
        })?;
        Ok(emitter.finish())
    }

    fn library(&self, id: NodeId) -> Result<Unit, Error> {
        let node = &self.context.program.nodes[id];
        let op = match &self.context.module[node.origin].op {
            _ if let NodeKind::Contraction(contraction) = &node.kind => {
                LibraryOp::Dot(contraction.clone())
            }
            Op::Sort {
                dimension,
                to_apply,
                ..
            } => LibraryOp::Sort {
                dimension: usize::try_from(*dimension).unwrap_or_default(),
                comparator: Box::new(self.comparator(id, *to_apply)?),
            },
            op @ Op::CustomCall(call) if call.called.is_empty() && !is_annotation(op) => {
                LibraryOp::Operation(Box::new(self.context.module.op_to_run(node.origin)))
            }
            op if is_routine(op) => LibraryOp::Operation(Box::new(op.clone())),
            op => {
                let what = match op {
                    op if is_collective(op) || is_annotation(op) => {
                        "this operation needs other devices, but programs run on one"
                    }
                    op if exchanges_data(op) => {
                        "the run has no host and no other device to exchange data with"
                    }
                    _ => "this operation cannot be compiled yet; `--target interp` evaluates it",
                };
                return Err(Error::unsupported(self.context.module, node.origin, what));
            }
        };
        let (operands, results) = (node.operands.to_vec(), node.results.to_vec());
        Ok(Unit::Library {
            op,
            operands,
            results,
        })
    }

    fn element_type(&self, value: ValueId) -> ElementType {
        self.context.program.values[value].shape.element_type
    }

    /// A comparator as a kernel on scalars; its parameters belong to no value.
    fn comparator(&self, id: NodeId, to_apply: ComputationId) -> Result<Kernel, Error> {
        let node = &self.context.program.nodes[id];
        let mut emitter = Emitter::new(self.context, node.origin);
        let mut arguments = SmallVec::<[_; 4]>::new();
        for &operand in &node.operands {
            for _ in 0..2 {
                let param = emitter.scalar_param(self.element_type(operand), Access::Read);
                arguments.push(emitter.load(param, &[]));
            }
        }
        let output = emitter.scalar_param(ElementType::Pred, Access::Write);
        let result = emitter.apply(to_apply, &arguments)?;
        let Some(&result) = result.first() else {
            return Err(Error::bug(
                self.context.module,
                node.origin,
                "the comparator has no result",
            ));
        };
        emitter.store(output, &[], result);
        Ok(emitter.finish().kernel)
    }
}

/// For each step, the steps that must come after it: those that read its results, and, for steps
/// that keep their order, the next one of these.
fn waiting(steps: &Steps, keeps_order: &dyn Fn(NodeId) -> bool) -> Waiting {
    let mut made = FxHashMap::default();
    for (i, units) in steps.iter().enumerate() {
        let writes = units.iter().flat_map(|(_, unit)| unit.writes());
        made.extend(writes.map(|value| (value, i)));
    }
    let mut waiting = vec![Vec::new(); steps.len()];
    let mut last_kept = None;
    for (i, units) in steps.iter().enumerate() {
        let reads = units.iter().flat_map(|(_, unit)| unit.reads());
        let mut before: Vec<usize> = reads.filter_map(|v| made.get(&v).copied()).collect();
        if units.iter().any(|(id, _)| keeps_order(*id)) {
            before.extend(last_kept.replace(i));
        }
        before.sort_unstable();
        before.dedup();
        for from in before.into_iter().filter(|&from| from != i) {
            waiting[from].push(i);
        }
    }
    waiting
}

/// For each step, the steps that must come after it if all steps with side effects keep their
/// order.
fn as_they_stand(context: &Context<'_>, steps: &Steps) -> Waiting {
    waiting(steps, &|id| acts(context.module, context.program, id))
}

/// Orders steps so that each comes after those whose results it reads. Steps stay in place where
/// possible, and steps with side effects keep their order. So do collectives where possible: if a
/// kernel would have to be both before and after another step, because it was merged from several
/// operations, collectives change places, in the same way on each device.
///
/// # Errors
/// Steps that wait for each other: a bug in the choice of kernels.
fn in_order(context: &Context<'_>, steps: Steps) -> Result<Steps, Error> {
    let order = topological(&as_they_stand(context, &steps));
    let order = match order.len() == steps.len() {
        true => order,
        false => topological(&waiting(&steps, &|id| acts_on_its_own(context, id))),
    };
    let mut steps: Vec<Option<Vec<_>>> = steps.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(steps.len());
    for i in order {
        ordered.extend(steps[i].take());
    }
    match steps.into_iter().flatten().flatten().next() {
        None => Ok(ordered),
        Some((node, _)) => Err(Error::bug(
            context.module,
            context.program.nodes[node].origin,
            "its kernel and another one depend on each other",
        )),
    }
}

/// A topological order that keeps steps as near to their places as possible. Steps in a cycle are
/// left out.
fn topological(waiting: &Waiting) -> Vec<usize> {
    let mut waits = vec![0; waiting.len()];
    for &next in waiting.iter().flatten() {
        waits[next] += 1;
    }
    let ready = (0..waits.len()).filter(|&i| waits[i] == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(Reverse(i)) = ready.pop() {
        order.push(i);
        for &next in &waiting[i] {
            waits[next] -= 1;
            if waits[next] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    order
}

/// Whether a node has side effects other than exchanges with other devices that run the same steps.
fn acts_on_its_own(context: &Context<'_>, id: NodeId) -> bool {
    let (module, node) = (context.module, &context.program.nodes[id]);
    let is_exchange = match &module[node.origin].op {
        Op::CustomCall(call) => &*call.target == COLLECTIVE,
        op => is_collective(op),
    };
    let own = has_effect(module, node) && !is_exchange;
    let mut inner = node.kind.regions().into_iter().flat_map(|r| &r.nodes);
    own || inner.any(|&node| acts_on_its_own(context, node))
}

/// Whether an operation is a routine on whole arrays that calls no computation.
fn is_routine(op: &Op) -> bool {
    matches!(
        op,
        Op::Fft { .. }
            | Op::Convolution { .. }
            | Op::Cholesky { .. }
            | Op::TriangularSolve { .. }
            | Op::TopK { .. }
            | Op::Rng(_)
            | Op::RngBitGenerator(_)
            | Op::StochasticConvert
    )
}

/// Whether an operation exchanges values with other devices.
fn is_collective(op: &Op) -> bool {
    matches!(
        op,
        Op::AllGather { .. }
            | Op::AllReduce { .. }
            | Op::AllToAll { .. }
            | Op::RaggedAllToAll(_)
            | Op::CollectiveBroadcast(_)
            | Op::CollectivePermute { .. }
            | Op::CollectiveDone(_)
            | Op::ReduceScatter { .. }
    )
}
