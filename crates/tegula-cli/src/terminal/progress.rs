//! A spinner on standard error that names the pass that is running, once a command has worked for a
//! second. It goes away before the first line is printed.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;
use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// What takes less is over before anybody reads it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(120);

static SPINNER: OnceLock<ProgressBar> = OnceLock::new();

/// Whether anybody would see a spinner.
pub(crate) fn is_wanted() -> bool {
    std::io::stderr().is_terminal()
}

/// Starts to wait for a command that takes long.
pub(crate) fn start() -> Spinner {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed:>4.dim}") {
        bar.set_style(style);
    }
    bar.set_message("reading");
    let bar = SPINNER.get_or_init(|| bar);
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        if !bar.is_finished() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
        }
    });
    Spinner
}

/// Takes the spinner away for good: something is printed, or time is measured.
pub(crate) fn clear() {
    if let Some(bar) = SPINNER.get()
        && !bar.is_finished()
    {
        bar.finish_and_clear();
    }
}

/// Shows the name of each pass that begins.
pub(crate) struct Spinner;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spinner {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if let Some(bar) = SPINNER.get() {
            bar.set_message(attributes.metadata().name());
        }
    }
}
