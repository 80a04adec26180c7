//! The tables and texts of a report.

use super::{Subject, cause_text, colour, escape};
use std::fmt::Write;
use tegula_layout::physical::PhysicalLayout;
use tegula_sim_tpu::engine::Engine;
use tegula_sim_tpu::program::Space;
use tegula_sim_tpu::report::{bytes_text, seconds_text};

/// The most rows of a table.
const MOST_ROWS: usize = 40;

/// Writes the summary.
pub(super) fn summary(page: &mut String, subject: &Subject<'_>) {
    let report = subject.report;
    let bound = report.bound();
    let mut cards = String::new();
    let mut card = |class: &str, value: &str, what: &str| {
        let _ = writeln!(
            cards,
            "<div class=\"card {class}\"><b>{value}</b><span>{what}</span></div>"
        );
    };
    let (class, value) = match report.fits {
        true => ("good", "fits"),
        false => ("bad", "does not fit"),
    };
    let peak = |space: Space| report.spaces.iter().find(|used| used.space == space);
    let of = |space: Space| {
        let capacity = peak(space).and_then(|used| used.capacity_bytes);
        capacity.map_or(String::new(), |bytes| format!(" of {}", bytes_text(bytes)))
    };
    let findings = report.findings.len();
    card(class, value, "into the chip's memories");
    card(
        "",
        &seconds_text(report.seconds),
        &format!("bound by {bound}"),
    );
    card(
        if findings == 0 { "good" } else { "bad" },
        &findings.to_string(),
        if findings == 1 { "finding" } else { "findings" },
    );
    card(
        "",
        &bytes_text(report.vmem_peak_bytes),
        &format!("peak of VMEM{}", of(Space::Vmem)),
    );
    card(
        "",
        &bytes_text(report.hbm_bytes),
        &format!("HBM{}", of(Space::Hbm)),
    );
    card("", &bytes_text(report.padding_bytes), "padding");
    let _ = write!(page, "<div class=\"cards\">\n{cards}</div>\n");
}

/// Writes the findings with their source.
pub(super) fn findings(page: &mut String, subject: &Subject<'_>) {
    let findings = &subject.report.findings;
    if findings.is_empty() {
        return;
    }
    page.push_str("<section id=\"findings\">\n<h2>Findings</h2>\n");
    for finding in findings {
        let also = finding.code.also().map(|also| format!(" \u{b7} {also}"));
        let times = match finding.count {
            1 => String::new(),
            count => format!(", {count} times"),
        };
        let _ = writeln!(
            page,
            "<article class=\"finding\"><h3>{}{} <span>line {}{times}</span></h3>\
             <pre>{}</pre><p>{}</p><p class=\"help\">{}</p></article>",
            finding.code.name(),
            also.unwrap_or_default(),
            finding.line,
            escape(subject.lines.get(finding.line)),
            escape(&finding.message),
            escape(&finding.help)
        );
    }
    page.push_str("</section>\n");
}

/// Writes which checks were proved or executed, and the alignment proofs.
pub(super) fn checks(page: &mut String, subject: &Subject<'_>) {
    page.push_str(
        "<table><thead><tr><th>check</th><th>how</th><th>of what</th><th>codes</th></tr></thead>\
         <tbody>\n",
    );
    for check in subject.report.checks() {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            escape(check.what),
            check.how.name(),
            escape(&check.extent),
            check.codes
        );
    }
    page.push_str("</tbody></table>\n");
    let proofs = &subject.report.alignment.shown;
    if proofs.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<details><summary>Proofs of alignment ({})</summary>",
        proofs.len()
    );
    for proof in proofs {
        let (array, dimension) = &proof.place;
        let _ = writeln!(
            page,
            "<p>line {}: <code>{}</code> along dimension {dimension} of <code>{}</code>, \
             a multiple of {}</p><pre>{}</pre>",
            proof.line,
            escape(&proof.offset),
            escape(array),
            proof.tile,
            escape(&proof.proof)
        );
    }
    page.push_str("</details>\n");
}

/// Writes how busy each engine was, and what it waited for.
pub(super) fn engines(page: &mut String, subject: &Subject<'_>) {
    let report = subject.report;
    let total = report.seconds.max(1e-30);
    page.push_str(
        "<table><thead><tr><th>engine</th><th class=\"bar\">busy</th><th></th>\
         <th>when idle, mostly</th></tr></thead><tbody>\n",
    );
    for engine in Engine::ALL {
        let busy = report.engines.busy(engine);
        if busy <= 0.0 {
            continue;
        }
        let share = (100.0 * busy / total).min(100.0);
        let first = report.engines.stalls(engine).into_iter().next();
        let waits = first.map_or(String::new(), |(line, cause, seconds)| {
            let (what, _) = cause_text(cause, subject.lines);
            let name = subject.lines.name(line);
            format!("{what}, in {name}: {}", seconds_text(seconds))
        });
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"bar\"><i class=\"{}\" style=\"width:{share:.1}%\"></i></td>\
             <td class=\"number\">{share:.1} %</td><td>{}</td></tr>",
            engine.name(),
            colour(engine),
            escape(&waits)
        );
    }
    page.push_str("</tbody></table>\n");
}

