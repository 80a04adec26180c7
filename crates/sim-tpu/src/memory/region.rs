//! Boxes of array elements, and sets of them.
//!
//! The machine keeps what it knows of a buffer's elements (initialised, padding) as disjoint boxes:
//! blocks are written and read as boxes, so the sets stay small, and whether two accesses overlap
//! is one comparison for each dimension. Within one buffer, boxes of elements and runs of bytes
//! carry the same information, but under a tiled layout only the boxes are few.

use smallvec::SmallVec;

/// A box of indices: `low[d] <= i < high[d]` along each dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) low: SmallVec<[i64; 4]>,
    pub(crate) high: SmallVec<[i64; 4]>,
}

impl Region {
    /// Advances an index of the box to the next one, the last dimension fastest; returns false
    /// after the last index.
    pub(crate) fn advance(&self, index: &mut [i64]) -> bool {
        let next = (0..index.len())
            .rev()
            .find(|&d| index[d] + 1 < self.high[d]);
        let Some(next) = next else { return false };
        index[next] += 1;
        index[next + 1..].copy_from_slice(&self.low[next + 1..]);
        true
    }

    /// The box of all elements of an array.
    pub(crate) fn whole(dims: &[i64]) -> Self {
        Self {
            low: SmallVec::from_elem(0, dims.len()),
            high: dims.into(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.low.iter().zip(&self.high).any(|(l, h)| l >= h)
    }

    pub(crate) fn elements(&self) -> i64 {
        let sizes = self.low.iter().zip(&self.high).map(|(l, h)| (h - l).max(0));
        sizes.fold(1, i64::saturating_mul)
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        let ends = self.low.iter().zip(&self.high);
        let mut pairs = ends.zip(other.low.iter().zip(&other.high));
        pairs.all(|((l, h), (ol, oh))| l.max(ol) < h.min(oh))
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        let ends = self.low.iter().zip(&self.high);
        let mut pairs = ends.zip(other.low.iter().zip(&other.high));
        pairs.all(|((l, h), (ol, oh))| l <= ol && oh <= h)
    }

    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let low = self.low.iter().zip(&other.low).map(|(a, b)| *a.max(b));
        let high = self.high.iter().zip(&other.high).map(|(a, b)| *a.min(b));
        Self {
            low: low.collect(),
            high: high.collect(),
        }
    }

    /// The rest of this box without the other, as disjoint boxes.
    fn without(&self, other: &Self, out: &mut Vec<Self>) {
        if !self.meets(other) {
            out.push(self.clone());
            return;
        }
        let mut rest = self.clone();
        for d in 0..self.low.len() {
            if rest.low[d] < other.low[d] {
                let mut piece = rest.clone();
                piece.high[d] = other.low[d];
                rest.low[d] = other.low[d];
                out.push(piece);
            }
            if rest.high[d] > other.high[d] {
                let mut piece = rest.clone();
                piece.low[d] = other.high[d];
                rest.high[d] = other.high[d];
                out.push(piece);
            }
        }
    }

    /// The union of both boxes, if it is a box.
    fn joined(&self, other: &Self) -> Option<Self> {
        let mut along = None;
        for d in 0..self.low.len() {
            if self.low[d] == other.low[d] && self.high[d] == other.high[d] {
                continue;
            }
            let touch = self.high[d] == other.low[d] || other.high[d] == self.low[d];
            if along.is_some() || !touch {
                return None;
            }
            along = Some(d);
        }
        let mut joined = self.clone();
        if let Some(d) = along {
            joined.low[d] = joined.low[d].min(other.low[d]);
            joined.high[d] = joined.high[d].max(other.high[d]);
        }
        Some(joined)
    }
}

impl Region {
    /// The box without some of its dimensions.
    pub(crate) fn without_dimensions(&self, dimensions: &[usize]) -> Self {
        let left = |ends: &[i64]| {
            let ends = ends.iter().enumerate();
            let left = ends.filter(|(d, _)| !dimensions.contains(d));
            left.map(|(_, end)| *end).collect()
        };
        Self {
            low: left(&self.low),
            high: left(&self.high),
        }
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (d, (low, high)) in self.low.iter().zip(&self.high).enumerate() {
            if d > 0 {
                f.write_str(", ")?;
            }
            if high - low == 1 {
                write!(f, "{low}")?;
            } else {
                write!(f, "{low}..{high}")?;
            }
        }
        f.write_str("]")
    }
}

/// The most boxes of a set; see [`Regions::insert`].
const MAX_BOXES: usize = 4096;

/// A set of elements of one array, as disjoint boxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions {
    boxes: Vec<Region>,
    /// Set once the set would have taken too many boxes; from then on it counts as holding all
    /// elements.
    all: bool,
}

