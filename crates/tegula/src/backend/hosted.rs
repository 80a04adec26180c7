//! Collectives as calls to the host, for targets without collectives of their own.
//!
//! Each collective of a program becomes a custom call. Its handler exchanges arrays with the other
//! devices through the [`Communicator`] of the current thread's device, and computes the result as
//! the reference evaluator does. The numbers of a device (`partition-id`, `replica-id`) are custom
//! calls as well, so one compiled program serves all devices.
//!
//! Between processes, the start of an asynchronous collective begins to send, and its done
//! operation waits for the result, so communication overlaps with the computations between them.
//! Between devices that share memory, the start performs the whole exchange.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tegula_custom_call::{Handlers, RegisterError};
use tegula_devices::{Arrived, Communicator, Exchange, ExchangeError, Outgoing, Pending, Topology};
use tegula_fusion::COLLECTIVE;
use tegula_interp::Value;
use tegula_ir::{CustomCall, InstructionId, Literal, Module, Op, Opcode};

/// The calls' attribute that identifies the original instruction: its number in the module.
const PLACE: &str = "instruction";

thread_local! {
    /// The communicator of the device that this thread represents.
    static DEVICE: RefCell<Option<Arc<dyn Communicator>>> = const { RefCell::new(None) };
    /// For each asynchronous start, by its instruction's number: exchanges in progress, with their
    /// operands.
    static BEGUN: RefCell<HashMap<usize, VecDeque<Begun>>> = RefCell::new(HashMap::new());
}

/// An exchange that a start has begun.
struct Begun {
    pending: Box<dyn Pending>,
    operands: Vec<Literal>,
}

/// Whether an operation communicates with other devices or returns a number of the device.
pub(crate) fn is_collective(op: &Op) -> bool {
    matches!(
        op,
        Op::AllGather { .. }
            | Op::AllReduce { .. }
            | Op::ReduceScatter { .. }
            | Op::AllToAll { .. }
            | Op::RaggedAllToAll(_)
            | Op::CollectiveBroadcast(_)
            | Op::CollectivePermute { .. }
            | Op::PartitionId
            | Op::ReplicaId
    )
}

/// Replaces a program's collectives by calls to the host. Returns the handlers of these calls, too,
/// which must run [as a device](as_device).
pub(crate) fn hosted(module: &Module) -> Result<(Module, Handlers), RegisterError> {
    let mut hosted = module.clone();
    // The compiler sees the program of a single device.
    hosted.attributes.num_partitions = None;
    hosted.attributes.replica_count = None;
    let ids: Vec<InstructionId> = module.instructions.keys().collect();
    for (place, &id) in ids.iter().enumerate() {
        let instruction = &mut hosted.instructions[id];
        match &instruction.op {
            Op::CollectiveDone(_) => {
                instruction.op = Op::CustomCall(Box::new(call(place, true)));
            }
            op if is_collective(op) => {
                let has_side_effect = !matches!(op, Op::PartitionId | Op::ReplicaId);
                instruction.op = Op::CustomCall(Box::new(call(place, has_side_effect)));
            }
            _ => {}
        }
    }
    let program = Arc::new(module.clone());
    let mut handlers = Handlers::default();
    handlers.add(COLLECTIVE, move |call, operands, _| {
        run(&program, &ids, call, operands)
    })?;
    Ok((hosted, handlers))
}

/// The custom call that replaces an instruction. Exchanges have a side effect, because all devices
/// must perform all of them, in the program's order.
fn call(place: usize, has_side_effect: bool) -> CustomCall {
    CustomCall {
        target: COLLECTIVE.into(),
        operand_layouts: None,
        has_side_effect,
        api_version: None,
        called: Vec::new(),
        aliasing: Vec::new(),
        extra: vec![(PLACE.into(), place.to_string().into())],
    }
}

fn run(
    program: &Module,
    ids: &[InstructionId],
    call: &CustomCall,
    operands: &[Literal],
) -> Result<Vec<Literal>, String> {
    let mut attributes = call.extra.iter();
    let place = attributes.find(|(name, _)| &**name == PLACE);
    let place = place.and_then(|(_, place)| place.parse::<usize>().ok());
    let id = place.and_then(|place| ids.get(place));
    let &id = id.ok_or("the call names an instruction that the program does not have")?;
    let communicator = DEVICE.with_borrow(Option::clone);
    let communicator = communicator.ok_or("this thread does not run a device of the program")?;
    let instruction = &program[id];
    if let Op::CollectiveDone(done) = instruction.op {
        let start = instruction.operands.first();
        let start = start.and_then(|start| ids.iter().position(|id| id == start));
        let start = start.ok_or("the `-done` operation has no matching `-start`")?;
        let begun =
            BEGUN.with_borrow_mut(|begun| begun.get_mut(&start).and_then(VecDeque::pop_front));
        return match begun {
            Some(begun) => ended(program, ids[start], begun, communicator),
            // The start operation has computed the result already.
            None => Ok(of_start(done, operands)),
        };
    }
    if is_start(&instruction.op) && communicator.sends_bytes() {
        let split = Split::new(communicator, First::Begin);
        let evaluated = evaluated(program, id, operands, split.clone());
        let First::Begun(pending) = std::mem::replace(&mut *split.first(), First::Answered) else {
            return evaluated;
        };
        let begun = Begun {
            pending,
            operands: operands.to_vec(),
        };
        BEGUN.with_borrow_mut(|all| all.entry(place_of(ids, id)).or_default().push_back(begun));
        return placeholders(program, id, operands);
    }
    evaluated(program, id, operands, communicator)
}

