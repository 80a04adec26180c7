//! Operators that find elements, whose number depends on data.
//!
//! Each computes a list of the maximum length, and the number of elements found. The program is
//! split there (see `lower::cut`), and continues with a list of that length.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "NonZero" => non_zero,
        "Compress" => compress,
        "Unique" => unique,
        "NonMaxSuppression" => non_max_suppression,
        _ => return None,
    };
    Some(lowering)
}

const PLACE: ElementType = ElementType::S64;

/// The indices at which a list is true, in order and followed by other indices, and their number.
fn places_of(lower: &mut Lowerer<'_>, truths: &Value) -> Result<(Value, Value)> {
    let ones = lower.convert(truths, PLACE)?;
    let count = lower.reduce(&ones, Fold::Sum, &[0], false)?;
    // Indices at which the list is false are sorted last, because the length is added to their
    // keys.
    let place = lower.iota(PLACE, &truths.dims, 0)?;
    let length = lower.of_terms(PLACE, &[], &[truths.dims[0].clone()])?;
    let behind = lower.add(&place, &length)?;
    let key = lower.select(truths, &place, &behind)?;
    let (sorted, _) = lower.sort(&key, 0, false)?;
    Ok((sorted, count))
}

/// The value reshaped to one dimension.
fn flat(lower: &mut Lowerer<'_>, x: &Value) -> Result<Value> {
    let all = x.dims.iter().fold(Term::constant(1), |n, size| n.mul(size));
    lower.reshape(x, &[all])
}

fn non_zero<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    if lower.is_filled(&x) {
        // The result is all indices, in order, whatever the data.
        let all = x.dims.iter().fold(Term::constant(1), |n, size| n.mul(size));
        let all = lower.canonical(&all);
        let place = lower.iota(PLACE, &[all], 0)?;
        return one(indices_of(lower, &place, &x.dims)?);
    }
    let zero = lower.like(&x, 0.0)?;
    let truths = lower.compare(Direction::Ne, &x, &zero)?;
    let truths = flat(lower, &truths)?;
    let (places, count) = places_of(lower, &truths)?;
    let (sizes, keep) = lower.sizes_from_data(&[count], &[places])?;
    let places = lower.first_of(&keep[0], &sizes[0])?;
    one(indices_of(lower, &places, &x.dims)?)
}

/// Converts flat positions to index vectors: a row for each dimension.
fn indices_of(lower: &mut Lowerer<'_>, places: &Value, dims: &[Term]) -> Result<Value> {
    let mut rest = places.clone();
    let mut rows = Vec::new();
    for size in dims.iter().rev() {
        let size = lower.of_terms(PLACE, &[], std::slice::from_ref(size))?;
        // Positions are not negative, so division rounds down.
        let row = lower.binary(Binary::Remainder, &rest, &size)?;
        rest = lower.div(&rest, &size)?;
        rows.push(lower.unsqueeze(&row, 0)?);
    }
    rows.reverse();
    match rows.is_empty() {
        true => {
            let none = [Term::constant(0), places.dims[0].clone()];
            lower.splat(PLACE, 0.0, &none)
        }
        false => lower.concat(&rows, 0),
    }
}

fn compress<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (mut x, condition) = (call.input(0)?, call.input(1)?);
    let axis = match call.attribute("axis") {
        Some(_) => call.axis(0, x.rank())?,
        None => {
            x = flat(lower, &x)?;
            0
        }
    };
    let condition = lower.convert(&condition, ElementType::Pred)?;
    if let Some(known) = condition.integers() {
        let places = (0..).zip(known).filter(|(_, truth)| *truth != 0);
        let places: Vec<i64> = places.map(|(at, _)| at).collect();
        let places = Value::of_integers(PLACE, &[places.len() as i64], &places)?;
        return one(lower.take(&x, &places, axis)?);
    }
    let (places, count) = places_of(lower, &condition)?;
    let (sizes, keep) = lower.sizes_from_data(&[count], &[places])?;
    let places = lower.first_of(&keep[0], &sizes[0])?;
    one(lower.take(&x, &places, axis)?)
}

/// The maximum number of elements of a slice that is compared as a whole.
const MAX_KEYS: i64 = 256;

