//! Transfers from the host in parts: buffers are created first, and their bytes arrive later.

use crate::buffer::Buffer;
use crate::c_api::*;
use crate::client::Client;
use crate::device::Memory;
use crate::element;
use crate::entry::{Object, entries};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::layout::Dense;
use crate::pointers::slice;
use crate::promise::{Promise, Value};
use crate::strides::elements;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tegula_ir::Literal;

/// Buffers that are being filled.
pub(crate) struct Transfers {
    memory: *mut PJRT_Memory,
    places: Vec<Mutex<Place>>,
}

// SAFETY: its pointer is to a part of the client, which outlives it.
unsafe impl Send for Transfers {}
// SAFETY: its pointer is to a part of the client, which outlives it.
unsafe impl Sync for Transfers {}

impl Object for Transfers {
    type Handle = PJRT_AsyncHostToDeviceTransferManager;
    const NAME: &'static str = "transfer manager";
}

/// A buffer of a transfer manager, and the promise of its array.
struct Place {
    /// The buffer, until it is retrieved.
    buffer: Option<Buffer>,
    /// The promise of the buffer's array, until all of it has arrived.
    promise: Option<Arc<Promise>>,
    /// The bytes so far, in their stored order.
    stored: Option<Literal>,
    bytes: usize,
    layout: Dense,
}

impl Place {
    fn new(
        spec: &PJRT_ShapeSpec,
        layout: *const PJRT_Buffer_MemoryLayout,
        memory: &Memory,
    ) -> Result<Self, Error> {
        let element_type = element::from_c(spec.element_type)?;
        let width = element_type.storage_bytes();
        // SAFETY: the API requires the stated number of dimensions, and a layout or null.
        let (dims, layout) = unsafe {
            let dims = slice(spec.dims, spec.num_dims);
            (dims, Dense::read(layout, dims, width)?)
        };
        let bytes = elements(dims)?.saturating_mul(width);
        let stored = Literal::zeros(&layout.stored_shape(element_type, dims))?;
        let promise = Promise::new(Event::pending());
        let array = Value::Promised(Arc::clone(&promise));
        let buffer = Buffer::of_value(array, element_type, dims.to_vec(), layout.clone(), memory);
        Ok(Self {
            buffer: Some(buffer),
            promise: Some(promise),
            stored: Some(stored),
            bytes,
            layout,
        })
    }

    /// Writes a part; the last one completes the buffer.
    fn write(&mut self, part: &[u8], offset: i64, is_last: bool) -> Result<Arrival, Error> {
        let message = || Error::new(Code::FailedPrecondition, "the buffer is already complete");
        let stored = self.stored.as_mut().ok_or_else(message)?;
        let from = usize::try_from(offset).ok();
        let place = from.and_then(|from| Some(from..from.checked_add(part.len())?));
        let room = place.and_then(|place| stored.bytes_mut().get_mut(place));
        let room = room.ok_or_else(|| {
            let (len, all) = (part.len(), self.bytes);
            Error::invalid(format!(
                "{len} bytes at offset {offset} exceed the buffer's {all} bytes"
            ))
        })?;
        room.copy_from_slice(part);
        Ok(match self.stored.take_if(|_| is_last) {
            Some(stored) => self.complete(stored),
            None => Arrival(None),
        })
    }

    fn complete(&mut self, mut stored: Literal) -> Arrival {
        let element_type = stored.element_type();
        if element_type.bits() < 8 {
            element::extend(element_type, stored.bytes_mut());
        }
        let array = tegula::Tensor::from_stored(stored, self.layout.order());
        self.finish(array.map_err(Error::from))
    }

