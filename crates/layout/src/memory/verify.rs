//! A proof, step by step, that a schedule keeps its promises. It shares no code with
//! what makes schedules but the schedule's own description.

use super::{BufferId, Schedule, Source, Step, VMEM};

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// A number that names nothing.
    #[error("step {0} names a buffer or copy that there is not")]
    NoSuch(usize),
    /// A read before the contents are there.
    #[error("step {step} reads buffer {buffer} before it holds anything")]
    Uninitialised {
        /// The step.
        step: usize,
        /// The buffer.
        buffer: BufferId,
    },
    /// A copy is waited for before it began, or twice.
    #[error("step {0} waits for a copy that is not under way")]
    NotUnderWay(usize),
    /// A buffer is used while a copy into it, or is written while a copy from it, runs.
    #[error("step {step} uses buffer {buffer} while a copy of it is under way")]
    Racing {
        /// The step.
        step: usize,
        /// The buffer.
        buffer: BufferId,
    },
    /// Two buffers that live at one time share bytes.
    #[error("buffers {first} and {second} are both live at step {step} and overlap")]
    Overlap {
        /// One.
        first: BufferId,
        /// The other.
        second: BufferId,
        /// When.
        step: usize,
    },
    /// A buffer or what a step keeps for itself does not fit.
    #[error("step {step} needs {needed} bytes of VMEM; there are {capacity}")]
    Capacity {
        /// When.
        step: usize,
        /// Bytes up to the end of what is needed.
        needed: i64,
        /// Bytes there are.
        capacity: i64,
    },
    /// A buffer in VMEM has no offset, or one elsewhere has.
    #[error("buffer {0} is in VMEM without an offset, or elsewhere with one")]
    Offset(BufferId),
    /// A copy is still under way at the end.
    #[error("copy {0} is never waited for")]
    NeverDone(usize),
    /// A result of the program holds nothing, or lies neither in HBM nor at the host.
    #[error("result {0} of the program is not in HBM or at the host at the end")]
    Result(usize),
}

/// Proves a schedule.
///
/// # Errors
/// The first promise that it breaks.
pub fn verify(schedule: &Schedule) -> Result<(), VerifyError> {
    for (id, buffer) in schedule.buffers.iter().enumerate() {
        let view = matches!(buffer.source, Source::Bitcast(_));
        if !view && (buffer.space() == VMEM) != buffer.offset.is_some() {
            return Err(VerifyError::Offset(id));
        }
    }
    let mut run = Run {
        schedule,
        filled: schedule
            .buffers
            .iter()
            .map(|b| b.source == Source::Given)
            .collect(),
        arriving: vec![false; schedule.buffers.len()],
        leaving: vec![0; schedule.buffers.len()],
        under_way: vec![false; schedule.transfers.len()],
    };
    for (number, step) in schedule.steps.iter().enumerate() {
        run.step(number, step)?;
    }
    if let Some(copy) = run.under_way.iter().position(|&under_way| under_way) {
        return Err(VerifyError::NeverDone(copy));
    }
    for (number, &result) in schedule.results.iter().enumerate() {
        let base = schedule.base(result);
        let there = run.filled.get(base) == Some(&true);
        let space = schedule.buffers.get(base).map(super::Buffer::space);
        if !there || !matches!(space, Some(super::HBM | super::HOST)) {
            return Err(VerifyError::Result(number));
        }
    }
    offsets(schedule)
}

struct Run<'a> {
    schedule: &'a Schedule,
    filled: Vec<bool>,
    arriving: Vec<bool>,
    leaving: Vec<u32>,
    under_way: Vec<bool>,
}

