//! Transfers of arrays to and from buffers.

use crate::api::{Buffer, Client, api, arguments, call, wait};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use tegula_pjrt::c_api::*;

#[test]
fn strides_are_followed_and_layouts_obeyed() {
    let client = Client::new();
    // A 3x2 array, passed as the transpose of a 2x3 array.
    let values = [0_i32, 1, 2, 3, 4, 5];
    let array = client.upload_strided(PJRT_Buffer_Type_S32, &[3, 2], Some(&[4, 12]), &values);
    assert_eq!(array.read::<i32>(None), [0, 3, 1, 4, 2, 5]);
    assert_eq!(array.read::<i32>(Some(&[0, 1])), values);
}

#[test]
fn every_element_type_goes_there_and_back() {
    let client = Client::new();
    for kind in PJRT_Buffer_Type_PRED..=PJRT_Buffer_Type_F6E3M2FN {
        if kind == PJRT_Buffer_Type_TOKEN {
            continue;
        }
        let zeros = [0_u8; 16 * 3];
        let array = client.upload(kind, &[3], &zeros);
        let mut args: PJRT_Buffer_ElementType_Args = arguments();
        args.buffer = array.0;
        call(api().PJRT_Buffer_ElementType, &mut args).expect("a type");
        assert_eq!(args.r#type, kind);
        assert!(array.read::<u8>(None).iter().all(|&byte| byte == 0));
    }
    // The unused bits of a narrow element may have any values.
    let narrow = client.upload(PJRT_Buffer_Type_S4, &[3], &[0x8f_u8, 0x07, 0x18]);
    assert_eq!(narrow.read::<i8>(None), [-1, 7, -8]);
}

fn address(buffer: &Buffer) -> usize {
    let mut args: PJRT_Buffer_UnsafePointer_Args = arguments();
    args.buffer = buffer.0;
    call(api().PJRT_Buffer_UnsafePointer, &mut args).expect("an address");
    args.buffer_pointer
}

#[repr(align(64))]
struct Aligned([f32; 4096]);

#[test]
fn large_arrays_of_the_host_are_not_copied() {
    let client = Client::new();
    let values = Box::new(Aligned([1.5; 4096]));
    let mut args: PJRT_Client_BufferFromHostBuffer_Args = arguments();
    args.client = client.0;
    args.data = values.0.as_ptr().cast();
    args.r#type = PJRT_Buffer_Type_F32;
    args.dims = [4096].as_ptr();
    args.num_dims = 1;
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    args.device = client.device();
    let dims = [4096_i64];
    args.dims = dims.as_ptr();
    call(api().PJRT_Client_BufferFromHostBuffer, &mut args).expect("an array");
    let array = Buffer(args.buffer);
    assert_eq!(address(&array), values.0.as_ptr().addr());
    let mut ready: PJRT_Event_IsReady_Args = arguments();
    ready.event = args.done_with_host_buffer;
    call(api().PJRT_Event_IsReady, &mut ready).expect("an answer");
    assert!(!ready.is_ready, "the array is in use");
    drop(array);
    wait(args.done_with_host_buffer).expect("free again");
}

static DELETED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn deleted(_: *mut c_void, by: *mut c_void) {
    DELETED.fetch_add(by.addr(), Ordering::SeqCst);
}

#[test]
fn views_are_given_back_once() {
    let client = Client::new();
    let mut values = [2.5_f32; 9];
    let mut args: PJRT_Client_CreateViewOfDeviceBuffer_Args = arguments();
    args.client = client.0;
    // The address is only aligned for a float.
    args.device_buffer_ptr = values[1..].as_mut_ptr().cast();
    let dims = [2_i64, 4];
    args.dims = dims.as_ptr();
    args.num_dims = 2;
    args.element_type = PJRT_Buffer_Type_F32;
    args.device = client.device();
    args.on_delete_callback = Some(deleted);
    args.on_delete_callback_arg = std::ptr::without_provenance_mut(1);
    call(api().PJRT_Client_CreateViewOfDeviceBuffer, &mut args).expect("a view");
    let view = Buffer(args.buffer);
    assert_eq!(view.read::<f32>(None), [2.5; 8]);
    assert_eq!(DELETED.load(Ordering::SeqCst), 0);
    drop(view);
    assert_eq!(DELETED.load(Ordering::SeqCst), 1);
}

#[test]
fn whoever_looks_at_bytes_keeps_them() {
    let client = Client::new();
    let program = "func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) \
                   -> tensor<4xf32> {
        %z = stablehlo.add %x, %x : tensor<4xf32>
        return %z : tensor<4xf32>
    }";
    let executable = client.compile(program).expect("compiles");
    let x = client.f32s(&[4], &[1.0; 4]);
    let mut look: PJRT_Buffer_IncreaseExternalReferenceCount_Args = arguments();
    look.buffer = x.0;
    call(api().PJRT_Buffer_IncreaseExternalReferenceCount, &mut look).expect("counted");
    let seen = std::ptr::with_exposed_provenance::<f32>(address(&x));
    let results = executable.run(&[&x]).expect("runs");
    assert_eq!(results[0].read::<f32>(None), [2.0; 4]);
    assert!(x.is_deleted());
    // SAFETY: the reference keeps the four floats alive.
    assert_eq!(unsafe { std::slice::from_raw_parts(seen, 4) }, [1.0; 4]);
    let mut unlook: PJRT_Buffer_DecreaseExternalReferenceCount_Args = arguments();
    unlook.buffer = x.0;
    call(
        api().PJRT_Buffer_DecreaseExternalReferenceCount,
        &mut unlook,
    )
    .expect("counted");
}

