//! The roofline: the arithmetic intensity of each statement (operations for each byte of HBM) and
//! its rate.

use super::{Subject, escape};
use std::fmt::Write;
use tegula_sim_tpu::report::seconds_text;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 84.0;
const BOTTOM: f64 = 40.0;
/// The least intensity and rate of the picture as powers of ten, and its number of decades.
const LEAST: (f64, f64) = (-2.0, 9.0);
const DECADES: (f64, f64) = (6.0, 7.0);

/// A statement in the roofline.
struct Point {
    name: String,
    /// Operations for each byte of HBM.
    intensity: f64,
    /// Operations per second.
    rate: f64,
    /// Its fraction of the time.
    share: f64,
    seconds: f64,
}

/// The position of a point in the picture; a point outside is moved to the edge.
fn place(intensity: f64, rate: f64) -> (f64, f64) {
    let along = |value: f64, least: f64, decades: f64| {
        ((value.max(1e-30).log10() - least) / decades).clamp(0.0, 1.0)
    };
    let x = LEFT + along(intensity, LEAST.0, DECADES.0) * (WIDTH - LEFT - 10.0);
    let y = (HEIGHT - BOTTOM) * (1.0 - along(rate, LEAST.1, DECADES.1)) + 5.0;
    (x, y)
}

/// Draws the roofline with a point for each statement.
pub(super) fn roofline(page: &mut String, subject: &Subject<'_>) {
    let points = points(subject);
    if points.is_empty() {
        page.push_str("<p class=\"note\">Nothing is computed.</p>\n");
        return;
    }
    let speeds = subject.report.engines.speeds();
    let units = &speeds.matrix;
    // A push has 16 rows of 16-bit elements.
    let rows = 16.0 / units.cadence[1].max(1e-9);
    let peak = 2.0 * units.count * units.dim * units.dim * rows * speeds.clock;
    let _ = writeln!(
        page,
        "<div class=\"picture\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"operations a second by operations for a byte\">"
    );
    grid(page);
    let ridge = peak / speeds.bandwidth;
    let (from, corner, to) = (
        place(1e-2, 1e-2 * speeds.bandwidth),
        place(ridge, peak),
        place(1e4, peak),
    );
    let _ = writeln!(
        page,
        "<polyline class=\"roof\" points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/>",
        from.0, from.1, corner.0, corner.1, to.0, to.1
    );
    for point in points {
        let (x, y) = place(point.intensity, point.rate);
        let radius = 3.0 + 9.0 * point.share.sqrt();
        let _ = writeln!(
            page,
            "<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\">\
             <title>{}: {:.3} Top/s, {:.2} operations for a byte, {} ({:.1} % of the time)</title></circle>",
            escape(&point.name),
            point.rate / 1e12,
            point.intensity,
            seconds_text(point.seconds),
            100.0 * point.share
        );
    }
    whole(page, subject);
    page.push_str("</svg></div>\n");
    let _ = writeln!(
        page,
        "<p class=\"note\">Roof: {:.0} Top/s (bf16) and {:.0} GB/s. A circle is a statement, \
         as large as its share of the time; what touches no HBM lies at the right edge. The ring \
         is the whole program: under the slope HBM limits it, under the flat roof the matrix units.</p>",
        peak / 1e12,
        speeds.bandwidth / 1e9
    );
}

/// Draws the whole program as one point: all its operations, bytes and time.
fn whole(page: &mut String, subject: &Subject<'_>) {
    let report = subject.report;
    let lines = report.engines.lines().values();
    let (operations, bytes) = lines.fold((0.0, 0.0), |(operations, bytes), used| {
        (operations + used.operations, bytes + used.bytes)
    });
    if operations <= 0.0 || report.seconds <= 0.0 {
        return;
    }
    let (intensity, rate) = (operations / bytes.max(1e-3), operations / report.seconds);
    let (x, y) = place(intensity, rate);
    // The text goes below the roof, on the side that has room.
    let (anchor, at) = match x > WIDTH - 200.0 {
        true => ("end", x - 13.0),
        false => ("start", x + 13.0),
    };
    let _ = writeln!(
        page,
        "<circle class=\"all\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\">\
         <title>the whole program: {:.3} Top/s, {intensity:.2} operations for a byte, {}</title></circle>\
         <text class=\"label\" style=\"text-anchor:{anchor}\" x=\"{at:.1}\" y=\"{:.1}\">all of it, {}</text>",
        rate / 1e12,
        seconds_text(report.seconds),
        (y + 20.0).min(HEIGHT - BOTTOM),
        rate_text(rate)
    );
}

fn grid(page: &mut String) {
    for decade in 0..=(DECADES.0 as i32) {
        let power = LEAST.0 + f64::from(decade);
        let (x, _) = place(10f64.powf(power), 1.0);
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"5\" x2=\"{x:.1}\" y2=\"{:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - BOTTOM + 5.0,
            x.min(WIDTH - 20.0),
            HEIGHT - BOTTOM + 20.0,
            power_text(power)
        );
    }
    for decade in 0..=(DECADES.1 as i32) {
        let power = LEAST.1 + f64::from(decade);
        let (_, y) = place(1.0, 10f64.powf(power));
        let unit = [
            "1 Gop/s",
            "10 Gop/s",
            "100 Gop/s",
            "1 Top/s",
            "10 Top/s",
            "100 Top/s",
            "1 Pop/s",
            "10 Pop/s",
        ];
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - 10.0,
            LEFT - 6.0,
            (y + 4.0).max(12.0),
            unit.get(decade as usize).unwrap_or(&"")
        );
    }
    let _ = writeln!(
        page,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">operations for a byte of HBM</text>",
        f64::midpoint(LEFT, WIDTH),
        HEIGHT - 4.0
    );
}

fn rate_text(rate: f64) -> String {
    match rate {
        1e12.. => format!("{:.1} Top/s", rate / 1e12),
        1e9.. => format!("{:.1} Gop/s", rate / 1e9),
        _ => format!("{:.1} Mop/s", rate / 1e6),
    }
}

fn power_text(power: f64) -> String {
    if power < 0.0 {
        format!("{:.*}", -power as usize, 10f64.powf(power))
    } else {
        format!("{:.0}", 10f64.powf(power))
    }
}

fn points(subject: &Subject<'_>) -> Vec<Point> {
    let report = subject.report;
    let total = report.seconds.max(1e-30);
    let mut spent = std::collections::BTreeMap::<u32, f64>::new();
    for (line, _, seconds) in report.engines.causes() {
        *spent.entry(line).or_default() += seconds;
    }
    let lines = report.engines.lines().iter();
    let mut points: Vec<Point> = lines
        .filter(|(_, used)| used.operations > 0.0)
        .map(|(line, used)| {
            let seconds = spent.get(line).copied().unwrap_or(used.seconds);
            Point {
                name: format!("line {line}: {}", subject.lines.get(*line)),
                intensity: used.operations / used.bytes.max(1e-3),
                rate: used.operations / seconds.max(1e-30),
                share: seconds / total,
                seconds,
            }
        })
        .collect();
    // Large points are drawn first, so that they are behind small ones.
    points.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.name.cmp(&b.name)));
    points.truncate(500);
    points
}