/// Writes the core's time by line and cause.
pub(super) fn causes(page: &mut String, subject: &Subject<'_>) {
    let report = subject.report;
    let total = report.seconds.max(1e-30);
    let mut causes: Vec<_> = report.engines.causes().collect();
    causes.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    page.push_str(
        "<table><thead><tr><th>line</th><th>statement</th><th>the core was</th>\
         <th class=\"number\">time</th><th class=\"number\">share</th></tr></thead><tbody>\n",
    );
    for (line, cause, seconds) in causes.iter().take(MOST_ROWS) {
        let (what, class) = cause_text(*cause, subject.lines);
        let _ = writeln!(
            page,
            "<tr><td class=\"number\">{line}</td><td><code>{}</code></td>\
             <td><i class=\"dot {class}\"></i>{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{:.1} %</td></tr>",
            escape(subject.lines.get(*line)),
            escape(&what),
            seconds_text(*seconds),
            100.0 * seconds / total
        );
    }
    page.push_str("</tbody></table>\n");
    if causes.len() > MOST_ROWS {
        let rest: f64 = causes[MOST_ROWS..].iter().map(|cause| cause.2).sum();
        let _ = writeln!(
            page,
            "<p class=\"note\">{} more take {} together.</p>",
            causes.len() - MOST_ROWS,
            seconds_text(rest)
        );
    }
}

/// Writes how much of each buffer is padding.
pub(super) fn padding(page: &mut String, subject: &Subject<'_>) {
    let mut rows: Vec<(i64, i64, String, String)> = Vec::new();
    for buffer in subject.program.buffers.values() {
        let mut shape = buffer.shape.clone();
        if shape.layout.is_none()
            && let Some(dims) = shape.static_dims()
        {
            let layout = subject
                .chip
                .default_layout(shape.element_type.bits(), &dims);
            shape.layout = layout.ok().map(Box::new);
        }
        let Ok(layout) = PhysicalLayout::new(&shape) else {
            continue;
        };
        let (useful, all) = (layout.bytes(), layout.padded_bytes());
        rows.push((all - useful, all, buffer.name.clone(), shape.to_string()));
    }
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
    page.push_str(
        "<table><thead><tr><th>buffer</th><th>shape</th><th class=\"bar\">useful</th>\
         <th class=\"number\">bytes</th><th class=\"number\">padding</th></tr></thead><tbody>\n",
    );
    for (padding, all, name, shape) in rows.iter().take(MOST_ROWS) {
        let useful = 100.0 * (all - padding) as f64 / (*all).max(1) as f64;
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td><code>{}</code></td>\
             <td class=\"bar\"><i class=\"in\" style=\"width:{useful:.1}%\"></i></td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            escape(name),
            escape(shape),
            bytes_text(*all),
            bytes_text(*padding)
        );
    }
    page.push_str("</tbody></table>\n");
    if rows.len() > MOST_ROWS {
        let _ = writeln!(
            page,
            "<p class=\"note\">and {} more.</p>",
            rows.len() - MOST_ROWS
        );
    }
}

/// Writes the numbers that the chip's description does not state.
pub(super) fn assumptions(page: &mut String, subject: &Subject<'_>) {
    let assumptions = &subject.report.engines.speeds().assumptions;
    let uncertain = subject.chip.quantities.iter();
    let uncertain: Vec<_> = uncertain
        .filter(|(_, quantity)| quantity.uncertain)
        .collect();
    if assumptions.is_empty() && uncertain.is_empty() {
        return;
    }
    page.push_str("<section id=\"chip\">\n<h2>What is not certain of the chip</h2>\n<ul>\n");
    for assumption in assumptions {
        let _ = writeln!(
            page,
            "<li><code>{}</code> is not known; used: {}</li>",
            assumption.param.name(),
            escape(&assumption.used)
        );
    }
    for (param, quantity) in uncertain {
        let _ = writeln!(
            page,
            "<li><code>{}</code> = {} is uncertain: {}</li>",
            param.name(),
            escape(&quantity.to_string()),
            escape(&quantity.source)
        );
    }
    page.push_str("</ul>\n</section>\n");
}
