//! Operators that change shapes, or make arrays of given shapes.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, MAX_FOLLOWED, Quantized, Result, Value, sizes};
use crate::tensor::element_type;
use std::sync::Arc;
use tegula_expr::Term;
use tegula_ir::{Direction, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "Shape" => shape,
        "Size" => size,
        "Reshape" => reshape,
        "Squeeze" => squeeze,
        "Unsqueeze" => unsqueeze,
        "Flatten" => flatten,
        "Transpose" => transpose,
        "Concat" => concat,
        "Split" => split,
        "Slice" => slice,
        "Pad" => pad,
        "CenterCropPad" => center_crop_pad,
        "Expand" => expand,
        "Tile" => tile,
        "Constant" => constant,
        "ConstantOfShape" => constant_of_shape,
        "Range" => range,
        "EyeLike" => eye_like,
        "Trilu" => trilu,
        "DepthToSpace" => depth_to_space,
        "SpaceToDepth" => space_to_depth,
        _ => return None,
    };
    Some(lowering)
}

/// The elements of an input that holds sizes, as terms.
pub(super) fn sizes_of(call: &Call<'_, '_>, at: usize) -> Result<Vec<Term>> {
    call.input(at)?.terms().ok_or_else(|| {
        Error::depends_on_data(at, format!(
            "input {at} holds sizes that depend on data: expected sizes that follow from those of \
             the inputs"
        ))
    })
}

fn constant_term(value: i64) -> Term {
    Term::constant(value)
}

fn shape<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let rank = x.rank() as i64;
    let bound = |name: &str, default: i64| {
        let at = call.int(name, default);
        let at = if at < 0 { at + rank } else { at };
        at.clamp(0, rank) as usize
    };
    let (start, end) = (bound("start", 0), bound("end", rank));
    one(lower.dims_value(x.dims.get(start..end).unwrap_or_default())?)
}

fn size<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let all = x.dims.iter().fold(Term::constant(1), |n, size| n.mul(size));
    one(lower.of_terms(ElementType::S64, &[], &[all])?)
}

fn reshape<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let wanted = match call.ints("shape") {
        Some(list) if call.version < 5 => sizes(&list),
        _ => sizes_of(call, 1)?,
    };
    let zero_copies = call.int("allowzero", 0) == 0;
    let mut dims = Vec::new();
    let mut rest = None;
    for (at, size) in wanted.iter().enumerate() {
        match size.as_constant() {
            Some(0) if zero_copies => {
                let own = x.dims.get(at).cloned();
                dims.push(
                    own.ok_or_else(|| Error::input(format!("dimension {at} is out of range")))?,
                );
            }
            Some(-1) if rest.is_some() => {
                return Err(Error::input("expected at most one size of -1"));
            }
            Some(-1) => {
                rest = Some(at);
                dims.push(Term::constant(1));
            }
            Some(size) if size < 0 => {
                return Err(Error::input(format!(
                    "the size {size} is invalid: expected -1 or more"
                )));
            }
            _ => dims.push(size.clone()),
        }
    }
    if let Some(at) = rest {
        dims[at] = rest_of(lower, &x.dims, &dims)?;
    }
    one(lower.reshape(&x, &dims)?)
}

/// The number of elements divided by the given sizes. Sizes on both sides cancel.
fn rest_of(lower: &Lowerer<'_>, from: &[Term], to: &[Term]) -> Result<Term> {
    let mut given: Vec<Term> = from.to_vec();
    let mut divisor = Vec::new();
    for size in to {
        match given.iter().position(|own| own == size) {
            Some(at) => {
                given.remove(at);
            }
            None => divisor.push(size.clone()),
        }
    }
    let product =
        |list: &[Term]| lower.canonical(&list.iter().fold(Term::constant(1), |n, s| n.mul(s)));
    let (given, divisor) = (product(&given), product(&divisor));
    match (given.as_constant(), divisor.as_constant()) {
        (_, Some(0)) => Ok(Term::constant(0)),
        (Some(a), Some(b)) if a % b != 0 => Err(Error::input(format!(
            "{a} elements cannot be divided into {b} parts"
        ))),
        _ => Ok(lower.canonical(&given.floor_div(&divisor))),
    }
}

