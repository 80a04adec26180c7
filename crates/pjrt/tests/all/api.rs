//! A small front end: the C functions with Rust types.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr;
use std::sync::LazyLock;
use tegula_pjrt::c_api::*;

/// The path where cargo places the plug-in: beside this program, or in a parent folder.
pub(crate) fn library_path() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let deps = program.parent().expect("a folder");
    let name = "libtegula_pjrt.so";
    let places = [deps.join(name), deps.parent().expect("a folder").join(name)];
    let newest = places
        .into_iter()
        .filter(|place| place.exists())
        .max_by_key(|place| {
            let file = std::fs::metadata(place).expect("a file");
            file.modified().expect("a time")
        });
    newest.expect("cargo builds the plug-in with its tests")
}

static LIBRARY: LazyLock<libloading::Library> = LazyLock::new(|| {
    // SAFETY: it is our own library, which runs nothing when it is loaded.
    unsafe { libloading::Library::new(library_path()) }.expect("the plug-in")
});

/// The table of functions.
pub(crate) fn api() -> &'static PJRT_Api {
    // SAFETY: the function has this type, and its table is static.
    unsafe {
        let get = LIBRARY.get::<extern "C" fn() -> *const PJRT_Api>(b"GetPjrtApi");
        &*get.expect("the function")()
    }
}

/// An error's code and message.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: PJRT_Error_Code,
    pub(crate) message: String,
}

/// Arguments of a function: zeros, except for the size.
pub(crate) fn arguments<A: CStruct>() -> A {
    let mut args = MaybeUninit::<A>::zeroed();
    // SAFETY: the first field is the size; zero is a value of all others.
    unsafe {
        args.as_mut_ptr().cast::<usize>().write(A::SIZE);
        args.assume_init()
    }
}

/// Calls a function of the table.
pub(crate) fn call<A: CStruct>(function: Option<Entry<A>>, args: &mut A) -> Result<(), Failure> {
    // SAFETY: the arguments are of the function's type.
    let error = unsafe { function.expect("a function")(args) };
    match error.is_null() {
        true => Ok(()),
        false => Err(failure(error)),
    }
}

pub(crate) fn failure(error: *mut PJRT_Error) -> Failure {
    let mut message: PJRT_Error_Message_Args = arguments();
    message.error = error;
    let mut code: PJRT_Error_GetCode_Args = arguments();
    code.error = error;
    let mut destroy: PJRT_Error_Destroy_Args = arguments();
    destroy.error = error;
    // SAFETY: the error is the plug-in's, and ours to destroy.
    unsafe {
        api().PJRT_Error_Message.expect("a function")(&mut message);
        let text = std::slice::from_raw_parts(message.message.cast::<u8>(), message.message_size);
        let text = String::from_utf8_lossy(text).into_owned();
        assert!(api().PJRT_Error_GetCode.expect("a function")(&mut code).is_null());
        // The error's own table of functions must agree.
        let table = &*(*error).vtable;
        assert_eq!(table.get_code.expect("a function")(error), code.code);
        api().PJRT_Error_Destroy.expect("a function")(&mut destroy);
        Failure {
            code: code.code,
            message: text,
        }
    }
}

/// A client with one device.
pub(crate) struct Client(pub(crate) *mut PJRT_Client);

impl Client {
    pub(crate) fn new() -> Self {
        let mut args: PJRT_Client_Create_Args = arguments();
        call(api().PJRT_Client_Create, &mut args).expect("a client");
        Self(args.client)
    }

    /// A client of several devices.
    pub(crate) fn with_devices(count: i64) -> Self {
        let value = PJRT_NamedValue_Value { int64_value: count };
        Self::with_option(c"num_devices", PJRT_NamedValue_kInt64, value)
    }

    /// A client without asynchronous runs.
    pub(crate) fn synchronous() -> Self {
        let value = PJRT_NamedValue_Value { bool_value: false };
        Self::with_option(c"asynchronous", PJRT_NamedValue_kBool, value)
    }

    fn with_option(name: &CStr, kind: PJRT_NamedValue_Type, value: PJRT_NamedValue_Value) -> Self {
        let mut option: PJRT_NamedValue = arguments();
        option.name = name.as_ptr();
        option.name_size = name.count_bytes();
        option.r#type = kind;
        option.value = value;
        option.value_size = 1;
        let mut args: PJRT_Client_Create_Args = arguments();
        args.create_options = &raw const option;
        args.num_options = 1;
        call(api().PJRT_Client_Create, &mut args).expect("a client");
        Self(args.client)
    }

