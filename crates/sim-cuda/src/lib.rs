//! A stand-in for NVIDIA's driver library: the C functions of `libcuda`, for a device that the PTX
//! interpreter of `tegula-sim-ptx` simulates. Host code runs unchanged, so allocation, copies,
//! launches, graphs and errors can be tested without a GPU.
//!
//! Programs find it in the same way as the driver: copy or link the built library as `libcuda.so.1`
//! into a folder, and put that folder first in `LD_LIBRARY_PATH`.
//!
//! ```sh
//! cargo build --release -p tegula-sim-cuda
//! mkdir gpu && ln -s "$PWD/target/release/libtegula_sim_cuda.so" gpu/libcuda.so.1
//! LD_LIBRARY_PATH=gpu TEGULA_SIM_CUDA_FINDINGS=findings.txt ./a_program_for_cuda
//! ```
//!
//! The model is a single sm_90 device with one primary context. Work is executed when it is
//! enqueued, in the order of the calls, regardless of its stream. A device may choose this order,
//! so a missing dependency between streams is not detected. While a stream is captured, work is
//! stored in its graph and executed when the graph is launched. A kernel with an error among its
//! findings breaks the context, as on a device: that call succeeds, and later calls fail.
//!
//! Environment variables:
//! - `TEGULA_SIM_CUDA_MEMORY`: the size of the device's memory in bytes, by default 16 GiB;
//! - `TEGULA_SIM_CUDA_FINDINGS`: a file to which findings are appended, one per line, including
//!   those about speed and the reasons why a module was refused;
//! - `TEGULA_SIM_CUDA_CHECKS`: `none` disables the checks for races and for uninitialised memory;
//! - `TEGULA_SIM_CUDA_LIMIT`: the maximum number of warp instructions of a kernel;
//! - `TEGULA_SIM_CUDA_ARCH`: the compute capability, such as 80 for 8.0;
//! - `TEGULA_SIM_CUDA_FAILURES`: kernels that are made to fail, by their number in the process from
//!   1, with the resulting `CUresult`: `3:719,5:700`. After 46, device not available, the device
//!   stays unavailable.
//!
//! - `TEGULA_SIM_CUDA_PRODUCTS`: a file to which each matrix product is appended.
//!
//! The same file is also `libcublasLt`, as far as matrix products need it, if that name is a link
//! to it (a copy would be a separate library with its own device). It checks what cublasLt's
//! documentation requires, and computes every product element by element.
//!
//! Objects that the host has not released when the context is destroyed are findings, too.
//!
//! Binary images (cubin) are refused, because only PTX can be interpreted. Functions that are not
//! implemented return `CUDA_ERROR_NOT_SUPPORTED`. The time measured by events counts a nanosecond
//! per warp instruction and per eight bytes copied.
//!
//! # Invariants
//! - Device addresses from the host are checked; host pointers cannot be.
//! - Panics do not unwind into the host.

#![allow(non_snake_case, reason = "the names of the driver's functions")]

mod context;
mod cublaslt;
mod device;
mod driver;
mod graph;
mod matrix_product;
mod memory;
mod module;
mod multiply;
mod perform;
mod status;
mod stream;
mod symbols;
mod work;
