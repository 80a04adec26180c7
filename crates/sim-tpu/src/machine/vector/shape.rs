//! Operations that move elements, and reductions.

use super::elementwise::{maximum, minimum};
use super::value::{Lanes, PADDING, Vector, rounded, unsigned, wrap};
use std::sync::Arc;
use tegula_mosaic::ir::Reduction;
use tegula_mosaic::types::Element;

type Made = Result<Vector, String>;

/// The row-major strides of a shape, in elements.
pub(super) fn strides(dims: &[i64]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d].max(0) as usize;
    }
    strides
}

pub(super) fn count(dims: &[i64]) -> usize {
    dims.iter().map(|d| (*d).max(0) as usize).product()
}

/// Applies the same movement to the numbers and to their marks.
fn moved(x: &Vector, f: &dyn Fn(&dyn Source) -> Moved) -> Vector {
    let lanes = match &*x.lanes {
        Lanes::Float(values) => match f(&values.as_slice()) {
            Moved::Float(values) => Lanes::Float(values),
            Moved::Int(values) => Lanes::Int(values),
            Moved::Mark(_) => Lanes::Float(Vec::new()),
        },
        Lanes::Int(values) => match f(&values.as_slice()) {
            Moved::Int(values) => Lanes::Int(values),
            Moved::Float(values) => Lanes::Float(values),
            Moved::Mark(_) => Lanes::Int(Vec::new()),
        },
    };
    let marks = x
        .marks
        .as_ref()
        .and_then(|marks| match f(&marks.as_slice()) {
            Moved::Mark(marks) => Some(marks),
            _ => None,
        });
    Vector::new(lanes).marked(marks)
}

/// Elements of one of three kinds: numbers of two types, or marks.
enum Moved {
    Float(Vec<f32>),
    Int(Vec<i32>),
    Mark(Vec<u8>),
}

/// A slice from which elements are gathered: each run `(start, count, step)` yields the elements at
/// `start + i * step` for `i < count`, one run after the other.
trait Source {
    fn gather(&self, runs: &mut dyn Iterator<Item = (usize, usize, usize)>) -> Moved;
}

fn gather<T: Copy>(values: &[T], runs: &mut dyn Iterator<Item = (usize, usize, usize)>) -> Vec<T> {
    let mut out = Vec::new();
    for (start, step, count) in runs {
        match step {
            1 => out.extend_from_slice(values.get(start..start + count).unwrap_or_default()),
            0 => {
                if let Some(value) = values.get(start) {
                    out.resize(out.len() + count, *value);
                }
            }
            _ => out.extend(values.iter().skip(start).step_by(step).take(count)),
        }
    }
    out
}

impl Source for &[f32] {
    fn gather(&self, runs: &mut dyn Iterator<Item = (usize, usize, usize)>) -> Moved {
        Moved::Float(gather(self, runs))
    }
}

impl Source for &[i32] {
    fn gather(&self, runs: &mut dyn Iterator<Item = (usize, usize, usize)>) -> Moved {
        Moved::Int(gather(self, runs))
    }
}

impl Source for &[u8] {
    fn gather(&self, runs: &mut dyn Iterator<Item = (usize, usize, usize)>) -> Moved {
        Moved::Mark(gather(self, runs))
    }
}

/// The elements at `start + sum of index * step` for every index of `dims`, row-major.
pub(super) fn strided(x: &Vector, start: usize, dims: &[i64], steps: &[usize]) -> Vector {
    let total = count(dims);
    let (outer, last) = match dims.split_last() {
        Some((last, outer)) => (outer, (*last).max(0) as usize),
        None => (dims, 1),
    };
    let last_step = steps.last().copied().unwrap_or(1);
    moved(x, &|source| {
        let mut index = vec![0usize; outer.len()];
        let mut left = if total == 0 { 0 } else { total / last };
        let mut at = start;
        let mut runs = std::iter::from_fn(|| {
            left = left.checked_sub(1)?;
            let run = (at, last_step, last);
            for d in (0..outer.len()).rev() {
                index[d] += 1;
                at += steps[d];
                if index[d] < outer[d] as usize {
                    break;
                }
                at -= index[d] * steps[d];
                index[d] = 0;
            }
            Some(run)
        });
        source.gather(&mut runs)
    })
}

/// Broadcasts with numpy's rules.
pub(super) fn broadcast(x: &Vector, from: &[i64], to: &[i64]) -> Vector {
    if from == to {
        return x.clone();
    }
    let own = strides(from);
    let shift = to.len() - from.len();
    let step = |d: usize| match d.checked_sub(shift) {
        Some(s) if from[s] == to[d] => own[s],
        _ => 0,
    };
    let steps: Vec<usize> = (0..to.len()).map(step).collect();
    strided(x, 0, to, &steps)
}

