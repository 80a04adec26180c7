//! Custom calls: the functions that give them their meaning.
//!
//! There is one registry for the whole process, like the symbols of a linked program:
//! a program names a target, and every backend finds the same handler for it. A
//! handler stays for good, so code that has been compiled with it stays right.
//!
//! Who compiles a program may have [`Handlers`] of its own, which come before the process's while
//! it [compiles or runs](Handlers::within).
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

/// Targets that have a meaning of their own.
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

/// The process's handlers.
static HANDLERS: RwLock<Option<Map>> = RwLock::new(None);

thread_local! {
    /// The handlers of those who are compiling or running a program on this thread, the last first.
    static SCOPES: RefCell<Vec<Arc<Map>>> = const { RefCell::new(Vec::new()) };
}

/// What runs a custom call.
#[derive(Clone)]
pub struct CustomCallHandler(Arc<Function>);

impl fmt::Debug for CustomCallHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomCallHandler")
    }
}

/// Why a handler could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// There is one already.
    #[error("the custom call `{0}` has a handler already")]
    Taken(String),
    /// The target means something without a handler.
    #[error("the custom call `{0}` is built in and cannot be overridden")]
    BuiltIn(String),
}

/// Why a custom call could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomCallError {
    /// Nothing is registered for it.
    #[error(
        "the custom call `{target}` has no handler: give it one with \
         `Compiler::custom_call(\"{target}\", handler)` or \
         `register_custom_call(\"{target}\", handler)` before the program is compiled"
    )]
    Unknown {
        /// `custom_call_target=`.
        target: String,
    },
    /// It calls computations of the program, which no handler can.
    #[error("the custom call `{target}` calls computations, which no handler can")]
    CallsComputations {
        /// `custom_call_target=`.
        target: String,
    },
    /// The handler gave an error.
    #[error("the custom call `{target}` failed: {reason}")]
    Failed {
        /// `custom_call_target=`.
        target: String,
        /// What the handler said.
        reason: String,
    },
    /// The handler gave another number of arrays than the program states.
    #[error("the handler of the custom call `{target}` gave {actual} arrays, not {expected}")]
    Count {
        /// `custom_call_target=`.
        target: String,
        /// What the program states.
        expected: usize,
        /// What the handler gave.
        actual: usize,
    },
    /// The handler gave an array of another shape than the program states.
    #[error(
        "the handler of the custom call `{target}` gave {actual} as result {index}, not {expected}"
    )]
    Shape {
        /// `custom_call_target=`.
        target: String,
        /// Which array.
        index: usize,
        /// What the program states.
        expected: String,
        /// What the handler gave.
        actual: String,
    },
}

/// Gives the custom calls of a target (`custom_call_target=`) their meaning, in
/// this process and for good.
///
/// The handler is given the call [to run](CustomCall::to_run), the arrays among the operands in order (those in
/// tuples too; tokens have none) and the shapes of the arrays among the results,
/// with the sizes of the run. It gives the results. Arrays are dense and row-major,
/// whatever layouts the program states.
///
/// Calls that say that they [have a side effect](CustomCall::has_side_effect) are
/// run as often and in the order that the program says. Others may not be run at
/// all if nothing depends on their results.
///
/// # Errors
/// The target has a handler, or a meaning of its own.
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

/// Handlers of one compiler, by target. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Handlers(Arc<Map>);

impl Handlers {
    /// Adds one, as [`register_custom_call`] does to the process's.
    ///
    /// # Errors
    /// The target has a handler here, or a meaning of its own.
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

    /// Does `work`, which finds these handlers before the process's: compiling a program, or
    /// running it on this thread.
    pub fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Takes the handlers away when the work ends, also by a panic.
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

/// Whether the custom calls of a target have a meaning without a handler.
pub fn is_built_in(target: &str) -> bool {
    BUILT_IN.contains(&target) || Lapack::is_target(target)
}

/// Whether a target is a routine that comes with this library, and runs in its process only.
pub fn is_library_routine(target: &str) -> bool {
    target == CSR_TIMES_DENSE || LibraryCall::of(target).is_some()
}

/// Whether the custom calls of a target call Python functions. Where there is no Python those
/// without results, such as JAX's debug prints, do nothing; others are errors.
pub fn is_python_callback(target: &str) -> bool {
    PYTHON_CALLBACKS.contains(&target)
}

fn python_callback(results: &[ArrayShape]) -> Result<Vec<Literal>, String> {
    match results.is_empty() {
        true => Ok(Vec::new()),
        false => Err("it calls a Python function, which only its own process has".to_owned()),
    }
}

/// A routine that comes with this library, for arrays that lie in memory: what its
/// [handler](CustomCallHandler) computes, without what depends on shapes and options only.
#[derive(Clone, Debug)]
pub struct PreparedCall(Reflections);

impl PreparedCall {
    /// The routine of a call on operands and results of these shapes; `None` if a handler has been
    /// registered for it, if only handlers compute it, or if it has no meaning for these arrays.
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

    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes(&self) -> usize {
        self.0.scratch_bytes()
    }

    /// Writes the results. The arrays are dense, row-major and of the shapes that this was made for,
    /// `scratch` has [`Self::scratch_bytes`]; all are aligned to their elements.
    ///
    /// # Errors
    /// They are not.
    pub fn run(
        &self,
        operands: &[&[u8]],
        results: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> Result<(), String> {
        self.0.run(operands, results, scratch)
    }
}

/// The handler that somebody has registered for a target.
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
    /// Nothing is registered for its target, or it calls computations.
    pub fn of(call: &CustomCall) -> Result<Self, CustomCallError> {
        let target = || call.target.to_string();
        if !call.called.is_empty() {
            return Err(CustomCallError::CallsComputations { target: target() });
        }
        let handler = registered(&call.target).or_else(|| Self::provided(&call.target));
        handler.ok_or_else(|| CustomCallError::Unknown { target: target() })
    }

    /// What every process has, unless it has registered something else.
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

    /// Runs a call on arrays, giving arrays of the shapes of `results`, whose sizes
    /// are all static.
    ///
    /// # Errors
    /// The handler fails, or gives something else.
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
