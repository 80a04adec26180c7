//! Constant folding of floating-point tables.
//!
//! Operators compute tables (the source position of each element of a resized dimension, the
//! weights of a filter) in f64, with the same operations that compute data. If all sizes are known,
//! the tables are folded to constants here; with an open size, they are computed by instructions.

use super::value::{MAX_FOLLOWED, Source};
use super::{Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{ArrayShape, Direction, ElementType, Literal, Scalar};

/// The maximum number of data elements that are folded, so that large constants of a model are not
/// duplicated.
const MAX_FLOATS: usize = 64;

/// The maximum number of a table's elements that are folded.
const MAX_TABLE: usize = 1 << 16;

/// The maximum number of elements that are folded. Arrays of f64 are taken to be tables, and so are
/// `pred` arrays from comparisons of them.
pub(super) fn most_followed(ty: ElementType) -> usize {
    match ty {
        ElementType::F64 | ElementType::Pred => MAX_TABLE,
        _ => MAX_FOLLOWED,
    }
}

/// Folds an operation on known floats; `None` if they are not known, or too many.
pub(super) fn fold_floats(
    values: &[&Value],
    apply: &dyn Fn(&[f64]) -> Option<f64>,
) -> Result<Option<Value>> {
    let mut all = Vec::new();
    for value in values {
        let most = match value.ty {
            ElementType::F32 => MAX_FLOATS,
            ElementType::F64 => MAX_TABLE,
            _ => return Ok(None),
        };
        if value.literal().is_none_or(|literal| literal.len() > most) {
            return Ok(None);
        }
        all.push(value.floats().unwrap_or_default());
    }
    let (Some(first), Some(dims)) = (values.first(), values[0].static_dims()) else {
        return Ok(None);
    };
    let count = all.iter().map(Vec::len).min().unwrap_or(0);
    let folded: Option<Vec<f64>> = (0..count)
        .map(|at| apply(&all.iter().map(|list| list[at]).collect::<Vec<f64>>()))
        .collect();
    folded
        .map(|list| Value::of_floats(first.ty, &dims, &list))
        .transpose()
}

/// The elements of a table.
fn table(value: &Value) -> Option<Vec<f64>> {
    let is_table = value.ty == ElementType::F64
        && (value.literal()).is_some_and(|literal| literal.len() <= MAX_TABLE);
    is_table.then(|| value.floats()).flatten()
}

/// Folds a comparison of tables of the same shape.
pub(super) fn compare(direction: Direction, a: &Value, b: &Value) -> Result<Option<Value>> {
    let (Some(x), Some(y), Some(dims)) = (table(a), table(b), a.static_dims()) else {
        return Ok(None);
    };
    let holds = |(x, y): (&f64, &f64)| match direction {
        Direction::Eq => x == y,
        Direction::Ne => x != y,
        Direction::Lt => x < y,
        Direction::Le => x <= y,
        Direction::Gt => x > y,
        Direction::Ge => x >= y,
    };
    let truths = x.iter().zip(&y).map(holds).map(Scalar::Bool);
    let shape = ArrayShape::new(ElementType::Pred, &dims);
    let literal = Literal::from_scalars(&shape, truths)?;
    Ok(Some(Value::of_literal(literal)))
}

/// Folds a select between tables of the same shape.
pub(super) fn select(condition: &Value, a: &Value, b: &Value) -> Result<Option<Value>> {
    let (Some(x), Some(y), Some(dims)) = (table(a), table(b), a.static_dims()) else {
        return Ok(None);
    };
    let Some(truths) = condition.integers() else {
        return Ok(None);
    };
    let picked = truths.iter().zip(x.iter().zip(&y));
    let picked: Vec<f64> = picked
        .map(|(truth, (x, y))| if *truth != 0 { *x } else { *y })
        .collect();
    Ok(Some(Value::of_floats(a.ty, &dims, &picked)?))
}

impl Lowerer<'_> {
    /// The table 0, 1, 2, ... with this number of elements.
    pub(crate) fn places(&mut self, size: &Term) -> Result<Value> {
        let size = self.canonical(size);
        match size.as_constant().filter(|n| *n <= MAX_TABLE as i64) {
            Some(count) => {
                let list: Vec<f64> = (0..count).map(|at| at as f64).collect();
                Value::of_floats(ElementType::F64, &[list.len() as i64], &list)
            }
            None => self.iota(ElementType::F64, &[size], 0),
        }
    }

    /// A size as a table of one element.
    pub(crate) fn size_number(&mut self, size: &Term) -> Result<Value> {
        let size = self.of_terms(ElementType::S64, &[], std::slice::from_ref(size))?;
        self.convert(&size, ElementType::F64)
    }

    /// A table of one element.
    pub(crate) fn number(&self, value: f64) -> Result<Value> {
        self.scalar(ElementType::F64, value)
    }

    /// Whether the elements are known at compile time.
    pub(crate) fn is_known(&self, value: &Value) -> bool {
        !matches!(value.source, Source::Local(_))
    }

    /// Whether all elements are the same nonzero number.
    pub(crate) fn is_filled(&self, value: &Value) -> bool {
        let not_zero = |literal: &Literal| {
            let mut scalars = literal.scalars();
            scalars.all(|scalar| scalar.to_f64() != 0.0)
        };
        match &value.source {
            Source::Literal(literal) => literal.len() <= MAX_FOLLOWED && not_zero(literal),
            Source::Local(local) => match self.draft.instruction(*local) {
                (tegula_ir::Op::Broadcast(_), [operand]) => {
                    matches!(self.draft.instruction(*operand).0,
                        tegula_ir::Op::Constant(list) if list.iter().all(|l| l.len() == 1 && not_zero(l)))
                }
                _ => false,
            },
            Source::Terms(_) => false,
        }
    }
}
