//! Modules, functions and launches.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use tegula_sim_ptx::Module;

use crate::driver::{Driver, Function, Handle, Outcome, functions, put};
use crate::perform::enqueue;
use crate::status::{
    INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NO_BINARY_FOR_GPU, NOT_FOUND, Status,
};
use crate::work::{HostFunction, Kernel, Work};

/// The dynamic shared memory in bytes that a launch may use without opting in.
const SHARED: u64 = 48 << 10;
/// The maximum shared memory in bytes that a block can opt in to.
const MOST_SHARED: u64 = 227 << 10;
/// The maximum number of threads on a multiprocessor.
const RESIDENT: u64 = 2048;

/// Loads PTX text. Error messages are written to `log` if the host provided a buffer for them.
fn load(
    driver: &mut Driver,
    image: *const c_void,
    log: Option<(*mut u8, usize)>,
) -> Result<Handle, Status> {
    if image.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: an image has at least its first four bytes.
    let magic = unsafe { image.cast::<[u8; 4]>().read_unaligned() };
    if magic == *b"\x7fELF" || magic == [0x50, 0xed, 0x55, 0xba] {
        driver.note("module: a cubin or fat binary is not supported: the stand-in runs PTX only");
        return Err(NO_BINARY_FOR_GPU);
    }
    // SAFETY: an image that is not binary is text that ends with a zero.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    let text = text.to_str().map_err(|_| INVALID_PTX)?;
    let module = Module::parse(text).map_err(|error| {
        let message = format!("module: {error}");
        driver.note(&message);
        if let Some((buffer, size)) = log {
            let bytes = message.len().min(size.saturating_sub(1));
            // SAFETY: the host promises that the buffer has `size` bytes, which is more than
            // `bytes`.
            unsafe {
                std::ptr::copy_nonoverlapping(message.as_ptr(), buffer, bytes);
                buffer.add(bytes).write(0);
            }
        }
        INVALID_PTX
    })?;
    module
        .load_variables(&mut driver.memory)
        .map_err(|e| Status::of_memory(&e))?;
    let handle = driver.handle();
    driver.modules.insert(handle, Arc::new(module));
    Ok(handle)
}

/// The buffer for errors among the options of `cuModuleLoadDataEx`.
///
/// # Safety
/// The arrays have `count` elements, or `count` is 0.
unsafe fn error_log(
    count: u32,
    options: *const c_int,
    values: *const *mut c_void,
) -> Option<(*mut u8, usize)> {
    // CU_JIT_ERROR_LOG_BUFFER and its size in bytes.
    let (mut buffer, mut size) = (std::ptr::null_mut::<u8>(), 0);
    for index in 0..count as usize {
        // SAFETY: the caller promises that the arrays have `count` elements.
        let (option, value) = unsafe { (*options.add(index), *values.add(index)) };
        match option {
            5 => buffer = value.cast(),
            6 => size = value as usize,
            _ => {}
        }
    }
    (!buffer.is_null() && size > 0).then_some((buffer, size))
}

/// Copies the parameters of a launch.
///
/// # Safety
/// `params` points to a pointer for each parameter, or `extra` is a null-terminated list that
/// contains the buffer and its size.
unsafe fn parameters(
    module: &Module,
    name: &str,
    params: *const *const u8,
    extra: *const *mut c_void,
) -> Result<Vec<u8>, Status> {
    let list = module.parameters(name).ok_or(INVALID_HANDLE)?;
    let bytes = list.last().map_or(0, |p| p.offset + p.bytes) as usize;
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let mut image = vec![0; bytes];
    if params.is_null() {
        // SAFETY: the caller promises that `extra` is a null-terminated list.
        let packed = unsafe { packed(extra) }.ok_or(INVALID_VALUE)?;
        if packed.len() < bytes {
            return Err(INVALID_VALUE);
        }
        image.copy_from_slice(&packed[..bytes]);
        return Ok(image);
    }
    for (index, parameter) in list.iter().enumerate() {
        // SAFETY: the caller promises a pointer for each parameter.
        let from = unsafe { *params.add(index) };
        if from.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller promises that the pointer is to a value of the parameter's size.
        let value = unsafe { std::slice::from_raw_parts(from, parameter.bytes as usize) };
        image[parameter.offset as usize..][..value.len()].copy_from_slice(value);
    }
    Ok(image)
}

