//! The size of a result that is given only by its window: it extends to the end of the farthest
//! block of any grid point.

use super::{Arrays, Error, Made};
use crate::machine::scalar;
use crate::program::ScalarOperation;
use rustc_hash::FxHashMap;
use tegula_ir::Scalar;
use tegula_mosaic::ir::{Block, Constant, Kernel, Module, Op, Value, Window};

/// The maximum number of grid points that are visited.
const MOST_POINTS: i64 = 1 << 22;

/// The sizes of the array that a window belongs to.
pub(super) fn of(
    module: &Module,
    kernel: &Kernel,
    window: Option<&Window>,
    arrays: &Arrays,
) -> Made<Vec<i64>> {
    let window = window.ok_or_else(|| Error::new("an array of unknown sizes is not simulated"))?;
    let name = window.transform.as_deref().unwrap_or_default();
    let function = module.function(name);
    let function =
        function.ok_or_else(|| Error::new(format!("function `{name}` does not exist")))?;
    let mut inputs = arrays.values.iter();
    let mut grid = Vec::new();
    for size in &kernel.grid {
        let size = match size {
            Some(size) => Some(*size),
            // Without values a scalar counts as 0, as in the machine.
            None if arrays.values.is_empty() => Some(0),
            None => inputs
                .next()
                .and_then(|literal| integer(literal.scalar(0)?)),
        };
        grid.push(size.ok_or_else(unknown)?);
    }
    let points = grid
        .iter()
        .try_fold(1i64, |product, size| product.checked_mul(*size));
    if points.is_none_or(|points| points > MOST_POINTS) {
        return Err(Error::new(
            "the grid has too many points to find the size of a result",
        ));
    }
    let scalars: Vec<_> = inputs.collect();
    let rank = grid.len();
    let mut most = window.bounds.clone();
    let mut point = vec![0i64; rank];
    for _ in 0..points.unwrap_or(0) {
        let mut values: FxHashMap<Value, i64> = FxHashMap::default();
        for (value, index) in function.body.arguments.iter().zip(&point) {
            values.insert(*value, *index);
        }
        let indices = run(
            module,
            &function.body,
            &function.body.arguments[rank..],
            &scalars,
            values,
        );
        for ((most, index), size) in most
            .iter_mut()
            .zip(indices.ok_or_else(unknown)?)
            .zip(&window.bounds)
        {
            let end = match window.elements {
                Some(_) => index.saturating_add(*size),
                None => index.saturating_add(1).saturating_mul(*size),
            };
            *most = (*most).max(end);
        }
        for d in (0..rank).rev() {
            point[d] += 1;
            if point[d] < grid[d] {
                break;
            }
            point[d] = 0;
        }
    }
    Ok(most)
}

fn unknown() -> Error {
    Error::new(
        "the size of a result is not known: it depends on scalars; give the inputs (`--inputs`), or \
         the program around the kernel",
    )
}

fn integer(scalar: Scalar) -> Option<i64> {
    match scalar {
        Scalar::Int(value) => Some(value),
        Scalar::Uint(value) => i64::try_from(value).ok(),
        Scalar::Bool(value) => Some(i64::from(value)),
        _ => None,
    }
}

/// Evaluates a function of scalars; `None` if it does anything else.
fn run(
    module: &Module,
    body: &Block,
    memory: &[Value],
    scalars: &[&tegula_ir::Literal],
    mut values: FxHashMap<Value, i64>,
) -> Option<Vec<i64>> {
    let element = |value: Value| module.values[value].as_scalar();
    for operation in &body.operations {
        let operands: Option<Vec<i64>> = operation
            .operands
            .iter()
            .map(|value| values.get(value).copied())
            .collect();
        let first = operation.operands.first().copied();
        let result = operation.results.first().copied();
        let made = match &operation.op {
            Op::Return => return operands,
            Op::Constant(Constant::Splat(bits)) => {
                scalar::constant(element(result?)?, *bits).ok()?
            }
            Op::AssumeMultiple(_) => *operands?.first()?,
            Op::LoadScalar => {
                let place = memory.iter().position(|value| Some(*value) == first)?;
                let Some(literal) = scalars.get(place) else {
                    values.insert(result?, 0);
                    continue;
                };
                let dims = literal.shape().static_dims()?;
                let indices = operation.operands[1..]
                    .iter()
                    .map(|v| values.get(v).copied());
                let indices: Vec<i64> = indices.collect::<Option<_>>()?;
                let own = module.values[first?].as_memref()?.static_dims()?;
                let at = indices
                    .iter()
                    .zip(&own)
                    .fold(0, |at, (index, dim)| at * dim + index);
                let count: i64 = dims.iter().product();
                (0..count).contains(&at).then_some(())?;
                integer(literal.scalar(at as usize)?)?
            }
            op => {
                let own = first.and_then(element);
                let operation = match op {
                    Op::Binary(op) => ScalarOperation::Binary(*op, own?),
                    Op::Unary(op) => ScalarOperation::Unary(*op, own?),
                    Op::CompareInt(p) => ScalarOperation::CompareInt(*p, own?),
                    Op::Select => ScalarOperation::Select,
                    Op::Cast(cast) => ScalarOperation::Cast(*cast, own?, element(result?)?),
                    _ => return None,
                };
                scalar::evaluate(&operation, &operands?).ok()?
            }
        };
        values.insert(result?, made);
    }
    None
}
