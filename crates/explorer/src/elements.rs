//! Sets of an array's elements.

/// A set of elements, each identified by its row-major number.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    bits: Vec<u64>,
    /// The number of elements in the set.
    pub(crate) count: usize,
    /// Whether every element is certainly needed; if not, the set is a superset.
    pub(crate) exact: bool,
    /// Why the set is not exact.
    pub(crate) note: Option<String>,
}

impl Elements {
    pub(crate) fn none(size: usize) -> Self {
        Self {
            bits: vec![0; size.div_ceil(64)],
            count: 0,
            exact: true,
            note: None,
        }
    }

    pub(crate) fn insert(&mut self, number: usize) {
        if let Some(word) = self.bits.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.count += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub(crate) fn insert_all(&mut self, size: usize) {
        if self.count < size {
            (0..size).for_each(|number| self.insert(number));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.bits.iter().enumerate();
        words.flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| at * 64 + bit)
        })
    }

    /// Adds the elements of another set; returns whether any of them was new.
    pub(crate) fn union(&mut self, other: &Self) -> bool {
        let before = self.count;
        for (word, more) in self.bits.iter_mut().zip(&other.bits) {
            *word |= more;
        }
        self.count = self
            .bits
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum();
        self.exact &= other.exact;
        if self.note.is_none() {
            self.note.clone_from(&other.note);
        }
        self.count > before
    }

    /// Marks the set as a superset. The first note is kept.
    pub(crate) fn at_most(&mut self, note: &str) {
        self.exact = false;
        self.note.get_or_insert_with(|| note.to_owned());
    }
}

/// Writes the index of a row-major number to the first entries of `point`.
pub(crate) fn unravel(mut number: usize, dims: &[i64], point: &mut [i64]) {
    for (at, &size) in dims.iter().enumerate().rev() {
        let size = usize::try_from(size).unwrap_or(1).max(1);
        point[at] = (number % size) as i64;
        number /= size;
    }
}

/// The row-major number of an index; `None` if it is out of bounds.
pub(crate) fn ravel(index: &[i64], dims: &[i64]) -> Option<usize> {
    let inside = index
        .iter()
        .zip(dims)
        .all(|(&i, &size)| (0..size).contains(&i));
    let number = index
        .iter()
        .zip(dims)
        .fold(0, |n, (&i, &size)| n * size + i);
    (inside && index.len() == dims.len()).then(|| usize::try_from(number).ok())?
}
