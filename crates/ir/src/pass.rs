//! How a pipeline runs its passes: each in a tracing span with its name, and with an observer that
//! may look at what each pass gives.

use std::fmt;

/// What an observer is told: the pass's name, and the text form of what it gave.
type Observer<'a> = &'a mut dyn FnMut(&'static str, &dyn fmt::Display);

/// Runs passes.
#[derive(Default)]
pub struct PassManager<'a> {
    observer: Option<Observer<'a>>,
}

impl<'a> PassManager<'a> {
    /// Runs passes that nobody looks at.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs passes and shows the observer what each gives. A pass that works on one kernel at a
    /// time is shown once for each kernel that it changed.
    pub fn observed(observer: Observer<'a>) -> Self {
        Self {
            observer: Some(observer),
        }
    }

    /// Runs a pass whose result somebody else [shows](Self::show).
    pub fn run<T>(&mut self, name: &'static str, pass: impl FnOnce() -> T) -> T {
        let _span = tracing::info_span!("pass", name).entered();
        pass()
    }

    /// As [`Self::run`], for a pass over one kernel of many: its span has level DEBUG.
    pub fn run_on_kernel<T>(&mut self, name: &'static str, pass: impl FnOnce() -> T) -> T {
        let _span = tracing::debug_span!("pass", name).entered();
        pass()
    }

    /// Shows what a pass gave.
    pub fn show(&mut self, name: &'static str, result: &dyn fmt::Display) {
        if let Some(observer) = &mut self.observer {
            observer(name, result);
        }
    }
}

impl fmt::Debug for PassManager<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassManager")
            .field("observed", &self.observer.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_observer_sees_results_in_order() {
        let mut seen = Vec::new();
        let mut observer = |name, result: &dyn fmt::Display| seen.push(format!("{name}: {result}"));
        let mut passes = PassManager::observed(&mut observer);
        let one = passes.run("first", || 1);
        passes.show("first", &one);
        let two = passes.run("second", || one + 1);
        passes.show("second", &two);
        assert_eq!(seen, ["first: 1", "second: 2"]);
    }
}