/// Axes from an attribute or an input, sorted and counted from the beginning.
pub(super) fn axes(call: &Call<'_, '_>, at: usize, rank: usize) -> Result<Option<Vec<usize>>> {
    let Some(list) = call.ints_or_input("axes", at)? else {
        return Ok(None);
    };
    let places: Result<Vec<usize>> = list.iter().map(|axis| call.axis_of(*axis, rank)).collect();
    Ok(Some(places?))
}

fn squeeze<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axes = axes(call, 1, x.rank())?;
    let is_gone = |at: &usize| match &axes {
        Some(axes) => axes.contains(at),
        None => x.dims[*at].as_constant() == Some(1),
    };
    let dims: Vec<Term> = (0..x.rank())
        .filter(|at| !is_gone(at))
        .map(|at| x.dims[at].clone())
        .collect();
    one(lower.reshape(&x, &dims)?)
}

fn unsqueeze<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let list = call.ints_or_input("axes", 1)?.unwrap_or_default();
    let rank = x.rank() + list.len();
    let places: Result<Vec<usize>> = list.iter().map(|axis| call.axis_of(*axis, rank)).collect();
    let places = places?;
    let mut own = x.dims.iter().cloned();
    let dims: Vec<Term> = (0..rank)
        .map(|at| match places.contains(&at) {
            true => Term::constant(1),
            false => own.next().unwrap_or_else(|| constant_term(1)),
        })
        .collect();
    one(lower.reshape(&x, &dims)?)
}

fn flatten<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = call.int("axis", 1);
    let axis = if axis < 0 {
        axis + x.rank() as i64
    } else {
        axis
    };
    let axis = usize::try_from(axis).ok().filter(|axis| *axis <= x.rank());
    let axis = axis.ok_or_else(|| Error::input("`axis` is out of range"))?;
    let product = |dims: &[Term]| dims.iter().fold(Term::constant(1), |n, s| n.mul(s));
    let dims = [product(&x.dims[..axis]), product(&x.dims[axis..])];
    one(lower.reshape(&x, &dims)?)
}

fn transpose<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let order: Result<Vec<usize>> = match call.ints("perm") {
        Some(list) => list.iter().map(|at| call.axis_of(*at, x.rank())).collect(),
        None => Ok((0..x.rank()).rev().collect()),
    };
    let order = order?;
    let mut seen = order.clone();
    seen.sort_unstable();
    if !seen.iter().copied().eq(0..x.rank()) {
        return Err(Error::input(
            "expected a `perm` that names every dimension once",
        ));
    }
    let mut y = lower.transpose(&x, &order)?;
    if let Some(from) = &x.quantized {
        let quantized = Quantized {
            value: lower.transpose(&from.value, &order)?,
            axis: from
                .axis
                .and_then(|axis| order.iter().position(|at| *at == axis)),
            ..Quantized::clone(from)
        };
        y.quantized = Some(Arc::new(quantized));
    }
    one(y)
}

fn concat<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let values: Result<Vec<Value>> = (0..call.inputs.len()).map(|at| call.input(at)).collect();
    let values = values?;
    let axis = call.axis(1, values.first().map_or(0, Value::rank))?;
    one(lower.concat(&values, axis)?)
}

fn split<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = call.axis(0, x.rank())?;
    let parts = call.node.outputs.len().max(1);
    let lengths = match (
        call.optional(1).map(|_| sizes_of(call, 1)),
        call.ints("split"),
    ) {
        (Some(lengths), _) => lengths?,
        (None, Some(list)) => sizes(&list),
        (None, None) => {
            let parts = call.int("num_outputs", parts as i64).max(1);
            let whole = x.dims[axis].clone();
            let each = whole.ceil_div(&Term::constant(parts));
            let last = whole.sub(&each.mul(&Term::constant(parts - 1)));
            let mut lengths = vec![each; parts as usize];
            if let Some(end) = lengths.last_mut() {
                *end = last;
            }
            lengths
        }
    };
    let mut start = Term::constant(0);
    let mut results = Vec::new();
    for length in &lengths {
        let end = lower.canonical(&start.add(length));
        results.push(lower.slice(&x, axis, &start, &end, 1)?.into());
        start = end;
    }
    Ok(results)
}

