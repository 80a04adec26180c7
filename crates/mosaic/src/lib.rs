//! TPU kernels as Pallas lowers them: the dialects of Mosaic, read into typed operations.
//!
//! A kernel is a module of MLIR, in bytecode or as text, on its own or inside a StableHLO program
//! as the body of a `tpu_custom_call`. [`read`] accepts all of these:
//!
//! - [`extract`]: the calls in a program;
//! - `upgrade`: converts kernels of older versions to the newest;
//! - `typed`: converts MLIR operations to the typed [`ir`], with its [`types`];
//! - [`verify()`]: checks a kernel's invariants before it is used.
//!
//! [`Source::print`] prints the kernel as MLIR text, which reads back to the same kernel.
//!
//! ```
//! let text = "module attributes {stable_mosaic.version = 15 : i64} {
//!   func.func @double(%x: memref<8x128xf32, #tpu.memory_space<vmem>>,
//!                     %y: memref<8x128xf32, #tpu.memory_space<vmem>>)
//!       attributes {dimension_semantics = [], scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
//!     %zero = arith.constant 0 : index
//!     %a = vector.load %x[%zero, %zero] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
//!     %b = arith.addf %a, %a : vector<8x128xf32>
//!     vector.store %b, %y[%zero, %zero] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
//!     return
//!   }
//! }";
//! let kernels = tegula_mosaic::read(text.as_bytes().to_vec())?.ok_or("not a kernel")?;
//! assert_eq!(&*kernels[0].module.kernel.function.name, "double");
//! assert!(kernels[0].print().contains("arith.addf"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! - No input makes this crate panic, and memory grows in proportion to the input.
//! - Vectors have logical shapes and memory no tiles: a kernel is what JAX writes, before any
//!   compiler chose layouts.

mod attributes;
pub mod extract;
pub mod ir;
mod locations;
mod typed;
pub mod types;
mod upgrade;
mod verify;

pub use extract::{Call, calls};
pub use upgrade::{NEWEST, OLDEST};
pub use verify::verify;

use ir::Module;
use tegula_stablehlo::{Bytes, Error, Form, mlir};

/// A kernel with the module that it was read from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The module, of the newest version.
    pub mlir: mlir::Module,
    /// The same module as typed operations.
    pub module: Module,
    /// The call whose body it is, if it was found in a program.
    pub call: Option<Call>,
}

impl Source {
    /// The kernel as MLIR text.
    pub fn print(&self) -> String {
        tegula_stablehlo::print(&self.mlir, Form::Pretty)
    }
}

/// Whether a module is a kernel: it has operations of the kernel dialects and none of StableHLO.
pub fn is_kernel(module: &mlir::Module) -> bool {
    module
        .operation
        .attribute("stable_mosaic.version")
        .is_some()
        || module.body().iter().any(is_kernel_function)
}

fn is_kernel_function(operation: &mlir::Operation) -> bool {
    operation.name.starts_with("stable_mosaic.")
        || operation.attribute("dimension_semantics").is_some()
        || operation.attribute("tpu.core_type").is_some()
}

/// The kernels of an input: bytecode or text of one kernel, or a StableHLO program (bytecode, text
/// or a file of `jax.export`) with calls of kernels; [`None`] if the input is neither or has no
/// kernel.
///
/// # Errors
/// A malformed or unsupported element of the input, with its place.
pub fn read(bytes: impl Into<Bytes>) -> Result<Option<Vec<Source>>, Error> {
    let module = tegula_stablehlo::read(bytes)?;
    if is_kernel(&module) {
        return Ok(Some(vec![kernel(module, None)?]));
    }
    let calls = calls(&module)?;
    if calls.is_empty() {
        return Ok(None);
    }
    let kernels = calls.into_iter().map(|call| {
        let name = call.name.clone();
        let kernel = tegula_stablehlo::read(call.body.clone());
        let kernel = kernel.and_then(|module| self::kernel(module, Some(call)));
        kernel.map_err(|error| Error {
            message: format!("in the kernel `{name}`: {}", error.message),
            ..error
        })
    });
    Ok(Some(kernels.collect::<Result<_, _>>()?))
}

fn kernel(mut module: mlir::Module, call: Option<Call>) -> Result<Source, Error> {
    if let Some(locations) = call.as_ref().and_then(|call| call.locations.clone()) {
        locations::apply(&mut module, &locations);
    }
    upgrade::upgrade(&mut module)?;
    let typed = typed::module(&module)?;
    verify(&typed)?;
    Ok(Source {
        mlir: module,
        module: typed,
        call,
    })
}
