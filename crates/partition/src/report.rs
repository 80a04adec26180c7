//! The report of the partitioner's decisions and their reasons.

use crate::propagate::CutReason;
use std::fmt;
use std::sync::Arc;

/// An exchange that the partitioner inserted into the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The operation: `all-gather`, `all-reduce`, ....
    pub operation: &'static str,
    /// The instruction of the original program that needs it.
    pub site: Arc<str>,
    /// The bytes that each device receives.
    pub bytes: i64,
    /// The purpose.
    pub reason: String,
}

/// The sharding of one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The instruction; a tuple has an entry for each array.
    pub name: Arc<str>,
    /// The sharding, as HLO writes it.
    pub sharding: String,
    /// The reason for each dimension that is cut.
    pub reasons: Vec<CutReason>,
}

/// A remark on an operation that is not simply computed on the parts of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The instruction.
    pub name: Arc<str>,
    /// The remark.
    pub text: String,
}

/// All decisions, in the order of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The sharding of each array.
    pub choices: Vec<Choice>,
    /// The collectives.
    pub exchanges: Vec<Exchanged>,
    /// Remarks on operations.
    pub notes: Vec<Note>,
}

impl Report {
    /// The bytes that each device receives in one run, counting loops once.
    pub fn bytes(&self) -> i64 {
        self.exchanges.iter().map(|exchange| exchange.bytes).sum()
    }

    /// All entries for the instruction of this name, as text.
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
