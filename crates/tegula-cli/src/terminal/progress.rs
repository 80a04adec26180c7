//! A spinner on standard error that names the running pass. It appears after a command has worked
//! for a second and disappears before the first line is printed.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;
use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The spinner appears only after this time, because nobody could read it in a shorter command.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two frames of the spinner.
const TICK: Duration = Duration::from_millis(120);

static SPINNER: OnceLock<ProgressBar> = OnceLock::new();

/// Tells whether standard error is a terminal, so that a spinner is visible.
pub(crate) fn is_wanted() -> bool {
    std::io::stderr().is_terminal()
}

/// Starts the spinner, which becomes visible only if the command takes long.
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

/// Removes the spinner for good, because something is printed or time is measured.
pub(crate) fn clear() {
    if let Some(bar) = SPINNER.get()
        && !bar.is_finished()
    {
        bar.finish_and_clear();
    }
}

/// Shows the name of each pass that starts.
pub(crate) struct Spinner;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spinner {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if let Some(bar) = SPINNER.get() {
            bar.set_message(attributes.metadata().name());
        }
    }
}
