//! The checks of every access: that its buffer is live, that it stays inside the buffer, that no
//! copy in flight conflicts with it, and that what it reads was written.

use super::terms::Cut;
use super::{Here, Life, Machine};
use crate::finding::Code;
use crate::memory::region::Region;
use crate::program::BufferId;
use crate::report::Error;
use smallvec::SmallVec;
use tegula_arena::EntityRef;

/// A slice of a buffer with the values of its terms.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) buffer: BufferId,
    /// The elements of the slice that exist.
    pub(super) region: Region,
    /// By dimension of the buffer, how many elements of the slice lie before the region.
    pub(super) lead: SmallVec<[i64; 4]>,
    /// Whether some of the slice's elements do not exist.
    pub(super) partial: bool,
    /// Whether that is an error, which was reported.
    pub(super) outside: bool,
}

/// How a statement is about to access elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    Read,
    Write,
    /// Both a read and a write, as by `+=`.
    Update,
}

/// The error of a slice with a place or size that cannot be computed.
pub(super) fn no_value(line: u32) -> Error {
    Error::Program {
        line,
        message: "an index of a slice has no value: a variable without one, a division by zero, or a number beyond 64 bits".to_owned(),
    }
}

impl<'p> Machine<'p> {
    /// Resolves a slice to the elements that exist; `None` if the buffer is not live or none of the
    /// elements exists.
    pub(super) fn access(&mut self, cut: &Cut, here: Here<'p>) -> Result<Option<Access>, Error> {
        let id = cut.buffer;
        if self.states[id.index()].life != Life::Live {
            let (name, life) = (self.name(id), self.states[id.index()].life);
            let program = self.program;
            self.find(Code::UseAfterFree, here, Some(id), || match life {
                Life::Freed(line) => (
                    format!(
                        "`{name}` is used, but it was freed at line {}",
                        program.source_line(line)
                    ),
                    format!("move the `free {name}` after its last use"),
                ),
                _ => (
                    format!("`{name}` is used before its life begins"),
                    "declare it first".to_owned(),
                ),
            });
            return Ok(None);
        }
        let geometry = &self.geometry[id.index()];
        let mut access = Access {
            buffer: id,
            region: Region::default(),
            lead: SmallVec::new(),
            partial: false,
            outside: false,
        };
        let mut outside: Option<(usize, i64, i64)> = None;
        for (d, entry) in cut.entries.iter().enumerate() {
            let start = entry.start.value(&self.values);
            let size = entry.size(&self.values);
            let ends = start.zip(size);
            let ends = ends.and_then(|(start, n)| Some((start, start.checked_add(n)?, n)));
            let Some((start, end, entry_size)) = ends else {
                return Err(no_value(here.line));
            };
            if entry_size < 0 {
                let (name, d) = (self.name(id), self.program.source_dimension(id, d));
                self.find(Code::OutOfBounds, here, Some(id), || {
                    (
                        format!("{entry_size} elements of dimension {d} of `{name}`"),
                        "bound the size".to_owned(),
                    )
                });
                return Ok(None);
            }
            let size = geometry.dims[d];
            // A block may be clipped at the edge of the array; only windows with padding begin
            // before the array.
            let clipped = entry.clipped && start < size && end > 0;
            if (start < 0 || end > size) && !clipped && outside.is_none() {
                outside = Some((d, start, end));
            }
            access.partial |= start < 0 || end > size;
            access
                .lead
                .push(start.saturating_neg().clamp(0, entry_size.max(0)));
            access.region.low.push(start.clamp(0, size));
            access.region.high.push(end.clamp(0, size));
        }
        if let Some((d, start, end)) = outside {
            access.outside = true;
            self.outside(id, d, start, end, here);
        }
        Ok((!access.region.is_empty()).then_some(access))
    }

