//! Loads and stores of vectors.

use super::super::access::{Access, Touch};
use super::super::{Here, Machine};
use super::value::{self, PADDING, UNWRITTEN, Vector};
use super::{Ready, ViewCut, shape};
use crate::memory::image::Dense;
use crate::memory::region::{Region, Regions};
use crate::report::Error;
use smallvec::SmallVec;
use tegula_arena::EntityRef;

/// A box of a buffer, and where its elements are in the vector.
struct Part {
    region: Region,
    dense: Dense,
}

impl<'p> Machine<'p> {
    /// The boxes of a view in memory, with the access to all of them; `None` if no element exists.
    fn parts(
        &mut self,
        view: &ViewCut,
        dims: &[i64],
        here: Here<'p>,
    ) -> Result<Option<(Access, Vec<Part>)>, Error> {
        let Some(access) = self.access(&view.cut, here)? else {
            return Ok(None);
        };
        if view.reshaped.is_empty() {
            let part = Part {
                region: access.region.clone(),
                dense: Self::dense(&view.cut, &access),
            };
            return Ok(Some((access, vec![part])));
        }
        let rows = self.rows(view, &access, dims, here)?;
        Ok(Some((access, rows)))
    }

    /// The boxes of a reshaped or strided view: one for each index of the leading dimensions, up to
    /// the trailing ones that the reshape leaves as they are.
    fn rows(
        &mut self,
        view: &ViewCut,
        access: &Access,
        dims: &[i64],
        here: Here<'p>,
    ) -> Result<Vec<Part>, Error> {
        let Some(last) = view.reshaped.last() else {
            return Ok(Vec::new());
        };
        let sizes = &view.cut.sizes;
        let rank = last.dims.len();
        // The number of trailing dimensions that the reshape leaves as they are.
        let own = match view.reshaped.len() {
            1 => (1..=rank.min(sizes.len()))
                .take_while(|back| {
                    let d = rank - back;
                    last.dims[d] == sizes[sizes.len() - back]
                        && last.strides[d] == 1
                        && last.entries[d].size > 0
                })
                .count(),
            _ => 0,
        };
        let mut starts: SmallVec<[i64; 4]> = SmallVec::new();
        for (entry, size) in last.entries.iter().zip(&last.dims) {
            let start = self.value(&entry.start, here)?;
            starts.push(start);
            let d = starts.len() - 1;
            let end = start + (entry.size - 1).max(0) * last.strides[d];
            if start < 0 || end >= *size {
                let name = self.name(view.cut.buffer);
                self.find(crate::finding::Code::OutOfBounds, here, Some(view.cut.buffer), || {
                    (
                        format!("elements {start} to {end} of dimension {d} of a view of `{name}`, which has {size}"),
                        "bound the index".to_owned(),
                    )
                });
                return Ok(Vec::new());
            }
        }
        let mut stages: Vec<(&[i64], Vec<i64>)> = Vec::new();
        for stage in &view.reshaped[..view.reshaped.len() - 1] {
            let starts = stage
                .entries
                .iter()
                .map(|entry| self.value(&entry.start, here));
            stages.push((&stage.dims, starts.collect::<Result<_, _>>()?));
        }
        let outer: Vec<i64> = last.entries[..rank - own].iter().map(|e| e.size).collect();
        let total = shape::count(&outer);
        let inner: usize = last.entries[rank - own..]
            .iter()
            .map(|e| e.size as usize)
            .product();
        let kept = &view.cut.kept;
        let mut parts = Vec::with_capacity(total);
        let mut index = vec![0i64; outer.len()];
        for row in 0..total {
            let mut at = 0i64;
            for d in 0..outer.len() {
                let place = starts[d] + index[d] * last.strides[d];
                at = at * last.dims[d] + place;
            }
            // Maps the index back through the earlier shapes, whose parts are contiguous from their
            // start.
            for (stage, (stage_dims, stage_starts)) in view.reshaped.iter().zip(&stages).rev() {
                at = through(at, &stage.entries, stage_dims, stage_starts);
            }
            let mut region = access.region.clone();
            let mut rest = at;
            for d in (0..sizes.len() - own).rev() {
                let size = sizes[d].max(1);
                let place = access.region.low[kept[d]] + rest % size;
                rest /= size;
                region.low[kept[d]] = place;
                region.high[kept[d]] = place + 1;
            }
            let mut strides = vec![0i64; view.cut.entries.len()];
            let mut step = 1i64;
            for back in 1..=own {
                let (d, base) = (rank - back, kept[sizes.len() - back]);
                region.low[base] = access.region.low[base] + starts[d];
                region.high[base] = region.low[base] + last.entries[d].size;
                strides[base] = step;
                step *= last.entries[d].size;
            }
            parts.push(Part {
                region,
                dense: Dense {
                    start: (row * inner) as i64,
                    strides,
                },
            });
            for d in (0..outer.len()).rev() {
                index[d] += 1;
                if index[d] < outer[d] {
                    break;
                }
                index[d] = 0;
            }
        }
        debug_assert_eq!(total * inner, shape::count(dims));
        Ok(parts)
    }

