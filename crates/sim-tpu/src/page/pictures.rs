//! The two pictures over time: what each engine did, and what lay where in VMEM.

use super::{Subject, colour, escape};
use crate::engine::{Engine, Span};
use crate::program::Space;
use crate::report::{Occupancy, bytes_text, seconds_text};
use std::fmt::Write;

/// The width of a picture, in its own units.
const WIDTH: f64 = 1000.0;
/// The height of an engine's row.
const ROW: f64 = 26.0;
/// Room for the names of rows.
const NAMES: f64 = 150.0;
/// Spans of one engine that are nearer than this share of the picture are drawn as one.
const NEAR: f64 = 1.0 / 4000.0;
/// The height of the picture of VMEM.
const MEMORY: f64 = 260.0;

/// Buffers that are named below the picture of VMEM.
const MOST_NAMES: usize = 10;

/// What is drawn as one rectangle.
struct Merged {
    from: f64,
    to: f64,
    /// Time in it that the engine worked.
    busy: f64,
    count: usize,
    line: u32,
    bytes: i64,
    is_wait: bool,
}

/// What each engine did when.
pub(super) fn timeline(page: &mut String, subject: &Subject<'_>) {
    let report = subject.report;
    let (spans, left_out) = report.engines.timeline();
    if spans.is_empty() || report.seconds <= 0.0 {
        page.push_str("<p class=\"note\">Nothing was recorded.</p>\n");
        return;
    }
    let end = spans
        .iter()
        .map(|span| span.to)
        .fold(report.seconds, f64::max);
    let used: Vec<Engine> = Engine::ALL
        .into_iter()
        .filter(|engine| spans.iter().any(|span| span.engine == *engine))
        .collect();
    let height = ROW * used.len() as f64 + 24.0;
    open(page, height, "what each engine did when", end);
    for (row, &engine) in used.iter().enumerate() {
        let top = row as f64 * ROW;
        let _ = writeln!(
            page,
            "<text class=\"name\" x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            top + ROW * 0.65,
            engine.name()
        );
        let _ = writeln!(
            page,
            "<svg class=\"zoom\" x=\"{NAMES}\" y=\"{top:.1}\" width=\"{:.0}\" height=\"{ROW}\" viewBox=\"0 0 1000 {ROW}\" preserveAspectRatio=\"none\">",
            WIDTH - NAMES
        );
        for merged in merge(spans, engine, end) {
            rectangle(page, subject, engine, &merged, end);
        }
        page.push_str("</svg>\n");
    }
    axis(page, height, end);
    page.push_str("</svg></div>\n");
    if left_out > 0 {
        let _ = writeln!(
            page,
            "<p class=\"note\">{left_out} more spans are not drawn.</p>"
        );
    }
}

fn open(page: &mut String, height: f64, label: &str, end: f64) {
    let _ = writeln!(
        page,
        "<div class=\"picture\"><svg class=\"over-time\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         role=\"img\" aria-label=\"{label}\" data-end=\"{end:e}\">"
    );
}

/// Ticks of time below a picture.
fn axis(page: &mut String, height: f64, end: f64) {
    page.push_str("<g class=\"axis\">\n");
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        let x = NAMES + share * (WIDTH - NAMES);
        let anchor = match tick {
            0 => "start",
            5 => "end",
            _ => "middle",
        };
        let _ = writeln!(
            page,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" data-share=\"{share}\">{}</text>",
            height - 6.0,
            seconds_text(share * end)
        );
    }
    page.push_str("</g>\n");
}

fn merge(spans: &[Span], engine: Engine, end: f64) -> Vec<Merged> {
    let mut own: Vec<&Span> = spans.iter().filter(|span| span.engine == engine).collect();
    own.sort_by(|a, b| a.from.total_cmp(&b.from));
    let near = end * NEAR;
    let mut merged: Vec<Merged> = Vec::new();
    for span in own {
        let length = span.to - span.from;
        match merged.last_mut() {
            Some(last)
                if span.from - last.to < near
                    && (last.is_wait == span.is_wait)
                    && (length < near || last.line == span.line) =>
            {
                last.to = last.to.max(span.to);
                last.busy += length;
                last.count += 1;
                last.bytes += span.bytes;
                if last.line != span.line {
                    last.line = 0;
                }
            }
            _ => merged.push(Merged {
                from: span.from,
                to: span.to,
                busy: length,
                count: 1,
                line: span.line,
                bytes: span.bytes,
                is_wait: span.is_wait,
            }),
        }
    }
    merged
}

