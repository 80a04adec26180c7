//! Windows.

use super::Spaced;
use crate::WindowDim;
use tegula_expr::{Cmp, Provider};

/// The sizes of a window along one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSizes<I> {
    /// From the base's first element to its last: `(size - 1) * base_dilation + 1`, 0
    /// of no elements.
    pub dilated: I,
    /// The same with the padding on both sides; negative padding crops. It must not
    /// be negative.
    pub padded: I,
    /// From the window's first tap to its last:
    /// `(window_size - 1) * window_dilation + 1`.
    pub extent: I,
    /// How many times the window fits:
    /// `floor((padded - extent) / stride) + 1`, or 0.
    pub positions: I,
}

impl WindowDim {
    /// Whether the size is not negative, and strides and dilations are positive.
    pub fn is_possible(&self) -> bool {
        let positive = [self.stride, self.base_dilation, self.window_dilation];
        self.size >= 0 && positive.iter().all(|&value| value >= 1)
    }

    /// The sizes along a dimension of this size.
    pub fn sizes<P: Provider>(&self, p: &mut P, size: &P::Index) -> WindowSizes<P::Index> {
        let dilated = dilated(p, size, self.base_dilation);
        let padded = padded(p, &dilated, self.padding_low, self.padding_high);
        let window_size = p.literal(self.size);
        let extent = self::dilated(p, &window_size, self.window_dilation);
        let (zero, one, stride) = (p.literal(0), p.literal(1), p.literal(self.stride));
        let room = p.sub(&padded, &extent);
        let steps = p.floor_div(&room, &stride);
        let count = p.add(&steps, &one);
        let count = p.max(&count, &zero);
        // Nothing fits into nothing, not even a window of no elements.
        let positions = match p.as_literal(&padded) {
            Some(0) => zero,
            _ => count,
        };
        WindowSizes {
            dilated,
            padded,
            extent,
            positions,
        }
    }

    /// How far a tap lies from the window's begin: `tap * window_dilation`, from the
    /// other end in a reversed window.
    pub fn tap<P: Provider>(&self, p: &mut P, tap: &P::Index) -> P::Index {
        let tap = match self.reversal {
            true => {
                let (size, one) = (p.literal(self.size), p.literal(1));
                let last = p.sub(&size, &one);
                p.sub(&last, tap)
            }
            false => tap.clone(),
        };
        let dilation = p.literal(self.window_dilation);
        p.mul(&tap, &dilation)
    }

    /// Where the base's elements lie in the dilated base.
    pub fn base(&self) -> Spaced {
        Spaced {
            first: 0,
            step: self.base_dilation,
        }
    }

    /// The same window with taps counted from its begin, reversed or not.
    #[must_use]
    pub fn from_begin(&self) -> Self {
        Self {
            reversal: false,
            ..*self
        }
    }

    /// How far a place in the dilated base is behind a tap of the first position. The
    /// position whose tap is there is this divided by the stride, if nothing is left.
    pub fn distance<P: Provider>(&self, p: &mut P, place: &P::Index, tap: &P::Index) -> P::Index {
        let low = p.literal(self.padding_low);
        let tap = self.tap(p, tap);
        let begin = p.sub(place, &tap);
        p.add(&begin, &low)
    }

    /// The element of a base of this size where a position and a tap meet, and whether
    /// (1 or 0) there is one: there is none in the padding and between dilated elements.
    pub fn meet<P: Provider>(
        &self,
        p: &mut P,
        size: &P::Index,
        position: &P::Index,
        tap: &P::Index,
    ) -> (P::Index, P::Index) {
        let place = self.place(p, position, tap);
        let (element, rest) = self.base().element(p, &place);
        let zero = p.literal(0);
        let is_element = p.cmp(Cmp::Eq, &rest, &zero);
        let (begun, within) = (
            p.cmp(Cmp::Le, &zero, &element),
            p.cmp(Cmp::Lt, &element, size),
        );
        let inside = p.mul(&begun, &within);
        let inside = p.mul(&is_element, &inside);
        (element, inside)
    }

    /// Where the window at a position has a tap in the dilated base: outside of it in
    /// the padding.
    pub fn place<P: Provider>(&self, p: &mut P, position: &P::Index, tap: &P::Index) -> P::Index {
        let (stride, low) = (p.literal(self.stride), p.literal(self.padding_low));
        let begin = p.mul(position, &stride);
        let tap = self.tap(p, tap);
        let place = p.add(&begin, &tap);
        p.sub(&place, &low)
    }
}

/// From the first to the last of `size` elements that are `dilation` apart, both
/// included; 0 of none.
pub(super) fn dilated<P: Provider>(p: &mut P, size: &P::Index, dilation: i64) -> P::Index {
    if dilation == 1 {
        return size.clone();
    }
    let (zero, one, dilation) = (p.literal(0), p.literal(1), p.literal(dilation));
    let gaps = p.sub(size, &one);
    let span = p.mul(&gaps, &dilation);
    let extent = p.add(&span, &one);
    p.max(&extent, &zero)
}

/// `low + size + high`.
pub(super) fn padded<P: Provider>(p: &mut P, size: &P::Index, low: i64, high: i64) -> P::Index {
    let (low, high) = (p.literal(low), p.literal(high));
    let sum = p.add(size, &low);
    p.add(&sum, &high)
}
