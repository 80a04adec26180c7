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

    /// The window seen from the base, [counted from its begin](Self::from_begin): where its
    /// position `p` and tap `t` meet is the position of this window one of whose taps is at
    /// element `p`. Ascending taps meet ascending positions. Padding behind is 0: how many
    /// positions there are is what it is asked with.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let last = (self.size - 1).saturating_mul(self.window_dilation);
        Self {
            stride: self.base_dilation,
            padding_low: last.saturating_sub(self.padding_low),
            padding_high: 0,
            base_dilation: self.stride,
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

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_expr::numbers;

    /// All positions of a window with a tap at an element, by asking each.
    fn over(window: &WindowDim, [base, positions]: [i64; 2], element: i64) -> Vec<i64> {
        let has_tap = |&position: &i64| {
            (0..window.size).any(|tap| {
                let size = Ok(base);
                let (at, inside) = window.meet(&mut numbers(), &size, &Ok(position), &Ok(tap));
                inside == Ok(1) && at == Ok(element)
            })
        };
        (0..positions).filter(has_tap).collect()
    }

    #[test]
    fn a_transposed_window_meets_the_positions_over_an_element_in_order() {
        let (base, positions) = (7, 9);
        for case in 0..4 * 3 * 3 * 3 * 5 {
            let window = WindowDim {
                size: 1 + case % 4,
                stride: 1 + case / 4 % 3,
                base_dilation: 1 + case / 12 % 3,
                window_dilation: 1 + case / 36 % 3,
                padding_low: case / 108 - 2,
                padding_high: 3,
                reversal: case % 2 == 1,
            };
            let transposed = window.transposed();
            for element in 0..base {
                let met: Vec<i64> = (0..window.size)
                    .filter_map(|tap| {
                        let size = Ok(positions);
                        let (position, inside) =
                            transposed.meet(&mut numbers(), &size, &Ok(element), &Ok(tap));
                        (inside == Ok(1)).then(|| position.expect("a number"))
                    })
                    .collect();
                let expected = over(&window, [base, positions], element);
                assert_eq!(met, expected, "{window:?}, element {element}");
            }
        }
    }
}
