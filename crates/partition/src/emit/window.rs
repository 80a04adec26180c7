//! Halo exchange: fetches the elements of neighbouring parts that a window, slice or pad reads.
//!
//! Slices, paddings, reversals, concatenations and windows read, for part `t` of their result, the
//! elements `first + t * step ..` of an operand's dimension. If that dimension is partitioned,
//! collective-permutes fetch the needed elements from neighbouring tiles. If that would be more
//! than the whole dimension, it is gathered instead.

use super::{Emitter, Frame, cost, number};
use crate::axes::Window;
use crate::error::Error;
use crate::sharding::{Cut, Sharding, groups};
use smallvec::SmallVec;
use tegula_ir::{Dim, DraftId, Op};

/// A tile at some distance from each device's base tile, and the range of its elements that any
/// device reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    shift: i64,
    start: i64,
    limit: i64,
}

/// The tiles that windows overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pieces {
    /// For each part, its base tile, from which pieces are counted.
    bases: Vec<i64>,
    pieces: Vec<Piece>,
}

impl Pieces {
    /// The pieces for tiles of `part` elements; [`None`] if nothing is read.
    ///
    /// The base is the device's own tile. If windows are elsewhere (in a reversal, or with every
    /// other element), it is the first tile that the window overlaps. A tile is sent to only one
    /// device at a time.
    fn new(window: &Window, part: i64, parts: i64) -> Option<Self> {
        if part <= 0 || window.size <= 0 {
            return None;
        }
        let own = Self::from(window, part, (0..parts).collect());
        let firsts = (0..parts).map(|place| window.first + window.step * place);
        let elsewhere = (window.step.abs() >= part)
            .then(|| firsts.map(|first| first.div_euclid(part)).collect())
            .and_then(|bases| Self::from(window, part, bases));
        let found = [own, elsewhere].into_iter().flatten();
        found.min_by_key(Self::received)
    }

    fn from(window: &Window, part: i64, bases: Vec<i64>) -> Option<Self> {
        let places = bases.iter().zip(0..);
        let firsts = places.map(|(base, place)| window.first + window.step * place - base * part);
        let firsts: Vec<i64> = firsts.collect();
        let low = *firsts.iter().min()?;
        let high = *firsts.iter().max()? + window.size - 1;
        let (lowest, highest) = (low.div_euclid(part), high.div_euclid(part));
        let piece = |shift: i64| Piece {
            shift,
            start: if shift == lowest {
                low - lowest * part
            } else {
                0
            },
            limit: if shift == highest {
                high - highest * part + 1
            } else {
                part
            },
        };
        if highest - lowest > 2 * number(bases.len()) {
            return None;
        }
        Some(Self {
            bases,
            pieces: (lowest..=highest).map(piece).collect(),
        })
    }

    /// Whether a piece is in each device's own tile.
    fn is_own(&self, piece: &Piece) -> bool {
        let mut places = self.bases.iter().zip(0..);
        places.all(|(base, place)| base + piece.shift == place)
    }

    /// The number of elements that a device receives, along the dimension.
    fn received(&self) -> i64 {
        let from_others = self.pieces.iter().filter(|piece| !self.is_own(piece));
        from_others.map(|piece| piece.limit - piece.start).sum()
    }

    /// The position of the first element, counted from the beginning of the base tile.
    fn first(&self, part: i64) -> i64 {
        self.pieces
            .first()
            .map_or(0, |piece| piece.shift * part + piece.start)
    }
}

/// The bytes that a device receives for its window; `bytes` is the size of its own tile.
pub(super) fn cost_of(window: &Window, cut: Option<&Cut>, size: i64, bytes: i64) -> i64 {
    let Some(cut) = cut else {
        return bytes / cost::MEMORY_PER_LINK;
    };
    let part = cut.part_size(size);
    let gathered = cost::all_gather(bytes.saturating_mul(cut.parts()), cut.parts());
    let pieces = Pieces::new(window, part, cut.parts());
    let moved = pieces.map(|pieces| bytes / part.max(1) * pieces.received());
    cost::LATENCY + moved.map_or(gathered, |moved| moved.min(gathered))
}

