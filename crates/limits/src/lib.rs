//! Limits of a run or a compilation: a timeout, a memory limit and an interrupt flag, in one
//! mechanism for all targets.
//!
//! [`Limits::within`] runs work in a *scope*. Code that may take long calls [`check`] regularly,
//! and code that is about to allocate arrays [claims](claim) their bytes. Both return [`Stopped`]
//! as an error once a limit of the scope, or of an enclosing scope, is exceeded. Scopes belong to
//! threads: code that hands work to another thread enters the [`current`] scope there.
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
//! Everything that can stop work is a *signal* that is raised once: an [`Interrupt`] is one, and
//! each scope has one. A scope's signal is raised along with its interrupt and with the enclosing
//! scope; a watchdog thread raises the scopes whose deadline has passed. The process counts the
//! raised scopes, so that a check only loads one number, which is nearly always zero. Generated
//! code loads the flag of its own scope ([`StopFlag`]).
//!
//! # Invariants
//! - Stopped work returns an error, never a result: [`Limits::within`] checks once more at the end.
//!   Stopped code may therefore leave arrays half written.
//! - The limits of an outer scope also apply inside an inner one.
//! - This crate allocates and frees no arrays: claims are a count, kept by the code that allocates.

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

/// The reason why work was stopped.
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
        /// The bytes to be allocated.
        wanted: u64,
        /// The bytes in use before.
        used: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The time limit cannot be enforced: the system provides no thread for the watchdog.
    #[error("a time limit needs a thread that watches it, and this system does not give one")]
    NoWatchdog,
}

/// A flag that any thread can set to stop all work that it was given to. Clones share the flag.
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

    /// Sets the flag permanently: work with this flag stops, and later work does not begin.
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

/// The limits of a run or a compilation. By default there are none.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Limits {
    /// The longest time that it may take.
    pub timeout: Option<Duration>,
    /// The most bytes that its arrays may take at once: the arrays that it allocates, not its
    /// arguments.
    pub memory: Option<u64>,
    /// The flag that stops it.
    pub interrupt: Option<Interrupt>,
}

impl Limits {
    /// No limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the longest time that the work may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the most bytes that the work's arrays may take at once.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the flag that stops the work.
    #[must_use]
    pub fn interrupt(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Whether there are no limits.
    pub fn is_none(&self) -> bool {
        self.timeout.is_none() && self.memory.is_none() && self.interrupt.is_none()
    }

    /// Runs work within these limits and those of the enclosing scopes. The timeout starts now.
    ///
    /// # Errors
    /// The work's error, or the reason why it was stopped.
    pub fn within<R, E: From<Stopped>>(&self, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        if self.is_none() {
            return unless_stopped(work);
        }
        let (scope, _watch) = Scope::new(self)?;
        scope.enter(|| unless_stopped(work))
    }
}

/// Runs work; if it was stopped, its result or error is discarded.
fn unless_stopped<R, E: From<Stopped>>(work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    check()?;
    let result = work();
    check()?;
    result
}

/// The number of scopes that are raised and still exist.
static RAISED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// The limits that apply to a thread's work. A scope can be entered on other threads.
#[derive(Clone)]
pub struct Scope(Arc<Limited>);

struct Limited {
    signal: Arc<Signal>,
    /// The most bytes that may be claimed.
    memory: u64,
    /// The bytes that are claimed now.
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

    /// Runs work on this thread within the scope.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Restores the previous scope when dropped, also after a panic.
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
    /// The reason why it was stopped.
    pub fn check(&self) -> Result<(), Stopped> {
        self.0.signal.cause().map_or(Ok(()), Err)
    }
}

/// The scope of this thread, to be [entered](Scope::enter) on another one.
pub fn current() -> Option<Scope> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Runs work on this thread within another thread's scope, if that thread was in one.
pub fn enter<R>(scope: Option<&Scope>, work: impl FnOnce() -> R) -> R {
    match scope {
        Some(scope) => scope.enter(work),
        None => work(),
    }
}

/// Fails if this thread's work must stop. Takes about a nanosecond.
///
/// # Errors
/// The reason why it must stop.
#[inline]
pub fn check() -> Result<(), Stopped> {
    match RAISED.load(Ordering::Relaxed) {
        0 => Ok(()),
        _ => check_current(),
    }
}

/// Whether this thread's work must stop.
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

/// The stop flag of a thread's scope, for loops that read it directly, such as generated code.
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
    /// The reason why it is set.
    #[inline]
    pub fn check(&self) -> Result<(), Stopped> {
        self.0.as_ref().map_or(Ok(()), Scope::check)
    }

    /// The address of the flag, a byte that is zero until the work must stop. It is valid as long
    /// as this value exists.
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
