//! `tegula simulate --topology`: times a program of many chips on a slice of TPUs.

use super::{Beside, SimulateArgs};
use crate::documents::{
    self, AssumedLoop, SliceCollectives, SliceEvent, SliceLinks, SliceMemory, SliceSimulation,
};
use crate::exit_code::{FINDING, SUCCESS};
use crate::inputs::read_module;
use crate::options::Common;
use crate::report::Failure;
use anyhow::anyhow;
use serde_json::{Value, json};
use std::path::Path;
use tegula::slice::{Options, Overlap, Report, Row};
use tegula_draw::slice_report;
use tegula_sim_tpu::report::{bytes_text, seconds_text};
use tegula_target::Chip;

/// Times a program on a slice and reports where the time goes.
pub(super) fn simulate(
    args: &SimulateArgs,
    common: &Common,
    chip: &Chip,
    topology: &str,
) -> Result<u8, Failure> {
    if args.inputs.is_some() || args.outputs.is_some() {
        let message = "`--topology` does not compute values: omit `--inputs` and `--outputs`";
        return Err(anyhow!(message).into());
    }
    if args
        .model_flops
        .is_some_and(|flops| !flops.is_finite() || flops <= 0.0)
    {
        return Err(anyhow!("expected a positive number for `--model-flops`").into());
    }
    let source = read_module(&args.kernel, &args.dims)?;
    let options = Options {
        overlap: match args.overlap {
            Beside::Auto => Overlap::Auto,
            Beside::Written => Overlap::Written,
            Beside::Scheduled => Overlap::Scheduled,
        },
        model_flops: args.model_flops,
    };
    let report = tegula::slice::simulate_program(&source.module, chip, topology, &options);
    let report = report.map_err(|error| source.failure(error))?;
    let name = &*source.module.name;
    let write = |path: &Path, text: String| crate::terminal::result_file::write(path, text);
    if let Some(path) = &args.report {
        write(path, slice_report::html(name, &report))?;
    }
    if let Some(path) = &common.trace {
        write(path, trace(&report).to_string())?;
    }
    match common.json {
        true => documents::print(&document(&report)),
        false => say!("{}", summary(name, &report, args)),
    }
    Ok(if report.memory.fits() {
        SUCCESS
    } else {
        FINDING
    })
}

fn bytes(count: f64) -> String {
    bytes_text(count as i64)
}

fn summary(name: &str, report: &Report, args: &SimulateArgs) -> String {
    let mut lines = vec![format!(
        "{name} on {} x {} ({}): {} a step, bound by {}",
        report.devices,
        report.chip,
        report.topology,
        seconds_text(report.seconds),
        report.bound_by().name()
    )];
    let mut line = |title: &str, text: String| lines.push(format!("  {title:<9} {text}"));
    let shares = report.shares.iter().map(|(share, seconds)| {
        let part = 100.0 * seconds / report.seconds.max(f64::MIN_POSITIVE);
        format!("{} {part:.1} %", share.name())
    });
    line("spent on", shares.collect::<Vec<_>>().join(", "));
    let memory = &report.memory;
    line(
        "memory",
        format!(
            "{} of {} a device: {} (parameters {}, results {})",
            bytes(memory.peak),
            bytes(memory.capacity),
            if memory.fits() {
                "fits"
            } else {
                "does not fit"
            },
            bytes(memory.parameters),
            bytes(memory.results)
        ),
    );
    let mfu = report.model_utilisation;
    let mfu = mfu.map_or_else(String::new, |mfu| {
        format!("; MFU {:.1} % (of `--model-flops`)", 100.0 * mfu)
    });
    line(
        "products",
        format!(
            "{:.3e} operations a device, {:.1} % of the peak{mfu}",
            report.flops,
            100.0 * report.utilisation
        ),
    );
    for (kind, total) in &report.collectives {
        line(
            "exchange",
            format!(
                "{} x {}: {} received, {} on the links, {} of it latency",
                total.count,
                kind.name(),
                bytes(total.bytes),
                seconds_text(total.seconds),
                seconds_text(total.latency)
            ),
        );
    }
    for (axis, ((chips, ring), busy)) in report.axes.iter().zip(&report.busy).enumerate() {
        let form = if *ring { "a ring" } else { "a line" };
        line(
            "links",
            format!(
                "axis {axis}, {form} of {chips}: busy {:.1} % of the step",
                100.0 * busy
            ),
        );
    }
    line(
        "overlap",
        match report.scheduled {
            true => "collectives as scheduled (`--overlap`)".to_owned(),
            false => "collectives as the program says (`--overlap`)".to_owned(),
        },
    );
    for (name, trips) in &report.assumed_loops {
        line(
            "assumed",
            format!("the trip count of `{name}` is unknown: assumed to be {trips}"),
        );
    }
    for (target, count) in &report.unknown_calls {
        line(
            "assumed",
            format!("{count} calls of `{target}`: the time of their arrays from and to HBM"),
        );
    }
    for assumed in &report.assumed {
        line("assumed", assumed.clone());
    }
    if !args.set.is_empty() {
        line("with", args.set.join(", "));
    }
    lines.join("\n")
}

