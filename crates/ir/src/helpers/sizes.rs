//! Sizes of slices, padding, concatenations and reshapes.

use super::Spaced;
use super::window::{dilated, padded};
use crate::{Dim, PadDim, SliceDim, TO_END};
use tegula_expr::{Extract, Provider, numbers};

/// One dimension of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceSizes<I> {
    /// One past the last element that may be taken; the dimension's size for
    /// [`TO_END`].
    pub limit: I,
    /// The number of elements taken: `ceil((limit - start) / stride)`.
    pub length: I,
}

impl SliceDim {
    /// Whether the slice takes all of a dimension of this size.
    pub fn is_whole(&self, size: i64) -> bool {
        let to_end = self.limit == TO_END || self.limit == size;
        self.start == 0 && self.stride == 1 && to_end
    }

    /// The slice limited to its first `length` elements.
    #[must_use]
    pub fn shortened(&self, length: i64) -> Self {
        let last = self
            .spaced()
            .place(&mut numbers(), &Ok(length.saturating_sub(1)));
        let end = last.ok().and_then(|last| last.checked_add(1));
        Self {
            limit: self.limit.min(end.unwrap_or(self.limit)).max(self.start),
            ..*self
        }
    }

    /// Whether the attributes are valid: start and limit not negative and in order, and the stride
    /// positive.
    pub fn is_possible(&self) -> bool {
        self.start >= 0 && self.start <= self.limit && self.stride >= 1
    }

    /// The sizes of a slice of a dimension of this size.
    pub fn sizes<P: Provider>(&self, p: &mut P, size: &P::Index) -> SliceSizes<P::Index> {
        let limit = up_to(p, self.limit, size);
        let (start, stride) = (p.literal(self.start), p.literal(self.stride));
        let span = p.sub(&limit, &start);
        SliceSizes {
            length: p.ceil_div(&span, &stride),
            limit,
        }
    }

    /// The positions in the operand of the elements that are taken.
    pub fn spaced(&self) -> Spaced {
        Spaced {
            first: self.start,
            step: self.stride,
        }
    }
}

/// A size attribute, with [`TO_END`] replaced by this size.
pub fn up_to<P: Provider>(p: &mut P, number: i64, size: &P::Index) -> P::Index {
    match number {
        TO_END => size.clone(),
        number => p.literal(number),
    }
}

/// The sizes of one dimension of a padded array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PadSizes<I> {
    /// The size with interior padding only.
    pub dilated: I,
    /// The size with all padding; it must not be negative.
    pub padded: I,
}

impl PadDim {
    /// Whether the interior padding is not negative.
    pub fn is_possible(&self) -> bool {
        self.interior >= 0
    }

    /// The positions of the operand's elements in the result. Negative padding puts some of them
    /// outside of it.
    pub fn spaced(&self) -> Spaced {
        Spaced {
            first: self.low,
            step: self.interior.saturating_add(1),
        }
    }

    /// The sizes of a dimension of this size when it is padded.
    pub fn sizes<P: Provider>(&self, p: &mut P, size: &P::Index) -> PadSizes<P::Index> {
        let dilated = dilated(p, size, self.spaced().step);
        PadSizes {
            padded: padded(p, &dilated, self.low, self.high),
            dilated,
        }
    }
}

/// The sizes along the dimension of a concatenation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcatenateSizes<I> {
    /// The first index of each operand in the result.
    pub starts: Vec<I>,
    /// The size of the result.
    pub size: I,
}

impl<I: Clone> ConcatenateSizes<I> {
    /// The sizes of a concatenation of operands of these sizes.
    pub fn of<P: Provider<Index = I>>(p: &mut P, sizes: &[I]) -> Self {
        let mut starts = Vec::with_capacity(sizes.len());
        let mut end = None;
        for size in sizes {
            let start: I = match &end {
                Some(end) => I::clone(end),
                None => p.literal(0),
            };
            end = Some(match starts.is_empty() {
                true => size.clone(),
                false => p.add(&start, size),
            });
            starts.push(start);
        }
        Self {
            size: end.unwrap_or_else(|| p.literal(0)),
            starts,
        }
    }
}

/// The sizes of a reshape whose result has open dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReshapeSizes<I> {
    /// The number of the operand's elements.
    pub count: I,
    /// The product of the static dimensions of the result.
    pub fixed: I,
    /// The sizes of the result's open dimensions, as pairs of dimension and size; `None` if they
    /// cannot be determined.
    ///
    /// If the operand has as many open dimensions, separated by static dimensions with the same
    /// products, the sizes are the operand's. Otherwise a single open size is `count / fixed`, a
    /// division that must have no remainder.
    pub open: Option<Vec<(usize, I)>>,
}

impl<I: Clone> ReshapeSizes<I> {
    /// The sizes of a reshape of an operand with these dimensions, whose sizes are `from`, to the
    /// stated dimensions.
    pub fn of<P: Provider<Index = I>>(
        p: &mut P,
        operand: &[Dim],
        from: &[I],
        stated: &[Dim],
    ) -> Self {
        let count = p.product(from);
        let known = stated.iter().filter_map(|dim| match dim {
            Dim::Static(size) => Some(p.literal(*size)),
            _ => None,
        });
        let known: Vec<I> = known.collect();
        let fixed = p.product(&known);
        let open = match kept_open(operand, stated) {
            Some(kept) => {
                let kept = kept.into_iter();
                let size = |(own, place)| Some((place, from.get::<usize>(own)?.clone()));
                kept.map(size).collect()
            }
            None => {
                let is_open = |dim: &Dim| !matches!(dim, Dim::Static(_));
                let place = stated.iter().position(is_open);
                let is_alone = known.len() + 1 == stated.len();
                let place = place.filter(|_| is_alone && p.as_literal(&fixed) != Some(0));
                place.map(|place| vec![(place, p.floor_div(&count, &fixed))])
            }
        };
        Self { count, fixed, open }
    }
}

/// Pairs of the open dimensions of both sides, if the products of the static sizes before, between
/// and after them are the same. `None` if a stated size is a different term over the operand's
/// symbols, as when a reshape swaps two dimensions.
fn kept_open(operand: &[Dim], stated: &[Dim]) -> Option<Vec<(usize, usize)>> {
    let parts = |dims: &[Dim]| {
        let (mut open, mut products) = (Vec::new(), vec![1i64]);
        for (place, dim) in dims.iter().enumerate() {
            match (dim, products.last_mut()) {
                (Dim::Static(size), Some(last)) => *last = last.checked_mul(*size)?,
                _ => {
                    open.push(place);
                    products.push(1);
                }
            }
        }
        Some((open, products))
    };
    let ((own, between), (places, products)) = (parts(operand)?, parts(stated)?);
    if own.is_empty() || between != products {
        return None;
    }
    let pairs: Vec<(usize, usize)> = own.into_iter().zip(places).collect();
    let mut symbols = Vec::new();
    for dim in operand {
        dim.term().for_each_var(&mut |symbol| symbols.push(symbol));
    }
    let is_other = |&(own, place): &(usize, usize)| {
        let (from, to) = (operand[own].term(), stated[place].term());
        let mut is_over_same = true;
        to.for_each_var(&mut |symbol| is_over_same &= symbols.contains(&symbol));
        is_over_same && from != to
    };
    (!pairs.iter().any(is_other)).then_some(pairs)
}
