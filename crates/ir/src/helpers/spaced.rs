//! Elements at equal distances.

use tegula_expr::Provider;

/// Elements a constant step apart: element `i` lies at `first + i * step`.
///
/// The elements that a slice takes lie so in its operand, those of an array in what it
/// is padded to, windows in the padded base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spaced {
    /// Where element 0 lies.
    pub first: i64,
    /// From one element to the next; at least 1.
    pub step: i64,
}

impl Spaced {
    /// Where an element lies.
    pub fn place<P: Provider>(&self, p: &mut P, element: &P::Index) -> P::Index {
        let (first, step) = (p.literal(self.first), p.literal(self.step));
        let steps = p.mul(element, &step);
        p.add(&steps, &first)
    }

    /// How far a place is behind element 0.
    pub fn distance<P: Provider>(&self, p: &mut P, place: &P::Index) -> P::Index {
        let first = p.literal(self.first);
        p.sub(place, &first)
    }

    /// The element that lies at this distance from element 0, and the rest that is 0 if
    /// there is one.
    pub fn element<P: Provider>(&self, p: &mut P, distance: &P::Index) -> (P::Index, P::Index) {
        let step = p.literal(self.step);
        (p.floor_div(distance, &step), p.modulo(distance, &step))
    }

    /// How far the last of so many elements is behind element 0; negative of none.
    pub fn span<P: Provider>(&self, p: &mut P, count: &P::Index) -> P::Index {
        let (one, step) = (p.literal(1), p.literal(self.step));
        let last = p.sub(count, &one);
        p.mul(&last, &step)
    }
}
