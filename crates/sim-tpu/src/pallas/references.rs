//! References to memory, and their translation to slices of buffers.

mod reshapes;

use super::{Error, Made};
use crate::program::{BufferId, Slice, SliceEntry, View};
use reshapes::in_own_shape;
use tegula_expr::Term;
use tegula_mosaic::ir::Operation;
use tegula_mosaic::types::Element;

/// A reference: a part of a buffer, which may be reshaped and divided further.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) buffer: BufferId,
    /// The successive shapes, each with the part that is taken of it; the buffer's own shape comes
    /// first.
    stages: Vec<(Vec<i64>, Vec<SliceEntry>)>,
    /// The buffer's element type, and the type that its bits are read as, if they differ.
    pub(super) words: Option<Words>,
}

/// Stands for a size that is known only at run time, as in MLIR.
pub(super) const AT_RUN_TIME: i64 = i64::MIN;

/// The number of elements of a part along a dimension.
#[derive(Clone, Debug)]
pub(super) enum Size {
    /// One element; the part drops the dimension.
    One,
    Known(i64),
    AtRunTime(Term),
}

impl From<Option<i64>> for Size {
    /// `None` drops the dimension.
    fn from(size: Option<i64>) -> Self {
        size.map_or(Self::One, Self::Known)
    }
}

/// Memory read as elements of another width; they are packed along its second-minor dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub(super) inner: Element,
    outer: Element,
}

impl Words {
    /// The packed dimension.
    fn packed(rank: usize) -> usize {
        rank.saturating_sub(2)
    }

    /// The sizes in elements of the buffer.
    pub(super) fn inner_dims(self, dims: &[i64]) -> Vec<i64> {
        let mut dims = dims.to_vec();
        let at = Self::packed(dims.len());
        if let Some(size) = dims.get_mut(at).filter(|size| **size != AT_RUN_TIME) {
            *size = *size * i64::from(self.outer.bits()) / i64::from(self.inner.bits()).max(1);
        }
        dims
    }

    /// Converts an index or size along the packed dimension to elements of the buffer.
    fn inner_term(self, start: &Term) -> Term {
        let (inner, outer) = (i64::from(self.inner.bits()), i64::from(self.outer.bits()));
        match outer >= inner {
            true => start.clone() * (outer / inner.max(1)),
            false => start.floor_div(&Term::constant(inner / outer.max(1))),
        }
    }
}

fn size_of(entry: &SliceEntry, whole: i64) -> Option<i64> {
    match entry {
        SliceEntry::Whole => Some(whole),
        SliceEntry::Element(_) => None,
        SliceEntry::Range { size, .. } => Some(*size),
        SliceEntry::Sized { .. } => Some(AT_RUN_TIME),
    }
}

fn start_of(entry: &SliceEntry) -> Term {
    match entry {
        SliceEntry::Whole => Term::constant(0),
        SliceEntry::Element(start)
        | SliceEntry::Range { start, .. }
        | SliceEntry::Sized { start, .. } => start.clone(),
    }
}

/// Replaces a strided part by the box from its first element to its last, and returns the part
/// relative to that box.
fn spanned(
    (dims, entries): &mut (Vec<i64>, Vec<SliceEntry>),
    strides: &[i64],
) -> (Vec<i64>, Vec<SliceEntry>) {
    let mut given = strides.iter();
    let (mut spans, mut parts) = (Vec::new(), Vec::new());
    for (entry, whole) in entries.iter_mut().zip(dims.iter()) {
        let Some(size) = size_of(entry, *whole) else {
            continue;
        };
        let stride = given.next().copied().unwrap_or(1);
        let span = (size - 1).max(0).saturating_mul(stride).saturating_add(1);
        if stride == 1 {
            spans.push(size);
            parts.push(SliceEntry::Whole);
            continue;
        }
        let range = |start, size| SliceEntry::Range {
            start,
            size,
            clipped: false,
        };
        *entry = range(start_of(entry), span);
        spans.push(span);
        parts.push(range(Term::constant(0), size));
    }
    (spans, parts)
}

impl Reference {
    /// A reference to all of a buffer with these sizes.
    pub(super) fn whole(buffer: BufferId, dims: &[i64]) -> Self {
        let entries = dims.iter().map(|_| SliceEntry::Whole).collect();
        Self {
            buffer,
            stages: vec![(dims.to_vec(), entries)],
            words: None,
        }
    }

    /// The dimensions of the buffer in which a single index is selected.
    pub(super) fn left_out(&self) -> Vec<usize> {
        let entries = self.stages.first().map_or(&[][..], |(_, entries)| entries);
        let entries = entries.iter().enumerate();
        let single = entries.filter(|(_, entry)| matches!(entry, SliceEntry::Element(_)));
        single.map(|(d, _)| d).collect()
    }