fn slice<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut x = call.input(0)?;
    let list = |name: &str, at: usize| match call.ints(name) {
        Some(list) if call.version < 10 => Ok(Some(sizes(&list))),
        _ => call.optional(at).map(|_| sizes_of(call, at)).transpose(),
    };
    let missing = || Error::input("starts and ends are missing");
    let starts = list("starts", 1)?.ok_or_else(missing)?;
    let ends = list("ends", 2)?.ok_or_else(missing)?;
    let axes = match list("axes", 3)? {
        Some(axes) => axes,
        None => (0..starts.len() as i64).map(Term::constant).collect(),
    };
    let steps = list("steps", 4)?;
    for (place, axis) in axes.iter().enumerate() {
        let axis = axis
            .as_constant()
            .ok_or_else(|| Error::unsupported("axes must be known when the model is read"))?;
        let axis = call.axis_of(axis, x.rank())?;
        let step = steps.as_ref().and_then(|all| all.get(place));
        let step = step.map_or(Some(1), Term::as_constant);
        let step = step.filter(|step| *step != 0 && *step > i64::MIN);
        let step =
            step.ok_or_else(|| Error::unsupported("a step that is 0 or unknown is not supported"))?;
        let (Some(start), Some(end)) = (starts.get(place), ends.get(place)) else {
            return Err(missing());
        };
        let size = x.dims[axis].clone();
        if step > 0 {
            let zero = Term::constant(0);
            let start = clamped(lower, start, &size, &zero, &size);
            let end = clamped(lower, end, &size, &zero, &size);
            x = lower.slice(&x, axis, &start, &end, step)?;
        } else {
            // A negative stride takes elements of the reversed array.
            let last = size.sub(&Term::constant(1));
            let before = Term::constant(-1);
            let start = clamped(lower, start, &size, &Term::constant(0), &last);
            let end = clamped(lower, end, &size, &before, &last);
            let reversed = lower.reverse(&x, axis)?;
            let (start, end) = (last.sub(&start), last.sub(&end));
            x = lower.slice(&reversed, axis, &start, &end, -step)?;
        }
    }
    one(x)
}

/// A position, counted from the end if it is negative, clamped to the bounds.
fn clamped(lower: &Lowerer<'_>, place: &Term, size: &Term, low: &Term, high: &Term) -> Term {
    let range = lower.range(place);
    let moved = if range.upper < 0 {
        // Very negative positions are below any size.
        match place.as_constant() {
            Some(far) if far <= -1_000_000_000 => return low.clone(),
            _ => place.add(size),
        }
    } else if range.lower >= 0 {
        match place.as_constant() {
            // Exporters write such numbers for the end, which is below them in every dimension.
            Some(far) if far >= 1_000_000_000 => return high.clone(),
            _ => place.clone(),
        }
    } else {
        let negative = Term::cmp(tegula_expr::Cmp::Lt, place, &Term::constant(0));
        Term::select(&negative, &place.add(size), place)
    };
    lower.canonical(&Term::min(&Term::max(&moved, low), high))
}

fn pad<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let pads = match (
        call.ints("pads").or_else(|| call.ints("paddings")),
        call.version < 11,
    ) {
        (Some(list), true) => sizes(&list),
        _ => sizes_of(call, 1)?,
    };
    let axes: Vec<usize> = match call.optional(3).map(|v| v.integers()) {
        Some(Some(list)) => {
            let all: Result<Vec<usize>> = list.iter().map(|a| call.axis_of(*a, x.rank())).collect();
            all?
        }
        Some(None) => {
            return Err(Error::depends_on_data(
                3,
                "axes that are not constant are not supported",
            ));
        }
        None => (0..x.rank()).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(Error::input(format!(
            "expected {} amounts of padding, found {}",
            2 * axes.len(),
            pads.len()
        )));
    }
    let mut low = vec![Term::constant(0); x.rank()];
    let mut high = low.clone();
    for (place, axis) in axes.iter().enumerate() {
        low[*axis] = pads[place].clone();
        high[*axis] = pads[axes.len() + place].clone();
    }
    let mode = call.text("mode", "constant");
    if mode == "constant" {
        let fill = match call.optional(2) {
            Some(value) => lower.reshape(&value, &[])?,
            None => lower.like(&x, call.float("value", 0.0))?,
        };
        return one(lower.pad(&x, &fill, &low, &high)?);
    }
    let mut x = x;
    for axis in 0..x.rank() {
        x = pad_by_elements(lower, &x, axis, mode, &low[axis], &high[axis])?;
    }
    one(x)
}

