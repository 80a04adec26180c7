//! Sizes and positions of windows.

use super::Spaced;
use crate::WindowDim;
use tegula_expr::{Cmp, Provider};

/// The sizes of a window along one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSizes<I> {
    /// The dilated size of the base: `(size - 1) * base_dilation + 1`, or 0 if it is empty.
    pub dilated: I,
    /// The dilated size with the padding on both sides; negative padding crops. It must not be
    /// negative.
    pub padded: I,
    /// The dilated size of the window: `(window_size - 1) * window_dilation + 1`.
    pub extent: I,
    /// The number of positions of the window: `floor((padded - extent) / stride) + 1`, or 0.
    pub positions: I,
}

impl WindowDim {
    /// Whether the size is not negative, and strides and dilations are positive.
    pub fn is_possible(&self) -> bool {
        let positive = [self.stride, self.base_dilation, self.window_dilation];
        self.size >= 0 && positive.iter().all(|&value| value >= 1)
    }

    /// The sizes of the window along a dimension of this size.
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
        // An empty base has no positions, not even for a window without elements.
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

    /// The distance of a tap from the window's begin: `tap * window_dilation`, counted from the end
    /// if the window is reversed.
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

    /// The positions of the base's elements in the dilated base.
    pub fn base(&self) -> Spaced {
        Spaced {
            first: 0,
            step: self.base_dilation,
        }
    }

    /// The same window with taps counted from its begin, also if it is reversed.
    #[must_use]
    pub fn from_begin(&self) -> Self {
        Self {
            reversal: false,
            ..*self
        }
    }

    /// The transposed window, which maps elements of the base to window positions; its taps are
    /// [counted from its begin](Self::from_begin). The element at which its position `p` and tap
    /// `t` meet is the position of this window that has a tap on element `p`. Ascending taps give
    /// ascending positions. Padding after the end is 0, because it affects only the number of
    /// positions, which the caller supplies.
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

    /// The distance from a tap of the window's first position to a place in the dilated base.
    /// Divided by the stride, without remainder, it is the position that has this tap at the place.
    pub fn distance<P: Provider>(&self, p: &mut P, place: &P::Index, tap: &P::Index) -> P::Index {
        let low = p.literal(self.padding_low);
        let tap = self.tap(p, tap);
        let begin = p.sub(place, &tap);
        p.add(&begin, &low)
    }

    /// The element of a base of this size at which a position has a tap, and 1 if there is such an
    /// element, otherwise 0: taps in the padding and between dilated elements have none.
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

    /// The place in the dilated base of a tap of a position; outside of the base if it is in the
    /// padding.
    pub fn place<P: Provider>(&self, p: &mut P, position: &P::Index, tap: &P::Index) -> P::Index {
        let (stride, low) = (p.literal(self.stride), p.literal(self.padding_low));
        let begin = p.mul(position, &stride);
        let tap = self.tap(p, tap);
        let place = p.add(&begin, &tap);
        p.sub(&place, &low)
    }
}

/// The extent of `size` elements at distance `dilation`, from the first to the last inclusive; 0 if
/// there are none.
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

    /// All positions of a window that have a tap on an element, found by trying each.
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
