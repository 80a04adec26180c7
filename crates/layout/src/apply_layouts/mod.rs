//! Rewrites a program so that orders of dimensions become explicit permutations.
//!
//! Code generators see only dense, row-major arrays. An array in another order *is* a row-major
//! array with permuted dimensions, so this pass rewrites the flat program: a value with another
//! order becomes the permuted value, and each operation works on permuted dimensions (`forms`,
//! `indexed`). If an operation takes or produces another order than the value has, a transposition
//! is added. It is made once for each order, at the place where the value is made. A transposition
//! of a transposition is merged with it, and one that does nothing is removed. So views that cost
//! nothing in the chosen order disappear, and the transpositions that remain are visible to
//! clustering and to every backend.
//!
//! A rewritten operation is a new instruction of the module, with the old one's name and source
//! location. Its operands are placeholders that only have a shape.
//!
//! # Invariants
//! - The program computes the same, up to the order of the dimensions of its parameters and
//!   results: each operation combines elements in the same sequence as before.
//! - Nodes stay in order, and none is executed more often than before.

mod forms;
mod indexed;
mod order;

use forms::{Asked, Form};
pub use order::{
    Permutation, in_order, inverse, is_row_major, of_layout, permuted, row_major, stated, to_layout,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use tegula_fusion::{Def, Error, Node, NodeId, NodeKind, Program, Region, ValueId};
use tegula_ir::{ArrayShape, DimNumbers, Instruction, InstructionId, Literal, Module, Op, Shape};

/// The orders of the arrays of a flat program.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// The order of each value; values without an entry are row-major.
    pub values: FxHashMap<ValueId, Permutation>,
    /// The orders of the program's results as the caller gets them; row-major if there is no entry.
    pub results: Vec<Permutation>,
    /// Transpositions inside loops that move to the definition of their operand, like the
    /// transpositions that this pass adds.
    pub made_before_loops: FxHashSet<NodeId>,
}

impl Orders {
    /// Whether every array is row-major, with nothing to move.
    pub fn is_row_major(&self) -> bool {
        let mut all = self.values.values().chain(&self.results);
        self.made_before_loops.is_empty() && all.all(|order| is_row_major(order))
    }

    fn of(&self, value: ValueId, rank: usize) -> Permutation {
        fitting(self.values.get(&value), rank)
    }
}

/// Prints the arrays that are not row-major, one per line, by their dimensions from the outermost
/// to the innermost.
impl fmt::Display for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permuted = self.values.iter().filter(|(_, order)| !is_row_major(order));
        let mut permuted: Vec<_> = permuted.collect();
        permuted.sort_by_key(|(value, _)| **value);
        for (value, order) in permuted {
            writeln!(f, "{value} {order:?}")?;
        }
        for (number, order) in self.results.iter().enumerate() {
            if !is_row_major(order) {
                writeln!(f, "result {number} {order:?}")?;
            }
        }
        match self.is_row_major() {
            true => f.write_str("all arrays are row-major\n"),
            false => Ok(()),
        }
    }
}

/// Random orders for half of a program's arrays and for all of its results. Tests compare all other
/// choices with these.
pub fn drawn(program: &Program, seed: u64) -> Orders {
    let mut random = Drawn(seed);
    let mut orders = Orders::default();
    for (id, value) in &program.values {
        let rank = value.shape.rank();
        if rank > 1 && random.below(2) == 0 {
            orders.values.insert(id, random.order(rank));
        }
    }
    for &result in &program.entry.results {
        let rank = program.values[result].shape.rank();
        orders.results.push(random.order(rank));
    }
    orders
}

/// A splitmix64 generator.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ (word >> 31)) % end.max(1) as u64) as usize
    }

    fn order(&mut self, rank: usize) -> Permutation {
        let mut order = row_major(rank);
        for place in (1..rank).rev() {
            order.swap(place, self.below(place + 1));
        }
        order
    }
}

/// The order if it is a permutation of `rank` dimensions; else row-major.
fn fitting(order: Option<&Permutation>, rank: usize) -> Permutation {
    let is_order =
        |order: &&Permutation| order.len() == rank && (0..rank).all(|dim| order.contains(&dim));
    order
        .filter(is_order)
        .cloned()
        .unwrap_or_else(|| row_major(rank))
}

