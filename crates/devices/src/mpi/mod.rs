//! Devices in separate processes, on one or several machines, connected by MPI.
//!
//! Each rank is a device. The MPI library is loaded when a [`Job`] is joined (`library`), so
//! programs can be built and run without it; Open MPI and MPICH are told apart at that time. The
//! crate `mpi` is not used, because it is built with one implementation's headers and libclang, and
//! its programs do not start without that implementation.
//!
//! A single thread (`engine`) makes all calls, which are non-blocking, so exchanges continue while
//! the device computes. Collectives are MPI's own: `MPI_Iallgather`, `MPI_Ialltoall`, `MPI_Ibcast`;
//! a permute consists of sends and receives. Sums do not use `MPI_Iallreduce`, in which the library
//! chooses the order. Instead, each rank receives its piece of all arrays (`MPI_Ialltoall`),
//! combines them in the group's order, and sends the result to all (`MPI_Iallgather`). This moves
//! as many bytes as a ring algorithm, and gives the same bits as threads of one process.
//!
//! # Faults
//! If a rank ends or is killed, the launcher notices and ends the job. If a rank hangs or is
//! disconnected, others wait for the time-out, ask all ranks which operations they have reached,
//! and report those that did not answer or are behind. Ranks with other programs are detected
//! before the run ([`Job::agree`]).

mod engine;
mod library;

use crate::communicator::{Combine, Communicator, Exchange, ExchangeError, Outgoing, Pending};
use crate::topology::Topology;
use crate::wire::{self, Visits, hash_of, shapes_of};
use engine::{Command, Engine, Key, Outcome};
use rustc_hash::FxHashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::{ArrayShape, Literal};

/// The time that leaving the job may take before the process ends without it.
const END: Duration = Duration::from_secs(5);
/// The time before the job's deadline at which a rank asks for missing ranks.
const BEFORE_DEADLINE: Duration = Duration::from_millis(1500);
/// The stack size of the engine's thread: MPICH 5 needs more than threads have by default.
const STACK: usize = 64 << 20;

/// An MPI job that this process takes part in.
pub struct Job {
    rank: usize,
    size: usize,
    patience: Patience,
    commands: Sender<Command>,
    known: Mutex<Known>,
    /// This rank's exchanges so far, in all programs of the job.
    visits: Visits,
}

/// The time that a rank waits for others.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The limit for a single exchange.
    pub wait: Duration,
    /// The deadline of the whole job; missing ranks are reported before it.
    pub deadline: Option<Instant>,
}

impl Patience {
    /// The time that may be waited now.
    fn left(&self) -> Duration {
        let until = self.deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            left.saturating_sub(BEFORE_DEADLINE)
        });
        until.map_or(self.wait, |until| until.min(self.wait))
    }
}

/// The communicators made so far.
#[derive(Default)]
struct Known {
    /// The number of each communicator, by its members.
    numbers: FxHashMap<Vec<usize>, usize>,
    /// The number of communicators, without that of all ranks.
    made: usize,
}

