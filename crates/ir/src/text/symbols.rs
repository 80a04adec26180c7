//! Chooses the symbols for sizes that the text leaves open (`?`, `<=n`).
//!
//! A size of an entry parameter gets its own symbol, `pN_dK`. Any other size is what the shape
//! function computes. If it computes none, the size gets a new symbol `NAME_dK`, which a later
//! analysis may prove equal to others.

use super::shape::unresolved;
use crate::{ArrayShape, Dim, InstructionId, Module, Op, Shape, Symbol};
use smallvec::SmallVec;
use tegula_expr::{Term, Var};

/// The upper bound of an open size that the text states no bound for. It ensures that products of
/// two sizes fit an `i64`; without it, hardly any index could be simplified. It is checked at run
/// time.
pub(crate) const MAX_SIZE: i64 = i32::MAX as i64;

/// Whether a shape has sizes that are not resolved yet.
pub(crate) fn is_open(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => array.dims.iter().any(is_open_dim),
        Shape::Tuple(elements) => elements.iter().any(is_open),
        Shape::Buffer(inner) => is_open(inner),
        Shape::Token | Shape::Opaque => false,
    }
}

fn is_open_dim(dim: &Dim) -> bool {
    match dim {
        Dim::Static(_) => false,
        Dim::Symbolic(term) | Dim::Bounded { size: term, .. } => *term == unresolved(),
    }
}

/// The names for new symbols.
pub(crate) struct Naming<'a> {
    pub(crate) instruction: &'a str,
    pub(crate) entry_parameter: Option<u32>,
}

/// The shape that the shape function computes. `None` for calls, whose result is in the callee's
/// symbols, which have no meaning for the caller.
pub(crate) fn infer_open(
    module: &Module,
    op: &Op,
    operands: &[InstructionId],
    stated: &Shape,
) -> Option<Shape> {
    if matches!(
        op,
        Op::Call { .. } | Op::Fusion { .. } | Op::Conditional { .. }
    ) {
        return None;
    }
    let shapes: SmallVec<[&Shape; 4]> = operands.iter().map(|&id| &module[id].shape).collect();
    crate::infer_shape(module, op, &shapes, Some(stated)).ok()
}

/// Gives the open sizes of a shape their symbols.
pub(crate) fn resolve(
    module: &mut Module,
    shape: &mut Shape,
    inferred: Option<&Shape>,
    naming: &Naming<'_>,
) {
    let mut leaf = 0;
    let leaves = shape.leaf_count();
    resolve_leaves(module, shape, inferred, &mut leaf, leaves, naming);
}

fn resolve_leaves(
    module: &mut Module,
    shape: &mut Shape,
    inferred: Option<&Shape>,
    leaf: &mut usize,
    leaves: usize,
    naming: &Naming<'_>,
) {
    match shape {
        Shape::Tuple(elements) => {
            let inferred = inferred.and_then(Shape::as_tuple).unwrap_or_default();
            for (index, element) in elements.iter_mut().enumerate() {
                resolve_leaves(module, element, inferred.get(index), leaf, leaves, naming);
            }
        }
        Shape::Buffer(inner) => resolve_leaves(module, inner, None, leaf, leaves, naming),
        Shape::Array(array) => {
            let part = match leaves {
                1 => String::new(),
                _ => format!("_e{leaf}"),
            };
            *leaf += 1;
            let prefix = match naming.entry_parameter {
                Some(number) => format!("p{number}{part}"),
                None => format!("{}{part}", naming.instruction),
            };
            resolve_array(module, array, inferred.and_then(Shape::as_array), &prefix);
        }
        Shape::Token | Shape::Opaque => *leaf += 1,
    }
}

