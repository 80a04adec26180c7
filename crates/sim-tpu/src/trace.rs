//! The timeline of a report in Chrome's trace event format, which Perfetto also reads: one row for
//! each engine, and a counter for the bytes in VMEM.

use crate::engine::{Engine, Span, SpanKind};
use crate::lines::Lines;
use crate::program::Space;
use crate::report::Report;
use serde_json::{Value, json};

/// The timeline of a report as a JSON object, with times in microseconds.
pub fn chrome_trace(report: &Report, lines: Lines<'_>) -> Value {
    let mut events = Vec::new();
    for engine in Engine::ALL {
        events.push(json!({
            "ph": "M", "pid": 0, "tid": engine as usize, "name": "thread_name",
            "args": {"name": engine.name()},
        }));
    }
    let (spans, left_out) = report.engines.timeline();
    events.extend(spans.iter().map(|span| event(span, lines)));
    events.extend(fill(report));
    json!({
        "displayTimeUnit": "ns",
        "traceEvents": events,
        "otherData": {"chip": report.chip, "spans_left_out": left_out},
    })
}

fn event(span: &Span, lines: Lines<'_>) -> Value {
    let text = lines.get(span.line);
    let name = match (span.kind, text.is_empty()) {
        (SpanKind::Wait, _) => format!("wait: {text}"),
        (SpanKind::Launch, _) => format!("start kernel: {text}"),
        (SpanKind::Issue, _) => "issue statements".to_owned(),
        (SpanKind::Work, true) => format!("line {}", span.line),
        (SpanKind::Work, false) => text.to_owned(),
    };
    let mut event = json!({
        "ph": "X", "pid": 0, "tid": span.engine as usize, "name": name,
        "ts": span.from * 1e6, "dur": (span.to - span.from) * 1e6,
        "args": {"line": span.line},
    });
    if span.bytes > 0 {
        event["args"]["bytes"] = json!(span.bytes);
    }
    event
}

/// The bytes of VMEM in use, at each moment when they change.
fn fill(report: &Report) -> Vec<Value> {
    let mut changes: Vec<(f64, i64)> = Vec::new();
    for held in &report.occupancy {
        if held.space == Space::Vmem {
            changes.push((held.from, held.bytes));
            changes.push((held.to, -held.bytes));
        }
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut bytes = 0;
    let change = |(at, by): (f64, i64)| {
        bytes += by;
        json!({
            "ph": "C", "pid": 0, "name": "VMEM", "ts": at * 1e6, "args": {"bytes": bytes},
        })
    };
    changes.into_iter().map(change).collect()
}
