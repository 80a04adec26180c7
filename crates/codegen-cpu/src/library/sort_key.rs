//! Comparators that compare one key of each element.
//!
//! A comparator of the form `key(a) < key(b)`, with the same `key` on both sides, over totally
//! ordered numbers, is a sort by that key. A kernel computes the key of every element once; its
//! bits, converted to an unsigned number of the same order, are sorted without calls of a
//! comparator.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use tegula_expr::Term;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, IndexVar, Param, ScalarId, ScalarOp, Statement};
use tegula_ir::{Category, Direction, ElementType, Order};
use tegula_linalg::sort::KeyOrder;

/// The key of a sort.
pub(crate) struct SortKey {
    /// Computes the keys of the elements: the kernel reads some of the sort's operands and writes
    /// the keys.
    pub kernel: Kernel,
    /// The numbers of the operands that the kernel reads.
    pub arrays: Vec<usize>,
    /// The type of the keys, and their order.
    pub element_type: ElementType,
    pub order: KeyOrder,
}

/// The key that a comparator compares, if it does nothing else.
pub(crate) fn key_of(comparator: &Kernel) -> Option<SortKey> {
    let statements = &comparator.body.statements;
    let (last, before) = statements.split_last()?;
    let Statement::Store { value, .. } = last else {
        return None;
    };
    let definitions = definitions(before);
    let Statement::Compute {
        op: ScalarOp::Compare(direction, order),
        operands,
        ..
    } = definitions.get(value)?
    else {
        return None;
    };
    let [first, second] = operands[..] else {
        return None;
    };
    let element_type = *comparator.scalars.get(first).as_ref()?;
    let (key, descending) = match (mirrored(&definitions, first, second)?, direction) {
        (Side::Left, Direction::Lt) => (first, false),
        (Side::Right, Direction::Lt) => (second, true),
        (Side::Left, Direction::Gt) => (first, true),
        (Side::Right, Direction::Gt) => (second, false),
        _ => return None,
    };
    let category = element_type.category();
    let ordered = match category {
        Category::Float => *order == Order::Total && element_type.bits() >= 16,
        Category::Signed | Category::Unsigned => element_type.bits() >= 8,
        _ => false,
    };
    ordered.then_some(())?;
    let (kernel, arrays) = key_kernel(comparator, before, key, element_type)?;
    Some(SortKey {
        kernel,
        arrays,
        element_type,
        order: KeyOrder::new(element_type, descending),
    })
}

/// The element that a scalar is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The comparator's first element.
    Left,
    /// The comparator's second element.
    Right,
}

/// The statement that computes each scalar, except for results of loops and conditionals.
type Definitions<'k> = FxHashMap<ScalarId, &'k Statement>;

fn definitions(statements: &[Statement]) -> Definitions<'_> {
    let defined = statements.iter().filter_map(|statement| match statement {
        Statement::Compute { result, .. } | Statement::Load { result, .. } => {
            Some((*result, statement))
        }
        _ => None,
    });
    defined.collect()
}

/// If two scalars are the same function of one element each: the element of the first.
fn mirrored(definitions: &Definitions<'_>, a: ScalarId, b: ScalarId) -> Option<Side> {
    let mut side = None;
    let mut open = vec![(a, b)];
    let mut seen = FxHashSet::default();
    while let Some(pair) = open.pop() {
        if !seen.insert(pair) {
            continue;
        }
        match (definitions.get(&pair.0)?, definitions.get(&pair.1)?) {
            (Statement::Load { param: x, .. }, Statement::Load { param: y, .. }) => {
                let this = match x % 2 {
                    0 => Side::Left,
                    _ => Side::Right,
                };
                if x / 2 != y / 2 || x == y || side.is_some_and(|s| s != this) {
                    return None;
                }
                side = Some(this);
            }
            (
                Statement::Compute {
                    op: x,
                    operands: left,
                    ..
                },
                Statement::Compute {
                    op: y,
                    operands: right,
                    ..
                },
            ) if x == y && left.len() == right.len() => {
                open.extend(left.iter().copied().zip(right.iter().copied()));
            }
            _ => return None,
        }
    }
    side
}

/// A kernel that computes a scalar of the comparator for as many elements as it is called with.
fn key_kernel(
    comparator: &Kernel,
    statements: &[Statement],
    key: ScalarId,
    element_type: ElementType,
) -> Option<(Kernel, Vec<usize>)> {
    let mut needed = FxHashSet::from_iter([key]);
    let mut kept: Vec<Statement> = Vec::new();
    let mut arrays: Vec<usize> = Vec::new();
    // The number of elements is not known here; 32 bits suffice for it, as for the sort's rows.
    let extent = Term::constant(i64::from(i32::MAX));
    let mut kernel = Kernel {
        scalars: comparator.scalars.clone(),
        ..Kernel::default()
    };
    let var = kernel.push_var(IndexVar::Domain(extent.clone()));
    kernel.domain.push(var);
    let param = |kernel: &mut Kernel, access, element_type| {
        kernel.params.push(Param {
            access,
            element_type,
            dims: vec![extent.clone()],
        });
        kernel.params.len() - 1
    };
    for statement in statements.iter().rev() {
        match statement {
            Statement::Compute {
                result, operands, ..
            } if needed.contains(result) => {
                needed.extend(operands);
                kept.push(statement.clone());
            }
            Statement::Load {
                result,
                param: from,
                ..
            } if needed.contains(result) => {
                let array = from / 2;
                let at = arrays.iter().position(|&a| a == array);
                let at = at.unwrap_or_else(|| {
                    arrays.push(array);
                    let ty = comparator.params[*from].element_type;
                    param(&mut kernel, Access::Read, ty)
                });
                kept.push(Statement::Load {
                    result: *result,
                    param: at,
                    index: vec![Term::var(var)],
                });
            }
            _ => {}
        }
    }
    kept.reverse();
    let to = param(&mut kernel, Access::Write, element_type);
    kept.push(Statement::Store {
        param: to,
        index: vec![Term::var(var)],
        value: key,
    });
    kernel.body.statements = kept;
    kernel.body.results = smallvec![];
    Some((kernel, arrays))
}
