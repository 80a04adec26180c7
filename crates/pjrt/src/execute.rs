//! Executing programs: one device on the thread of the caller, each of several on a thread of its own.

use crate::buffer::Buffer;
use crate::c_api::*;
use crate::context;
use crate::device::Device;
use crate::entry::{Object, entries, unimplemented};
use crate::error::Error;
use crate::event::Event;
use crate::executable::Loaded;
use crate::pointers::slice;
use crate::program::Engine;
use std::sync::Arc;
use tegula::{Arg, Literal, RunError, SpmdExecutable};

/// Arrays of a run until it is done: borrowed ones must live so long.
enum Argument {
    Kept(Arc<tegula::Tensor>),
    Given(tegula::Tensor),
}

/// The arguments of a run, those that the program takes over taken away from their buffers.
fn arguments(loaded: &Loaded, buffers: &[&Buffer], kept: &[i64]) -> Result<Vec<Argument>, Error> {
    let parameters = &loaded.program.parameters;
    if buffers.len() != parameters.len() {
        return Err(Error::invalid(format!(
            "{} was called with {} arguments, and takes {}",
            loaded.program.name,
            buffers.len(),
            parameters.len()
        )));
    }
    let is_donated = |place: usize| parameters[place].is_donated && !kept.contains(&(place as i64));
    check_donations(buffers, is_donated)?;
    let arrays = buffers.iter().enumerate();
    let arrays = arrays.filter(|(place, _)| !parameters[*place].is_token);
    let arguments = arrays.map(|(place, buffer)| {
        Ok(match is_donated(place) {
            true => Argument::Given(buffer.donate()?),
            false => Argument::Kept(buffer.array()?),
        })
    });
    arguments.collect()
}

/// A donated buffer must be there once.
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

fn execute(args: &mut PJRT_LoadedExecutable_Execute_Args) -> Result<(), Error> {
    // SAFETY: the header asks for an executable, and options or null.
    let (loaded, options) = unsafe { (Loaded::of(args.executable)?, Options::read(args.options)) };
    loaded.check_alive()?;
    if options.has_host_transfers {
        return Err(unimplemented(
            "sending to the host and receiving from it in a program",
        ));
    }
    let count = loaded.program.topology().devices();
    if args.num_devices != count {
        let message = format!("{} devices for a program of {count}", args.num_devices);
        return Err(Error::invalid(message));
    }
    // SAFETY: the header: for each device a list of arguments.
    let lists: Result<Vec<Vec<&Buffer>>, Error> = unsafe {
        let lists = match args.num_args {
            0 => vec![&[][..]; count],
            args_count => {
                let lists = slice(args.argument_lists, count);
                lists.iter().map(|&list| slice(list, args_count)).collect()
            }
        };
        let buffers =
            |list: &[*mut PJRT_Buffer]| list.iter().map(|&handle| Buffer::of(handle)).collect();
        lists.into_iter().map(buffers).collect()
    };
    let lists = lists?;
    match &loaded.program.engine {
        Engine::One(executable) => execute_one(args, loaded, executable, &lists[0], &options)?,
        Engine::Several(spmd) => execute_several(args, loaded, spmd, &lists, &options)?,
    }
    if !args.device_complete_events.is_null() {
        for device in 0..count {
            // SAFETY: the header: null, or room for an event of each device.
            unsafe {
                args.device_complete_events
                    .add(device)
                    .write(Event::ready_handle());
            }
        }
    }
    Ok(())
}

/// Does `work`, which runs the program or a device of it, with the execution's data at hand.
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

/// The arguments of a run; borrowed ones must live until it is done.
fn given(arguments: &mut [Argument]) -> Vec<Arg<'_>> {
    let given = arguments.iter_mut().map(|argument| match argument {
        Argument::Kept(array) => Arg::Borrowed(array),
        Argument::Given(array) => Arg::Donated(std::mem::replace(array, Literal::default().into())),
    });
    given.collect()
}

fn execute_one(
    args: &PJRT_LoadedExecutable_Execute_Args,
    loaded: &Loaded,
    executable: &tegula::Executable,
    buffers: &[&Buffer],
    options: &Options<'_>,
) -> Result<(), Error> {
    let device = loaded.device(args.execute_device)?;
    let mut arguments = arguments(loaded, buffers, options.kept)?;
    let results = within(options.context, || executable.run(given(&mut arguments)))?;
    // SAFETY: the header: room for the results of each device.
    let outputs = unsafe { *args.output_lists };
    // SAFETY: the header asks for room for the results of each device.
    unsafe { write(loaded, device, outputs, results.into_iter()) }
}

