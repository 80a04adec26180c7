//! Results that two nodes give alike, made once.
//!
//! Values are numbered: two nodes with one operation over operands of equal numbers give
//! equal values. Kernels find out by themselves which scalars they need once, and computing
//! a cheap value where it is read costs less than keeping it, so values stay apart but for
//! those that a routine or a loop over many elements makes (products, sums, sorts, ...). What
//! only led to the second goes with it.

use crate::program::{Def, NodeId, NodeKind, Program, Region, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_ir::{ArrayShape, ComputationId, InstructionId, Module, Op, Opcode};

/// Nodes of one operation over the same operands that are told apart by their attributes,
/// and computations that are told apart by what they say: so many of the last are compared.
const MOST_COMPARED: usize = 32;
/// Instructions of a computation that is compared.
const MOST_INSTRUCTIONS: usize = 16;
/// Bytes of a constant that is compared.
const MOST_BYTES: usize = 64;

/// What nodes that may be equal have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    opcode: Opcode,
    operands: SmallVec<[ValueId; 4]>,
    shapes: SmallVec<[ArrayShape; 2]>,
}

/// Makes the first of equal results the only one.
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

/// Nodes that were seen, and come before what is looked at.
type Seen = FxHashMap<Key, Vec<NodeId>>;

struct Merge<'a> {
    module: &'a Module,
    /// The first value that is equal to a value, if there is one before it.
    numbers: FxHashMap<ValueId, ValueId>,
    /// The value that is used in the place of a value.
    instead: FxHashMap<ValueId, ValueId>,
    constants: FxHashMap<(ArrayShape, Vec<u8>), ValueId>,
    /// Computations that differ.
    computations: Vec<ComputationId>,
}

impl Merge<'_> {
    fn region(&mut self, program: &mut Program, region: &mut Region, seen: &mut Seen) {
        // What this region adds is not seen behind it.
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

    /// The first value that is equal.
    fn number(&mut self, program: &Program, value: ValueId) -> ValueId {
        if let Def::Constant(literal) = &program.values[value].def
            && literal.bytes().len() <= MOST_BYTES
        {
            let key = (literal.shape().clone(), literal.bytes().to_vec());
            return *self.constants.entry(key).or_insert(value);
        }
        self.numbers.get(&value).copied().unwrap_or(value)
    }

    /// Whether the operations of two instructions of one opcode are the same.
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

    /// The first computation that says the same, among the last that were met.
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

/// Whether two computations without calls are the same but for names.
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

/// Whether the results depend on the operands alone, and nothing else happens.
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

/// Whether a result is worth keeping for another reader wherever that is.
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
