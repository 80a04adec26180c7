//! Several cores that run one program: their order of execution and the messages between them.
//!
//! The cores take turns: one runs until it waits for something that only another core can bring,
//! and then the next one runs. This order is always the same and does not depend on simulated time.
//! What a core does to another (a signal, a copy into its memory) is a [`Message`], which the other
//! core receives at the beginning of its turn.
//!
//! The order of the turns decides no finding. Every core counts its own epochs: a new epoch begins
//! after each message that it sends. A message carries a [`Clock`]: for each core the newest epoch
//! that has certainly finished from the sender's view. A core that waits for the message merges
//! that clock into its own. A copy from another core is unordered with every earlier access of the
//! receiving core to the same elements whose epoch is not in the copy's clock (`accesses` keeps
//! these), and with the accesses before the wait for it (it is in flight, like any copy).

use super::clock::Clock;
use super::code::Step;
use super::run::Frame;
use super::terms::Index;
use super::{Flow, Here, Life, Machine};
use crate::finding::Code;
use crate::machine::access::Touch;
use crate::machine::flights::Flight;
use crate::memory::image::Dense;
use crate::memory::region::Region;
use crate::program::{BufferId, SemaphoreId, StatementKind, TpuProgram, for_each_statement};
use crate::report::Error;
use rustc_hash::FxHashSet;
use tegula_arena::EntityRef;

/// A message from one core to another.
pub(super) struct Message<'p> {
    /// The sender.
    from: usize,
    /// The sender's clock.
    clock: Clock,
    /// Time of arrival, in seconds.
    time: f64,
    semaphore: (SemaphoreId, i64),
    here: Here<'p>,
    what: Content,
}

pub(super) enum Content {
    /// An amount to add to the semaphore.
    Signal(i64),
    Copy(Box<Incoming>),
}

/// A copy into a core's memory.
pub(super) struct Incoming {
    pub(super) buffer: BufferId,
    pub(super) region: Region,
    /// The elements, row-major in the region; empty where no values are computed.
    pub(super) bytes: Vec<u8>,
    /// The parts that are padding or computed from it, and the parts made up from constants.
    pub(super) tainted: Vec<Region>,
    pub(super) neutral: Vec<Region>,
    /// Physical bytes.
    pub(super) size: i64,
}

/// An access to memory that other cores copy to.
struct Access {
    epoch: u32,
    buffer: BufferId,
    region: Region,
    writes: bool,
    line: u32,
}

/// The most accesses that are kept; of a core that never synchronises these are the newest.
const MOST_ACCESSES: usize = 1 << 14;

/// What a core keeps about the others.
pub(super) struct Peer<'p> {
    /// The number of cores.
    pub(super) count: usize,
    epoch: u32,
    clock: Clock,
    outbox: Vec<(usize, Message<'p>)>,
    /// Buffers that other cores copy to.
    targets: FxHashSet<BufferId>,
    accesses: Vec<Access>,
    /// The wait that the core is blocked on.
    pub(super) blocked: Option<Blocked<'p>>,
}

/// A wait that only another core can end.
#[derive(Clone, Copy)]
pub(super) struct Blocked<'p> {
    pub(super) here: Here<'p>,
    pub(super) semaphore: (SemaphoreId, i64),
    /// The count that is waited for, and the present count.
    pub(super) wanted: i64,
    pub(super) there: i64,
    /// Whether it waits for bytes of copies.
    pub(super) copies: bool,
}

impl Peer<'_> {
    pub(super) fn new(count: usize, program: &TpuProgram) -> Self {
        let mut targets = FxHashSet::default();
        if count > 1 {
            for_each_statement(&program.body, &mut |statement| {
                if let StatementKind::Start {
                    destination,
                    remote: Some(_),
                    ..
                } = &statement.kind
                {
                    targets.insert(destination.buffer);
                }
            });
        }
        Self {
            count,
            epoch: 1,
            clock: Clock::new(count),
            outbox: Vec::new(),
            targets,
            accesses: Vec::new(),
            blocked: None,
        }
    }
}

