//! Elements at equal distances.

use tegula_expr::Provider;

/// Elements at equal distances: element `i` is at position `first + i * step`.
///
/// Examples are the elements that a slice takes from its operand, the elements of an array within
/// its padded form, and the positions of a window in the padded base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spaced {
    /// The position of element 0.
    pub first: i64,
    /// The distance between adjacent elements; at least 1.
    pub step: i64,
}

impl Spaced {
    /// The position of an element.
    pub fn place<P: Provider>(&self, p: &mut P, element: &P::Index) -> P::Index {
        let (first, step) = (p.literal(self.first), p.literal(self.step));
        let steps = p.mul(element, &step);
        p.add(&steps, &first)
    }

    /// The distance from element 0 to a position.
    pub fn distance<P: Provider>(&self, p: &mut P, place: &P::Index) -> P::Index {
        let first = p.literal(self.first);
        p.sub(place, &first)
    }

    /// The element at this distance from element 0, and the remainder of the division, which is 0
    /// if there is an element there.
    pub fn element<P: Provider>(&self, p: &mut P, distance: &P::Index) -> (P::Index, P::Index) {
        let step = p.literal(self.step);
        (p.floor_div(distance, &step), p.modulo(distance, &step))
    }

    /// The distance from element 0 to the last of `count` elements; negative if there are none.
    pub fn span<P: Provider>(&self, p: &mut P, count: &P::Index) -> P::Index {
        let (one, step) = (p.literal(1), p.literal(self.step));
        let last = p.sub(count, &one);
        p.mul(&last, &step)
    }
}
