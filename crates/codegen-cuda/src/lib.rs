//! The CUDA backend: compiles a Plan to CUDA C++, which NVRTC compiles and a device runs.
//!
//! Each kernel of the plan becomes one or several `__global__` functions, and so do dots and
//! convolutions. All functions of a program form one source that includes no headers; it is
//! compiled once and cached on disk. Operations without a device function run on the host between
//! launches.
//!
//! # Invariants
//! - Results are those of the Plan evaluator: integers and data movement to the bit,
//!   every floating-point operation rounded by itself, functions like `exp` within
//!   some units in the last place, sums in another order.
//! - Building needs nothing of CUDA. A library that is missing when it is needed is an
//!   error that says how to get it.
//!
//! # Example
//!
//! The source of a program needs neither a GPU nor a library of NVIDIA's:
//!
//! ```
//! use tegula_codegen_cuda::{Arch, LIMITS, Listing, listing};
//! use tegula_fusion::{ShortLoops, flatten, fuse};
//! use tegula_ir::{PassManager, parse_module};
//!
//! let module = parse_module(
//!     "HloModule gate
//!     ENTRY main { x = f32[1024,1024] parameter(0) t = f32[1024,1024] tanh(x)
//!       ROOT y = f32[1024,1024] multiply(x, t) }",
//! )?;
//! tegula_ir::verify(&module)?;
//! let passes = &mut PassManager::new();
//! let program = flatten(&module, ShortLoops::Unrolled, passes)?;
//! let fused = fuse(&module, program, LIMITS, passes)?;
//! let plan = tegula_plan::plan(&module, &fused, None, passes)?;
//! let source = String::from_utf8(listing(&plan, Arch(90), Listing::Cuda)?)?;
//! // The reason for each kernel's form stands above it.
//! assert!(source.contains("// k0: 4 points in a row per thread, accesses of 16 bytes"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod atomics;
mod attention;
mod body;
mod cache;
mod counted;
mod device;
mod driver;
mod emit;
mod epilogue;
mod error;
mod execute;
mod function;
mod functions;
mod graphs;
mod host;
mod libraries;
mod library;
mod listing;
mod nvrtc;
mod program;
mod reduction;
mod scalars;
mod schedule;
mod simulated;
mod terms;
mod types;

/// Limits of fusion. Row fusion keeps as much of a row as fits the registers of its threads; from
/// kernel to kernel, data goes through memory that is far from the multiprocessors.
pub const LIMITS: tegula_fusion::Limits = tegula_fusion::Limits {
    row_bytes: 32 << 10,
    min_columns: 2,
    shallow: 0,
    lanes: false,
    short: 0,
    spread_updates: true,
};

pub use driver::executable as for_gpu;
pub use driver::release_gpu;
pub use error::Error;
pub use execute::Executable;
pub use listing::{Listing, listing};
pub use nvrtc::{Arch, Compiler, Form, compiler};
pub use simulated::executable as for_simulator;
pub use simulated::{LaunchReport, measure};
pub use tegula_sim_ptx::{AccessStatistics, Report};
