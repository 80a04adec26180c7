//! Reshapes of every flavour, by segments of equal element count.
//!
//! Walking both lists of sizes from the left, the shortest runs of dimensions
//! with equal products belong together: collapse, expand and generic reshapes
//! are runs of one dimension to many, many to one and many to many. A run is
//! mapped by its row-major number.

use smallvec::SmallVec;
use tegula_expr::{Interval, Term, canonicalize};
use tegula_ir::ArrayShape;

use super::builder::{Builder, static_sizes};
use super::{Cause, MapOrCause};
use crate::map::IndexingMap;

/// From the result to the operand.
pub(super) fn reshape(at: &Builder<'_>) -> MapOrCause {
    reshape_arrays(at, at.output()?, at.input(0)?)
}

/// Between two arrays of equal element count, in row-major order.
pub(super) fn reshape_arrays(at: &Builder<'_>, from: &ArrayShape, to: &ArrayShape) -> MapOrCause {
    if let (Ok(from), Ok(to)) = (static_sizes(from), static_sizes(to)) {
        return reshape_map(&from, &to);
    }
    symbolic_reshape(at, from, to)
}

/// From the array `output` to `input`, which hold the same bytes: a reshape between the physical orders of the
/// two layouts. Tiled layouts are compared, not looked into.
pub(super) fn bitcast(at: &Builder<'_>, output: &ArrayShape, input: &ArrayShape) -> MapOrCause {
    let (Some(from), Some(to)) = (physical_order(output), physical_order(input)) else {
        return Err(Cause::Malformed);
    };
    if tiles(output) || tiles(input) {
        let same = output.dims == input.dims && output.layout == input.layout;
        return if same {
            reshape_arrays(at, output, input)
        } else {
            Err(Cause::Operation(at.op().opcode()))
        };
    }
    let (from_sizes, to_sizes) = (static_sizes(output)?, static_sizes(input)?);
    let pick = |sizes: &[i64], order: &[usize]| -> SmallVec<[i64; 6]> {
        order
            .iter()
            .filter_map(|dim| sizes.get(*dim).copied())
            .collect()
    };
    let physical = reshape_map(&pick(&from_sizes, &from), &pick(&to_sizes, &to))?;
    let mut logical = IndexingMap::over(&from_sizes);
    logical.results = from.iter().map(|dim| logical.dim(*dim)).collect();
    let mut back = IndexingMap::over(&pick(&to_sizes, &to));
    back.results = (0..to.len())
        .filter_map(|dim| to.iter().position(|physical| *physical == dim))
        .map(|physical| back.dim(physical))
        .collect();
    let mut map = logical.then(&physical).then(&back);
    canonical_results(&mut map);
    Ok(map)
}

fn tiles(array: &ArrayShape) -> bool {
    array
        .layout
        .as_ref()
        .is_some_and(|layout| !layout.tiles.is_empty())
}

/// The dimensions from the most major to the most minor.
fn physical_order(array: &ArrayShape) -> Option<SmallVec<[usize; 6]>> {
    let rank = array.rank();
    let Some(layout) = &array.layout else {
        return Some((0..rank).collect());
    };
    let mut order: SmallVec<[usize; 6]> = SmallVec::new();
    for dim in layout.minor_to_major.iter().rev() {
        let dim = usize::try_from(*dim)
            .ok()
            .filter(|dim| *dim < rank && !order.contains(dim))?;
        order.push(dim);
    }
    (order.len() == rank).then_some(order)
}

