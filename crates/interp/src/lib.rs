//! The reference evaluator, which defines the meaning of every operation in a plain, obviously
//! correct way. Every other target is tested against it.
//!
//! It interprets a module's computations instruction by instruction on host literals. It does not
//! fuse, plan, choose layouts or use vector instructions; it is just fast enough that whole models
//! finish.
//!
//! ```
//! use tegula_interp::{Value, evaluate};
//! use tegula_ir::{Literal, parse_module, parse_shape};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let module = parse_module(
//!     "HloModule double
//!      ENTRY main {
//!        x = u8[3] parameter(0)
//!        ROOT y = u8[3] add(x, x)
//!      }",
//! )?;
//! let shape = parse_shape("u8[3]")?;
//! let x = Literal::from_bytes(shape.as_array().ok_or("no array")?, &[1, 2, 200])?;
//! let y = evaluate(&module, &[Value::Array(x)])?;
//! // Integers wrap.
//! assert_eq!(y.as_array().map(Literal::bytes), Some(&[2, 4, 144][..]));
//! # Ok(())
//! # }
//! ```
//!
//! # What operations mean
//! Each result is rounded to its type. Elementwise operations on floats narrower than `f32` are
//! computed in `f32` and rounded once; `f32` transcendental functions are computed in `f64` and
//! rounded once. Dot, convolution and sums accumulate floats in `f64` and round once; integers
//! wrap. The special cases (NaN, division by zero, shifts by the width or more, conversions, ...)
//! are described where they are computed, in [`tegula_scalar`].
//!
//! # Perturbation
//! With [`Options::perturb`], the result of every operation that rounds (an addition, a dot, a
//! conversion to a narrower float; not a select, a maximum or a copy) is moved by a pseudo-random
//! -1, 0 or +1 ulp of its type; sums are moved by the error that another order of summation may
//! make. Several such runs show how far the results of another correct implementation may differ,
//! and where discontinuous operations flip; [`envelope`] combines them. The same seed gives the
//! same result.
//!
//! # What is left out, and why
//! These return [`Error::Unsupported`], which names the instruction:
//! - `dynamic-reshape`, `set-dimension-size` to a size that is computed from data;
//! - `infeed`, `outfeed`, `send` and `recv` without a host ([`evaluate_with_host`] has one), `send`
//!   and `recv` between devices, and a `collective-permute` that writes in place;
//! - collectives, in a program that one device evaluates ([`evaluate_devices`] evaluates several;
//!   `replica-id` and `partition-id` of a single device are 0);
//! - `rng-get-and-update-state`: a run has no random state from earlier runs;
//! - custom calls other than `LuDecomposition`, `TopK`, [LAPACK](tegula_ir::Lapack)'s, the
//!   partitioner's annotations and those with a
//!   [handler](tegula_custom_call::register_custom_call): only their authors know their meaning;
//! - a `bitcast` between tiled layouts: it would expose the padding.
//!
//! # Invariants
//! - No input causes a panic; a module that breaks the verifier's rules gets [`Error::Invalid`].
//! - The same module, arguments and options give the same bits, on every machine and with any
//!   number of threads.
//! - Values are never written while shared: an argument is never changed.

mod batch_norm;
mod callee;
mod collective;
mod control;
mod convolution;
mod dispatch;
mod dot;
mod elementwise;
mod envelope;
mod error;
mod eval;
mod fft;
mod gather;
mod lanes;
mod linalg;
mod matmul;
mod movement;
mod numbers;
mod perturb;
mod program;
mod ragged;
mod random;
mod reduce;
mod scan;
mod sort;
mod strided;
mod transfer;
mod value;
mod window;

pub use envelope::{Bounds, Envelope, envelope};
pub use error::Error;
pub use eval::Options;
pub use value::Value;

use std::sync::Arc;
use std::time::Duration;
use tegula_devices::{Communicator, HostQueues, RunError, Topology};
use tegula_ir::{InstructionId, Module};

/// Evaluates a module's entry computation on arguments, by parameter number.
///
/// # Errors
/// [`Error::Argument`] if the arguments do not have the parameters' shapes; otherwise the error of
/// the instruction that it names.
pub fn evaluate(module: &Module, arguments: &[Value]) -> Result<Value, Error> {
    evaluate_with(module, arguments, &Options::default())
}

/// [`evaluate`] with options.
///
/// # Errors
/// Those of [`evaluate`], and [`Error::Limit`] beyond a limit of [`Options`].
pub fn evaluate_with(
    module: &Module,
    arguments: &[Value],
    options: &Options,
) -> Result<Value, Error> {
    eval::Evaluator::new(module, options.clone()).run(arguments)
}

/// [`evaluate_with`], with a host that the program exchanges arrays with. A `recv` waits for its
/// arrays at most for `timeout`.
///
/// # Errors
/// Those of [`evaluate_with`], and [`Error::Transfer`] where the host has nothing for the program.
pub fn evaluate_with_host(
    module: &Module,
    arguments: &[Value],
    options: &Options,
    queues: &Arc<HostQueues>,
    timeout: Duration,
) -> Result<Value, Error> {
    let queues = Arc::clone(queues);
    let mut evaluator = eval::Evaluator::new(module, options.clone());
    evaluator.host = Some(eval::Host { queues, timeout });
    evaluator.run(arguments)
}

/// Evaluates a module on several devices at once, each with its own arguments; returns each
/// device's result, by number.
///
/// # Errors
/// [`Error::Argument`] if there are not as many lists of arguments as devices; otherwise the error
/// of the device that failed first. A device that waits for another longer than `timeout` fails.
pub fn evaluate_devices(
    module: &Module,
    topology: Topology,
    arguments: &[Vec<Value>],
    options: &Options,
    timeout: Duration,
) -> Result<Vec<Value>, RunError<Error>> {
    if arguments.len() != topology.devices() {
        let (index, devices) = (arguments.len(), topology.devices());
        let reason = format!("{devices} devices need as many lists of arguments, not {index}");
        let error = Error::Argument { index, reason };
        return Err(RunError::Device { device: 0, error });
    }
    let scope = tegula_limits::current();
    tegula_devices::run(topology, timeout, |communicator| {
        let own = arguments.get(communicator.device());
        let own = own.map_or(&[][..], Vec::as_slice);
        tegula_limits::enter(scope.as_ref(), || {
            evaluate_on(module, own, options, communicator)
        })
    })
}

/// Evaluates a module as one of several devices, which are connected through `communicator`. All of
/// them must evaluate the same module.
///
/// # Errors
/// Those of [`evaluate_with`], and [`Error::Exchange`] where the other devices do not take part.
pub fn evaluate_on(
    module: &Module,
    arguments: &[Value],
    options: &Options,
    communicator: Arc<dyn Communicator>,
) -> Result<Value, Error> {
    let mut evaluator = eval::Evaluator::new(module, options.clone());
    evaluator.communicator = Some(communicator);
    evaluator.run(arguments)
}

/// Evaluates one instruction of a module on its operands as one of several devices: a collective,
/// `partition-id` or `replica-id` of a program that another target runs. All devices must reach the
/// same instruction.
///
/// # Errors
/// Those of [`evaluate_on`]; [`Error::Invalid`] for operands that do not fit the instruction.
pub fn evaluate_instruction_on(
    module: &Module,
    instruction: InstructionId,
    operands: Vec<Value>,
    communicator: Arc<dyn Communicator>,
) -> Result<Value, Error> {
    let mut evaluator = eval::Evaluator::new(module, Options::default());
    evaluator.communicator = Some(communicator);
    evaluator.run_instruction(instruction, operands)
}
