//! The engine: the thread that makes all calls of MPI.
//!
//! MPI makes progress on non-blocking operations only during calls. Therefore this thread begins
//! the operations that devices request, in their order, and polls all of them while the device
//! computes. It also answers other ranks, which ask after a time-out which operations this rank has
//! reached; a rank that is stopped or disconnected does not answer.

use super::library::{Handle, Mpi, Request};
use rustc_hash::FxHashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// The maximum number of bytes of one message, because MPI counts in 32 bits.
const MOST: usize = 1 << 29;
/// The time that other ranks have to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// The tags of questions and answers.
const QUESTION: i32 = 1;
const ANSWERS: i32 = 2;
/// The number of polls before the thread sleeps between them.
const EAGER: u32 = 200;

/// The identity of an operation: the instruction, a hash of its members, and the number of earlier
/// operations there.
pub(super) type Key = [u64; 3];

/// A command from a device.
pub(super) enum Command {
    /// Make a communicator for each grouping of all ranks: for each grouping, this rank's group and
    /// its position there.
    Split(Vec<Option<(usize, usize)>>, Sender<Result<(), String>>),
    /// Begin an operation.
    Begin(Key, Job, Sender<Outcome>),
    /// Find out which of these ranks have not reached an operation.
    Missing(Key, Vec<usize>, Sender<Vec<usize>>),
    /// The device's run has ended.
    Ended,
    /// Leave the job together with all others.
    Finish(Sender<Result<(), String>>),
    /// Abort the job.
    Abort(i32),
}

/// The parameters of an operation.
pub(super) enum Job {
    /// Gather the bytes of all members: the number of the communicator, its size, and this rank's
    /// bytes.
    AllGather(usize, usize, Vec<u8>),
    /// Send bytes to each member, the same number to each.
    AllToAll(usize, Vec<Vec<u8>>),
    /// Broadcast the first member's bytes.
    Broadcast(usize, Vec<u8>),
    /// Send bytes to some ranks, and receive from one.
    Permute(Vec<usize>, Option<usize>, Vec<u8>),
}

/// The bytes from each member, or from the only sender.
pub(super) type Outcome = Result<Vec<Vec<u8>>, String>;

/// A message in progress. Its buffers stay at their address on the heap.
struct Piece {
    request: Request,
    _send: Vec<u8>,
    receive: Vec<u8>,
    is_done: bool,
}

struct Operation {
    pieces: Vec<Piece>,
    /// The number of members whose bytes each piece receives, one after the other; 0 if it receives
    /// none.
    members: usize,
    reply: Sender<Outcome>,
}

pub(super) struct Engine {
    mpi: Mpi,
    rank: usize,
    /// The communicators, by number.
    comms: Vec<Handle>,
    /// The communicator for messages from one rank to another.
    data: Handle,
    /// The communicator for questions and answers.
    control: Handle,
    running: Vec<Operation>,
    /// Questions and answers that are being sent.
    sending: Vec<Piece>,
    listening: Option<Piece>,
    /// The number of this rank's operations so far, by instruction and members.
    visits: FxHashMap<[u64; 2], u64>,
    ended: bool,
}

impl Engine {
    /// Joins the job. Returns the engine, the rank's number and the number of ranks.
    pub(super) fn start() -> Result<(Self, usize, usize), String> {
        let mpi = Mpi::load()?;
        mpi.init()?;
        let (rank, size) = mpi.place()?;
        let (data, control) = (mpi.duplicate()?, mpi.duplicate()?);
        let mut engine = Self {
            comms: vec![mpi.world()],
            mpi,
            rank,
            data,
            control,
            running: Vec::new(),
            sending: Vec::new(),
            listening: None,
            visits: FxHashMap::default(),
            ended: false,
        };
        engine.listen()?;
        Ok((engine, rank, size))
    }