/// Gives a device's results.
///
/// # Safety
/// There is room for all results.
unsafe fn write(
    loaded: &Loaded,
    device: *mut PJRT_Device,
    outputs: *mut *mut PJRT_Buffer,
    mut results: impl Iterator<Item = tegula::Tensor>,
) -> Result<(), Error> {
    // SAFETY: a device of the client.
    let memory = unsafe { Device::of(device) }?.default_memory()?;
    for (place, &kind) in loaded.program.results.types.iter().enumerate() {
        let buffer = match kind {
            PJRT_Buffer_Type_TOKEN => Some(Buffer::token(memory)?),
            _ => results.next().map(|result| Buffer::new(result, memory)),
        };
        let buffer = buffer.ok_or_else(|| Error::internal("a result is missing"))?;
        // SAFETY: the caller promises: there is room for all results.
        unsafe { outputs.add(place).write(buffer.into_handle()) };
    }
    Ok(())
}

/// Runs each device on its own arrays.
fn execute_several(
    args: &PJRT_LoadedExecutable_Execute_Args,
    loaded: &Loaded,
    spmd: &SpmdExecutable,
    lists: &[Vec<&Buffer>],
    options: &Options<'_>,
) -> Result<(), Error> {
    let own = lists
        .iter()
        .map(|buffers| arguments(loaded, buffers, options.kept));
    let mut own: Vec<Vec<Argument>> = own.collect::<Result<_, _>>()?;
    let given = own.iter_mut().map(|arguments| given(arguments)).collect();
    let context = options.context;
    let results = spmd.run_devices(given, |run| within(context, run));
    let results = results.map_err(|error| {
        let message = error.to_string();
        match error {
            RunError::Device { error, .. } => Error::new(error.code, message),
            RunError::Panicked { .. } | RunError::NoThread { .. } => Error::internal(message),
        }
    })?;
    for (number, (&device, results)) in loaded.devices().iter().zip(results).enumerate() {
        // SAFETY: the header: room for the results of each device.
        unsafe {
            let outputs = *args.output_lists.add(number);
            write(loaded, device, outputs, results.into_iter())?;
        }
    }
    Ok(())
}

/// An execution's context, for the threads of its devices: the front end has it used from any thread.
#[derive(Clone, Copy)]
struct ContextHandle(*mut PJRT_ExecuteContext);

// SAFETY: contexts are `Sync`, and live as long as their execution.
unsafe impl Send for ContextHandle {}
// SAFETY: contexts are `Sync`, and live as long as their execution.
unsafe impl Sync for ContextHandle {}

/// What is read of an execution's options.
struct Options<'a> {
    /// Arguments that are not donated whatever the program says.
    kept: &'a [i64],
    context: ContextHandle,
    has_host_transfers: bool,
}

impl Options<'_> {
    /// # Safety
    /// Valid options, or null.
    unsafe fn read(options: *const PJRT_ExecuteOptions) -> Self {
        let none = Self {
            kept: &[],
            context: ContextHandle(std::ptr::null_mut()),
            has_host_transfers: false,
        };
        if options.is_null() {
            return none;
        }
        // SAFETY: the caller's promise: the first field says how many bytes there are, and every
        // caller has those up to the context.
        unsafe {
            let size = (&raw const (*options).struct_size).read();
            if size < std::mem::offset_of!(PJRT_ExecuteOptions, context) + size_of::<usize>() {
                return none;
            }
            let kept = (&raw const (*options).non_donatable_input_indices).read();
            let count = (&raw const (*options).num_non_donatable_input_indices).read();
            let sends = (&raw const (*options).num_send_ops).read();
            let receives = (&raw const (*options).num_recv_ops).read();
            Self {
                kept: slice(kept, count),
                context: ContextHandle((&raw const (*options).context).read()),
                has_host_transfers: sends + receives > 0,
            }
        }
    }
}

entries! {
    fn PJRT_LoadedExecutable_Execute(args: PJRT_LoadedExecutable_Execute_Args) {
        execute(args)?;
    }
}