    fn outside(&mut self, id: BufferId, d: usize, start: i64, end: i64, here: Here<'p>) {
        let geometry = &self.geometry[id.index()];
        let (size, padded, name) = (geometry.dims[d], geometry.padded(d), self.name(id));
        let d = self.program.source_dimension(id, d);
        if start >= 0 && end <= padded {
            self.find(Code::InPadding, here, Some(id), || {
                let message = format!(
                    "elements {start}..{end} of dimension {d} of `{name}`, which has {size}: the rest, up to {padded}, is padding of the tile and holds nothing"
                );
                (message, "end the slice at the array's edge (`clipped`), and mask what is beyond it".to_owned())
            });
        } else {
            self.find(Code::OutOfBounds, here, Some(id), || {
                let message = format!(
                    "elements {start}..{end} of dimension {d} of `{name}`, which has {size}: this memory belongs to something else"
                );
                (message, "bound the index, or `assume` the range that it has".to_owned())
            });
        }
    }

    /// Checks an access against every copy that may still run.
    pub(super) fn check_races(&mut self, access: &Access, touch: Touch, here: Here<'p>) {
        let id = access.buffer;
        self.note_access(id, &access.region, touch, here.line);
        let mut found: SmallVec<[(Code, u32, usize, i64); 2]> = SmallVec::new();
        for flight in self.flights.of(id) {
            let writes = flight.destination.0 == id && flight.destination.1.meets(&access.region);
            let reads = flight.source.0 == id && flight.source.1.meets(&access.region);
            let before = match touch {
                Touch::Write => Code::TwoWrites,
                Touch::Read | Touch::Update => Code::ReadBeforeDone,
            };
            let (array, index) = flight.semaphore;
            if writes {
                found.push((before, flight.line, array.index(), index));
            }
            if reads && touch != Touch::Read {
                found.push((Code::Overwritten, flight.line, array.index(), index));
            }
        }
        for (code, line, array, index) in found {
            let elements = self.elements(id, &access.region);
            let line = self.program.source_line(line);
            let semaphores = self.program.semaphores.values();
            let semaphore = semaphores.map(|s| s.name.as_str()).nth(array);
            let semaphore = semaphore.unwrap_or_default();
            self.find(code, here, Some(id), || {
                let what = match code {
                    Code::ReadBeforeDone => "is read, but the copy that writes it",
                    Code::Overwritten => "is overwritten, but the copy that reads it",
                    _ => "is written, but the copy that writes it too",
                };
                let message =
                    format!("`{elements}` {what}, begun at line {line}, was not waited for");
                let help = format!("`dma_wait {semaphore}[{index}]` before this statement");
                (message, help)
            });
        }
    }

    /// Checks that every element that is read was written.
    pub(super) fn check_written(&mut self, access: &Access, here: Here<'p>) {
        let state = &self.states[access.buffer.index()];
        if let Some(missing) = state.written.missing(&access.region) {
            self.not_written(access.buffer, &missing, here, false);
        }
    }

    pub(super) fn not_written(
        &mut self,
        id: BufferId,
        missing: &Region,
        here: Here<'p>,
        at_end: bool,
    ) {
        if let Some(line) = self.states[id.index()].unwritten_from {
            let elements = self.elements(id, missing);
            let source = self.program.source_line(line);
            self.find(Code::Uninitialised, Here { line, ..here }, Some(id), || {
                (
                    format!(
                        "`{elements}` gets elements of unwritten memory, which line {source} loads"
                    ),
                    "write that memory first, or select other elements before they are stored"
                        .to_owned(),
                )
            });
            return;
        }
        let mut writers = self.states[id.index()].writers.clone();
        for line in &mut writers {
            *line = self.program.source_line(*line);
        }
        writers.dedup();
        let (name, elements) = (self.name(id), self.elements(id, missing));
        self.find(Code::Uninitialised, here, Some(id), || {
            let lines: Vec<String> = writers.iter().map(ToString::to_string).collect();
            let origin = match lines.as_slice() {
                [] => "no statement writes it".to_owned(),
                [one] => format!("the statement of line {one} should have written it"),
                many => format!("the statements of lines {} should have", many.join(", ")),
            };
            let when = if at_end { " at the end" } else { "" };
            let message = format!("`{elements}` was never written{when}: {origin}");
            let help = match lines.is_empty() {
                true => format!("copy into `{name}` or compute it first"),
                false => "run that statement before, for all of these elements".to_owned(),
            };
            (message, help)
        });
    }
}
