//! The lifetime of buffers: their placement, the capacity of the memories, and their end.

use super::{Flow, Here, Life, Machine, Semaphore, State};
use crate::finding::Code;
use crate::memory::geometry::Geometry;
use crate::memory::image::Dense;
use crate::memory::ledger::{Ledger, alignment};
use crate::memory::region::{Region, Regions};
use crate::program::{BufferId, Space, StatementKind, TpuProgram, VectorOp, for_each_statement};
use crate::report::{Error, Occupancy, bytes_text as bytes};
use tegula_arena::EntityRef;
use tegula_target::{Chip, Param};

/// The states of the buffers before anything runs.
pub(super) fn first_states(program: &TpuProgram) -> Vec<State> {
    let mut states: Vec<State> = program
        .buffers
        .keys()
        .map(|_| State {
            life: Life::NotYet,
            offset: 0,
            written: Regions::default(),
            tainted: Regions::default(),
            neutral: Regions::default(),
            writers: Vec::new(),
            unwritten_from: None,
            since: 0.0,
        })
        .collect();
    let mut note = |buffer: BufferId, line: u32| {
        if let Some(state) = states.get_mut(buffer.index())
            && state.writers.len() < 4
        {
            state.writers.push(line);
        }
    };
    for_each_statement(&program.body, &mut |statement| match &statement.kind {
        StatementKind::Start { destination, .. } => note(destination.buffer, statement.line),
        StatementKind::Compute(compute) => {
            for destination in &compute.destinations {
                note(destination.buffer, statement.line);
            }
        }
        StatementKind::StoreScalar { destination, .. } => note(destination.buffer, statement.line),
        StatementKind::Vector(block) => {
            for operation in &block.operations {
                if let VectorOp::Store { view, .. } = &operation.op {
                    note(view.slice.buffer, operation.line);
                }
            }
        }
        _ => {}
    });
    states
}

pub(super) fn ledgers(program: &TpuProgram, geometry: &[Geometry]) -> [Ledger; 4] {
    [Space::Hbm, Space::Vmem, Space::Smem, Space::Cmem].map(|space| {
        let stated = program.buffers.iter().filter_map(|(id, buffer)| {
            let start = buffer.offset.filter(|_| buffer.space == space)?;
            Some((start, start.saturating_add(geometry[id.index()].bytes)))
        });
        Ledger::new(stated)
    })
}

/// The capacity of each memory, in bytes. A core has its own VMEM and SMEM; a device has its share
/// of the chip's HBM and CMEM.
pub(super) fn limits(chip: &Chip) -> [Option<i64>; 4] {
    let cores = chip.value(Param::CoresPerChip).unwrap_or(1.0).max(1.0);
    let fused = chip.value(Param::CoresPerDevice).unwrap_or(1.0);
    let share = |param| {
        chip.value(param)
            .map(|bytes| (bytes * fused / cores) as i64)
    };
    [
        share(Param::HbmBytes),
        Machine::param(chip, Param::VmemBytes),
        Machine::param(chip, Param::SmemBytes),
        share(Param::CmemBytes),
    ]
}

/// The bytes of scoped VMEM that are left for a kernel's own buffers.
pub fn scoped_limit(chip: &Chip) -> Option<i64> {
    let kept = Machine::param(chip, Param::MosaicScratchBytes).unwrap_or(0);
    Machine::param(chip, Param::ScopedVmemBytes).map(|bytes| bytes - kept)
}

pub(super) fn semaphores(program: &TpuProgram) -> Vec<Vec<Semaphore>> {
    let arrays = program.semaphores.values();
    arrays
        .map(|array| vec![Semaphore::default(); array.count.clamp(0, 1 << 16) as usize])
        .collect()
}

