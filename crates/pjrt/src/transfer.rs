//! Transfers of arrays from and to the host.

use crate::buffer::Buffer;
use crate::c_api::*;
use crate::client::Client;
use crate::device::{Device, Memory};
use crate::element;
use crate::entry::{Object, entries};
use crate::error::Error;
use crate::event::Event;
use crate::layout::Dense;
use crate::pointers::slice;
use crate::promise::{Promise, Value};
use crate::strides::{Strided, dense, elements};
use std::ffi::c_void;
use std::ops::Range;
use tegula_ir::{ALIGNMENT, ArrayShape, ElementType, Literal};

/// The size in bytes from which a caller's array is used in place; copying smaller arrays is faster
/// than sharing them.
const WORTH_SHARING: usize = 4096;

/// Bytes that the caller owns until we signal that they are no longer used.
struct Foreign<F: FnMut() + Send + Sync> {
    data: *const u8,
    len: usize,
    done: F,
}

// SAFETY: the caller leaves the bytes unchanged until `done` is called.
unsafe impl<F: FnMut() + Send + Sync> Send for Foreign<F> {}
// SAFETY: the caller leaves the bytes unchanged until `done` is called.
unsafe impl<F: FnMut() + Send + Sync> Sync for Foreign<F> {}

impl<F: FnMut() + Send + Sync> AsRef<[u8]> for Foreign<F> {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the code that made this object has stated that there are `len` bytes.
        unsafe { slice(self.data, self.len) }
    }
}

impl<F: FnMut() + Send + Sync> Drop for Foreign<F> {
    fn drop(&mut self) {
        (self.done)();
    }
}

/// The memory that a caller specifies, directly or by its device.
///
/// # Safety
/// Each pointer is null, or to an object of its type.
unsafe fn destination<'a>(
    memory: *const PJRT_Memory,
    device: *const PJRT_Device,
) -> Result<&'a Memory, Error> {
    // SAFETY: the caller promises that each is null or points to an object of its type.
    unsafe {
        match memory.is_null() {
            false => Memory::own(memory),
            true => Device::of(device)?.default_memory(),
        }
    }
}

/// An array in the caller's memory.
struct Source<'a> {
    data: *const u8,
    element_type: ElementType,
    dims: &'a [i64],
    strides: Vec<i64>,
    bytes: usize,
}

impl Source<'_> {
    /// Copies the array.
    ///
    /// # Safety
    /// All its elements can be read.
    unsafe fn copied(&self) -> Result<Literal, Error> {
        let shape = ArrayShape::new(self.element_type, self.dims);
        let strided = Strided {
            dims: self.dims,
            strides: &self.strides,
            width: self.element_type.storage_bytes(),
        };
        // SAFETY: the caller promises that its elements can be read.
        let mut literal = unsafe {
            if strided.is_row_major() {
                Literal::from_bytes(&shape, slice(self.data, self.bytes))?
            } else {
                let mut literal = Literal::zeros(&shape)?;
                strided.gather(self.data, literal.bytes_mut());
                literal
            }
        };
        if self.element_type.bits() < 8 {
            element::extend(self.element_type, literal.bytes_mut());
        }
        Ok(literal)
    }

    /// Whether a literal can use these bytes without a copy.
    fn can_be_shared(&self) -> bool {
        let strided = Strided {
            dims: self.dims,
            strides: &self.strides,
            width: self.element_type.storage_bytes(),
        };
        self.bytes >= WORTH_SHARING
            && self.element_type.bits() >= 8
            && self.data.addr().is_multiple_of(ALIGNMENT)
            && strided.is_row_major()
    }
}

