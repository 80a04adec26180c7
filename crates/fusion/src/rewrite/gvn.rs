//! Global value numbering: computes equal results of costly operations once.
//!
//! Two nodes have equal values if they have the same operation and operands of equal numbers. Only
//! values that a routine or a loop over many elements computes (products, sums, sorts, ...) are
//! merged: kernels find common scalars themselves, and computing a cheap value where it is read
//! costs less than keeping it. Nodes that fed only a duplicate are removed with it.

use crate::program::{Def, NodeId, NodeKind, Program, Region, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_ir::{ArrayShape, ComputationId, InstructionId, Module, Op, Opcode};

/// The most nodes with one key whose attributes are compared, and the most recently met
/// computations that a computation is compared with.
const MOST_COMPARED: usize = 32;
/// The most instructions of a computation that is compared.
const MOST_INSTRUCTIONS: usize = 16;
/// The most bytes of a constant that is compared.
const MOST_BYTES: usize = 64;

/// The hash key that equal nodes share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    opcode: Opcode,
    operands: SmallVec<[ValueId; 4]>,
    shapes: SmallVec<[ArrayShape; 2]>,
}

/// Replaces duplicates by the first of the equal results.
pub(crate) fn merge(module: &Module, program: &mut Program) {
    let mut pass = Merge {
        module,
        numbers: FxHashMap::default(),
        instead: FxHashMap::default(),
        constants: FxHashMap::default(),
        computations: Vec::new(),
    };
    let mut entry = std::mem::take(&mut program.entry);
    pass.region(program, &mut entry, &mut Seen::default());
    program.entry = entry;
}

/// The nodes seen so far that dominate the current one, by key.
type Seen = FxHashMap<Key, Vec<NodeId>>;

struct Merge<'a> {
    module: &'a Module,
    /// The first value that is equal to this value, if it is another one.
    numbers: FxHashMap<ValueId, ValueId>,
    /// The value that replaces this value.
    instead: FxHashMap<ValueId, ValueId>,
    constants: FxHashMap<(ArrayShape, Vec<u8>), ValueId>,
    /// Computations that differ from one another.
    computations: Vec<ComputationId>,
}

impl Merge<'_> {
    fn region(&mut self, program: &mut Program, region: &mut Region, seen: &mut Seen) {
        // What this region adds is removed again at its end.
        let mut added: Vec<Key> = Vec::new();
        for &id in &region.nodes {
            let mut operands = std::mem::take(&mut program.nodes[id].operands);
            self.replace(&mut operands);
            program.nodes[id].operands = operands;
            let mut kind = std::mem::replace(&mut program.nodes[id].kind, NodeKind::Op);
            match &mut kind {
                NodeKind::Op => self.node(program, id, seen, &mut added),
                NodeKind::Contraction(_) => {}
                NodeKind::While {
                    condition, body, ..
                } => {
                    self.region(program, condition, seen);
                    self.region(program, body, seen);
                }
                NodeKind::Conditional { branches } => {
                    for branch in branches {
                        self.region(program, branch, seen);
                    }
                }
            }
            program.nodes[id].kind = kind;
        }
        self.replace(&mut region.results);
        for key in added.iter().rev() {
            if let Some(nodes) = seen.get_mut(key) {
                nodes.pop();
            }
        }
    }

    fn replace(&self, values: &mut [ValueId]) {
        for value in values {
            *value = self.instead.get(value).copied().unwrap_or(*value);
        }
    }

    fn node(&mut self, program: &Program, id: NodeId, seen: &mut Seen, added: &mut Vec<Key>) {
        let node = &program.nodes[id];
        let op = &self.module[node.origin].op;
        if !is_a_function(op) {
            return;
        }
        let operands = node.operands.iter();
        let operands = operands.map(|&v| self.number(program, v)).collect();
        let shapes = node.results.iter();
        let key = Key {
            opcode: op.opcode(),
            operands,
            shapes: shapes.map(|&v| program.values[v].shape.clone()).collect(),
        };
        let nodes = seen.entry(key.clone()).or_default();
        let mut candidates = nodes.iter().rev().take(MOST_COMPARED);
        let equal = candidates.find(|&&other| self.same(program.nodes[other].origin, node.origin));
        let Some(&equal) = equal else {
            nodes.push(id);
            added.push(key);
            return;
        };
        let once = is_made_once(op);
        for (&value, &first) in node.results.iter().zip(&program.nodes[equal].results) {
            self.numbers.insert(value, first);
            if once {
                self.instead.insert(value, first);
            }
        }
    }

    /// The first value that is known to be equal to `value`.
    fn number(&mut self, program: &Program, value: ValueId) -> ValueId {
        if let Def::Constant(literal) = &program.values[value].def
            && literal.bytes().len() <= MOST_BYTES
        {
            let key = (literal.shape().clone(), literal.bytes().to_vec());
            return *self.constants.entry(key).or_insert(value);
        }
        self.numbers.get(&value).copied().unwrap_or(value)
    }

    /// Whether two instructions of one opcode perform the same operation.
    fn same(&mut self, a: InstructionId, b: InstructionId) -> bool {
        let [a, b] = [a, b].map(|id| &self.module[id].op);
        if a == b {
            return true;
        }
        if a.called_computations().len() != b.called_computations().len() {
            return false;
        }
        let mut canonical = |op: &Op| {
            let mut op = op.clone();
            op.map_computations(|id| self.computation(id));
            op
        };
        canonical(a) == canonical(b)
    }

    /// An equal computation among the last ones met, or this one.
    fn computation(&mut self, id: ComputationId) -> ComputationId {
        let mut known = self.computations.iter().rev().take(MOST_COMPARED);
        let found = known.find(|&&other| say_the_same(self.module, other, id));
        match found {
            Some(&other) => other,
            None => {
                self.computations.push(id);
                id
            }
        }
    }
}

