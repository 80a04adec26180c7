//! Waits for copies and for the counts of semaphores.

use super::code::Copy;
use super::cores::{Blocked, Content};
use super::flights::PartlyWaited;
use super::terms::{Index, Signal};
use super::{Flow, Here, Machine};
use crate::finding::Code;
use crate::program::{SemaphoreId, StatementKind, for_each_statement};
use crate::report::Error;
use tegula_arena::EntityRef;

impl<'p> Machine<'p> {
    /// Resolves the semaphore that a statement names.
    pub(super) fn semaphore(
        &self,
        semaphore: &Signal,
        here: Here<'p>,
    ) -> Result<(SemaphoreId, i64), Error> {
        let index = self.value(&semaphore.index, here)?;
        let array = SemaphoreId::new(semaphore.array);
        let count = self.semaphores[semaphore.array].len() as i64;
        if (0..count).contains(&index) {
            return Ok((array, index));
        }
        let name = &self.program.semaphores[array].name;
        Err(Error::Program {
            line: here.line,
            message: format!("semaphore `{name}[{index}]` does not exist: `{name}` has {count}"),
        })
    }

    /// The value of a term that counts something.
    fn count(&self, index: &Index, here: Here<'p>) -> Result<i64, Error> {
        let value = self.value(index, here)?;
        if value >= 0 {
            return Ok(value);
        }
        Err(Error::Program {
            line: here.line,
            message: format!("expected a non-negative count to wait for or signal, found {value}"),
        })
    }

    /// Waits for the oldest copy on a semaphore, or for this many bytes of the oldest copies.
    pub(super) fn wait(
        &mut self,
        semaphore: &Signal,
        bytes: Option<&Index>,
        here: Here<'p>,
    ) -> Result<Flow, Error> {
        let (array, index) = self.semaphore(semaphore, here)?;
        let name = format!("{}[{index}]", self.program.semaphores[array].name);
        let bytes = bytes.map(|bytes| self.count(bytes, here)).transpose()?;
        let slot = (array.index(), index as usize);
        if self.peer.count > 1
            && let Some(there) = self.missing_bytes(slot, bytes)
        {
            return Ok(self.block(Blocked {
                here,
                semaphore: (array, index),
                wanted: bytes.unwrap_or(1),
                there,
                copies: true,
            }));
        }
        if self.semaphores[slot.0][slot.1].copies.is_empty() {
            self.find(Code::NeverStarted, here, None, || {
                (
                    format!("no unfinished copy uses `{name}`: this wait never ends"),
                    format!("start a copy on `{name}` before (`dma_start`), or remove the wait"),
                )
            });
            return Ok(Flow::Next);
        }
        let Some(wanted) = bytes else {
            self.land(slot, here);
            return Ok(Flow::Next);
        };
        let mut left = wanted;
        while left > 0 {
            let oldest = self.semaphores[slot.0][slot.1].copies.front().copied();
            let Some(flight) = oldest.and_then(|number| self.flights.get_mut(number)) else {
                let there = wanted - left;
                self.find(Code::ByteCount, here, None, || {
                    (
                        format!("the wait on `{name}` expects {wanted} bytes, but the copies on it bring {there}: it never ends"),
                        format!("wait for {there} bytes, padding of the tiles included"),
                    )
                });
                return Ok(Flow::Next);
            };
            if left < flight.bytes {
                // Later waits may cover the rest; bytes left at the end of the program are an
                // error.
                let bytes = flight.bytes;
                flight.bytes -= left;
                flight.partly.get_or_insert(PartlyWaited {
                    line: here.line,
                    statement: here.statement,
                    wanted,
                    bytes,
                });
                return Ok(Flow::Next);
            }
            left -= flight.bytes;
            self.land(slot, here);
        }
        Ok(Flow::Next)
    }

    /// The bytes of the copies on a semaphore, if they are fewer than the wait needs; without a
    /// stated number of bytes it needs one whole copy.
    fn missing_bytes(&self, slot: (usize, usize), wanted: Option<i64>) -> Option<i64> {
        let copies = &self.semaphores[slot.0][slot.1].copies;
        let Some(wanted) = wanted else {
            return copies.is_empty().then_some(0);
        };
        let bytes = copies.iter().filter_map(|number| self.flights.get(*number));
        let there = bytes.map(|flight| flight.bytes).sum::<i64>();
        (there < wanted).then_some(there)
    }

    /// Waits for as many bytes as a copy with these ends moves. The ends say only how many: nothing
    /// of them is accessed, and they may reach beyond their arrays.
    pub(super) fn wait_copy(&mut self, copy: &Copy, here: Here<'p>) -> Result<Flow, Error> {
        if !self.has_elements(copy, here)? {
            return Ok(Flow::Next);
        }
        let bytes = self.bytes_of(copy, here)?;
        if bytes == 0 {
            return Ok(Flow::Next);
        }
        self.wait(&copy.semaphore, Some(&Index::Constant(bytes)), here)
    }

