//! Buffers: arrays that a front end holds.
//!
//! A buffer's shape is known from the beginning. Its array may arrive later (from an asynchronous
//! run, or a transfer in several parts), or be taken away (donated, deleted). While anyone accesses
//! its bytes from outside, the array is shared and never written.

use crate::c_api::*;
use crate::device::Memory;
use crate::element;
use crate::entry::{Object, entries};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::layout::Dense;
use crate::promise::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tegula_ir::{ArrayShape, ElementType, Literal};

/// A buffer: an array that a front end holds.
pub(crate) struct Buffer {
    is_token: bool,
    pub(crate) element_type: ElementType,
    pub(crate) dims: Vec<i64>,
    /// The order of the dimensions in memory.
    pub(crate) layout: Dense,
    memory: *mut PJRT_Memory,
    device: *mut PJRT_Device,
    state: Mutex<State>,
}

// SAFETY: its pointers are to parts of its client, which outlives it and may be used by any thread.
unsafe impl Send for Buffer {}
// SAFETY: its pointers are to parts of its client, which outlives it and may be used by any thread.
unsafe impl Sync for Buffer {}

struct State {
    /// [`None`] after the array was donated or deleted.
    array: Option<Value>,
    /// The array, kept for those who access its bytes from outside even if it is donated or
    /// deleted.
    seen: Option<Arc<tegula::Tensor>>,
    /// The number of those who access its bytes.
    viewers: usize,
}

impl Object for Buffer {
    type Handle = PJRT_Buffer;
    const NAME: &'static str = "buffer";
}

impl Buffer {
    /// A buffer whose array exists.
    pub(crate) fn new(array: tegula::Tensor, memory: &Memory) -> Self {
        let dims = array.shape().static_dims();
        let dims = dims.map(|dims| dims.to_vec()).unwrap_or_default();
        let layout = Dense::new(array.order().to_vec());
        let element_type = array.shape().element_type;
        let array = Value::Here(Arc::new(array));
        Self::of_value(array, element_type, dims, layout, memory)
    }

    /// A buffer for an array that may arrive later.
    pub(crate) fn of_value(
        array: Value,
        element_type: ElementType,
        dims: Vec<i64>,
        layout: Dense,
        memory: &Memory,
    ) -> Self {
        Self {
            is_token: false,
            element_type,
            dims,
            layout,
            memory: memory.handle(),
            device: memory.device(),
            state: Mutex::new(State {
                array: Some(array),
                seen: None,
                viewers: 0,
            }),
        }
    }