impl<'p> Machine<'p> {
    /// Records an access, if other cores copy to the buffer.
    pub(super) fn note_access(
        &mut self,
        buffer: BufferId,
        region: &Region,
        touch: Touch,
        line: u32,
    ) {
        let peer = &mut self.peer;
        if !peer.targets.contains(&buffer) {
            return;
        }
        let (epoch, writes) = (peer.epoch, touch != Touch::Read);
        let known = peer.accesses.iter().rev().take(64).any(|access| {
            (access.epoch, access.buffer, access.line, access.writes)
                == (epoch, buffer, line, writes)
                && access.region.contains(region)
        });
        if known {
            return;
        }
        if peer.accesses.len() >= MOST_ACCESSES {
            peer.accesses.drain(..MOST_ACCESSES / 2);
        }
        peer.accesses.push(Access {
            epoch,
            buffer,
            region: region.clone(),
            writes,
            line,
        });
    }

    /// The number of the core that a term names.
    pub(super) fn other_core(
        &mut self,
        core: &Index,
        here: Here<'p>,
    ) -> Result<Option<usize>, Error> {
        let core = self.value(core, here)?;
        let count = self.peer.count;
        let known = usize::try_from(core).ok().filter(|core| *core < count);
        if known.is_none() {
            let cores = match count {
                1 => "one core is simulated (`--devices N` simulates more)".to_owned(),
                count => format!("there are {count}, from 0"),
            };
            if count == 1 {
                return Err(Error::Unsupported {
                    line: here.line,
                    message: format!("core {core} is addressed, but {cores}"),
                });
            }
            self.find(Code::OutOfBounds, here, None, || {
                (
                    format!("core {core} is addressed, but {cores}"),
                    "take the number modulo the number of devices".to_owned(),
                )
            });
        }
        Ok(known)
    }

    /// Sends a message to a core; this ends an epoch.
    pub(super) fn send(
        &mut self,
        to: usize,
        semaphore: (SemaphoreId, i64),
        what: Content,
        time: f64,
        here: Here<'p>,
    ) {
        let core = self.core as usize;
        let mut clock = self.peer.clock.clone();
        clock.set(core, self.peer.epoch);
        self.peer.epoch += 1;
        let message = Message {
            from: core,
            clock,
            time,
            semaphore,
            here,
            what,
        };
        if to == core {
            self.receive(message);
        } else {
            self.peer.outbox.push((to, message));
        }
    }

    /// Merges the clock of a sender whose message was waited for.
    pub(super) fn learn(&mut self, clock: &Clock) {
        self.peer.clock.learn(clock);
    }

    /// Receives a message of another core.
    fn receive(&mut self, message: Message<'p>) {
        let (array, index) = message.semaphore;
        match message.what {
            Content::Signal(amount) => {
                let slot = &mut self.semaphores[array.index()][index as usize];
                slot.count = slot.count.saturating_add(amount);
                slot.raised = message.here.line;
                let signal = (amount, message.clock, message.time);
                slot.signals.push_back(signal);
            }
            Content::Copy(copy) => {
                let Incoming {
                    buffer,
                    region,
                    size,
                    ..
                } = &*copy;
                self.check_incoming(message.from, &message.clock, *buffer, region, message.here);
                let transfer = self.engines.arrives(message.time, message.here.line, *size);
                let number = self.flights.add(Flight {
                    sends: false,
                    transfer,
                    source: (*buffer, Region::whole(&[0])),
                    destination: (*buffer, region.clone()),
                    semaphore: message.semaphore,
                    line: message.here.line,
                    statement: message.here.statement,
                    bytes: *size,
                    partly: None,
                    sender: Some((message.from, message.clock)),
                });
                let slot = &mut self.semaphores[array.index()][index as usize];
                slot.copies.push_back(number);
                self.write_incoming(&copy);
            }
        }
    }

