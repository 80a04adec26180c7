//! Recordings of straight-line pieces of runs (CUDA graphs).
//!
//! A recording contains addresses, so it is valid for one base address of a run's memory. A device
//! tends to allocate the same addresses again, so a piece is recorded when it runs for the second
//! time at the same base address.

use crate::device::{Recording, Session};
use crate::error::Error;
use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

/// Identifies a piece: its schedule, its number in the schedule, and the base address of the run's
/// memory.
pub(crate) type Piece = (u64, usize, u64);

/// The most pieces that are tracked, because recordings take memory.
const MOST: usize = 256;

/// The recordings of an executable's runs.
#[derive(Default)]
pub(crate) struct Recordings(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The device's context epoch in which all recordings were made.
    context_epoch: u64,
    pieces: FxHashMap<Piece, State>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Done,
    Recorded(Recording),
    /// The device cannot record it.
    Never,
}

impl Recordings {
    /// Runs a piece, by replaying its recording if there is one.
    ///
    /// # Errors
    /// The errors of `work`.
    pub(crate) fn run(
        &self,
        session: &dyn Session,
        piece: Piece,
        work: &mut dyn FnMut(&dyn Session) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.context_epoch != session.context_epoch() {
            *known = Known {
                context_epoch: session.context_epoch(),
                ..Known::default()
            };
        }
        match known.pieces.get(&piece).copied() {
            Some(State::Recorded(recording)) => return session.replay(recording),
            Some(State::Never) => {}
            None => {
                if known.pieces.len() >= MOST {
                    for (_, state) in known.pieces.drain() {
                        if let State::Recorded(recording) = state {
                            session.forget(recording);
                        }
                    }
                }
                known.pieces.insert(piece, State::Done);
            }
            Some(State::Done) => {
                if let Some(recording) = session.record(work) {
                    known.pieces.insert(piece, State::Recorded(recording));
                    return session.replay(recording);
                }
                known.pieces.insert(piece, State::Never);
            }
        }
        drop(known);
        work(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Choice, Launch, Product};
    use crate::library::matrices::Matrices;
    use std::cell::{Cell, RefCell};

    /// A device that records the operations on it.
    #[derive(Default)]
    struct Counting {
        context_epoch: Cell<u64>,
        records: bool,
        done: RefCell<Vec<&'static str>>,
    }

    impl Session for Counting {
        fn context_epoch(&self) -> u64 {
            self.context_epoch.get()
        }
        fn allocate(&self, _bytes: u64) -> Result<u64, Error> {
            Ok(0)
        }
        fn free(&self, _address: u64) {}
        fn write(&self, _address: u64, _bytes: &[u8]) -> Result<(), Error> {
            Ok(())
        }
        fn read(&self, _address: u64, _bytes: &mut [u8]) -> Result<(), Error> {
            Ok(())
        }
        fn copy(&self, _from: u64, _to: u64, _bytes: u64) -> Result<(), Error> {
            self.done.borrow_mut().push("copy");
            Ok(())
        }
        fn launch(&self, _launch: &Launch<'_>) -> Result<(), Error> {
            Ok(())
        }
        fn choose(&self, _: &Matrices, _: [u32; 5]) -> Result<Option<Choice>, Error> {
            Ok(None)
        }
        fn multiply(&self, _product: &Product<'_>) -> Result<(), Error> {
            Ok(())
        }
        fn wait(&self) -> Result<(), Error> {
            Ok(())
        }
        fn record(
            &self,
            _work: &mut dyn FnMut(&dyn Session) -> Result<(), Error>,
        ) -> Option<Recording> {
            self.done.borrow_mut().push("record");
            self.records.then_some(Recording(0))
        }
        fn replay(&self, _recording: Recording) -> Result<(), Error> {
            self.done.borrow_mut().push("replay");
            Ok(())
        }
        fn forget(&self, _recording: Recording) {
            self.done.borrow_mut().push("forget");
        }
    }

    fn run(recordings: &Recordings, device: &Counting, piece: Piece) {
        let mut work = |session: &dyn Session| session.copy(0, 1, 1);
        recordings.run(device, piece, &mut work).unwrap();
    }

    #[test]
    fn a_piece_is_recorded_the_second_time() {
        let device = Counting {
            records: true,
            ..Counting::default()
        };
        let recordings = Recordings::default();
        for _ in 0..4 {
            run(&recordings, &device, (0, 0, 256));
        }
        run(&recordings, &device, (0, 0, 512));
        // Recordings are not valid in another context epoch.
        device.context_epoch.set(1);
        run(&recordings, &device, (0, 0, 256));
        let expected = [
            "copy", "record", "replay", "replay", "replay", "copy", "copy",
        ];
        assert_eq!(*device.done.borrow(), expected);
    }

    #[test]
    fn what_a_device_does_not_record_is_done() {
        let (device, recordings) = (Counting::default(), Recordings::default());
        for _ in 0..3 {
            run(&recordings, &device, (0, 0, 0));
        }
        assert_eq!(*device.done.borrow(), ["copy", "record", "copy", "copy"]);
    }

    #[test]
    fn not_too_much_is_remembered() {
        let device = Counting {
            records: true,
            ..Counting::default()
        };
        let recordings = Recordings::default();
        run(&recordings, &device, (0, 0, 0));
        run(&recordings, &device, (0, 0, 0));
        for piece in 1..=MOST {
            run(&recordings, &device, (0, piece, 0));
        }
        assert_eq!(
            device
                .done
                .borrow()
                .iter()
                .filter(|d| **d == "forget")
                .count(),
            1
        );
    }
}