    /// The buffer for a result that is a token.
    pub(crate) fn token(memory: &Memory) -> Result<Self, Error> {
        let array = Literal::zeros(&ArrayShape::new(ElementType::Pred, &[]))?;
        Ok(Self {
            is_token: true,
            ..Self::new(array.into(), memory)
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The array, which may arrive later.
    pub(crate) fn value(&self) -> Result<Value, Error> {
        self.state().array.clone().ok_or_else(gone)
    }

    /// Waits for the array and returns it. Its bytes are shared with the buffer.
    pub(crate) fn array(&self) -> Result<Arc<tegula::Tensor>, Error> {
        self.value()?.wait()
    }

    /// Takes the array away, which deletes the buffer. Bytes that are accessed from outside stay
    /// unchanged, because a program copies the array before it writes to it.
    pub(crate) fn donate(&self) -> Result<Value, Error> {
        self.state().array.take().ok_or_else(gone)
    }

    pub(crate) fn delete(&self) {
        let taken = self.state().array.take();
        // Foreign code may free the memory, so the lock must not be held.
        drop(taken);
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state().array.is_none()
    }

    /// The memory that the buffer is in.
    pub(crate) fn memory(&self) -> Result<&Memory, Error> {
        // SAFETY: a buffer's client, which owns its memory object, outlives it.
        unsafe { Memory::of(self.memory) }
    }

    /// The number of bytes of the elements.
    pub(crate) fn bytes(&self) -> Result<usize, Error> {
        let width = self.element_type.storage_bytes();
        Ok(crate::strides::elements(&self.dims)?.saturating_mul(width))
    }

    fn view(&self) -> Result<(), Error> {
        let array = self.array()?;
        let mut state = self.state();
        state.viewers += 1;
        state.seen.get_or_insert(array);
        Ok(())
    }

    fn unview(&self) -> Result<(), Error> {
        let mut state = self.state();
        let Some(viewers) = state.viewers.checked_sub(1) else {
            return Err(Error::new(
                Code::FailedPrecondition,
                "the buffer has no external reference to release",
            ));
        };
        state.viewers = viewers;
        let last = if viewers == 0 {
            state.seen.take()
        } else {
            None
        };
        drop(state);
        drop(last);
        Ok(())
    }

    /// The address of the elements.
    fn address(&self) -> Result<*const u8, Error> {
        Ok(self.array()?.stored().bytes().as_ptr())
    }

    /// A copy of the array in another memory.
    fn copied_to(&self, memory: &Memory) -> Result<Self, Error> {
        let array = match self.value()? {
            promised @ Value::Promised(_) if !promised.is_ready() => promised,
            value => Value::Here(Arc::new(tegula::Tensor::clone(&*value.wait()?))),
        };
        let (dims, layout) = (self.dims.clone(), self.layout.clone());
        Ok(Self::of_value(
            array,
            self.element_type,
            dims,
            layout,
            memory,
        ))
    }
}

fn gone() -> Error {
    Error::invalid("the buffer has been deleted or donated")
}

/// The buffer for a handle.
///
/// # Safety
/// As [`Object::of`].
unsafe fn buffer<'a>(handle: *const PJRT_Buffer) -> Result<&'a Buffer, Error> {
    // SAFETY: the caller promises that the handle is null, or points to an object of this type that
    // lives for `'a`.
    unsafe { Buffer::of(handle) }
}

// SAFETY, for all of them: the API requires valid buffers.
entries! {
    fn PJRT_Buffer_Destroy(args: PJRT_Buffer_Destroy_Args) {
        // SAFETY: the API requires that the caller owns the buffer and does not use it again.
        unsafe { Buffer::destroy(args.buffer) };
    }
    fn PJRT_Buffer_ElementType(args: PJRT_Buffer_ElementType_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let buffer = unsafe { buffer(args.buffer) }?;
        args.r#type = match buffer.is_token {
            true => PJRT_Buffer_Type_TOKEN,
            false => element::to_c(buffer.element_type),
        };
    }
    fn PJRT_Buffer_Dimensions(args: PJRT_Buffer_Dimensions_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let dims = unsafe { &buffer(args.buffer)?.dims };
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
    }
    fn PJRT_Buffer_UnpaddedDimensions(args: PJRT_Buffer_UnpaddedDimensions_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let dims = unsafe { &buffer(args.buffer)?.dims };
        args.unpadded_dims = dims.as_ptr();
        args.num_dims = dims.len();
    }
    fn PJRT_Buffer_DynamicDimensionIndices(args: PJRT_Buffer_DynamicDimensionIndices_Args) {
        args.dynamic_dim_indices = std::ptr::null();
        args.num_dynamic_dims = 0;
    }
    fn PJRT_Buffer_GetMemoryLayout(args: PJRT_Buffer_GetMemoryLayout_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.layout = unsafe { buffer(args.buffer) }?.layout.to_c();
    }
    fn PJRT_Buffer_OnDeviceSizeInBytes(args: PJRT_Buffer_OnDeviceSizeInBytes_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.on_device_size_in_bytes = unsafe { buffer(args.buffer) }?.bytes()?;
    }
    fn PJRT_Buffer_Device(args: PJRT_Buffer_Device_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.device = unsafe { buffer(args.buffer) }?.device;
    }
    fn PJRT_Buffer_Memory(args: PJRT_Buffer_Memory_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.memory = unsafe { buffer(args.buffer) }?.memory;
    }
    fn PJRT_Buffer_Delete(args: PJRT_Buffer_Delete_Args) {
        // SAFETY: the API requires valid handles of our objects.
        unsafe { buffer(args.buffer) }?.delete();
    }
    fn PJRT_Buffer_IsDeleted(args: PJRT_Buffer_IsDeleted_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.is_deleted = unsafe { buffer(args.buffer) }?.is_deleted();
    }
    fn PJRT_Buffer_IsOnCpu(args: PJRT_Buffer_IsOnCpu_Args) {
        args.is_on_cpu = true;
    }
    fn PJRT_Buffer_ReadyEvent(args: PJRT_Buffer_ReadyEvent_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let buffer = unsafe { buffer(args.buffer) }?;
        let ready = buffer.value().map(|array| array.ready());
        args.event = ready.unwrap_or_else(|error| Event::done(&Err(error))).handle();
    }
    fn PJRT_Buffer_UnsafePointer(args: PJRT_Buffer_UnsafePointer_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.buffer_pointer = unsafe { buffer(args.buffer) }?.address()?.expose_provenance();
    }
    fn PJRT_Buffer_OpaqueDeviceMemoryDataPointer(
        args: PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let address = unsafe { buffer(args.buffer) }?.address()?;
        args.device_memory_ptr = address.cast_mut().cast();
    }
    fn PJRT_Buffer_IncreaseExternalReferenceCount(
        args: PJRT_Buffer_IncreaseExternalReferenceCount_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        unsafe { buffer(args.buffer) }?.view()?;
    }
    fn PJRT_Buffer_DecreaseExternalReferenceCount(
        args: PJRT_Buffer_DecreaseExternalReferenceCount_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        unsafe { buffer(args.buffer) }?.unview()?;
    }
    fn PJRT_Buffer_CopyToDevice(args: PJRT_Buffer_CopyToDevice_Args) {
        // SAFETY: the API requires a valid buffer and a device.
        let (buffer, device) = unsafe {
            (buffer(args.buffer)?, crate::device::Device::of(args.dst_device)?)
        };
        args.dst_buffer = buffer.copied_to(device.default_memory()?)?.into_handle();
    }
    fn PJRT_Buffer_CopyToMemory(args: PJRT_Buffer_CopyToMemory_Args) {
        // SAFETY: the API requires a valid buffer and a memory.
        let (buffer, memory) = unsafe { (buffer(args.buffer)?, Memory::own(args.dst_memory)?) };
        args.dst_buffer = buffer.copied_to(memory)?.into_handle();
    }
    fn PJRT_Buffer_Bitcast(args: PJRT_Buffer_Bitcast_Args) {
        // SAFETY: the API requires a valid buffer, the stated number of dimensions, and a layout or
        // null.
        let (buffer, dims, layout) = unsafe {
            let dims = crate::pointers::slice(args.dims, args.num_dims);
            let element_type = element::from_c(args.element_type)?;
            let layout = Dense::read(args.device_layout, dims, element_type.storage_bytes())?;
            (buffer(args.buffer)?, dims, layout)
        };
        let shape = layout.stored_shape(element::from_c(args.element_type)?, dims);
        let stored = buffer.array()?.stored().clone().reinterpret(&shape)?;
        let array = tegula::Tensor::from_stored(stored, layout.order())?;
        args.out_buffer = Buffer::new(array, buffer.memory()?).into_handle();
    }
}
