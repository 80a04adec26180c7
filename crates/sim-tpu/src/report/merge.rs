//! Merging the reports of several cores into one.

use super::Report;
use crate::finding::Finding;
use tegula_ir::{ArrayShape, Dim, Literal, LiteralError};

impl Report {
    /// Merges the reports of all cores into one: their findings, the longest time, the largest use
    /// of memory, and their results stacked along a new first dimension with one index for each
    /// core. The breakdown of the time is that of the first core.
    ///
    /// # Errors
    /// The combined results are larger than memory allows.
    pub fn merged(mut reports: Vec<Self>) -> Result<Option<Self>, LiteralError> {
        if reports.len() < 2 {
            return Ok(reports.pop());
        }
        let findings = merge_findings(&reports);
        let functional = reports.iter().all(|report| report.functional);
        let counts = reports.iter().map(|report| report.results.len());
        let count = match functional {
            true => counts.min().unwrap_or(0),
            false => 0,
        };
        let results = (0..count).map(|number| {
            let parts = reports.iter().map(|report| &report.results[number]);
            stacked(&parts.collect::<Vec<_>>())
        });
        let results = results.collect::<Result<_, _>>()?;
        let most = |of: fn(&Self) -> i64| reports.iter().map(of).max().unwrap_or(0);
        let seconds = reports.iter().map(|report| report.seconds);
        Ok(Some(Self {
            findings,
            functional,
            results,
            fits: reports.iter().all(|report| report.fits),
            seconds: seconds.fold(0.0, f64::max),
            hbm_bytes: most(|report| report.hbm_bytes),
            vmem_peak_bytes: most(|report| report.vmem_peak_bytes),
            steps: reports.iter().map(|report| report.steps).sum(),
            copies: reports.iter().map(|report| report.copies).sum(),
            printed: reports
                .iter()
                .flat_map(|report| report.printed.iter().cloned())
                .collect(),
            copied_bytes: reports.iter().map(|report| report.copied_bytes).sum(),
            ..reports.swap_remove(0)
        }))
    }
}

/// Stacks arrays of one shape along a new first dimension.
fn stacked(parts: &[&Literal]) -> Result<Literal, LiteralError> {
    let Some(first) = parts.first() else {
        return Ok(Literal::default());
    };
    let shape = first.shape();
    let dims = shape.dims.iter().filter_map(Dim::as_static);
    let dims: Vec<i64> = std::iter::once(parts.len() as i64).chain(dims).collect();
    let mut whole = Literal::zeros(&ArrayShape::new(shape.element_type, &dims))?;
    let size = first.bytes().len();
    if size > 0 {
        for (to, part) in whole.bytes_mut().chunks_mut(size).zip(parts) {
            to.copy_from_slice(part.bytes());
        }
    }
    Ok(whole)
}

/// The findings of several cores as one list: each place once, with the cores where it was met if
/// those are not all.
fn merge_findings(reports: &[Report]) -> Vec<Finding> {
    let mut merged: Vec<(Finding, Vec<usize>)> = Vec::new();
    for (core, report) in reports.iter().enumerate() {
        for finding in &report.findings {
            let known = merged.iter_mut().find(|(own, _)| {
                (own.code, own.line, &own.buffer) == (finding.code, finding.line, &finding.buffer)
            });
            match known {
                Some((own, cores)) => {
                    own.count += finding.count;
                    cores.push(core);
                }
                None => merged.push((finding.clone(), vec![core])),
            }
        }
    }
    let count = reports.len();
    merged.sort_by(|(a, _), (b, _)| (a.line, a.code, &a.buffer).cmp(&(b.line, b.code, &b.buffer)));
    let named = merged.into_iter().map(|(finding, cores)| {
        if cores.len() == count {
            return finding;
        }
        let word = if cores.len() == 1 { "core" } else { "cores" };
        let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
        Finding {
            message: format!("{word} {}: {}", cores.join(", "), finding.message),
            ..finding
        }
    });
    named.collect()
}