    fn last(&mut self) -> Option<&mut (Vec<i64>, Vec<SliceEntry>)> {
        self.stages.last_mut()
    }

    /// The same memory read as elements of another type.
    pub(super) fn as_words(&self, from: Element, to: Element) -> Self {
        let inner = self.words.map_or(from, |words| words.inner);
        let words = Words { inner, outer: to };
        Self {
            words: (inner != to).then_some(words),
            ..self.clone()
        }
    }

    /// The sizes, in elements of the buffer.
    pub(super) fn dims(&self) -> Vec<i64> {
        self.stages.last().map_or_else(Vec::new, |(dims, entries)| {
            let pairs = entries.iter().zip(dims);
            pairs
                .filter_map(|(entry, whole)| size_of(entry, *whole))
                .collect()
        })
    }

    /// The part that begins at `starts` and has `sizes` elements along each dimension.
    pub(super) fn part(&self, starts: &[Term], sizes: &[Size]) -> Self {
        if let Some(words) = self.words {
            return self.part_of_words(words, starts, sizes);
        }
        let mut made = self.clone();
        let Some((dims, entries)) = made.last() else {
            return made;
        };
        let mut given = starts.iter().zip(sizes);
        for (entry, whole) in entries.iter_mut().zip(dims.iter()) {
            if matches!(entry, SliceEntry::Element(_)) {
                continue;
            }
            let Some((start, size)) = given.next() else {
                break;
            };
            let is_whole = *entry == SliceEntry::Whole;
            let start = &start_of(entry) + start;
            *entry = match size {
                Size::One => SliceEntry::Element(start),
                Size::Known(size)
                    if is_whole && size == whole && start.as_constant() == Some(0) =>
                {
                    SliceEntry::Whole
                }
                Size::Known(size) => SliceEntry::Range {
                    start,
                    size: *size,
                    clipped: false,
                },
                Size::AtRunTime(size) => SliceEntry::Sized {
                    start,
                    size: size.clone(),
                },
            };
        }
        made
    }

    fn part_of_words(&self, words: Words, starts: &[Term], sizes: &[Size]) -> Self {
        let (mut starts, mut sizes) = (starts.to_vec(), sizes.to_vec());
        let at = Words::packed(starts.len());
        let whole = sizes.iter().map(|size| match size {
            Size::One => 1,
            Size::Known(size) => *size,
            Size::AtRunTime(_) => AT_RUN_TIME,
        });
        let inner = words.inner_dims(&whole.collect::<Vec<_>>());
        if let (Some(start), Some(size)) = (starts.get_mut(at), sizes.get_mut(at)) {
            *start = words.inner_term(start);
            *size = match size {
                Size::AtRunTime(size) => Size::AtRunTime(words.inner_term(size)),
                _ => Size::from(inner.get(at).copied()),
            };
        }
        let plain = Self {
            words: None,
            ..self.clone()
        };
        Self {
            words: self.words,
            ..plain.part(&starts, &sizes)
        }
    }

    /// The reference without the dimensions of size 1 that `wanted` lacks; `None` if the sizes
    /// still differ.
    pub(super) fn squeezed(&self, wanted: &[i64]) -> Option<Self> {
        let wanted = match self.words {
            Some(words) => words.inner_dims(wanted),
            None => wanted.to_vec(),
        };
        let mut made = self.clone();
        let mut wanted = wanted.iter().peekable();
        let (dims, entries) = made.last()?;
        let own: Vec<Option<i64>> = entries
            .iter()
            .zip(dims.iter())
            .map(|(e, n)| size_of(e, *n))
            .collect();
        for (d, entry) in entries.iter_mut().enumerate() {
            let Some(size) = own[d] else { continue };
            // A dimension of size 1 stays if the remaining requested sizes need it.
            let rest = own[d + 1..].iter().flatten().count();
            let left = wanted.len();
            let keeps = wanted.peek() == Some(&&size) && (size != 1 || rest < left);
            if keeps {
                wanted.next();
            } else if size == 1 {
                *entry = SliceEntry::Element(start_of(entry));
            } else {
                return None;
            }
        }
        wanted.next().is_none().then_some(made)
    }

    /// The same elements in another shape.
    pub(super) fn reshaped(&self, dims: &[i64]) -> Self {
        let inner = self.words.map(|words| words.inner_dims(dims));
        let dims = inner.as_deref().unwrap_or(dims);
        if self.dims() == dims {
            return self.clone();
        }
        // Adding or dropping dimensions of size 1 needs no reshape.
        let plain = Self {
            words: None,
            ..self.clone()
        };
        if let Some(squeezed) = plain.squeezed(dims) {
            return Self {
                words: self.words,
                ..squeezed
            };
        }
        let mut made = self.clone();
        let entries = dims.iter().map(|_| SliceEntry::Whole).collect();
        made.stages.push((dims.to_vec(), entries));
        made
    }

