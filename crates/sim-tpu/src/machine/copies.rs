//! The start of copies.

use super::access::{Access, Touch, no_value};
use super::code::Copy;
use super::cores::{Content, Incoming};
use super::flights::Flight;
use super::regroup::{self, Bounds};
use super::terms::{Cut, Index, Signal};
use super::{Flow, Here, Machine};
use crate::engine::Transfer;
use crate::finding::Code;
use crate::memory::image::Dense;
use crate::memory::region::{Region, Regions};
use crate::program::{BufferId, SemaphoreId, Space};
use crate::report::Error;
use smallvec::SmallVec;
use tegula_arena::EntityRef;

/// The most copies in flight at once.
const MAX_FLIGHTS: usize = 1 << 14;

/// The source and destination regions of a copy, as far as both exist.
struct Moved {
    source: Region,
    destination: Region,
    /// What is moved, by dimension of the source that is kept.
    sizes: SmallVec<[i64; 4]>,
    /// The same, by dimension of the destination.
    landed: SmallVec<[i64; 4]>,
}

impl Moved {
    fn of(copy: &Copy, source: &Access, destination: &Access) -> Self {
        let mut moved = Self {
            source: source.region.clone(),
            destination: destination.region.clone(),
            sizes: SmallVec::new(),
            landed: SmallVec::new(),
        };
        for group in &copy.groups {
            let from = &copy.source.kept[group.source.clone()];
            let to = &copy.destination.kept[group.destination.clone()];
            let whole = |region: &Region, dims: &[usize]| -> Vec<i64> {
                let sizes = dims.iter().map(|d| region.high[*d] - region.low[*d]);
                sizes.collect()
            };
            let ([s], [d]) = (from, to) else {
                moved.sizes.extend(whole(&source.region, from));
                moved.landed.extend(whole(&destination.region, to));
                continue;
            };
            let (s, d) = (*s, *d);
            let end = |access: &Access, dim: usize| {
                let lead = access.lead[dim];
                (
                    lead,
                    lead + access.region.high[dim] - access.region.low[dim],
                )
            };
            let (from, to) = (end(source, s), end(destination, d));
            let (low, high) = (from.0.max(to.0), from.1.min(to.1));
            moved.source.low[s] = source.region.low[s] + (low - from.0);
            moved.source.high[s] = source.region.low[s] + (high - from.0);
            moved.destination.low[d] = destination.region.low[d] + (low - to.0);
            moved.destination.high[d] = destination.region.low[d] + (high - to.0);
            moved.sizes.push((high - low).max(0));
            moved.landed.push((high - low).max(0));
        }
        moved
    }

    /// Where part of the source lands.
    fn landing(&self, copy: &Copy, part: &Region) -> Vec<Region> {
        let mut landed = vec![self.destination.clone()];
        for group in &copy.groups {
            let from = &copy.source.kept[group.source.clone()];
            let to = &copy.destination.kept[group.destination.clone()];
            let bounds = from.iter().map(|d| {
                let low = self.source.low[*d];
                (part.low[*d] - low, part.high[*d] - low)
            });
            let bounds: Bounds = bounds.collect();
            let parts = match group.is_pair() {
                true => vec![bounds],
                false => regroup::boxes(
                    &bounds,
                    &self.sizes[group.source.clone()],
                    &self.landed[group.destination.clone()],
                ),
            };
            let mut all = Vec::with_capacity(landed.len() * parts.len());
            for region in &landed {
                for bounds in &parts {
                    let mut region = region.clone();
                    for (d, (low, high)) in to.iter().zip(bounds) {
                        region.low[*d] = self.destination.low[*d] + low;
                        region.high[*d] = self.destination.low[*d] + high;
                    }
                    all.push(region);
                }
            }
            landed = all;
        }
        landed
    }
}