impl<'p> Machine<'p> {
    /// Begins a buffer's life.
    pub(super) fn declare(&mut self, id: BufferId, here: Here<'p>) -> Result<Flow, Error> {
        if self.states[id.index()].life == Life::Live {
            // A declaration in a loop begins a new life in each iteration.
            self.end_life(id, here);
        }
        let buffer = &self.program.buffers[id];
        let geometry = &self.geometry[id.index()];
        let space = buffer.space as usize;
        let (offset, other) =
            self.ledgers[space].place(id, buffer.space, geometry.bytes, buffer.offset);
        let state = &mut self.states[id.index()];
        state.life = Life::Live;
        state.offset = offset;
        state.since = self.engines.now();
        state.written.clear();
        state.tainted.clear();
        state.neutral.clear();
        state.unwritten_from = None;
        self.visited.remove(&id);
        if let Some(other) = other {
            let (name, other) = (self.name(id), self.name(other));
            let end = offset.saturating_add(geometry.bytes);
            self.find(Code::Overlap, here, Some(id), || {
                let message = format!(
                    "`{name}` takes bytes {offset} to {end}, some of which `{other}` holds at the same time"
                );
                let help = format!(
                    "change the offset, omit it, or `free {other}` before"
                );
                (message, help)
            });
        }
        if buffer.space == Space::Vmem && !buffer.program_lifetime {
            self.scoped.0 = self.scoped.0.saturating_add(geometry.bytes);
            self.scoped.1 = self.scoped.1.max(self.scoped.0);
        }
        self.check_capacity(id, offset, here);
        self.give_memory(id, here)?;
        if let Some(number) = buffer.role.parameter() {
            self.states[id.index()]
                .written
                .insert(&Region::whole(&geometry.dims));
            if self.functional
                && let Some(input) = self.inputs.get(number)
            {
                let region = Region::whole(&geometry.dims);
                let dense = Dense::whole(&geometry.dims);
                let image = &mut self.images[space];
                image.write(geometry, offset, &region, &dense, input.bytes());
            }
        }
        Ok(Flow::Next)
    }

    /// Checks that the buffers declared at the head of the program fit: if they do not fit the
    /// chip, no byte of them is touched. If they do, each memory is reserved at once, so that it
    /// need not be moved when more is declared.
    pub(super) fn check_room(&mut self) -> Result<(), Error> {
        let head = self.program.body.iter();
        let head = head.map_while(|statement| match statement.kind {
            StatementKind::Declare(id) => Some((id, statement.line)),
            _ => None,
        });
        let (mut placed, mut stated, mut between, mut last) = ([0i64; 4], [0i64; 4], [0i64; 4], 0);
        for (id, line) in head {
            let buffer = &self.program.buffers[id];
            let (space, bytes) = (buffer.space as usize, self.geometry[id.index()].bytes);
            match buffer.offset {
                Some(offset) => stated[space] = stated[space].max(offset.saturating_add(bytes)),
                None => {
                    placed[space] = placed[space].saturating_add(bytes);
                    between[space] += alignment(buffer.space) - 1;
                }
            }
            let needed = placed[space].max(stated[space]);
            if self.limits[space].is_some_and(|limit| needed > limit) {
                self.functional = false;
                return Ok(());
            }
            last = line;
        }
        let needed: [i64; 4] = std::array::from_fn(|space| placed[space].max(stated[space]));
        self.check_host(needed.into_iter().fold(0, i64::saturating_add), last)?;
        for ((image, needed), between) in self.images.iter_mut().zip(needed).zip(between) {
            // If the host lacks the memory, the declaration that needs it reports so.
            image.reserve(needed.saturating_add(between));
        }
        Ok(())
    }

    fn check_host(&self, needed: i64, line: u32) -> Result<(), Error> {
        if let Some(limit) = self.room
            && u64::try_from(needed).unwrap_or(0) > limit
        {
            let reason = tegula_limits::Stopped::Memory {
                wanted: u64::try_from(needed).unwrap_or(0),
                used: 0,
                limit,
            };
            return Err(Error::Stopped { line, reason });
        }
        if needed <= self.options.host_bytes {
            return Ok(());
        }
        Err(Error::Limit {
            line,
            message: format!(
                "the buffers take {} of this machine, and {} are allowed: run without values (`--no-values`)",
                bytes(needed),
                bytes(self.options.host_bytes)
            ),
        })
    }

