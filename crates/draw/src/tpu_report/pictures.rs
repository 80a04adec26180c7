//! The two pictures over time: the work of each engine, and the buffers in VMEM.

use super::{Subject, colour, escape};
use std::fmt::Write;
use tegula_sim_tpu::engine::{Engine, Span, SpanKind};
use tegula_sim_tpu::program::Space;
use tegula_sim_tpu::report::{Occupancy, bytes_text, seconds_text};

/// The width of a picture, in SVG units.
const WIDTH: f64 = 1000.0;
/// The height of an engine's row.
const ROW: f64 = 26.0;
/// The width of the column of row names.
const NAMES: f64 = 150.0;
/// Spans of one engine that are closer than this fraction of the picture are drawn as one.
const NEAR: f64 = 1.0 / 4000.0;
/// The height of the picture of VMEM.
const MEMORY: f64 = 260.0;

/// The height of the axis with its ticks and caption.
const AXIS: f64 = 42.0;
/// The approximate number of ticks of an axis.
const TICKS: f64 = 6.0;

/// The most buffers that are named below the picture of VMEM.
const MOST_NAMES: usize = 10;

/// Spans that are drawn as one rectangle.
struct Merged {
    from: f64,
    to: f64,
    /// The seconds of it in which the engine worked.
    busy: f64,
    count: usize,
    line: u32,
    bytes: i64,
    kind: SpanKind,
}

/// Draws what each engine did over time.
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
    let height = ROW * used.len() as f64 + AXIS;
    open(page, height, "engine activity over time", end);
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
    timeline_legend(page, spans, &used);
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

/// Draws ticks at round times below a picture, and their unit. When the page zooms, its script
/// draws them again by the same rule.
fn axis(page: &mut String, height: f64, end: f64) {
    let (scale, unit) = unit_of(end);
    let step = round_step(end / TICKS);
    let _ = writeln!(page, "<g class=\"axis\" data-top=\"{:.1}\">", height - AXIS);
    for number in 0.. {
        let time = f64::from(number) * step;
        if time > end * 1.000_001 {
            break;
        }
        let x = NAMES + time / end * (WIDTH - NAMES);
        let anchor = if x > WIDTH - 20.0 { "end" } else { "middle" };
        // As many decimals as the step has.
        let digits = (-(step / scale).log10().floor()).max(0.0) as usize;
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{:.digits$}</text>",
            height - AXIS,
            height - AXIS + 5.0,
            height - AXIS + 18.0,
            time / scale
        );
    }
    let _ = writeln!(
        page,
        "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"middle\">time since the start, in {unit}</text>\n</g>",
        NAMES + (WIDTH - NAMES) / 2.0,
        height - 4.0
    );
}

/// The unit in which a time is shown, and its length in seconds.
fn unit_of(seconds: f64) -> (f64, &'static str) {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "\u{b5}s")];
    let found = units.into_iter().find(|(scale, _)| seconds >= *scale);
    found.unwrap_or((1e-9, "ns"))
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-15).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let found = steps
        .into_iter()
        .find(|step| step * power >= least * 0.999_999);
    found.unwrap_or(10.0) * power
}

/// The CSS class of a span's colour.
fn class_of(engine: Engine, kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Wait => "wait",
        SpanKind::Launch => "launch",
        SpanKind::Issue => "scalar",
        SpanKind::Work => colour(engine),
    }
}

/// Explains the colours of the timeline.
fn timeline_legend(page: &mut String, spans: &[Span], used: &[Engine]) {
    page.push_str("<p class=\"legend\">");
    let mut entry = |class: &str, text: &str| {
        let _ = write!(page, "<span><i class=\"dot {class}\"></i>{text}</span> ");
    };
    for &engine in used {
        if engine != Engine::Scalar {
            entry(colour(engine), engine.name());
        }
    }
    let kinds = [
        (SpanKind::Launch, "starting kernels"),
        (SpanKind::Issue, "issuing statements and stepping loops"),
        (SpanKind::Wait, "waiting"),
    ];
    for (kind, text) in kinds {
        if spans.iter().any(|span| span.kind == kind) {
            entry(class_of(Engine::Scalar, kind), text);
        }
    }
    page.push_str("</p>\n");
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
                    && last.kind == span.kind
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
                kind: span.kind,
            }),
        }
    }
    merged
}

fn rectangle(page: &mut String, subject: &Subject<'_>, engine: Engine, span: &Merged, end: f64) {
    let x = span.from / end * 1000.0;
    let width = ((span.to - span.from) / end * 1000.0).max(0.2);
    let class = class_of(engine, span.kind);
    let mut title = match (span.kind, span.line) {
        (SpanKind::Wait, _) => "waits".to_owned(),
        (SpanKind::Launch, _) => "starts a kernel".to_owned(),
        (SpanKind::Issue, _) => "issues statements and steps loops".to_owned(),
        (SpanKind::Work, 0) => format!("{} spans", span.count),
        (SpanKind::Work, line) => escape(subject.lines.get(line)),
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

/// Draws the buffers in VMEM over time.
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
    let height = MEMORY + AXIS;
    open(page, height, "VMEM contents over time", end);
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

/// Names the buffers that hold the most bytes for the longest time, with their colours.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_at_round_times() {
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        close(round_step(0.9e-6), 1e-6);
        close(round_step(1.2e-6), 2e-6);
        close(round_step(2e-6), 2e-6);
        close(round_step(3e-7), 5e-7);
        close(round_step(7.0), 10.0);
        assert_eq!(unit_of(6.5e-6).1, "\u{b5}s");
        assert_eq!(unit_of(2e-10).1, "ns");
    }

    #[test]
    fn an_axis_says_what_it_counts() {
        let mut page = String::new();
        axis(&mut page, 100.0, 6.57e-6);
        for tick in [
            ">0<",
            ">2<",
            ">4<",
            ">6<",
            "time since the start, in \u{b5}s",
        ] {
            assert!(page.contains(tick), "{tick}: {page}");
        }
        assert!(!page.contains(">8<"));
    }
}