/// Rewrites a program so that its arrays have these orders. The dimensions of parameters and
/// results are permuted; the module's sources of run-time sizes are updated accordingly.
///
/// # Errors
/// An inconsistency, or not enough memory for a constant.
pub fn apply_layouts<'a>(
    module: Cow<'a, Module>,
    program: Program,
    orders: &Orders,
) -> Result<(Cow<'a, Module>, Program), Error> {
    if orders.is_row_major() {
        return Ok((module, program));
    }
    let mut pass = Pass {
        module: module.into_owned(),
        old: &program,
        orders,
        new: Program::default(),
        values: FxHashMap::default(),
        depth: FxHashMap::default(),
        open: Vec::new(),
    };
    pass.parameters();
    let entry = pass.region(&program.entry, &orders.results, false)?;
    pass.new.entry = entry;
    Ok((Cow::Owned(pass.module), pass.new))
}

/// A region under construction.
#[derive(Default)]
struct Open {
    nodes: Vec<NodeId>,
    /// The transpositions made in it.
    transposed: FxHashMap<(ValueId, Permutation), ValueId>,
    /// The depth of the outermost region to which this region's transpositions may move: those of a
    /// loop are made before it, those of a branch inside it, because it may not run.
    floor: usize,
}

struct Pass<'a> {
    module: Module,
    old: &'a Program,
    orders: &'a Orders,
    new: Program,
    /// The new value of each old one, in its own order.
    values: FxHashMap<ValueId, ValueId>,
    /// For each new value, the number of regions around its definition; no entry for parameters,
    /// constants, and the program's own region.
    depth: FxHashMap<ValueId, usize>,
    open: Vec<Open>,
}