    fn write_incoming(&mut self, copy: &Incoming) {
        let id = copy.buffer.index();
        if self.states[id].life != Life::Live {
            return;
        }
        let state = &mut self.states[id];
        if state.written.missing(&copy.region).is_some() {
            state.written.insert(&copy.region);
        }
        if !self.functional || copy.bytes.is_empty() {
            return;
        }
        state.tainted.remove(&copy.region);
        state.neutral.remove(&copy.region);
        for part in &copy.tainted {
            state.tainted.insert(part);
        }
        for part in &copy.neutral {
            state.neutral.insert(part);
        }
        let sizes = copy.region.low.iter().zip(&copy.region.high);
        let sizes: Vec<i64> = sizes.map(|(low, high)| high - low).collect();
        let space = self.program.buffers[copy.buffer].space as usize;
        let (geometry, offset) = (&self.geometry[id], self.states[id].offset);
        let dense = Dense::whole(&sizes);
        self.images[space].write(geometry, offset, &copy.region, &dense, &copy.bytes);
    }

    /// Checks a copy from another core against this core's accesses, and against copies in flight.
    fn check_incoming(
        &mut self,
        from: usize,
        clock: &Clock,
        buffer: BufferId,
        region: &Region,
        here: Here<'p>,
    ) {
        let (core, program, name) = (self.core as usize, self.program, self.name(buffer));
        if self.states[buffer.index()].life != Life::Live {
            self.find(Code::UseAfterFree, here, Some(buffer), || {
                (
                    format!(
                        "core {from} copies into `{name}` of core {core}, which is not live there"
                    ),
                    "let the cores wait for each other (a barrier) while the memory is live"
                        .to_owned(),
                )
            });
            return;
        }
        let known = clock.of(core);
        let access = self.peer.accesses.iter().find(|access| {
            access.buffer == buffer && access.epoch > known && access.region.meets(region)
        });
        let mut before = access.map(|access| (access.writes, access.line, None));
        for flight in self.flights.of(buffer) {
            let writes = flight.destination.0 == buffer && flight.destination.1.meets(region);
            let reads = flight.source.0 == buffer && flight.source.1.meets(region);
            if writes || reads {
                let sender = flight.sender.as_ref().map(|(core, _)| *core);
                before = Some((writes, flight.line, Some(sender)));
                break;
            }
        }
        let Some((writes, line, copy)) = before else {
            return;
        };
        let code = if writes {
            Code::TwoWrites
        } else {
            Code::Overwritten
        };
        let line = program.source_line(line);
        let elements = self.elements(buffer, region);
        self.find(code, here, Some(buffer), || {
            let verb = if writes { "writes" } else { "reads" };
            let who = match copy {
                None => format!("core {core}, which {verb} it at line {line}"),
                Some(None) => format!("the copy that {verb} it, begun by core {core} at line {line}"),
                Some(Some(other)) => {
                    format!("the copy that {verb} it, begun by core {other} at line {line}")
                }
            };
            (
                format!("core {from} copies into `{elements}` of core {core} without order with {who}"),
                format!("core {core} signals core {from} once it is done, and core {from} waits for that before the copy"),
            )
        });
    }

    /// Ends a copy from another core after the wait for it: from here on it counts as a write of
    /// this core.
    pub(super) fn landed(&mut self, flight: &Flight<'p>) {
        if let Some((_, clock)) = &flight.sender {
            self.learn(clock);
            let (buffer, region) = flight.destination.clone();
            self.note_access(buffer, &region, Touch::Write, flight.line);
        }
    }

    /// Blocks the core until another core brings what it waits for.
    pub(super) fn block(&mut self, blocked: Blocked<'p>) -> Flow {
        self.peer.blocked = Some(blocked);
        Flow::Blocked
    }
}