/// Transposes: dimension `d` of the result is dimension `permutation[d]` of the operand.
pub(super) fn transpose(x: &Vector, from: &[i64], permutation: &[i64]) -> Vector {
    let own = strides(from);
    let dims: Vec<i64> = permutation.iter().map(|&d| from[d as usize]).collect();
    let steps: Vec<usize> = permutation.iter().map(|&d| own[d as usize]).collect();
    if let ([0, .., 0] | [_, _], [rows, columns]) = (&steps[..], &dims[..])
        && steps == [1, *rows as usize]
    {
        return transposed_matrix(x, *columns as usize, *rows as usize);
    }
    strided(x, 0, &dims, &steps)
}

/// Transposes a matrix of `rows` and `columns` in blocks that stay in the cache.
fn transposed_matrix(x: &Vector, rows: usize, columns: usize) -> Vector {
    fn turn<T: Copy + Default>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
        const BLOCK: usize = 16;
        let mut out = vec![T::default(); values.len()];
        for r in (0..rows).step_by(BLOCK) {
            for c in (0..columns).step_by(BLOCK) {
                for r in r..(r + BLOCK).min(rows) {
                    for c in c..(c + BLOCK).min(columns) {
                        out[c * rows + r] = values[r * columns + c];
                    }
                }
            }
        }
        out
    }
    let lanes = match &*x.lanes {
        Lanes::Float(values) => Lanes::Float(turn(values, rows, columns)),
        Lanes::Int(values) => Lanes::Int(turn(values, rows, columns)),
    };
    let marks = x.marks.as_ref().map(|marks| turn(marks, rows, columns));
    Vector::new(lanes).marked(marks)
}

/// A strided slice: in each leading dimension it begins at the entry of `offsets` and steps by that
/// of `steps`; `to` is its shape.
pub(super) fn slice(
    x: &Vector,
    from: &[i64],
    to: &[i64],
    offsets: &[i64],
    steps: &[i64],
) -> Vector {
    let own = strides(from);
    let start = offsets.iter().zip(&own).map(|(o, s)| *o as usize * s).sum();
    let step = |d: usize| own[d] * steps.get(d).map_or(1, |s| *s as usize);
    let steps: Vec<usize> = (0..from.len()).map(step).collect();
    strided(x, start, to, &steps)
}

/// The part at one position of the leading dimensions.
pub(super) fn extract(x: &Vector, from: &[i64], to: &[i64], position: &[i64]) -> Vector {
    let own = strides(from);
    let start: usize = position
        .iter()
        .zip(&own)
        .map(|(p, s)| *p as usize * s)
        .sum();
    let steps: Vec<usize> = own[position.len()..].to_vec();
    strided(x, start, to, &steps)
}

/// Concatenates vectors along a dimension.
pub(super) fn concatenate(parts: &[(&Vector, &[i64])], dim: usize) -> Made {
    let Some((first, dims)) = parts.first() else {
        return Err("expected at least one operand to concatenate".to_owned());
    };
    let outer = count(&dims[..dim]);
    let rows: Vec<usize> = parts.iter().map(|(_, dims)| count(&dims[dim..])).collect();
    fn join<T: Copy>(parts: &[&[T]], rows: &[usize], outer: usize) -> Vec<T> {
        let mut out = Vec::with_capacity(parts.iter().map(|p| p.len()).sum());
        for i in 0..outer {
            for (part, row) in parts.iter().zip(rows) {
                out.extend_from_slice(part.get(i * row..(i + 1) * row).unwrap_or_default());
            }
        }
        out
    }
    let lanes = match &*first.lanes {
        Lanes::Float(_) => {
            let all: Result<Vec<&[f32]>, _> = parts.iter().map(|(p, _)| p.lanes.floats()).collect();
            Lanes::Float(join(&all?, &rows, outer))
        }
        Lanes::Int(_) => {
            let all: Result<Vec<&[i32]>, _> = parts.iter().map(|(p, _)| p.lanes.ints()).collect();
            Lanes::Int(join(&all?, &rows, outer))
        }
    };
    let marks = parts.iter().any(|(p, _)| p.marks.is_some()).then(|| {
        let all: Vec<Vec<u8>> = parts
            .iter()
            .map(|(p, _)| {
                p.marks
                    .as_ref()
                    .map_or(vec![0; p.lanes.len()], |m| m.to_vec())
            })
            .collect();
        let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        join(&all, &rows, outer)
    });
    Ok(Vector::new(lanes).marked(marks))
}

