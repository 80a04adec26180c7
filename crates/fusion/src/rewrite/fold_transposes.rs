//! Folds transpositions into the dots that they feed or follow.
//!
//! A dot is an instruction until this pass turns it into a [`Contraction`](crate::Contraction),
//! whose labels can express any order of dimensions. A transposition of an operand then only
//! changes the order of reading, and one of the result the order of writing. Reshapes are looked
//! through if a transposition feeds them and each dimension of the operand is a product of whole
//! dimensions of the source; other reshapes cost nothing anyway, because they relabel the same
//! bytes.
//!
//! A dot of small depth with few columns (or rows) stays an operation. Such short sums are computed
//! in the kernel that reads them, or in a kernel of their own that is vectorised along the many
//! rows; a routine would fill its tiles only partly. A dot of few multiplications in all stays an
//! operation too, because it takes less time than calling a routine.

use crate::analysis::readers::Readers;
use crate::program::contraction::{Contraction, Label, Labels, is_product_of};
use crate::program::{Def, NodeId, NodeKind, Program, Region, ValueId};
use rustc_hash::FxHashSet;
use smallvec::smallvec;
use tegula_ir::{ArrayShape, ElementType, Module, Op};

/// The most reshapes and transpositions to look through in a row.
const MAX_LOOKED_THROUGH: usize = 16;

/// The most rows or columns that count as few: a tile of a routine has more.
const FEW: usize = 4;
/// The most multiplications that take less time than calling a routine. In a loop, such dots become
/// part of its code.
const FEW_PRODUCTS: usize = 256;

/// Turns the dots that routines compute into contractions, folds transpositions into them, and
/// removes what is unused afterwards. Dots of few columns and a depth of at most `shallow` stay
/// operations.
pub(crate) fn fold(module: &Module, program: &mut Program, shallow: usize) {
    let entry = std::mem::take(&mut program.entry);
    let mut pass = Fold {
        module,
        readers: Readers::of(program, &entry),
        shallow,
    };
    pass.region(program, &entry);
    program.entry = entry;
    crate::rewrite::dce::remove_dead(module, program);
}

struct Fold<'a> {
    module: &'a Module,
    readers: Readers,
    shallow: usize,
}