    /// Provides host memory for the placed buffers. Without room for it, or once the program does
    /// not fit the chip, no values are computed any more.
    fn give_memory(&mut self, id: BufferId, here: Here<'p>) -> Result<(), Error> {
        if !self.functional {
            return Ok(());
        }
        let space = self.program.buffers[id].space as usize;
        let extent = self.ledgers[space].extent;
        let over = self.limits[space].is_some_and(|limit| extent > limit);
        if over {
            self.functional = false;
            self.images = Default::default();
            return Ok(());
        }
        self.check_host(self.host_memory(), here.line)?;
        if !self.images[space].reserve(extent) {
            return Err(Error::Limit {
                line: here.line,
                message: format!("this machine has no {} for the buffers", bytes(extent)),
            });
        }
        Ok(())
    }

    fn check_capacity(&mut self, id: BufferId, offset: i64, here: Here<'p>) {
        let buffer = &self.program.buffers[id];
        let space = buffer.space;
        let end = offset.saturating_add(self.geometry[id.index()].bytes);
        let name = space.name().to_uppercase();
        let code = match space {
            Space::Hbm => Code::HbmCapacity,
            Space::Vmem => Code::VmemCapacity,
            Space::Smem | Space::Cmem => Code::ScalarCapacity,
        };
        let used = self.ledgers[space as usize].used;
        if let Some(limit) = self.limits[space as usize]
            && end > limit
        {
            let holders = self.holders(space);
            // A buffer that fits the memory must also fit the kernel's share of it.
            let scoped = match (space, self.scoped_limit, buffer.program_lifetime) {
                (Space::Vmem, Some(share), false) => self.scoped.0 - share,
                _ => 0,
            };
            let smaller = self.largest_that_fits(space, scoped.max(used - limit));
            let why = match (limit, used <= limit) {
                (0, _) => format!("this chip has no {name}"),
                (_, true) => format!(
                    "{} of {name} would do, but the free bytes are in pieces or below a stated offset",
                    bytes(used)
                ),
                _ => format!("{} are in use at the same time", bytes(used)),
            };
            self.find(code, here, None, || {
                let message = format!("{name} has {}: {why}: {holders}", bytes(limit));
                (message, advice(space, smaller))
            });
            return;
        }
        if let Some(limit) = self.scoped_limit
            && space == Space::Vmem
            && !buffer.program_lifetime
            && self.scoped.0 > limit
        {
            let (scoped, holders) = (self.scoped.0, self.holders(space));
            let smaller = self.largest_that_fits(space, scoped - limit);
            self.find(code, here, None, || {
                let message = format!(
                    "a kernel has {} of scoped VMEM, and {} are held at once: {holders}",
                    bytes(limit),
                    bytes(scoped)
                );
                (message, advice(space, smaller))
            });
        }
    }

    /// The shape of the largest buffer with its longest dimension shortened so that the buffer
    /// takes this many bytes less. A dimension of at least 8 stays a multiple of 8.
    fn largest_that_fits(&self, space: Space, excess: i64) -> Option<String> {
        let held = self.ledgers[space as usize].holders();
        let largest = held.first().filter(|_| excess > 0)?.buffer;
        let buffer = &self.program.buffers[largest];
        let own = self.geometry[largest.index()].bytes;
        let room = own.checked_sub(excess).filter(|&room| room > 0)?;
        let mut dims = buffer.shape.static_dims()?;
        let longest = dims.iter_mut().max_by_key(|size| **size)?;
        let most = i64::try_from(i128::from(*longest) * i128::from(room) / i128::from(own)).ok()?;
        *longest = if most >= 8 { most / 8 * 8 } else { most };
        if *longest == 0 {
            return None;
        }
        let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
        let element_type = buffer.shape.element_type;
        Some(format!(
            "at most {element_type}[{}] for `{}`",
            dims.join(","),
            buffer.name
        ))
    }

