//! Limits of a run or a compilation: a timeout, a memory limit and an interrupt flag, in one mechanism
//! for all targets.
//!
//! [`Limits::within`] runs some work in a *scope*. Code that may take long calls [`check`] now and then,
//! and code that is about to allocate arrays [claims](claim) their bytes. Both return [`Stopped`] as an
//! error once a limit of the scope, or of a scope around it, is exceeded. Scopes belong to threads: who
//! hands work to another thread enters the [`current`] scope there.
//!
//! ```
//! use std::time::Duration;
//! use tegula_limits::{Limits, Stopped, check};
//!
//! let limits = Limits::new().timeout(Duration::from_millis(20));
//! let forever: Result<(), Stopped> = limits.within(|| {
//!     loop {
//!         check()?;
//!     }
//! });
//! assert_eq!(forever, Err(Stopped::Timeout));
//!
//! let in_time: Result<i32, Stopped> = limits.within(|| Ok(6 * 7));
//! assert_eq!(in_time, Ok(42));
//! ```
//!
//! # Model
//! Everything that can stop work is a *signal* that is raised once: an [`Interrupt`], and each scope. A
//! scope follows its interrupt and the scope around it, and a watchdog thread raises scopes whose
//! deadline has passed. The process counts the raised scopes, so that a check is the load of one number
//! which is nearly always zero. Generated code loads the flag of its own scope ([`StopFlag`]).
//!
//! # Invariants
//! - Work that was stopped gives an error, never a result: [`Limits::within`] checks once more at the
//!   end. Stopped code may therefore leave arrays half written.
//! - The limits of an outer scope hold inside of an inner one.
//! - Nothing here allocates or frees arrays: claims are a count, kept by those who do.

mod memory;
mod signal;
mod watchdog;

pub use memory::{Claim, claim, room};
use signal::Signal;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use watchdog::Watch;

/// Why work was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// [`Interrupt::interrupt`] was called.
    #[error("interrupted")]
    Interrupted,
    /// The time limit was reached.
    #[error("stopped: the time limit was reached")]
    Timeout,
    /// An allocation would exceed the memory limit.
    #[error(
        "stopped: {wanted} more bytes of memory exceed the limit of {limit} bytes, of which {used} are \
         in use"
    )]
    Memory {
        /// Bytes that were to be allocated.
        wanted: u64,
        /// Bytes in use before.
        used: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The time limit cannot be enforced: the system gives no thread to watch it.
    #[error("a time limit needs a thread that watches it, and this system does not give one")]
    NoWatchdog,
}

/// A flag that stops all work which was given it, from any thread. Clones are the same flag.
///
/// ```
/// use tegula_limits::{Interrupt, Limits, Stopped, check};
///
/// let interrupt = Interrupt::new();
/// let limits = Limits::new().interrupt(&interrupt);
/// let other = interrupt.clone();
/// std::thread::spawn(move || other.interrupt());
/// let endless = || -> Result<(), Stopped> {
///     loop {
///         check()?;
///     }
/// };
/// assert_eq!(limits.within(endless), Err(Stopped::Interrupted));
/// ```
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Signal>);

impl Interrupt {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag, for good: work that was given it stops, and work that will be does not begin.
    pub fn interrupt(&self) {
        self.0.raise(Stopped::Interrupted);
    }

    /// Whether the flag is set.
    pub fn is_interrupted(&self) -> bool {
        self.0.cause().is_some()
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.is_interrupted();
        f.debug_tuple("Interrupt").field(&state).finish()
    }
}

/// What a run or a compilation may take. By default everything.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Limits {
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How many bytes its arrays may have at once: those that it allocates, not those it is given.
    pub memory: Option<u64>,
    /// What stops it.
    pub interrupt: Option<Interrupt>,
}

impl Limits {
    /// No limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long the work may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many bytes the work's arrays may have at once.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Gives the work a flag that stops it.
    #[must_use]
    pub fn interrupt(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        self.timeout.is_none() && self.memory.is_none() && self.interrupt.is_none()
    }