/// A transfer manager with a buffer of 2 by 2 numbers, and that buffer.
fn transfer_manager(client: &Client) -> (*mut PJRT_AsyncHostToDeviceTransferManager, Buffer) {
    let dims = [2_i64, 2];
    let mut spec: PJRT_ShapeSpec = arguments();
    spec.dims = dims.as_ptr();
    spec.num_dims = 2;
    spec.element_type = PJRT_Buffer_Type_F32;
    let mut create: PJRT_Client_CreateBuffersForAsyncHostToDevice_Args = arguments();
    create.client = client.0;
    create.shape_specs = &raw mut spec;
    create.num_shape_specs = 1;
    call(
        api().PJRT_Client_CreateBuffersForAsyncHostToDevice,
        &mut create,
    )
    .expect("a manager");
    let mut retrieve: PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args = arguments();
    retrieve.transfer_manager = create.transfer_manager;
    call(
        api().PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
        &mut retrieve,
    )
    .expect("it");
    (create.transfer_manager, Buffer(retrieve.buffer_out))
}

fn destroy_transfer_manager(manager: *mut PJRT_AsyncHostToDeviceTransferManager) {
    let mut destroy: PJRT_AsyncHostToDeviceTransferManager_Destroy_Args = arguments();
    destroy.transfer_manager = manager;
    call(
        api().PJRT_AsyncHostToDeviceTransferManager_Destroy,
        &mut destroy,
    )
    .expect("destroyed");
}

#[test]
fn transfers_that_are_given_up_are_errors() {
    let client = Client::new();
    let (manager, array) = transfer_manager(&client);
    destroy_transfer_manager(manager);
    let failure = array.wait().expect_err("it never comes");
    assert_eq!(failure.code, PJRT_Error_Code_CANCELLED);
    assert!(failure.message.contains("transfer manager"), "{failure:?}");
}

#[test]
fn transfers_in_parts() {
    let client = Client::new();
    let (manager, array) = transfer_manager(&client);
    let values = [1.0_f32, 2.0, 3.0, 4.0];
    for (part, is_last) in [(0_usize, false), (2, true)] {
        let mut transfer: PJRT_AsyncHostToDeviceTransferManager_TransferData_Args = arguments();
        transfer.transfer_manager = manager;
        transfer.data = values[part..].as_ptr().cast();
        transfer.offset = 4 * part as i64;
        transfer.transfer_size = 8;
        transfer.is_last_transfer = is_last;
        call(
            api().PJRT_AsyncHostToDeviceTransferManager_TransferData,
            &mut transfer,
        )
        .expect("sent");
        wait(transfer.done_with_h2d_transfer).expect("done");
    }
    assert_eq!(array.read::<f32>(None), values);
    destroy_transfer_manager(manager);
}