fn from_host(args: &mut PJRT_Client_BufferFromHostBuffer_Args) -> Result<(), Error> {
    // SAFETY: the API requires that all of these are valid.
    let (dims, given, memory) = unsafe {
        let dims = slice(args.dims, args.num_dims);
        let strides = slice(args.byte_strides, args.num_byte_strides);
        (dims, strides, destination(args.memory, args.device)?)
    };
    let element_type = element::from_c(args.r#type)?;
    let width = element_type.storage_bytes();
    // SAFETY: the API requires a valid layout or null.
    let layout = unsafe { Dense::read(args.device_layout, dims, width) }?;
    let strides = match args.byte_strides.is_null() {
        true => dense(dims, Dense::row_major(dims.len()).order(), width),
        false if given.len() == dims.len() => given.to_vec(),
        false => {
            let message = format!(
                "{} strides were given for an array of {} dimensions",
                given.len(),
                dims.len()
            );
            return Err(Error::invalid(message));
        }
    };
    let source = Source {
        data: args.data.cast(),
        element_type,
        dims,
        strides,
        bytes: elements(dims)?.saturating_mul(width),
    };
    if source.data.is_null() && source.bytes > 0 {
        return Err(Error::invalid("the host's array is null"));
    }
    let may_share = matches!(
        args.host_buffer_semantics,
        PJRT_HostBufferSemantics_kImmutableZeroCopy | PJRT_HostBufferSemantics_kMutableZeroCopy
    );
    let mut done = Event::ready();
    let literal = if may_share && source.can_be_shared() {
        done = Event::pending();
        let event = done.clone();
        let foreign = Foreign {
            data: source.data,
            len: source.bytes,
            done: move || event.set(&Ok(())),
        };
        Literal::from_shared(&ArrayShape::new(element_type, dims), foreign)?
    } else {
        // SAFETY: the API requires that the elements can be read.
        unsafe { source.copied() }?
    };
    let array = tegula::Tensor::from(literal).reordered(layout.order())?;
    args.done_with_host_buffer = done.handle();
    args.buffer = Buffer::new(array, memory).into_handle();
    Ok(())
}

/// The layout of an array in host memory.
enum HostLayout {
    /// Dense.
    Dense(Dense),
    /// The stride in bytes of each dimension.
    Strided(Vec<i64>),
}

impl HostLayout {
    /// The layout that a caller requests; by default, the buffer's own.
    ///
    /// # Safety
    /// The layout is valid, or null.
    unsafe fn read(asked: *const PJRT_Buffer_MemoryLayout, buffer: &Buffer) -> Result<Self, Error> {
        let width = buffer.element_type.storage_bytes();
        // SAFETY: the caller promises null, or a pointer to a valid layout.
        let Some(layout) = (unsafe { asked.as_ref() }) else {
            return Ok(Self::Dense(buffer.layout.clone()));
        };
        if layout.r#type != PJRT_Buffer_MemoryLayout_Type_Strides {
            // SAFETY: the caller promises a pointer to a valid layout.
            let dense = unsafe { Dense::read(asked, &buffer.dims, width) }?;
            return Ok(Self::Dense(dense));
        }
        // SAFETY: the type says which member of the union is valid.
        let strides = unsafe {
            let strided = &layout.value.strides;
            slice(strided.byte_strides, strided.num_byte_strides)
        };
        match Dense::from_strides(strides, &buffer.dims, width) {
            Ok(layout) => Ok(Self::Dense(layout)),
            Err(error) if strides.len() != buffer.dims.len() => Err(error),
            Err(_) => Ok(Self::Strided(strides.to_vec())),
        }
    }
}

/// Host memory that an array is copied to.
struct HostMemory {
    data: *mut u8,
    /// The size in bytes.
    size: usize,
}