fn unique<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let sorted = call.int("sorted", 1) != 0;
    let axis = match call.attribute("axis") {
        Some(_) => Some(call.axis(0, x.rank())?),
        None => None,
    };
    let keys = match axis {
        None => vec![flat(lower, &x)?],
        Some(axis) => slices_of(lower, &x, axis)?,
    };
    let length = keys[0].dims[0].clone();
    let (ordered, places) = lower.sort_by_keys(&keys)?;
    // A new group of equal elements begins where an element differs from its predecessor.
    let place = lower.iota(PLACE, std::slice::from_ref(&length), 0)?;
    let zero = lower.like(&place, 0.0)?;
    let mut begins = lower.compare(Direction::Eq, &place, &zero)?;
    let before = lower.shifted(&place, -1.0)?;
    let before = lower.max(&before, &zero)?;
    for key in &ordered {
        let other = lower.take(key, &before, 0)?;
        let differs = lower.compare(Direction::Ne, key, &other)?;
        begins = lower.binary(Binary::Or, &begins, &differs)?;
    }
    let ones = lower.convert(&begins, PLACE)?;
    let group = lower.running(&ones, 0, Fold::Sum)?;
    let group = lower.shifted(&group, -1.0)?;
    let zeros = lower.splat(PLACE, 0.0, std::slice::from_ref(&length))?;
    let column = lower.unsqueeze(&places, 1)?;
    let inverse = lower.scatter_nd(&zeros, &column, &group, None)?;
    let (firsts, count) = places_of(lower, &begins)?;
    let (sizes, keep) = lower.sizes_from_data(&[count], &[firsts, places, inverse])?;
    let count = &sizes[0];
    let (firsts, places, mut inverse) = (
        lower.first_of(&keep[0], count)?,
        keep[1].clone(),
        keep[2].clone(),
    );
    // The sort is stable, so the first of equal elements is the first in the array.
    let mut first = lower.take(&places, &firsts, 0)?;
    let end = lower.of_terms(PLACE, &[1], std::slice::from_ref(&length))?;
    let next = lower.concat(&[firsts.clone(), end], 0)?;
    let one = Term::constant(1);
    let next = lower.slice(&next, 0, &one, &count.add(&one), 1)?;
    let mut counts = lower.sub(&next, &firsts)?;
    if !sorted {
        let (in_order, by_first) = lower.sort(&first, 0, false)?;
        first = in_order;
        counts = lower.take(&counts, &by_first, 0)?;
        let (_, rank) = lower.sort(&by_first, 0, false)?;
        inverse = lower.take(&rank, &inverse, 0)?;
    }
    let y = match axis {
        None => {
            let all = flat(lower, &x)?;
            lower.take(&all, &first, 0)?
        }
        Some(axis) => lower.take(&x, &first, axis)?,
    };
    Ok(vec![y.into(), first.into(), inverse.into(), counts.into()])
}

/// A list for each position in a slice: the elements of all slices at this position.
fn slices_of(lower: &mut Lowerer<'_>, x: &Value, axis: usize) -> Result<Vec<Value>> {
    let mut order: Vec<usize> = (0..x.rank()).filter(|at| *at != axis).collect();
    let rest = order
        .iter()
        .fold(Term::constant(1), |n, at| n.mul(&x.dims[*at]));
    let rest = lower.canonical(&rest);
    order.push(axis);
    let count = rest.as_constant().filter(|n| (1..=MAX_KEYS).contains(n));
    let count = count.ok_or_else(|| {
        Error::unsupported(format!(
            "only slices with a known number of elements, from 1 to {MAX_KEYS}, are supported"
        ))
    })?;
    let moved = lower.transpose(x, &order)?;
    let rows = lower.reshape(&moved, &[rest, x.dims[axis].clone()])?;
    let mut keys = Vec::new();
    for at in 0..count {
        let row = lower.slice(&rows, 0, &Term::constant(at), &Term::constant(at + 1), 1)?;
        keys.push(lower.squeeze(&row, 0)?);
    }
    Ok(keys)
}