/// Whether two computations without calls are equal except for names.
fn say_the_same(module: &Module, a: ComputationId, b: ComputationId) -> bool {
    if a == b {
        return true;
    }
    let [a, b] = [a, b].map(|id| &module.computations[id]);
    if a.instructions.len() != b.instructions.len() || a.instructions.len() > MOST_INSTRUCTIONS {
        return false;
    }
    let place = |list: &[InstructionId], id| list.iter().position(|&other| other == id);
    let pairs = a.instructions.iter().zip(&b.instructions);
    let same = |(&x, &y): (&InstructionId, &InstructionId)| {
        let (x, y) = (&module[x], &module[y]);
        let places = |list: &[InstructionId], operands: &[InstructionId]| -> Vec<_> {
            operands.iter().map(|&id| place(list, id)).collect()
        };
        x.op == y.op
            && x.shape == y.shape
            && x.op.called_computations().is_empty()
            && is_a_function(&x.op)
            && places(&a.instructions, &x.operands) == places(&b.instructions, &y.operands)
    };
    place(&a.instructions, a.root) == place(&b.instructions, b.root) && { pairs }.all(same)
}

/// Whether an operation's results depend on its operands alone and it has no side effects.
pub(crate) fn is_a_function(op: &Op) -> bool {
    !matches!(
        op.opcode(),
        Opcode::Rng
            | Opcode::RngGetAndUpdateState
            | Opcode::CustomCall
            | Opcode::Infeed
            | Opcode::Outfeed
            | Opcode::Send
            | Opcode::SendDone
            | Opcode::Recv
            | Opcode::RecvDone
            | Opcode::AfterAll
    )
}

/// Whether a result is worth keeping for any further reader.
fn is_made_once(op: &Op) -> bool {
    matches!(
        op.opcode(),
        Opcode::Dot
            | Opcode::Convolution
            | Opcode::Fft
            | Opcode::Sort
            | Opcode::TopK
            | Opcode::Cholesky
            | Opcode::TriangularSolve
            | Opcode::Reduce
            | Opcode::ReduceWindow
            | Opcode::SelectAndScatter
            | Opcode::Scatter
            | Opcode::RngBitGenerator
    )
}
