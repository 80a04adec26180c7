//! The CPU backend: a Plan to machine code with Cranelift, and the runtime that
//! walks its schedule.
//!
//! Each kernel becomes one function; equal kernels were already one in the Plan.
//! Matrix products and sorts are calls of library routines. It never sees the
//! module that the plan was made from.
//!
//! ```
//! use std::borrow::Cow;
//! use tegula_codegen_cpu::{Executable, Options};
//! use tegula_fusion::{Limits, ShortLoops, flatten, fuse};
//! use tegula_ir::{ArrayShape, ElementType, Literal, PassManager, parse_module};
//!
//! let module = parse_module(
//!     "HloModule twice
//!     ENTRY main { x = s32[3] parameter(0) ROOT y = s32[3] add(x, x) }",
//! )?;
//! tegula_ir::verify(&module)?;
//! let passes = &mut PassManager::new();
//! let program = flatten(&module, ShortLoops::Unrolled, passes)?;
//! let fused = fuse(&module, program, Limits::default(), passes)?;
//! let plan = tegula_plan::plan(&module, &fused, None, passes)?;
//!
//! let executable = Executable::new(plan, &Options::default())?;
//! let shape = ArrayShape::new(ElementType::S32, &[3]);
//! let array = |numbers: [i32; 3]| {
//!     let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
//!     Literal::from_bytes(&shape, &bytes)
//! };
//! let results = executable.run(vec![Cow::Owned(array([1, -2, 30])?)])?;
//! assert_eq!(results, [array([2, -4, 60])?]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! - Results are those of the Plan evaluator: integers and data movement to the
//!   bit, floating point up to the order of sums in dots and reductions.
//! - A run allocates its outputs, unless the caller has dropped those of an earlier one, and,
//!   the first time, its arena and what is kept for the runs after it; nothing else of size.

mod abi;
mod analysis;
mod clif;
mod compile;
mod error;
mod image;
mod isa;
mod library;
mod object;
mod options;
mod origin;
mod program;
mod runtime;
mod simd;
mod transform;
mod vectorize;

pub use analysis::cost::Work;
pub use clif::shape_code::{Checked, MachineSizes, SizeCode};
pub use compile::linked::{LinkedLine, LinkedListing, ListedMachine};
pub use compile::module::linked_listing;
pub use compile::run_kernel_passes;
pub use error::Error;
pub use library::call::check_library;
pub use object::{Object, ObjectOptions, archive, compile_object};
pub use options::{Listing, Options, StreamLimits};
pub use runtime::executable::{Executable, listing};
pub use runtime::roofline::Ceilings;
pub use runtime::saved::machine;
pub use runtime::walk::KernelTime;
pub use tegula_target::IsaLevel;
pub use transform::pipeline::PASSES as KERNEL_PASSES;