impl<'p> Machine<'p> {
    pub(super) fn start(&mut self, copy: &Copy, here: Here<'p>) -> Result<Flow, Error> {
        let semaphore = self.semaphore(&copy.semaphore, here)?;
        if !self.has_elements(copy, here)? {
            self.engines.issue(here.line);
            return Ok(Flow::Next);
        }
        if copy.sized {
            self.check_tiles(&copy.source, here);
            self.check_tiles(&copy.destination, here);
        }
        if let Some((core, sent)) = &copy.remote {
            return self.start_remote(copy, core, sent.as_ref(), semaphore, here);
        }
        let source = self.access(&copy.source, here)?;
        let destination = self.access(&copy.destination, here)?;
        let none = |cut: &Cut| (cut.buffer, Region::whole(&[0]));
        let (mut from, mut to) = (none(&copy.source), none(&copy.destination));
        // A wait for a copy that is out of bounds counts its bytes, too.
        let mut bytes = match self.counts_rows(copy) {
            true => self.bytes_of(copy, here)?,
            false => 0,
        };
        if let (Some(source), Some(destination)) = (source, destination) {
            let moved = Moved::of(copy, &source, &destination);
            self.check_copy(copy, &source, &destination, &moved, here);
            bytes = self.physical_bytes(copy, &moved, here)?;
            let elements = moved.source.elements();
            if self.functional {
                self.spend(elements as u64 / 256, here.line)?;
                self.move_bytes(&source, &destination, &moved, copy);
            }
            self.mark(copy, &source, &destination, &moved, here);
            if let Some(&array) = self.write_backs.get(&copy.source.buffer)
                && array == copy.destination.buffer
            {
                self.check_revisit(copy.source.buffer, &moved.destination, here);
            }
            // An empty copy accesses nothing.
            if elements > 0 {
                from = (copy.source.buffer, moved.source);
                to = (copy.destination.buffer, destination.region);
            }
        }
        if self.flights.len() >= MAX_FLIGHTS {
            return Err(Error::Limit {
                line: here.line,
                message: format!("more than {MAX_FLIGHTS} copies are in flight at the same time"),
            });
        }
        let space = |id: BufferId| self.program.buffers[id].space;
        let transfer = Transfer {
            from: space(copy.source.buffer),
            to: space(copy.destination.buffer),
            bytes,
        };
        self.copies += 1;
        self.copied_bytes = self.copied_bytes.saturating_add(bytes);
        let transfer = self.engines.start(&transfer, here.line);
        let number = self.flights.add(Flight {
            transfer,
            source: from,
            destination: to,
            semaphore,
            line: here.line,
            statement: here.statement,
            bytes,
            partly: None,
            sends: false,
            sender: None,
        });
        self.semaphores[semaphore.0.index()][semaphore.1 as usize]
            .copies
            .push_back(number);
        Ok(Flow::Next)
    }

    /// Whether a copy of run-time size moves anything. A copy that moves nothing needs no wait.
    pub(super) fn has_elements(&self, copy: &Copy, here: Here<'p>) -> Result<bool, Error> {
        if !copy.sized {
            return Ok(true);
        }
        let mut some = true;
        for group in &copy.groups {
            let count = |cut: &Cut, dims: std::ops::Range<usize>| {
                let dims = cut.kept[dims].iter();
                let mut sizes = dims.map(|d| cut.entries[*d].size(&self.values));
                sizes.try_fold(1i64, |product, size| product.checked_mul(size?))
            };
            let from = count(&copy.source, group.source.clone());
            let to = count(&copy.destination, group.destination.clone());
            let (Some(from), Some(to)) = (from, to) else {
                // The access reports that there is no value.
                return Ok(true);
            };
            if from != to {
                return Err(Error::Program {
                    line: here.line,
                    message: format!(
                        "a copy's source has {from} elements along a dimension, but its destination has {to}"
                    ),
                });
            }
            some &= from != 0;
        }
        Ok(some)
    }

    /// Checks that sizes known only at run time are whole tiles, or reach the end of the array.
    fn check_tiles(&mut self, cut: &Cut, here: Here<'p>) {
        let id = cut.buffer;
        for (d, entry) in cut.entries.iter().enumerate() {
            let geometry = &self.geometry[id.index()];
            let (tile, whole) = (geometry.tile[d], geometry.dims[d]);
            let rows = geometry.sublanes == Some(d) && geometry.bits == 32;
            if entry.sized.is_none() || tile == 1 || rows && self.program.is_of_pallas() {
                continue;
            }
            let ends = entry
                .start
                .value(&self.values)
                .zip(entry.size(&self.values));
            let Some((start, size)) = ends else { continue };
            if size % tile == 0 || start.checked_add(size) == Some(whole) {
                continue;
            }
            let (name, d) = (self.name(id), self.program.source_dimension(id, d));
            self.find(Code::Block, here, Some(id), || {
                (
                    format!("the copy takes {size} elements of dimension {d} of `{name}`, whose tile is {tile} and whose size is {whole}: not whole tiles"),
                    format!("take a multiple of {tile}, or all {whole}"),
                )
            });
        }
    }

