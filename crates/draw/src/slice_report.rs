//! A page about a program on a slice of TPUs: how its time is spent, and a picture of the core and
//! the links over time.

use crate::tpu_report::escape;
use std::fmt::Write as _;
use tegula_sim_slice::{Event, Report, Row};
use tegula_sim_tpu::report::{bytes_text, seconds_text};

/// The style sheet, which is that of the report of one core.
const STYLE: &str = include_str!("tpu_report/style.css");

/// The width of the picture, in SVG units.
const WIDTH: f64 = 1120.0;
/// The width of the column of row names.
const LABELS: f64 = 70.0;
/// The height of a row.
const ROW: f64 = 34.0;
/// The least width of a box: narrower boxes are merged with adjacent ones.
const NARROW: f64 = 0.6;

/// The whole page as HTML.
pub fn html(name: &str, report: &Report) -> String {
    let (name, chip) = (escape(name), escape(&report.chip));
    let mut page = String::with_capacity(1 << 16);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name} on {0} {chip}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{name}</h1>\n<p class=\"where\">simulated on {0} devices of a TPU {chip}, {1}</p>\n\
         </header>\n<main>\n",
        report.devices,
        escape(&report.topology)
    );
    cards(&mut page, report);
    shares(&mut page, report);
    exchanges(&mut page, report);
    timelines(&mut page, report);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn cards(page: &mut String, report: &Report) {
    let memory = &report.memory;
    let fits = if memory.fits() { "good" } else { "bad" };
    let mut cards = vec![
        ("", seconds_text(report.seconds), "a step".to_owned()),
        (
            "",
            report.bound_by().name().to_owned(),
            "bound by".to_owned(),
        ),
        (
            fits,
            bytes_text(memory.peak as i64),
            format!("of {} a device", bytes_text(memory.capacity as i64)),
        ),
        (
            "",
            format!("{:.1} %", 100.0 * report.utilisation),
            "of the peak, in products".to_owned(),
        ),
    ];
    if let Some(mfu) = report.model_utilisation {
        cards.push(("", format!("{:.1} %", 100.0 * mfu), "MFU".to_owned()));
    }
    page.push_str("<div class=\"cards\">\n");
    for (class, value, what) in cards {
        let _ = writeln!(
            page,
            "<div class=\"card {class}\"><b>{}</b><span>{}</span></div>",
            escape(&value),
            escape(&what)
        );
    }
    page.push_str("</div>\n");
}

fn shares(page: &mut String, report: &Report) {
    page.push_str("<section id=\"time\">\n<h2>What the time is spent on</h2>\n<table>\n");
    for (share, seconds) in &report.shares {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{:.1} %</td></tr>",
            share.name(),
            seconds_text(*seconds),
            100.0 * seconds / report.seconds.max(f64::MIN_POSITIVE)
        );
    }
    page.push_str("</table>\n</section>\n");
}

fn exchanges(page: &mut String, report: &Report) {
    page.push_str(
        "<section id=\"links\">\n<h2>Collectives and links</h2>\n<table>\n<tr><th>collective</th>\
         <th>times</th><th>received by a device</th><th>on the links</th></tr>\n",
    );
    for (kind, total) in &report.collectives {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            kind.name(),
            total.count,
            bytes_text(total.bytes as i64),
            seconds_text(total.seconds)
        );
    }
    page.push_str("</table>\n<ul>\n");
    for (axis, ((chips, ring), busy)) in report.axes.iter().zip(&report.busy).enumerate() {
        let _ = writeln!(
            page,
            "<li>axis {axis}, a {} of {chips}: busy {:.1} % of the step</li>",
            if *ring { "ring" } else { "line" },
            100.0 * busy
        );
    }
    page.push_str("</ul>\n</section>\n");
}