impl Fold<'_> {
    fn region(&mut self, program: &mut Program, region: &Region) {
        let inside: FxHashSet<NodeId> = region.nodes.iter().copied().collect();
        for &id in &region.nodes {
            let kind = std::mem::replace(&mut program.nodes[id].kind, NodeKind::Op);
            for inner in kind.regions() {
                self.region(program, inner);
            }
            program.nodes[id].kind = kind;
            self.node(program, id, &inside);
        }
    }

    fn node(&self, program: &mut Program, id: NodeId, inside: &FxHashSet<NodeId>) {
        let node = &program.nodes[id];
        let Op::Dot { dims, .. } = &self.module[node.origin].op else {
            return;
        };
        let (&[lhs, rhs], &[result]) = (&node.operands[..], &node.results[..]) else {
            return;
        };
        let shape = |v: ValueId| &program.values[v].shape;
        let ty = |v: ValueId| shape(v).element_type;
        if !matches!(node.kind, NodeKind::Op) || !is_product_of(ty(lhs), ty(rhs), ty(result)) {
            return;
        }
        let ranks = (shape(lhs).rank(), shape(rhs).rank());
        let Some(mut contraction) = Contraction::of_dot(dims, ranks.0, ranks.1) else {
            return;
        };
        if self.is_shallow(&contraction, [shape(lhs), shape(rhs)]) {
            return;
        }
        // The result comes first, while each of its dimensions still has one label.
        let result = self.result(program, id, result, &mut contraction, inside);
        let lhs = self.operand(program, lhs, &mut contraction, true, inside);
        let rhs = self.operand(program, rhs, &mut contraction, false, inside);
        contraction.renumber();
        let node = &mut program.nodes[id];
        node.kind = NodeKind::Contraction(Box::new(contraction));
        node.operands = smallvec![lhs, rhs];
        node.results = smallvec![result];
        program.values[result].def = Def::Node(id, 0);
    }

    /// Whether a product has so few terms or columns that it would mostly waste a routine's tiles.
    fn is_shallow(&self, product: &Contraction, [lhs, rhs]: [&ArrayShape; 2]) -> bool {
        let Some(sizes) = product.sizes(lhs, rhs) else {
            return false;
        };
        let of = |labels: &[Labels], is_free: bool| -> usize {
            let labels = labels.iter().flatten();
            let free = labels.filter(|label| product.out.contains(label) == is_free);
            free.map(|&label| sizes[label as usize]).product()
        };
        // Batch labels occur in all three arrays.
        let shared = |label: &&Label| product.rhs.iter().flatten().any(|l| l == *label);
        let batch = product.lhs.iter().flatten().filter(shared);
        let batch = batch.filter(|label| product.out.contains(label));
        let batch: usize = batch.map(|&label| sizes[label as usize]).product();
        let depth = of(&product.lhs, false);
        let free = [&product.lhs, &product.rhs].map(|side| of(side, true));
        let few = free.map(|count| count <= batch * FEW);
        // There are routines for one row or column of floats, but not of integers wider than a byte;
        // and none for many products of one row and one column each.
        let all = |test: fn(ElementType) -> bool| [lhs, rhs].iter().all(|s| test(s.element_type));
        let is_vector = free.contains(&batch) && all(|ty| ty.is_integer() && ty.bits() > 8);
        let are_rows = free == [batch; 2]
            && batch > FEW
            && all(|ty| matches!(ty, ElementType::F32 | ElementType::F64));
        let is_vector = self.shallow > 0 && (is_vector || are_rows);
        let products = sizes
            .iter()
            .try_fold(1usize, |n, &size| n.checked_mul(size));
        let is_small =
            self.shallow > 0 && products.is_some_and(|n| (1..=FEW_PRODUCTS).contains(&n));
        is_small || is_vector || (1..=self.shallow).contains(&depth) && (few[0] || few[1])
    }

    /// The value that can be read instead of the operand; the contraction is adapted to its
    /// dimensions.
    fn operand(
        &self,
        program: &Program,
        start: ValueId,
        contraction: &mut Contraction,
        left: bool,
        inside: &FxHashSet<NodeId>,
    ) -> ValueId {
        let mut found = start;
        let (mut at, mut looking) = (start, contraction.clone());
        for _ in 0..MAX_LOOKED_THROUGH {
            let Def::Node(id, 0) = program.values[at].def else {
                break;
            };
            let node = &program.nodes[id];
            let (NodeKind::Op, &[source], true) =
                (&node.kind, &node.operands[..], inside.contains(&id))
            else {
                break;
            };
            let old = if left { &looking.lhs } else { &looking.rhs };
            match &self.module[node.origin].op {
                Op::Transpose(permutation) => {
                    let mut new = vec![Labels::new(); old.len()];
                    for (labels, &p) in old.iter().zip(permutation) {
                        let place = usize::try_from(p).ok().and_then(|p| new.get_mut(p));
                        if let Some(place) = place {
                            *place = labels.clone();
                        }
                    }
                    *(if left {
                        &mut looking.lhs
                    } else {
                        &mut looking.rhs
                    }) = new;
                    at = source;
                    (found, *contraction) = (at, looking.clone());
                }
                Op::Reshape | Op::Bitcast => {
                    let shape = |v: ValueId| &program.values[v].shape;
                    if unmerge(&mut looking, left, shape(source), shape(at)).is_none() {
                        break;
                    }
                    at = source;
                }
                _ => break,
            }
        }
        found
    }

    /// The value that can be written instead of the result: the result of the transposition that is
    /// its only reader.
    fn result(
        &self,
        program: &mut Program,
        id: NodeId,
        start: ValueId,
        contraction: &mut Contraction,
        inside: &FxHashSet<NodeId>,
    ) -> ValueId {
        let mut result = start;
        while let Some(reader) = self.readers.only_reader(result)
            && inside.contains(&reader)
        {
            let node = &mut program.nodes[reader];
            let (NodeKind::Op, &[transposed]) = (&node.kind, &node.results[..]) else {
                break;
            };
            let Op::Transpose(permutation) = &self.module[node.origin].op else {
                break;
            };
            let order: Option<Vec<Label>> = permutation
                .iter()
                .map(|&p| contraction.out.get(usize::try_from(p).ok()?).copied())
                .collect();
            let Some(order) = order.filter(|o| o.len() == contraction.out.len()) else {
                break;
            };
            contraction.out = order;
            // The transposition has no results any more, so it is removed as dead code. Its former
            // result now comes from the dot, which precedes all readers.
            node.results.clear();
            program.values[transposed].def = Def::Node(id, 0);
            result = transposed;
        }
        result
    }
}

/// Gives an operand the dimensions of the source of a reshape: each dimension of the reshaped array
/// is a product of one or more of the source's, or of size 1. `None` if this is not the case.
fn unmerge(
    contraction: &mut Contraction,
    left: bool,
    source: &ArrayShape,
    reshaped: &ArrayShape,
) -> Option<()> {
    let (source, reshaped) = (source.static_dims()?, reshaped.static_dims()?);
    let mut new: Vec<Labels> = vec![Labels::new(); source.len()];
    let mut next = 0;
    for (dim, &size) in reshaped.iter().enumerate() {
        let side = if left {
            &contraction.lhs
        } else {
            &contraction.rhs
        };
        let labels = side.get(dim)?.clone();
        if size == 1 {
            // Its labels have size 1 in the other arrays as well.
            labels
                .iter()
                .for_each(|&label| contraction.split(label, &[]));
            continue;
        }
        let mut parts: Vec<usize> = Vec::new();
        let mut product = 1i64;
        while product != size {
            let part = *source.get(next)?;
            if part != 1 {
                parts.push(next);
                product = product.checked_mul(part)?;
                if part == 0 || product > size {
                    return None;
                }
            }
            next += 1;
        }
        match (&labels[..], &parts[..]) {
            (_, &[part]) => new[part] = labels,
            (&[label], _) => {
                let first = contraction.fresh();
                let fresh: Vec<Label> = (first..).take(parts.len()).collect();
                contraction.split(label, &fresh);
                for (&part, label) in parts.iter().zip(fresh) {
                    new[part] = smallvec![label];
                }
            }
            _ => return None,
        }
    }
    if source.get(next..)?.iter().any(|&size| size != 1) {
        return None;
    }
    *(if left {
        &mut contraction.lhs
    } else {
        &mut contraction.rhs
    }) = new;
    Some(())
}
