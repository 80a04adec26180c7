//! Maps parts of reshaped memory to parts of the original memory.
//!
//! A reshape splits a dimension into several, or joins several. A part of the new shape that is a
//! box of the old one is converted to that box, so that accesses to it are checked like any other.

use super::Size;
use crate::program::SliceEntry;
use tegula_expr::{Cmp, Term};

/// A box of memory, in the memory's own shape.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The first element along each dimension.
    pub(super) starts: Vec<Term>,
    /// The number of elements along each dimension.
    pub(super) sizes: Vec<Size>,
    /// Terms that must be nonzero for the part to be a box: no dimension's end is crossed.
    pub(super) conditions: Vec<Term>,
}

impl Part {
    fn push(&mut self, start: Term, size: Size) {
        self.starts.push(start);
        self.sizes.push(size);
    }

    fn whole(&mut self, sizes: &[i64]) {
        for size in sizes {
            self.push(Term::constant(0), Size::Known(*size));
        }
    }

    /// Adds a condition; returns `None` if it never holds.
    fn require(&mut self, condition: Term) -> Option<()> {
        match condition.as_constant() {
            Some(0) => return None,
            Some(_) => {}
            None => self.conditions.push(condition),
        }
        Some(())
    }

    fn append(&mut self, mut other: Self) {
        self.starts.append(&mut other.starts);
        self.sizes.append(&mut other.sizes);
        self.conditions.append(&mut other.conditions);
    }
}

/// Converts a part of a shape `dims` to a part of the memory, whose own shape is `sizes`. `entries`
/// has one entry for each of `dims`. `None` if the part is not a box there.
pub(super) fn in_own_shape(sizes: &[i64], dims: &[i64], entries: &[SliceEntry]) -> Option<Part> {
    let mut made = Part::default();
    for (own, new) in groups(sizes, dims)? {
        let (dims, entries) = (&dims[new.clone()], &entries[new]);
        let own = &sizes[own];
        let long: Vec<i64> = own.iter().copied().filter(|size| *size != 1).collect();
        let part = match long[..] {
            [] => split(1, dims, entries),
            [size] => split(size, dims, entries),
            _ => joined(&long, dims, entries),
        }?;
        // Dimensions of size 1 stay as they are.
        let Part {
            starts,
            sizes,
            conditions,
        } = part;
        let mut pairs = starts.into_iter().zip(sizes);
        for (d, size) in own.iter().enumerate() {
            let (start, size) = match *size != 1 || long.is_empty() && d == 0 {
                true => pairs.next()?,
                false => (Term::constant(0), Size::Known(1)),
            };
            made.push(start, size);
        }
        made.conditions.extend(conditions);
    }
    Some(made)
}

type Range = std::ops::Range<usize>;

/// Groups the dimensions of both shapes, such that each pair of groups has the same elements;
/// groups are as small as possible.
fn groups(sizes: &[i64], dims: &[i64]) -> Option<Vec<(Range, Range)>> {
    let known = |sizes: &[i64]| sizes.iter().all(|size| *size > 0);
    if !known(sizes) || !known(dims) {
        return None;
    }
    let mut found = Vec::new();
    let (mut at, mut to) = (0, 0);
    while at < sizes.len() && to < dims.len() {
        let (first, second) = (at, to);
        let (mut own, mut new) = (sizes[at], dims[to]);
        (at, to) = (at + 1, to + 1);
        while own != new {
            let (product, list, next) = match own < new {
                true => (&mut own, sizes, &mut at),
                false => (&mut new, dims, &mut to),
            };
            *product = product.checked_mul(*list.get(*next)?)?;
            *next += 1;
        }
        found.push((first..at, second..to));
    }
    // Remaining dimensions of size 1 join the last groups.
    let ones = |rest: &[i64]| rest.iter().all(|size| *size == 1);
    if !ones(&sizes[at..]) || !ones(&dims[to..]) {
        return None;
    }
    match found.last_mut() {
        Some((own, new)) => {
            own.end = sizes.len();
            new.end = dims.len();
        }
        None if sizes.is_empty() && dims.is_empty() => {}
        None => return None,
    }
    Some(found)
}

/// The row-major strides of a shape.
fn steps(dims: &[i64]) -> Vec<i64> {
    let mut steps = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        steps[d - 1] = steps[d] * dims[d];
    }
    steps
}

fn is_all(entry: &SliceEntry, whole: i64) -> bool {
    match entry {
        SliceEntry::Whole => true,
        SliceEntry::Range { start, size, .. } => *size == whole && start.as_constant() == Some(0),
        SliceEntry::Element(start) => whole == 1 && start.as_constant() == Some(0),
        SliceEntry::Sized { .. } => false,
    }
}

