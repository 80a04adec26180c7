//! A report as one self-contained HTML page: what a reader wants to know first on top,
//! then where time went, what lay in VMEM when, each statement on the roofline, what
//! padding costs, and the findings with their source.
//!
//! Pictures are SVG, drawn here; the page's script only zooms and shows what is under
//! the pointer. It follows the reader's light or dark scheme, and the same report gives
//! the same bytes.

mod pictures;
mod roofline;
mod tables;

use crate::engine::{Cause, Engine};
use crate::program::TpuProgram;
use crate::report::Report;
use std::fmt::Write;
use tegula_target::Chip;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// What a line of the program is called.
#[derive(Clone, Copy, Debug)]
pub enum Lines<'a> {
    /// The lines of a kernel's text.
    Text(&'a str),
    /// By line from 1, the instruction that was lowered.
    Instructions(&'a [String]),
}

impl Lines<'_> {
    /// The text of a line.
    pub fn get(&self, line: u32) -> &str {
        let at = (line as usize).checked_sub(1);
        let found = match (self, at) {
            (Self::Text(text), Some(at)) => text.lines().nth(at),
            (Self::Instructions(names), Some(at)) => names.get(at).map(String::as_str),
            (_, None) => None,
        };
        found.unwrap_or("").trim()
    }

    /// What a line is called in a sentence.
    fn name(&self, line: u32) -> String {
        match self {
            Self::Instructions(_) if !self.get(line).is_empty() => self.get(line).to_owned(),
            _ => format!("line {line}"),
        }
    }
}

/// What a page is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What was simulated.
    pub program: &'a TpuProgram,
    /// What came of it.
    pub report: &'a Report,
    /// On what.
    pub chip: &'a Chip,
    /// The source.
    pub lines: Lines<'a>,
}

/// The page.
pub fn html(subject: &Subject<'_>) -> String {
    let Subject {
        program, report, ..
    } = subject;
    let name = escape(&program.name);
    let chip = escape(&report.chip);
    let mut page = String::with_capacity(1 << 16);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name} on {chip}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{name}</h1>\n<p class=\"where\">simulated on a TPU {chip}</p>\n</header>\n<main>\n"
    );
    tables::summary(&mut page, subject);
    tables::findings(&mut page, subject);
    section(&mut page, "timeline", "Timeline", |page| {
        pictures::timeline(page, subject);
    });
    section(&mut page, "vmem", "VMEM over time", |page| {
        pictures::occupancy(page, subject);
    });
    section(&mut page, "time", "Where the time went", |page| {
        tables::engines(page, subject);
        tables::causes(page, subject);
    });
    section(&mut page, "roofline", "Roofline", |page| {
        roofline::roofline(page, subject);
    });
    section(&mut page, "padding", "Useful and padded bytes", |page| {
        tables::padding(page, subject);
    });
    section(&mut page, "checks", "How it was checked", |page| {
        tables::checks(page, subject);
    });
    tables::assumptions(&mut page, subject);
    let _ = write!(
        page,
        "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    page
}

fn section(page: &mut String, id: &str, title: &str, content: impl FnOnce(&mut String)) {
    let _ = writeln!(page, "<section id=\"{id}\">\n<h2>{title}</h2>");
    content(page);
    page.push_str("</section>\n");
}

/// Text as HTML shows it.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

/// The class of an engine's colour.
fn colour(engine: Engine) -> &'static str {
    match engine {
        Engine::Scalar => "scalar",
        Engine::Matrix => "matrix",
        Engine::Vector => "vector",
        Engine::Memory => "memory",
        Engine::CrossLane => "lanes",
        Engine::CopyIn => "in",
        Engine::CopyOut => "out",
    }
}

/// What a cause is called, and the class of its colour.
fn cause_text(cause: Cause, lines: Lines<'_>) -> (String, &'static str) {
    match cause {
        Cause::Compute(engine) => (
            format!("computing, bound by the {}", engine.name()),
            colour(engine),
        ),
        Cause::Copy { engine, started } => (
            format!(
                "waiting for {} (begun in {})",
                engine.name(),
                lines.name(started)
            ),
            colour(engine),
        ),
        Cause::Launch => ("starting kernels".to_owned(), "scalar"),
        Cause::Issue => ("issuing statements and stepping loops".to_owned(), "scalar"),
        Cause::Core => ("waiting for other cores".to_owned(), "wait"),
    }
}
