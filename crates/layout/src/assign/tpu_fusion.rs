//! Groups the operations that a machine with software-managed memory runs as one kernel.
//!
//! Only values that cross from one group to another are written to memory, and only those have a
//! layout of their own. The rules are those of a compiler whose matrix products fuse the
//! computation of their operands and of their results:
//! - elementwise operations, broadcasts and slices run in the kernel that reads them, or in several
//!   if that is cheap;
//! - a product whose result is read elementwise by a single kernel runs in that kernel;
//! - reductions, windows, concatenations and everything else begin a kernel.

use super::machine::Machine;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tegula_arena::SecondaryMap;
use tegula_fusion::{Node, NodeId, NodeKind, Program, Region, ValueId};
use tegula_ir::{ArrayShape, Binary, Module, Op, Unary};

/// The most work that is repeated for a further kernel that reads a value, in arithmetic operations
/// per element.
const MOST_WORK_REPEATED: u32 = 24;
/// The longest chain of operations in one kernel.
const MOST_NODES: u32 = 512;

/// How an operation accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Elementwise.
    Elementwise,
    /// Each element of the result is an element of the operand, determined by the index: a
    /// broadcast, a slice, a change of dimensions of size 1.
    Move,
    /// The same elements with other dimensions: a reshape or a transposition.
    View,
    /// Several arrays, or one and padding, are joined.
    Join,
    /// A reduction over dimensions.
    Reduce,
    /// A reduction over windows, or its gradient.
    Window,
    /// A dot or a convolution.
    Product,
    /// Reads or writes at data-dependent indices.
    Indexed,
    /// Anything else: it accesses whole arrays in the order of their dimensions.
    Whole,
    /// A loop or a conditional.
    Control,
}

/// How an operation accesses memory.
pub(crate) fn kind(module: &Module, program: &Program, node: &Node) -> Kind {
    if !node.kind.regions().is_empty() {
        return Kind::Control;
    }
    if matches!(node.kind, NodeKind::Contraction(_)) {
        return Kind::Product;
    }
    let op = &module[node.origin].op;
    match op {
        op if op.is_elementwise() => Kind::Elementwise,
        Op::BitcastConvert if same_dims(program, node) => Kind::Elementwise,
        Op::Map { .. } | Op::OptBarrier | Op::Copy => Kind::Elementwise,
        Op::Broadcast(_)
        | Op::Iota(_)
        | Op::Slice(_)
        | Op::Reverse(_)
        | Op::DynamicSlice(_)
        | Op::SetDimensionSize(_)
        | Op::GetDimensionSize(_) => Kind::Move,
        Op::Reshape | Op::Bitcast | Op::Transpose(_) if keeps_order(op, program, node) => {
            Kind::Move
        }
        Op::Reshape | Op::Bitcast | Op::Transpose(_) => Kind::View,
        Op::Pad(_) | Op::Concatenate(_) => Kind::Join,
        Op::Reduce { .. } => Kind::Reduce,
        Op::ReduceWindow { .. } | Op::SelectAndScatter { .. } => Kind::Window,
        Op::Dot { .. } | Op::Convolution { .. } => Kind::Product,
        Op::Gather { .. } | Op::Scatter { .. } | Op::DynamicUpdateSlice => Kind::Indexed,
        _ => Kind::Whole,
    }
}

fn shape<'a>(program: &'a Program, value: Option<&ValueId>) -> Option<&'a ArrayShape> {
    value.map(|&value| &program.values[value].shape)
}

fn same_dims(program: &Program, node: &Node) -> bool {
    let dims = |value| shape(program, value).map(|shape| &shape.dims);
    dims(node.operands.first()) == dims(node.results.first())
}

/// Whether a reshape or transposition only inserts, removes or moves dimensions of size 1.
fn keeps_order(op: &Op, program: &Program, node: &Node) -> bool {
    let (Some(from), Some(to)) = (
        shape(program, node.operands.first()),
        shape(program, node.results.first()),
    ) else {
        return false;
    };
    let large = |shape: &ArrayShape| -> SmallVec<[i64; 6]> {
        let sizes = shape.dims.iter().map(tegula_ir::Dim::representative);
        sizes.filter(|&size| size != 1).collect()
    };
    match op {
        Op::Transpose(order) => {
            let kept = order.iter().filter(|&&dim| {
                let dim = usize::try_from(dim).ok();
                let dim = dim.and_then(|dim| from.dims.get(dim));
                dim.is_some_and(|dim| dim.representative() != 1)
            });
            kept.is_sorted()
        }
        _ => large(from) == large(to),
    }
}