    /// Starts a copy into another core's memory: on this core it only reads.
    fn start_remote(
        &mut self,
        copy: &Copy,
        core: &Index,
        sent: Option<&Signal>,
        arrived: (SemaphoreId, i64),
        here: Here<'p>,
    ) -> Result<Flow, Error> {
        let Some(core) = self.other_core(core, here)? else {
            return Ok(Flow::Stop);
        };
        let sent = sent.map(|sent| self.semaphore(sent, here)).transpose()?;
        let source = self.access(&copy.source, here)?;
        let destination = self.access(&copy.destination, here)?;
        let (Some(source), Some(destination)) = (source, destination) else {
            return Ok(Flow::Next);
        };
        let moved = Moved::of(copy, &source, &destination);
        self.check_source(&source, &moved, here);
        let size = self.physical_bytes(copy, &moved, here)?;
        self.copies += 1;
        self.copied_bytes = self.copied_bytes.saturating_add(size);
        let (transfer, time) = self.engines.sends(size, here.line);
        if let Some(sent) = sent {
            let number = self.flights.add(Flight {
                transfer,
                source: (source.buffer, moved.source.clone()),
                destination: (source.buffer, Region::whole(&[0])),
                semaphore: sent,
                line: here.line,
                statement: here.statement,
                bytes: size,
                partly: None,
                sends: true,
                sender: None,
            });
            let slot = &mut self.semaphores[sent.0.index()][sent.1 as usize];
            slot.copies.push_back(number);
        }
        let landing = |set: &Regions| -> Vec<Region> {
            let parts = set.within(&moved.source);
            let landed = parts.iter().flat_map(|part| moved.landing(copy, part));
            landed.collect()
        };
        let state = &self.states[source.buffer.index()];
        let incoming = Incoming {
            buffer: destination.buffer,
            tainted: landing(&state.tainted),
            neutral: landing(&state.neutral),
            bytes: match self.functional {
                true => {
                    self.spend(moved.source.elements() as u64 / 256, here.line)?;
                    self.read_bytes(source.buffer, &moved.source, &copy.source, &moved.sizes)
                }
                false => Vec::new(),
            },
            region: moved.destination,
            size,
        };
        let content = Content::Copy(Box::new(incoming));
        self.send(core, arrived, content, time, here);
        Ok(Flow::Next)
    }

    /// The elements of a region, in the order of a slice's dimensions.
    pub(super) fn read_bytes(
        &self,
        id: BufferId,
        region: &Region,
        cut: &Cut,
        sizes: &[i64],
    ) -> Vec<u8> {
        let geometry = &self.geometry[id.index()];
        let elements = sizes.iter().product::<i64>().max(0);
        let mut bytes = vec![0; elements as usize * geometry.host_bytes()];
        let rank = cut.entries.len();
        let dense = Dense::slice(rank, &cut.kept, sizes, &vec![0; rank]);
        let image = &self.images[self.program.buffers[id].space as usize];
        let offset = self.states[id.index()].offset;
        image.read(geometry, offset, region, &dense, &mut bytes);
        bytes
    }

    /// Checks the source of a copy: no race, and no element that was never written.
    fn check_source(&mut self, source: &Access, moved: &Moved, here: Here<'p>) {
        let read = Access {
            region: moved.source.clone(),
            ..source.clone()
        };
        if !read.region.is_empty() {
            self.check_races(&read, Touch::Read, here);
            self.check_written(&read, here);
        }
    }

    fn check_copy(
        &mut self,
        copy: &Copy,
        source: &Access,
        destination: &Access,
        moved: &Moved,
        here: Here<'p>,
    ) {
        self.check_source(source, moved, here);
        self.check_races(destination, Touch::Write, here);
        if copy.source.buffer == copy.destination.buffer && moved.source.meets(&moved.destination) {
            let id = copy.source.buffer;
            let name = self.name(id);
            self.find(Code::Overwritten, here, Some(id), || {
                (
                    format!("the copy overwrites part of what it reads of `{name}`"),
                    "copy to another buffer".to_owned(),
                )
            });
        }
    }

