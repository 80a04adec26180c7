//! Runs: a program with the arguments of each device, and the promises of its results.

use crate::buffer::Buffer;
use crate::c_api::PJRT_ExecuteContext;
use crate::context;
use crate::error::{Code, Error};
use crate::event::Event;
use crate::program::{Engine, Program};
use crate::promise::{Promise, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use tegula::{Arg, Limits, Literal, RunError, Tensor};

/// A program and its arguments.
pub(crate) struct Run {
    program: Arc<Program>,
    /// The arguments of each device of this process.
    arguments: Vec<Vec<Argument>>,
    /// The run with other processes.
    network: Option<tegula::network::Run>,
}

/// An argument of a program.
enum Argument {
    Kept(Value),
    /// The program takes over its memory.
    Given(Value),
}

/// An argument that has arrived; borrowed ones live until the run is done.
enum Present {
    Kept(Arc<Tensor>),
    Given(Tensor),
}

impl Argument {
    fn of(buffer: &Buffer, is_donated: bool) -> Result<Self, Error> {
        Ok(match is_donated {
            true => Self::Given(buffer.donate()?),
            false => Self::Kept(buffer.value()?),
        })
    }

    fn is_ready(&self) -> bool {
        let (Self::Kept(value) | Self::Given(value)) = self;
        value.is_ready()
    }

    fn wait(self) -> Result<Present, Error> {
        Ok(match self {
            Self::Kept(value) => Present::Kept(value.wait()?),
            // Another run may be using the array.
            Self::Given(value) => Present::Given(Arc::unwrap_or_clone(value.wait()?)),
        })
    }
}

impl Present {
    fn as_arg(&mut self) -> Arg<'_> {
        match self {
            Self::Kept(array) => Arg::Borrowed(array),
            Self::Given(array) => Arg::Donated(std::mem::replace(array, Literal::default().into())),
        }
    }
}

impl Run {
    /// A run on the buffers of each device. The buffers that the program takes over are deleted,
    /// except for those at the positions in `kept`.
    pub(crate) fn new(
        program: &Arc<Program>,
        buffers: &[Vec<&Buffer>],
        kept: &[i64],
        network: Option<tegula::network::Run>,
    ) -> Result<Self, Error> {
        let own = buffers.iter().map(|own| arguments(program, own, kept));
        Ok(Self {
            arguments: own.collect::<Result<_, _>>()?,
            program: Arc::clone(program),
            network,
        })
    }

    /// Whether all arguments have arrived, or cannot arrive.
    pub(crate) fn is_ready(&self) -> bool {
        let mut arguments = self.arguments.iter().flatten();
        arguments.all(Argument::is_ready)
    }

    /// Waits for the arguments and runs the program. Returns the result arrays of each device.
    pub(crate) fn results(self, context: ContextHandle) -> Result<Vec<Vec<Tensor>>, Error> {
        let present = |own: Vec<Argument>| own.into_iter().map(Argument::wait).collect();
        let own = self.arguments.into_iter().map(present);
        let mut own: Vec<Vec<Present>> = own.collect::<Result<_, Error>>()?;
        let mut given = own
            .iter_mut()
            .map(|own| own.iter_mut().map(Present::as_arg));
        let start = Instant::now();
        let results = match &self.program.engine {
            Engine::One(executable) => {
                let given = given.next().into_iter().flatten();
                vec![within(context, || executable.run(given))?]
            }
            Engine::Several(spmd) => {
                let given = given.map(Iterator::collect).collect();
                let around = |run: &mut dyn FnMut() -> _| within(context, run);
                let results = match self.network {
                    Some(network) => spmd.run_devices_of(network, given, around),
                    None => spmd.run_devices(given, around),
                };
                results.map_err(|error| {
                    let message = error.to_string();
                    match error {
                        RunError::Device { error, .. } => Error::new(error.code, message),
                        RunError::Panicked { .. } | RunError::NoThread { .. } => {
                            Error::internal(message)
                        }
                    }
                })?
            }
        };
        self.program.took(start.elapsed());
        Ok(results)
    }

    /// Runs the program asynchronously; panics and interruptions become errors of the results.
    pub(crate) fn fulfil(self, limits: &Limits, results: Completion) {
        let run = || Ok::<_, tegula::Error>(self.results(ContextHandle::NONE));
        let done = catch_unwind(AssertUnwindSafe(|| limits.within(run)));
        results.finish(match done {
            Ok(Ok(done)) => done,
            Ok(Err(stopped)) => Err(stopped.into()),
            Err(panic) => Err(Error::of_panic(&*panic)),
        });
    }
}