/// The lower and the upper edges of boxes in one dimension.
fn edges(
    lower: &mut Lowerer<'_>,
    boxes: &Value,
    dimension: i64,
    centred: bool,
) -> Result<(Value, Value)> {
    let last = boxes.rank() - 1;
    let column = |lower: &mut Lowerer<'_>, at: i64| -> Result<Value> {
        let (from, to) = (Term::constant(at), Term::constant(at + 1));
        let part = lower.slice(boxes, last, &from, &to, 1)?;
        lower.squeeze(&part, last)
    };
    if centred {
        let (centre, size) = (column(lower, dimension)?, column(lower, 2 + dimension)?);
        let half = lower.scaled(&size, 0.5)?;
        return Ok((lower.sub(&centre, &half)?, lower.add(&centre, &half)?));
    }
    let (a, b) = (column(lower, dimension)?, column(lower, 2 + dimension)?);
    Ok((lower.min(&a, &b)?, lower.max(&a, &b)?))
}

/// Repeatedly picks the best remaining box of each batch and class, and drops those that overlap it
/// too much.
fn non_max_suppression<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    if boxes.rank() != 3 || scores.rank() != 3 {
        return Err(Error::input(
            "expected [batch, boxes, 4] and [batch, classes, boxes]",
        ));
    }
    let scalar = |lower: &mut Lowerer<'a>, at: usize, ty, default: f64| -> Result<Value> {
        match call.optional(at).filter(|value| value.count() != Some(0)) {
            Some(value) => {
                let value = lower.reshape(&value, &[])?;
                lower.convert(&value, ty)
            }
            None => lower.scalar(ty, default),
        }
    };
    let most = scalar(lower, 2, PLACE, 0.0)?;
    let overlap = scalar(lower, 3, boxes.ty, 0.0)?;
    let centred = call.int("center_point_box", 0) != 0;
    let count = scores.dims[2].clone();
    let boxes = lower.at_least_one(&boxes, 1)?;
    let (top, bottom) = edges(lower, &boxes, 0, centred)?;
    let (left, right) = edges(lower, &boxes, 1, centred)?;
    let (height, width) = (lower.sub(&bottom, &top)?, lower.sub(&right, &left)?);
    let area = lower.mul(&height, &width)?;
    let lists = scores.dims.clone();
    let mut candidates = lower.splat(ElementType::Pred, 1.0, &lists)?;
    if call
        .optional(4)
        .is_some_and(|value| value.count() != Some(0))
    {
        let threshold = scalar(lower, 4, scores.ty, 0.0)?;
        candidates = lower.compare(Direction::Gt, &scores, &threshold)?;
    }
    // No more picks than there are boxes.
    let limit = lower.of_terms(PLACE, &[], std::slice::from_ref(&count))?;
    let most = lower.min(&most, &limit)?;
    let scores = lower.at_least_one(&scores, 2)?;
    let candidates = lower.at_least_one(&candidates, 2)?;
    let [batch, classes, count] = [0, 1, 2].map(|at| scores.dims[at].clone());
    let picked = lower.splat(PLACE, -1.0, &scores.dims)?;
    let time = lower.scalar(PLACE, 0.0)?;
    let left_over = any(lower, &candidates)?;
    let state = [
        time, most, left_over, candidates, picked, scores, overlap, top, bottom, left, right, area,
    ];
    let state: Result<Vec<Value>> = state.iter().map(|value| lower.settled(value)).collect();
    let done = lower.while_loop(
        &state?,
        |lower, state| {
            let more = lower.compare(Direction::Lt, &state[0], &state[1])?;
            lower.binary(Binary::And, &more, &state[2])
        },
        |lower, state| pick(lower, state),
    )?;
    let picked = &done[4];
    // Batch, class and box index of each pick, in the order of the array.
    let zero = lower.like(picked, 0.0)?;
    let truths = lower.compare(Direction::Ge, picked, &zero)?;
    let truths = flat(lower, &truths)?;
    let (places, found) = places_of(lower, &truths)?;
    let flat_picks = flat(lower, picked)?;
    let (sizes, keep) = lower.sizes_from_data(&[found], &[places, flat_picks])?;
    let places = lower.first_of(&keep[0], &sizes[0])?;
    let chosen = lower.take(&keep[1], &places, 0)?;
    let rows = indices_of(lower, &places, &[batch, classes, count])?;
    let heads = lower.slice(&rows, 0, &Term::constant(0), &Term::constant(2), 1)?;
    let chosen = lower.unsqueeze(&chosen, 0)?;
    let rows = lower.concat(&[heads, chosen], 0)?;
    one(lower.transpose(&rows, &[1, 0])?)
}