/// Index numbers along one dimension; along several, the row-major number of their indices.
pub(super) fn iota(element: Element, dims: &[i64], along: &[i64]) -> Vector {
    let total = count(dims);
    let own = strides(dims);
    let mut values = Vec::with_capacity(total);
    if let ([d], true) = (along, !dims.is_empty()) {
        let d = *d as usize;
        let (step, size) = (own[d], dims[d].max(1) as usize);
        values.extend((0..total).map(|i| wrap(element, (i / step % size) as i64)));
    } else {
        for i in 0..total {
            let joined = along.iter().fold(0i64, |sum, &d| {
                let (d, size) = (d as usize, dims[d as usize].max(1));
                sum * size + (i / own[d]) as i64 % size
            });
            values.push(wrap(element, joined));
        }
    }
    Vector::ints(values)
}

/// Rotates along a dimension by `amount`, and by `stride` more for each index of a second
/// dimension.
pub(super) fn rotate(
    x: &Vector,
    dims: &[i64],
    dim: usize,
    amount: i64,
    stride: Option<(i64, i64)>,
) -> Made {
    let own = strides(dims);
    let size = dims[dim];
    if size == 0 {
        return Ok(x.clone());
    }
    let total = count(dims);
    let place = |i: usize| {
        let at = (i / own[dim]) as i64 % size;
        let more = stride.map_or(0, |(by, along)| {
            let along = along as usize;
            by * ((i / own[along]) as i64 % dims[along].max(1))
        });
        let from = (at - amount - more).rem_euclid(size);
        (i as i64 + (from - at) * own[dim] as i64) as usize
    };
    Ok(picked(x, total, &place))
}

/// A vector whose element `i` is element `place(i)` of the operand.
fn picked(x: &Vector, total: usize, place: &dyn Fn(usize) -> usize) -> Vector {
    moved(x, &|source| {
        source.gather(&mut (0..total).map(|i| (place(i), 1, 1)))
    })
}

/// Repeats a vector along a dimension.
pub(super) fn repeat(x: &Vector, dims: &[i64], dim: usize, times: i64) -> Made {
    let times = usize::try_from(times)
        .map_err(|_| "expected a non-negative number of repetitions".to_owned())?;
    let parts = vec![(x, dims); times];
    concatenate(&parts, dim)
}

/// `result[i] = source[indices[i]]` along one dimension; indices out of range wrap around.
pub(super) fn gather_along(
    x: &Vector,
    from: &[i64],
    indices: &Vector,
    to: &[i64],
    dim: usize,
) -> Made {
    let (own, there) = (strides(from), strides(to));
    let size = from[dim].max(1);
    let chosen = indices.lanes.ints()?;
    let place = |i: usize| {
        let mut at = 0;
        for d in 0..to.len() {
            let index = match d == dim {
                true => i64::from(chosen[i]).rem_euclid(size) as usize,
                false => i / there[d] % (to[d].max(1) as usize),
            };
            at += index * own[d];
        }
        at
    };
    let made = picked(x, count(to), &place);
    let marks = super::elementwise::joined(&[&made, indices]);
    Ok(made.marked(marks))
}