    pub(crate) fn device(&self) -> *mut PJRT_Device {
        let mut args: PJRT_Client_AddressableDevices_Args = arguments();
        args.client = self.0;
        call(api().PJRT_Client_AddressableDevices, &mut args).expect("devices");
        // SAFETY: the array has at least one device.
        unsafe { *args.addressable_devices }
    }

    pub(crate) fn compile(&self, code: &str) -> Result<Executable, Failure> {
        self.compile_with(code, &[])
    }

    /// Compiles with options in the form of a protocol buffer.
    pub(crate) fn compile_with(&self, code: &str, options: &[u8]) -> Result<Executable, Failure> {
        let mut program: PJRT_Program = arguments();
        program.code = code.as_ptr().cast_mut().cast();
        program.code_size = code.len();
        program.format = c"mlir".as_ptr();
        program.format_size = 4;
        let mut args: PJRT_Client_Compile_Args = arguments();
        args.client = self.0;
        args.program = &raw const program;
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        call(api().PJRT_Client_Compile, &mut args)?;
        Ok(Executable(args.executable))
    }

    pub(crate) fn upload<T>(&self, kind: PJRT_Buffer_Type, dims: &[i64], values: &[T]) -> Buffer {
        self.upload_strided(kind, dims, None, values)
    }

    pub(crate) fn upload_strided<T>(
        &self,
        kind: PJRT_Buffer_Type,
        dims: &[i64],
        strides: Option<&[i64]>,
        values: &[T],
    ) -> Buffer {
        let mut args: PJRT_Client_BufferFromHostBuffer_Args = arguments();
        args.client = self.0;
        args.data = values.as_ptr().cast();
        args.r#type = kind;
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        if let Some(strides) = strides {
            args.byte_strides = strides.as_ptr();
            args.num_byte_strides = strides.len();
        }
        args.device = self.device();
        call(api().PJRT_Client_BufferFromHostBuffer, &mut args).expect("an array");
        wait(args.done_with_host_buffer).expect("copied");
        Buffer(args.buffer)
    }

    pub(crate) fn f32s(&self, dims: &[i64], values: &[f32]) -> Buffer {
        self.upload(PJRT_Buffer_Type_F32, dims, values)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut args: PJRT_Client_Destroy_Args = arguments();
        args.client = self.0;
        call(api().PJRT_Client_Destroy, &mut args).expect("destroyed");
    }
}

/// Whether an event is set.
pub(crate) fn is_ready(event: *mut PJRT_Event) -> bool {
    let mut args: PJRT_Event_IsReady_Args = arguments();
    args.event = event;
    call(api().PJRT_Event_IsReady, &mut args).expect("an answer");
    args.is_ready
}

/// Waits for an event, and destroys it.
pub(crate) fn wait(event: *mut PJRT_Event) -> Result<(), Failure> {
    let mut args: PJRT_Event_Await_Args = arguments();
    args.event = event;
    let result = call(api().PJRT_Event_Await, &mut args);
    forget(event);
    result
}

/// Destroys an event without waiting for it.
pub(crate) fn forget(event: *mut PJRT_Event) {
    let mut args: PJRT_Event_Destroy_Args = arguments();
    args.event = event;
    call(api().PJRT_Event_Destroy, &mut args).expect("destroyed");
}

/// An array.
pub(crate) struct Buffer(pub(crate) *mut PJRT_Buffer);

impl Buffer {
    pub(crate) fn dims(&self) -> Vec<i64> {
        let mut args: PJRT_Buffer_Dimensions_Args = arguments();
        args.buffer = self.0;
        call(api().PJRT_Buffer_Dimensions, &mut args).expect("dimensions");
        // SAFETY: the array has this many dimensions.
        unsafe { std::slice::from_raw_parts(args.dims, args.num_dims).to_vec() }
    }

    pub(crate) fn is_deleted(&self) -> bool {
        let mut args: PJRT_Buffer_IsDeleted_Args = arguments();
        args.buffer = self.0;
        call(api().PJRT_Buffer_IsDeleted, &mut args).expect("an answer");
        args.is_deleted
    }