impl Emitter<'_> {
    /// Fetches the elements of each device's window, `window.size` along its dimension. Elements
    /// outside the array are `fill`, or undefined without it. `cut` is the result's cut, `sharding`
    /// and `size` are the operand's.
    #[allow(
        clippy::too_many_arguments,
        reason = "an array, its distribution, and the window that is read"
    )]
    pub(super) fn fetch(
        &mut self,
        frame: &mut Frame,
        array: DraftId,
        sharding: &Sharding,
        size: i64,
        cut: &Cut,
        window: &Window,
        fill: Option<DraftId>,
        scope: &Cut,
    ) -> Result<DraftId, Error> {
        let dim = window.dim;
        let firsts: Vec<i64> = cut
            .places()
            .iter()
            .map(|place| window.first + window.step * place)
            .collect();
        let low = firsts.iter().copied().min().unwrap_or(0);
        let high = firsts.iter().copied().max().unwrap_or(0) + window.size;
        let pieces = sharding
            .cut(dim)
            .and_then(|own| Pieces::new(window, own.part_size(size), own.parts()));
        let mut array = array;
        if let (Some(own), Some(pieces)) = (sharding.cut(dim), &pieces)
            && pieces.received() < own.part_size(size) * (own.parts() - 1)
        {
            let part = own.part_size(size);
            let joined = self.neighbours(frame, array, sharding, dim, pieces, scope)?;
            let base = |place: i64| {
                let base = usize::try_from(place)
                    .ok()
                    .and_then(|at| pieces.bases.get(at));
                base.copied().unwrap_or(0)
            };
            let starts = cut
                .places()
                .iter()
                .zip(&firsts)
                .map(|(place, first)| first - base(*place) * part - pieces.first(part));
            let start = self.by_device(frame, &starts.collect::<Vec<i64>>())?;
            array = self.dynamic_slice(frame, joined, dim, start, window.size)?;
            return match fill {
                Some(fill) if low < 0 || high > size => {
                    let first = self.by_device(frame, &firsts)?;
                    self.masked(frame, array, dim, first, 0..size, fill)
                }
                _ => Ok(array),
            };
        }
        if sharding.cut(dim).is_some() {
            let groups = self.part_groups(sharding, dim, None, scope)?;
            array = self.gathered(frame, array, dim, &groups)?;
            array = self.slice(frame, array, dim, 0, size)?;
        }
        let array = self.padded(
            frame,
            array,
            dim,
            ((-low).max(0), (high - size).max(0)),
            fill,
        )?;
        let starts: Vec<i64> = firsts.iter().map(|first| first + (-low).max(0)).collect();
        let start = self.by_device(frame, &starts)?;
        self.dynamic_slice(frame, array, dim, start, window.size)
    }

    fn gathered(
        &mut self,
        frame: &mut Frame,
        array: DraftId,
        dim: usize,
        groups: &[Vec<i64>],
    ) -> Result<DraftId, Error> {
        let members = groups.first().map_or(1, |group| number(group.len()));
        let bytes = frame.array(array).representative().byte_size().unwrap_or(0);
        self.exchanged(
            "all-gather",
            cost::all_gather(bytes.saturating_mul(members), members),
        );
        self.all_gather(frame, array, dim, groups)
    }

    /// The pieces of the neighbours' tiles and of the device's own, in order.
    fn neighbours(
        &mut self,
        frame: &mut Frame,
        array: DraftId,
        sharding: &Sharding,
        dim: usize,
        pieces: &Pieces,
        scope: &Cut,
    ) -> Result<DraftId, Error> {
        let Some(cut) = sharding.cut(dim) else {
            return Ok(array);
        };
        let kept = |device: usize| {
            let others = (0..sharding.rank()).filter(|other| *other != dim);
            let mut key: SmallVec<[i64; 6]> = others
                .filter_map(|other| Some(sharding.cut(other)?.place(device)))
                .collect();
            key.push(scope.place(device));
            key
        };
        let lines = groups(
            sharding.devices(),
            kept,
            |device| cut.place(device),
            cut.parts(),
        );
        let lines =
            lines.ok_or_else(|| self.bug("the devices do not hold all parts of the array"))?;
        let mut parts = Vec::new();
        for piece in &pieces.pieces {
            let part = self.slice(frame, array, dim, piece.start, piece.limit)?;
            if pieces.is_own(piece) {
                parts.push(part);
                continue;
            }
            let mut pairs = Vec::new();
            for line in &lines {
                for (base, target) in pieces.bases.iter().zip(line) {
                    let source = usize::try_from(base + piece.shift);
                    if let Some(source) = source.ok().and_then(|source| line.get(source)) {
                        pairs.push((*source, *target));
                    }
                }
            }
            if pairs.is_empty() {
                // The piece is outside of the array on every device, so its contents are arbitrary.
                let shape = frame.array(part);
                let zero = self.zero(frame, shape.element_type)?;
                parts.push(self.filled(frame, zero, &shape.dims)?);
                continue;
            }
            let bytes = frame.array(part).representative().byte_size().unwrap_or(0);
            self.exchanged("collective-permute", bytes);
            let op = Op::CollectivePermute {
                pairs,
                channel_id: Some(self.channel()),
                start: false,
            };
            parts.push(self.push(frame, op, &[part], None)?);
        }
        match parts.as_slice() {
            [one] => Ok(*one),
            parts => self.push(frame, Op::Concatenate(number(dim)), parts, None),
        }
    }
}

/// The size of a dimension, if it is static.
pub(super) fn known(dims: &[Dim], dim: usize) -> Option<i64> {
    dims.get(dim).and_then(Dim::as_static)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_neighbours() {
        // Each part reads one element before and one after its tile of 4.
        let window = Window {
            dim: 0,
            first: -1,
            step: 4,
            size: 6,
        };
        let pieces = Pieces::new(&window, 4, 4).expect("pieces");
        let piece = |shift, start, limit| Piece {
            shift,
            start,
            limit,
        };
        assert_eq!(
            pieces.pieces,
            [piece(-1, 3, 4), piece(0, 0, 4), piece(1, 0, 1)]
        );
        assert_eq!((pieces.received(), pieces.first(4)), (2, -1));
        // In a reversal, each part reads another whole tile.
        let window = Window {
            dim: 0,
            first: 6,
            step: -2,
            size: 2,
        };
        let pieces = Pieces::new(&window, 2, 4).expect("pieces");
        assert_eq!(pieces.bases, [3, 2, 1, 0]);
        assert_eq!(pieces.pieces, [piece(0, 0, 2)]);
        // Every other element is read: the windows overlap two tiles and begin at twice the
        // distance.
        let window = Window {
            dim: 0,
            first: 1,
            step: 8,
            size: 7,
        };
        let pieces = Pieces::new(&window, 4, 4).expect("pieces");
        assert_eq!(pieces.bases, [0, 2, 4, 6]);
        assert_eq!(pieces.pieces, [piece(0, 1, 4), piece(1, 0, 4)]);
    }
}
