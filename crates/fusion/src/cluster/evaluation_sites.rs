//! Evaluation sites: the places in a kernel where elements of a value are needed. A place is an
//! index within a scope.
//!
//! A kernel computes a value once per place, because its emitter caches what it has computed at an
//! index in a scope. For the emitter, two places are the same if the indices are the same terms.
//! This pass runs before there are terms: it takes two places to be the same if the same operation
//! on the same shapes leads to both from the same place.

use crate::program::{NodeId, Program};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_ir::{Module, Op, Opcode};

/// An index in a scope of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place(u32);

impl Place {
    /// The kernel's own index, outside of all loops and branches.
    pub(super) const TOP: Self = Self(0);
}

/// A scope: the body of a loop or a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Scope(u32);

/// Nodes that read an operand from some place, each with the place of the operand.
type Steps = SmallVec<[(NodeId, Place); 2]>;

/// All places found so far.
pub(super) struct Places<'a> {
    module: &'a Module,
    program: &'a Program,
    scopes: Vec<Scope>,
    next_scope: u32,
    /// For each scope, the place of scalars (rank 0).
    scalars: FxHashMap<Scope, Place>,
    steps: FxHashMap<(Place, Opcode, usize), Steps>,
}

impl<'a> Places<'a> {
    pub(super) fn new(module: &'a Module, program: &'a Program) -> Self {
        Self {
            module,
            program,
            scopes: vec![Scope(0)],
            next_scope: 1,
            scalars: FxHashMap::default(),
            steps: FxHashMap::default(),
        }
    }

    /// The place at which a node that is evaluated at `place` reads an operand.
    pub(super) fn step(&mut self, place: Place, id: NodeId, operand: usize) -> Place {
        let node = &self.program.nodes[id];
        let rank = |v| self.program.values[v].shape.rank();
        let from = node.results.first().map_or(0, |&v| rank(v));
        let to = node.operands.get(operand).map_or(0, |&v| rank(v));
        match reads(&self.module[node.origin].op, operand, node.operands.len()) {
            Reads::Inside => self.unique(),
            Reads::Here if from == to => place,
            _ if to == 0 => self.scalar(self.scopes[place.0 as usize]),
            _ => self.moved(place, id, operand),
        }
    }

    /// A new place in a new scope.
    fn unique(&mut self) -> Place {
        let scope = Scope(self.next_scope);
        self.next_scope += 1;
        self.place(scope)
    }

    fn place(&mut self, scope: Scope) -> Place {
        self.scopes.push(scope);
        Place(self.scopes.len() as u32 - 1)
    }

    fn scalar(&mut self, scope: Scope) -> Place {
        if let Some(&place) = self.scalars.get(&scope) {
            return place;
        }
        let place = self.place(scope);
        self.scalars.insert(scope, place);
        place
    }

    /// The place of the operand of an operation that moves elements.
    fn moved(&mut self, place: Place, id: NodeId, operand: usize) -> Place {
        let opcode = self.module[self.program.nodes[id].origin].op.opcode();
        let key = (place, opcode, operand);
        let known = self.steps.get(&key).map_or(&[][..], |steps| steps);
        let same = known
            .iter()
            .find(|(other, _)| self.alike(*other, id, operand));
        if let Some(&(_, place)) = same {
            return place;
        }
        let new = self.place(self.scopes[place.0 as usize]);
        self.steps.entry(key).or_default().push((id, new));
        new
    }

    /// Whether two nodes of one opcode read an operand at the same index.
    fn alike(&self, a: NodeId, b: NodeId, operand: usize) -> bool {
        let (a, b) = (&self.program.nodes[a], &self.program.nodes[b]);
        let dims = |v: &_| &self.program.values[*v].shape.dims;
        let same_dims = |a: &[_], b: &[_]| a.iter().map(dims).eq(b.iter().map(dims));
        self.module[a.origin].op == self.module[b.origin].op
            && same_dims(&a.results, &b.results)
            && same_dims(&a.operands, &b.operands)
            // The operands other than the first are the indices, if there are any.
            && (operand != 0 || a.operands.iter().skip(1).eq(b.operands.iter().skip(1)))
    }
}

/// At which index an operation reads an operand.
enum Reads {
    /// At the index of the result's element.
    Here,
    /// At another index, computed from that of the result's element.
    Moved,
    /// In a loop or a branch.
    Inside,
}

fn reads(op: &Op, operand: usize, operands: usize) -> Reads {
    match op {
        Op::BitcastConvert | Op::Map { .. } => Reads::Here,
        op if op.is_elementwise() => Reads::Here,
        Op::Broadcast(_)
        | Op::Reshape
        | Op::Bitcast
        | Op::Transpose(_)
        | Op::Reverse(_)
        | Op::Slice(_)
        | Op::DynamicSlice(_)
        | Op::Gather { .. }
        | Op::GetDimensionSize(_)
        | Op::SetDimensionSize(_) => Reads::Moved,
        // The initial values of the reduction.
        Op::Reduce { .. } | Op::ReduceWindow { .. } if operand >= operands / 2 => Reads::Moved,
        _ => Reads::Inside,
    }
}
