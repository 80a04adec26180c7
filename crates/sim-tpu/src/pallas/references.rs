//! References to memory, and their translation to slices of buffers.

use super::{Error, Made};
use crate::program::{BufferId, Slice, SliceEntry, View};
use tegula_expr::Term;
use tegula_mosaic::ir::Operation;
use tegula_mosaic::types::Element;

/// A reference: a part of a buffer, which may be reshaped and of which parts may again be taken.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) buffer: BufferId,
    /// Each shape with the part that is taken of it; the buffer's own shape comes first.
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

    /// The dimensions of the buffer of which a single index is taken.
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

    /// The reference without the dimensions of size 1 that `wanted` lacks; `None` if that is not
    /// enough.
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
            // A dimension of size 1 stays if the remaining wanted sizes need it.
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

    /// The reference as a slice, if it has one shape.
    pub(super) fn slice(&self, operation: &Operation) -> Made<Slice> {
        match self.stages.as_slice() {
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

    /// The reference as the view of a vector load or store.
    pub(super) fn view(&self, strides: &[i64]) -> View {
        let mut stages = self.stages.clone();
        let steps = strides.iter().any(|stride| *stride != 1);
        if steps && stages.len() == 1 {
            // A strided part needs a stage of its own for its shape.
            let sizes: Vec<i64> = stages[0].0.clone();
            let all = sizes.iter().map(|_| SliceEntry::Whole).collect();
            let part = std::mem::replace(&mut stages[0].1, all);
            stages.push((sizes, part));
        }
        let mut given = strides.iter();
        let strides = match (steps, stages.last()) {
            (true, Some((_, entries))) => entries
                .iter()
                .map(|entry| match entry {
                    SliceEntry::Element(_) => 1,
                    _ => given.next().copied().unwrap_or(1),
                })
                .collect(),
            _ => Vec::new(),
        };
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
