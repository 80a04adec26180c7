//! A stand-in for NVIDIA's driver library: the C functions of `libcuda` on a device
//! that is the PTX interpreter of `tegula-sim-ptx`. Host code runs against it unchanged,
//! so that allocation, copies, launches, graphs and errors are tested without a GPU.
//!
//! A program finds it as it finds the driver: copy or link the built library as
//! `libcuda.so.1` into a folder and put that first in `LD_LIBRARY_PATH`.
//!
//! ```sh
//! cargo build --release -p tegula-sim-cuda
//! mkdir gpu && ln -s "$PWD/target/release/libtegula_sim_cuda.so" gpu/libcuda.so.1
//! LD_LIBRARY_PATH=gpu TEGULA_SIM_CUDA_FINDINGS=findings.txt ./a_program_for_cuda
//! ```
//!
//! The model: one device, an sm_90 with one primary context. Work runs when it is
//! enqueued, in the order of the calls, whatever its stream; that is one of the orders
//! that a device may choose, so a missing dependency between streams is not found. While
//! a stream is captured, work is kept in its graph instead and runs when the graph is
//! launched. A kernel with an error among its findings puts the context into an error
//! state, as on a device: that call succeeds, the next ones fail.
//!
//! Environment:
//! - `TEGULA_SIM_CUDA_MEMORY`: bytes of the device, 16 GiB if not set;
//! - `TEGULA_SIM_CUDA_FINDINGS`: a file to which findings are appended, one a line, also
//!   those about speed, and why a module was refused;
//! - `TEGULA_SIM_CUDA_CHECKS`: `none` leaves out the checks for races and for what was
//!   never written;
//! - `TEGULA_SIM_CUDA_LIMIT`: warp instructions after which a kernel is given up;
//! - `TEGULA_SIM_CUDA_ARCH`: the compute capability, as 80 for 8.0;
//! - `TEGULA_SIM_CUDA_FAILURES`: kernels that are made to fail, by their number in the
//!   process from 1, with the `CUresult` of what follows: `3:719,5:700`. After 46, a device
//!   that is not available, the device does not come back.
//!
//! - `TEGULA_SIM_CUDA_PRODUCTS`: a file to which each product of matrices is appended.
//!
//! It is `libcublasLt` too, as far as products of matrices need it, if that name is a link
//! to the same file (a copy would be another library, with another device): the checks are
//! those that the documentation states, and every product is computed element by element.
//!
//! What the host has not given back when the context ends is a finding too.
//!
//! What it is not: images for a machine (cubin) are refused, since only PTX is
//! interpreted. Functions that are missing answer `CUDA_ERROR_NOT_SUPPORTED`. Time, as
//! events tell it, counts a nanosecond per warp instruction and per eight bytes copied.
//!
//! # Invariants
//! - Device addresses that a host passes are checked; host pointers cannot be.
//! - Nothing unwinds into the host.

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