/// Operations that run as one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The last operation, whose results the group writes.
    pub root: NodeId,
    /// All operations, operands before users; the root last.
    pub nodes: Vec<NodeId>,
}

/// The kernels of one region, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// The kernels.
    pub groups: Vec<Group>,
}

type Roots = SmallVec<[NodeId; 4]>;

struct Grouper<'a> {
    module: &'a Module,
    program: &'a Program,
    /// Whether products fuse the computation of their operands. If products are library routines,
    /// as on a CPU, their operands are arrays in memory.
    products_compute_operands: bool,
    /// The users of a value in this region; `None` if it leaves the region or is read inside a loop
    /// or branch.
    uses: FxHashMap<ValueId, Option<Vec<NodeId>>>,
    /// The kernels that compute a value which is not written to memory.
    fused_into: FxHashMap<ValueId, Roots>,
    /// Whether every path from a value to its kernel's root is elementwise.
    plain: SecondaryMap<ValueId, bool>,
    /// The work per element of a value that is not written to memory.
    work: SecondaryMap<ValueId, u32>,
    /// Values computed from constants alone, by operations that move nothing.
    constant: SecondaryMap<ValueId, bool>,
    /// Kernels that contain a product.
    has_product: FxHashSet<NodeId>,
    sizes: FxHashMap<NodeId, u32>,
}

/// Forms the kernels of a region. Loops and conditionals are separate kernels; their regions are
/// not examined.
pub(crate) fn group(
    module: &Module,
    program: &Program,
    machine: &Machine,
    region: &Region,
) -> Groups {
    let mut grouper = Grouper {
        module,
        program,
        products_compute_operands: machine.has_lanes(),
        uses: FxHashMap::default(),
        fused_into: FxHashMap::default(),
        plain: SecondaryMap::default(),
        work: SecondaryMap::default(),
        constant: SecondaryMap::default(),
        has_product: FxHashSet::default(),
        sizes: FxHashMap::default(),
    };
    grouper.count_uses(region);
    for &id in &region.nodes {
        grouper.count_work(id);
    }
    for &id in region.nodes.iter().rev() {
        grouper.decide(id);
    }
    grouper.collect(region)
}