fn place_of(ids: &[InstructionId], id: InstructionId) -> usize {
    ids.iter().position(|other| *other == id).unwrap_or(0)
}

fn evaluated(
    program: &Module,
    id: InstructionId,
    operands: &[Literal],
    communicator: Arc<dyn Communicator>,
) -> Result<Vec<Literal>, String> {
    let operands = operands.iter().cloned().map(Value::Array).collect();
    let value = tegula_interp::evaluate_instruction_on(program, id, operands, communicator);
    let value = value.map_err(|error| error.to_string())?;
    Ok(value.leaves().into_iter().cloned().collect())
}

fn is_start(op: &Op) -> bool {
    matches!(
        op,
        Op::AllGather { start: true, .. }
            | Op::AllReduce { start: true, .. }
            | Op::CollectivePermute { start: true, .. }
    )
}

/// The part of a start's result that its done operation returns: for an all-reduce all arrays; for
/// a collective-permute the second array, which contexts follow; otherwise the second half.
fn of_start(done: Opcode, given: &[Literal]) -> Vec<Literal> {
    match done {
        Opcode::AllReduceDone => given.to_vec(),
        Opcode::CollectivePermuteDone => given.iter().skip(1).take(1).cloned().collect(),
        _ => given.iter().skip(given.len() / 2).cloned().collect(),
    }
}

/// Placeholders for the results of a start until its done operation: the operands, and zeros.
fn placeholders(
    program: &Module,
    id: InstructionId,
    operands: &[Literal],
) -> Result<Vec<Literal>, String> {
    let instruction = &program[id];
    let leaves = tegula_fusion::array_leaves(&instruction.shape);
    let gives_operands = !matches!(instruction.op, Op::AllReduce { .. });
    let leaves = leaves.into_iter().enumerate();
    let made = leaves.map(|(number, shape)| match operands.get(number) {
        Some(operand) if gives_operands => Ok(operand.clone()),
        _ => Literal::zeros(shape).map_err(|error| error.to_string()),
    });
    made.collect()
}

/// The results of a collective whose exchange was begun.
fn ended(
    program: &Module,
    start: InstructionId,
    begun: Begun,
    communicator: Arc<dyn Communicator>,
) -> Result<Vec<Literal>, String> {
    let arrived = begun.pending.wait().map_err(|error| error.to_string())?;
    let split = Split::new(communicator, First::Arrived(arrived));
    let given = evaluated(program, start, &begun.operands, split)?;
    let done = match program[start].op {
        Op::AllReduce { .. } => Opcode::AllReduceDone,
        Op::CollectivePermute { .. } => Opcode::CollectivePermuteDone,
        _ => Opcode::AllGatherDone,
    };
    Ok(of_start(done, &given))
}

/// The state of the first exchange of an instruction that is evaluated twice.
enum First {
    /// The exchange is to be begun; the evaluation then stops.
    Begin,
    /// The exchange was begun.
    Begun(Box<dyn Pending>),
    /// The exchange has this result.
    Arrived(Vec<Arc<[Literal]>>),
    /// The first exchange is done; further ones are passed on.
    Answered,
}

/// A communicator for evaluating an instruction twice: first until it begins its first exchange,
/// then with the result of that exchange.
struct Split {
    to: Arc<dyn Communicator>,
    first: Mutex<First>,
}

impl Split {
    fn new(to: Arc<dyn Communicator>, first: First) -> Arc<Self> {
        Arc::new(Self {
            to,
            first: Mutex::new(first),
        })
    }

    fn first(&self) -> MutexGuard<'_, First> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Communicator for Split {
    fn topology(&self) -> Topology {
        self.to.topology()
    }

    fn device(&self) -> usize {
        self.to.device()
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
        let mut first = self.first();
        match std::mem::replace(&mut *first, First::Answered) {
            First::Begin => {
                *first = First::Begun(self.to.begin(exchange, outgoing)?);
                // The error is discarded; it only stops the evaluation.
                Err(ExchangeError::Transport {
                    name: exchange.name.to_owned(),
                    reason: "begun".to_owned(),
                })
            }
            First::Arrived(arrived) => Ok(Box::new(Arrived(arrived))),
            First::Begun(_) | First::Answered => self.to.begin(exchange, outgoing),
        }
    }
}

/// Calls `work` on this thread, which represents a device meanwhile.
pub(crate) fn as_device<R>(communicator: Arc<dyn Communicator>, work: impl FnOnce() -> R) -> R {
    /// Restores the previous device when it is dropped, also during a panic.
    struct Leave(Option<Arc<dyn Communicator>>);
    impl Drop for Leave {
        fn drop(&mut self) {
            DEVICE.set(self.0.take());
        }
    }
    let _leave = Leave(DEVICE.replace(Some(communicator)));
    work()
}
