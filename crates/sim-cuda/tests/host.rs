//! Runs unmodified host code of cudarc on the stand-in. This program starts itself again with the
//! stand-in as `libcuda.so.1` in its library path, once for each scenario, because a process has
//! only one driver.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use cudarc::driver::sys::{CUresult, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaModule, DriverError, LaunchConfig, PushKernelArg, result, sys,
};
use cudarc::nvrtc::Ptx;

const SCENARIO: &str = "TEGULA_SIM_CUDA_SCENARIO";
const FINDINGS: &str = "TEGULA_SIM_CUDA_FINDINGS";

const PROGRAMS: &str = include_str!("../../sim-ptx/tests/programs/programs.ptx");
const FAULTS: &str = include_str!("../../sim-ptx/tests/programs/faults.ptx");

/// A scenario: its name, its environment, and the required contents of the file of findings.
type Scenario = (
    &'static str,
    fn(),
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

const SCENARIOS: &[Scenario] = &[
    (
        "device",
        device,
        &[("TEGULA_SIM_CUDA_MEMORY", "1000000")],
        &[],
    ),
    ("copies", copies, &[], &[]),
    (
        "memory",
        memory,
        &[("TEGULA_SIM_CUDA_MEMORY", "1048576")],
        &["out of device memory: 900000 bytes"],
    ),
    ("softmax", softmax, &[], &[]),
    ("variables", variables, &[], &[]),
    ("graph", graph, &[], &[]),
    ("events", events, &[], &[]),
    (
        "race",
        race,
        &[],
        &["missing_barrier: race: faults.cu:8", "__syncthreads()"],
    ),
    (
        "bounds",
        bounds,
        &[],
        &[
            "off_by_one: out-of-bounds",
            "4 bytes past the end of an allocation of 400",
        ],
    ),
    ("slow", slow, &[], &["transpose: bank-conflict"]),
    (
        "modules",
        modules,
        &[],
        &["cubin", "line 1, column 1: expected"],
    ),
    (
        "shapes",
        shapes,
        &[],
        &["softmax: a launch of [1, 1, 1] blocks of [512, 1, 1] threads"],
    ),
    (
        "products",
        products,
        &[],
        &[
            "the leading dimension is shorter than a column",
            "this combination of matrix types is not supported",
            "8-bit types need A transposed",
            "the matrices do not fit together",
            "the epilogue needs a bias, and none is given",
            "the workspace is too small",
            "not aligned to 256 bytes",
            "the algorithm is for another product",
            "the result or the workspace overlaps an operand",
            "is outside of all allocations",
            "the attribute has the wrong size",
        ],
    ),
    ("missing", missing, &[], &[]),
    ("symbols", symbols, &[], &[]),
    ("packed", packed, &[], &[]),
    (
        "endless",
        endless,
        &[("TEGULA_SIM_CUDA_LIMIT", "100000")],
        &["given up"],
    ),
];

fn main() {
    if let Ok(name) = std::env::var(SCENARIO) {
        let scenario = SCENARIOS.iter().find(|s| s.0 == name).expect("a scenario");
        return (scenario.1)();
    }
    if !cfg!(target_os = "linux") {
        return println!("skipped: not Linux, where the driver is libcuda.so.1");
    }
    let folder = stand_in();
    for (name, _, environment, expected) in SCENARIOS {
        let findings = folder.join(format!("{name}.findings"));
        let output = Command::new(std::env::current_exe().expect("this program"))
            .env(SCENARIO, name)
            .env(FINDINGS, &findings)
            .env("LD_LIBRARY_PATH", &folder)
            .envs(environment.iter().copied())
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        let found = std::fs::read_to_string(&findings).unwrap_or_default();
        for text in *expected {
            assert!(found.contains(text), "{name}: `{text}` is not in\n{found}");
        }
        assert!(!expected.is_empty() || found.is_empty(), "{name}: {found}");
        println!("{name} ... ok");
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

/// A folder that contains the stand-in under the driver's name.
fn stand_in() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let built = program
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("libtegula_sim_cuda.so"))
        .find(|path| path.exists())
        .expect("libtegula_sim_cuda.so beside this program");
    let folder = std::env::temp_dir().join(format!("tegula-sim-cuda-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let driver = folder.join("libcuda.so.1");
    std::fs::copy(&built, &driver).expect("the library is copied");
    // Links to the same file are a single library in the process.
    for name in ["libcuda.so", "libcublasLt.so", "libcublasLt.so.13"] {
        std::fs::hard_link(&driver, folder.join(name)).expect("the library has another name");
    }
    folder
}

fn load(context: &Arc<CudaContext>, text: &str) -> Arc<CudaModule> {
    context
        .load_module(Ptx::from_src(text))
        .expect("the module is loaded")
}

fn line(threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

fn status<T>(outcome: Result<T, DriverError>) -> CUresult {
    outcome.err().map_or(CUresult::CUDA_SUCCESS, |e| e.0)
}

fn device() {
    let context = CudaContext::new(0).expect("a context");
    assert!(context.name().expect("a name").contains("simulated"));
    assert_eq!(context.total_mem().expect("a size"), 1_000_000);
    use sys::CUdevice_attribute as A;
    let attribute = |a| context.attribute(a).expect("an attribute");
    assert_eq!(
        attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        9
    );
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    assert_eq!(
        attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        227 << 10
    );
    assert_eq!(CudaContext::device_count().expect("a count"), 1);
    assert_eq!(
        status(CudaContext::new(1)),
        CUresult::CUDA_ERROR_INVALID_DEVICE
    );
    let error = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(
        error.error_name().expect("a name").to_str(),
        Ok("CUDA_ERROR_OUT_OF_MEMORY")
    );
    assert_eq!(
        error.error_string().expect("a text").to_str(),
        Ok("out of memory")
    );
}

fn copies() {
    let context = CudaContext::new(0).expect("a context");
    let stream = context.new_stream().expect("a stream");
    let values: Vec<u32> = (0..1000).collect();
    let a = stream.clone_htod(&values).expect("a copy");
    let b = stream.clone_dtod(&a).expect("a copy");
    assert_eq!(stream.clone_dtoh(&b).expect("a copy"), values);
    let zeros = stream.alloc_zeros::<f64>(77).expect("room");
    assert_eq!(stream.clone_dtoh(&zeros).expect("a copy"), [0.0; 77]);
    stream.synchronize().expect("it works");
    // A copy past the end of the allocation.
    let mut more = vec![0u8; 5000];
    // SAFETY: the buffer has the requested number of bytes.
    let outcome = unsafe {
        let (address, _guard) = cudarc::driver::DevicePtr::device_ptr(&a, &stream);
        result::memcpy_dtoh_sync(&mut more, address)
    };
    assert_eq!(status(outcome), CUresult::CUDA_ERROR_INVALID_VALUE);
    std::fs::remove_file(std::env::var(FINDINGS).expect("a path")).expect("the copy was noted");
}

fn memory() {
    let context = CudaContext::new(0).expect("a context");
    let stream = context.default_stream();
    let first = stream.alloc_zeros::<u8>(500_000).expect("room");
    let (free, total) = result::mem_get_info().expect("sizes");
    assert_eq!(total, 1 << 20);
    assert!(free <= total - 500_000);
    assert_eq!(
        status(stream.alloc_zeros::<u8>(900_000)),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY
    );
    drop(first);
    stream.alloc_zeros::<u8>(900_000).expect("room again");
}

fn softmax() {
    let context = CudaContext::new(0).expect("a context");
    let stream = context.default_stream();
    let function = load(&context, PROGRAMS)
        .load_function("softmax")
        .expect("a kernel");
    let n = 300usize;
    let x: Vec<f32> = (0..2 * n).map(|i| (i * 37 % 100) as f32 * 0.05).collect();
    let input = stream.clone_htod(&x).expect("a copy");
    let mut output = stream.alloc_zeros::<f32>(2 * n).expect("room");
    let count = n as i32;
    let mut launch = stream.launch_builder(&function);
    launch.arg(&input).arg(&mut output).arg(&count);
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        launch.launch(LaunchConfig {
            grid_dim: (2, 1, 1),
            ..line(256)
        })
    }
    .expect("it is launched");
    let y = stream.clone_dtoh(&output).expect("a copy");
    for (x, y) in x.chunks(n).zip(y.chunks(n)) {
        let sum: f32 = x.iter().map(|v| v.exp()).sum();
        for (x, y) in x.iter().zip(y) {
            assert!(
                (y - x.exp() / sum).abs() < 1e-6 * y.abs() + 1e-7,
                "{y} for {x}"
            );
        }
    }
}

fn variables() {
    let context = CudaContext::new(0).expect("a context");
    let stream = context.default_stream();
    let module = load(&context, PROGRAMS);
    let seen = module.get_global("seen", &stream).expect("a variable");
    let mut bytes = [0u8; 16];
    stream.memcpy_dtoh(&seen, &mut bytes).expect("a copy");
    assert_eq!(bytes[..8], [10, 0, 0, 0, 20, 0, 0, 0]);
    assert_eq!(
        status(module.load_function("nothing")),
        CUresult::CUDA_ERROR_NOT_FOUND
    );
}

fn graph() {
    let context = CudaContext::new(0).expect("a context");
    // SAFETY: there is one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().expect("a stream");
    let function = load(&context, FAULTS)
        .load_function("block_race_twin")
        .expect("a kernel");
    let x = stream.clone_htod(&[1.0f32, 2.0, 3.0, 4.0]).expect("a copy");
    let mut y = stream.alloc_zeros::<f32>(1).expect("room");
    stream
        .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        .expect("a capture");
    let mut launch = stream.launch_builder(&function);
    launch.arg(&x).arg(&mut y);
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        launch.launch(LaunchConfig {
            grid_dim: (4, 1, 1),
            ..line(32)
        })
    }
    .expect("it is captured");
    // SAFETY: no flags.
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream
        .end_capture(flags)
        .expect("a graph")
        .expect("with nodes");
    assert_eq!(
        stream.clone_dtoh(&y).expect("a copy"),
        [0.0],
        "a capture runs nothing"
    );
    for round in 1..=3u8 {
        graph.launch().expect("it runs");
        assert_eq!(
            stream.clone_dtoh(&y).expect("a copy"),
            [10.0 * f32::from(round)]
        );
    }
    // Waiting is not allowed during a capture, and invalidates it.
    stream
        .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)
        .expect("a capture");
    assert_eq!(
        status(stream.synchronize()),
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    );
    assert_eq!(
        status(stream.end_capture(flags)),
        CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    );
    stream.synchronize().expect("the stream is as before");
}

fn events() {
    let context = CudaContext::new(0).expect("a context");
    let stream = context.new_stream().expect("a stream");
    let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
    let start = stream.record_event(timed).expect("an event");
    let _copied = stream.clone_htod(&vec![1u8; 8_000_000]).expect("a copy");
    let end = stream.record_event(timed).expect("an event");
    end.synchronize().expect("it happened");
    // A nanosecond per eight bytes.
    assert_eq!(start.elapsed_ms(&end).expect("a time"), 1.0);
    let other = context.new_stream().expect("a stream");
    other.wait(&end).expect("it waits");
}

/// Launches a faulty kernel on two buffers of 256 floats.
fn faulty(name: &str, bytes: usize, config: LaunchConfig, n: Option<i32>) -> CUresult {
    let context = CudaContext::new(0).expect("a context");
    let stream = context.default_stream();
    let function = load(&context, FAULTS)
        .load_function(name)
        .expect("a kernel");
    let x = stream.clone_htod(&vec![1.0f32; bytes / 4]).expect("a copy");
    let mut y = stream.alloc_zeros::<f32>(bytes / 4).expect("room");
    let mut launch = stream.launch_builder(&function);
    launch.arg(&x).arg(&mut y);
    if let Some(n) = &n {
        launch.arg(n);
    }
    // SAFETY: the arguments are those of the kernel.
    unsafe { launch.launch(config) }.expect("it is launched");
    let first = status(stream.synchronize());
    assert_eq!(
        status(stream.clone_dtoh(&y)),
        first,
        "the context stays as it is"
    );
    first
}

fn race() {
    let outcome = faulty("missing_barrier", 1024, line(256), None);
    assert_eq!(outcome, CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

fn bounds() {
    let config = LaunchConfig {
        grid_dim: (4, 1, 1),
        ..line(32)
    };
    let outcome = faulty("off_by_one", 400, config, Some(100));
    assert_eq!(outcome, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

fn slow() {
    let config = LaunchConfig {
        block_dim: (32, 8, 1),
        ..line(32)
    };
    let outcome = faulty("transpose", 4096, config, None);
    assert_eq!(outcome, CUresult::CUDA_SUCCESS);
}

fn modules() {
    let context = CudaContext::new(0).expect("a context");
    let refused = |image: &[u8]| {
        // SAFETY: the image ends with a zero.
        status(unsafe { result::module::load_data(image.as_ptr().cast()) })
    };
    assert_eq!(
        refused(b"\x7fELF\x02\x01\0"),
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
    );
    assert_eq!(refused(b"no PTX\0"), CUresult::CUDA_ERROR_INVALID_PTX);
    drop(context);
}

fn shapes() {
    let context = CudaContext::new(0).expect("a context");
    let stream = context.default_stream();
    let module = load(&context, PROGRAMS);
    let function = module.load_function("softmax").expect("a kernel");
    let x = stream.alloc_zeros::<f32>(8).expect("room");
    let n = 8i32;
    let outcome = |config| {
        let mut launch = stream.launch_builder(&function);
        launch.arg(&x).arg(&x).arg(&n);
        // SAFETY: the arguments are those of the kernel.
        status(unsafe { launch.launch(config) })
    };
    // The kernel was compiled for 256 threads.
    assert_eq!(outcome(line(512)), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(
        outcome(LaunchConfig {
            grid_dim: (0, 1, 1),
            ..line(32)
        }),
        CUresult::CUDA_ERROR_INVALID_VALUE
    );
    // More than 48 KiB require opting in.
    let calls = module.load_function("calls").expect("a kernel");
    let config = LaunchConfig {
        shared_mem_bytes: 100_000,
        ..line(2)
    };
    let mut y = stream.alloc_zeros::<f32>(2).expect("room");
    let mut start = || {
        let mut launch = stream.launch_builder(&calls);
        launch.arg(&x).arg(&mut y);
        // SAFETY: the arguments are those of the kernel.
        status(unsafe { launch.launch(config) })
    };
    assert_eq!(start(), CUresult::CUDA_ERROR_INVALID_VALUE);
    use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as SHARED;
    calls.set_attribute(SHARED, 100_000).expect("it is allowed");
    assert_eq!(start(), CUresult::CUDA_SUCCESS);
    stream.synchronize().expect("it ran");
}

fn missing() {
    let _context = CudaContext::new(0).expect("a context");
    assert_eq!(
        status(CudaContext::new_non_primary(0, 0)),
        CUresult::CUDA_ERROR_NOT_SUPPORTED
    );
}

fn endless() {
    let context = CudaContext::new(0).expect("a context");
    let text = ".version 9.0 .target sm_90 .address_size 64 .visible .entry f() { $L: bra $L; }";
    let function = load(&context, text).load_function("f").expect("a kernel");
    let stream = context.default_stream();
    // SAFETY: the kernel has no arguments.
    unsafe { stream.launch_builder(&function).launch(line(32)) }.expect("it is launched");
    assert_eq!(
        status(stream.synchronize()),
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
    );
}

fn symbols() {
    result::init().expect("a driver");
    let find = |name: &std::ffi::CStr| {
        let mut found = std::ptr::null_mut();
        let mut state =
            sys::CUdriverProcAddressQueryResult_enum::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        // SAFETY: the arguments are a name, and memory for the results.
        let status = unsafe {
            sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut found, 13000, 0, &raw mut state)
        };
        (status, found as usize, state as u32)
    };
    // Without a version, the newest is returned.
    let (status, plain, state) = find(c"cuMemAlloc");
    assert_eq!((status, state), (CUresult::CUDA_SUCCESS, 0));
    assert_eq!(find(c"cuMemAlloc_v2").1, plain);
    assert_ne!(plain, 0);
    let (status, nothing, state) = find(c"cuNothing");
    assert_eq!(
        (status, nothing, state),
        (CUresult::CUDA_ERROR_NOT_FOUND, 0, 1)
    );
}

/// Passes parameters in one buffer, and launches with a configuration.
fn packed() {
    let context = CudaContext::new(0).expect("a context");
    let stream = context.default_stream();
    let text = std::ffi::CString::new(FAULTS).expect("no zeros");
    // SAFETY: all arguments are valid for their driver functions, and the buffers outlive the
    // launches.
    unsafe {
        let module = result::module::load_data(text.as_ptr().cast()).expect("a module");
        let name = std::ffi::CString::new("off_by_one_twin").expect("no zeros");
        let function = result::module::get_function(module, name).expect("a kernel");
        let x = stream.clone_htod(&[1.5f32; 32]).expect("a copy");
        let y = stream.alloc_zeros::<f32>(32).expect("room");
        let address = |buffer| cudarc::driver::DevicePtr::<f32>::device_ptr(buffer, &stream).0;
        let mut params = [
            address(&x).to_le_bytes(),
            address(&y).to_le_bytes(),
            [32, 0, 0, 0, 0, 0, 0, 0],
        ];
        let mut size = 20usize;
        let list = |size: &mut usize, params: &mut [[u8; 8]; 3]| {
            let key = |n: usize| n as *mut std::ffi::c_void;
            [
                key(1),
                params.as_mut_ptr().cast(),
                key(2),
                (size as *mut usize).cast(),
                key(0),
            ]
        };
        let mut extra = list(&mut size, &mut params);
        let no = std::ptr::null_mut();
        let start = |extra: *mut *mut std::ffi::c_void| {
            sys::cuLaunchKernel(
                function,
                1,
                1,
                1,
                32,
                1,
                1,
                0,
                no,
                std::ptr::null_mut(),
                extra,
            )
        };
        assert_eq!(start(extra.as_mut_ptr()), CUresult::CUDA_SUCCESS);
        assert_eq!(stream.clone_dtoh(&y).expect("a copy"), [3.0; 32]);
        size = 16;
        let mut extra = list(&mut size, &mut params);
        assert_eq!(
            start(extra.as_mut_ptr()),
            CUresult::CUDA_ERROR_INVALID_VALUE
        );
        result::module::unload(module).expect("it goes");
    }
}

/// The descriptions of a product. Refusals of the stand-in have numbers of `cublasStatus_t`.
mod described {
    use cudarc::cublaslt::result as lt;
    pub(super) use cudarc::cublaslt::sys::{
        cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogue, cublasLtHandle_t,
        cublasLtMatmulAlgo_t as Algorithm, cublasLtMatmulDesc_t,
        cublasLtMatmulDescAttributes_t as Of, cublasLtMatmulPreferenceAttributes_t as Preferred,
        cublasLtMatrixLayout_t, cublasStatus_t as Status, cudaDataType as Type,
    };

    pub(super) struct Product {
        pub(super) handle: cublasLtHandle_t,
        pub(super) operation: cublasLtMatmulDesc_t,
        pub(super) layouts: [cublasLtMatrixLayout_t; 3],
    }

    impl Product {
        /// D = A B with these numbers of rows, columns and terms; A is transposed.
        pub(super) fn new(types: [Type; 2], compute: Compute, sizes: [u64; 3]) -> Self {
            let [m, n, k] = sizes;
            let layout = |ty, rows, columns| {
                lt::create_matrix_layout(ty, rows, columns, rows as i64).expect("a layout")
            };
            let scale = match compute {
                Compute::CUBLAS_COMPUTE_32I => Type::CUDA_R_32I,
                _ => Type::CUDA_R_32F,
            };
            let product = Self {
                handle: lt::create_handle().expect("the library"),
                operation: lt::create_matmul_desc(compute, scale).expect("a description"),
                layouts: [
                    layout(types[0], k, m),
                    layout(types[0], k, n),
                    layout(types[1], m, n),
                ],
            };
            product
                .set(Of::CUBLASLT_MATMUL_DESC_TRANSA, 1i32)
                .expect("an attribute");
            product
        }

        pub(super) fn set<T: Copy>(&self, attribute: Of, value: T) -> Result<(), Status> {
            let from = (&raw const value).cast();
            // SAFETY: the description is alive, and the value has the stated size.
            unsafe {
                lt::set_matmul_desc_attribute(self.operation, attribute, from, size_of::<T>())
            }
            .map_err(|error| error.0)
        }

        /// An algorithm that needs at most `most` bytes of workspace, and the bytes that it needs.
        pub(super) fn algorithm(&self, most: u64) -> Result<(Algorithm, u64), Status> {
            let preference = lt::create_matmul_pref().expect("a preference");
            let [a, b, d] = self.layouts;
            let attribute = Preferred::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            // SAFETY: all descriptions are alive.
            unsafe {
                lt::set_matmul_pref_attribute(preference, attribute, (&raw const most).cast(), 8)
                    .expect("an attribute");
                let found = lt::get_matmul_algo_heuristic(
                    self.handle,
                    self.operation,
                    a,
                    b,
                    d,
                    d,
                    preference,
                );
                lt::destroy_matmul_pref(preference).expect("it was there");
                let found = found.map_err(|error| error.0)?;
                Ok((found.algo, found.workspaceSize as u64))
            }
        }

        /// Computes a product of A and B in D, with a workspace and its size.
        pub(super) fn multiply(
            &self,
            algorithm: &Algorithm,
            [a, b, d, workspace, bytes]: [u64; 5],
            stream: cudarc::driver::sys::CUstream,
        ) -> Result<(), Status> {
            let (one, zero) = (1f32, 0f32);
            let [la, lb, ld] = self.layouts;
            // SAFETY: all descriptions are alive; the stand-in checks addresses.
            unsafe {
                lt::matmul(
                    self.handle,
                    self.operation,
                    (&raw const one).cast(),
                    (&raw const zero).cast(),
                    a as *const _,
                    la,
                    b as *const _,
                    lb,
                    d as *const _,
                    ld,
                    d as *mut _,
                    ld,
                    algorithm,
                    workspace as *mut _,
                    bytes as usize,
                    stream.cast(),
                )
            }
            .map_err(|error| error.0)
        }
    }

    impl Drop for Product {
        fn drop(&mut self) {
            // SAFETY: each object was created once, and is not used afterwards.
            unsafe {
                for layout in self.layouts {
                    lt::destroy_matrix_layout(layout).expect("it was there");
                }
                lt::destroy_matmul_desc(self.operation).expect("it was there");
                lt::destroy_handle(self.handle).expect("it was there");
            }
        }
    }
}

/// Matrix products, and everything that is refused.
fn products() {
    use described::{Compute, Epilogue, Of, Product, Status, Type};
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    let own = context.new_stream().expect("a stream");
    let f32s = [Type::CUDA_R_32F; 2];
    let compute = Compute::CUBLAS_COMPUTE_32F;
    let (m, n, k) = (24, 8, 512);
    let product = Product::new(f32s, compute, [m, n, k]);
    let (algorithm, bytes) = product.algorithm(1 << 20).expect("an algorithm");
    assert_eq!(bytes, m * n * 4);
    let array = |count: u64| {
        let host: Vec<f32> = (0..count).map(|i| (i % 7) as f32 - 3.0).collect();
        stream.clone_htod(&host).expect("an array")
    };
    let (a, b, d, workspace) = (
        array(m * k),
        array(k * n),
        array(m * n + 64),
        array(bytes / 4),
    );
    stream.synchronize().expect("the copies");
    let address = |array: &cudarc::driver::CudaSlice<f32>| {
        use cudarc::driver::DevicePtr;
        array.device_ptr(&stream).0
    };
    let at = [
        address(&a),
        address(&b),
        address(&d),
        address(&workspace),
        bytes,
    ];
    let run = |at: [u64; 5]| product.multiply(&algorithm, at, own.cu_stream());
    run(at).expect("a product");
    own.synchronize().expect("it is done");
    let result = stream.clone_dtoh(&d).expect("the result");
    let (x, y) = (stream.clone_dtoh(&a), stream.clone_dtoh(&b));
    let (x, y) = (x.expect("A"), y.expect("B"));
    for (i, value) in result.iter().take((m * n) as usize).enumerate() {
        let (row, column) = (i % m as usize, i / m as usize);
        let k = k as usize;
        let sum: f32 = (0..k).map(|t| x[row * k + t] * y[column * k + t]).sum();
        assert_eq!(*value, sum, "{row} {column}");
    }
    // Addresses: a workspace that is too small, wrong alignment, overlaps, missing memory.
    let invalid = Err(Status::CUBLAS_STATUS_INVALID_VALUE);
    assert_eq!(run([at[0], at[1], at[2], at[3], bytes - 4]), invalid);
    assert_eq!(run([at[0] + 4, at[1], at[2], at[3], bytes]), invalid);
    assert_eq!(run([at[0], at[1], at[0], at[3], bytes]), invalid);
    let gone = Err(Status::CUBLAS_STATUS_EXECUTION_FAILED);
    assert_eq!(run([at[0], at[1], at[2], 1 << 60, bytes]), gone);
    // Descriptions.
    let other = Product::new(f32s, compute, [n, m, k]);
    assert_eq!(other.multiply(&algorithm, at, own.cu_stream()), invalid);
    let wrong = product.set(Of::CUBLASLT_MATMUL_DESC_TRANSA, 1u8);
    assert_eq!(wrong, invalid);
    let refused = |product: &Product| product.algorithm(1 << 20).map(|_| ());
    product
        .set(Of::CUBLASLT_MATMUL_DESC_TRANSA, 0i32)
        .expect("an attribute");
    assert_eq!(refused(&product), invalid);
    product
        .set(Of::CUBLASLT_MATMUL_DESC_TRANSA, 1i32)
        .expect("an attribute");
    let bias = Epilogue::CUBLASLT_EPILOGUE_BIAS as u32;
    product
        .set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE, bias)
        .expect("an attribute");
    assert_eq!(refused(&product), invalid);
    let unsupported = Err(Status::CUBLAS_STATUS_NOT_SUPPORTED);
    let mixed = [Type::CUDA_R_16BF, Type::CUDA_R_16F];
    assert_eq!(
        refused(&Product::new(mixed, compute, [m, n, k])),
        unsupported
    );
    let bytes = [Type::CUDA_R_8I, Type::CUDA_R_32I];
    let sums = Compute::CUBLAS_COMPUTE_32I;
    refused(&Product::new(bytes, sums, [m, n, k])).expect("a product of bytes");
    assert_eq!(
        refused(&Product::new(bytes, sums, [m + 1, n, k])),
        unsupported
    );
    let short = cudarc::cublaslt::result::create_matrix_layout(f32s[0], 8, 8, 7);
    assert_eq!(short.err().map(|error| error.0), invalid.err());
}
