//! Converts a program to steps: kernels, collectives, loops and conditionals, in the program's
//! order.

use crate::work::{self, Work, bytes};
use crate::{CollectiveKind, Error, Slice, Transfer};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::BTreeMap;
use tegula_devices::{Group, Topology};
use tegula_fusion::{
    Class, Clusters, Def, Limits, NodeId, NodeKind, Program, Region, ShortLoops, ValueId, classify,
    cluster, flatten,
};
use tegula_ir::{InstructionId, Module, Op, Opcode, PassManager};

/// A program as steps.
pub(crate) struct Steps {
    /// The values.
    pub program: Program,
    /// The steps of the entry computation.
    pub entry: Vec<Step>,
    /// The results of the program.
    pub results: Vec<ValueId>,
    /// Parameters whose memory a result may take over.
    pub donated: FxHashSet<ValueId>,
    /// Whether the program has separate start and done operations.
    pub has_pairs: bool,
    /// Loops whose trip counts are assumed.
    pub assumed_loops: Vec<(String, u64)>,
    /// The number of custom calls of unknown cost, by target.
    pub unknown_calls: BTreeMap<String, usize>,
}

/// A step.
pub(crate) struct Step {
    /// The instruction's name.
    pub name: String,
    /// The values that it reads.
    pub reads: Vec<ValueId>,
    /// The values that it computes.
    pub writes: Vec<ValueId>,
    /// The kind of step.
    pub kind: StepKind,
}

/// The kind of a step.
pub(crate) enum StepKind {
    /// A kernel.
    Kernel {
        work: Work,
        /// Whether it has a matrix product, which can read or compute arrays piece by piece.
        has_product: bool,
        /// Whether the kernel is launched separately.
        starts: bool,
        /// The operand that it overwrites with the result, if that is not used later.
        in_place: Option<ValueId>,
    },
    /// A collective.
    Collective {
        kind: CollectiveKind,
        transfer: Transfer,
        /// Whether the collective has a separate done operation.
        is_async: bool,
    },
    /// The end of a collective that was begun.
    Done,
    /// An alias of what it reads.
    View,
    /// A loop.
    Loop {
        trips: f64,
        condition: Vec<Step>,
        body: Vec<Step>,
        states: Vec<ValueId>,
        next: Vec<ValueId>,
    },
    /// A conditional.
    Choice { branches: Vec<Vec<Step>> },
}

/// Converts a program to steps.
pub(crate) fn read(module: &Module, slice: &Slice) -> Result<Steps, Error> {
    let topology = topology_of(module, slice)?;
    let mut module = Cow::Borrowed(module);
    if module.attributes.replica_count.is_none() && module.attributes.num_partitions.is_none() {
        // In a program that states no devices, collectives would exchange nothing.
        let attributes = &mut module.to_mut().attributes;
        attributes.replica_count = Some(topology.replicas as i64);
        attributes.num_partitions = Some(topology.partitions as i64);
    }
    let module = &*module;
    let expanded = tegula_fusion::expand(module)?;
    let module: &Module = &expanded;
    let program = flatten(module, ShortLoops::Kept, &mut PassManager::new())?;
    let limits = Limits {
        lanes: false,
        short: 0,
        ..Limits::default()
    };
    let clusters = cluster(module, &program, limits);
    let mut reader = Reader {
        module,
        program: &program,
        clusters: &clusters,
        slice,
        topology,
        transfers: FxHashMap::default(),
        in_async: in_async(module),
        together: FxHashMap::default(),
        has_pairs: false,
        unknown_calls: BTreeMap::new(),
    };
    let entry = reader.region(&program.entry)?;
    let (has_pairs, unknown_calls) = (reader.has_pairs, reader.unknown_calls);
    let assumed = tegula_layout::assumed_trips(module, &program);
    let assumed_loops = assumed
        .into_iter()
        .map(|(id, trips)| (module[id].name.to_string(), trips))
        .collect();
    Ok(Steps {
        results: program.entry.results.clone(),
        donated: donated(module, &program),
        entry,
        has_pairs,
        assumed_loops,
        unknown_calls,
        program,
    })
}