    /// Loads a vector. Without values, only the checks that need none are made.
    pub(super) fn load_vector(
        &mut self,
        operation: &Ready<'p>,
        view: &ViewCut,
        here: Here<'p>,
    ) -> Result<Option<Vector>, Error> {
        let count = shape::count(&operation.dims);
        let nothing = |marks: u8| -> Result<Option<Vector>, Error> {
            let vector =
                Vector::splat(operation.element, 0, count).map_err(|m| unsupported(here, m))?;
            Ok(Some(vector.marked(Some(vec![marks; count]))))
        };
        let Some((access, parts)) = self.parts(view, &operation.dims, here)? else {
            return nothing(if count == 0 { 0 } else { UNWRITTEN });
        };
        self.check_races(&access, Touch::Read, here);
        if !self.functional {
            return Ok(None);
        }
        let mut vector = self.read(operation, &access, &parts, here)?;
        let is_unwritten = |marks: &Vec<u8>| marks.iter().any(|mark| mark & UNWRITTEN != 0);
        if !access.outside && vector.marks.as_deref().is_some_and(is_unwritten) {
            let before = self.states[access.buffer.index()].unwritten_from;
            vector.unwritten_from = before.or(Some(here.line));
        }
        // A mask selects what is loaded; other elements become 0.
        let Some(mask) = operation.operands.first() else {
            return Ok(Some(vector));
        };
        let mask = self.operand(mask, here)?;
        let zeros = Vector::splat(operation.element, 0, count).map_err(|m| unsupported(here, m))?;
        let chosen = super::elementwise::select(&mask, &vector, &zeros);
        let chosen = chosen.map_err(|m| unsupported(here, m))?;
        Ok(Some(Vector {
            unwritten_from: vector.unwritten_from,
            ..chosen
        }))
    }

    fn read(
        &self,
        operation: &Ready<'p>,
        access: &Access,
        parts: &[Part],
        here: Here<'p>,
    ) -> Result<Vector, Error> {
        let count = shape::count(&operation.dims);
        let id = access.buffer.index();
        let geometry = &self.geometry[id];
        let size = geometry.host_bytes();
        let fill = if access.partial { self.options.fill } else { 0 };
        let mut bytes = vec![fill; count * size];
        let space = self.program.buffers[access.buffer].space as usize;
        let state = &self.states[id];
        let mut marks = access.outside.then(|| vec![UNWRITTEN; count]);
        for part in parts {
            self.images[space].read(
                geometry,
                state.offset,
                &part.region,
                &part.dense,
                &mut bytes,
            );
            if access.outside {
                continue;
            }
            if state.written.missing(&part.region).is_some() {
                let marks = marks.get_or_insert_with(|| vec![0; count]);
                mark(
                    &part.region,
                    &part.region,
                    &part.dense,
                    &mut |m| *m |= UNWRITTEN,
                    marks,
                );
                for written in state.written.within(&part.region) {
                    let clear = &mut |m: &mut u8| *m &= !UNWRITTEN;
                    mark(&written, &part.region, &part.dense, clear, marks);
                }
            }
            if state.tainted.meets(&part.region) {
                let marks = marks.get_or_insert_with(|| vec![0; count]);
                for padding in state.tainted.within(&part.region) {
                    mark(
                        &padding,
                        &part.region,
                        &part.dense,
                        &mut |m| *m |= PADDING,
                        marks,
                    );
                }
            }
        }
        let lanes = value::from_bytes(operation.element, &bytes);
        Ok(Vector::new(lanes.map_err(|m| unsupported(here, m))?).marked(marks))
    }

    /// Stores a vector, or adds it to the values in memory. If it has a mask, only the lanes where
    /// the mask holds are stored.
    pub(super) fn store_vector(
        &mut self,
        operation: &Ready<'p>,
        view: &ViewCut,
        add: bool,
        here: Here<'p>,
    ) -> Result<(), Error> {
        let Some((access, parts)) = self.parts(view, &operation.dims, here)? else {
            return Ok(());
        };
        let mask = operation.operands.get(1);
        let touch = if add { Touch::Update } else { Touch::Write };
        self.check_races(&access, touch, here);
        let id = access.buffer.index();
        if !self.functional {
            for part in &parts {
                insert(&mut self.states[id].written, &part.region);
            }
            return Ok(());
        }
        let mut vector = self.operand(&operation.operands[0], here)?;
        let from = vector.unwritten_from;
        let failed = |message| unsupported(here, message);
        if add || mask.is_some() {
            let before = self.read(operation, &access, &parts, here)?;
            if add {
                let op = match operation.element.is_float() {
                    true => tegula_mosaic::ir::Binary::Add,
                    false => tegula_mosaic::ir::Binary::AddInt,
                };
                let element = operation.element;
                vector =
                    super::elementwise::binary(op, element, &vector, &before).map_err(failed)?;
            }
            if let Some(mask) = mask {
                let mask = self.operand(mask, here)?;
                vector = super::elementwise::select(&mask, &vector, &before).map_err(failed)?;
            }
        }
        let bytes = value::to_bytes(operation.element, &vector.lanes).map_err(failed)?;
        let space = self.program.buffers[access.buffer].space as usize;
        let geometry = &self.geometry[id];
        let offset = self.states[id].offset;
        for part in &parts {
            let image = &mut self.images[space];
            image.write(geometry, offset, &part.region, &part.dense, &bytes);
        }
        let marks = vector.marks.clone();
        for part in &parts {
            let marks = marks.as_ref().map(|marks| marks.as_slice());
            self.mark_stored(id, part, marks, from);
        }
        Ok(())
    }