fn resolve_array(
    module: &mut Module,
    array: &mut ArrayShape,
    inferred: Option<&ArrayShape>,
    prefix: &str,
) {
    let inferred = inferred.filter(|inferred| inferred.rank() == array.rank());
    for (index, dim) in array.dims.iter_mut().enumerate() {
        if !is_open_dim(dim) {
            continue;
        }
        let known = inferred.and_then(|inferred| inferred.dims.get(index));
        let known = known.filter(|known| !is_open_dim(known)).map(Dim::term);
        let upper = match dim {
            Dim::Bounded { bound, .. } => *bound,
            _ => MAX_SIZE,
        };
        let resolved = known.unwrap_or_else(|| fresh(module, format!("{prefix}_d{index}"), upper));
        match (&mut *dim, resolved.as_constant()) {
            (Dim::Symbolic(_), Some(size)) => *dim = Dim::Static(size),
            (Dim::Symbolic(term) | Dim::Bounded { size: term, .. }, _) => *term = resolved,
            (Dim::Static(_), _) => {}
        }
    }
}

fn fresh(module: &mut Module, name: String, upper: i64) -> Term {
    let number = u32::try_from(module.symbols.len()).unwrap_or(u32::MAX);
    module.symbols.push(Symbol {
        name: name.into(),
        lower: 0,
        upper,
    });
    Term::var(Var(number))
}

/// Replaces the sizes in the entry layout by those of the parameters and the root.
pub(crate) fn resolve_entry_layout(module: &mut Module) {
    let Some((mut parameters, mut result)) = module.attributes.entry_layout.take() else {
        return;
    };
    let entry = &module.computations[module.entry];
    for (stated, &id) in parameters.iter_mut().zip(&entry.parameters) {
        copy_sizes(stated, &module.instructions[id].shape);
    }
    copy_sizes(&mut result, &module.instructions[entry.root].shape);
    module.attributes.entry_layout = Some((parameters, result));
}

fn copy_sizes(stated: &mut Shape, actual: &Shape) {
    match (stated, actual) {
        (Shape::Array(stated), Shape::Array(actual)) if stated.rank() == actual.rank() => {
            for (stated, actual) in stated.dims.iter_mut().zip(&actual.dims) {
                if is_open_dim(stated) {
                    *stated = actual.clone();
                }
            }
        }
        (Shape::Tuple(stated), Shape::Tuple(actual)) => {
            for (stated, actual) in stated.iter_mut().zip(actual) {
                copy_sizes(stated, actual);
            }
        }
        (Shape::Buffer(stated), Shape::Buffer(actual)) => copy_sizes(stated, actual),
        _ => {}
    }
}

/// Whether a shape as read agrees with a resolved one. An open size agrees with any size, on either
/// side, and layouts are not compared.
pub(crate) fn agrees(stated: &Shape, actual: &Shape) -> bool {
    match (stated, actual) {
        (Shape::Array(stated), Shape::Array(actual)) => {
            let dims = stated.dims.iter().zip(&actual.dims);
            stated.element_type == actual.element_type
                && stated.rank() == actual.rank()
                && dims
                    .into_iter()
                    .all(|(s, a)| is_open_dim(s) || a.as_static().is_none() || s == a)
        }
        (Shape::Tuple(stated), Shape::Tuple(actual)) => {
            stated.len() == actual.len() && stated.iter().zip(actual).all(|(s, a)| agrees(s, a))
        }
        (Shape::Buffer(stated), Shape::Buffer(actual)) => agrees(stated, actual),
        (stated, actual) => stated == actual,
    }
}

/// Gives each open size of a shape without a module its own variable.
pub(crate) fn number_open(shape: &mut Shape, next: &mut u32) {
    match shape {
        Shape::Array(array) => {
            for dim in &mut array.dims {
                if !is_open_dim(dim) {
                    continue;
                }
                match dim {
                    Dim::Symbolic(term) | Dim::Bounded { size: term, .. } => {
                        *term = Term::var(Var(*next));
                    }
                    Dim::Static(_) => {}
                }
                *next = next.saturating_add(1);
            }
        }
        Shape::Tuple(elements) => elements.iter_mut().for_each(|e| number_open(e, next)),
        Shape::Buffer(inner) => number_open(inner, next),
        Shape::Token | Shape::Opaque => {}
    }
}