// SAFETY: the caller keeps the memory, and does not access it, until the copy's event is set.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// Copies an array. With strides, the caller has determined where elements go, so the size is
    /// not checked.
    fn take(&self, array: &tegula::Tensor, layout: &HostLayout) -> Result<(), Error> {
        match layout {
            HostLayout::Dense(layout) => {
                let array = array.clone().reordered(layout.order())?;
                self.write(array.stored().bytes())?;
            }
            HostLayout::Strided(strides) => {
                let literal = array.literal();
                let dims = array.shape().static_dims();
                let strided = Strided {
                    dims: dims.as_deref().unwrap_or_default(),
                    strides,
                    width: array.shape().element_type.storage_bytes(),
                };
                // SAFETY: the API requires that the caller has memory for these strides.
                unsafe { strided.scatter(literal.bytes(), self.data) };
            }
        }
        Ok(())
    }

    /// Copies a range of the array's bytes, in their stored order.
    fn take_part(&self, array: &tegula::Tensor, part: Range<usize>) -> Result<(), Error> {
        let bytes = array.stored().bytes();
        let part = bytes.get(part);
        self.write(part.ok_or_else(|| too_small(bytes.len(), self.size))?)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > self.size {
            return Err(too_small(bytes.len(), self.size));
        }
        // SAFETY: the memory has room for the bytes, and is not ours.
        unsafe {
            let from = bytes.as_ptr();
            self.data.copy_from_nonoverlapping(from, bytes.len());
        }
        Ok(())
    }
}

fn too_small(bytes: usize, room: usize) -> Error {
    Error::invalid(format!(
        "the array has {bytes} bytes, but the destination has only {room}"
    ))
}

/// Calls `copy` with a buffer's array when it has arrived; returns an event for that.
fn with_array(
    buffer: &Buffer,
    copy: impl FnOnce(&tegula::Tensor) -> Result<(), Error> + Send + 'static,
) -> Result<*mut PJRT_Event, Error> {
    let value = buffer.value()?;
    if value.is_ready() {
        copy(&*value.wait()?)?;
        return Ok(Event::ready_handle());
    }
    let done = Event::pending();
    let handle = done.handle();
    value.ready().then(move |_| {
        let copied = value.wait().and_then(|array| copy(&array));
        done.set(&copied);
    });
    Ok(handle)
}

/// Copies an array to the host, in the requested layout.
fn to_host(args: &mut PJRT_Buffer_ToHostBuffer_Args) -> Result<(), Error> {
    // SAFETY: the API requires a valid buffer.
    let buffer = unsafe { Buffer::of(args.src) }?;
    let bytes = buffer.bytes()?;
    if args.dst.is_null() {
        args.dst_size = bytes;
        return Ok(());
    }
    // SAFETY: the API requires a valid layout or null.
    let layout = unsafe { HostLayout::read(args.host_layout, buffer) }?;
    let to = HostMemory {
        data: args.dst.cast(),
        size: args.dst_size,
    };
    if matches!(layout, HostLayout::Dense(_)) && to.size < bytes {
        return Err(too_small(bytes, to.size));
    }
    args.event = with_array(buffer, move |array| to.take(array, &layout))?;
    Ok(())
}

/// Copies a range of an array's bytes, in their stored order.
fn raw_part(args: &mut PJRT_Buffer_CopyRawToHost_Args) -> Result<(), Error> {
    // SAFETY: the API requires a valid buffer.
    let buffer = unsafe { Buffer::of(args.buffer) }?;
    let (offset, size, all) = (args.offset, args.transfer_size, buffer.bytes()?);
    let part = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    let part = part.and_then(|(from, size)| Some(from..from.checked_add(size)?));
    let part = part.filter(|part| part.end <= all);
    let part = part.ok_or_else(|| {
        Error::invalid(format!(
            "{size} bytes from offset {offset} exceed the array's {all} bytes"
        ))
    })?;
    let to = HostMemory {
        data: args.dst.cast(),
        size: part.len(),
    };
    args.event = with_array(buffer, move |array| to.take_part(array, part))?;
    Ok(())
}

