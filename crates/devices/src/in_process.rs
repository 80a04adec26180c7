//! Devices as threads of this process that share arrays.
//!
//! Each exchange is a round: a member deposits its arrays and waits until all members have done so.
//! Arrays are shared, not copied. Rounds are identified by the instruction, the members, and the
//! number of earlier rounds of this device with these members there. So devices that run ahead
//! never mix up iterations of a loop.

use crate::communicator::{Combine, Communicator, Exchange, ExchangeError};
use crate::run::{self, RunError};
use crate::topology::Topology;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::Literal;

/// An instruction and the members of its exchange.
type Site = (usize, Arc<[usize]>);

/// An exchange in progress.
struct Round {
    /// The arrays that each member has deposited, by position.
    arrays: Vec<Option<Arc<[Literal]>>>,
    /// The combination of all arrays, which one member computes if all need the same.
    combined: Option<Option<Arc<[Literal]>>>,
    /// The number of members that have not taken the result yet.
    to_take: usize,
}

#[derive(Default)]
struct State {
    rounds: FxHashMap<(Site, u64), Round>,
    /// For each device, whether its run has ended.
    ended: Vec<bool>,
    /// The first device that failed.
    failed: Option<usize>,
}

/// The state that the devices of a run share.
struct Job {
    topology: Topology,
    timeout: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

impl Job {
    /// The locked state. It is consistent even if a thread panicked while it held the lock, because
    /// every change is a single assignment or insertion.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl run::Job for Job {
    fn communicator(self: Arc<Self>, device: usize) -> Arc<dyn Communicator> {
        Arc::new(Member {
            job: self,
            device,
            visits: Mutex::default(),
        })
    }

    fn end(&self, device: usize, ok: bool) {
        let mut state = self.lock();
        if let Some(ended) = state.ended.get_mut(device) {
            *ended = true;
        }
        if !ok {
            state.failed.get_or_insert(device);
        }
        self.changed.notify_all();
    }

    fn failed(&self) -> Option<usize> {
        self.lock().failed
    }
}

/// The communicator of one device.
struct Member {
    job: Arc<Job>,
    device: usize,
    /// The number of rounds that this device has taken part in at each site.
    visits: Mutex<FxHashMap<Site, u64>>,
}

impl Member {
    /// The number of this device's earlier rounds at a site; counts one more.
    fn visit(&self, site: &Site) -> u64 {
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        let count = visits.entry(site.clone()).or_default();
        *count += 1;
        *count - 1
    }
}

impl Communicator for Member {
    fn topology(&self) -> Topology {
        self.job.topology
    }

    fn device(&self) -> usize {
        self.device
    }

    fn exchange(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
    ) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        let (state, key) = self.join(exchange, arrays)?;
        if state.rounds.get(&key).is_some_and(Round::is_joined) {
            self.job.changed.notify_all();
        }
        self.wait(exchange, state, &key, Round::all)
    }

    fn exchange_combined(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
        combine: &mut Combine<'_>,
    ) -> Result<Option<Arc<[Literal]>>, ExchangeError> {
        let (mut state, key) = self.join(exchange, arrays)?;
        // The last member to join combines the arrays.
        if let Some(all) = state.rounds.get(&key).and_then(Round::all) {
            drop(state);
            let combined = combine(&all);
            state = self.job.lock();
            if let Some(round) = state.rounds.get_mut(&key) {
                round.combined = Some(combined);
            }
            self.job.changed.notify_all();
        }
        self.wait(exchange, state, &key, |round| round.combined.clone())
    }
}

impl Member {
    /// Deposits this device's arrays.
    fn join(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
    ) -> Result<(MutexGuard<'_, State>, (Site, u64)), ExchangeError> {
        let members = exchange.members;
        let position = members.iter().position(|&member| member == self.device);
        let position = position.ok_or_else(|| ExchangeError::NoMember {
            device: self.device,
            name: exchange.name.to_owned(),
        })?;
        let site: Site = (exchange.site, members.into());
        let key = (site.clone(), self.visit(&site));
        let mut state = self.job.lock();
        let round = state.rounds.entry(key.clone()).or_insert_with(|| Round {
            arrays: vec![None; members.len()],
            combined: None,
            to_take: members.len(),
        });
        if let Some(slot) = round.arrays.get_mut(position) {
            *slot = Some(arrays.into());
        }
        Ok((state, key))
    }

