//! Replaces static sizes of a program by symbolic ones: chosen input dimensions become `?`, and so
//! does every dimension that must have the same size.
//!
//! Dimensions are put into equivalence classes. Shape functions, computed with a variable for each
//! dimension, give most equalities. This module adds those that they cannot give: dimensions that a
//! reshape or a slice leaves unchanged. Constants are not changed.

use std::collections::BTreeMap;
use std::fmt::Display;
use tegula_expr::{Cmp, Interval, Operands, Symbols, Term, Var, Watched, canonicalize};
use tegula_ir::{
    ArrayShape, ComputationId, Dim, Error, Instruction, InstructionId, Module, Op, Shape, ShapeOf,
    TO_END, shape_of,
};

/// The program with dimension `K` of input `N` open for each `(N, K)`, as text.
///
/// # Errors
/// The program cannot be read.
pub fn opened(text: &str, inputs: &[(usize, usize)]) -> Result<String, Error> {
    let mut module = tegula_ir::parse_module(text)?;
    let mut classes = Classes::of(&module);
    let chosen: Vec<usize> = (inputs.iter())
        .filter_map(|&(input, dim)| {
            let &id = module.entry_computation().parameters.get(input)?;
            Some(classes.first.get(&id)? + dim)
        })
        .collect();
    let chosen: Vec<usize> = chosen.into_iter().map(|node| classes.root(node)).collect();
    let ids: Vec<InstructionId> = module.instructions.keys().collect();
    let added = reshapes_that_add(&module);
    for id in ids {
        let Some(&first) = classes.first.get(&id) else {
            continue;
        };
        let count = dims_of(&module[id].shape).len();
        let is_open: Vec<bool> = (first..first + count)
            .map(|node| chosen.contains(&classes.root(node)))
            .collect();
        if let Some(instruction) = module.instructions.get_mut(id) {
            open(&mut instruction.shape, &mut is_open.iter().copied());
            if let Some(dimensions) = added.get(&id).filter(|d| added_open(d, &is_open)) {
                instruction.op = Op::Broadcast(dimensions.iter().copied().collect());
            }
            match &mut instruction.op {
                Op::Slice(slices) => {
                    for (slice, _) in slices.iter_mut().zip(&is_open).filter(|(_, open)| **open) {
                        slice.limit = TO_END;
                    }
                }
                Op::DynamicSlice(sizes) => {
                    for (size, _) in sizes.iter_mut().zip(&is_open).filter(|(_, open)| **open) {
                        *size = TO_END;
                    }
                }
                _ => {}
            }
        }
    }
    module.attributes.entry_layout = None;
    Ok(module.to_string())
}

/// The reshapes that only insert dimensions of size 1, each with the positions of the operand's
/// dimensions in the result. If such a 1 becomes open, the reshape must become a broadcast.
/// (Exporters omit the broadcast if the batch size is 1.)
fn reshapes_that_add(module: &Module) -> BTreeMap<InstructionId, Vec<i64>> {
    let mut found = BTreeMap::new();
    for (id, instruction) in &module.instructions {
        let (Op::Reshape, Some(&operand)) = (&instruction.op, instruction.operands.first()) else {
            continue;
        };
        let (from, to) = (dims_of(&module[operand].shape), dims_of(&instruction.shape));
        let kept = pairs(&from, &to);
        if kept.len() == from.len() && to.len() > from.len() {
            found.insert(id, kept.iter().map(|&(_, place)| place as i64).collect());
        }
    }
    found
}

/// Whether one of the inserted dimensions is open.
fn added_open(kept: &[i64], is_open: &[bool]) -> bool {
    let mut dims = is_open.iter().enumerate();
    dims.any(|(dim, &open)| open && !kept.contains(&(dim as i64)))
}

fn open(shape: &mut Shape, is_open: &mut dyn Iterator<Item = bool>) {
    match shape {
        Shape::Array(array) => {
            array.layout = None;
            for dim in &mut array.dims {
                if is_open.next() == Some(true) {
                    *dim = Dim::Symbolic(Term::var(Var(0)));
                }
            }
        }
        Shape::Tuple(elements) => elements.iter_mut().for_each(|e| open(e, is_open)),
        _ => {}
    }
}