/// The buffer in the `extra` argument.
///
/// # Safety
/// `extra` is null or a null-terminated list.
unsafe fn packed<'a>(extra: *const *mut c_void) -> Option<&'a [u8]> {
    if extra.is_null() {
        return None;
    }
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0usize);
    for pair in 0..8 {
        // SAFETY: the list continues until its end marker.
        let key = unsafe { *extra.add(2 * pair) } as usize;
        if key == 0 {
            break;
        }
        // SAFETY: each key is followed by its value.
        let value = unsafe { *extra.add(2 * pair + 1) };
        match key {
            1 => buffer = value.cast_const().cast(),
            // SAFETY: the value of the size is a pointer to it.
            2 => size = unsafe { value.cast::<usize>().read_unaligned() },
            _ => return None,
        }
    }
    if buffer.is_null() || size > 1 << 16 {
        return None;
    }
    // SAFETY: the list states that the buffer has `size` bytes.
    Some(unsafe { std::slice::from_raw_parts(buffer, size) })
}

/// Checks a launch and enqueues it.
///
/// # Safety
/// As [`parameters`].
unsafe fn start(
    driver: &mut Driver,
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    stream: Handle,
    (params, extra): (*const *const u8, *const *mut c_void),
) -> Outcome {
    let found = driver.function(function)?;
    let (handle, name, limit) = (found.module, found.name.clone(), found.dynamic_shared);
    let module = driver.module(handle)?;
    let attributes = module.attributes(&name).ok_or(INVALID_HANDLE)?;
    let empty = grid.iter().chain(&block).any(|n| *n == 0);
    let threads: u64 = block.iter().map(|n| u64::from(*n)).product();
    if empty || threads > u64::from(attributes.max_threads) || u64::from(dynamic_shared) > limit {
        let message = format!(
            "{name}: a launch of {grid:?} blocks of {block:?} threads with {dynamic_shared} bytes of dynamic \
             shared memory: the function takes {} threads and {limit} bytes",
            attributes.max_threads
        );
        driver.note(&message);
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller promises valid parameters, as [`parameters`] requires.
    let params = unsafe { parameters(&module, &name, params, extra) }?;
    enqueue(
        driver,
        stream,
        Work::Kernel(Kernel {
            module,
            name,
            grid,
            block,
            dynamic_shared,
            params,
        }),
    )
}

/// The number of blocks of a function that fit on a multiprocessor, given their threads and shared
/// memory.
fn resident(
    driver: &mut Driver,
    function: Handle,
    threads: c_int,
    dynamic_shared: usize,
) -> Result<c_int, Status> {
    let threads = u64::try_from(threads)
        .ok()
        .filter(|t| *t > 0)
        .ok_or(INVALID_VALUE)?;
    let found = driver.function(function)?;
    let (handle, name) = (found.module, found.name.clone());
    let attributes = driver
        .module(handle)?
        .attributes(&name)
        .ok_or(INVALID_HANDLE)?;
    let shared = attributes.static_shared + dynamic_shared as u64 + 1024;
    let by_threads = RESIDENT / threads.next_multiple_of(32);
    Ok(by_threads.min((228 << 10) / shared).min(32) as c_int)
}

functions! {
    call_within fn cuModuleLoadData(module: *mut Handle, image: *const c_void) |driver| {
        let handle = load(driver, image, None)?;
        // SAFETY: the host passes a place for a handle.
        unsafe { put(module, handle) }
    }
    call_within fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        count: u32,
        options: *mut c_int,
        values: *mut *mut c_void,
    ) |driver| {
        // SAFETY: the host passes arrays of `count` elements.
        let log = unsafe { error_log(count, options, values) };
        let handle = load(driver, image, log)?;
        // SAFETY: the host passes a place for a handle.
        unsafe { put(module, handle) }
    }
    call_within fn cuModuleLoad(module: *mut Handle, path: *const c_char) |driver| {
        if path.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the host passes a string that ends with a zero.
        let path = unsafe { CStr::from_ptr(path) }.to_str().map_err(|_| INVALID_VALUE)?;
        let mut image = std::fs::read(path).map_err(|_| NOT_FOUND)?;
        image.extend([0; 4]);
        let handle = load(driver, image.as_ptr().cast(), None)?;
        // SAFETY: the host passes a place for a handle.
        unsafe { put(module, handle) }
    }
    call_within fn cuModuleUnload(module: Handle) |driver| {
        let found = driver.modules.remove(&module).ok_or(INVALID_HANDLE)?;
        found.unload(&mut driver.memory);
        driver.functions.retain(|_, f| f.module != module);
        Ok(())
    }
    call_within fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) |driver| {
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the host passes a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?.to_owned();
        let attributes = driver.module(module)?.attributes(&name).ok_or(NOT_FOUND)?;
        let handle = driver.handle();
        let dynamic_shared = SHARED.saturating_sub(attributes.static_shared);
        driver.functions.insert(handle, Function { module, name, dynamic_shared });
        // SAFETY: the host passes a place for a handle.
        unsafe { put(function, handle) }
    }
    call_within fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char) |driver| {
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the host passes a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?;
        let (start, size) = driver.module(module)?.variable(&driver.memory, name).ok_or(NOT_FOUND)?;
        // SAFETY: the host passes places for both, or null for what it does not want.
        unsafe {
            if !address.is_null() {
                put(address, start)?;
            }
            if bytes.is_null() { Ok(()) } else { put(bytes, size as usize) }
        }
    }
    call_within fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) |driver| {
        let found = driver.function(function)?;
        let (handle, name, dynamic) = (found.module, found.name.clone(), found.dynamic_shared);
        let a = driver.module(handle)?.attributes(&name).ok_or(INVALID_HANDLE)?;
        // The numbers of CUfunction_attribute.
        let result = match attribute {
            0 => a.max_threads as c_int,
            1 => a.static_shared as c_int,
            3 => a.local as c_int,
            4 => a.registers as c_int,
            5 | 6 => 90,
            8 => dynamic as c_int,
            2 | 7 | 9..=15 => 0,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: the host passes a place for an int.
        unsafe { put(value, result) }
    }
    call_within fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) |driver| {
        let found = driver.function(function)?;
        let (handle, name) = (found.module, found.name.clone());
        let a = driver.module(handle)?.attributes(&name).ok_or(INVALID_HANDLE)?;
        match attribute {
            8 => {
                let bytes = u64::try_from(value).map_err(|_| INVALID_VALUE)?;
                if bytes + a.static_shared > MOST_SHARED {
                    return Err(INVALID_VALUE);
                }
                driver.function(function)?.dynamic_shared = bytes;
                Ok(())
            }
            9 => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    }
    call_within fn cuFuncSetCacheConfig(function: Handle, _config: c_int) |driver| {
        driver.function(function).map(drop)
    }
    call_within fn cuFuncGetModule(module: *mut Handle, function: Handle) |driver| {
        let found = driver.function(function)?.module;
        // SAFETY: the host passes a place for a handle.
        unsafe { put(module, found) }
    }
    call_within fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: Handle,
        threads: c_int,
        shared: usize,
    ) |driver| {
        let found = resident(driver, function, threads, shared)?;
        // SAFETY: the host passes a place for an int.
        unsafe { put(blocks, found) }
    }
    call_within fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        function: Handle,
        threads: c_int,
        shared: usize,
        _flags: u32,
    ) |driver| {
        let found = resident(driver, function, threads, shared)?;
        // SAFETY: the host passes a place for an int.
        unsafe { put(blocks, found) }
    }
    call_within fn cuLaunchKernel(
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: Handle,
        params: *const *const u8,
        extra: *const *mut c_void,
    ) |driver| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        // SAFETY: the host promises that `params` or `extra` are valid parameters of the function.
        unsafe { start(driver, function, grid, block, shared, stream, (params, extra)) }
    }
    call_within fn cuLaunchKernelEx(
        config: *const Config,
        function: Handle,
        params: *const *const u8,
        extra: *const *mut c_void,
    ) |driver| {
        if config.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the host passes a configuration.
        let c = unsafe { config.read_unaligned() };
        if c.attributes > 0 {
            // Clusters, programmatic launches and others are not supported.
            return crate::perform::unsupported();
        }
        // SAFETY: the host promises that `params` or `extra` are valid parameters of the function.
        unsafe { start(driver, function, c.grid, c.block, c.shared, c.stream, (params, extra)) }
    }
    call_within fn cuLaunchHostFunc(stream: Handle, function: Option<HostFunction>, data: *mut c_void) |driver| {
        let function = function.ok_or(INVALID_VALUE)?;
        enqueue(driver, stream, Work::Host { function, data: data as usize })
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    list: *const c_void,
    attributes: u32,
}