/// Padding with elements of the array: each position of the result reads another position.
fn pad_by_elements(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axis: usize,
    mode: &str,
    low: &Term,
    high: &Term,
) -> Result<Value> {
    if low.as_constant() == Some(0) && high.as_constant() == Some(0) {
        return Ok(x.clone());
    }
    let size = x.dims[axis].clone();
    let count = lower.canonical(&size.add(low).add(high));
    let ty = ElementType::S64;
    let place = lower.iota(ty, &[count], 0)?;
    let scalar = |lower: &Lowerer<'_>, term: Term| lower.of_terms(ty, &[], &[term]);
    let low = scalar(lower, low.clone())?;
    let place = lower.sub(&place, &low)?;
    let last = scalar(lower, size.sub(&Term::constant(1)))?;
    let zero = scalar(lower, Term::constant(0))?;
    let place = match mode {
        "edge" => {
            let place = lower.max(&place, &zero)?;
            lower.min(&place, &last)?
        }
        "reflect" => {
            // A triangle wave of period 2 (size - 1).
            let period = Term::max(
                &size.sub(&Term::constant(1)).mul(&Term::constant(2)),
                &Term::constant(1),
            );
            let period = scalar(lower, period)?;
            let quotient = lower.floor_div(&place, &period)?;
            let whole = lower.mul(&quotient, &period)?;
            let place = lower.sub(&place, &whole)?;
            let back = lower.sub(&period, &place)?;
            let place = lower.min(&place, &back)?;
            lower.min(&place, &last)?
        }
        "wrap" => {
            let size = scalar(lower, size)?;
            let quotient = lower.floor_div(&place, &size)?;
            let whole = lower.mul(&quotient, &size)?;
            lower.sub(&place, &whole)?
        }
        other => {
            return Err(Error::unsupported(format!(
                "the padding mode `{other}` is not supported"
            )));
        }
    };
    lower.take(x, &place, axis)
}

/// Crops or pads each axis around its centre. An odd element that is cropped is at the end, and so
/// is an odd zero that is added.
fn center_crop_pad<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut x = call.input(0)?;
    let axes: Vec<usize> = match call.ints("axes") {
        Some(list) => {
            let axes = list.iter().map(|axis| call.axis_of(*axis, x.rank()));
            axes.collect::<Result<_>>()?
        }
        None => (0..x.rank()).collect(),
    };
    let wanted = sizes_of(call, 1)?;
    if wanted.len() != axes.len() {
        let (axes, sizes) = (axes.len(), wanted.len());
        return Err(Error::input(format!(
            "expected {axes} sizes, found {sizes}"
        )));
    }
    let two = constant_term(2);
    for (axis, wanted) in axes.into_iter().zip(wanted) {
        let own = x.dims[axis].clone();
        let excess = lower.canonical(&own.sub(&wanted));
        let range = lower.range(&excess);
        if range.lower >= 0 {
            let start = excess.floor_div(&two);
            x = lower.slice(&x, axis, &start, &start.add(&wanted), 1)?;
        } else if range.upper <= 0 {
            let zero = lower.like(&x, 0.0)?;
            let lacking = lower.canonical(&wanted.sub(&own));
            let mut low = vec![constant_term(0); x.rank()];
            let mut high = low.clone();
            low[axis] = lower.canonical(&lacking.floor_div(&two));
            high[axis] = lower.canonical(&lacking.sub(&low[axis]));
            x = lower.pad(&x, &zero, &low, &high)?;
        } else {
            return Err(Error::unsupported(format!(
                "axis {axis} may be longer or shorter than the requested size, because its size is unknown"
            )));
        }
    }
    one(x)
}

