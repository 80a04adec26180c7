//! Linear algebra on arrays in memory, for the CPU.
//!
//! - [`gemm`]: matrix products with any strides and element types, on the `microkernels`.
//! - [`depthwise`]: products of many small groups, such as depthwise convolutions.
//! - [`planes`]: products with one column and contiguous rows, alone or in groups.
//! - [`border`]: copies of arrays with a border of zeros.
//! - [`dense`]: Cholesky and LU factorisations, triangular and tridiagonal solves without
//!   allocation.
//! - [`sort`]: sorts several arrays together; [`top_k`]: the largest or smallest elements of rows.
//! - `lapack`: factorisations, eigenvalues and singular values ([`geev`], [`gesdd`], [`geqrf`],
//!   ...).
//! - [`fourier`]: Fourier transforms of the last dimensions of an array.
//! - [`thread_pool`]: the threads that products are split over.
//!
//! ```
//! use tegula_ir::ElementType::F32;
//! use tegula_linalg::CpuFeatures;
//! use tegula_linalg::gemm::{Axes, Axis, Product};
//! use tegula_linalg::thread_pool::ThreadPool;
//!
//! // [2, 3] times [3, 2], both row-major. Strides are in elements.
//! let axes = Axes {
//!     rows: [Axis { size: 2, lhs: 3, rhs: 0, out: 2 }].into(),
//!     columns: [Axis { size: 2, lhs: 0, rhs: 1, out: 1 }].into(),
//!     depth: [Axis { size: 3, lhs: 1, rhs: 2, out: 0 }].into(),
//!     ..Axes::default()
//! };
//! let product = Product::new(CpuFeatures::detect(), [F32; 3], axes, None).unwrap();
//! let (a, b) = ([1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1f32, 0.0, 0.0, 1.0, 1.0, 1.0]);
//! let mut out = [0f32; 4];
//! let mut scratch = vec![0u8; product.scratch_bytes(1) + 64];
//! let aligned = scratch.as_ptr().align_offset(64);
//! // SAFETY: the arrays have the types and sizes of the product.
//! unsafe {
//!     product.run(
//!         [a.as_ptr().cast(), b.as_ptr().cast()],
//!         std::ptr::null(),
//!         out.as_mut_ptr().cast(),
//!         scratch.as_mut_ptr().add(aligned),
//!         &ThreadPool::new(1),
//!     );
//! }
//! assert_eq!(out, [4.0, 5.0, 10.0, 11.0]);
//! ```
//!
//! Which instructions a routine uses is an argument, [`CpuFeatures`]: code for several instruction
//! sets is in the library, whatever the compiler was told to use.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "most microkernels are for x86-64")
)]

pub mod border;
pub mod convolution;
pub mod dense;
pub mod depthwise;
pub mod fourier;
pub mod gemm;
mod lapack;
pub mod list;
mod microkernels;
pub mod planes;
pub mod sort;
mod tables;
pub mod thread_pool;
pub mod top_k;
mod vectors;

pub use lapack::*;
pub use tables::Tables;
pub use tegula_target::CpuFeatures;
