//! Maps of reshapes of every kind, built from segments with equal numbers of elements.
//!
//! Going through both lists of sizes from the left, the shortest runs of dimensions with equal
//! products belong together. Collapsing, expanding and generic reshapes have runs of one dimension
//! to many, many to one, and many to many. Each run is mapped through its linearised (row-major)
//! index.

use smallvec::SmallVec;
use tegula_expr::{Canonicalizer, Interval, Node, Term};
use tegula_ir::{ArrayShape, Layout};

use super::builder::{Builder, static_sizes};
use super::{Cause, MapOrCause};
use crate::map::IndexingMap;

/// From the result to the operand.
pub(super) fn reshape(at: &Builder<'_>) -> MapOrCause {
    reshape_arrays(at, at.output()?, at.input(0)?)
}

/// Between two arrays with equal numbers of elements, in row-major order.
pub(super) fn reshape_arrays(at: &Builder<'_>, from: &ArrayShape, to: &ArrayShape) -> MapOrCause {
    if let (Ok(from), Ok(to)) = (static_sizes(from), static_sizes(to)) {
        return reshape_map(&from, &to);
    }
    symbolic_reshape(at, from, to)
}

/// A bitcast, from array `output` to array `input` of the same bytes: a reshape between the
/// physical orders of the two layouts. Tiled layouts must be equal; otherwise there is no map.
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
    let mut map = logical.compose(&physical).compose(&back);
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
    minor_order(array.rank(), array.layout.as_deref())
}

/// The dimensions of an array without tiles, from the most major to the most minor.
pub(crate) fn static_order(rank: usize, layout: Option<&Layout>) -> Option<SmallVec<[usize; 6]>> {
    let is_tiled = layout.is_some_and(|layout| !layout.tiles.is_empty());
    minor_order(rank, layout).filter(|_| !is_tiled)
}

fn minor_order(rank: usize, layout: Option<&Layout>) -> Option<SmallVec<[usize; 6]>> {
    let Some(layout) = layout else {
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

/// The map of a reshape between static sizes.
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
        // There are no elements, so the domain is empty and any results will do.
        map.results = vec![Term::constant(0); to.len()];
        return Ok(map);
    }
    let (mut i, mut o) = (0, 0);
    while i < to.len() || o < from.len() {
        let (first_i, first_o) = (i, o);
        let (mut inputs, mut outputs) = (1i64, 1i64);
        // The products do not exceed the number of elements, so they do not overflow.
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
            // The outermost dimension of a run needs no remainder, because nothing is outside of
            // it.
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
    let mut canonicalizer = Canonicalizer::new(bounds.as_slice());
    for constraint in &map.constraints {
        canonicalizer.assume(&constraint.term, constraint.interval);
    }
    for result in &mut map.results {
        *result = canonicalizer.canonicalize(result);
    }
}

/// A product of sizes: its constant, and the sorted factors known at run time.
#[derive(Clone, PartialEq)]
struct Product {
    constant: i64,
    factors: Vec<Term>,
}

impl Product {
    fn one() -> Self {
        Self {
            constant: 1,
            factors: Vec::new(),
        }
    }

    /// The product times another size; `None` if the constant overflows.
    fn times(&self, size: &Term) -> Option<Self> {
        let mut product = self.clone();
        let mut stack = vec![size.clone()];
        while let Some(term) = stack.pop() {
            if let Some(value) = term.as_constant() {
                product.constant = product.constant.checked_mul(value)?;
            } else if let Node::Mul(a, b) = term.node() {
                stack.extend([a.clone(), b.clone()]);
            } else {
                product.factors.push(term);
            }
        }
        product.factors.sort_unstable();
        Some(product)
    }

    /// The products of the first 0, 1, ... sizes.
    fn prefixes(sizes: &[Term]) -> Option<Vec<Self>> {
        let mut prefixes = vec![Self::one()];
        for size in sizes {
            let next = prefixes.last()?.times(size)?;
            prefixes.push(next);
        }
        Some(prefixes)
    }
}

/// A reshape with sizes known at run time. Dimensions that agree from the right are mapped one to
/// one. The others are divided into runs where products from the left are provably equal, and each
/// run is mapped through its linearised index.
fn symbolic_reshape(at: &Builder<'_>, from: &ArrayShape, to: &ArrayShape) -> MapOrCause {
    let mut draft = at.draft(from);
    let (starts, ends) = (draft.extents(from), draft.extents(to));
    let shorter = starts.len().min(ends.len());
    let pairs = starts.iter().rev().zip(ends.iter().rev());
    let tail = pairs.take(shorter).take_while(|(a, b)| a == b).count();
    let (from_count, to_count) = (starts.len() - tail, ends.len() - tail);
    let (starts, ends) = (
        starts.get(..from_count).unwrap_or(&[]),
        ends.get(..to_count).unwrap_or(&[]),
    );
    let (Some(left), Some(right)) = (Product::prefixes(starts), Product::prefixes(ends)) else {
        return Err(Cause::Overflow);
    };
    let mut results = Vec::new();
    let (mut o, mut i) = (0, 0);
    while o < from_count || i < to_count {
        let (next_o, next_i) = next_cut(&left, &right, (o, i)).unwrap_or((from_count, to_count));
        let dims = (o..next_o).map(|dim| draft.dim(dim)).collect::<Vec<_>>();
        let run = (
            starts.get(o..next_o).unwrap_or(&[]),
            ends.get(i..next_i).unwrap_or(&[]),
        );
        results.extend(run_results(&dims, run.0, run.1));
        (o, i) = (next_o, next_i);
    }
    results.extend((from_count..from_count + tail).map(|dim| draft.dim(dim)));
    let mut map = draft.finish(results)?;
    // A symbolic size that is a divisor is at least 1 if there is an element.
    for variable in map.variables_mut().skip(from.rank()) {
        variable.bounds = variable.bounds.intersect(&Interval::new(1, i64::MAX));
    }
    canonical_results(&mut map);
    Ok(map)
}

/// The next pair of positions, beyond `at` on at least one side, with equal products to their left.
fn next_cut(left: &[Product], right: &[Product], at: (usize, usize)) -> Option<(usize, usize)> {
    (at.0..left.len())
        .flat_map(|o| (at.1..right.len()).map(move |i| (o, i)))
        .filter(|cut| *cut != at)
        .find(|(o, i)| left.get(*o) == right.get(*i))
}

/// The indices of one run: the row-major index over sizes `starts`, delinearised by sizes `ends`.
fn run_results(dims: &[Term], starts: &[Term], ends: &[Term]) -> Vec<Term> {
    if let ([dim], [_]) = (dims, ends) {
        return vec![dim.clone()];
    }
    let mut linear = Term::constant(0);
    for (dim, size) in dims.iter().zip(starts) {
        linear = linear.mul(size).add(dim);
    }
    let mut stride = Term::constant(1);
    let mut results = Vec::new();
    for (position, size) in ends.iter().enumerate().rev() {
        let quotient = linear.floor_div(&stride);
        // The outermost dimension of a run needs no remainder, because nothing is outside of it.
        results.push(if position == 0 {
            quotient
        } else {
            quotient.modulo(size)
        });
        stride = stride.mul(size);
    }
    results.reverse();
    results
}
