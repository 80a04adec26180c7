//! Flattening: turns a module into a flat [`Program`]. Tuples are split into arrays, calls and
//! fusions are inlined, and instructions that only pass a value on disappear.

use super::{Def, Node, NodeId, NodeKind, Program, Region, Value, ValueId, array_leaves};
use crate::analysis::trip_count::{Bound, Counter, integer_of};
use crate::error::Error;
use crate::rewrite::gvn::is_a_function;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tegula_arena::EntityRef;
use tegula_expr::Var;
use tegula_ir::{
    ArrayShape, ComputationId, Dim, ElementType, InstructionId, Literal, Module, Op, Shape,
};

/// The array leaves of an instruction's result, in order. Tokens have none.
type Leaves = SmallVec<[ValueId; 2]>;

/// The most nodes that a program may have after flattening.
pub const MAX_NODES: usize = 1 << 20;
/// The most iterations of a loop that is unrolled.
const MAX_TRIPS: usize = 8;
/// The most nodes of all iterations of a loop that is unrolled.
const MAX_UNROLLED: usize = 256;
/// The most elements of arrays in a loop that is unrolled. Values computed from longer arrays would
/// be recomputed in each kernel that reads a part of them, which is four times slower for JAX's
/// random numbers.
const FEW_ELEMENTS: i64 = 64;
/// The most elements of arrays in unrolled loops on which operations other than elementwise ones
/// work.
const FEW_OF_OTHERS: i64 = 16;
/// The deepest nesting of calls, loops and conditionals.
pub const MAX_DEPTH: usize = 256;

/// Flattens a module: removes tuples, calls and copies, and unrolls short loops if `unroll` says
/// so. See [`flatten`](crate::flatten).
pub(crate) fn flatten_module(module: &Module, unroll: bool) -> Result<Program, Error> {
    let mut flattener = Flattener {
        module,
        unroll,
        program: Program::default(),
        alias: FxHashMap::default(),
        async_results: FxHashMap::default(),
        given: module.sizes.sources.iter().map(|s| s.symbol).collect(),
    };
    let entry = module.entry_computation();
    let mut arguments = Vec::new();
    for &parameter in &entry.parameters {
        let mut leaves = Leaves::new();
        for shape in array_leaves(&module[parameter].shape) {
            flattener.check_sizes(parameter, shape)?;
            let def = Def::Parameter(flattener.program.parameters.len());
            let value = flattener.value(shape, def);
            flattener.program.parameters.push(value);
            leaves.push(value);
        }
        arguments.push(leaves);
    }
    let mut nodes = Vec::new();
    let results = flattener.computation(module.entry, &arguments, &mut nodes, 0)?;
    Ok(flattener.finish(nodes, results.to_vec()))
}

struct Flattener<'a> {
    module: &'a Module,
    /// Whether short loops are unrolled.
    unroll: bool,
    program: Program,
    /// Loop states that no iteration changes, mapped to the loop's operand.
    alias: FxHashMap<ValueId, ValueId>,
    /// The results of the computation of each async-start.
    async_results: FxHashMap<InstructionId, Leaves>,
    /// The symbols whose values are taken from the inputs of a run.
    given: FxHashSet<Var>,
}

type Env = FxHashMap<InstructionId, Leaves>;