/// The numbers of replicas and partitions.
fn topology_of(module: &Module, slice: &Slice) -> Result<Topology, Error> {
    let devices = slice.devices();
    Topology::of(module, devices).map_err(|stated| Error::Devices {
        stated: stated.devices(),
        topology: slice.links.torus.to_string(),
        devices,
    })
}

/// Parameters that the program may overwrite.
fn donated(module: &Module, program: &Program) -> FxHashSet<ValueId> {
    let attributes = &module.attributes;
    let aliased = attributes.input_output_alias.iter();
    let donors: FxHashSet<i64> = aliased
        .map(|alias| alias.parameter)
        .chain(attributes.buffer_donor.iter().map(|(number, _)| *number))
        .collect();
    let mut found = FxHashSet::default();
    let mut next = program.parameters.iter();
    for (number, &parameter) in module.entry_computation().parameters.iter().enumerate() {
        let leaves = tegula_fusion::array_leaves(&module[parameter].shape).len();
        for value in next.by_ref().take(leaves) {
            if donors.contains(&(number as i64)) {
                found.insert(*value);
            }
        }
    }
    found
}

/// The instructions inside computations that run asynchronously.
fn in_async(module: &Module) -> FxHashSet<InstructionId> {
    let mut inside = FxHashSet::default();
    for instruction in module.instructions.values() {
        if let Op::AsyncStart { calls, .. } = &instruction.op {
            inside.extend(module[*calls].instructions.iter().copied());
        }
    }
    inside
}

struct Reader<'a> {
    module: &'a Module,
    program: &'a Program,
    clusters: &'a Clusters,
    slice: &'a Slice,
    topology: Topology,
    /// The times of collectives, by groups, kind and bytes, because each layer has the same
    /// collectives.
    transfers: FxHashMap<(u64, u64), Transfer>,
    in_async: FxHashSet<InstructionId>,
    /// For the first of several operations in one kernel: the values that the kernel has read, and
    /// the operations that it has computed.
    together: FxHashMap<NodeId, (FxHashSet<ValueId>, FxHashSet<NodeId>)>,
    has_pairs: bool,
    unknown_calls: BTreeMap<String, usize>,
}

/// A kernel under construction.
#[derive(Default)]
struct Kernel {
    work: Work,
    reads: FxHashMap<ValueId, f64>,
    seen: FxHashSet<NodeId>,
    has_product: bool,
}