/// Converts a part of the dimensions that one dimension was split into: single indices, then a
/// range, then whole dimensions.
fn split(size: i64, dims: &[i64], entries: &[SliceEntry]) -> Option<Part> {
    let mut made = Part::default();
    let mut pairs = entries.iter().zip(dims);
    if pairs.all(|(entry, whole)| is_all(entry, *whole)) {
        made.whole(&[size]);
        return Some(made);
    }
    let mut first = Term::constant(0);
    let mut range = None;
    for ((entry, &whole), step) in entries.iter().zip(dims).zip(steps(dims)) {
        if range.is_some() {
            if !is_all(entry, whole) {
                return None;
            }
            continue;
        }
        let (start, size) = match entry {
            SliceEntry::Whole => (Term::constant(0), Size::Known(whole)),
            SliceEntry::Element(start) => (start.clone(), Size::One),
            SliceEntry::Range { start, size, .. } => (start.clone(), Size::Known(*size)),
            SliceEntry::Sized { start, size } => (start.clone(), Size::AtRunTime(size.clone())),
        };
        first = &first + &(start * step);
        range = match size {
            Size::One | Size::Known(1) => None,
            Size::Known(size) => Some(Size::Known(size.checked_mul(step)?)),
            Size::AtRunTime(size) => Some(Size::AtRunTime(size * step)),
        };
    }
    let single = entries
        .iter()
        .all(|entry| matches!(entry, SliceEntry::Element(_)));
    let size = match single {
        true => Size::One,
        false => range.unwrap_or(Size::Known(1)),
    };
    made.push(first, size);
    Some(made)
}

/// Converts a part of one dimension that several were joined to, or all of several.
fn joined(sizes: &[i64], dims: &[i64], entries: &[SliceEntry]) -> Option<Part> {
    let pairs = || entries.iter().zip(dims);
    if pairs().all(|(entry, whole)| is_all(entry, *whole)) {
        let mut made = Part::default();
        made.whole(sizes);
        return Some(made);
    }
    let mut long = pairs().filter(|(_, whole)| **whole != 1);
    let (entry, _) = long.next()?;
    if long.next().is_some() {
        return None;
    }
    match entry {
        SliceEntry::Whole => None,
        SliceEntry::Element(start) => run(sizes, start, &Size::One),
        SliceEntry::Range { start, size, .. } => run(sizes, start, &Size::Known(*size)),
        SliceEntry::Sized { start, size } => run(sizes, start, &Size::AtRunTime(size.clone())),
    }
}

/// Converts consecutive elements of joined dimensions: whole rows of the first dimension, or a part
/// of one row.
fn run(sizes: &[i64], start: &Term, size: &Size) -> Option<Part> {
    let mut made = Part::default();
    let (_, inner) = sizes.split_first()?;
    if inner.is_empty() {
        made.push(start.clone(), size.clone());
        return Some(made);
    }
    let row: i64 = inner.iter().product();
    let rows = match size {
        Size::One => None,
        Size::Known(size) => (size % row == 0).then(|| Size::Known(size / row)),
        Size::AtRunTime(size) => quotient(size, row).map(Size::AtRunTime),
    };
    let by = Term::constant(row);
    let within = start.modulo(&by);
    if let Some(rows) = rows {
        match quotient(start, row) {
            Some(first) => made.push(first, rows),
            None => {
                made.push(start.floor_div(&by), rows);
                made.require(Term::cmp(Cmp::Eq, &within, &Term::constant(0)))?;
            }
        }
        made.whole(inner);
        return Some(made);
    }
    let end = match size {
        Size::One => None,
        Size::Known(size) => Some(&within + *size),
        Size::AtRunTime(size) => Some(&within + size),
    };
    if let Some(end) = end {
        made.require(Term::cmp(Cmp::Le, &end, &by))?;
    }
    made.push(start.floor_div(&by), Size::One);
    made.append(run(inner, &within, size)?);
    Some(made)
}

