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

use std::fmt::Write;
use tegula_sim_tpu::Lines;
use tegula_sim_tpu::engine::{Cause, Engine};
use tegula_sim_tpu::program::TpuProgram;
use tegula_sim_tpu::report::Report;
use tegula_target::Chip;

/// The styles of a report.
pub const STYLE: &str = include_str!("style.css");
/// Defines `zoomPictures(root)`, which makes the pictures over time below `root` zoom.
pub const SCRIPT: &str = include_str!("script.js");

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

/// A part of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name in links.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Its content as HTML, for a page with [`STYLE`] and [`SCRIPT`].
    pub html: String,
}

/// The parts of a report after its summary and findings, in their order.
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

/// What a reader wants to know first, and what is wrong, as HTML.
pub fn summary(subject: &Subject<'_>) -> String {
    let mut page = String::new();
    tables::summary(&mut page, subject);
    tables::findings(&mut page, subject);
    page
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

/// Text as HTML shows it.
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
        Cause::Launch => ("starting kernels".to_owned(), "launch"),
        Cause::Issue => ("issuing statements and stepping loops".to_owned(), "scalar"),
        Cause::Core => ("waiting for other cores".to_owned(), "wait"),
    }
}
