//! Logging to standard error, and the Chrome trace of passes and of the steps of a run: kernels,
//! library calls, copies.
//!
//! Passes are spans of level INFO, which are logged and traced. The steps of a run are spans of
//! level TRACE with a field `name`, which are only traced.

use crate::terminal::output::complain;
use crate::terminal::progress;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tracing::span::{Attributes, Id};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// A trace that is being recorded.
pub(crate) struct Trace {
    path: Option<PathBuf>,
    events: Arc<Mutex<Vec<Value>>>,
}

/// Starts logging and tracing as requested.
pub(crate) fn start(verbose: bool, path: Option<PathBuf>) -> Trace {
    let events = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder {
        start: Instant::now(),
        open: Mutex::new(HashMap::new()),
        events: Arc::clone(&events),
        verbose,
        keep: path.is_some(),
    };
    // A second call in the same process (in tests) keeps the first subscriber.
    if verbose || path.is_some() {
        let _ = tracing_subscriber::registry().with(recorder).try_init();
    } else if progress::is_wanted() {
        let spinner = progress::start().with_filter(LevelFilter::INFO);
        let _ = tracing_subscriber::registry().with(spinner).try_init();
    }
    Trace { path, events }
}

impl Trace {
    /// Writes the trace file, if one is requested.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        super::terminal::result_file::write(path, json!({ "traceEvents": *events }).to_string())
    }
}

/// The name of a step of a run.
#[derive(Default)]
struct StepName(Option<String>);

impl tracing::field::Visit for StepName {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        if field.name() == "name" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}

/// Records each span as one complete event, in microseconds.
struct Recorder {
    start: Instant,
    open: Mutex<HashMap<u64, Instant>>,
    events: Arc<Mutex<Vec<Value>>>,
    verbose: bool,
    keep: bool,
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        self.keep || *metadata.level() <= tracing::Level::INFO
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut name = StepName::default();
        attributes.record(&mut name);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(name);
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(id.into_u64(), Instant::now());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(from), Some(span)) = (open.remove(&id.into_u64()), context.span(&id)) else {
            return;
        };
        let took = from.elapsed();
        let extensions = span.extensions();
        let step = extensions.get::<StepName>().and_then(|s| s.0.as_deref());
        let name = step.unwrap_or(span.name());
        if self.verbose && *span.metadata().level() <= tracing::Level::INFO {
            let ms = took.as_secs_f64() * 1e3;
            complain(format_args!("{ms:>10.3} ms  {name}"));
        }
        if self.keep {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            events.push(json!({
                "name": name,
                "ph": "X",
                "pid": 1,
                "tid": 1,
                "ts": (from - self.start).as_secs_f64() * 1e6,
                "dur": took.as_secs_f64() * 1e6,
            }));
        }
    }
}