fn view(args: &mut PJRT_Client_CreateViewOfDeviceBuffer_Args) -> Result<(), Error> {
    // SAFETY: the API requires that all of these are valid.
    let (dims, memory) = unsafe {
        (
            slice(args.dims, args.num_dims),
            destination(args.memory, args.device)?,
        )
    };
    let element_type = element::from_c(args.element_type)?;
    let width = element_type.storage_bytes();
    // SAFETY: the API requires a valid layout or null.
    let layout = unsafe { Dense::read(args.layout, dims, width) }?;
    let len = elements(dims)?.saturating_mul(width);
    let (pointer, callback) = (args.device_buffer_ptr.addr(), args.on_delete_callback);
    let argument = args.on_delete_callback_arg.expose_provenance();
    let data = args.device_buffer_ptr.cast::<u8>();
    let foreign = Foreign {
        data,
        len,
        done: move || {
            if let Some(callback) = callback {
                let pointer = std::ptr::with_exposed_provenance_mut::<c_void>(pointer);
                let argument = std::ptr::with_exposed_provenance_mut::<c_void>(argument);
                // SAFETY: the caller requested this call, once, on any thread.
                unsafe { callback(pointer, argument) };
            }
        },
    };
    args.device_buffer_ptr.expose_provenance();
    let stored = Literal::from_shared(&layout.stored_shape(element_type, dims), foreign)?;
    let array = tegula::Tensor::from_stored(stored, layout.order())?;
    args.buffer = Buffer::new(array, memory).into_handle();
    Ok(())
}

entries! {
    fn PJRT_Client_BufferFromHostBuffer(args: PJRT_Client_BufferFromHostBuffer_Args) {
        from_host(args)?;
    }
    fn PJRT_Buffer_ToHostBuffer(args: PJRT_Buffer_ToHostBuffer_Args) {
        to_host(args)?;
    }
    fn PJRT_Buffer_CopyRawToHost(args: PJRT_Buffer_CopyRawToHost_Args) {
        raw_part(args)?;
    }
    /// Any address is allowed: an unaligned array is copied when it is first read.
    fn PJRT_Client_CreateViewOfDeviceBuffer(
        args: PJRT_Client_CreateViewOfDeviceBuffer_Args up to buffer
    ) {
        view(args)?;
    }
    fn PJRT_Client_CreateUninitializedBuffer(args: PJRT_Client_CreateUninitializedBuffer_Args) {
        // SAFETY: the API requires that all of these are valid.
        let (dims, memory) = unsafe {
            let dims = slice(args.shape_dims, args.shape_num_dims);
            (dims, destination(args.memory, args.device)?)
        };
        let element_type = element::from_c(args.shape_element_type)?;
        // SAFETY: the API requires a valid layout or null.
        let layout = unsafe {
            Dense::read(args.shape_layout, dims, element_type.storage_bytes())
        }?;
        elements(dims)?;
        let stored = Literal::zeros(&layout.stored_shape(element_type, dims))?;
        let array = tegula::Tensor::from_stored(stored, layout.order())?;
        args.buffer = Buffer::new(array, memory).into_handle();
    }
    fn PJRT_Client_CreateErrorBuffer(args: PJRT_Client_CreateErrorBuffer_Args up to buffer) {
        // SAFETY: the API requires that all of these are valid.
        let (dims, memory, error) = unsafe {
            let error = Error::from_c(args.error_code, args.error_message, args.error_message_size);
            Client::of(args.client)?;
            (slice(args.shape_dims, args.shape_num_dims), Memory::of(args.memory)?, error)
        };
        let element_type = element::from_c(args.shape_element_type)?;
        // SAFETY: the API requires a valid layout or null.
        let layout = unsafe {
            Dense::read(args.shape_layout, dims, element_type.storage_bytes())
        }?;
        let array = Value::Promised(Promise::new(Event::done(&Err(error))));
        let buffer = Buffer::of_value(array, element_type, dims.to_vec(), layout, memory);
        args.buffer = buffer.into_handle();
    }
}