/// Reduces a vector along some dimensions and combines the result with the accumulator; also
/// returns whether that combines padding with other elements.
pub(super) fn reduce(
    kind: Reduction,
    element: Element,
    x: &Vector,
    dims: &[i64],
    along: &[i64],
    accumulator: &Vector,
) -> Result<(Vector, bool), String> {
    let kept: Vec<usize> = (0..dims.len())
        .filter(|d| !along.contains(&(*d as i64)))
        .collect();
    let gone: Vec<usize> = (0..dims.len())
        .filter(|d| along.contains(&(*d as i64)))
        .collect();
    // Reduced dimensions go last, so that each result is computed from one contiguous run.
    let order: Vec<i64> = kept.iter().chain(&gone).map(|d| *d as i64).collect();
    let inner: usize = gone.iter().map(|d| dims[*d].max(0) as usize).product();
    let outer: usize = kept.iter().map(|d| dims[*d].max(0) as usize).product();
    let in_order = order.iter().enumerate().all(|(i, d)| i as i64 == *d);
    let lanes = match (&*x.lanes, &*accumulator.lanes) {
        (Lanes::Float(values), Lanes::Float(start)) => {
            // A reduction over the rows of a matrix combines whole rows.
            let by_rows = !in_order && gone.len() == 1 && gone[0] == 0;
            let made = if by_rows && outer > 0 {
                let mut sums = start.clone();
                for row in values.chunks_exact(outer) {
                    combine_rows(kind, &mut sums, row)?;
                }
                sums
            } else {
                let turned;
                let values = match in_order {
                    true => values,
                    false => {
                        turned = transpose(x, dims, &order);
                        turned.lanes.floats()?
                    }
                };
                floats(kind, values, start, inner, outer)?
            };
            Lanes::Float(rounded(element, made))
        }
        (Lanes::Int(_), Lanes::Int(start)) => {
            let turned = match in_order {
                true => x.clone(),
                false => transpose(x, dims, &order),
            };
            let values = turned.lanes.ints()?;
            let one = |(i, start): (usize, &i32)| {
                let run = values.get(i * inner..(i + 1) * inner).unwrap_or_default();
                run.iter()
                    .fold(*start, |sum, v| int(kind, element, sum, *v))
            };
            Lanes::Int(start.iter().enumerate().map(one).collect())
        }
        _ => {
            return Err(
                "expected operands of the same kind: integers or floating-point numbers".to_owned(),
            );
        }
    };
    let mut mixed = false;
    let marks = x.marks.as_ref().map(|marks| {
        let marked = Vector::ints(marks.iter().map(|m| i32::from(*m)).collect());
        let turned = match in_order {
            true => marked,
            false => transpose(&marked, dims, &order),
        };
        let marks = turned.lanes.ints().unwrap_or_default();
        let run = |i: usize| marks.get(i * inner..(i + 1) * inner).unwrap_or_default();
        let one = |i: usize| {
            let run = run(i);
            let padding = run.iter().filter(|m| **m & i32::from(PADDING) != 0).count();
            mixed |= padding != 0 && padding != run.len();
            run.iter().fold(0u8, |all, m| all | *m as u8)
        };
        (0..outer).map(one).collect::<Vec<u8>>()
    });
    let made = Vector::new(lanes).marked(marks);
    let marks = super::elementwise::joined(&[&made, accumulator]);
    Ok((made.marked(marks), mixed))
}

fn combine_rows(kind: Reduction, sums: &mut [f32], row: &[f32]) -> Result<(), String> {
    let pairs = sums.iter_mut().zip(row);
    match kind {
        Reduction::Add => pairs.for_each(|(s, v)| *s += v),
        Reduction::Mul => pairs.for_each(|(s, v)| *s *= v),
        Reduction::Maximum => pairs.for_each(|(s, v)| *s = maximum(*s, *v)),
        Reduction::Minimum => pairs.for_each(|(s, v)| *s = minimum(*s, *v)),
        other => {
            return Err(format!(
                "{other:?} of floating-point numbers is not simulated"
            ));
        }
    }
    Ok(())
}

fn floats(
    kind: Reduction,
    values: &[f32],
    start: &[f32],
    inner: usize,
    outer: usize,
) -> Result<Vec<f32>, String> {
    let run = |i: usize| values.get(i * inner..(i + 1) * inner).unwrap_or_default();
    /// Eight partial results at once, which the compiler keeps in one register.
    fn several(run: &[f32], first: f32, start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut lanes = [first; 8];
        let chunks = run.chunks_exact(8);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane = f(*lane, *value);
            }
        }
        let all = lanes.into_iter().chain(rest.iter().copied());
        all.fold(start, f)
    }
    let made = start
        .iter()
        .take(outer)
        .enumerate()
        .map(|(i, start)| match kind {
            Reduction::Add => Ok(several(run(i), 0.0, *start, |a, b| a + b)),
            Reduction::Mul => Ok(several(run(i), 1.0, *start, |a, b| a * b)),
            Reduction::Maximum => Ok(several(run(i), f32::NEG_INFINITY, *start, maximum)),
            Reduction::Minimum => Ok(several(run(i), f32::INFINITY, *start, minimum)),
            other => Err(format!(
                "{other:?} of floating-point numbers is not simulated"
            )),
        });
    made.collect()
}

fn int(kind: Reduction, element: Element, a: i32, b: i32) -> i32 {
    let (ua, ub) = (unsigned(element, a), unsigned(element, b));
    match kind {
        Reduction::Add => wrap(element, i64::from(a.wrapping_add(b))),
        Reduction::Mul => wrap(element, i64::from(a.wrapping_mul(b))),
        Reduction::MaxSigned | Reduction::Maximum => a.max(b),
        Reduction::MinSigned | Reduction::Minimum => a.min(b),
        Reduction::MaxUnsigned => {
            if ua >= ub {
                a
            } else {
                b
            }
        }
        Reduction::MinUnsigned => {
            if ua <= ub {
                a
            } else {
                b
            }
        }
        Reduction::And => a & b,
        Reduction::Or => a | b,
        Reduction::Xor => a ^ b,
    }
}

