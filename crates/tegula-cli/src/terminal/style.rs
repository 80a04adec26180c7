//! Colours of the output. They are always written; the stream drops them if it cannot show them.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// Names and table heads.
pub(crate) const HEADING: Style = Style::new().bold();
/// Success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Errors.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Less important text.
pub(crate) const QUIET: Style = Style::new().dimmed();

/// Returns a text in a style.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Use colours on a terminal, unless the environment variable `NO_COLOR` is set.
    Auto,
    /// Use colours always.
    Always,
    /// Use no colours.
    Never,
}

impl Color {
    /// Applies the choice to standard output and standard error.
    pub(crate) fn apply(self) {
        let choice = match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}