/// The static sizes of all arrays of a shape.
fn dims_of(shape: &Shape) -> Vec<i64> {
    let mut dims = Vec::new();
    shape.for_each_leaf(&mut |leaf| {
        let array = leaf.as_array().map_or(&[][..], |array| &array.dims);
        dims.extend(array.iter().map(|dim| dim.as_static().unwrap_or(0)));
    });
    dims
}

/// The equivalence classes of the dimensions of all values.
struct Classes {
    /// The number of an instruction's first dimension.
    first: BTreeMap<InstructionId, usize>,
    parent: Vec<usize>,
}

impl Classes {
    fn of(module: &Module) -> Self {
        let mut classes = Self {
            first: BTreeMap::new(),
            parent: Vec::new(),
        };
        for (id, instruction) in &module.instructions {
            classes.first.insert(id, classes.parent.len());
            let count = classes.parent.len() + dims_of(&instruction.shape).len();
            classes.parent = (0..count)
                .map(|node| classes.parent.get(node).copied().unwrap_or(node))
                .collect();
        }
        for (id, instruction) in &module.instructions {
            classes.relate(module, id, instruction);
        }
        classes
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }

    /// Joins the classes of corresponding dimensions of two values with the same structure.
    fn join_all(&mut self, module: &Module, a: InstructionId, b: InstructionId) {
        let count = dims_of(&module[a].shape).len();
        if count == dims_of(&module[b].shape).len() {
            let (a, b) = (self.first[&a], self.first[&b]);
            (0..count).for_each(|dim| self.join(a + dim, b + dim));
        }
    }

    fn relate(&mut self, module: &Module, id: InstructionId, instruction: &Instruction) {
        let operands = &instruction.operands;
        let own = self.first[&id];
        let first = operands.first().copied();
        match (&instruction.op, first) {
            (Op::Broadcast(dimensions), Some(operand)) => {
                let operand = self.first[&operand];
                for (dim, &place) in dimensions.iter().enumerate() {
                    self.join(operand + dim, own + usize::try_from(place).unwrap_or(0));
                }
            }
            (Op::Reshape, Some(operand)) => {
                let (from, to) = (dims_of(&module[operand].shape), dims_of(&instruction.shape));
                let operand = self.first[&operand];
                for (i, j) in pairs(&from, &to) {
                    self.join(operand + i, own + j);
                }
            }
            (Op::Slice(_) | Op::DynamicSlice(_) | Op::DynamicUpdateSlice, Some(operand)) => {
                // A dimension keeps its size if the slice or the update covers it entirely.
                let (from, to) = (dims_of(&module[operand].shape), dims_of(&instruction.shape));
                let whole = self.first[&operand];
                for dim in 0..from.len() {
                    if from[dim] == to[dim] {
                        self.join(whole + dim, own + dim);
                    }
                }
                if let (Op::DynamicUpdateSlice, Some(update)) = (&instruction.op, operands.get(1)) {
                    let sizes = dims_of(&module[*update].shape);
                    let update = self.first[update];
                    for dim in 0..sizes.len() {
                        if sizes[dim] == from[dim] {
                            self.join(whole + dim, update + dim);
                        }
                    }
                }
            }
            (Op::GetTupleElement(index), Some(operand)) => {
                let elements = module[operand].shape.as_tuple().unwrap_or_default();
                let before = &elements[..usize::try_from(*index).unwrap_or(0)];
                let before: usize = before.iter().map(|e| dims_of(e).len()).sum();
                let from = self.first[&operand] + before;
                (0..dims_of(&instruction.shape).len()).for_each(|d| self.join(from + d, own + d));
            }
            (Op::Tuple, _) => {
                let mut place = own;
                for operand in operands {
                    let count = dims_of(&module[*operand].shape).len();
                    let operand = self.first[operand];
                    (0..count).for_each(|dim| self.join(operand + dim, place + dim));
                    place += count;
                }
            }
            (
                Op::Call {
                    to_apply: callee, ..
                }
                | Op::Fusion { calls: callee, .. },
                _,
            ) => {
                self.call(module, *callee, operands, id);
            }
            (Op::While { condition, body }, Some(state)) => {
                self.join_all(module, state, id);
                self.join_all(module, module[*condition].parameters[0], id);
                self.call(module, *body, operands, id);
            }
            (Op::Conditional { branches, .. }, _) => {
                for (branch, operand) in branches.iter().zip(operands.iter().skip(1)) {
                    self.call(module, *branch, &[*operand], id);
                }
            }
            (Op::Copy | Op::OptBarrier, Some(operand)) => self.join_all(module, operand, id),
            _ => self.relate_by_shape(module, id, instruction),
        }
    }

