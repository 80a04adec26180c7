//! Custom calls: the registry of functions (handlers) that implement them.
//!
//! The registry is global to the process, like the symbols of a linked program: a program names a
//! target, and every backend finds the same handler for it. Handlers are never removed, so compiled
//! code that uses them stays valid.
//!
//! A compiler may have its own [`Handlers`], which take precedence over the process's while it
//! [compiles or runs](Handlers::within) a program.
//!
//! ```
//! use tegula_custom_call::{Handlers, RegisterError};
//!
//! let mut handlers = Handlers::default();
//! // The operand is the result: what a debugger would stop at.
//! handlers.add("breakpoint", |_call, operands, _results| Ok(operands.to_vec()))?;
//! // A target means one thing, and some mean something already.
//! let again = handlers.add("breakpoint", |_, _, _| Err("never called".to_owned()));
//! assert_eq!(again, Err(RegisterError::Taken("breakpoint".to_owned())));
//! let built_in = handlers.add("TopK", |_, _, _| Err("never called".to_owned()));
//! assert_eq!(built_in, Err(RegisterError::BuiltIn("TopK".to_owned())));
//! # Ok::<(), RegisterError>(())
//! ```

mod lapack;
mod sparse;

use lapack::{LibraryCall, Reflections};
use rustc_hash::FxHashMap;
use sparse::{CSR_TIMES_DENSE, csr_times_dense};
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tegula_ir::{ArrayShape, CustomCall, Lapack, Literal};

/// Targets that are built in and need no handler.
const BUILT_IN: [&str; 8] = [
    "LuDecomposition",
    "TopK",
    "Sharding",
    "InspectSharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
];

/// Targets by which JAX calls Python functions from a program on a CPU.
const PYTHON_CALLBACKS: [&str; 4] = [
    "xla_ffi_python_cpu_callback",
    "xla_ffi_partitioned_python_cpu_callback",
    "xla_python_cpu_callback",
    "xla_buffer_python_cpu_callback",
];

type Function =
    dyn Fn(&CustomCall, &[Literal], &[ArrayShape]) -> Result<Vec<Literal>, String> + Send + Sync;

type Map = FxHashMap<Arc<str>, CustomCallHandler>;

/// The handlers of this process.
static HANDLERS: RwLock<Option<Map>> = RwLock::new(None);

thread_local! {
    /// The handlers of the programs that are compiled or run on this thread; the innermost are
    /// last.
    static SCOPES: RefCell<Vec<Arc<Map>>> = const { RefCell::new(Vec::new()) };
}

/// The function that executes a custom call.
#[derive(Clone)]
pub struct CustomCallHandler(Arc<Function>);

impl fmt::Debug for CustomCallHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomCallHandler")
    }
}

/// The reason why a handler could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The target has a handler already.
    #[error("the custom call `{0}` already has a handler")]
    Taken(String),
    /// The target is built in and cannot have a handler.
    #[error("the custom call `{0}` is built in and cannot be overridden")]
    BuiltIn(String),
}

/// The reason why a custom call could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomCallError {
    /// There is no handler for the target.
    #[error(
        "the custom call `{target}` has no handler: give it one with \
         `Compiler::custom_call(\"{target}\", handler)` or \
         `register_custom_call(\"{target}\", handler)` before the program is compiled"
    )]
    Unknown {
        /// `custom_call_target=`.
        target: String,
    },
    /// The call uses computations of the program, which handlers cannot call.
    #[error("the custom call `{target}` has called computations, which handlers do not support")]
    CallsComputations {
        /// `custom_call_target=`.
        target: String,
    },
    /// The handler returned an error.
    #[error("the custom call `{target}` failed: {reason}")]
    Failed {
        /// `custom_call_target=`.
        target: String,
        /// The handler's message.
        reason: String,
    },
    /// The handler returned a wrong number of arrays.
    #[error(
        "the handler of the custom call `{target}` returned {actual} arrays, expected {expected}"
    )]
    Count {
        /// `custom_call_target=`.
        target: String,
        /// The number that the program states.
        expected: usize,
        /// The number that the handler returned.
        actual: usize,
    },
    /// The handler returned an array of a wrong shape.
    #[error(
        "the handler of the custom call `{target}` returned {actual} as result {index}, expected {expected}"
    )]
    Shape {
        /// `custom_call_target=`.
        target: String,
        /// The number of the array.
        index: usize,
        /// The shape that the program states.
        expected: String,
        /// The shape that the handler returned.
        actual: String,
    },
}