fn rectangle(page: &mut String, subject: &Subject<'_>, engine: Engine, span: &Merged, end: f64) {
    let x = span.from / end * 1000.0;
    let width = ((span.to - span.from) / end * 1000.0).max(0.2);
    let class = if span.is_wait { "wait" } else { colour(engine) };
    let mut title = match (span.is_wait, span.line) {
        (true, _) => "waits".to_owned(),
        (false, 0) => format!("{} spans", span.count),
        (false, line) => escape(subject.lines.get(line)),
    };
    if span.line > 0 {
        let _ = write!(title, ", line {}", span.line);
    }
    if span.count > 1 && span.line > 0 {
        let _ = write!(title, ", {} times", span.count);
    }
    if span.bytes > 0 {
        let _ = write!(title, ", {}", bytes_text(span.bytes));
    }
    let _ = writeln!(
        page,
        "<rect class=\"{class}\" x=\"{x:.3}\" y=\"3\" width=\"{width:.3}\" height=\"20\">\
         <title>{title}: {} from {}</title></rect>",
        seconds_text(span.busy),
        seconds_text(span.from)
    );
}

/// Where buffers lay in VMEM, over time.
pub(super) fn occupancy(page: &mut String, subject: &Subject<'_>) {
    let report = subject.report;
    let held: Vec<_> = report
        .occupancy
        .iter()
        .filter(|held| held.space == Space::Vmem)
        .collect();
    let top = held.iter().map(|held| held.offset + held.bytes).max();
    let (Some(top), true) = (top, report.seconds > 0.0) else {
        page.push_str("<p class=\"note\">Nothing lies in VMEM.</p>\n");
        return;
    };
    let (top, end) = (top.max(1) as f64, report.seconds);
    let height = MEMORY + 24.0;
    open(page, height, "what lies in VMEM when", end);
    for (share, value) in [(0.0, 0.0), (0.5, top / 2.0), (1.0, top)] {
        let y = MEMORY * (1.0 - share);
        let _ = writeln!(
            page,
            "<text class=\"name\" x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            (y + 4.0).clamp(10.0, MEMORY),
            bytes_text(value as i64)
        );
    }
    let _ = writeln!(
        page,
        "<svg class=\"zoom\" x=\"{NAMES}\" y=\"0\" width=\"{:.0}\" height=\"{MEMORY}\" viewBox=\"0 0 1000 {MEMORY}\" preserveAspectRatio=\"none\">",
        WIDTH - NAMES
    );
    for (number, held) in held.iter().enumerate() {
        let (x, to) = (held.from / end * 1000.0, held.to / end * 1000.0);
        let size = held.bytes as f64 / top * MEMORY;
        let y = MEMORY - (held.offset + held.bytes) as f64 / top * MEMORY;
        let _ = writeln!(
            page,
            "<rect class=\"held h{}\" x=\"{x:.3}\" y=\"{y:.2}\" width=\"{:.3}\" height=\"{:.2}\">\
             <title>{}: {} at {}, {} to {}</title></rect>",
            number % 8,
            (to - x).max(0.2),
            size.max(0.5),
            escape(&held.buffer),
            bytes_text(held.bytes),
            held.offset,
            seconds_text(held.from),
            seconds_text(held.to)
        );
    }
    page.push_str("</svg>\n");
    axis(page, height, end);
    page.push_str("</svg></div>\n");
    legend(page, &held);
}

/// The names of those that hold most for longest, with their colours.
fn legend(page: &mut String, held: &[&Occupancy]) {
    let share = |held: &Occupancy| held.bytes as f64 * (held.to - held.from);
    let mut order: Vec<(usize, &&Occupancy)> = held.iter().enumerate().collect();
    order.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)).then(a.0.cmp(&b.0)));
    page.push_str("<p class=\"legend\">");
    for (number, held) in order.iter().take(MOST_NAMES) {
        let _ = write!(
            page,
            "<span><i class=\"dot h{}\"></i>{} <small>{}</small></span> ",
            number % 8,
            escape(&held.buffer),
            bytes_text(held.bytes)
        );
    }
    if order.len() > MOST_NAMES {
        let _ = write!(
            page,
            "<small>and {} more; point at one for its name</small>",
            order.len() - MOST_NAMES
        );
    }
    page.push_str("</p>\n");
}