/// Runs the cores to their ends, or until none can continue.
pub(super) fn run<'p, 's>(
    machines: &mut [Machine<'p>],
    steps: &'s [Step<'p>],
) -> Result<(), Error> {
    let count = machines.len();
    let mut stacks: Vec<Vec<Frame<'s, 'p>>> = (0..count).map(|_| vec![Frame::new(steps)]).collect();
    let mut inboxes: Vec<Vec<Message<'p>>> = (0..count).map(|_| Vec::new()).collect();
    let (mut started, mut over) = (vec![false; count], vec![false; count]);
    let mut stopped = false;
    loop {
        let mut moved = false;
        for core in 0..count {
            // The memory of a copy's destination is live only once the core has begun.
            if started[core] {
                for message in std::mem::take(&mut inboxes[core]) {
                    machines[core].receive(message);
                    moved = true;
                }
            }
            started[core] = true;
            if over[core] {
                continue;
            }
            let machine = &mut machines[core];
            let steps_before = machine.steps;
            machine.peer.blocked = None;
            let flow = machine.resume(&mut stacks[core])?;
            over[core] = matches!(flow, Flow::Next | Flow::Stop);
            stopped |= matches!(flow, Flow::Stop);
            // Retrying a wait counts as a step, but not as progress.
            moved |= over[core] || matches!(flow, Flow::Yield) || machine.steps > steps_before + 1;
            for (to, message) in std::mem::take(&mut machine.peer.outbox) {
                inboxes[to].push(message);
                moved = true;
            }
        }
        let waiting = inboxes.iter().any(|inbox| !inbox.is_empty());
        if over.iter().all(|over| *over) && !waiting {
            break;
        }
        if !moved && !waiting {
            if !stopped {
                deadlock(machines);
            }
            return Ok(());
        }
    }
    if !stopped {
        for machine in machines {
            machine.at_end();
        }
    }
    Ok(())
}

/// Reports a deadlock: for each core that waits, the wait and the lines that could end it.
fn deadlock(machines: &mut [Machine<'_>]) {
    let waits: Vec<(usize, Blocked<'_>)> = machines
        .iter()
        .filter_map(|machine| Some((machine.core as usize, machine.peer.blocked?)))
        .collect();
    let program = machines[0].program;
    let said: Vec<String> = waits
        .iter()
        .map(|(core, wait)| {
            let (array, index) = wait.semaphore;
            let lines = raising_lines(program, array);
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let raised = match lines.as_slice() {
                [] => "which no statement raises".to_owned(),
                lines => format!("which line {} raises", lines.join(", ")),
            };
            format!(
                "core {core} waits at line {} for `{}[{index}]` ({} of {}), {raised}",
                program.source_line(wait.here.line),
                program.semaphores[array].name,
                wait.there,
                wait.wanted
            )
        })
        .collect();
    // Cores that wait for one thing at one line are named once.
    let cycle = said.join(" -> ");
    let alone = waits.len() == 1;
    for (core, wait) in waits {
        let (array, index) = wait.semaphore;
        let name = format!("{}[{index}]", program.semaphores[array].name);
        let (code, message) = match (alone && wait.copies, wait.there) {
            (true, 0) => (
                Code::NeverStarted,
                format!(
                    "no unfinished copy uses `{name}` of core {core}, and all other cores are done: this wait never ends"
                ),
            ),
            (true, there) => (
                Code::ByteCount,
                format!(
                    "the wait expects {} bytes on `{name}` of core {core}, but the copies on it bring {there}: it never ends",
                    wait.wanted
                ),
            ),
            (false, _) => (
                Code::Deadlock,
                format!(
                    "deadlock: {cycle} -> core {}",
                    if alone {
                        "none: all others are done".to_owned()
                    } else {
                        said_first(&said)
                    }
                ),
            ),
        };
        machines[core].find(code, wait.here, None, || {
            (
                message,
                format!("raise `{name}` before, or remove the wait"),
            )
        });
    }
}

/// The core at which the cycle closes.
fn said_first(said: &[String]) -> String {
    let first = said.first().map(String::as_str).unwrap_or_default();
    let number = first.strip_prefix("core ").unwrap_or_default();
    number.split(' ').next().unwrap_or_default().to_owned()
}

/// The lines of the statements that raise a semaphore.
fn raising_lines(program: &TpuProgram, array: SemaphoreId) -> Vec<u32> {
    let mut lines = Vec::new();
    for_each_statement(&program.body, &mut |statement| {
        let raises = match &statement.kind {
            StatementKind::Signal { semaphore, .. } => semaphore.array == array,
            StatementKind::Start {
                semaphore, remote, ..
            } => {
                let sent = remote.as_ref().and_then(|remote| remote.sent.as_ref());
                semaphore.array == array || sent.is_some_and(|sent| sent.array == array)
            }
            _ => false,
        };
        if raises {
            lines.push(program.source_line(statement.line));
        }
    });
    lines.sort_unstable();
    lines.dedup();
    lines
}