fn expand<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let dims = lower.common_dims(&x.dims, &sizes_of(call, 1)?)?;
    one(lower.broadcast_to(&x, &dims)?)
}

fn tile<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let repeats = sizes_of(call, 1)?;
    if repeats.len() != x.rank() {
        return Err(Error::input(format!("expected {} repeats", x.rank())));
    }
    // Each dimension is preceded by a dimension for its repeats.
    let mut wide = Vec::new();
    let mut whole = Vec::new();
    let mut places = Vec::new();
    for (size, count) in x.dims.iter().zip(&repeats) {
        wide.push(count.clone());
        places.push(wide.len());
        wide.push(size.clone());
        whole.push(size.mul(count));
    }
    let repeated = lower.broadcast_in(&x, &places, &wide)?;
    one(lower.reshape(&repeated, &whole)?)
}

fn constant<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    for attribute in &call.attributes {
        let value = match attribute.name {
            "value" => match &attribute.tensor {
                Some(tensor) => lower.constant_of(tensor)?,
                None => continue,
            },
            "sparse_value" => match &attribute.sparse {
                Some(sparse) => lower.dense(sparse)?,
                None => continue,
            },
            "value_float" => {
                let value = attribute.float.unwrap_or_default();
                Value::of_floats(ElementType::F32, &[], &[value.into()])?
            }
            "value_floats" => {
                let list: Vec<f64> = attribute.floats.iter().map(|x| f64::from(*x)).collect();
                Value::of_floats(ElementType::F32, &[list.len() as i64], &list)?
            }
            "value_int" => {
                let value = attribute.int.unwrap_or_default();
                Value::of_integers(ElementType::S64, &[], &[value])?
            }
            "value_ints" => {
                let list = &attribute.ints;
                Value::of_integers(ElementType::S64, &[list.len() as i64], list)?
            }
            _ => return Err(Error::unsupported("string constants are not supported")),
        };
        return one(value);
    }
    Err(Error::input("expected a value for the constant"))
}

fn constant_of_shape<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let dims = sizes_of(call, 0)?;
    let value = match call.attribute("value").and_then(|a| a.tensor.as_ref()) {
        Some(tensor) => {
            let value = lower.constant_of(tensor)?;
            lower.reshape(&value, &[])?
        }
        None => lower.scalar(ElementType::F32, 0.0)?,
    };
    one(lower.broadcast_to(&value, &dims)?)
}

fn range<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (start, limit, delta) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let known = (start.floats(), limit.floats(), delta.floats());
    if [&start, &limit, &delta]
        .iter()
        .any(|v| v.count() != Some(1))
    {
        return Err(Error::input(
            "expected a start, a limit and a step of one number each",
        ));
    }
    let ty = start.ty;
    let count = match (start.terms(), limit.terms(), delta.integers(), known) {
        (Some(from), Some(to), Some(step), _) if ty.is_integer() => match step.as_slice() {
            [step] if *step > 0 => to[0].sub(&from[0]).ceil_div(&Term::constant(*step)),
            [step] if *step < 0 && *step > i64::MIN => {
                from[0].sub(&to[0]).ceil_div(&Term::constant(-step))
            }
            _ => return Err(Error::input("expected a step that is not 0")),
        },
        (_, _, _, (Some(from), Some(to), Some(step))) => {
            let count = ((to[0] - from[0]) / step[0]).ceil().max(0.0);
            Term::constant(count as i64)
        }
        _ => {
            let is_known = |at: &usize| {
                let input = call.input(*at);
                input.is_ok_and(|value| value.terms().is_some() || value.literal().is_some())
            };
            let at = (0..3).find(|at| !is_known(at)).unwrap_or(2);
            return Err(Error::depends_on_data(
                at,
                "the number of elements depends on data: expected bounds that follow from sizes",
            ));
        }
    };
    let count = Term::max(&lower.canonical(&count), &Term::constant(0));
    // A short list of integers that are terms over sizes stays known.
    if let (Some(count @ 0..), Some(from), Some(step)) =
        (count.as_constant(), start.terms(), delta.terms())
        && count <= MAX_FOLLOWED as i64
    {
        let place = |at| from[0].add(&step[0].mul(&Term::constant(at)));
        let terms: Vec<Term> = (0..count).map(place).collect();
        return one(lower.of_terms(ty, &[count], &terms)?);
    }
    let places = lower.iota(ty, &[count], 0)?;
    let (start, delta) = (lower.reshape(&start, &[])?, lower.reshape(&delta, &[])?);
    let steps = lower.mul(&places, &delta)?;
    one(lower.add(&steps, &start)?)
}

