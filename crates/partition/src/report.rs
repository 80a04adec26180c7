//! What the partitioner decided, and why.

use crate::propagate::CutReason;
use std::fmt;
use std::sync::Arc;

/// One exchange that the partitioner put into the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The operation: `all-gather`, `all-reduce`, ....
    pub operation: &'static str,
    /// The instruction of the program for which it is.
    pub site: Arc<str>,
    /// Bytes that each device receives.
    pub bytes: i64,
    /// What for.
    pub reason: String,
}

/// How one array is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The instruction; of a tuple, each array has a choice.
    pub name: Arc<str>,
    /// The sharding, as HLO writes it.
    pub sharding: String,
    /// By dimension that is cut: why.
    pub reasons: Vec<CutReason>,
}

/// How one operation is computed, where it is not simply on the parts of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The instruction.
    pub name: Arc<str>,
    /// What is done.
    pub text: String,
}

/// All decisions, in the order of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By array: how it is cut.
    pub choices: Vec<Choice>,
    /// The collectives.
    pub exchanges: Vec<Exchanged>,
    /// How operations are computed.
    pub notes: Vec<Note>,
}

impl Report {
    /// Bytes that each device receives in one run, loops counted once.
    pub fn bytes(&self) -> i64 {
        self.exchanges.iter().map(|exchange| exchange.bytes).sum()
    }

    /// What is known of the instruction of this name.
    pub fn why(&self, name: &str) -> Option<String> {
        let name = name.trim_start_matches('%');
        let mut text = String::new();
        let mut line = |line: fmt::Arguments<'_>| {
            use fmt::Write;
            let _ = writeln!(text, "{line}");
        };
        for choice in self.choices.iter().filter(|choice| &*choice.name == name) {
            line(format_args!("{name}: {}", choice.sharding));
            for reason in &choice.reasons {
                line(format_args!(
                    "  dimension {} in {} parts: {}",
                    reason.dim, reason.parts, reason.text
                ));
            }
        }
        for note in self.notes.iter().filter(|note| &*note.name == name) {
            line(format_args!("  {}", note.text));
        }
        for exchange in self
            .exchanges
            .iter()
            .filter(|exchange| &*exchange.site == name)
        {
            line(format_args!(
                "  {} of {} bytes: {}",
                exchange.operation, exchange.bytes, exchange.reason
            ));
        }
        (!text.is_empty()).then_some(text)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for exchange in &self.exchanges {
            writeln!(
                f,
                "{}: {} of {} bytes: {}",
                exchange.site, exchange.operation, exchange.bytes, exchange.reason
            )?;
        }
        for note in &self.notes {
            writeln!(f, "{}: {}", note.name, note.text)?;
        }
        Ok(())
    }
}