impl Grouper<'_> {
    fn count_uses(&mut self, region: &Region) {
        for &result in &region.results {
            self.uses.insert(result, None);
        }
        for &id in &region.nodes {
            let node = &self.program.nodes[id];
            for &operand in &node.operands {
                if let Some(users) = self.uses.entry(operand).or_insert(Some(Vec::new())) {
                    users.push(id);
                }
            }
            if !node.kind.regions().is_empty() {
                for value in captured(self.program, node) {
                    self.uses.insert(value, None);
                }
            }
        }
    }

    /// The arithmetic operations per element if everything before were recomputed.
    fn count_work(&mut self, id: NodeId) {
        let node = &self.program.nodes[id];
        let own = match kind(self.module, self.program, node) {
            Kind::Elementwise => operation_work(&self.module[node.origin].op),
            Kind::Move => 0,
            _ => return,
        };
        let given = |&v: &ValueId| {
            let shape = &self.program.values[v].shape;
            let scalar = shape.rank() == 0;
            self.constant[v]
                || (scalar && matches!(self.program.values[v].def, tegula_fusion::Def::Constant(_)))
        };
        let constant = node.operands.iter().all(given);
        let before = node.operands.iter().map(|&v| self.work[v]);
        let work = before.fold(own, u32::saturating_add);
        for &result in &node.results {
            self.work[result] = work;
            self.constant[result] = constant && work <= MOST_WORK_REPEATED;
        }
    }

    fn kind(&self, id: NodeId) -> Kind {
        kind(self.module, self.program, &self.program.nodes[id])
    }

    /// The kernels in which a node runs.
    fn kernels(&self, id: NodeId) -> Roots {
        let node = &self.program.nodes[id];
        let fused = node.results.first().and_then(|v| self.fused_into.get(v));
        fused
            .cloned()
            .unwrap_or_else(|| SmallVec::from_slice(&[id]))
    }

    /// Decides whether a value is computed in the kernels that read it.
    fn decide(&mut self, id: NodeId) {
        let node = &self.program.nodes[id];
        let &[result] = node.results.as_slice() else {
            return;
        };
        let Some(Some(users)) = self.uses.get(&result).cloned() else {
            return;
        };
        let own = self.kind(id);
        let count = elements(self.program, result);
        let mut roots = Roots::new();
        let mut plain = true;
        for user in users {
            let users_kind = self.kind(user);
            let accepts = match users_kind {
                Kind::View | Kind::Whole | Kind::Control => false,
                Kind::Product => self.products_compute_operands,
                // An array that is updated or gathered from must be in memory.
                Kind::Indexed => self.program.nodes[user].operands.first() != Some(&result),
                _ => true,
            };
            let made = self.program.nodes[user].results.first();
            let grows = made.is_some_and(|&made| elements(self.program, made) > 2 * count);
            if !accepts || (grows && count > 1 && !self.constant[result] && self.work[result] > 1) {
                return;
            }
            let same = made.is_some_and(|&made| {
                self.program.values[made].shape.dims == self.program.values[result].shape.dims
            });
            let onward = made.is_some_and(|made| self.fused_into.contains_key(made));
            plain &= users_kind == Kind::Elementwise
                && same
                && (!onward || made.is_some_and(|&made| self.plain[made]));
            for root in self.kernels(user) {
                if !roots.contains(&root) {
                    roots.push(root);
                }
            }
        }
        let fits = |root: &NodeId| self.sizes.get(root).copied().unwrap_or(0) < MOST_NODES;
        let repeats = u32::try_from(roots.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(1);
        let fused = match own {
            Kind::Elementwise | Kind::Move => {
                self.work[result].saturating_mul(repeats) <= MOST_WORK_REPEATED
            }
            Kind::Product => repeats == 0 && plain && !roots.iter().any(|r| self.is_product(*r)),
            _ => false,
        };
        let free = self.constant[result];
        if !(fused || free) || roots.is_empty() || !(free || roots.iter().all(fits)) {
            return;
        }
        for root in &roots {
            *self.sizes.entry(*root).or_insert(0) += 1;
            if own == Kind::Product {
                self.has_product.insert(*root);
            }
        }
        self.plain[result] = plain;
        self.fused_into.insert(result, roots);
    }

    fn is_product(&self, root: NodeId) -> bool {
        self.has_product.contains(&root) || self.kind(root) == Kind::Product
    }

    fn collect(&self, region: &Region) -> Groups {
        let mut members: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
        let mut groups = Vec::new();
        for &id in &region.nodes {
            for root in self.kernels(id) {
                members.entry(root).or_default().push(id);
                if root == id {
                    let nodes = members.remove(&root).unwrap_or_default();
                    groups.push(Group { root, nodes });
                }
            }
        }
        Groups { groups }
    }
}

/// The outer values that the regions of a loop or conditional use, each once, in the order of first
/// use.
pub(crate) fn captured(program: &Program, node: &Node) -> Vec<ValueId> {
    let mut inside = FxHashSet::default();
    let mut used = Vec::new();
    for region in node.kind.regions() {
        walk(program, region, &mut inside, &mut used);
    }
    if let NodeKind::While { states, .. } = &node.kind {
        inside.extend(states.iter().copied());
    }
    let mut seen = FxHashSet::default();
    used.retain(|value| !inside.contains(value) && seen.insert(*value));
    used
}

fn walk(
    program: &Program,
    region: &Region,
    inside: &mut FxHashSet<ValueId>,
    used: &mut Vec<ValueId>,
) {
    for &id in &region.nodes {
        let node = &program.nodes[id];
        used.extend(node.operands.iter().copied());
        inside.extend(node.results.iter().copied());
        if let NodeKind::While { states, .. } = &node.kind {
            inside.extend(states.iter().copied());
        }
        for region in node.kind.regions() {
            walk(program, region, inside, used);
        }
    }
    used.extend(region.results.iter().copied());
}

/// The number of elements of a value.
pub(crate) fn elements(program: &Program, value: ValueId) -> i64 {
    let dims = program.values[value].shape.dims.iter();
    dims.fold(1i64, |n, dim| n.saturating_mul(dim.representative()))
}

fn operation_work(op: &Op) -> u32 {
    match op {
        Op::Unary(
            Unary::Abs | Unary::Ceil | Unary::Floor | Unary::Negate | Unary::Not | Unary::Sign,
        ) => 1,
        Op::Unary(_) => 8,
        Op::Binary(Binary::Divide | Binary::Remainder | Binary::Power | Binary::Atan2) => 8,
        Op::Map { .. } => 8,
        _ => 1,
    }
}
