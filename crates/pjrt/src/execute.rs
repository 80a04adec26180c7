//! Execution of programs: short runs on the caller's thread, others asynchronously on another
//! thread.
//!
//! A run can be asynchronous if its program only computes. Programs that call functions of the
//! front end, have tokens, or have results whose sizes only the run determines are finished when
//! the call returns. So are programs whose last run was short, because starting another thread
//! takes as long, unless their arguments have not arrived yet. Errors in the arguments are errors
//! of the call; errors in an asynchronous run are errors of its results.

use crate::buffer::Buffer;
use crate::c_api::*;
use crate::device::{Device, Memory};
use crate::dispatch::Dispatch;
use crate::element;
use crate::entry::{Object, entries, unimplemented};
use crate::error::Error;
use crate::event::Event;
use crate::executable::Loaded;
use crate::pointers::slice;
use crate::program::Results;
use crate::promise::Value;
use crate::run::{Completion, ContextHandle, Run};
use tegula::Limits;

fn execute(args: &mut PJRT_LoadedExecutable_Execute_Args) -> Result<(), Error> {
    // SAFETY: the API requires a valid executable, and options or null.
    let (loaded, options) = unsafe { (Loaded::of(args.executable)?, Options::read(args.options)) };
    loaded.check_alive()?;
    if options.has_host_transfers {
        return Err(unimplemented(
            "sending to the host and receiving from it in a program",
        ));
    }
    let program = &loaded.program;
    let devices = loaded.devices(&args.execute_device)?;
    let count = devices.len();
    if args.num_devices != count {
        let message = format!(
            "argument lists for {} devices were given for a program of {count} devices",
            args.num_devices
        );
        return Err(Error::invalid(message));
    }
    if devices.is_empty() {
        // Other processes run it.
        return Ok(());
    }
    // SAFETY: the API requires, for each device, a list of arguments.
    let lists = unsafe { lists(args, count) }?;
    let run = Run::new(program, &lists, options.kept, loaded.begin())?;
    let dispatch = loaded.dispatch().filter(|_| program.may_go_on());
    let dispatch = dispatch.filter(|_| !program.is_short() || !run.is_ready());
    let dispatch = dispatch.filter(|_| program.fits(&lists));
    // SAFETY: the API requires, for each device, room for its results.
    let outputs = unsafe { slice(args.output_lists, count) };
    let done = match dispatch {
        Some(dispatch) => start(run, &program.results, dispatch, devices, outputs)?,
        None => {
            let results = run.results(options.context)?;
            for ((results, &device), &outputs) in results.into_iter().zip(devices).zip(outputs) {
                let mut results = results.into_iter();
                let array = |_, memory: &Memory| Some(Buffer::new(results.next()?, memory));
                // SAFETY: the API requires that there is room for all results.
                unsafe { write(&program.results, device, outputs, array) }?;
            }
            Event::ready()
        }
    };
    if !args.device_complete_events.is_null() {
        for device in 0..count {
            // SAFETY: the API requires: null, or room for an event of each device.
            unsafe {
                args.device_complete_events.add(device).write(done.handle());
            }
        }
    }
    Ok(())
}

/// The arguments of each device.
///
/// # Safety
/// For each of `count` devices, there is a list of valid buffers of the stated length.
unsafe fn lists<'a>(
    args: &PJRT_LoadedExecutable_Execute_Args,
    count: usize,
) -> Result<Vec<Vec<&'a Buffer>>, Error> {
    if args.num_args == 0 {
        return Ok(vec![Vec::new(); count]);
    }
    // SAFETY: the caller promises for each device a list of the stated number of valid buffers.
    unsafe {
        let buffers =
            |list: &[*mut PJRT_Buffer]| list.iter().map(|&handle| Buffer::of(handle)).collect();
        let lists = slice(args.argument_lists, count).iter();
        lists
            .map(|&list| buffers(slice(list, args.num_args)))
            .collect()
    }
}

/// Starts an asynchronous run; returns the event of its end.
fn start(
    run: Run,
    results: &Results,
    dispatch: &Dispatch,
    devices: &[*mut PJRT_Device],
    outputs: &[*mut *mut PJRT_Buffer],
) -> Result<Event, Error> {
    let completion = Completion::new(devices.len(), results.len());
    let ready = completion.ready().clone();
    for ((number, &device), &outputs) in devices.iter().enumerate().zip(outputs) {
        let mut values = completion.values(number);
        let array = |place, memory: &Memory| promised(results, place, values.next()?, memory);
        // SAFETY: the API requires that there is room for all results.
        unsafe { write(results, device, outputs, array) }?;
    }
    // SAFETY: a device of the client. Programs of several devices have the queue of the first.
    let device = devices.first().map(|&device| unsafe { Device::of(device) });
    let device = device.transpose()?.map_or(0, |device| device.id);
    let limits = Limits::new().interrupt(dispatch.interrupt());
    let task = dispatch.submit(device, Box::new(move || run.fulfil(&limits, completion)));
    // If no thread can be started, the run is done now.
    if let Err(task) = task {
        task();
    }
    Ok(ready)
}

/// The buffer of a result that arrives later.
fn promised(results: &Results, place: usize, value: Value, memory: &Memory) -> Option<Buffer> {
    let element_type = element::from_c(*results.types.get(place)?).ok()?;
    let layout = results.layouts.get(place)?.clone();
    let before: usize = results.ranks.iter().take(place).sum();
    let dims = results
        .dims
        .get(before..before + results.ranks.get(place)?)?;
    Some(Buffer::of_value(
        value,
        element_type,
        dims.to_vec(),
        layout,
        memory,
    ))
}

/// Writes a device's results: tokens, and arrays for the other results.
///
/// # Safety
/// `device` is a device of the client, and `outputs` has room for all results.
unsafe fn write(
    results: &Results,
    device: *mut PJRT_Device,
    outputs: *mut *mut PJRT_Buffer,
    mut array: impl FnMut(usize, &Memory) -> Option<Buffer>,
) -> Result<(), Error> {
    // SAFETY: the caller promises a device of the client.
    let memory = unsafe { Device::of(device) }?.default_memory()?;
    for (place, &kind) in results.types.iter().enumerate() {
        let buffer = match kind {
            PJRT_Buffer_Type_TOKEN => Some(Buffer::token(memory)?),
            _ => array(place, memory),
        };
        let buffer = buffer.ok_or_else(|| Error::internal("a result is missing"))?;
        // SAFETY: the caller promises that there is room for all results.
        unsafe { outputs.add(place).write(buffer.into_handle()) };
    }
    Ok(())
}

/// The execution options that are used.
struct Options<'a> {
    /// Arguments that are not donated, even if the program says so.
    kept: &'a [i64],
    context: ContextHandle,
    has_host_transfers: bool,
}

impl Options<'_> {
    /// # Safety
    /// The options are valid, or null.
    unsafe fn read(options: *const PJRT_ExecuteOptions) -> Self {
        let none = Self {
            kept: &[],
            context: ContextHandle::NONE,
            has_host_transfers: false,
        };
        if options.is_null() {
            return none;
        }
        // SAFETY: the caller promises valid options: the first field says how many bytes there are,
        // and every caller has those up to the context.
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
