//! Programs that are compiled and run through the C API.

use crate::api::{Client, api, arguments, call, text};
use std::ptr;
use tegula_pjrt::c_api::*;

/// The gradient of the mean square of `tanh(x w)` by `w`, as JAX writes it.
const GRADIENT: &str = r#"
module @jit_gradient {
  func.func public @main(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>)
      -> (tensor<f32>, tensor<3x2xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<2x2xf32>
    %two = stablehlo.constant dense<2.0> : tensor<2x2xf32>
    %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %t = stablehlo.tanh %p : tensor<2x2xf32>
    %s = stablehlo.multiply %t, %t : tensor<2x2xf32>
    %sum = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<2x2xf32>, tensor<f32>) -> tensor<f32>
    %d = stablehlo.multiply %two, %t : tensor<2x2xf32>
    %slope = stablehlo.subtract %one, %s : tensor<2x2xf32>
    %g = stablehlo.multiply %d, %slope : tensor<2x2xf32>
    %dw = stablehlo.dot_general %x, %g, contracting_dims = [0] x [0]
      : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
    return %sum, %dw : tensor<f32>, tensor<3x2xf32>
  }
}
"#;

fn close(given: &[f32], expected: &[f32]) {
    assert_eq!(given.len(), expected.len());
    for (given, expected) in given.iter().zip(expected) {
        assert!((given - expected).abs() < 1e-5, "{given} is not {expected}");
    }
}

#[test]
fn elementwise_operations_products_and_gradients() {
    let client = Client::new();
    let executable = client.compile(GRADIENT).expect("compiles");
    let x = [0.1, -0.2, 0.3, 0.4, 0.5, -0.6];
    let w = [0.7, 0.1, -0.3, 0.2, 0.5, -0.4];
    let inputs = [client.f32s(&[2, 3], &x), client.f32s(&[3, 2], &w)];
    let results = executable.run(&[&inputs[0], &inputs[1]]).expect("runs");
    let product = |i: usize, j: usize| (0..3).map(|k| x[3 * i + k] * w[2 * k + j]).sum::<f32>();
    let t: Vec<f32> = (0..4)
        .map(|place| product(place / 2, place % 2).tanh())
        .collect();
    let sum: f32 = t.iter().map(|t| t * t).sum();
    close(&results[0].read(None), &[sum]);
    let slope = |i: usize, j: usize| 2.0 * t[2 * i + j] * (1.0 - t[2 * i + j].powi(2));
    let by_w = |place: usize| -> f32 {
        (0..2)
            .map(|i| x[3 * i + place / 2] * slope(i, place % 2))
            .sum()
    };
    let expected: Vec<f32> = (0..6).map(by_w).collect();
    close(&results[1].read(None), &expected);
    assert_eq!(results[1].dims(), [3, 2]);
}

#[test]
fn sizes_that_are_open_run_from_one_compile() {
    let client = Client::new();
    let program = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        %y = stablehlo.add %x, %x : tensor<?xf32>
        return %y : tensor<?xf32>
    }";
    let executable = client.compile(program).expect("compiles");
    for count in [0_u16, 1, 7, 1000] {
        let values: Vec<f32> = (0..count).map(f32::from).collect();
        let input = client.f32s(&[i64::from(count)], &values);
        let results = executable.run(&[&input]).expect("runs");
        let doubled: Vec<f32> = values.iter().map(|v| 2.0 * v).collect();
        assert_eq!(results[0].read::<f32>(None), doubled);
    }
}

#[test]
fn donated_arrays_are_taken() {
    let client = Client::new();
    let program = "func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, \
                   %y: tensor<4xf32>) -> tensor<4xf32> {
        %z = stablehlo.add %x, %y : tensor<4xf32>
        return %z : tensor<4xf32>
    }";
    let executable = client.compile(program).expect("compiles");
    let (x, y) = (client.f32s(&[4], &[1.0; 4]), client.f32s(&[4], &[2.0; 4]));
    let twice = executable.run(&[&x, &x]).err().expect("the same twice");
    assert_eq!(twice.code, PJRT_Error_Code_INVALID_ARGUMENT);
    let results = executable.run(&[&x, &y]).expect("runs");
    assert_eq!(results[0].read::<f32>(None), [3.0; 4]);
    assert!(x.is_deleted() && !y.is_deleted());
    let again = executable.run(&[&x, &y]).err().expect("it is gone");
    assert!(again.message.contains("deleted"), "{}", again.message);
}

#[test]
fn errors_say_what_is_wrong() {
    let client = Client::new();
    let wrong = client
        .compile("func.func @main() {")
        .err()
        .expect("no program");
    assert_eq!(wrong.code, PJRT_Error_Code_INVALID_ARGUMENT);
    assert!(!wrong.message.is_empty());
    let executable = client.compile(GRADIENT).expect("compiles");
    let x = client.f32s(&[2, 3], &[0.0; 6]);
    let few = executable.run(&[&x]).err().expect("too few");
    assert!(
        few.message.contains("called with 1 arguments, and takes 2"),
        "{}",
        few.message
    );
    let shape = executable.run(&[&x, &x]).err().expect("another shape");
    assert_eq!(shape.code, PJRT_Error_Code_INVALID_ARGUMENT);
    let mut args: PJRT_Device_PoisonExecution_Args = arguments();
    let missing = call(api().PJRT_Device_PoisonExecution, &mut args).expect_err("missing");
    assert_eq!(missing.code, PJRT_Error_Code_UNIMPLEMENTED);
    assert!(missing.message.contains("PJRT_Device_PoisonExecution"));
}

