//! The pass manager: runs each pass of a pipeline in a tracing span with its name, and shows each
//! result to an optional observer.

use std::fmt;

/// The observer's arguments are the pass's name and its result, which displays as text.
type Observer<'a> = &'a mut dyn FnMut(&'static str, &dyn fmt::Display);

/// Runs passes, optionally with an observer.
#[derive(Default)]
pub struct PassManager<'a> {
    observer: Option<Observer<'a>>,
}

impl<'a> PassManager<'a> {
    /// A pass manager without an observer.
    pub fn new() -> Self {
        Self::default()
    }

    /// A pass manager that shows each result to an observer. A pass over kernels shows each kernel
    /// that it changed.
    pub fn observed(observer: Observer<'a>) -> Self {
        Self {
            observer: Some(observer),
        }
    }

    /// Runs a pass. The caller [shows](Self::show) its result.
    pub fn run<T>(&mut self, name: &'static str, pass: impl FnOnce() -> T) -> T {
        let _span = tracing::info_span!("pass", name).entered();
        pass()
    }

    /// As [`Self::run`], for a pass over one kernel of many: its span has level DEBUG.
    pub fn run_on_kernel<T>(&mut self, name: &'static str, pass: impl FnOnce() -> T) -> T {
        let _span = tracing::debug_span!("pass", name).entered();
        pass()
    }

    /// Shows the result of a pass to the observer.
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
