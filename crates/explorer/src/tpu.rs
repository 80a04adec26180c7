//! The simulation of a program or a kernel on a TPU core: timeline, VMEM use, time by cause, and
//! findings.

use crate::session::{Source, chip};
use crate::{Problem, Session};
use serde::Serialize;
use tegula::tpu::TpuExecutable;
use tegula_draw::tpu_report::{Subject, sections, summary};
use tegula_sim_tpu::{Lines, Options, Report, Severity, TpuProgram, simulate};
use tegula_target::Chip;

/// An error or a warning of the simulator.
#[derive(Clone, Debug, Serialize)]
pub struct FindingInfo {
    /// Its code, such as `TG041`.
    pub code: &'static str,
    /// The message, with its line in a kernel's text.
    pub problem: Problem,
    /// Whether it is an error rather than a warning.
    pub is_error: bool,
}

/// A part of the report, as HTML.
#[derive(Clone, Debug, Serialize)]
pub struct SectionInfo {
    /// Its anchor in links.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Its content.
    pub html: String,
}

/// The report of a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct TpuReport {
    /// The summary, as HTML.
    pub summary: String,
    /// The sections.
    pub sections: Vec<SectionInfo>,
    /// Errors and warnings.
    pub findings: Vec<FindingInfo>,
    /// Loops with an unknown trip count, and the trip count that was assumed.
    pub assumed_loops: Vec<(String, u64)>,
    /// The simulated time in seconds.
    pub seconds: f64,
    /// The text of the kernel to which a program was lowered; `None` if the text was a kernel
    /// itself.
    pub kernel: Option<String>,
}

impl Session {
    /// Simulates the timing of the program on a chip, without computing values.
    ///
    /// # Errors
    /// The chip is unknown, the program cannot be lowered to it, or a limit of the simulator is
    /// reached.
    pub fn tpu(&self, chip_name: &str) -> Result<TpuReport, Problem> {
        let chip = chip(chip_name)?;
        match &self.source {
            Source::Kernel(program) => {
                let options = Options {
                    functional: false,
                    record_timeline: true,
                    ..Options::default()
                };
                let report = simulate(program, &chip, &options);
                let report = report.map_err(|e| crate::session::kernel_problem(&e, &self.text))?;
                Ok(self.report(program, &report, &chip, Lines::Text(&self.text)))
            }
            Source::Program(source) => {
                let failed = |e: tegula::Error| Problem::of(&e, &self.text);
                let executable = TpuExecutable::new(&source.module, &chip).map_err(failed)?;
                let report = executable.simulate(None, true).map_err(failed)?;
                let lowered = &executable.lowered;
                let lines = Lines::Instructions(&lowered.instructions);
                let text = tegula_sim_tpu::print_kernel(
                    &lowered.program,
                    tegula_sim_tpu::PrintForm::Short,
                );
                Ok(TpuReport {
                    assumed_loops: executable.assumed_loops().to_vec(),
                    kernel: Some(text),
                    ..self.report(&lowered.program, &report, &chip, lines)
                })
            }
        }
    }

    fn report(
        &self,
        program: &TpuProgram,
        report: &Report,
        chip: &Chip,
        lines: Lines<'_>,
    ) -> TpuReport {
        let subject = Subject {
            program,
            report,
            chip,
            lines,
        };
        let is_text = matches!(lines, Lines::Text(_));
        let findings = report.findings.iter().map(|finding| {
            let problem = Problem {
                help: Some(finding.help.clone()),
                ..Problem::new(finding.message.clone())
            };
            FindingInfo {
                code: finding.code.name(),
                problem: match is_text {
                    true => problem.at_line(&self.text, finding.line as usize),
                    false => problem,
                },
                is_error: finding.code.severity() == Severity::Error,
            }
        });
        let parts = sections(&subject).into_iter().map(|section| SectionInfo {
            id: section.id,
            title: section.title,
            html: section.html,
        });
        TpuReport {
            summary: summary(&subject),
            sections: parts.collect(),
            findings: findings.collect(),
            assumed_loops: Vec::new(),
            seconds: report.seconds,
            kernel: None,
        }
    }
}