/// Registers the handler of a target's custom calls (`custom_call_target=`), permanently and for
/// the whole process.
///
/// The handler takes the call [to run](CustomCall::to_run), the arrays among the operands in order
/// (including those in tuples; tokens have none), and the shapes of the arrays among the results,
/// with the sizes in this run. It returns the results. Arrays are dense and row-major, whatever
/// layouts the program states.
///
/// Calls that [have a side effect](CustomCall::has_side_effect) are executed as often and in the
/// order that the program says. Others may be skipped if nothing depends on their results.
///
/// # Errors
/// The target has a handler already, or is built in.
pub fn register_custom_call(
    target: &str,
    handler: impl Fn(&CustomCall, &[Literal], &[ArrayShape]) -> Result<Vec<Literal>, String>
    + Send
    + Sync
    + 'static,
) -> Result<(), RegisterError> {
    let mut handlers = HANDLERS.write().unwrap_or_else(PoisonError::into_inner);
    insert(handlers.get_or_insert_default(), target, Arc::new(handler))
}

fn insert(handlers: &mut Map, target: &str, handler: Arc<Function>) -> Result<(), RegisterError> {
    if is_built_in(target) {
        return Err(RegisterError::BuiltIn(target.to_owned()));
    }
    if handlers.contains_key(target) {
        return Err(RegisterError::Taken(target.to_owned()));
    }
    handlers.insert(target.into(), CustomCallHandler(handler));
    Ok(())
}

/// The handlers of one compiler, by target. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Handlers(Arc<Map>);

impl Handlers {
    /// Adds a handler, as [`register_custom_call`] does for the process.
    ///
    /// # Errors
    /// The target has a handler here, or is built in.
    pub fn add(
        &mut self,
        target: &str,
        handler: impl Fn(&CustomCall, &[Literal], &[ArrayShape]) -> Result<Vec<Literal>, String>
        + Send
        + Sync
        + 'static,
    ) -> Result<(), RegisterError> {
        insert(Arc::make_mut(&mut self.0), target, Arc::new(handler))
    }

    /// Calls `work`, which compiles a program or runs it on this thread; these handlers take
    /// precedence over the process's meanwhile.
    pub fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Removes the handlers when it is dropped, also during a panic.
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                SCOPES.with_borrow_mut(|scopes| {
                    scopes.pop();
                });
            }
        }
        if self.0.is_empty() {
            return work();
        }
        SCOPES.with_borrow_mut(|scopes| scopes.push(Arc::clone(&self.0)));
        let _leave = Leave;
        work()
    }
}

/// Whether a target is built in and needs no handler.
pub fn is_built_in(target: &str) -> bool {
    BUILT_IN.contains(&target) || Lapack::is_target(target)
}

/// Whether a target is a routine of this library, which runs only within its process.
pub fn is_library_routine(target: &str) -> bool {
    target == CSR_TIMES_DENSE || LibraryCall::of(target).is_some()
}

/// Whether a target's custom calls call Python functions. Without Python, those without results,
/// such as JAX's debug prints, do nothing; others are errors.
pub fn is_python_callback(target: &str) -> bool {
    PYTHON_CALLBACKS.contains(&target)
}

fn python_callback(results: &[ArrayShape]) -> Result<Vec<Literal>, String> {
    match results.is_empty() {
        true => Ok(Vec::new()),
        false => Err("it calls a Python function, which only its own process has".to_owned()),
    }
}