    /// Executes commands until the end of the job.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut idle = 0;
        loop {
            let command = match (self.running.is_empty(), idle < EAGER) {
                (false, true) => commands.try_recv(),
                // A new command ends the wait at once.
                (is_empty, _) => {
                    let time = Duration::from_micros(if is_empty { 500 } else { 50 });
                    commands.recv_timeout(time).map_err(|error| match error {
                        RecvTimeoutError::Timeout => TryRecvError::Empty,
                        RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
                    })
                }
            };
            idle = idle.saturating_add(1);
            match command {
                Ok(command) => {
                    idle = 0;
                    if !self.command(command) {
                        return;
                    }
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) if idle < EAGER => std::thread::yield_now(),
                Err(TryRecvError::Empty) => {}
            }
            self.progress();
            if let Err(error) = self.answer() {
                self.fail(&error);
            }
        }
    }

    /// Executes a command; returns whether to continue.
    fn command(&mut self, command: Command) -> bool {
        match command {
            Command::Split(groupings, reply) => {
                let _ = reply.send(self.split(&groupings));
            }
            Command::Begin(key, job, reply) => {
                self.visits.insert([key[0], key[1]], key[2] + 1);
                let members = match &job {
                    Job::AllGather(_, members, _) => *members,
                    Job::AllToAll(_, parts) => parts.len(),
                    Job::Broadcast(..) => 1,
                    Job::Permute(_, source, _) => usize::from(source.is_some()),
                };
                match self.begin(key, job) {
                    Ok(pieces) => self.running.push(Operation {
                        pieces,
                        members,
                        reply,
                    }),
                    Err(error) => {
                        let _ = reply.send(Err(error));
                    }
                }
            }
            Command::Missing(key, ranks, reply) => {
                let _ = reply.send(self.missing(key, &ranks));
            }
            Command::Ended => self.ended = true,
            Command::Finish(reply) => {
                let _ = reply.send(self.finish());
                return false;
            }
            Command::Abort(code) => {
                self.mpi.abort(code);
                return false;
            }
        }
        true
    }

    fn split(&mut self, groupings: &[Option<(usize, usize)>]) -> Result<(), String> {
        for grouping in groupings {
            let (colour, key) = grouping.unzip();
            let comm = self.mpi.split(colour, key.unwrap_or(0))?;
            self.comms.push(comm);
        }
        Ok(())
    }

    fn comm(&self, number: usize) -> Result<Handle, String> {
        let comm = self.comms.get(number).copied();
        comm.ok_or_else(|| "no MPI communicator was created for these ranks".to_owned())
    }

    /// Begins an operation, in several pieces if it is long.
    fn begin(&self, key: Key, job: Job) -> Result<Vec<Piece>, String> {
        let mut pieces = Vec::new();
        match job {
            Job::AllGather(comm, members, bytes) => {
                let comm = self.comm(comm)?;
                for part in bytes.chunks(MOST) {
                    let send = part.to_vec();
                    let mut receive = vec![0; part.len() * members];
                    // SAFETY: both vectors are owned by the piece until the operation is done, and
                    // nothing accesses them.
                    let request = unsafe { self.mpi.all_gather(comm, &send, &mut receive) }?;
                    pieces.push(Piece::new(request, send, receive));
                }
            }
            Job::AllToAll(comm, parts) => {
                let comm = self.comm(comm)?;
                let length = parts.first().map_or(0, Vec::len);
                if parts.iter().any(|part| part.len() != length) {
                    return Err(
                        "expected parts of equal lengths for an all-to-all exchange".to_owned()
                    );
                }
                for start in (0..length).step_by(MOST) {
                    let end = (start + MOST).min(length);
                    let send: Vec<u8> = parts
                        .iter()
                        .flat_map(|part| part.get(start..end).unwrap_or_default())
                        .copied()
                        .collect();
                    let mut receive = vec![0; send.len()];
                    // SAFETY: both vectors are owned by the piece until the operation is done, and
                    // nothing accesses them.
                    let request =
                        unsafe { self.mpi.all_to_all(comm, &send, end - start, &mut receive) }?;
                    pieces.push(Piece::new(request, send, receive));
                }
            }
            Job::Broadcast(comm, bytes) => {
                let comm = self.comm(comm)?;
                for part in bytes.chunks(MOST) {
                    let mut receive = part.to_vec();
                    // SAFETY: the vector is owned by the piece until the operation is done, and
                    // nothing accesses it.
                    let request = unsafe { self.mpi.broadcast(comm, &mut receive) }?;
                    pieces.push(Piece::new(request, Vec::new(), receive));
                }
            }
            Job::Permute(targets, source, bytes) => {
                let tag = i32::try_from(key[0] % 30_000).unwrap_or(0);
                for part in bytes.chunks(MOST) {
                    if let Some(source) = source {
                        let mut receive = vec![0; part.len()];
                        // SAFETY: the vector is owned by the piece until the operation is done, and
                        // nothing accesses it.
                        let request = unsafe {
                            self.mpi.receive(self.data, Some(source), tag, &mut receive)
                        }?;
                        pieces.push(Piece::new(request, Vec::new(), receive));
                    }
                    for &target in &targets {
                        let send = part.to_vec();
                        // SAFETY: the vector is owned by the piece until the operation is done, and
                        // nothing changes it.
                        let request = unsafe { self.mpi.send(self.data, target, tag, &send) }?;
                        pieces.push(Piece::new(request, send, Vec::new()));
                    }
                }
            }
        }
        Ok(pieces)
    }

    /// Polls the operations in progress, and delivers the results of those that are done.
    fn progress(&mut self) {
        let mpi = &self.mpi;
        self.running.retain_mut(|operation| {
            for piece in operation.pieces.iter_mut().filter(|piece| !piece.is_done) {
                match mpi.is_done(&mut piece.request) {
                    Ok(done) => piece.is_done = done,
                    Err(error) => {
                        let _ = operation.reply.send(Err(error));
                        // MPI may still write to the memory, so it is never freed.
                        std::mem::forget(std::mem::take(&mut operation.pieces));
                        return false;
                    }
                }
                if !piece.is_done {
                    return true;
                }
            }
            let received = operation.received();
            let _ = operation.reply.send(Ok(received));
            false
        });
        self.sending
            .retain_mut(|piece| match mpi.is_done(&mut piece.request) {
                Ok(done) => !done,
                Err(_) => false,
            });
    }

    /// Starts to receive the next question of another rank.
    fn listen(&mut self) -> Result<(), String> {
        let mut receive = vec![0; 32];
        // SAFETY: the vector is owned by the piece until the operation is done, and nothing
        // accesses it.
        let request = unsafe { self.mpi.receive(self.control, None, QUESTION, &mut receive) }?;
        self.listening = Some(Piece::new(request, Vec::new(), receive));
        Ok(())
    }

    /// If another rank has asked whether this rank has reached an operation, answers and listens
    /// for the next question.
    fn answer(&mut self) -> Result<(), String> {
        let Some(listening) = &mut self.listening else {
            return Ok(());
        };
        if !self.mpi.is_done(&mut listening.request)? {
            return Ok(());
        }
        let mut numbers = listening.receive.chunks_exact(8).map(|bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        let mut next = || numbers.next().unwrap_or(0);
        let (from, key) = (next(), [next(), next(), next()]);
        let come = self.visits.get(&[key[0], key[1]]).copied().unwrap_or(0) > key[2];
        let send = vec![u8::from(come)];
        let from = usize::try_from(from).unwrap_or(0);
        // SAFETY: the vector is owned by the piece until the operation is done, and nothing changes
        // it.
        let request = unsafe { self.mpi.send(self.control, from, ANSWERS, &send) }?;
        self.sending.push(Piece::new(request, send, Vec::new()));
        self.listen()
    }

    /// Asks ranks whether they have reached an operation. Returns those that have not, or do not
    /// answer.
    fn missing(&mut self, key: Key, ranks: &[usize]) -> Vec<usize> {
        let mut asked: Vec<(usize, Piece)> = Vec::new();
        let mut missing = Vec::new();
        for &rank in ranks.iter().filter(|rank| **rank != self.rank) {
            let words = [self.rank as u64, key[0], key[1], key[2]];
            let send: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut receive = vec![0; 1];
            // SAFETY: the vectors are owned by pieces until the operations are done, and nothing
            // accesses them.
            let requests = unsafe {
                let sent = self.mpi.send(self.control, rank, QUESTION, &send);
                let answer = self
                    .mpi
                    .receive(self.control, Some(rank), ANSWERS, &mut receive);
                sent.and_then(|sent| Ok((sent, answer?)))
            };
            match requests {
                Ok((sent, answer)) => {
                    self.sending.push(Piece::new(sent, send, Vec::new()));
                    asked.push((rank, Piece::new(answer, Vec::new(), receive)));
                }
                Err(_) => missing.push(rank),
            }
        }
        let deadline = Instant::now() + ANSWER;
        while !asked.is_empty() && Instant::now() < deadline {
            let mpi = &self.mpi;
            asked.retain_mut(|(rank, piece)| match mpi.is_done(&mut piece.request) {
                Ok(false) => true,
                Ok(true) => {
                    if piece.receive.first() != Some(&1) {
                        missing.push(*rank);
                    }
                    false
                }
                Err(_) => {
                    missing.push(*rank);
                    false
                }
            });
            // Other ranks may ask at the same time.
            if self.answer().is_err() {
                break;
            }
            self.progress();
            std::thread::sleep(Duration::from_micros(200));
        }
        for (rank, piece) in asked {
            missing.push(rank);
            // An answer may still arrive and be written to this memory.
            std::mem::forget(piece);
        }
        missing.sort_unstable();
        missing
    }

    fn finish(&mut self) -> Result<(), String> {
        if let Some(mut listening) = self.listening.take() {
            self.mpi.cancel(&mut listening.request);
            while !self.mpi.is_done(&mut listening.request)? {
                std::thread::yield_now();
            }
        }
        while !self.sending.is_empty() {
            self.progress();
        }
        self.mpi.finalize()
    }

    /// Ends all operations in progress with an error.
    fn fail(&mut self, error: &str) {
        for mut operation in self.running.drain(..) {
            let _ = operation.reply.send(Err(error.to_owned()));
            std::mem::forget(std::mem::take(&mut operation.pieces));
        }
    }
}

impl Piece {
    fn new(request: Request, send: Vec<u8>, receive: Vec<u8>) -> Self {
        Self {
            request,
            _send: send,
            receive,
            is_done: false,
        }
    }
}

impl Operation {
    /// The bytes from each member, joined from all pieces.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new(); self.members];
        for piece in &mut self.pieces {
            let received = std::mem::take(&mut piece.receive);
            if received.is_empty() || self.members == 0 {
                continue;
            }
            let each = received.len() / self.members;
            for (all, own) in all.iter_mut().zip(received.chunks(each.max(1))) {
                all.extend_from_slice(own);
            }
        }
        all
    }
}