#[test]
fn callers_of_other_versions_are_served() {
    // One caller is older and does not know the last field; another is newer and has more fields.
    let mut args: PJRT_Client_Create_Args = arguments();
    args.struct_size = std::mem::offset_of!(PJRT_Client_Create_Args, kv_try_get_callback);
    call(api().PJRT_Client_Create, &mut args).expect("a client");
    let mut newer: PJRT_Client_Destroy_Args = arguments();
    newer.struct_size += 64;
    newer.client = args.client;
    call(api().PJRT_Client_Destroy, &mut newer).expect("destroyed");
    let mut cut: PJRT_Client_Devices_Args = arguments();
    cut.struct_size = 16;
    let error = call(api().PJRT_Client_Devices, &mut cut).expect_err("too short");
    assert!(
        error.message.contains("PJRT_Client_Devices_Args"),
        "{}",
        error.message
    );
}

#[test]
fn executables_come_back_from_bytes() {
    let client = Client::new();
    let executable = client.compile(GRADIENT).expect("compiles");
    let mut name: PJRT_Executable_Name_Args = arguments();
    name.executable = executable.executable();
    call(api().PJRT_Executable_Name, &mut name).expect("a name");
    assert_eq!(
        text(name.executable_name, name.executable_name_size),
        "jit_gradient"
    );
    let mut written: PJRT_Executable_Serialize_Args = arguments();
    written.executable = name.executable;
    call(api().PJRT_Executable_Serialize, &mut written).expect("bytes");
    let mut read: PJRT_Executable_DeserializeAndLoad_Args = arguments();
    read.client = client.0;
    read.serialized_executable = written.serialized_bytes;
    read.serialized_executable_size = written.serialized_bytes_size;
    call(api().PJRT_Executable_DeserializeAndLoad, &mut read).expect("an executable");
    let loaded = crate::api::Executable(read.loaded_executable);
    let inputs = [
        client.f32s(&[2, 3], &[0.5; 6]),
        client.f32s(&[3, 2], &[0.25; 6]),
    ];
    let run = |executable: &crate::api::Executable| -> Vec<f32> {
        let results = executable.run(&[&inputs[0], &inputs[1]]).expect("runs");
        results[1].read(None)
    };
    assert_eq!(run(&loaded), run(&executable));
    let delete = written.serialized_executable_deleter.expect("a function");
    // SAFETY: the plug-in returned this function for this object; it is called once.
    unsafe { delete(written.serialized_executable) };
    let mut destroy: PJRT_Executable_Destroy_Args = arguments();
    destroy.executable = name.executable;
    call(api().PJRT_Executable_Destroy, &mut destroy).expect("destroyed");
}

#[test]
fn null_handles_are_errors() {
    let mut args: PJRT_Buffer_Dimensions_Args = arguments();
    args.buffer = ptr::null_mut();
    let error = call(api().PJRT_Buffer_Dimensions, &mut args).expect_err("null");
    assert_eq!(error.message, "the buffer is null");
}

/// Options of a program for two devices: field 3, in it field 5.
const TWO_PARTITIONS: [u8; 4] = [26, 2, 40, 2];

#[test]
fn parts_of_arrays_are_put_together_and_results_cut() {
    let client = Client::with_devices(2);
    let program = r#"
module @sharded attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
      -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<2x4xf32>) {
    %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %y = stablehlo.add %x, %x : tensor<2x4xf32>
    return %t, %y : tensor<4x2xf32>, tensor<2x4xf32>
  }
}
"#;
    let executable = client
        .compile_with(program, &TWO_PARTITIONS)
        .expect("compiles");
    // The array is 0 to 7, of which each device has two columns.
    let left = client.f32s(&[2, 2], &[0.0, 1.0, 4.0, 5.0]);
    let right = client.f32s(&[2, 2], &[2.0, 3.0, 6.0, 7.0]);
    let results = executable.run_on(&[&[&left], &[&right]]).expect("runs");
    assert_eq!(results[0][0].read::<f32>(None), [0.0, 4.0, 1.0, 5.0]);
    assert_eq!(results[1][0].read::<f32>(None), [2.0, 6.0, 3.0, 7.0]);
    assert_eq!(results[1][0].dims(), [2, 2]);
    for device in &results {
        let doubled: Vec<f32> = (0..8_u8).map(|value| f32::from(2 * value)).collect();
        assert_eq!(device[1].read::<f32>(None), doubled);
    }
    let gathers = program.replace(
        "%y = stablehlo.add %x, %x : tensor<2x4xf32>",
        "%y = \"stablehlo.all_reduce\"(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
            : (tensor<2x4xf32>) -> tensor<2x4xf32>",
    );
    // Without a channel, groups list replicas, of which there is only one.
    let executable = client
        .compile_with(&gathers, &TWO_PARTITIONS)
        .expect("compiles");
    let refused = executable.run_on(&[&[&left], &[&right]]).err();
    let message = refused.expect("there is no second replica").message;
    assert!(message.contains("the groups contain 1:"), "{message}");
}