fn any(lower: &mut Lowerer<'_>, truths: &Value) -> Result<Value> {
    let all = flat(lower, truths)?;
    lower.reduce(&all, Fold::Max, &[0], false)
}

/// Picks one box for each batch and class.
fn pick(lower: &mut Lowerer<'_>, state: &[Value]) -> Result<Vec<Value>> {
    let [
        time,
        _,
        _,
        candidates,
        picked,
        scores,
        overlap,
        top,
        bottom,
        left,
        right,
        area,
    ] = state
    else {
        return Err(Error::input("expected a loop state of twelve values"));
    };
    let least = lower.extreme(scores.ty, false)?;
    let open = lower.select(candidates, scores, &least)?;
    // The first box of the highest score. Only candidates count, even if all scores are the
    // smallest number.
    let best = lower.reduce(&open, Fold::Max, &[2], true)?;
    let is_best = lower.compare(Direction::Eq, &open, &best)?;
    let is_best = lower.binary(Binary::And, &is_best, candidates)?;
    let place = lower.iota(PLACE, &scores.dims, 2)?;
    let none = Value::of_integers(PLACE, &[], &[i64::MAX])?;
    let marked = lower.select(&is_best, &place, &none)?;
    let chosen = lower.reduce(&marked, Fold::Min, &[2], false)?;
    let exists = lower.compare(Direction::Ne, &chosen, &none)?;
    let zero = lower.like(&chosen, 0.0)?;
    let safe = lower.select(&exists, &chosen, &zero)?;
    // [batch, classes]: the edges and area of the picked box, to be compared with those of all
    // boxes.
    let mut sides = Vec::new();
    for edge in [top, bottom, left, right, area] {
        let index = lower.unsqueeze(&safe, 2)?;
        let own = lower.gather_nd(edge, &index, 1)?;
        let own = lower.unsqueeze(&own, 2)?;
        let all = lower.unsqueeze(edge, 1)?;
        sides.push((own, all));
    }
    let from_top = lower.max(&sides[0].0, &sides[0].1)?;
    let to_bottom = lower.min(&sides[1].0, &sides[1].1)?;
    let from_left = lower.max(&sides[2].0, &sides[2].1)?;
    let to_right = lower.min(&sides[3].0, &sides[3].1)?;
    let (high, wide) = (
        lower.sub(&to_bottom, &from_top)?,
        lower.sub(&to_right, &from_left)?,
    );
    let nothing = lower.like(&high, 0.0)?;
    let (high, wide) = (lower.max(&high, &nothing)?, lower.max(&wide, &nothing)?);
    let common = lower.mul(&high, &wide)?;
    let both = lower.add(&sides[4].0, &sides[4].1)?;
    let union = lower.sub(&both, &common)?;
    let ratio = lower.div(&common, &union)?;
    let too_near = lower.compare(Direction::Gt, &ratio, overlap)?;
    let chosen_column = lower.unsqueeze(&safe, 2)?;
    let is_itself = lower.compare(Direction::Eq, &place, &chosen_column)?;
    let dropped = lower.binary(Binary::Or, &too_near, &is_itself)?;
    let stays = lower.unary(Unary::Not, &dropped)?;
    let candidates = lower.binary(Binary::And, candidates, &stays)?;
    let minus = lower.like(&chosen, -1.0)?;
    let row = lower.select(&exists, &chosen, &minus)?;
    let picked = lower.with_row(picked, 2, time, &row)?;
    let left_over = any(lower, &candidates)?;
    let mut next = vec![
        lower.shifted(time, 1.0)?,
        state[1].clone(),
        left_over,
        candidates,
        picked,
    ];
    next.extend_from_slice(&state[5..]);
    Ok(next)
}