fn row_name(row: Row) -> String {
    match row {
        Row::Core => "core".to_owned(),
        Row::Axis(axis) => format!("axis {axis}"),
    }
}

fn document(report: &Report) -> SliceSimulation {
    let memory = &report.memory;
    SliceSimulation {
        chip: report.chip.clone(),
        topology: report.topology.clone(),
        devices: report.devices,
        seconds: report.seconds,
        bound_by: report.bound_by().name().to_owned(),
        shares: report
            .shares
            .iter()
            .map(|(share, seconds)| (share.name().to_owned(), *seconds))
            .collect(),
        flops: report.flops,
        utilisation: report.utilisation,
        mfu: report.model_utilisation,
        memory: SliceMemory {
            parameters: memory.parameters,
            results: memory.results,
            peak: memory.peak,
            capacity: memory.capacity,
            fits: memory.fits(),
        },
        collectives: report
            .collectives
            .iter()
            .map(|(kind, total)| SliceCollectives {
                kind: kind.name().to_owned(),
                count: total.count,
                bytes: total.bytes,
                seconds: total.seconds,
                latency: total.latency,
            })
            .collect(),
        links: report
            .axes
            .iter()
            .zip(&report.busy)
            .map(|(&(chips, ring), &busy)| SliceLinks { chips, ring, busy })
            .collect(),
        scheduled: report.scheduled,
        assumed_loops: report
            .assumed_loops
            .iter()
            .map(|(name, trips)| AssumedLoop {
                name: name.clone(),
                trips: *trips,
            })
            .collect(),
        unknown_calls: report.unknown_calls.clone(),
        assumed: report.assumed.clone(),
        timeline: report
            .timeline
            .iter()
            .map(|event| SliceEvent {
                row: row_name(event.row),
                name: event.name.clone(),
                what: event.what.to_owned(),
                start: event.start,
                seconds: event.seconds,
                depth: event.depth,
                times: event.times,
            })
            .collect(),
    }
}

/// Returns the timeline in the trace format of Chrome and Perfetto.
fn trace(report: &Report) -> Value {
    let thread = |row: Row| match row {
        Row::Core => 0,
        Row::Axis(axis) => axis + 1,
    };
    let rows = std::iter::once(Row::Core).chain((0..report.axes.len()).map(Row::Axis));
    let names = rows.map(|row| {
        json!({
            "ph": "M", "pid": 0, "tid": thread(row), "name": "thread_name",
            "args": {"name": row_name(row)},
        })
    });
    let events = report.timeline.iter().map(|event| {
        json!({
            "ph": "X", "pid": 0, "tid": thread(event.row), "name": event.name,
            "ts": event.start * 1e6, "dur": event.seconds * 1e6,
            "args": {"what": event.what, "times": event.times},
        })
    });
    json!({
        "displayTimeUnit": "ns",
        "traceEvents": names.chain(events).collect::<Vec<_>>(),
        "otherData": {"chip": report.chip, "topology": report.topology},
    })
}