    /// Waits until the array has arrived.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        let mut args: PJRT_Buffer_ReadyEvent_Args = arguments();
        args.buffer = self.0;
        call(api().PJRT_Buffer_ReadyEvent, &mut args)?;
        wait(args.event)
    }

    /// The elements, in the order of a layout or row-major.
    pub(crate) fn read<T: Copy + Default>(&self, minor_to_major: Option<&[i64]>) -> Vec<T> {
        let mut layout: PJRT_Buffer_MemoryLayout = arguments();
        let rank = self.dims().len() as i64;
        let row_major: Vec<i64> = (0..rank).rev().collect();
        let order = minor_to_major.unwrap_or(&row_major);
        let mut tiled: PJRT_Buffer_MemoryLayout_Tiled = arguments();
        tiled.minor_to_major = order.as_ptr();
        tiled.minor_to_major_size = order.len();
        layout.value = PJRT_Buffer_MemoryLayout_Value { tiled };
        let mut args: PJRT_Buffer_ToHostBuffer_Args = arguments();
        args.src = self.0;
        args.host_layout = &raw mut layout;
        call(api().PJRT_Buffer_ToHostBuffer, &mut args).expect("a size");
        let mut values = vec![T::default(); args.dst_size / size_of::<T>()];
        args.dst = values.as_mut_ptr().cast();
        call(api().PJRT_Buffer_ToHostBuffer, &mut args).expect("copied");
        wait(args.event).expect("copied");
        values
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut args: PJRT_Buffer_Destroy_Args = arguments();
        args.buffer = self.0;
        call(api().PJRT_Buffer_Destroy, &mut args).expect("destroyed");
    }
}

/// The results of each device, and the events of their ends.
pub(crate) type Started = (Vec<Vec<Buffer>>, Vec<*mut PJRT_Event>);

/// A compiled program.
pub(crate) struct Executable(pub(crate) *mut PJRT_LoadedExecutable);

impl Executable {
    pub(crate) fn executable(&self) -> *mut PJRT_Executable {
        let mut args: PJRT_LoadedExecutable_GetExecutable_Args = arguments();
        args.loaded_executable = self.0;
        call(api().PJRT_LoadedExecutable_GetExecutable, &mut args).expect("an executable");
        args.executable
    }

    fn outputs(&self) -> usize {
        let mut args: PJRT_Executable_NumOutputs_Args = arguments();
        args.executable = self.executable();
        call(api().PJRT_Executable_NumOutputs, &mut args).expect("a number");
        let mut destroy: PJRT_Executable_Destroy_Args = arguments();
        destroy.executable = args.executable;
        call(api().PJRT_Executable_Destroy, &mut destroy).expect("destroyed");
        args.num_outputs
    }

    pub(crate) fn run(&self, inputs: &[&Buffer]) -> Result<Vec<Buffer>, Failure> {
        Ok(self.run_on(&[inputs])?.remove(0))
    }

    /// Runs on several devices, each with its arguments.
    pub(crate) fn run_on(&self, inputs: &[&[&Buffer]]) -> Result<Vec<Vec<Buffer>>, Failure> {
        let (outputs, events) = self.start(inputs)?;
        for event in events {
            wait(event)?;
        }
        Ok(outputs)
    }

    /// Starts a run on several devices; returns the results, and the event of each device's end.
    pub(crate) fn start(&self, inputs: &[&[&Buffer]]) -> Result<Started, Failure> {
        let handles = |list: &&[&Buffer]| list.iter().map(|input| input.0).collect();
        let inputs: Vec<Vec<*mut PJRT_Buffer>> = inputs.iter().map(handles).collect();
        let mut outputs = vec![vec![ptr::null_mut(); self.outputs()]; inputs.len()];
        let mut options: PJRT_ExecuteOptions = arguments();
        let lists: Vec<_> = inputs.iter().map(Vec::as_ptr).collect();
        let results: Vec<_> = outputs.iter_mut().map(Vec::as_mut_ptr).collect();
        let mut events = vec![ptr::null_mut(); inputs.len()];
        let mut args: PJRT_LoadedExecutable_Execute_Args = arguments();
        args.executable = self.0;
        args.options = &raw mut options;
        args.argument_lists = lists.as_ptr();
        args.num_devices = inputs.len();
        args.num_args = inputs[0].len();
        args.output_lists = results.as_ptr();
        args.device_complete_events = events.as_mut_ptr();
        call(api().PJRT_LoadedExecutable_Execute, &mut args)?;
        let own = |list: Vec<_>| list.into_iter().map(Buffer).collect();
        Ok((outputs.into_iter().map(own).collect(), events))
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let mut args: PJRT_LoadedExecutable_Destroy_Args = arguments();
        args.executable = self.0;
        call(api().PJRT_LoadedExecutable_Destroy, &mut args).expect("destroyed");
    }
}

/// A text that a C function returned.
pub(crate) fn text(data: *const c_char, size: usize) -> String {
    // SAFETY: there are the stated number of bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    String::from_utf8(bytes.to_vec()).expect("text")
}
