//! The arrays that have arrived for devices of this process, by run, exchange, sender and receiver.

use crate::communicator::ExchangeError;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::Literal;

/// The identity of a run, the same in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RunId {
    /// A hash of the list of its devices.
    pub(super) group: u64,
    /// The number of earlier runs on this list.
    pub(super) number: u64,
}

/// The identity of an exchange, the same in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Site {
    pub(super) run: RunId,
    pub(super) instruction: u64,
    /// A hash of the members.
    pub(super) members: u64,
    /// The number of earlier exchanges there by these members.
    pub(super) visit: u64,
}

/// The arrays of one device for another. Those of another process are bytes, whose shapes the
/// receiver knows.
pub(super) type Parcel = Arc<[Literal]>;

/// Sender and receiver, by their numbers in the program.
pub(super) type Way = (usize, usize);

#[derive(Default)]
struct State {
    parcels: FxHashMap<Site, FxHashMap<Way, Parcel>>,
    /// The number of runs on each list of devices that this process has begun.
    begun: FxHashMap<u64, u64>,
    /// The runs that this process has begun and not ended.
    active: FxHashSet<RunId>,
    /// The program of each run of each other process that has sent something for it.
    programs: FxHashMap<(RunId, usize), u64>,
    /// The runs that other processes have ended.
    ended: FxHashSet<(RunId, usize)>,
    /// The device that failed first as far as this process knows, by run.
    failed: FxHashMap<RunId, usize>,
    /// Why each process cannot be reached any more.
    lost: Vec<Option<String>>,
}

impl State {
    /// Whether this process has ended a run.
    fn is_over(&self, run: RunId) -> bool {
        let begun = self.begun.get(&run.group).copied().unwrap_or(0);
        run.number < begun && !self.active.contains(&run)
    }
}

pub(super) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

/// What a device waits for.
pub(super) struct Awaited<'a> {
    pub(super) name: &'a str,
    pub(super) site: Site,
    /// The senders.
    pub(super) from: &'a [usize],
    /// The receiver.
    pub(super) to: usize,
    /// The program's number.
    pub(super) program: u64,
    /// The process of each device of the program.
    pub(super) processes: &'a [usize],
    pub(super) timeout: Duration,
}

impl Mailbox {
    pub(super) fn new(processes: usize) -> Self {
        Self {
            state: Mutex::new(State {
                lost: vec![None; processes],
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    /// The locked state, which is consistent even if a thread panicked while it held the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next run on a list of devices.
    pub(super) fn begin(&self, group: u64) -> RunId {
        let mut state = self.lock();
        let next = state.begun.entry(group).or_default();
        let run = RunId {
            group,
            number: *next,
        };
        *next += 1;
        state.active.insert(run);
        run
    }

    /// Ends a run: forgets what has arrived for it.
    pub(super) fn end(&self, run: RunId) {
        let mut state = self.lock();
        state.active.remove(&run);
        state.failed.remove(&run);
        state.parcels.retain(|site, _| site.run != run);
        state.programs.retain(|(other, _), _| *other != run);
        state.ended.retain(|(other, _)| *other != run);
    }

    /// Notes that a device failed, unless this process has ended the run. Returns the device that
    /// failed first.
    pub(super) fn fail(&self, run: RunId, device: usize) -> usize {
        let mut state = self.lock();
        if state.is_over(run) {
            return device;
        }
        let first = *state.failed.entry(run).or_insert(device);
        self.changed.notify_all();
        first
    }

    /// Adds parcels of one sender of this process.
    pub(super) fn put(&self, site: Site, parcels: impl IntoIterator<Item = (Way, Parcel)>) {
        let mut state = self.lock();
        if !state.is_over(site.run) {
            state.parcels.entry(site).or_default().extend(parcels);
            self.changed.notify_all();
        }
    }

    /// Adds a parcel of another process, which runs this program.
    pub(super) fn receive(
        &self,
        (process, program): (usize, u64),
        site: Site,
        parcels: impl IntoIterator<Item = (Way, Parcel)>,
    ) {
        let mut state = self.lock();
        if !state.is_over(site.run) {
            state.programs.insert((site.run, process), program);
            state.parcels.entry(site).or_default().extend(parcels);
            self.changed.notify_all();
        }
    }

    /// Notes that another process has ended a run.
    pub(super) fn other_ended(&self, run: RunId, process: usize) {
        let mut state = self.lock();
        if !state.is_over(run) {
            state.ended.insert((run, process));
            self.changed.notify_all();
        }
    }

    /// Notes that a process cannot be reached any more.
    pub(super) fn lose(&self, process: usize, reason: String) {
        if let Some(lost) = self.lock().lost.get_mut(process) {
            lost.get_or_insert(reason);
        }
        self.changed.notify_all();
    }

    /// Waits for the parcels of all senders, and takes them, in the order of the senders.
    ///
    /// # Errors
    /// A sender failed, ended its run, is lost, or is late.
    pub(super) fn take(&self, awaited: &Awaited<'_>) -> Result<Vec<Parcel>, ExchangeError> {
        let deadline = Instant::now() + awaited.timeout;
        let mut state = self.lock();
        loop {
            if let Some(taken) = awaited.taken(&mut state) {
                return Ok(taken);
            }
            let missing = awaited.missing(&state);
            if let Some(error) = awaited.obstacle(&state, &missing) {
                return Err(error);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ExchangeError::TimedOut {
                    name: awaited.name.to_owned(),
                    timeout: awaited.timeout,
                    missing,
                });
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Awaited<'_> {
    /// Takes the parcels, if all have arrived.
    fn taken(&self, state: &mut State) -> Option<Vec<Parcel>> {
        let parcels = state.parcels.get_mut(&self.site);
        let Some(parcels) = parcels else {
            return self.from.is_empty().then(Vec::new);
        };
        let mut senders = self.from.iter();
        if !senders.all(|&sender| parcels.contains_key(&(sender, self.to))) {
            return None;
        }
        let senders = self.from.iter();
        let taken = senders.filter_map(|&sender| parcels.remove(&(sender, self.to)));
        let taken = taken.collect();
        if parcels.is_empty() {
            state.parcels.remove(&self.site);
        }
        Some(taken)
    }

    /// The senders whose parcels have not arrived.
    fn missing(&self, state: &State) -> Vec<usize> {
        let parcels = state.parcels.get(&self.site);
        let is_there =
            |sender: usize| parcels.is_some_and(|parcels| parcels.contains_key(&(sender, self.to)));
        let senders = self.from.iter().copied();
        senders.filter(|&sender| !is_there(sender)).collect()
    }

    /// Why the parcels of these senders cannot arrive. What a process sent before it ended the run
    /// or was lost has arrived before that is known.
    fn obstacle(&self, state: &State, missing: &[usize]) -> Option<ExchangeError> {
        let run = self.site.run;
        if let Some(&device) = state.failed.get(&run) {
            return Some(ExchangeError::Failed { device });
        }
        missing.iter().find_map(|&device| {
            let process = *self.processes.get(device)?;
            let name = self.name.to_owned();
            let program = state.programs.get(&(run, process));
            if program.is_some_and(|program| *program != self.program) {
                return Some(ExchangeError::OtherProgram { name, process });
            }
            if state.ended.contains(&(run, process)) {
                return Some(ExchangeError::Ended { device, name });
            }
            let reason = state.lost.get(process)?.clone()?;
            Some(ExchangeError::Lost {
                name,
                process,
                reason,
            })
        })
    }
}