impl Job {
    /// Joins the job that `mpirun` has started; only once in a process.
    ///
    /// # Errors
    /// There is no usable MPI library.
    pub fn join(patience: Patience) -> Result<Self, String> {
        let timeout = patience.left();
        let (commands, received) = channel();
        let (reply, started) = channel();
        let run = move || match Engine::start() {
            Ok((engine, rank, size)) => {
                let _ = reply.send(Ok((rank, size)));
                engine.run(&received);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new()
            .name("mpi".to_owned())
            .stack_size(STACK)
            .spawn(run);
        thread.map_err(|error| format!("the thread for MPI cannot be started: {error}"))?;
        let started = started.recv_timeout(timeout).map_err(|_| {
            format!(
                "MPI did not start within {} s: start the program with `mpirun`",
                timeout.as_secs_f64()
            )
        })?;
        let (rank, size) = started?;
        Ok(Self {
            rank,
            size,
            patience,
            commands,
            known: Mutex::default(),
            visits: Visits::default(),
        })
    }

    /// The rank of this process.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Checks that all ranks have the same checksum.
    ///
    /// # Errors
    /// The ranks whose checksum differs from that of rank 0; a rank that does not answer.
    pub fn agree(&self, checksum: &[u8]) -> Result<(), String> {
        let members: Vec<usize> = (0..self.size).collect();
        let exchange = Exchange {
            name: "start",
            site: usize::MAX,
            members: &members,
        };
        let job = engine::Job::AllGather(0, self.size, checksum.to_vec());
        let all = self.begun(exchange, 0, job).bytes();
        let all = all.map_err(|error| error.to_string())?;
        let others: Vec<String> = all
            .iter()
            .enumerate()
            .filter(|(_, own)| Some(*own) != all.first())
            .map(|(rank, _)| rank.to_string())
            .collect();
        match others.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "the program, inputs or options of rank {} differ from those of rank 0: start all \
                 ranks with the same ones",
                others.join(", ")
            )),
        }
    }

    /// The communicator of this rank for a program with these groupings: lists of groups of ranks.
    /// All ranks must call this with the same groupings.
    ///
    /// # Errors
    /// MPI cannot make communicators for the groups.
    pub fn communicator(
        self: &Arc<Self>,
        topology: Topology,
        groupings: &[Vec<Vec<usize>>],
    ) -> Result<Arc<dyn Communicator>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.numbers.insert((0..self.size).collect(), 0);
        let mut splits = Vec::new();
        for groups in groupings {
            if groups.iter().all(|group| known.numbers.contains_key(group)) {
                continue;
            }
            let found = groups.iter().enumerate().find_map(|(group, members)| {
                let place = members.iter().position(|&member| member == self.rank)?;
                Some((group, place))
            });
            splits.push(found);
            known.made += 1;
            for group in groups {
                let number = known.made;
                known.numbers.insert(group.clone(), number);
            }
        }
        let (reply, answer) = channel();
        self.command(Command::Split(splits, reply));
        match answer.recv_timeout(self.patience.left()) {
            Ok(made) => made?,
            Err(_) => {
                return Err(
                    "MPI did not create the groups' communicators before the time-out".to_owned(),
                );
            }
        }
        Ok(Arc::new(Rank {
            job: Arc::clone(self),
            topology,
            numbers: known.numbers.clone(),
        }))
    }

    /// Leaves the job, when all ranks do.
    ///
    /// # Errors
    /// Other ranks did not leave in time, or the library failed.
    pub fn finish(&self) -> Result<(), String> {
        let (reply, done) = channel();
        self.command(Command::Ended);
        self.command(Command::Finish(reply));
        let timeout = self.patience.left();
        match done.recv_timeout(timeout) {
            Ok(done) => done,
            Err(_) => Err(format!(
                "the other ranks did not end within {} s",
                timeout.as_secs_f64()
            )),
        }
    }

    /// Aborts the job, and ends this process with a nonzero exit status.
    pub fn abort(&self, code: i32) -> ! {
        self.command(Command::Abort(code));
        // The library ends the process.
        std::thread::sleep(END);
        leave(code)
    }

    fn command(&self, command: Command) {
        // If the thread has ended, it has reported why.
        let _ = self.commands.send(command);
    }

    fn begun(&self, exchange: Exchange<'_>, visit: u64, job: engine::Job) -> Begun {
        let key = [exchange.site as u64, hash_of(exchange.members), visit];
        let (reply, outcome) = channel();
        self.command(Command::Begin(key, job, reply));
        Begun {
            name: exchange.name.to_owned(),
            members: exchange.members.to_vec(),
            key,
            timeout: self.patience.left(),
            commands: self.commands.clone(),
            outcome,
        }
    }
}

/// Ends this process, even if a thread hangs inside the library. The library's exit handlers may
/// wait for that thread, so the process is aborted after a time.
pub fn leave(code: i32) -> ! {
    let ends = || {
        std::thread::sleep(END);
        std::process::abort();
    };
    let _ = std::thread::Builder::new().spawn(ends);
    std::process::exit(code)
}

/// The communicator of this process.
struct Rank {
    job: Arc<Job>,
    topology: Topology,
    /// The number of each communicator, by its members.
    numbers: FxHashMap<Vec<usize>, usize>,
}

impl Rank {
    fn number(&self, exchange: Exchange<'_>) -> Result<usize, ExchangeError> {
        let number = self.numbers.get(exchange.members).copied();
        number.ok_or_else(|| ExchangeError::Transport {
            name: exchange.name.to_owned(),
            reason: "no MPI communicator was created for its group".to_owned(),
        })
    }

    fn begin_bytes(
        &self,
        exchange: Exchange<'_>,
        job: engine::Job,
    ) -> Result<Begun, ExchangeError> {
        if !exchange.members.contains(&self.job.rank) {
            return Err(ExchangeError::NoMember {
                device: self.job.rank,
                name: exchange.name.to_owned(),
            });
        }
        Ok(self
            .job
            .begun(exchange, self.job.visits.count(exchange), job))
    }
}

impl Communicator for Rank {
    fn topology(&self) -> Topology {
        self.topology
    }

    fn device(&self) -> usize {
        self.job.rank
    }

    fn sends_bytes(&self) -> bool {
        true
    }