/// Draws one picture of the whole step, and one of the first iteration of each loop.
fn timelines(page: &mut String, report: &Report) {
    let whole = Window {
        title: "The step".to_owned(),
        start: 0.0,
        seconds: report.seconds,
        depth: 0,
    };
    let loops = report.timeline.iter().filter(|event| event.what == "loop");
    let mut windows = vec![whole];
    for found in loops {
        // The first iteration consists of the events one level deeper that begin in it.
        let inside = report.timeline.iter().filter(|event| {
            event.depth == found.depth + 1
                && event.start >= found.start
                && event.start < found.start + found.seconds
        });
        let end = inside
            .map(|event| event.start + event.seconds)
            .fold(found.start, f64::max);
        if end > found.start {
            windows.push(Window {
                title: format!("An iteration of {}", found.name),
                start: found.start,
                seconds: end - found.start,
                depth: found.depth + 1,
            });
        }
    }
    for window in windows.iter().take(12) {
        let _ = writeln!(
            page,
            "<section>\n<h2>{} <small>({})</small></h2>",
            escape(&window.title),
            seconds_text(window.seconds)
        );
        picture(page, report, window);
        page.push_str("</section>\n");
    }
}

/// An interval of time that is drawn.
struct Window {
    title: String,
    start: f64,
    seconds: f64,
    depth: usize,
}

fn picture(page: &mut String, report: &Report, window: &Window) {
    let rows: Vec<Row> = std::iter::once(Row::Core)
        .chain((0..report.axes.len()).map(Row::Axis))
        .collect();
    let height = ROW * rows.len() as f64 + 20.0;
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escape(&window.title)
    );
    let scale = (WIDTH - LABELS) / window.seconds.max(f64::MIN_POSITIVE);
    for (number, row) in rows.iter().enumerate() {
        let y = number as f64 * ROW;
        let label = match row {
            Row::Core => "core".to_owned(),
            Row::Axis(axis) => format!("axis {axis}"),
        };
        let _ = writeln!(
            page,
            "<text x=\"0\" y=\"{}\" font-size=\"12\" fill=\"var(--soft)\">{label}</text>",
            y + 20.0
        );
        let own = report.timeline.iter().filter(|event| {
            event.row == *row
                && event.depth == window.depth
                && event.start >= window.start
                && event.start <= window.start + window.seconds
        });
        boxes(page, own, window, scale, y);
    }
    let _ = writeln!(
        page,
        "<text x=\"{LABELS}\" y=\"{0}\" font-size=\"11\" fill=\"var(--soft)\">0</text>\
         <text x=\"{WIDTH}\" y=\"{0}\" font-size=\"11\" text-anchor=\"end\" fill=\"var(--soft)\">{1}</text>\
         \n</svg>",
        height - 5.0,
        seconds_text(window.seconds)
    );
}

fn boxes<'a>(
    page: &mut String,
    events: impl Iterator<Item = &'a Event>,
    window: &Window,
    scale: f64,
    y: f64,
) {
    let mut drawn_to = f64::NEG_INFINITY;
    for event in events {
        let x = LABELS + (event.start - window.start) * scale;
        let width = event.seconds * scale;
        if x + width < drawn_to + NARROW {
            continue;
        }
        drawn_to = x + width;
        let _ = writeln!(
            page,
            "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"{}\"><title>{}: {}, {}\
             </title></rect>",
            y + 4.0,
            width.max(NARROW),
            ROW - 8.0,
            colour(event.what),
            escape(&event.name),
            event.what,
            seconds_text(event.seconds)
        );
    }
}

fn colour(what: &str) -> &'static str {
    match what {
        "products" => "var(--matrix)",
        "operations on elements" => "var(--vector)",
        "HBM" => "var(--memory)",
        "loop" | "conditional" => "var(--scalar)",
        "starts of kernels" => "var(--launch)",
        "all-gather" | "collective-broadcast" => "var(--in)",
        "reduce-scatter" | "all-reduce" => "var(--out)",
        _ => "var(--lanes)",
    }
}
