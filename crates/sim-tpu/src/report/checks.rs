//! How each check was made: proved before the program ran, for all values of its
//! variables, or executed, for the values it ran with.

use super::Report;

/// How a check was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Proved before the run, for every value of the variables.
    Proved,
    /// Executed, for the values of the run.
    Executed,
    /// Not made.
    NotMade,
}

impl How {
    /// The name in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Executed => "executed",
            Self::NotMade => "not checked",
        }
    }
}

/// A group of checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// A short description of what is checked.
    pub what: &'static str,
    /// The codes of its findings.
    pub codes: &'static str,
    /// How the checks were made.
    pub how: How,
    /// What they covered, or why they were not made.
    pub extent: String,
}

impl Report {
    /// The groups of checks, with how each was made.
    pub fn checks(&self) -> Vec<Check> {
        let check = |what, codes, how, extent: String| Check {
            what,
            codes,
            how,
            extent,
        };
        let proofs = &self.alignment;
        let alignment = match (proofs.proved, proofs.failed) {
            (0, 0) => "no dynamic offsets".to_owned(),
            (proved, 0) => count(proved as u64, "offset"),
            (proved, failed) => {
                format!(
                    "{}; {failed} could not be proved, and are findings",
                    count(proved as u64, "offset")
                )
            }
        };
        let run = format!(
            "{}, {}",
            count(self.steps, "step"),
            match self.copies {
                1 => "1 copy".to_owned(),
                n => format!("{n} copies"),
            }
        );
        let padding = match (self.functional, self.fits) {
            (true, _) => (How::Executed, "element by element".to_owned()),
            (false, true) => (How::NotMade, "no values were computed".to_owned()),
            (false, false) => (How::NotMade, "it does not fit".to_owned()),
        };
        let mut checks = vec![
            check(
                "tiles and types",
                "TG010 TG012",
                How::Proved,
                "every statement".to_owned(),
            ),
            check("alignment of offsets", "TG011", How::Proved, alignment),
            check(
                "room, bounds, first writes, races, waits, lives",
                "TG001-003 TG020 TG021 TG030 TG040-042 TG050-054 TG060-062",
                How::Executed,
                run,
            ),
            check("padding that reaches data", "TG031", padding.0, padding.1),
        ];
        if self.free_order {
            checks.push(check(
                "free order of `parallel` dimensions",
                "TG030 TG042",
                How::Executed,
                "in program order and in reverse order".to_owned(),
            ));
        }
        checks
    }
}

fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}