    fn exchange(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
    ) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        self.begin(exchange, Outgoing::ToAll(arrays))?.wait()
    }

    fn begin(
        &self,
        exchange: Exchange<'_>,
        outgoing: Outgoing,
    ) -> Result<Box<dyn Pending>, ExchangeError> {
        let members = exchange.members;
        let (shapes, job) = match outgoing {
            Outgoing::ToAll(arrays) => {
                let job = engine::Job::AllGather(
                    self.number(exchange)?,
                    members.len(),
                    bytes_of(&arrays),
                );
                (shapes_of(&arrays), job)
            }
            Outgoing::Parts(parts) => {
                let shapes = parts.first().map(|part| shapes_of(part));
                let parts = parts.iter().map(|part| bytes_of(part)).collect();
                let job = engine::Job::AllToAll(self.number(exchange)?, parts);
                (shapes.unwrap_or_default(), job)
            }
            Outgoing::FromFirst(arrays) => {
                let job = engine::Job::Broadcast(self.number(exchange)?, bytes_of(&arrays));
                (shapes_of(&arrays), job)
            }
            Outgoing::Permuted {
                arrays,
                source,
                targets,
            } => {
                let rank = |position: usize| members.get(position).copied();
                let targets = targets.into_iter().filter_map(rank).collect();
                let job = engine::Job::Permute(targets, source.and_then(rank), bytes_of(&arrays));
                (shapes_of(&arrays), job)
            }
        };
        Ok(Box::new(Arrays {
            begun: self.begin_bytes(exchange, job)?,
            shapes,
        }))
    }

    fn exchange_combined(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
        combine: &mut Combine<'_>,
    ) -> Result<Option<Arc<[Literal]>>, ExchangeError> {
        wire::exchange_pieces(self, exchange, &arrays, combine)
    }
}

/// The bytes of arrays, one after the other.
fn bytes_of(arrays: &[Literal]) -> Vec<u8> {
    let length = arrays.iter().map(|array| array.bytes().len()).sum();
    let mut bytes = Vec::with_capacity(length);
    arrays
        .iter()
        .for_each(|array| bytes.extend_from_slice(array.bytes()));
    bytes
}

/// The arrays of these shapes that [`bytes_of`] wrote.
///
/// # Errors
/// Another number of bytes: the sender has arrays of other shapes.
fn arrays_of(
    bytes: &[u8],
    shapes: &[ArrayShape],
    name: &str,
) -> Result<Arc<[Literal]>, ExchangeError> {
    let wrong = |reason: String| ExchangeError::Transport {
        name: name.to_owned(),
        reason,
    };
    let other = || {
        let given = bytes.len();
        wrong(format!(
            "{given} bytes were received, which do not fit the expected shapes: do all \
             devices run the same program?"
        ))
    };
    let mut rest = bytes;
    let mut arrays = Vec::with_capacity(shapes.len());
    for shape in shapes {
        let length = shape
            .byte_size()
            .and_then(|size| usize::try_from(size).ok());
        let length = length.filter(|length| *length <= rest.len());
        let (own, others) = rest.split_at(length.ok_or_else(other)?);
        let array = Literal::from_bytes(shape, own).map_err(|error| wrong(error.to_string()))?;
        arrays.push(array);
        rest = others;
    }
    match rest.is_empty() {
        true => Ok(arrays.into()),
        false => Err(other()),
    }
}

/// An operation in progress.
struct Begun {
    name: String,
    members: Vec<usize>,
    key: Key,
    timeout: Duration,
    commands: Sender<Command>,
    outcome: Receiver<Outcome>,
}

impl Begun {
    fn bytes(self) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let transport = |reason: String| ExchangeError::Transport {
            name: self.name.clone(),
            reason,
        };
        match self.outcome.recv_timeout(self.timeout) {
            Ok(outcome) => outcome.map_err(transport),
            Err(RecvTimeoutError::Disconnected) => {
                Err(transport("the MPI thread has ended".to_owned()))
            }
            Err(RecvTimeoutError::Timeout) => {
                let (reply, missing) = channel();
                let _ = self
                    .commands
                    .send(Command::Missing(self.key, self.members.clone(), reply));
                let missing = missing.recv_timeout(END);
                Err(ExchangeError::TimedOut {
                    name: self.name.clone(),
                    timeout: self.timeout,
                    missing: missing.unwrap_or_else(|_| self.members.clone()),
                })
            }
        }
    }
}

/// An operation in progress whose result is arrays.
struct Arrays {
    begun: Begun,
    shapes: Vec<ArrayShape>,
}

impl Pending for Arrays {
    fn wait(self: Box<Self>) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        let name = self.begun.name.clone();
        let shapes = self.shapes;
        let all = self.begun.bytes()?;
        all.iter()
            .map(|bytes| arrays_of(bytes, &shapes, &name))
            .collect()
    }
}