/// The arguments of a device. The arrays that the program takes over are removed from their
/// buffers.
fn arguments(program: &Program, buffers: &[&Buffer], kept: &[i64]) -> Result<Vec<Argument>, Error> {
    let parameters = &program.parameters;
    if buffers.len() != parameters.len() {
        return Err(Error::invalid(format!(
            "{} was called with {} arguments, and takes {}",
            program.name,
            buffers.len(),
            parameters.len()
        )));
    }
    let is_donated = |place: usize| parameters[place].is_donated && !kept.contains(&(place as i64));
    check_donations(buffers, is_donated)?;
    let arrays = buffers.iter().enumerate();
    let arrays = arrays.filter(|(place, _)| parameters[*place].shape.is_some());
    arrays
        .map(|(place, buffer)| Argument::of(buffer, is_donated(place)))
        .collect()
}

/// Checks that a donated buffer is passed only once.
fn check_donations(buffers: &[&Buffer], is_donated: impl Fn(usize) -> bool) -> Result<(), Error> {
    for (place, buffer) in buffers.iter().enumerate() {
        if !is_donated(place) {
            continue;
        }
        let same = |other: &usize| std::ptr::eq(*buffer, buffers[*other]) && *other != place;
        if let Some(other) = (0..buffers.len()).find(same) {
            let (first, second) = (place.min(other), place.max(other));
            let twice = if is_donated(other) {
                "donate"
            } else {
                "use and donate"
            };
            return Err(Error::invalid(format!(
                "Attempt to {twice} the same buffer twice in Execute() (arguments {first} and \
                 {second})"
            )));
        }
    }
    Ok(())
}

/// Calls `work`, which runs the program or one device of it, with access to the execution's
/// context.
fn within<R>(
    context: ContextHandle,
    work: impl FnOnce() -> Result<R, tegula::Error>,
) -> Result<R, Error> {
    let result = {
        let _entered = context::enter(context.0);
        work()
    };
    result.map_err(|error| match context::failure() {
        Some(failure) => Error::new(failure.code, error.message),
        None => error.into(),
    })
}

/// The context of an execution, for the threads of its devices. The front end allows any thread to
/// use it.
#[derive(Clone, Copy)]
pub(crate) struct ContextHandle(pub(crate) *mut PJRT_ExecuteContext);

impl ContextHandle {
    pub(crate) const NONE: Self = Self(std::ptr::null_mut());
}

// SAFETY: contexts are `Sync`, and live as long as their execution.
unsafe impl Send for ContextHandle {}
// SAFETY: contexts are `Sync`, and live as long as their execution.
unsafe impl Sync for ContextHandle {}

/// The promises of an asynchronous run. If this is dropped, the results cannot arrive.
pub(crate) struct Completion {
    /// The result arrays of each device.
    promises: Vec<Vec<Arc<Promise>>>,
    /// The event that is set when the results have arrived or cannot arrive.
    ready: Event,
}

impl Completion {
    /// Promises of `arrays` arrays for each device.
    pub(crate) fn new(devices: usize, arrays: usize) -> Self {
        let ready = Event::pending();
        let promise = || Promise::new(ready.clone());
        let own = || (0..arrays).map(|_| promise()).collect();
        Self {
            promises: (0..devices).map(|_| own()).collect(),
            ready,
        }
    }

    pub(crate) fn ready(&self) -> &Event {
        &self.ready
    }

    /// The arrays of a device.
    pub(crate) fn values(&self, device: usize) -> impl Iterator<Item = Value> {
        let own = self.promises.get(device).into_iter().flatten();
        own.map(|promise| Value::Promised(Arc::clone(promise)))
    }

    fn finish(mut self, results: Result<Vec<Vec<Tensor>>, Error>) {
        let promises = std::mem::take(&mut self.promises);
        let done = results.map(|results| {
            let pairs = promises.iter().flatten().zip(results.into_iter().flatten());
            pairs.for_each(|(promise, array)| promise.put(array));
        });
        // The promises are dropped first, so that a waiting thread can become the only owner of an
        // array.
        drop(promises);
        self.ready.set(&done);
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if !self.ready.is_done() {
            let message =
                "the run was cancelled: its process was forked, or its client was destroyed";
            self.ready.set(&Err(Error::new(Code::Cancelled, message)));
        }
    }
}