/// A routine of this library, prepared for arrays in caller-provided memory. It computes the same
/// as the [handler](CustomCallHandler), but everything that depends only on shapes and options is
/// done in advance.
#[derive(Clone, Debug)]
pub struct PreparedCall(Reflections);

impl PreparedCall {
    /// The routine for a call with operands and results of these shapes. `None` if a handler is
    /// registered for the target, if only handlers compute it, or if the arrays are invalid.
    pub fn of(
        call: &CustomCall,
        operands: &[&ArrayShape],
        results: &[&ArrayShape],
    ) -> Option<Self> {
        if !call.called.is_empty() || registered(&call.target).is_some() {
            return None;
        }
        let routine = LibraryCall::of(&call.target)?;
        routine.in_memory(call, operands, results).map(Self)
    }

    /// The number of bytes of scratch memory for a run.
    pub fn scratch_bytes(&self) -> usize {
        self.0.scratch_bytes()
    }

    /// Computes the results. The arrays are dense, row-major and have the shapes that this was made
    /// for; `scratch` has [`Self::scratch_bytes`]. All are aligned to their elements.
    ///
    /// # Errors
    /// The arrays have other sizes or alignments.
    pub fn run(
        &self,
        operands: &[&[u8]],
        results: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> Result<(), String> {
        self.0.run(operands, results, scratch)
    }
}

/// The handler that was registered for a target, by the current compiler or in the process.
fn registered(target: &str) -> Option<CustomCallHandler> {
    let scoped = SCOPES.with_borrow(|scopes| {
        let mut scopes = scopes.iter().rev();
        scopes.find_map(|scope| scope.get(target).cloned())
    });
    scoped.or_else(|| {
        let handlers = HANDLERS.read().unwrap_or_else(PoisonError::into_inner);
        handlers.as_ref().and_then(|h| h.get(target)).cloned()
    })
}

impl CustomCallHandler {
    /// The handler of a custom call.
    ///
    /// # Errors
    /// There is no handler for its target, or it calls computations.
    pub fn of(call: &CustomCall) -> Result<Self, CustomCallError> {
        let target = || call.target.to_string();
        if !call.called.is_empty() {
            return Err(CustomCallError::CallsComputations { target: target() });
        }
        let handler = registered(&call.target).or_else(|| Self::provided(&call.target));
        handler.ok_or_else(|| CustomCallError::Unknown { target: target() })
    }

    /// The handler that the library provides for a target, if none is registered.
    fn provided(target: &str) -> Option<Self> {
        if is_python_callback(target) {
            return Some(Self(Arc::new(|_, _, results| python_callback(results))));
        }
        if target == CSR_TIMES_DENSE {
            return Some(Self(Arc::new(|_, operands, results| {
                csr_times_dense(operands, results)
            })));
        }
        let routine = LibraryCall::of(target)?;
        Some(Self(Arc::new(move |call, operands, results| {
            routine.run(call, operands, results)
        })))
    }

    /// Runs a call on arrays. Returns arrays with the shapes in `results`, whose sizes are all
    /// static.
    ///
    /// # Errors
    /// The handler fails, or returns other shapes.
    pub fn run(
        &self,
        call: &CustomCall,
        operands: &[Literal],
        results: &[ArrayShape],
    ) -> Result<Vec<Literal>, CustomCallError> {
        let target = || call.target.to_string();
        let given = (self.0)(call, operands, results).map_err(|reason| {
            let target = target();
            CustomCallError::Failed { target, reason }
        })?;
        if given.len() != results.len() {
            return Err(CustomCallError::Count {
                target: target(),
                expected: results.len(),
                actual: given.len(),
            });
        }
        for (index, (literal, shape)) in given.iter().zip(results).enumerate() {
            if !literal.shape().same_ignoring_layout(shape) {
                return Err(CustomCallError::Shape {
                    target: target(),
                    index,
                    expected: shape.to_string(),
                    actual: literal.shape().to_string(),
                });
            }
        }
        Ok(given)
    }
}
