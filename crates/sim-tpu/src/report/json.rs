//! A report as JSON, for other programs.

use super::Report;
use crate::engine::Cause;
use crate::finding::Finding;
use crate::program::TpuProgram;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Report {
    /// The report as a JSON object. Findings refer to lines of the program's source, with the file
    /// if the program has places.
    pub fn to_json(&self, program: &TpuProgram) -> Value {
        let findings = self.findings.iter().map(|f| finding(f, program));
        let checks = self.checks().into_iter().map(|check| {
            json!({
                "what": check.what,
                "codes": check.codes,
                "how": check.how.name(),
                "extent": check.extent,
            })
        });
        let spaces = self.spaces.iter().map(|space| {
            json!({
                "space": space.space.name(),
                "peak_bytes": space.peak_bytes,
                "capacity_bytes": space.capacity_bytes,
            })
        });
        let printed = self.printed.iter().map(|printed| {
            let place = program.place(printed.line);
            json!({
                "core": printed.core,
                "file": place.map_or("", |place| &*place.file),
                "line": place.map_or(printed.line, |place| place.line),
                "text": printed.text,
            })
        });
        let mut report = json!({
            "chip": self.chip,
            "fits": self.fits,
            "findings": findings.collect::<Vec<_>>(),
            "checks": checks.collect::<Vec<_>>(),
            "seconds": self.seconds,
            "bound": self.bound(),
            "copies": self.copies,
            "copied_bytes": self.copied_bytes,
            "steps": self.steps,
            "hbm_bytes": self.hbm_bytes,
            "vmem_peak_bytes": self.vmem_peak_bytes,
            "padding_bytes": self.padding_bytes,
            "spaces": spaces.collect::<Vec<_>>(),
            "lines": lines(self, program),
        });
        if !self.printed.is_empty() {
            report["printed"] = json!(printed.collect::<Vec<_>>());
        }
        report
    }
}

fn finding(finding: &Finding, program: &TpuProgram) -> Value {
    let mut value = json!({
        "code": finding.code.name(),
        "severity": finding.code.severity().name(),
        "instruction": finding.instruction,
        "line": finding.line,
        "message": finding.message,
        "help": finding.help,
        "count": finding.count,
    });
    if !program.places.is_empty() {
        let place = program.place(finding.line);
        value["line"] = json!(place.map_or(0, |place| place.line));
        if let Some(place) = place {
            value["file"] = json!(&*place.file);
        }
    }
    value
}

/// The core's time by line of the source, the longest first.
fn lines(report: &Report, program: &TpuProgram) -> Vec<Value> {
    let mut seconds: BTreeMap<(&str, u32, &str), f64> = BTreeMap::new();
    for (line, cause, spent) in report.engines.causes() {
        let what = match cause {
            Cause::Compute(engine) | Cause::Copy { engine, .. } => engine.name(),
            Cause::Launch => "the start of kernels",
            Cause::Issue => "the scalar unit",
            Cause::Core => "other cores",
        };
        let (file, line) = match program.place(line) {
            Some(place) => (&*place.file, place.line),
            None => ("", line),
        };
        *seconds.entry((file, line, what)).or_default() += spent;
    }
    let mut lines: Vec<_> = seconds.into_iter().collect();
    lines.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let value = |((file, line, what), seconds): ((&str, u32, &str), f64)| json!({ "file": file, "line": line, "what": what, "seconds": seconds });
    lines.into_iter().map(value).collect()
}