    /// Ends the oldest copy on a semaphore.
    fn land(&mut self, slot: (usize, usize), here: Here<'p>) {
        let number = self.semaphores[slot.0][slot.1].copies.pop_front();
        if let Some(flight) = number.and_then(|number| self.flights.land(number)) {
            self.engines.wait(flight.transfer, here.line);
            self.landed(&flight);
            let (block, region) = &flight.source;
            if self.write_backs.get(block) == Some(&flight.destination.0) {
                // The next block of a pipeline begins unwritten.
                self.states[block.index()].written.remove(region);
            }
        }
    }

    /// Reports copies for which only part of the bytes was waited for.
    pub(super) fn check_partly_waited(&mut self) {
        let program = self.program;
        for flight in self.flights.all() {
            let Some(partly) = flight.partly else {
                continue;
            };
            let (array, index) = flight.semaphore;
            let name = format!("{}[{index}]", self.program.semaphores[array].name);
            let PartlyWaited { wanted, bytes, .. } = partly;
            let here = Here {
                line: partly.line,
                statement: partly.statement,
            };
            self.find(Code::ByteCount, here, None, || {
                (
                    format!("the wait on `{name}` expects {wanted} bytes, but the copy that line {} starts has {bytes} left: it may still run afterwards", program.source_line(flight.line)),
                    format!("wait for {bytes} bytes, padding of the tiles included"),
                )
            });
        }
    }

    pub(super) fn signal(
        &mut self,
        semaphore: &Signal,
        amount: &Index,
        core: Option<&Index>,
        here: Here<'p>,
    ) -> Result<Flow, Error> {
        let (array, index) = self.semaphore(semaphore, here)?;
        let amount = self.count(amount, here)?;
        if let Some(core) = core {
            let Some(core) = self.other_core(core, here)? else {
                return Ok(Flow::Stop);
            };
            self.engines.issue(here.line);
            let time = self.engines.now() + self.engines.speeds().link_latency();
            self.send(core, (array, index), Content::Signal(amount), time, here);
            return Ok(Flow::Next);
        }
        let semaphore = &mut self.semaphores[array.index()][index as usize];
        semaphore.count = semaphore.count.saturating_add(amount);
        semaphore.raised = here.line;
        Ok(Flow::Next)
    }

    /// Waits until a semaphore has a count. On a single core only the core itself signals, so a
    /// count that is too small stays too small.
    pub(super) fn await_count(
        &mut self,
        semaphore: &Signal,
        amount: &Index,
        here: Here<'p>,
    ) -> Result<Flow, Error> {
        let (array, index) = self.semaphore(semaphore, here)?;
        let amount = self.count(amount, here)?;
        let slot = &mut self.semaphores[array.index()][index as usize];
        if slot.count >= amount {
            slot.count -= amount;
            self.take_signals((array.index(), index as usize), amount, here);
            return Ok(Flow::Next);
        }
        let count = slot.count;
        if self.peer.count > 1 {
            return Ok(self.block(Blocked {
                here,
                semaphore: (array, index),
                wanted: amount,
                there: count,
                copies: false,
            }));
        }
        let name = format!("{}[{index}]", self.program.semaphores[array].name);
        let program = self.program;
        let mut lines = Vec::new();
        for_each_statement(&program.body, &mut |statement| {
            if let StatementKind::Signal { semaphore, .. } = &statement.kind
                && semaphore.array == array
            {
                lines.push(program.source_line(statement.line));
            }
        });
        let line = program.source_line(here.line);
        self.find(Code::Deadlock, here, None, || {
            let source = match lines.as_slice() {
                [] => "which no statement signals".to_owned(),
                lines => {
                    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                    format!(
                        "which only the core signals, at line {}, after this wait",
                        lines.join(", ")
                    )
                }
            };
            let array = &program.semaphores[array].name;
            (
                format!("deadlock: the core waits at line {line} for `{name}` to be {amount}; it is {count}; the core -> `{array}`, {source} -> the core"),
                format!("`signal {name}, {amount}` before, or remove the wait"),
            )
        });
        Ok(Flow::Stop)
    }

    /// Takes the signals of a count that was waited for and merges their senders' clocks. Where
    /// several cores signalled, the earliest signals are taken.
    fn take_signals(&mut self, slot: (usize, usize), amount: i64, here: Here<'p>) {
        let mut left = amount;
        while left > 0 {
            let signals = &mut self.semaphores[slot.0][slot.1].signals;
            let Some((count, clock, time)) = signals.front_mut() else {
                return;
            };
            let (clock, time) = (clock.clone(), *time);
            let taken = left.min(*count);
            *count -= taken;
            left -= taken;
            if *count == 0 {
                signals.pop_front();
            }
            self.learn(&clock);
            self.engines.wait_until(time, here.line);
        }
    }
}