    /// Waits until a round has a result, and takes it. The last member to do so removes the round.
    fn wait<R>(
        &self,
        exchange: Exchange<'_>,
        mut state: MutexGuard<'_, State>,
        key: &(Site, u64),
        take: impl Fn(&Round) -> Option<R>,
    ) -> Result<R, ExchangeError> {
        let deadline = Instant::now() + self.job.timeout;
        loop {
            if let Some(round) = state.rounds.get_mut(key)
                && let Some(taken) = take(round)
            {
                round.to_take -= 1;
                if round.to_take == 0 {
                    state.rounds.remove(key);
                }
                return Ok(taken);
            }
            let missing = missing(&state, key, exchange.members);
            if let Some(device) = state.failed {
                return Err(ExchangeError::Failed { device });
            }
            if let Some(&device) = missing.iter().find(|&&device| state.ended[device]) {
                let name = exchange.name.to_owned();
                return Err(ExchangeError::Ended { device, name });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ExchangeError::TimedOut {
                    name: exchange.name.to_owned(),
                    timeout: self.job.timeout,
                    missing,
                });
            }
            let waited = self.job.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Round {
    /// Whether all members have joined.
    fn is_joined(&self) -> bool {
        self.arrays.iter().all(Option::is_some)
    }

    /// The arrays of all members, once they have joined.
    fn all(&self) -> Option<Vec<Arc<[Literal]>>> {
        self.arrays.iter().cloned().collect()
    }
}

/// The members that have not joined a round.
fn missing(state: &State, key: &(Site, u64), members: &[usize]) -> Vec<usize> {
    let joined = state.rounds.get(key).map(|round| &round.arrays);
    let joined = joined.into_iter().flatten().map(Option::is_some);
    let pairs = members.iter().zip(joined);
    pairs
        .filter(|(_, joined)| !joined)
        .map(|(&m, _)| m)
        .collect()
}

/// Runs a program on all devices of a topology, each on its own thread. Returns their results, by
/// number.
///
/// # Errors
/// The error of the device that failed first. The other devices then stop at their next exchange.
pub fn run<T: Send, E: Send>(
    topology: Topology,
    timeout: Duration,
    program: impl Fn(Arc<dyn Communicator>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, RunError<E>> {
    let devices: Vec<usize> = (0..topology.devices()).collect();
    let job = Arc::new(Job {
        topology,
        timeout,
        state: Mutex::new(State {
            ended: vec![false; devices.len()],
            ..State::default()
        }),
        changed: Condvar::new(),
    });
    run::run(&job, &devices, program)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Exchange<'static> = Exchange {
        name: "all",
        site: 0,
        members: &[2, 0, 1],
    };
    const THREE: Topology = Topology {
        replicas: 3,
        partitions: 1,
    };

    fn number(device: usize) -> Vec<Literal> {
        vec![Literal::from_value(device as i32)]
    }

    fn run_with(
        timeout: Duration,
        program: impl Fn(&dyn Communicator) -> Result<Vec<i32>, String> + Sync,
    ) -> Result<Vec<Vec<i32>>, RunError<String>> {
        run(THREE, timeout, |member| program(&*member))
    }

    fn exchanged(member: &dyn Communicator) -> Result<Vec<i32>, ExchangeError> {
        let parts = member.exchange(ALL, number(member.device()))?;
        Ok(parts
            .iter()
            .map(|part| part[0].as_i32s().unwrap()[0])
            .collect())
    }

    #[test]
    fn members_get_everyones_arrays_in_order() {
        let results = run_with(Duration::from_secs(20), |member| {
            // The first device is late each time.
            let mut all = Vec::new();
            for _ in 0..3 {
                if member.device() == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                all.extend(exchanged(member).map_err(|e| e.to_string())?);
            }
            Ok(all)
        });
        assert_eq!(results, Ok(vec![[2, 0, 1].repeat(3); 3]));
    }

    #[test]
    fn who_is_missing_after_the_timeout_is_named() {
        // The late device ends only after both others have stopped waiting; otherwise, they would
        // get another error.
        let waiting = (Mutex::new(2), Condvar::new());
        let results = run_with(Duration::from_millis(100), |member| {
            if member.device() != 1 {
                let result = exchanged(member);
                *waiting.0.lock().unwrap() -= 1;
                waiting.1.notify_all();
                return result.map_err(|error| error.to_string());
            }
            let held = waiting.0.lock().unwrap();
            drop(waiting.1.wait_while(held, |waiting| *waiting > 0));
            Ok(Vec::new())
        });
        let Err(RunError::Device { error, .. }) = results else {
            panic!("{results:?}");
        };
        assert_eq!(
            error,
            "`all` waited 0.1 s for device 1, which did not take part"
        );
    }

    #[test]
    fn the_first_failure_ends_the_others() {
        let results = run_with(Duration::from_secs(20), |member| match member.device() {
            1 => Err("broken".to_owned()),
            _ => exchanged(member).map_err(|error| error.to_string()),
        });
        let error = "broken".to_owned();
        assert_eq!(results, Err(RunError::Device { device: 1, error }));
    }

    #[test]
    fn a_panic_ends_the_others() {
        let results = run_with(Duration::from_secs(20), |member| match member.device() {
            2 => panic!("as this test wants"),
            _ => exchanged(member).map_err(|error| error.to_string()),
        });
        assert_eq!(results, Err(RunError::Panicked { device: 2 }));
    }

    #[test]
    fn only_members_exchange() {
        let two = Exchange {
            members: &[0, 1],
            ..ALL
        };
        let results = run_with(Duration::from_secs(20), |member| {
            let result = member.exchange(two, number(member.device()));
            assert_eq!(result.is_err(), member.device() == 2);
            Ok(Vec::new())
        });
        assert!(results.is_ok());
    }
}