fn eye_like<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let ty = match call.attribute("dtype").and_then(|a| a.int) {
        Some(number) => element_type(number)?,
        None => x.ty,
    };
    let (rows, columns) = rows_and_columns(lower, &x.dims)?;
    let rows = lower.shifted(&rows, call.int("k", 0) as f64)?;
    let on = lower.compare(Direction::Eq, &rows, &columns)?;
    one(lower.convert(&on, ty)?)
}

/// The indices of each element in the last two dimensions.
fn rows_and_columns(lower: &mut Lowerer<'_>, dims: &[Term]) -> Result<(Value, Value)> {
    if dims.len() < 2 {
        return Err(Error::input("expected at least two dimensions"));
    }
    let last = &dims[dims.len() - 2..];
    let rows = lower.iota(ElementType::S64, last, 0)?;
    Ok((rows, lower.iota(ElementType::S64, last, 1)?))
}

fn trilu<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let (rows, columns) = rows_and_columns(lower, &x.dims)?;
    let rows = match call.optional(1) {
        Some(k) => {
            let k = lower.reshape(&k, &[])?;
            lower.add(&rows, &k)?
        }
        None => rows,
    };
    let direction = match call.int("upper", 1) != 0 {
        true => Direction::Le,
        false => Direction::Ge,
    };
    let kept = lower.compare(direction, &rows, &columns)?;
    let zero = lower.like(&x, 0.0)?;
    one(lower.select(&kept, &x, &zero)?)
}

/// An image of batch, channels, height and width, and the block size.
fn image(call: &Call<'_, '_>) -> Result<(Value, Term)> {
    let x = call.input(0)?;
    let block = call.int("blocksize", 0);
    if x.rank() != 4 || block < 1 {
        return Err(Error::input("expected four dimensions and a `blocksize`"));
    }
    Ok((x, Term::constant(block)))
}

fn depth_to_space<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, block) = image(call)?;
    let [n, c, h, w] = [0, 1, 2, 3].map(|at| x.dims[at].clone());
    let depth = c.floor_div(&block.mul(&block));
    let (dims, order) = match call.text("mode", "DCR") {
        "DCR" => (
            [
                n.clone(),
                block.clone(),
                block.clone(),
                depth.clone(),
                h.clone(),
                w.clone(),
            ],
            [0, 3, 4, 1, 5, 2],
        ),
        _ => (
            [
                n.clone(),
                depth.clone(),
                block.clone(),
                block.clone(),
                h.clone(),
                w.clone(),
            ],
            [0, 1, 4, 2, 5, 3],
        ),
    };
    let parts = lower.reshape(&x, &dims)?;
    let moved = lower.transpose(&parts, &order)?;
    one(lower.reshape(&moved, &[n, depth, h.mul(&block), w.mul(&block)])?)
}

fn space_to_depth<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, block) = image(call)?;
    let [n, c, h, w] = [0, 1, 2, 3].map(|at| x.dims[at].clone());
    let (h, w) = (h.floor_div(&block), w.floor_div(&block));
    let dims = [
        n.clone(),
        c.clone(),
        h.clone(),
        block.clone(),
        w.clone(),
        block.clone(),
    ];
    let parts = lower.reshape(&x, &dims)?;
    let order = match call.text("mode", "DCR") {
        "CRD" => [0, 1, 3, 5, 2, 4],
        _ => [0, 3, 5, 1, 2, 4],
    };
    let moved = lower.transpose(&parts, &order)?;
    one(lower.reshape(&moved, &[n, c.mul(&block).mul(&block), h, w])?)
}