impl Reader<'_> {
    fn region(&mut self, region: &Region) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        for &id in &region.nodes {
            if let Some(step) = self.node(id)? {
                steps.push(step);
            }
        }
        Ok(steps)
    }

    fn node(&mut self, id: NodeId) -> Result<Option<Step>, Error> {
        let (module, program) = (self.module, self.program);
        let node = &program.nodes[id];
        let instruction = &module[node.origin];
        let step = |kind: StepKind| Step {
            name: instruction.name.to_string(),
            reads: node.operands.to_vec(),
            writes: node.results.to_vec(),
            kind,
        };
        match &node.kind {
            NodeKind::While {
                condition,
                body,
                states,
            } => {
                let trips = tegula_layout::trips(module, program, node);
                let kind = StepKind::Loop {
                    trips,
                    states: states.clone(),
                    next: body.results.clone(),
                    condition: self.region(condition)?,
                    body: self.region(body)?,
                };
                return Ok(Some(step(kind)));
            }
            NodeKind::Conditional { branches } => {
                let branches = branches.iter().map(|branch| self.region(branch));
                let kind = StepKind::Choice {
                    branches: branches.collect::<Result<_, _>>()?,
                };
                return Ok(Some(step(kind)));
            }
            NodeKind::Op | NodeKind::Contraction(_) => {}
        }
        if let Some((kind, transfer)) = self.collective(id)? {
            let is_async = is_start(&instruction.op) || self.in_async.contains(&node.origin);
            self.has_pairs |= is_async;
            return Ok(Some(step(StepKind::Collective {
                kind,
                transfer,
                is_async,
            })));
        }
        if matches!(instruction.op, Op::CollectiveDone(_)) {
            return Ok(Some(step(StepKind::Done)));
        }
        let is_library = classify(module, program, id) == Class::Library;
        let is_root = is_library
            || node.results.is_empty()
            || node
                .results
                .iter()
                .any(|&value| self.clusters.is_materialised(value));
        Ok(is_root.then(|| self.kernel(id)))
    }

    /// The kernel that computes a node's results.
    fn kernel(&mut self, id: NodeId) -> Step {
        let (module, program) = (self.module, self.program);
        let node = &program.nodes[id];
        let instruction = &module[node.origin];
        let mut step = Step {
            name: instruction.name.to_string(),
            reads: Vec::new(),
            writes: node.results.to_vec(),
            kind: StepKind::View,
        };
        let in_memory = |value: &ValueId| self.is_in_memory(*value);
        // Layouts are chosen such that these operations move nothing.
        if matches!(
            instruction.op,
            Op::Reshape | Op::Bitcast | Op::Transpose(_) | Op::BitcastConvert
        ) && node.operands.iter().all(in_memory)
        {
            step.reads = node.operands.to_vec();
            return step;
        }
        let mut kernel = Kernel::default();
        let mut starts = true;
        // Values that several operations of a kernel use are read and computed once.
        let first = self.clusters.together(id).first().copied();
        if let Some(shared) = first.and_then(|first| self.together.get(&first)) {
            starts = false;
            kernel.seen.clone_from(&shared.1);
        }
        self.visit(id, &mut kernel);
        let mut waits_for: Vec<ValueId> = kernel.reads.keys().copied().collect();
        if let Some(first) = first {
            let shared = self.together.entry(first).or_default();
            kernel.reads.retain(|value, _| shared.0.insert(*value));
            shared.1.clone_from(&kernel.seen);
        }
        let mut in_place = None;
        let written: f64 = match &instruction.op {
            Op::DynamicUpdateSlice => {
                in_place = node.operands.first().copied();
                node.operands.get(1).map_or(0.0, |&v| bytes(program, v))
            }
            Op::Scatter { .. } => {
                in_place = node.operands.first().copied();
                let updates = node.operands.iter().skip(node.results.len() + 1);
                updates.map(|&v| bytes(program, v)).sum()
            }
            _ => node.results.iter().map(|&v| bytes(program, v)).sum(),
        };
        if let Some(updated) = in_place {
            // Only the elements that are overwritten are accessed.
            kernel
                .reads
                .entry(updated)
                .and_modify(|bytes| *bytes = bytes.min(written));
        }
        let read: f64 = kernel.reads.values().sum();
        kernel.work.bytes += read + written;
        if let Op::CustomCall(call) = &instruction.op {
            let operands = node.operands.iter();
            let operands: Vec<_> = operands.map(|&v| &program.values[v].shape).collect();
            let annotations = instruction.annotations.as_deref();
            match work::of_call(call, annotations, &operands, &self.slice.speeds) {
                Some(work) => {
                    kernel.work = work;
                    kernel.has_product = false;
                }
                None => {
                    *self
                        .unknown_calls
                        .entry(call.target.to_string())
                        .or_default() += 1;
                }
            }
        }
        waits_for.sort_unstable();
        step.reads = waits_for;
        step.kind = StepKind::Kernel {
            work: kernel.work,
            has_product: kernel.has_product,
            starts,
            in_place,
        };
        step
    }

    fn is_in_memory(&self, value: ValueId) -> bool {
        match self.program.values[value].def {
            Def::Parameter(_) | Def::LoopState => true,
            Def::Constant(_) | Def::Node(..) => self.clusters.is_materialised(value),
        }
    }

    /// Adds a node, and the operations that are fused into it.
    fn visit(&self, id: NodeId, kernel: &mut Kernel) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if !kernel.seen.insert(id) {
                continue;
            }
            let node = &self.program.nodes[id];
            let op = &self.module[node.origin].op;
            let work = work::of_node(self.module, self.program, id, &self.slice.speeds);
            kernel.has_product |= work.flops > 0.0;
            kernel.work.add(work);
            let result = node.results.first();
            for (number, &operand) in node.operands.iter().enumerate() {
                if self.is_in_memory(operand) {
                    let whole = bytes(self.program, operand);
                    let part = match op {
                        Op::Slice(_) | Op::DynamicSlice(_) | Op::Gather { .. } if number == 0 => {
                            result.map_or(whole, |&v| bytes(self.program, v).min(whole))
                        }
                        _ => whole,
                    };
                    let slot = kernel.reads.entry(operand).or_default();
                    *slot = (*slot + part).min(whole);
                } else if let Def::Node(inner, _) = self.program.values[operand].def {
                    open.push(inner);
                }
            }
        }
    }

    /// The kind and the time of a collective.
    fn collective(&mut self, id: NodeId) -> Result<Option<(CollectiveKind, Transfer)>, Error> {
        let node = &self.program.nodes[id];
        let instruction = &self.module[node.origin];
        let sum = |values: &[ValueId]| -> f64 {
            values.iter().map(|&value| bytes(self.program, value)).sum()
        };
        let operands = sum(&node.operands);
        let kind = match &instruction.op {
            Op::AllGather { .. } => CollectiveKind::AllGather,
            Op::AllReduce { .. } => CollectiveKind::AllReduce,
            Op::ReduceScatter { .. } => CollectiveKind::ReduceScatter,
            Op::AllToAll { .. } | Op::RaggedAllToAll(_) => CollectiveKind::AllToAll,
            Op::CollectiveBroadcast(_) => CollectiveKind::Broadcast,
            Op::CollectivePermute { .. } => CollectiveKind::Permute,
            _ => return Ok(None),
        };
        let count = node.operands.len();
        let moved = match &instruction.op {
            Op::AllGather { start: false, .. } => sum(&node.results),
            // The results of a start include its operands.
            Op::AllGather { .. } => sum(node.results.get(count..).unwrap_or_default()),
            // Offsets and sizes, and the array that is written to, are not sent.
            Op::RaggedAllToAll(_) => sum(node.operands.get(..1).unwrap_or_default()),
            _ => operands,
        };
        let wrong = |error| Error::Groups {
            name: instruction.name.to_string(),
            span: instruction.span,
            error,
            topology: self.slice.links.torus.to_string(),
            devices: self.slice.devices(),
        };
        let key = (hash_of(&instruction.op), moved.to_bits());
        if let Some(known) = self.transfers.get(&key) {
            return Ok(Some((kind, known.clone())));
        }
        let links = &self.slice.links;
        let transfer = if let Op::CollectivePermute { .. } = &instruction.op {
            let pairs = Group::pairs(&instruction.op, self.topology).map_err(wrong)?;
            links.permute(moved, &pairs)
        } else {
            let groups = Group::all_of(&instruction.op, self.topology).map_err(wrong)?;
            links.collective(kind, moved, &groups)
        };
        self.transfers.insert(key, transfer.clone());
        Ok(Some((kind, transfer)))
    }
}

/// A hash of the attributes that determine a collective's routes.
fn hash_of(op: &Op) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = rustc_hash::FxHasher::default();
    op.opcode().name().hash(&mut hasher);
    match op {
        Op::AllGather { collective, .. }
        | Op::AllReduce { collective, .. }
        | Op::ReduceScatter { collective, .. }
        | Op::AllToAll { collective, .. }
        | Op::RaggedAllToAll(collective)
        | Op::CollectiveBroadcast(collective) => {
            collective.replica_groups.hash(&mut hasher);
            collective.channel_id.is_some().hash(&mut hasher);
            collective.use_global_device_ids.hash(&mut hasher);
        }
        Op::CollectivePermute {
            pairs, channel_id, ..
        } => {
            pairs.hash(&mut hasher);
            channel_id.is_some().hash(&mut hasher);
        }
        _ => {}
    }
    hasher.finish()
}

fn is_start(op: &Op) -> bool {
    matches!(
        op.opcode(),
        Opcode::AllGatherStart | Opcode::AllReduceStart | Opcode::CollectivePermuteStart
    )
}