impl Flattener<'_> {
    fn value(&mut self, shape: &ArrayShape, def: Def) -> ValueId {
        let mut shape = shape.clone();
        shape.layout = None;
        for dim in &mut shape.dims {
            // The exact size is known in a run, so no array has to be as large as the bound.
            let size = dim.term();
            *dim = match size.as_constant() {
                Some(size) => Dim::Static(size),
                None => Dim::Symbolic(size),
            };
        }
        self.program.values.push(Value { shape, def })
    }

    fn resolve(&self, mut value: ValueId) -> ValueId {
        while let Some(&next) = self.alias.get(&value) {
            value = next;
        }
        value
    }

    /// Checks that every size of an array is known before a run starts.
    fn check_sizes(&self, at: InstructionId, shape: &ArrayShape) -> Result<(), Error> {
        let module = self.module;
        for (number, dim) in shape.dims.iter().enumerate() {
            let mut unknown = None;
            dim.term().for_each_var(&mut |var| {
                if !self.given.contains(&var) {
                    unknown = Some(var);
                }
            });
            if let Some(var) = unknown {
                let name = module.symbols.get(var.0 as usize).map(|s| &*s.name);
                let what = format!(
                    "the size of dimension {number} ({}) cannot be computed from the sizes of \
                        the inputs",
                    name.unwrap_or("unknown")
                );
                return Err(Error::unsupported(module, at, &what));
            }
        }
        Ok(())
    }

    fn computation(
        &mut self,
        id: ComputationId,
        arguments: &[Leaves],
        nodes: &mut Vec<NodeId>,
        depth: usize,
    ) -> Result<Leaves, Error> {
        let module = self.module;
        let computation = &module[id];
        if depth > MAX_DEPTH {
            let what = format!("calls are nested more than {MAX_DEPTH} deep");
            return Err(Error::limit(module, computation.root, &what));
        }
        let mut env = Env::default();
        for &instruction in &computation.instructions {
            let leaves = self.instruction(instruction, &env, arguments, nodes, depth)?;
            env.insert(instruction, leaves);
        }
        self.lookup(&env, computation.root, computation.root)
    }

    fn lookup(&self, env: &Env, at: InstructionId, id: InstructionId) -> Result<Leaves, Error> {
        let leaves = env.get(&id);
        leaves
            .cloned()
            .ok_or_else(|| Error::bug(self.module, at, "an operand is not defined before its use"))
    }

    fn instruction(
        &mut self,
        id: InstructionId,
        env: &Env,
        arguments: &[Leaves],
        nodes: &mut Vec<NodeId>,
        depth: usize,
    ) -> Result<Leaves, Error> {
        let module = self.module;
        let instruction = &module[id];
        let mut operands = Vec::with_capacity(instruction.operands.len());
        for &operand in &instruction.operands {
            operands.push(self.lookup(env, id, operand)?);
        }
        if let Some(leaves) = self.pass_through(id, &operands)? {
            return Ok(leaves);
        }
        match &instruction.op {
            Op::Parameter(number) => {
                let leaves = arguments.get(*number as usize);
                leaves.cloned().ok_or_else(|| {
                    Error::bug(module, id, "the argument for this parameter is missing")
                })
            }
            Op::Constant(literals) => Ok(literals.iter().map(|l| self.constant(l)).collect()),
            Op::Call {
                to_apply: callee, ..
            }
            | Op::Fusion { calls: callee, .. } => {
                self.computation(*callee, &operands, nodes, depth + 1)
            }
            Op::AsyncStart { calls, .. } => {
                let results = self.computation(*calls, &operands, nodes, depth + 1)?;
                self.async_results.insert(id, results.clone());
                Ok(operands.into_iter().flatten().chain(results).collect())
            }
            Op::While { condition, body } => {
                self.while_loop(id, *condition, *body, &operands, nodes, depth)
            }
            Op::Conditional { branches, .. } => {
                self.conditional(id, branches, &operands, nodes, depth)
            }
            // The size is known without the array.
            Op::GetDimensionSize(_) => self.operation(id, &[], nodes),
            // The size is known without the value of its operand.
            Op::SetDimensionSize(_) => self.operation(id, operands.get(..1).unwrap_or(&[]), nodes),
            _ => self.operation(id, &operands, nodes),
        }
    }

    /// The result of an instruction that only rearranges or passes on values; `None` for other
    /// instructions.
    fn pass_through(
        &mut self,
        id: InstructionId,
        operands: &[Leaves],
    ) -> Result<Option<Leaves>, Error> {
        let module = self.module;
        let instruction = &module[id];
        let first = || operands.first().cloned().unwrap_or_default();
        Ok(Some(match &instruction.op {
            Op::Tuple => operands.iter().flatten().copied().collect(),
            Op::GetTupleElement(index) => self.tuple_element(id, *index, &first())?,
            Op::Copy | Op::OptBarrier | Op::Domain(_) => first(),
            Op::AddDependency => first(),
            Op::AfterAll => Leaves::new(),
            Op::CopyStart { .. } => {
                let source = first();
                let context = self.constant(&zero_u32(module, id)?);
                source
                    .iter()
                    .chain(&source)
                    .copied()
                    .chain([context])
                    .collect()
            }
            Op::CopyDone => first().into_iter().take(1).collect(),
            Op::AsyncUpdate => first(),
            Op::AsyncDone => self.async_done(id)?,
            Op::ReplicaId | Op::PartitionId => {
                let zero = zero_u32(module, id)?;
                Leaves::from_slice(&[self.constant(&zero)])
            }
            Op::GetDimensionSize(dimension) => {
                let shape = module.operand_shape(id, 0).and_then(Shape::as_array);
                let size = shape.and_then(|s| s.dims.get(usize::try_from(*dimension).ok()?));
                let size = size.ok_or_else(|| {
                    Error::bug(module, id, "the size function's number is out of range")
                })?;
                let Some(size) = size.as_static() else {
                    return Ok(None);
                };
                let size = i32::try_from(size)
                    .map_err(|_| Error::limit(module, id, "the size does not fit an s32"))?;
                let literal = Literal::from_bytes(
                    &ArrayShape::new(ElementType::S32, &[]),
                    &size.to_ne_bytes(),
                );
                let literal = literal.map_err(|e| Error::limit(module, id, &e.to_string()))?;
                Leaves::from_slice(&[self.constant(&literal)])
            }
            Op::Reshape | Op::Bitcast | Op::Convert | Op::Transpose(_)
                if self.keeps_everything(id) =>
            {
                first()
            }
            _ => return Ok(None),
        }))
    }

    /// Whether an instruction returns its operand unchanged.
    fn keeps_everything(&self, id: InstructionId) -> bool {
        let instruction = &self.module[id];
        let same = match (self.module.operand_shape(id, 0), &instruction.shape) {
            (Some(operand), result) => operand.same_ignoring_layout(result),
            _ => false,
        };
        match &instruction.op {
            Op::Transpose(permutation) => {
                same && permutation.iter().enumerate().all(|(i, &p)| i as i64 == p)
            }
            _ => same,
        }
    }

    fn tuple_element(
        &self,
        id: InstructionId,
        index: i64,
        leaves: &[ValueId],
    ) -> Result<Leaves, Error> {
        let bug = || Error::bug(self.module, id, "the tuple has no such element");
        let operand = self.module.operand_shape(id, 0).ok_or_else(bug)?;
        let elements = operand.as_tuple().ok_or_else(bug)?;
        let index = usize::try_from(index).map_err(|_| bug())?;
        let before: usize = elements
            .iter()
            .take(index)
            .map(|e| array_leaves(e).len())
            .sum();
        let count = array_leaves(elements.get(index).ok_or_else(bug)?).len();
        let taken = leaves.get(before..before + count).ok_or_else(bug)?;
        Ok(taken.iter().copied().collect())
    }

    fn async_done(&self, id: InstructionId) -> Result<Leaves, Error> {
        let mut start = id;
        while let Some(&operand) = self.module[start].operands.first() {
            if let Some(results) = self.async_results.get(&operand) {
                return Ok(results.clone());
            }
            start = operand;
        }
        Err(Error::bug(
            self.module,
            id,
            "it has no matching async-start",
        ))
    }

    fn constant(&mut self, literal: &Literal) -> ValueId {
        self.value(literal.shape(), Def::Constant(literal.clone()))
    }

    fn operation(
        &mut self,
        id: InstructionId,
        operands: &[Leaves],
        nodes: &mut Vec<NodeId>,
    ) -> Result<Leaves, Error> {
        let operands = operands.iter().flatten().copied().collect();
        self.node(id, NodeKind::Op, operands, &self.module[id].shape, nodes)
    }

    fn node(
        &mut self,
        id: InstructionId,
        kind: NodeKind,
        operands: SmallVec<[ValueId; 4]>,
        shape: &Shape,
        nodes: &mut Vec<NodeId>,
    ) -> Result<Leaves, Error> {
        if self.program.nodes.len() >= MAX_NODES {
            let what = format!("the program expands to more than {MAX_NODES} operations");
            return Err(Error::limit(self.module, id, &what));
        }
        let node = NodeId::new(self.program.nodes.len());
        let mut results = SmallVec::new();
        for (i, leaf) in array_leaves(shape).into_iter().enumerate() {
            self.check_sizes(id, leaf)?;
            results.push(self.value(leaf, Def::Node(node, i)));
        }
        self.program.nodes.push(Node {
            kind,
            operands,
            results: results.clone(),
            origin: id,
        });
        nodes.push(node);
        Ok(results)
    }

    fn while_loop(
        &mut self,
        id: InstructionId,
        condition: ComputationId,
        body: ComputationId,
        operands: &[Leaves],
        nodes: &mut Vec<NodeId>,
        depth: usize,
    ) -> Result<Leaves, Error> {
        let init: Leaves = operands.iter().flatten().copied().collect();
        if self.unroll
            && let Some(trips) = self.trips(condition, body, &init)
            && let Some(last) = self.unrolled(body, &init, trips, nodes, depth)?
        {
            return Ok(last);
        }
        let states: Leaves = init
            .iter()
            .map(|&v| {
                let shape = self.program.values[v].shape.clone();
                self.value(&shape, Def::LoopState)
            })
            .collect();
        let argument = [states.clone()];
        let mut condition_region = Region::default();
        let keep_going =
            self.computation(condition, &argument, &mut condition_region.nodes, depth + 1)?;
        condition_region.results = keep_going.to_vec();
        let mut body_region = Region::default();
        let next = self.computation(body, &argument, &mut body_region.nodes, depth + 1)?;

        // A state that no iteration changes is equal to the loop's operand throughout.
        let mut kept = Vec::new();
        for i in 0..states.len() {
            let (Some(&state), Some(&first), Some(&next)) =
                (states.get(i), init.get(i), next.get(i))
            else {
                return Err(Error::bug(
                    self.module,
                    id,
                    "the number of arrays that the loop's body returns differs from that of its state",
                ));
            };
            if self.resolve(next) == state {
                self.alias.insert(state, first);
            } else {
                kept.push((first, state, next));
            }
        }
        body_region.results = kept.iter().map(|&(_, _, next)| next).collect();
        let kind = NodeKind::While {
            condition: condition_region,
            body: body_region,
            states: kept.iter().map(|&(_, state, _)| state).collect(),
        };
        let kept_shape = Shape::Tuple(
            kept.iter()
                .map(|&(first, ..)| Shape::Array(self.program.values[first].shape.clone()))
                .collect(),
        );
        let operands = kept.iter().map(|&(first, ..)| first).collect();
        let mut results = self
            .node(id, kind, operands, &kept_shape, nodes)?
            .into_iter();
        let leaves = states.iter().zip(&init).map(|(state, &first)| {
            if self.alias.contains_key(state) {
                Some(first)
            } else {
                results.next()
            }
        });
        let leaves: Option<Leaves> = leaves.collect();
        leaves.ok_or_else(|| Error::bug(self.module, id, "a loop state has no value"))
    }

    /// The trip count of a loop, if it is known and small.
    fn trips(
        &self,
        condition: ComputationId,
        body: ComputationId,
        init: &[ValueId],
    ) -> Option<usize> {
        let counter = Counter::of(self.module, condition, body)?;
        let start = |state: usize| match &self.program.values[*init.get(state)?].def {
            Def::Constant(literal) => integer_of(literal),
            _ => None,
        };
        let bound = match counter.bound {
            Bound::Constant(bound) => bound,
            Bound::State(state) => start(state)?,
        };
        let trips = counter.iterations(start(counter.state)?, bound)?;
        usize::try_from(trips).ok().filter(|&n| n <= MAX_TRIPS)
    }

    /// Unrolls a loop and returns its final states; `None` if that is too much code, or if the loop
    /// does enough work to stay a loop.
    fn unrolled(
        &mut self,
        body: ComputationId,
        init: &[ValueId],
        trips: usize,
        nodes: &mut Vec<NodeId>,
        depth: usize,
    ) -> Result<Option<Leaves>, Error> {
        let before = nodes.len();
        let mut states: Leaves = init.iter().copied().collect();
        for trip in 0..trips {
            let from = nodes.len();
            states = self.computation(body, &[states], nodes, depth + 1)?;
            let added = &nodes[from..];
            let is_too_much = added.len() * trips > MAX_UNROLLED
                || !added.iter().all(|&node| self.is_little(node));
            if trip == 0 && is_too_much {
                nodes.truncate(before);
                return Ok(None);
            }
        }
        Ok(Some(states))
    }

    /// Whether a node works on so few elements that it justifies no loop.
    fn is_little(&self, id: NodeId) -> bool {
        let node = &self.program.nodes[id];
        let op = &self.module[node.origin].op;
        let moves = matches!(
            op,
            Op::Broadcast(_)
                | Op::Reshape
                | Op::Transpose(_)
                | Op::Slice(_)
                | Op::Concatenate(_)
                | Op::Iota(_)
        );
        let most = match op.is_elementwise() || moves {
            true => FEW_ELEMENTS,
            false => FEW_OF_OTHERS,
        };
        let few = |v: &ValueId| {
            let count = self.program.values[*v].shape.element_count();
            count.is_some_and(|n| n <= most)
        };
        matches!(node.kind, NodeKind::Op)
            && is_a_function(op)
            && node.operands.iter().chain(&node.results).all(few)
    }

    fn conditional(
        &mut self,
        id: InstructionId,
        branches: &[ComputationId],
        operands: &[Leaves],
        nodes: &mut Vec<NodeId>,
        depth: usize,
    ) -> Result<Leaves, Error> {
        let mut regions = Vec::with_capacity(branches.len());
        for (i, &branch) in branches.iter().enumerate() {
            let argument = operands.get(i + 1).cloned().unwrap_or_default();
            let mut region = Region::default();
            let results = self.computation(branch, &[argument], &mut region.nodes, depth + 1)?;
            region.results = results.to_vec();
            regions.push(region);
        }
        let selector = operands.first().cloned().unwrap_or_default();
        let kind = NodeKind::Conditional { branches: regions };
        self.node(
            id,
            kind,
            selector.iter().copied().collect(),
            &self.module[id].shape,
            nodes,
        )
    }

    /// Replaces aliases by the values that they stand for, everywhere.
    fn finish(mut self, nodes: Vec<NodeId>, results: Vec<ValueId>) -> Program {
        let mut program = std::mem::take(&mut self.program);
        for node in program.nodes.values_mut() {
            for operand in &mut node.operands {
                *operand = self.resolve(*operand);
            }
            let resolve_results = |region: &mut Region| {
                for result in &mut region.results {
                    *result = self.resolve(*result);
                }
            };
            match &mut node.kind {
                NodeKind::Op | NodeKind::Contraction(_) => {}
                NodeKind::While {
                    condition, body, ..
                } => {
                    resolve_results(condition);
                    resolve_results(body);
                }
                NodeKind::Conditional { branches } => branches.iter_mut().for_each(resolve_results),
            }
        }
        let results = results.into_iter().map(|v| self.resolve(v)).collect();
        program.entry = Region { nodes, results };
        program
    }
}

fn zero_u32(module: &Module, id: InstructionId) -> Result<Literal, Error> {
    Literal::zeros(&ArrayShape::new(ElementType::U32, &[]))
        .map_err(|e| Error::bug(module, id, &e.to_string()))
}