impl Pass<'_> {
    fn parameters(&mut self) {
        let old = self.old;
        for (number, &parameter) in old.parameters.iter().enumerate() {
            let shape = &old.values[parameter].shape;
            let order = self.orders.of(parameter, shape.rank());
            let places = inverse(&order);
            let sources = self.module.sizes.sources.iter_mut();
            for source in sources.filter(|source| source.parameter == number) {
                if let Some(&place) = places.get(source.dimension) {
                    source.dimension = place;
                }
            }
            let value = self.value(in_order(shape, &order), Def::Parameter(number));
            self.new.parameters.push(value);
            self.values.insert(parameter, value);
        }
    }

    fn value(&mut self, shape: ArrayShape, def: Def) -> ValueId {
        let value = self.new.values.push(tegula_fusion::Value { shape, def });
        let depth = match &self.new.values[value].def {
            Def::Node(..) | Def::LoopState => self.open.len().saturating_sub(1),
            Def::Parameter(_) | Def::Constant(_) => 0,
        };
        self.depth.insert(value, depth);
        value
    }

    fn order(&self, old: ValueId) -> Permutation {
        self.orders.of(old, self.old.values[old].shape.rank())
    }

    /// The new value of an old one, in its own order.
    fn own(&mut self, old: ValueId) -> Result<ValueId, Error> {
        if let Some(&value) = self.values.get(&old) {
            return Ok(value);
        }
        let source = &self.old.values[old];
        let Def::Constant(literal) = &source.def else {
            return Err(Error::internal("a value is read before it is defined"));
        };
        let order = self.order(old);
        let value = self.constant(literal, &source.shape, &order)?;
        self.values.insert(old, value);
        Ok(value)
    }

    fn constant(
        &mut self,
        literal: &Literal,
        shape: &ArrayShape,
        order: &[usize],
    ) -> Result<ValueId, Error> {
        let literal = permuted(literal, order).map_err(|e| Error::internal(e.to_string()))?;
        Ok(self.value(in_order(shape, order), Def::Constant(literal)))
    }

    /// An old value in the given order.
    fn taken(&mut self, old: ValueId, order: &[usize]) -> Result<ValueId, Error> {
        let value = self.own(old)?;
        let places = inverse(&self.order(old));
        let dims = order
            .iter()
            .map(|&dim| places.get(dim).copied().unwrap_or(dim));
        self.transposed(value, dims.collect())
    }

    /// A new value whose dimension `k` is dimension `dims[k]` of `value`.
    fn transposed(&mut self, mut value: ValueId, mut dims: Permutation) -> Result<ValueId, Error> {
        // A transposition of a transposition reads the original value.
        while !is_row_major(&dims) {
            let Def::Node(node, 0) = self.new.values[value].def else {
                break;
            };
            let node = &self.new.nodes[node];
            let (NodeKind::Op, &[source], Op::Transpose(through)) =
                (&node.kind, &node.operands[..], &self.module[node.origin].op)
            else {
                break;
            };
            let composed = dims.iter().map(|&dim| {
                let through = through.get(dim).copied();
                through.and_then(|dim| usize::try_from(dim).ok())
            });
            let composed: Option<Permutation> = composed.collect();
            let Some(composed) = composed else {
                break;
            };
            (value, dims) = (source, composed);
        }
        if is_row_major(&dims) {
            return Ok(value);
        }
        let key = (value, dims);
        let known = self.open.iter().find_map(|open| open.transposed.get(&key));
        if let Some(&known) = known {
            return Ok(known);
        }
        let (value, dims) = key;
        let made = match self.new.values[value].clone() {
            tegula_fusion::Value {
                shape,
                def: Def::Constant(literal),
            } => self.constant(&literal, &shape, &dims)?,
            source => self.transposition(value, &source.shape, &dims)?,
        };
        let depth = self.depth.get(&made).copied().unwrap_or(0);
        if let Some(open) = self.open.get_mut(depth) {
            open.transposed.insert((value, dims), made);
        }
        Ok(made)
    }

    fn transposition(
        &mut self,
        value: ValueId,
        shape: &ArrayShape,
        dims: &[usize],
    ) -> Result<ValueId, Error> {
        let floor = self.open.last().map_or(0, |open| open.floor);
        let depth = self.depth.get(&value).copied().unwrap_or(0).max(floor);
        let like = match self.new.values[value].def {
            Def::Node(node, _) => Some(self.new.nodes[node].origin),
            Def::Parameter(number) => self.parameter(number),
            Def::Constant(_) | Def::LoopState => None,
        };
        let like = like.unwrap_or(self.module.entry_computation().root);
        let like = self.module[like].clone();
        let source = self.stand_in(&like, shape.clone());
        let result = in_order(shape, dims);
        let numbers: DimNumbers = dims.iter().map(|&dim| dim as i64).collect();
        let origin = self.module.instructions.push(Instruction {
            name: Arc::from(format!("{}.transposed", like.name)),
            op: Op::Transpose(numbers),
            operands: [source].into_iter().collect(),
            shape: Shape::Array(result.clone()),
            annotations: None,
            ..like
        });
        let node = self.new.nodes.push(Node {
            kind: NodeKind::Op,
            operands: [value].into_iter().collect(),
            results: SmallVec::new(),
            origin,
        });
        let made = self.value(result, Def::Node(node, 0));
        self.depth.insert(made, depth);
        self.new.nodes[node].results.push(made);
        let open = self.open.get_mut(depth);
        let open =
            open.ok_or_else(|| Error::internal("a value is defined outside of every region"))?;
        open.nodes.push(node);
        Ok(made)
    }

    /// The instruction of an entry parameter, by its number after flattening tuples.
    fn parameter(&self, number: usize) -> Option<InstructionId> {
        let parameters = self.module.entry_computation().parameters.iter();
        let leaves = parameters.flat_map(|&id| {
            let count = tegula_fusion::array_leaves(&self.module[id].shape).len();
            std::iter::repeat_n(id, count)
        });
        leaves.into_iter().nth(number)
    }

    /// A placeholder instruction that only has a shape.
    fn stand_in(&mut self, like: &Instruction, shape: ArrayShape) -> InstructionId {
        self.module.instructions.push(Instruction {
            name: like.name.clone(),
            op: Op::Parameter(0),
            operands: SmallVec::new(),
            shape: Shape::Array(shape),
            computation: like.computation,
            span: like.span,
            annotations: None,
        })
    }

    /// Rewrites a region whose results must have these orders.
    fn region(
        &mut self,
        region: &Region,
        wanted: &[Permutation],
        is_branch: bool,
    ) -> Result<Region, Error> {
        let floor = match self.open.last() {
            Some(_) if is_branch => self.open.len(),
            Some(around) => around.floor,
            None => 0,
        };
        self.open.push(Open {
            floor,
            ..Open::default()
        });
        for &id in &region.nodes {
            let node = &self.old.nodes[id];
            if !self.orders.made_before_loops.contains(&id) || !self.hoist(node)? {
                self.node(node)?;
            }
        }
        let mut results = Vec::with_capacity(region.results.len());
        for (number, &result) in region.results.iter().enumerate() {
            let rank = self.old.values[result].shape.rank();
            let order = fitting(wanted.get(number), rank);
            results.push(self.taken(result, &order)?);
        }
        let nodes = self.open.pop().map(|open| open.nodes).unwrap_or_default();
        Ok(Region { nodes, results })
    }

    /// Moves a transposition to where its operand is made. Returns whether the node is one.
    fn hoist(&mut self, node: &Node) -> Result<bool, Error> {
        let (Op::Transpose(dims), &[operand], &[result]) = (
            &self.module[node.origin].op,
            &node.operands[..],
            &node.results[..],
        ) else {
            return Ok(false);
        };
        let through = self.order(result).into_iter().map(|dim| {
            let dim = dims.get(dim).copied();
            dim.and_then(|dim| usize::try_from(dim).ok())
        });
        let Some(order) = through.collect::<Option<Permutation>>() else {
            return Ok(false);
        };
        // The result in its order is the operand in this order.
        let value = self.taken(operand, &order)?;
        self.values.insert(result, value);
        Ok(true)
    }

    fn orders_of(&self, values: &[ValueId]) -> Vec<Permutation> {
        values.iter().map(|&value| self.order(value)).collect()
    }

    fn node(&mut self, node: &Node) -> Result<(), Error> {
        match &node.kind {
            NodeKind::Op => self.operation(node),
            NodeKind::Contraction(_) => {
                let form = self.unchanged(node);
                self.write(node, node.kind.clone(), &form)
            }
            NodeKind::While {
                condition,
                body,
                states,
            } => {
                let orders = self.orders_of(states);
                // The states are defined inside.
                self.open.push(Open::default());
                let mut inside = Vec::with_capacity(states.len());
                for (&state, order) in states.iter().zip(&orders) {
                    let shape = in_order(&self.old.values[state].shape, order);
                    let value = self.value(shape, Def::LoopState);
                    self.values.insert(state, value);
                    inside.push(value);
                }
                self.open.pop();
                let kind = NodeKind::While {
                    condition: self.region(condition, &[], false)?,
                    body: self.region(body, &orders, false)?,
                    states: inside,
                };
                let form = self.form(node, orders.iter().cloned().collect(), &orders);
                self.write(node, kind, &form)
            }
            NodeKind::Conditional { branches } => {
                let orders = self.orders_of(&node.results);
                let mut written = Vec::with_capacity(branches.len());
                for branch in branches {
                    written.push(self.region(branch, &orders, true)?);
                }
                let form = self.form(node, [row_major(0)].into_iter().collect(), &orders);
                self.write(node, NodeKind::Conditional { branches: written }, &form)
            }
        }
    }

    /// The form in which an operation stays as it is, with these orders of its operands and
    /// results.
    fn form(&self, node: &Node, takes: SmallVec<[Permutation; 4]>, gives: &[Permutation]) -> Form {
        Form {
            op: self.module[node.origin].op.clone(),
            sources: (0..node.operands.len()).collect(),
            takes,
            gives: gives.iter().cloned().collect(),
        }
    }

    /// The operation on row-major arrays.
    fn unchanged(&self, node: &Node) -> Form {
        let rank = |value: &ValueId| row_major(self.old.values[*value].shape.rank());
        let gives: Vec<Permutation> = node.results.iter().map(rank).collect();
        self.form(node, node.operands.iter().map(rank).collect(), &gives)
    }

    fn operation(&mut self, node: &Node) -> Result<(), Error> {
        let own = self.orders_of(&node.operands);
        let wanted = self.orders_of(&node.results);
        let unchanged = self.unchanged(node);
        if own.iter().chain(&wanted).all(|order| is_row_major(order)) {
            return self.write(node, NodeKind::Op, &unchanged);
        }
        let origin = &self.module[node.origin];
        let leaf = |id: &InstructionId| self.module[*id].shape.as_array();
        let operands: Option<Vec<&ArrayShape>> = origin.operands.iter().map(leaf).collect();
        let results = tegula_fusion::array_leaves(&origin.shape);
        let form = match (operands, wanted.first()) {
            (Some(operands), Some(first))
                if operands.len() == node.operands.len() && results.len() == node.results.len() =>
            {
                let asked = Asked {
                    op: &origin.op,
                    operands: &operands,
                    own: &own,
                    results: &results,
                    wanted: first,
                };
                asked.form()
            }
            _ => None,
        };
        let Some(form) = form else {
            return self.write(node, NodeKind::Op, &unchanged);
        };
        let same = |a: &Form, b: &Form| {
            a.op == b.op && a.sources == b.sources && a.takes == b.takes && a.gives == b.gives
        };
        if same(&form, &unchanged) {
            return self.write(node, NodeKind::Op, &unchanged);
        }
        let origin = self.rewritten(node.origin, &form);
        let node = Node {
            origin,
            ..node.clone()
        };
        self.write(&node, NodeKind::Op, &form)
    }

    /// The instruction of an operation in a form.
    fn rewritten(&mut self, origin: InstructionId, form: &Form) -> InstructionId {
        let old = self.module[origin].clone();
        let mut operands = SmallVec::new();
        for (&source, order) in form.sources.iter().zip(&form.takes) {
            let Some(&operand) = old.operands.get(source) else {
                continue;
            };
            let shape = self.module[operand].shape.as_array();
            operands.push(match shape {
                Some(shape) if !is_row_major(order) => {
                    let shape = in_order(shape, order);
                    let like = self.module[operand].clone();
                    self.stand_in(&like, shape)
                }
                _ => operand,
            });
        }
        let mut leaves = tegula_fusion::array_leaves(&old.shape)
            .into_iter()
            .zip(&form.gives)
            .map(|(shape, order)| Shape::Array(in_order(shape, order)));
        let shape = match &old.shape {
            Shape::Tuple(_) => Shape::Tuple(leaves.collect()),
            other => leaves.next().unwrap_or_else(|| other.clone()),
        };
        self.module.instructions.push(Instruction {
            op: form.op.clone(),
            operands,
            shape,
            ..old
        })
    }

    /// Writes a node in a form, with transpositions of its operands and results.
    fn write(&mut self, node: &Node, kind: NodeKind, form: &Form) -> Result<(), Error> {
        if let (NodeKind::Op, Op::Transpose(dims)) = (&kind, &form.op)
            && dims
                .iter()
                .enumerate()
                .all(|(place, &dim)| place as i64 == dim)
            && let (&[operand], &[result]) = (&node.operands[..], &node.results[..])
            && let ([takes], [gives]) = (&form.takes[..], &form.gives[..])
        {
            // The result has the same memory order as the operand.
            let value = self.taken(operand, takes)?;
            let places = inverse(gives);
            let order = self.order(result);
            let back = order.iter().map(|&dim| places[dim]);
            let value = self.transposed(value, back.collect())?;
            self.values.insert(result, value);
            return Ok(());
        }
        let mut operands = SmallVec::with_capacity(node.operands.len());
        for (&source, order) in form.sources.iter().zip(&form.takes) {
            let operand = node.operands.get(source);
            let operand =
                *operand.ok_or_else(|| Error::internal("an operation lacks an operand"))?;
            operands.push(self.taken(operand, order)?);
        }
        let id = self.new.nodes.push(Node {
            kind,
            operands,
            results: SmallVec::new(),
            origin: node.origin,
        });
        let mut made = SmallVec::<[ValueId; 2]>::new();
        for (number, (&result, gives)) in node.results.iter().zip(&form.gives).enumerate() {
            let shape = in_order(&self.old.values[result].shape, gives);
            made.push(self.value(shape, Def::Node(id, number)));
        }
        self.new.nodes[id].results.clone_from(&made);
        if let Some(open) = self.open.last_mut() {
            open.nodes.push(id);
        }
        for ((&result, &value), gives) in node.results.iter().zip(&made).zip(&form.gives) {
            let places = inverse(gives);
            let order = self.order(result);
            let dims = order
                .iter()
                .map(|&dim| places.get(dim).copied().unwrap_or(dim));
            let value = self.transposed(value, dims.collect())?;
            self.values.insert(result, value);
        }
        Ok(())
    }
}
