//! Operators that read or write at given indices.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "Gather" => gather,
        "GatherElements" => gather_elements,
        "GatherND" => gather_nd,
        "ScatterElements" | "Scatter" => scatter_elements,
        "ScatterND" => scatter_nd,
        "OneHot" => one_hot,
        "ReverseSequence" => reverse_sequence,
        "TensorScatter" => tensor_scatter,
        _ => return None,
    };
    Some(lowering)
}

fn gather<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(0, x.rank())?;
    let indices = known_indices(lower, &indices, &x.dims[axis])?;
    one(lower.take(&x, &indices, axis)?)
}

/// Converts negative indices to count from the beginning; the result is constant if the indices and
/// the size are.
fn known_indices(lower: &mut Lowerer<'_>, indices: &Value, size: &Term) -> Result<Value> {
    lower.counted_indices(indices, size)
}

fn gather_elements<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(0, x.rank())?;
    let whole = lower.whole_index(&x, &indices, axis)?;
    one(lower.gather_nd(&x, &whole, 0)?)
}

fn gather_nd<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let batch = usize::try_from(call.int("batch_dims", 0));
    let batch = batch.map_err(|_| Error::input("expected a non-negative `batch_dims`"))?;
    one(lower.gather_nd(&x, &indices, batch)?)
}

/// The operation that combines an update with the existing element.
fn combination(call: &Call<'_, '_>) -> Result<Option<Binary>> {
    Ok(match call.text("reduction", "none") {
        "none" => None,
        "add" => Some(Binary::Add),
        "mul" => Some(Binary::Multiply),
        "max" => Some(Binary::Maximum),
        "min" => Some(Binary::Minimum),
        other => {
            return Err(Error::input(format!(
                "`reduction` is `{other}`: expected none, add, mul, max or min"
            )));
        }
    })
}

fn scatter_elements<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axis = call.axis(0, x.rank())?;
    let whole = lower.whole_index(&x, &indices, axis)?;
    one(lower.scatter_nd(&x, &whole, &updates, combination(call)?)?)
}

fn scatter_nd<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    one(lower.scatter_nd(&x, &indices, &updates, combination(call)?)?)
}

fn one_hot<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let depth = call.input(1)?;
    let depth = lower.convert(&depth, ElementType::S64)?;
    let depth = depth.terms().and_then(|list| list.into_iter().next());
    let depth = depth.ok_or_else(|| {
        Error::depends_on_data(
            1,
            "the depth depends on data: expected one that follows from sizes",
        )
    })?;
    let axis = call.axis(-1, indices.rank() + 1)?;
    let indices = lower.convert(&indices, ElementType::S64)?;
    let indices = lower.counted_indices(&indices, &depth)?;
    let indices = lower.unsqueeze(&indices, axis)?;
    let mut dims = indices.dims.clone();
    dims[axis] = depth;
    let places = lower.iota(ElementType::S64, &dims, axis)?;
    let hot = lower.compare(Direction::Eq, &indices, &places)?;
    let value = |lower: &mut Lowerer<'_>, at: i64| -> Result<Value> {
        let (from, to) = (Term::constant(at), Term::constant(at + 1));
        let part = lower.slice(&values, 0, &from, &to, 1)?;
        lower.reshape(&part, &[])
    };
    let (off, on) = (value(lower, 0)?, value(lower, 1)?);
    one(lower.select(&hot, &on, &off)?)
}

fn reverse_sequence<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let time = call.axis_of(call.int("time_axis", 0), x.rank())?;
    let batch = call.axis_of(call.int("batch_axis", 1), x.rank())?;
    let lengths = lower.convert(&lengths, ElementType::S64)?;
    one(reversed_sequences(lower, &x, &lengths, time, batch)?)
}

/// Reverses the first elements of each row of a batch, as many as the row's length.
pub(super) fn reversed_sequences(
    lower: &mut Lowerer<'_>,
    x: &Value,
    lengths: &Value,
    time: usize,
    batch: usize,
) -> Result<Value> {
    let place = lower.iota(ElementType::S64, &x.dims, time)?;
    let lengths = lower.broadcast_in(lengths, &[batch], &x.dims)?;
    let inside = lower.compare(Direction::Lt, &place, &lengths)?;
    let last = lower.shifted(&lengths, -1.0)?;
    let mirrored = lower.sub(&last, &place)?;
    let from = lower.select(&inside, &mirrored, &place)?;
    let whole = lower.whole_index(x, &from, time)?;
    lower.gather_nd(x, &whole, 0)
}

/// Writes slices into a cache, at each batch row's own position; in a circular cache, they wrap
/// around at the end.
fn tensor_scatter<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (cache, update) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(-2, cache.rank())?;
    if update.rank() != cache.rank() || axis == 0 {
        return Err(Error::input(
            "expected a cache and an update of one rank, with a batch",
        ));
    }
    let mut place = lower.iota(ElementType::S64, &update.dims, axis)?;
    if let Some(start) = call.optional(2) {
        let start = lower.convert(&start, ElementType::S64)?;
        let start = lower.broadcast_in(&start, &[0], &update.dims)?;
        place = lower.add(&place, &start)?;
    }
    match call.text("mode", "linear") {
        "linear" => {}
        "circular" => {
            let size = lower.of_terms(ElementType::S64, &[], &[cache.dims[axis].clone()])?;
            place = lower.binary(Binary::Remainder, &place, &size)?;
        }
        other => {
            return Err(Error::input(format!(
                "`mode` is `{other}`: expected linear or circular"
            )));
        }
    }
    let whole = lower.whole_index(&cache, &place, axis)?;
    one(lower.scatter_nd(&cache, &whole, &update, None)?)
}
