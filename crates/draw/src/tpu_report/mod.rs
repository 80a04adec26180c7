//! The report of a simulation as one self-contained HTML page: a summary and the findings with
//! their source first, then where time went, the use of VMEM over time, each statement on the
//! roofline, and what padding costs.
//!
//! Pictures are SVG that is drawn here; the page's script only zooms and shows details under the
//! pointer. The page follows the reader's light or dark scheme, and the same report gives the same
//! bytes.

mod pictures;
mod roofline;
mod tables;

use std::fmt::Write;
use tegula_sim_tpu::Lines;
use tegula_sim_tpu::engine::{Cause, Engine};
use tegula_sim_tpu::program::TpuProgram;
use tegula_sim_tpu::report::Report;
use tegula_target::Chip;

/// The style sheet of a report.
pub const STYLE: &str = include_str!("style.css");
/// A script that defines `zoomPictures(root)`, which makes the pictures over time below `root`
/// zoomable.
pub const SCRIPT: &str = include_str!("script.js");

/// The subject of a page.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The simulated program.
    pub program: &'a TpuProgram,
    /// The result of the simulation.
    pub report: &'a Report,
    /// The chip.
    pub chip: &'a Chip,
    /// The names of the program's lines.
    pub lines: Lines<'a>,
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its id in links.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Its content as HTML, for a page with [`STYLE`] and [`SCRIPT`].
    pub html: String,
}

/// The sections of a report after its summary and findings, in order.
pub fn sections(subject: &Subject<'_>) -> Vec<Section> {
    type Draw = fn(&mut String, &Subject<'_>);
    let parts: [(&str, &str, Draw); 6] = [
        ("timeline", "Timeline", pictures::timeline),
        ("vmem", "VMEM over time", pictures::occupancy),
        ("time", "Where the time went", |page, subject| {
            tables::engines(page, subject);
            tables::causes(page, subject);
        }),
        ("roofline", "Roofline", roofline::roofline),
        ("padding", "Useful and padded bytes", tables::padding),
        ("checks", "How it was checked", tables::checks),
    ];
    let section = |(id, title, draw): (&'static str, &'static str, Draw)| {
        let mut html = String::new();
        draw(&mut html, subject);
        Section { id, title, html }
    };
    parts.into_iter().map(section).collect()
}

/// The summary and the findings, as HTML.
pub fn summary(subject: &Subject<'_>) -> String {
    let mut page = String::new();
    tables::summary(&mut page, subject);
    tables::findings(&mut page, subject);
    page
}

/// The whole page as HTML.
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
    page.push_str(&summary(subject));
    for Section { id, title, html } in sections(subject) {
        let _ = writeln!(page, "<section id=\"{id}\">\n<h2>{title}</h2>");
        page.push_str(&html);
        page.push_str("</section>\n");
    }
    tables::assumptions(&mut page, subject);
    let _ = write!(
        page,
        "</main>\n<script>\n{SCRIPT}\nzoomPictures(document);\n</script>\n</body>\n</html>\n"
    );
    page
}

/// The text with HTML's special characters escaped.
pub(crate) fn escape(text: &str) -> String {
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

/// The CSS class of an engine's colour.
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

/// The text of a cause, and the CSS class of its colour.
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
        Cause::Launch => ("starting kernels".to_owned(), "launch"),
        Cause::Issue => ("issuing statements and stepping loops".to_owned(), "scalar"),
        Cause::Core => ("waiting for other cores".to_owned(), "wait"),
    }
}