    /// Does work within these limits, and those of the scopes around it. The timeout begins now.
    ///
    /// # Errors
    /// What the work fails with, or why it was stopped.
    pub fn within<R, E: From<Stopped>>(&self, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        if self.is_none() {
            return unless_stopped(work);
        }
        let (scope, _watch) = Scope::new(self)?;
        scope.enter(|| unless_stopped(work))
    }
}

/// Does work; what it gives, an error too, means nothing if it was stopped.
fn unless_stopped<R, E: From<Stopped>>(work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    check()?;
    let result = work();
    check()?;
    result
}

/// How many scopes are raised and not yet over.
static RAISED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// The limits that hold for what a thread does. It can be carried to other threads.
#[derive(Clone)]
pub struct Scope(Arc<Limited>);

struct Limited {
    signal: Arc<Signal>,
    /// The most bytes.
    memory: u64,
    /// Bytes claimed now.
    used: AtomicU64,
    outer: Option<Scope>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("cause", &self.0.signal.cause())
            .finish_non_exhaustive()
    }
}

impl Scope {
    fn new(limits: &Limits) -> Result<(Self, Option<Watch>), Stopped> {
        let signal = Arc::new(Signal::counted(&RAISED));
        let outer = current();
        if let Some(Scope(outer)) = &outer {
            outer.signal.followed_by(&signal);
        }
        if let Some(Interrupt(interrupt)) = &limits.interrupt {
            interrupt.followed_by(&signal);
        }
        let watch = match limits.timeout {
            Some(timeout) => watchdog::watch(timeout, &signal)?,
            None => None,
        };
        let scope = Self(Arc::new(Limited {
            signal,
            memory: limits.memory.unwrap_or(u64::MAX),
            used: AtomicU64::new(0),
            outer,
        }));
        Ok((scope, watch))
    }

    /// Does work on this thread within the scope.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Restores the scope of before, also after a panic.
        struct Leave(Option<Scope>);
        impl Drop for Leave {
            fn drop(&mut self) {
                let before = self.0.take();
                CURRENT.with(|current| *current.borrow_mut() = before);
            }
        }
        let before = CURRENT.with(|current| current.borrow_mut().replace(self.clone()));
        let _leave = Leave(before);
        work()
    }

    /// Fails if the scope was stopped.
    ///
    /// # Errors
    /// Why it was.
    pub fn check(&self) -> Result<(), Stopped> {
        self.0.signal.cause().map_or(Ok(()), Err)
    }
}

/// The scope of this thread, to be [entered](Scope::enter) on another one.
pub fn current() -> Option<Scope> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Does work on this thread within a scope that another thread gave, if it was in one.
pub fn enter<R>(scope: Option<&Scope>, work: impl FnOnce() -> R) -> R {
    match scope {
        Some(scope) => scope.enter(work),
        None => work(),
    }
}

/// Fails if the work of this thread is to stop. Takes about a nanosecond.
///
/// # Errors
/// Why it is to stop.
#[inline]
pub fn check() -> Result<(), Stopped> {
    match RAISED.load(Ordering::Relaxed) {
        0 => Ok(()),
        _ => check_current(),
    }
}

/// Whether the work of this thread is to stop.
#[inline]
pub fn is_stopped() -> bool {
    check().is_err()
}

#[cold]
fn check_current() -> Result<(), Stopped> {
    CURRENT.with(|current| match &*current.borrow() {
        Some(scope) => scope.check(),
        None => Ok(()),
    })
}

/// The stop flag of a thread's scope, for loops that look at it directly: generated code, for one.
#[derive(Clone, Debug)]
pub struct StopFlag(Option<Scope>);

impl StopFlag {
    /// The flag of this thread's scope.
    pub fn current() -> Self {
        Self(current())
    }

    /// Fails if the flag is set.
    ///
    /// # Errors
    /// Why it is.
    #[inline]
    pub fn check(&self) -> Result<(), Stopped> {
        self.0.as_ref().map_or(Ok(()), Scope::check)
    }

    /// The address of the flag, valid as long as this exists: a byte that is zero until the work is to stop.
    pub fn address(&self) -> *const u8 {
        static NEVER: AtomicU8 = AtomicU8::new(0);
        let flag = self
            .0
            .as_ref()
            .map_or(&NEVER, |scope| scope.0.signal.flag());
        flag.as_ptr().cast_const()
    }
}

#[cfg(test)]
mod tests;
