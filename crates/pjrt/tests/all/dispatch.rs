//! Asynchronous runs.

use crate::api::{Buffer, Client, Executable, api, arguments, call, forget, is_ready, wait};
use std::time::{Duration, Instant};
use tegula_pjrt::c_api::*;

/// Executes many steps of a random number generator.
const STEPS: &str = "
func.func @main(%seed: tensor<ui32> {tf.aliasing_output = 0 : i32}, %steps: tensor<i32>) -> tensor<ui32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %factor = stablehlo.constant dense<1664525> : tensor<ui32>
  %offset = stablehlo.constant dense<1013904223> : tensor<ui32>
  %end:2 = stablehlo.while(%i = %zero, %x = %seed) : tensor<i32>, tensor<ui32>
  cond {
    %more = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %product = stablehlo.multiply %x, %factor : tensor<ui32>
    %sum = stablehlo.add %product, %offset : tensor<ui32>
    stablehlo.return %next, %sum : tensor<i32>, tensor<ui32>
  }
  return %end#1 : tensor<ui32>
}";

/// More steps than can be executed between two calls.
const MANY: i32 = 30_000_000;

fn steps(mut seed: u32, count: i32) -> u32 {
    for _ in 0..count {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    seed
}

fn seed(client: &Client, seed: u32) -> Buffer {
    client.upload(PJRT_Buffer_Type_U32, &[], &[seed])
}

fn count(client: &Client, count: i32) -> Buffer {
    client.upload(PJRT_Buffer_Type_S32, &[], &[count])
}

/// Starts a run; returns its result and the event of its end.
fn start(executable: &Executable, inputs: &[&Buffer]) -> (Buffer, *mut PJRT_Event) {
    let (mut results, events) = executable.start(&[inputs]).expect("starts");
    (results.remove(0).remove(0), events[0])
}

#[test]
fn callers_go_on_while_runs_follow_each_other() {
    let client = Client::new();
    let executable = client.compile(STEPS).expect("compiles");
    let (first, many) = (seed(&client, 7), count(&client, MANY));
    let (second, first_end) = start(&executable, &[&first, &many]);
    // The second run takes over an array that the first has not computed yet, and the third
    // continues.
    let (third, second_end) = start(&executable, &[&second, &many]);
    let few = count(&client, 3);
    let (last, last_end) = start(&executable, &[&third, &few]);
    assert!(!is_ready(first_end), "the caller waited for the run");
    assert!(first.is_deleted() && second.is_deleted() && third.is_deleted());
    assert_eq!(last.read::<u32>(None), [steps(7, 2 * MANY + 3)]);
    for event in [first_end, second_end, last_end] {
        assert!(is_ready(event));
        wait(event).expect("done");
    }
}

#[test]
fn arrays_are_copied_once_they_are_there() {
    let client = Client::new();
    let executable = client.compile(STEPS).expect("compiles");
    let (first, many) = (seed(&client, 1), count(&client, MANY));
    let (result, end) = start(&executable, &[&first, &many]);
    let mut elsewhere: PJRT_Buffer_CopyToDevice_Args = arguments();
    elsewhere.buffer = result.0;
    elsewhere.dst_device = client.device();
    call(api().PJRT_Buffer_CopyToDevice, &mut elsewhere).expect("a copy");
    let copy = Buffer(elsewhere.dst_buffer);
    let mut value = 0_u32;
    let mut raw: PJRT_Buffer_CopyRawToHost_Args = arguments();
    raw.buffer = result.0;
    raw.dst = (&raw mut value).cast();
    raw.transfer_size = 4;
    call(api().PJRT_Buffer_CopyRawToHost, &mut raw).expect("a copy");
    assert!(!is_ready(raw.event), "the caller waited for the array");
    wait(raw.event).expect("copied");
    let expected = steps(1, MANY);
    assert_eq!(value, expected);
    assert_eq!(result.read::<u32>(None), [expected]);
    assert_eq!(copy.read::<u32>(None), [expected]);
    wait(end).expect("done");
}

#[test]
fn errors_go_on_to_the_runs_that_follow() {
    let client = Client::new();
    let executable = client.compile(STEPS).expect("compiles");
    let mut memory: PJRT_Device_DefaultMemory_Args = arguments();
    memory.device = client.device();
    call(api().PJRT_Device_DefaultMemory, &mut memory).expect("a memory");
    let mut lost: PJRT_Client_CreateErrorBuffer_Args = arguments();
    lost.client = client.0;
    lost.error_code = PJRT_Error_Code_UNAVAILABLE;
    lost.error_message = c"lost on the way".as_ptr();
    lost.error_message_size = 15;
    lost.shape_element_type = PJRT_Buffer_Type_U32;
    lost.memory = memory.memory;
    call(api().PJRT_Client_CreateErrorBuffer, &mut lost).expect("a buffer");
    let (lost, few) = (Buffer(lost.buffer), count(&client, 3));
    let (first, first_end) = start(&executable, &[&lost, &few]);
    let (second, second_end) = start(&executable, &[&first, &few]);
    for result in [wait(first_end), wait(second_end), second.wait()] {
        let failure = result.expect_err("the argument is lost");
        assert_eq!(failure.code, PJRT_Error_Code_UNAVAILABLE);
        assert_eq!(failure.message, "lost on the way");
    }
    // Arguments that do not match are an error of the call.
    let wrong = executable
        .start(&[&[&few, &few]])
        .err()
        .expect("two counts");
    assert_eq!(wrong.code, PJRT_Error_Code_INVALID_ARGUMENT);
}

#[test]
fn several_threads_may_ask_for_more_than_waits() {
    let client = Client::new();
    let executable = client.compile(STEPS).expect("compiles");
    // Handles of the C API may be used from any thread.
    struct Shared<'a>(&'a Client, &'a Executable);
    // SAFETY: as above.
    unsafe impl Sync for Shared<'_> {}
    let shared = &Shared(&client, &executable);
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            scope.spawn(move || {
                let Shared(client, executable) = *shared;
                let step = count(client, 100_000);
                let mut value = seed(client, thread);
                // More runs than may wait in a queue.
                for _ in 0..50 {
                    let (next, end) = start(executable, &[&value, &step]);
                    forget(end);
                    value = next;
                }
                assert_eq!(value.read::<u32>(None), [steps(thread, 5_000_000)]);
            });
        }
    });
}

#[test]
fn a_client_that_goes_ends_its_runs() {
    let client = Client::new();
    let executable = client.compile(STEPS).expect("compiles");
    let (first, endless) = (seed(&client, 1), count(&client, i32::MAX));
    let (second, first_end) = start(&executable, &[&first, &endless]);
    let (third, second_end) = start(&executable, &[&second, &endless]);
    drop((executable, first, second, third, endless));
    let begin = Instant::now();
    drop(client);
    assert!(
        begin.elapsed() < Duration::from_secs(1),
        "it waited for the runs"
    );
    for result in [wait(first_end), wait(second_end)] {
        assert_eq!(result.expect_err("stopped").code, PJRT_Error_Code_CANCELLED);
    }
}

#[test]
fn clients_may_be_asked_to_wait() {
    let client = Client::synchronous();
    let executable = client.compile(STEPS).expect("compiles");
    let (first, many) = (seed(&client, 5), count(&client, MANY));
    let (result, end) = start(&executable, &[&first, &many]);
    assert!(is_ready(end));
    wait(end).expect("done");
    assert_eq!(result.read::<u32>(None), [steps(5, MANY)]);
}