/// The map of a reshape between known sizes.
pub(crate) fn reshape_map(from: &[i64], to: &[i64]) -> MapOrCause {
    let mut map = IndexingMap::over(from);
    let count = |sizes: &[i64]| {
        let mut sizes = sizes.iter();
        sizes.try_fold(1i64, |n, size| n.checked_mul(*size).filter(|_| *size >= 0))
    };
    let (Some(all), Some(same)) = (count(from), count(to)) else {
        return Err(Cause::Overflow);
    };
    if all != same {
        return Err(Cause::Malformed);
    }
    if all == 0 {
        // No element: any results will do, for the domain has no point.
        map.results = vec![Term::constant(0); to.len()];
        return Ok(map);
    }
    let (mut i, mut o) = (0, 0);
    while i < to.len() || o < from.len() {
        let (first_i, first_o) = (i, o);
        let (mut inputs, mut outputs) = (1i64, 1i64);
        // The products stay below the element count, which fits.
        loop {
            if inputs <= outputs && i < to.len() && (inputs < outputs || i == first_i) {
                inputs *= to.get(i).copied().unwrap_or(1);
                i += 1;
            } else if o < from.len() && (outputs < inputs || o == first_o) {
                outputs *= from.get(o).copied().unwrap_or(1);
                o += 1;
            } else {
                break;
            }
        }
        let strides = |sizes: &[i64]| -> SmallVec<[i64; 6]> {
            let mut stride = 1;
            let mut strides: SmallVec<[i64; 6]> = SmallVec::new();
            for size in sizes.iter().rev() {
                strides.push(stride);
                stride *= size;
            }
            strides.reverse();
            strides
        };
        let (starts, ends) = (
            from.get(first_o..o).unwrap_or(&[]),
            to.get(first_i..i).unwrap_or(&[]),
        );
        let linear = strides(starts)
            .iter()
            .enumerate()
            .map(|(k, stride)| map.dim(first_o + k).mul(&(*stride).into()))
            .fold(Term::constant(0), |sum, term| sum.add(&term));
        for (k, (stride, size)) in strides(ends).iter().zip(ends).enumerate() {
            let quotient = linear.floor_div(&(*stride).into());
            // The outermost dimension of a run cannot overflow into another.
            let index = if k == 0 {
                quotient
            } else {
                quotient.modulo(&(*size).into())
            };
            map.results.push(index);
        }
    }
    canonical_results(&mut map);
    Ok(map)
}

fn canonical_results(map: &mut IndexingMap) {
    let bounds = map.bounds();
    for result in &mut map.results {
        *result = canonicalize(result, bounds.as_slice());
    }
}

/// With symbolic sizes: dimensions that agree from either end are mapped one to
/// one; what is left between them goes through its row-major number.
fn symbolic_reshape(at: &Builder<'_>, from: &ArrayShape, to: &ArrayShape) -> MapOrCause {
    let mut draft = at.draft(from);
    let (starts, ends) = (&from.dims, &to.dims);
    let shorter = starts.len().min(ends.len());
    let head = starts
        .iter()
        .zip(ends)
        .take_while(|(a, b)| a.term() == b.term())
        .count();
    let tail = starts
        .iter()
        .rev()
        .zip(ends.iter().rev())
        .take(shorter - head)
        .take_while(|(a, b)| a.term() == b.term())
        .count();
    let mut results: Vec<Term> = (0..head).map(|dim| draft.dim(dim)).collect();
    let mut linear = Term::constant(0);
    for position in head..starts.len() - tail {
        let Some(dim) = starts.get(position) else {
            continue;
        };
        let extent = draft.extent(dim);
        linear = linear.mul(&extent).add(&draft.dim(position));
    }
    let mut stride = Term::constant(1);
    let mut middle = Vec::new();
    for (offset, dim) in ends
        .iter()
        .skip(head)
        .take(ends.len() - tail - head)
        .enumerate()
        .rev()
    {
        let quotient = linear.floor_div(&stride);
        let extent = draft.extent(dim);
        middle.push(if offset == 0 {
            quotient
        } else {
            quotient.modulo(&extent)
        });
        stride = stride.mul(&extent);
    }
    results.extend(middle.into_iter().rev());
    results.extend((starts.len() - tail..starts.len()).map(|dim| draft.dim(dim)));
    let mut map = draft.finish(results)?;
    // A symbolic size used as a divisor is at least 1 where there is an element.
    for variable in map.variables_mut().skip(starts.len()) {
        variable.bounds = variable.bounds.intersect(&Interval::new(1, i64::MAX));
    }
    canonical_results(&mut map);
    Ok(map)
}