/// The index of the first greatest or least element along a dimension.
pub(super) fn reduce_index(kind: Reduction, x: &Vector, dims: &[i64], axis: usize) -> Made {
    let mut order: Vec<i64> = (0..dims.len() as i64)
        .filter(|d| *d != axis as i64)
        .collect();
    order.push(axis as i64);
    let turned = transpose(x, dims, &order);
    let inner = dims[axis].max(1) as usize;
    let better = |a: f64, b: f64| match kind {
        Reduction::Minimum => b < a,
        _ => b > a,
    };
    let all: Vec<f64> = match &*turned.lanes {
        Lanes::Float(values) => values.iter().map(|v| f64::from(*v)).collect(),
        Lanes::Int(values) => values.iter().map(|v| f64::from(*v)).collect(),
    };
    let best = |run: &[f64]| {
        let mut best = 0;
        for (i, value) in run.iter().enumerate() {
            if better(run[best], *value) || value.is_nan() && !run[best].is_nan() {
                best = i;
            }
        }
        best as i32
    };
    let marks = turned.marks.as_ref().map(|marks| {
        let runs = marks.chunks(inner);
        runs.map(|run| run.iter().fold(0, |all, m| all | m))
            .collect()
    });
    Ok(Vector::ints(all.chunks(inner).map(best).collect()).marked(marks))
}

/// Reinterprets elements as another width: along the second-minor dimension each wide element holds
/// several narrow ones, the first in the low bits.
pub(super) fn bitcast(
    x: &Vector,
    (from, from_dims): (Element, &[i64]),
    (to, to_dims): (Element, &[i64]),
) -> Made {
    let bits = super::packed::bits_of(from, &x.lanes)?;
    let (narrow, wide) = (from.bits().min(to.bits()), from.bits().max(to.bits()));
    if narrow == wide {
        let lanes = super::packed::from_bits(to, bits)?;
        return Ok(Vector {
            lanes: Arc::new(lanes),
            marks: x.marks.clone(),
            unwritten_from: x.unwritten_from,
        });
    }
    let ratio = (wide / narrow.max(1)) as usize;
    let packs = from.bits() < to.bits();
    let narrow_dims = if packs { from_dims } else { to_dims };
    // In a one-dimensional vector, adjacent elements share a word; otherwise elements adjacent
    // along the sublanes do.
    let columns = match narrow_dims {
        [.., _, columns] => (*columns).max(0) as usize,
        _ => 1,
    };
    let mask = u32::MAX >> (32 - narrow);
    let mut out = vec![0u32; count(to_dims)];
    let mut marks = x.marks.as_ref().map(|_| vec![0u8; count(to_dims)]);
    for place in 0..count(narrow_dims) {
        let (row, column) = (place / columns.max(1), place % columns.max(1));
        let word = row / ratio * columns + column;
        let shift = (row % ratio) as u32 * narrow;
        if packs {
            out[word] |= (bits[place] & mask) << shift;
        } else {
            out[place] = (bits[word] >> shift) & mask;
        }
        if let (Some(marks), Some(own)) = (&mut marks, &x.marks) {
            let (to, from) = if packs { (word, place) } else { (place, word) };
            marks[to] |= own[from];
        }
    }
    let lanes = super::packed::from_bits(to, out)?;
    Ok(Vector::new(lanes).marked(marks))
}

#[cfg(test)]
mod tests {
    use super::super::value::UNWRITTEN;
    use super::*;
    use tegula_mosaic::types::FloatKind;

    #[test]
    fn marks_stay_with_their_words() {
        // Two rows of a word; nobody wrote the second row of the second word.
        let half = Element::Float(FloatKind::BF16);
        let x = Vector::floats(vec![1.0; 8]).marked(Some(vec![0, 0, 0, 0, 0, 0, 0, UNWRITTEN]));
        let words = bitcast(&x, (half, &[4, 2]), (Element::I32, &[2, 2])).unwrap();
        let marks = words.marks.as_deref().unwrap();
        assert_eq!(marks[..], [0, 0, 0, UNWRITTEN]);
        let back = bitcast(&words, (Element::I32, &[2, 2]), (half, &[4, 2])).unwrap();
        let marks = back.marks.as_deref().unwrap();
        assert_eq!(marks[..], [0, 0, 0, 0, 0, UNWRITTEN, 0, UNWRITTEN]);
    }
}