    fn call(
        &mut self,
        module: &Module,
        callee: ComputationId,
        operands: &[InstructionId],
        result: InstructionId,
    ) {
        for (&parameter, &operand) in module[callee].parameters.iter().zip(operands) {
            self.join_all(module, parameter, operand);
        }
        self.join_all(module, module[callee].root, result);
    }

    /// Joins the dimensions that the operation's shape function makes equal.
    fn relate_by_shape(&mut self, module: &Module, id: InstructionId, instruction: &Instruction) {
        let shapes: Vec<&Shape> = (instruction.operands.iter())
            .map(|&operand| &module[operand].shape)
            .collect();
        let nodes = instruction.operands.iter().map(|o| self.first[o]).collect();
        let mut equal = Vec::new();
        let mut provider = Watched {
            provider: Symbols(Nodes(nodes)),
            required: |op, a: &Term, b: &Term, _: &dyn Display| {
                if op == Cmp::Eq {
                    equal.push((a.clone(), b.clone()));
                }
            },
        };
        let stated = Some(&instruction.shape);
        let Ok(inferred) = shape_of(&mut provider, module, &instruction.op, &shapes, stated) else {
            return;
        };
        let ranges = vec![Interval::new(1, 1 << 31); self.parent.len()];
        let node = |term: &Term| {
            canonicalize(term, &ranges)
                .as_var()
                .map(|var| var.0 as usize)
        };
        for (a, b) in equal {
            if let (Some(a), Some(b)) = (node(&a), node(&b)) {
                self.join(a, b);
            }
        }
        let mut place = self.first[&id];
        self.result(&inferred, &mut place, &node);
    }

    fn result(
        &mut self,
        shape: &ShapeOf<Term>,
        place: &mut usize,
        node: &dyn Fn(&Term) -> Option<usize>,
    ) {
        match shape {
            ShapeOf::Array { dims, .. } => {
                for dim in dims {
                    if let Some(size) = node(dim) {
                        self.join(size, *place);
                    }
                    *place += 1;
                }
            }
            ShapeOf::Tuple(elements) => elements.iter().for_each(|e| self.result(e, place, node)),
            ShapeOf::Same(shape) => *place += dims_of(shape).len(),
        }
    }
}

/// The pairs of operand and result dimensions that a reshape keeps, found by walking both shapes
/// from the front. Where sizes differ, both sides advance until their products are equal.
/// Dimensions of size 1 without a counterpart are skipped.
fn pairs(from: &[i64], to: &[i64]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        if from[i] == to[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if from[i] == 1 {
            i += 1;
        } else if to[j] == 1 {
            j += 1;
        } else {
            let (mut a, mut b) = (from[i], to[j]);
            while a != b && i < from.len() && j < to.len() {
                if a < b {
                    i += 1;
                    a = a.saturating_mul(from.get(i).copied().unwrap_or(1));
                } else {
                    j += 1;
                    b = b.saturating_mul(to.get(j).copied().unwrap_or(1));
                }
            }
            (i, j) = (i + 1, j + 1);
        }
    }
    pairs
}

/// Operands whose dimensions are variables.
struct Nodes(Vec<usize>);

impl Operands for Nodes {
    type Index = Term;

    fn shape(&mut self, operand: usize, dim: usize) -> Term {
        let node = self.0.get(operand).map_or(0, |first| first + dim);
        Term::var(Var(u32::try_from(node).unwrap_or(0)))
    }
    fn constant(&mut self, _: usize, _: usize) -> Option<i64> {
        None
    }
    fn value(&mut self, _: usize, _: usize) -> Term {
        Term::constant(0)
    }
}

/// The shape of an input at these values of its open sizes.
pub fn at(shape: &ArrayShape, value: &dyn Fn(Var) -> Option<i64>) -> Option<Vec<i64>> {
    let size = |dim: &Dim| dim.term().eval(value).ok();
    shape.dims.iter().map(size).collect()
}