/// A term divided by a number, if it is a sum of multiples of that number.
fn quotient(term: &Term, by: i64) -> Option<Term> {
    let (terms, constant) = term.as_linear()?;
    let divided = |number: i64| (number % by == 0).then(|| number / by);
    let mut sum = Term::constant(divided(constant)?);
    for (atom, factor) in terms {
        sum = &sum + &(atom.clone() * divided(factor)?);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_expr::Var;

    fn range(start: i64, size: i64) -> SliceEntry {
        SliceEntry::Range {
            start: Term::constant(start),
            size,
            clipped: false,
        }
    }

    fn element(at: i64) -> SliceEntry {
        SliceEntry::Element(Term::constant(at))
    }

    /// First elements and sizes; 0 for a dimension that is dropped.
    fn made(sizes: &[i64], dims: &[i64], entries: &[SliceEntry]) -> Option<Vec<(i64, i64)>> {
        let part = in_own_shape(sizes, dims, entries)?;
        assert!(part.conditions.is_empty());
        let sizes = part.sizes.iter().map(|size| match size {
            Size::One => 0,
            Size::Known(size) => *size,
            Size::AtRunTime(_) => -1,
        });
        let starts = part.starts.iter().map(|start| start.as_constant().unwrap());
        Some(starts.zip(sizes).collect())
    }

    #[test]
    fn parts_of_a_split_dimension() {
        let whole = SliceEntry::Whole;
        let entries = [range(2, 3), whole.clone(), range(128, 128)];
        let found = made(&[64, 256], &[8, 8, 256], &entries);
        assert_eq!(found, Some(vec![(16, 24), (128, 128)]));
        let entries = [element(1), range(4, 2), whole.clone()];
        let found = made(&[64, 128], &[4, 16, 128], &entries);
        assert_eq!(found, Some(vec![(20, 2), (0, 128)]));
        let entries = [element(3), element(5), whole.clone()];
        let found = made(&[64, 128], &[4, 16, 128], &entries);
        assert_eq!(found, Some(vec![(53, 0), (0, 128)]));
        // Every other half is not a box.
        let entries = [whole.clone(), range(0, 8), whole];
        assert_eq!(made(&[64, 128], &[4, 16, 128], &entries), None);
    }

    #[test]
    fn parts_of_joined_dimensions() {
        let whole = SliceEntry::Whole;
        let found = made(&[4, 16, 128], &[64, 128], &[range(16, 32), whole.clone()]);
        assert_eq!(found, Some(vec![(1, 2), (0, 16), (0, 128)]));
        let found = made(&[4, 16, 128], &[64, 128], &[element(37), whole.clone()]);
        assert_eq!(found, Some(vec![(2, 0), (5, 0), (0, 128)]));
        let inner = [range(20, 12), whole.clone()];
        let found = made(&[4, 16, 128], &[64, 128], &inner);
        assert_eq!(found, Some(vec![(1, 0), (4, 12), (0, 128)]));
        let crossing = [range(8, 12), whole.clone()];
        assert_eq!(made(&[4, 16, 128], &[64, 128], &crossing), None);
        let start = Term::var(Var(0)) * 32;
        let moved = SliceEntry::Range {
            start,
            size: 16,
            clipped: false,
        };
        let part = in_own_shape(&[4, 16, 128], &[64, 128], &[moved, whole]).unwrap();
        assert_eq!(part.starts[0], Term::var(Var(0)) * 2);
        assert!(part.conditions.is_empty());
    }

    #[test]
    fn sizes_that_are_known_at_run_time() {
        let size = Term::var(Var(0));
        let sized = SliceEntry::Sized {
            start: Term::constant(2),
            size: size.clone(),
        };
        let entries = [sized.clone(), SliceEntry::Whole, SliceEntry::Whole];
        let part = in_own_shape(&[64, 128], &[8, 8, 128], &entries).unwrap();
        assert_eq!(part.starts[0].as_constant(), Some(16));
        assert!(matches!(&part.sizes[0], Size::AtRunTime(term) if *term == size.clone() * 8));
        // A part of a row, if it does not cross the row's end.
        let entries = [sized, SliceEntry::Whole];
        let part = in_own_shape(&[8, 8, 128], &[64, 128], &entries).unwrap();
        let holds = |n| part.conditions[0].eval(&|_| Some(n)).unwrap() != 0;
        assert!(holds(6) && !holds(7) && part.conditions.len() == 1);
        assert!(matches!(
            part.sizes[..],
            [Size::One, Size::AtRunTime(_), Size::Known(128)]
        ));
    }

    #[test]
    fn dimensions_of_size_1() {
        let whole = SliceEntry::Whole;
        let found = made(&[1, 64, 1], &[64], &[range(3, 5)]);
        assert_eq!(found, Some(vec![(0, 1), (3, 5), (0, 1)]));
        let found = made(&[64], &[1, 64, 1], &[whole.clone(), range(3, 5), whole]);
        assert_eq!(found, Some(vec![(3, 5)]));
    }
}