impl Run<'_> {
    fn read(&self, step: usize, id: BufferId) -> Result<(), VerifyError> {
        let base = self.schedule.base(id);
        match self.filled.get(base) {
            None => Err(VerifyError::NoSuch(step)),
            Some(false) if self.arriving[base] => Err(VerifyError::Racing { step, buffer: id }),
            Some(false) => Err(VerifyError::Uninitialised { step, buffer: id }),
            Some(true) => Ok(()),
        }
    }

    fn write(&mut self, step: usize, id: BufferId) -> Result<(), VerifyError> {
        let base = self.schedule.base(id);
        let Some(filled) = self.filled.get_mut(base) else {
            return Err(VerifyError::NoSuch(step));
        };
        if self.arriving[base] || self.leaving[base] > 0 {
            return Err(VerifyError::Racing { step, buffer: id });
        }
        *filled = true;
        Ok(())
    }

    fn step(&mut self, number: usize, step: &Step) -> Result<(), VerifyError> {
        match step {
            Step::Kernel { reads, writes, .. } => {
                for &id in reads {
                    self.read(number, id)?;
                }
                writes.iter().try_for_each(|&id| self.write(number, id))
            }
            Step::Relayout { from, to, .. } => {
                self.read(number, *from)?;
                self.write(number, *to)
            }
            Step::Bitcast { from, to, .. } => {
                self.read(number, *from)?;
                let same = self.schedule.base(*to) == self.schedule.base(*from);
                if same {
                    Ok(())
                } else {
                    Err(VerifyError::NoSuch(number))
                }
            }
            Step::CopyStart(copy) => {
                let transfer = self.schedule.transfers.get(*copy);
                let transfer = transfer.ok_or(VerifyError::NoSuch(number))?;
                self.read(number, transfer.from)?;
                let (from, to) = (self.schedule.base(transfer.from), transfer.to);
                if self.under_way[*copy] || self.arriving.get(to) != Some(&false) {
                    return Err(VerifyError::NotUnderWay(number));
                }
                self.under_way[*copy] = true;
                self.leaving[from] += 1;
                self.arriving[to] = true;
                self.filled[to] = false;
                Ok(())
            }
            Step::CopyDone(copy) => {
                let transfer = self.schedule.transfers.get(*copy);
                let transfer = transfer.ok_or(VerifyError::NoSuch(number))?;
                if !std::mem::replace(&mut self.under_way[*copy], false) {
                    return Err(VerifyError::NotUnderWay(number));
                }
                self.leaving[self.schedule.base(transfer.from)] -= 1;
                self.arriving[transfer.to] = false;
                self.filled[transfer.to] = true;
                Ok(())
            }
        }
    }
}

/// Buffers in VMEM that live at one time lie apart, within the capacity and beside what
/// steps keep for themselves.
fn offsets(schedule: &Schedule) -> Result<(), VerifyError> {
    let lives = schedule.lifetimes();
    let mut live: Vec<(i64, i64, BufferId)> = Vec::new();
    for step in 0..=schedule.steps.len() {
        live.clear();
        for (id, buffer) in schedule.buffers.iter().enumerate() {
            let (first, last) = lives[id];
            let view = matches!(buffer.source, Source::Bitcast(_));
            if let Some(offset) = buffer
                .offset
                .filter(|_| !view && first <= step && step <= last)
            {
                live.push((offset, offset + buffer.bytes, id));
            }
        }
        live.sort_unstable();
        for pair in live.windows(2) {
            let [(_, end, first), (start, _, second)] = pair else {
                continue;
            };
            if start < end {
                let (first, second) = (*first, *second);
                return Err(VerifyError::Overlap {
                    first,
                    second,
                    step,
                });
            }
        }
        let scoped = match schedule.steps.get(step) {
            Some(Step::Kernel { scoped, .. } | Step::Relayout { scoped, .. }) => *scoped,
            _ => 0,
        };
        let end = live.iter().map(|&(_, end, _)| end).max().unwrap_or(0);
        let needed = end.max(0) + scoped;
        if needed > schedule.vmem_bytes || live.iter().any(|&(start, ..)| start < 0) {
            let capacity = schedule.vmem_bytes;
            return Err(VerifyError::Capacity {
                step,
                needed,
                capacity,
            });
        }
    }
    Ok(())
}