    /// The end of a copy in which its bytes are counted: the one in HBM if there is one.
    fn counted<'c>(&self, copy: &'c Copy) -> &'c Cut {
        match self.program.buffers[copy.source.buffer].space {
            Space::Hbm => &copy.source,
            _ => &copy.destination,
        }
    }

    /// Whether the bytes of a copy are those of the rows that it states. Copies that kernels of
    /// Pallas make themselves may take rows of a tile; others take whole tiles.
    fn counts_rows(&self, copy: &Copy) -> bool {
        let clipped = self.counted(copy).entries.iter().any(|entry| entry.clipped);
        self.program.is_of_pallas() && !clipped
    }

    /// The physical bytes that are moved: rows or whole tiles.
    fn physical_bytes(&self, copy: &Copy, moved: &Moved, here: Here<'p>) -> Result<i64, Error> {
        if self.counts_rows(copy) {
            return self.bytes_of(copy, here);
        }
        let id = self.counted(copy).buffer;
        let region = match id == copy.source.buffer {
            true => &moved.source,
            false => &moved.destination,
        };
        Ok(self.geometry[id.index()].tile_bytes(&region.low, &region.high))
    }

    /// The bytes of the rows that a copy states, whether all of them exist or not.
    pub(super) fn bytes_of(&self, copy: &Copy, here: Here<'p>) -> Result<i64, Error> {
        let cut = self.counted(copy);
        let sizes = cut.entries.iter().map(|entry| entry.size(&self.values));
        let sizes: Option<SmallVec<[i64; 4]>> = sizes.collect();
        let sizes = sizes.ok_or_else(|| no_value(here.line))?;
        Ok(self.geometry[cut.buffer.index()].row_bytes(&sizes))
    }

    fn move_bytes(&mut self, source: &Access, destination: &Access, moved: &Moved, copy: &Copy) {
        let (from, to) = (source.buffer, destination.buffer);
        let (from_geometry, to_geometry) =
            (&self.geometry[from.index()], &self.geometry[to.index()]);
        let space = |id: BufferId| self.program.buffers[id].space as usize;
        let size = from_geometry.host_bytes();
        let to_offset = self.states[to.index()].offset;
        if source.partial && destination.region != moved.destination {
            let sizes = destination.region.low.iter().zip(&destination.region.high);
            let sizes: Vec<i64> = sizes.map(|(low, high)| high - low).collect();
            let poison = vec![self.options.fill; destination.region.elements() as usize * size];
            let dense = Dense::whole(&sizes);
            let image = &mut self.images[space(to)];
            image.write(to_geometry, to_offset, &destination.region, &dense, &poison);
        }
        let lead = |rank| vec![0; rank];
        let dense = |cut: &Cut| {
            let rank = cut.entries.len();
            Dense::slice(rank, &cut.kept, &moved.landed, &lead(rank))
        };
        let buffer = self.read_bytes(from, &moved.source, &copy.source, &moved.sizes);
        self.images[space(to)].write(
            to_geometry,
            to_offset,
            &moved.destination,
            &dense(&copy.destination),
            &buffer,
        );
    }

    /// Updates, after the copy, which elements of the destination are initialised and which are
    /// padding.
    fn mark(
        &mut self,
        copy: &Copy,
        source: &Access,
        destination: &Access,
        moved: &Moved,
        here: Here<'p>,
    ) {
        let landing = |set: &Regions| -> Vec<Region> {
            let parts = set.within(&moved.source);
            let landed = parts.iter().flat_map(|part| moved.landing(copy, part));
            landed.collect()
        };
        let from = &self.states[source.buffer.index()];
        let (mut tainted, neutral) = (landing(&from.tainted), landing(&from.neutral));
        let to = destination.buffer;
        if self.program.buffers[to].space == Space::Hbm {
            if let Some(part) = tainted.first().cloned() {
                let (elements, from) = (self.elements(to, &part), self.name(source.buffer));
                self.find(Code::Padding, here, Some(source.buffer), || {
                    (
                        format!("what is stored to `{elements}` was computed in `{from}` from padding of a block at the edge"),
                        "mask the lanes beyond the array (`select` on an `iota`) before they are combined with others".to_owned(),
                    )
                });
            }
            tainted.clear();
        }
        let functional = self.functional;
        let state = &mut self.states[to.index()];
        let all = if source.partial {
            &destination.region
        } else {
            &moved.destination
        };
        if state.written.missing(all).is_some() {
            state.written.insert(all);
        }
        if !functional {
            return;
        }
        state.neutral.remove(all);
        for part in &neutral {
            state.neutral.insert(part);
        }
        if source.partial && !source.outside {
            state.tainted.insert(&destination.region);
        }
        state.tainted.remove(&moved.destination);
        for part in &tainted {
            state.tainted.insert(part);
        }
    }

    /// Checks that a block of an output window is written back only once.
    fn check_revisit(&mut self, block: BufferId, region: &Region, here: Here<'p>) {
        let (seen, last) = self.visited.entry(block).or_default();
        let index = region.low.to_vec();
        let again = !seen.insert(index.clone()) && *last != index;
        *last = index;
        if again {
            let (name, region) = (self.name(block), region.clone());
            self.find(Code::Revisited, here, Some(block), || {
                (
                    format!("the grid returns to the block {region} of `{name}` after other blocks: its earlier contents are not fetched, so they are overwritten"),
                    "let the grid dimensions that the block does not depend on be the innermost".to_owned(),
                )
            });
        }
    }
}