    /// The same part, relative to the buffer's own shape as far as it is a box there. If there is a
    /// list for conditions, parts that are boxes only under conditions are converted, too.
    pub(super) fn composed(&self, mut conditions: Option<&mut Vec<Term>>) -> Self {
        let mut made = self.clone();
        while let [below @ .., (dims, entries)] = &made.stages[..]
            && !below.is_empty()
        {
            let below = Self {
                stages: below.to_vec(),
                words: None,
                ..made
            };
            let part = in_own_shape(&below.dims(), dims, entries);
            let Some(mut part) = part.filter(|p| p.conditions.is_empty() || conditions.is_some())
            else {
                break;
            };
            if let Some(conditions) = &mut conditions {
                conditions.append(&mut part.conditions);
            }
            made = Self {
                words: made.words,
                ..below.part(&part.starts, &part.sizes)
            };
        }
        made
    }

    /// The sizes of the last shape, and the number of selected elements along each dimension.
    pub(super) fn extents(&self) -> Vec<(i64, Term)> {
        self.stages.last().map_or_else(Vec::new, |(dims, entries)| {
            let taken = |entry: &SliceEntry, whole: i64| match entry {
                SliceEntry::Sized { size, .. } => size.clone(),
                _ => Term::constant(size_of(entry, whole).unwrap_or(1)),
            };
            let pairs = entries.iter().zip(dims);
            pairs
                .map(|(entry, whole)| (*whole, taken(entry, *whole)))
                .collect()
        })
    }

    /// Drops the dimensions in which a single index is selected.
    pub(super) fn without_ones(mut self) -> Self {
        if let Some((dims, entries)) = self.last() {
            for (entry, whole) in entries.iter_mut().zip(dims.iter()) {
                if size_of(entry, *whole) == Some(1) {
                    *entry = SliceEntry::Element(start_of(entry));
                }
            }
        }
        self
    }

    /// The reference as a slice, if it has one shape.
    pub(super) fn slice(&self, operation: &Operation) -> Made<Slice> {
        match self.composed(None).stages.as_slice() {
            [(_, entries)] => Ok(Slice {
                buffer: self.buffer,
                entries: entries.clone(),
            }),
            _ => Err(Error::at(
                operation,
                "a copy or scalar access of memory in another shape is not simulated",
            )),
        }
    }

    /// Strided words in a memory of narrower elements: the elements of a word become a separate
    /// dimension after the packed one.
    pub(super) fn stepped_words(
        &self,
        starts: &[Term],
        sizes: &[Size],
        steps: &[i64],
    ) -> Option<View> {
        let words = self.words?;
        let mut dims = self.dims();
        let at = Words::packed(dims.len());
        let ratio = i64::from(words.outer.bits()) / i64::from(words.inner.bits()).max(1);
        let packed = dims
            .get_mut(at)
            .filter(|size| ratio > 0 && **size % ratio == 0)?;
        *packed /= ratio;
        let entries = starts.iter().zip(sizes).map(|(start, size)| match size {
            Size::One => Some(SliceEntry::Element(start.clone())),
            Size::Known(size) => Some(SliceEntry::Range {
                start: start.clone(),
                size: *size,
                clipped: false,
            }),
            Size::AtRunTime(_) => None,
        });
        let mut entries = entries.collect::<Option<Vec<_>>>()?;
        let before = sizes.get(..=at)?.iter();
        let before = before.filter(|size| !matches!(size, Size::One)).count();
        let mut steps = steps.to_vec();
        if entries.len() != dims.len() || before > steps.len() {
            return None;
        }
        dims.insert(at + 1, ratio);
        entries.insert(at + 1, SliceEntry::Whole);
        steps.insert(before, 1);
        let mut made = self.clone();
        made.words = None;
        made.stages.push((dims, entries));
        Some(made.view(&steps))
    }

    /// The reference as a view, from which a vector is loaded or to which it is stored.
    pub(super) fn view(&self, strides: &[i64]) -> View {
        let mut plain = self.clone();
        let stepped = match (strides.iter().any(|stride| *stride != 1), plain.last()) {
            (true, Some(last)) => Some(spanned(last, strides)),
            _ => None,
        };
        let strides = match &stepped {
            Some((dims, _)) => strides
                .iter()
                .copied()
                .chain(std::iter::repeat(1))
                .take(dims.len())
                .collect(),
            None => Vec::new(),
        };
        let mut stages = plain.composed(None).stages;
        stages.extend(stepped);
        let mut stages = stages.into_iter();
        let entries = stages
            .next()
            .map(|(_, entries)| entries)
            .unwrap_or_default();
        View {
            slice: Slice {
                buffer: self.buffer,
                entries,
            },
            reshaped: stages.collect(),
            strides,
        }
    }
}
