//! Collectives as calls of the host, for targets that have none of their own.
//!
//! Each collective of a program becomes a custom call. Its handler meets the other devices through
//! the [`Communicator`] of the thread's device and computes as the reference evaluator does. The
//! numbers of a device (`partition-id`, `replica-id`) are such calls too: one compiled program serves
//! all devices.

use std::cell::RefCell;
use std::sync::Arc;
use tegula_custom_call::{Handlers, RegisterError};
use tegula_devices::Communicator;
use tegula_interp::Value;
use tegula_ir::{CustomCall, InstructionId, Literal, Module, Op, Opcode};

/// The target of the custom calls.
const TARGET: &str = "tegula.collective";
/// Their attribute that says which instruction they stand for, by its place in the module.
const PLACE: &str = "instruction";

thread_local! {
    /// The way to the other devices of the device that this thread is.
    static DEVICE: RefCell<Option<Arc<dyn Communicator>>> = const { RefCell::new(None) };
}

/// Whether an operation needs other devices, or is the number of a device.
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

/// A program whose collectives are calls of the host, and the handlers of these calls, which run
/// [as a device](as_device).
pub(crate) fn hosted(module: &Module) -> Result<(Module, Handlers), RegisterError> {
    let mut hosted = module.clone();
    // Who compiles it sees the program of one device.
    hosted.attributes.num_partitions = None;
    hosted.attributes.replica_count = None;
    let ids: Vec<InstructionId> = module.instructions.keys().collect();
    for (place, &id) in ids.iter().enumerate() {
        let instruction = &mut hosted.instructions[id];
        match &instruction.op {
            // What a start gives is there already.
            Op::CollectiveDone(Opcode::AllReduceDone) => instruction.op = Op::Copy,
            Op::CollectiveDone(_) => instruction.op = Op::GetTupleElement(1),
            op if is_collective(op) => {
                let has_side_effect = !matches!(op, Op::PartitionId | Op::ReplicaId);
                instruction.op = Op::CustomCall(Box::new(call(place, has_side_effect)));
            }
            _ => {}
        }
    }
    let program = Arc::new(module.clone());
    let mut handlers = Handlers::default();
    handlers.add(TARGET, move |call, operands, _| {
        run(&program, &ids, call, operands)
    })?;
    Ok((hosted, handlers))
}

/// Exchanges have a side effect: devices must come to all of them, in the program's order.
fn call(place: usize, has_side_effect: bool) -> CustomCall {
    CustomCall {
        target: TARGET.into(),
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
    let &id = id.ok_or("the call stands for no instruction of the program")?;
    let communicator = DEVICE.with_borrow(Option::clone);
    let communicator = communicator.ok_or("this thread runs no device of the program")?;
    let operands = operands.iter().cloned().map(Value::Array).collect();
    let value = tegula_interp::evaluate_instruction_on(program, id, operands, communicator);
    let value = value.map_err(|error| error.to_string())?;
    Ok(value.leaves().into_iter().cloned().collect())
}

/// Does `work` on this thread as a device.
pub(crate) fn as_device<R>(communicator: Arc<dyn Communicator>, work: impl FnOnce() -> R) -> R {
    /// Ends it, also by a panic.
    struct Leave(Option<Arc<dyn Communicator>>);
    impl Drop for Leave {
        fn drop(&mut self) {
            DEVICE.set(self.0.take());
        }
    }
    let _leave = Leave(DEVICE.replace(Some(communicator)));
    work()
}
