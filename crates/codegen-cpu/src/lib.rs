//! The CPU backend: compiles a Plan to machine code, with Cranelift and SIMD code generation of its
//! own, and runs it.
//!
//! Each kernel becomes one or several functions; the Plan has already merged equal kernels. Matrix
//! products and sorts are calls of library routines. The backend depends on the Plan only, not on
//! the module that the plan was made from.
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
//! - Results are those of the Plan evaluator: equal to the bit for integers and data movement, and
//!   up to the order of sums in dots and reductions for floating point.
//! - A run allocates its outputs, unless the caller has dropped those of an earlier run. The first
//!   run also allocates its arena and the memory of values that are kept for later runs. There are
//!   no other large allocations.

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