    /// The largest holders of a memory, in words.
    fn holders(&self, space: Space) -> String {
        let held = self.ledgers[space as usize].holders();
        let mut parts: Vec<String> = Vec::new();
        for holder in held.iter().take(5) {
            let geometry = &self.geometry[holder.buffer.index()];
            let buffer = &self.program.buffers[holder.buffer];
            let padding = geometry.bytes - geometry.useful;
            let padding = match padding {
                0 => String::new(),
                padding => format!(" ({} of it padding)", bytes(padding)),
            };
            let (name, size) = (&buffer.name, bytes(geometry.bytes));
            parts.push(format!("`{name}` {size}{padding}"));
        }
        if held.len() > 5 {
            parts.push(format!("{} more", held.len() - 5));
        }
        parts.join(", ")
    }

    /// Ends a buffer's life.
    pub(super) fn free(&mut self, id: BufferId, here: Here<'p>) -> Flow {
        match self.states[id.index()].life {
            Life::Live => {
                self.end_life(id, here);
                self.states[id.index()].life = Life::Freed(here.line);
            }
            Life::Freed(line) => {
                let (name, line) = (self.name(id), self.program.source_line(line));
                self.find(Code::UseAfterFree, here, Some(id), || {
                    (
                        format!("`{name}` is freed a second time; first at line {line}"),
                        "remove one of them".to_owned(),
                    )
                });
            }
            Life::NotYet => {}
        }
        Flow::Next
    }

    fn end_life(&mut self, id: BufferId, here: Here<'p>) {
        let flying = self.flights.of(id).next();
        if let Some(flight) = flying {
            let (name, line) = (self.name(id), self.program.source_line(flight.line));
            let array = self.program.semaphores[flight.semaphore.0].name.clone();
            let index = flight.semaphore.1;
            self.find(Code::UseAfterFree, here, Some(id), || {
                let message = format!(
                    "`{name}` is freed while the copy that line {line} begins may still run"
                );
                (
                    message,
                    format!("`dma_wait {array}[{index}]` before the free"),
                )
            });
        }
        self.record_end(id);
        let buffer = &self.program.buffers[id];
        self.ledgers[buffer.space as usize].release(id);
        if buffer.space == Space::Vmem && !buffer.program_lifetime {
            self.scoped.0 -= self.geometry[id.index()].bytes;
        }
    }

    pub(super) fn record_end(&mut self, id: BufferId) {
        const MOST: usize = 1 << 18;
        if self.options.record_timeline && self.occupancy.len() < MOST {
            let buffer = &self.program.buffers[id];
            let state = &self.states[id.index()];
            self.occupancy.push(Occupancy {
                buffer: buffer.name.clone(),
                space: buffer.space,
                offset: state.offset,
                bytes: self.geometry[id.index()].bytes,
                from: state.since,
                to: self.engines.now(),
            });
        }
    }
}

fn advice(space: Space, smaller: Option<String>) -> String {
    if let (Space::Vmem, Some(smaller)) = (space, smaller) {
        return format!(
            "take smaller blocks ({smaller}), fewer buffers for each window, or free what is no longer used"
        );
    }
    match space {
        Space::Hbm => {
            "hold fewer arrays at once, or lay out small dimensions so that they are not padded"
        }
        Space::Vmem => {
            "take smaller blocks, fewer buffers for each window, or free what is no longer used"
        }
        Space::Smem => "keep only scalars in SMEM; arrays go to VMEM",
        Space::Cmem => "use VMEM or HBM",
    }
    .to_owned()
}