impl Regions {
    pub(crate) fn is_empty(&self) -> bool {
        self.boxes.is_empty() && !self.all
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a box. A set that would take more than [`MAX_BOXES`] boxes becomes the set of all
    /// elements.
    pub(crate) fn insert(&mut self, region: &Region) {
        if self.all || region.is_empty() || self.boxes.iter().any(|b| b.contains(region)) {
            return;
        }
        self.remove(region);
        let mut added = region.clone();
        // Each join removes a box.
        while let Some(position) = self.boxes.iter().position(|b| b.joined(&added).is_some()) {
            let other = self.boxes.swap_remove(position);
            added = other.joined(&added).unwrap_or(added);
        }
        self.boxes.push(added);
        if self.boxes.len() > MAX_BOXES {
            self.boxes.clear();
            self.all = true;
        }
    }

    /// Removes the elements of a box.
    pub(crate) fn remove(&mut self, region: &Region) {
        if region.is_empty() || !self.boxes.iter().any(|b| b.meets(region)) {
            return;
        }
        let mut left = Vec::with_capacity(self.boxes.len());
        for b in &self.boxes {
            b.without(region, &mut left);
        }
        self.boxes = left;
    }

    pub(crate) fn meets(&self, region: &Region) -> bool {
        self.all || self.boxes.iter().any(|b| b.meets(region))
    }

    /// A part of the box that is not in the set, if there is one.
    pub(crate) fn missing(&self, region: &Region) -> Option<Region> {
        if self.all || region.is_empty() || self.boxes.iter().any(|b| b.contains(region)) {
            return None;
        }
        let mut left = vec![region.clone()];
        for b in self.boxes.iter().filter(|b| b.meets(region)) {
            let mut next = Vec::with_capacity(left.len());
            for piece in &left {
                piece.without(b, &mut next);
            }
            left = next;
            if left.is_empty() {
                return None;
            }
        }
        left.into_iter().next()
    }

    /// The parts of the set inside a box.
    pub(crate) fn within(&self, region: &Region) -> Vec<Region> {
        if self.all {
            return vec![region.clone()];
        }
        let parts = self.boxes.iter().filter(|b| b.meets(region));
        parts.map(|b| b.intersect(region)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: &mut u64, size: i64) -> Region {
        let mut next = || {
            *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (*seed >> 33) as i64 % (size + 1)
        };
        let mut region = Region::default();
        for _ in 0..2 {
            let (a, b) = (next(), next());
            region.low.push(a.min(b));
            region.high.push(a.max(b));
        }
        region
    }

    fn cells(region: &Region) -> impl Iterator<Item = (i64, i64)> {
        let (r, c) = (region.low[0]..region.high[0], region.low[1]..region.high[1]);
        r.flat_map(move |r| c.clone().map(move |c| (r, c)))
    }

    #[test]
    fn sets_of_boxes_are_sets_of_elements() {
        let mut seed = 7;
        for _ in 0..200 {
            let (mut set, mut oracle) = (Regions::default(), std::collections::BTreeSet::new());
            for step in 0..12 {
                let region = random(&mut seed, 9);
                if step % 3 == 2 {
                    set.remove(&region);
                    oracle.retain(|cell| !cells(&region).any(|c| c == *cell));
                } else {
                    set.insert(&region);
                    oracle.extend(cells(&region));
                }
                let asked = random(&mut seed, 9);
                let covered = cells(&asked).all(|cell| oracle.contains(&cell));
                assert_eq!(set.missing(&asked).is_none(), covered);
                let met = cells(&asked).any(|cell| oracle.contains(&cell));
                assert_eq!(set.meets(&asked), met && !asked.is_empty());
                let elements: i64 = set.boxes.iter().map(Region::elements).sum();
                assert_eq!(elements as usize, oracle.len());
            }
        }
    }

    #[test]
    fn blocks_become_one_box() {
        let mut set = Regions::default();
        for i in 0..8 {
            for j in 0..4 {
                set.insert(&Region {
                    low: [i * 8, j * 128].as_slice().into(),
                    high: [i * 8 + 8, j * 128 + 128].as_slice().into(),
                });
            }
        }
        assert_eq!(set.boxes.len(), 1);
    }
}