    /// What is known of a box after a vector was stored to it.
    fn mark_stored(&mut self, id: usize, part: &Part, marks: Option<&[u8]>, from: Option<u32>) {
        let state = &mut self.states[id];
        if !state.neutral.is_empty() {
            state.neutral.remove(&part.region);
        }
        if !state.tainted.is_empty() {
            state.tainted.remove(&part.region);
        }
        insert(&mut state.written, &part.region);
        let Some(marks) = marks else { return };
        for run in runs(part, marks, UNWRITTEN) {
            state.written.remove(&run);
            state.unwritten_from = from;
        }
        for run in runs(part, marks, PADDING) {
            state.tainted.insert(&run);
        }
    }
}

fn insert(set: &mut Regions, region: &Region) {
    if set.missing(region).is_some() {
        set.insert(region);
    }
}

/// Maps a linear index in a part of a shape to the linear index in the shape before it.
fn through(at: i64, entries: &[super::CutEntry], dims: &[i64], starts: &[i64]) -> i64 {
    let mut rest = at;
    let mut places = vec![0i64; dims.len()];
    for d in (0..dims.len()).rev() {
        let size = entries[d].size.max(1);
        places[d] = starts[d] + rest % size;
        rest /= size;
    }
    places
        .iter()
        .zip(dims)
        .fold(0, |sum, (place, dim)| sum * dim + place)
}

fn unsupported(here: Here<'_>, message: String) -> Error {
    Error::Unsupported {
        line: here.line,
        message,
    }
}

/// Changes the marks of a part of a box.
fn mark(
    part: &Region,
    whole: &Region,
    dense: &Dense,
    change: &mut dyn FnMut(&mut u8),
    marks: &mut [u8],
) {
    if part.is_empty() {
        return;
    }
    let mut index = part.low.to_vec();
    loop {
        if let Some(mark) = marks.get_mut(place(&index, whole, dense)) {
            change(mark);
        }
        if !part.advance(&mut index) {
            return;
        }
    }
}

fn place(index: &[i64], whole: &Region, dense: &Dense) -> usize {
    let offsets = index.iter().zip(&whole.low).zip(&dense.strides);
    let at: i64 = offsets.map(|((i, low), stride)| (i - low) * stride).sum();
    (dense.start + at) as usize
}

/// The elements of a box that have a mark, as boxes: adjacent whole rows form one box.
fn runs(part: &Part, marks: &[u8], wanted: u8) -> Vec<Region> {
    let region = &part.region;
    let mut found: Vec<Region> = Vec::new();
    if region.is_empty() || !marks.iter().any(|m| m & wanted != 0) {
        return found;
    }
    let Some(last) = region.low.len().checked_sub(1) else {
        let holds = marks
            .get(part.dense.start as usize)
            .is_some_and(|m| m & wanted != 0);
        return if holds { vec![region.clone()] } else { found };
    };
    let mut index = region.low.to_vec();
    loop {
        let at = place(&index, region, &part.dense);
        if marks.get(at).is_some_and(|m| m & wanted != 0) {
            match found.last_mut() {
                Some(run) if run.low[..last] == index[..last] && run.high[last] == index[last] => {
                    run.high[last] += 1;
                }
                _ => found.push(Region {
                    low: index.as_slice().into(),
                    high: index.iter().map(|i| i + 1).collect(),
                }),
            }
        }
        if !region.advance(&mut index) {
            break;
        }
    }
    // Equal runs in adjacent rows are joined.
    for d in (0..last).rev() {
        let mut joined: Vec<Region> = Vec::new();
        for run in found {
            let fits = joined.last().is_some_and(|before: &Region| {
                (0..run.low.len()).all(|o| {
                    if o == d {
                        before.high[o] == run.low[o]
                    } else {
                        before.low[o] == run.low[o] && before.high[o] == run.high[o]
                    }
                })
            });
            match joined.last_mut() {
                Some(before) if fits => before.high[d] = run.high[d],
                _ => joined.push(run),
            }
        }
        found = joined;
    }
    found
}