    fn finish(&mut self, array: Result<tegula::Tensor, Error>) -> Arrival {
        self.stored = None;
        Arrival(self.promise.take().map(|promise| (promise, array)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let message = "the transfer manager was destroyed before the buffer was complete";
        self.finish(Err(Error::new(Code::Cancelled, message)))
            .tell();
    }
}

/// An array that has arrived or cannot arrive, of which the waiting threads must still be notified.
#[must_use]
struct Arrival(Option<(Arc<Promise>, Result<tegula::Tensor, Error>)>);

impl Arrival {
    /// Notifies the waiting threads. This may call foreign code, so no lock must be held.
    fn tell(self) {
        if let Some((promise, array)) = self.0 {
            promise.fulfil(array);
        }
    }
}

impl Transfers {
    fn place(&self, index: i32) -> Result<MutexGuard<'_, Place>, Error> {
        let count = self.places.len();
        let place = usize::try_from(index).ok();
        let place = place.and_then(|index| self.places.get(index));
        let place = place.ok_or_else(|| {
            Error::invalid(format!(
                "buffer {index} does not exist: expected a number below {count}"
            ))
        })?;
        Ok(place.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// # Safety
/// As [`Object::of`].
unsafe fn transfers<'a>(
    handle: *const PJRT_AsyncHostToDeviceTransferManager,
) -> Result<&'a Transfers, Error> {
    // SAFETY: the caller promises that the handle is null, or points to an object of this type that
    // lives for `'a`.
    unsafe { Transfers::of(handle) }
}

// The API requires that objects are valid.
entries! {
    fn PJRT_Client_CreateBuffersForAsyncHostToDevice(
        args: PJRT_Client_CreateBuffersForAsyncHostToDevice_Args
    ) {
        // SAFETY: the API requires valid handles of our objects, and the stated number of shapes
        // and layouts.
        let (specs, layouts, memory) = unsafe {
            let client = Client::of(args.client)?;
            let memory = match args.memory.is_null() {
                true => client.first_device()?.default_memory()?,
                false => Memory::own(args.memory)?,
            };
            let specs = slice(args.shape_specs, args.num_shape_specs);
            (specs, slice(args.device_layouts, args.num_device_layouts), memory)
        };
        let places = specs.iter().enumerate().map(|(number, spec)| {
            let layout = layouts.get(number).copied().unwrap_or(std::ptr::null_mut());
            Ok(Mutex::new(Place::new(spec, layout, memory)?))
        });
        let places: Result<Vec<_>, Error> = places.collect();
        let transfers = Transfers { memory: memory.handle(), places: places? };
        args.transfer_manager = transfers.into_handle();
    }
    fn PJRT_AsyncHostToDeviceTransferManager_Destroy(
        args: PJRT_AsyncHostToDeviceTransferManager_Destroy_Args
    ) {
        // SAFETY: the API requires that the caller owns it and does not use it again.
        unsafe { Transfers::destroy(args.transfer_manager) };
    }
    fn PJRT_AsyncHostToDeviceTransferManager_TransferData(
        args: PJRT_AsyncHostToDeviceTransferManager_TransferData_Args
    ) {
        // SAFETY: the API requires valid handles of our objects, and the stated number of bytes.
        let (transfers, part) = unsafe {
            let size = usize::try_from(args.transfer_size)
                .map_err(|_| Error::invalid("expected a non-negative number of bytes to transfer"))?;
            (transfers(args.transfer_manager)?, slice(args.data.cast::<u8>(), size))
        };
        let mut place = transfers.place(args.buffer_index)?;
        let arrival = place.write(part, args.offset, args.is_last_transfer)?;
        drop(place);
        arrival.tell();
        args.done_with_h2d_transfer = Event::ready_handle();
    }
    fn PJRT_AsyncHostToDeviceTransferManager_TransferLiteral(
        args: PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args
    ) {
        let element_type = element::from_c(args.shape_element_type)?;
        let width = element_type.storage_bytes();
        // SAFETY: the API requires valid handles of our objects, and an array of that shape.
        let (transfers, array) = unsafe {
            let dims = slice(args.shape_dims, args.shape_num_dims);
            let layout = Dense::read(args.shape_layout, dims, width)?;
            let bytes = slice(args.data.cast::<u8>(), elements(dims)?.saturating_mul(width));
            let stored = Literal::from_bytes(&layout.stored_shape(element_type, dims), bytes)?;
            let array = tegula::Tensor::from_stored(stored, layout.order())?;
            (transfers(args.transfer_manager)?, array)
        };
        let mut place = transfers.place(args.buffer_index)?;
        let array = array.reordered(place.layout.order())?;
        let arrival = place.write(array.stored().bytes(), 0, true)?;
        drop(place);
        arrival.tell();
        args.done_with_h2d_transfer = Event::ready_handle();
    }
    fn PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(
        args: PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let transfers = unsafe { transfers(args.transfer_manager) }?;
        let buffer = transfers.place(args.buffer_index)?.buffer.take();
        let buffer = buffer.ok_or_else(|| {
            Error::new(Code::FailedPrecondition, "the buffer has already been retrieved")
        })?;
        args.buffer_out = buffer.into_handle();
    }
    fn PJRT_AsyncHostToDeviceTransferManager_Device(
        args: PJRT_AsyncHostToDeviceTransferManager_Device_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let memory = unsafe { Memory::of(transfers(args.transfer_manager)?.memory) }?;
        args.device_out = memory.device();
    }
    fn PJRT_AsyncHostToDeviceTransferManager_BufferCount(
        args: PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        args.buffer_count = unsafe { transfers(args.transfer_manager) }?.places.len();
    }
    fn PJRT_AsyncHostToDeviceTransferManager_BufferSize(
        args: PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let transfers = unsafe { transfers(args.transfer_manager) }?;
        args.buffer_size = transfers.place(args.buffer_index)?.bytes;
    }
    fn PJRT_AsyncHostToDeviceTransferManager_SetBufferError(
        args: PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args
    ) {
        // SAFETY: the API requires valid handles of our objects, and a message of that size.
        let (transfers, error) = unsafe {
            let error = Error::from_c(args.error_code, args.error_message, args.error_message_size);
            (transfers(args.transfer_manager)?, error)
        };
        let arrival = transfers.place(args.buffer_index)?.finish(Err(error));
        arrival.tell();
    }
    /// The metadata is ignored.
    fn PJRT_AsyncHostToDeviceTransferManager_AddMetadata(
        args: PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args
    ) {
        let _ = args;
    }
}
