//! A program that was read and planned.

use crate::Problem;
use tegula::{Module, PlanOptions, Planned};
use tegula_fusion::{Program, ValueId};
use tegula_sim_tpu::TpuProgram;
use tegula_target::Chip;

/// What a text is.
pub(crate) enum Source {
    /// A program over arrays.
    Program(Box<ProgramSource>),
    /// A kernel for the simulated TPU.
    Kernel(Box<TpuProgram>),
}

pub(crate) struct ProgramSource {
    pub(crate) module: Module,
    /// The program on its way to the CPU, or why there is none.
    pub(crate) planned: Result<Planned<'static>, Problem>,
}

/// A program with what was found out about it.
pub struct Session {
    pub(crate) text: String,
    pub(crate) source: Source,
}

impl Session {
    /// Reads and plans a program: HLO or StableHLO text, or a kernel of the simulated TPU.
    ///
    /// # Errors
    /// What is wrong with the text, at its place. A program that is right but cannot be planned
    /// is no error: [`Self::planned`] says why.
    pub fn open(text: &str) -> Result<Self, Problem> {
        if text.trim().is_empty() {
            let help = "choose an example, or paste HLO or StableHLO text".to_owned();
            return Err(Problem {
                help: Some(help),
                ..Problem::new("there is no program yet")
            });
        }
        let source = if tegula_sim_tpu::is_kernel(text) {
            let program = tegula_sim_tpu::read_kernel(text);
            Source::Kernel(Box::new(program.map_err(|e| text_problem(&e, text))?))
        } else {
            let module: Module = text
                .parse()
                .map_err(|e: tegula::Error| Problem::of(&e, text))?;
            let options = PlanOptions {
                reasons: true,
                ..PlanOptions::default()
            };
            let planned = tegula::plan_for(&module, &options)
                .map(Planned::into_owned)
                .map_err(|e| Problem::of(&e, text));
            Source::Program(Box::new(ProgramSource { module, planned }))
        };
        Ok(Self {
            text: text.to_owned(),
            source,
        })
    }

    pub(crate) fn program(&self) -> Result<&ProgramSource, Problem> {
        match &self.source {
            Source::Program(program) => Ok(program),
            Source::Kernel(_) => Err(Problem::new(
                "this is a kernel for the simulated TPU: see the TPU view",
            )),
        }
    }

    /// The fused graph and the plan.
    ///
    /// # Errors
    /// The text is a TPU kernel; an operation that cannot be compiled.
    pub fn planned(&self) -> Result<&Planned<'static>, Problem> {
        self.program()?.planned.as_ref().map_err(Clone::clone)
    }
}

fn text_problem(error: &tegula_ir::Error, text: &str) -> Problem {
    Problem {
        help: error.help().map(str::to_owned),
        ..Problem::new(error.message()).at(text, error.span())
    }
}

pub(crate) fn kernel_problem(error: &tegula_sim_tpu::Error, text: &str) -> Problem {
    let line = match error {
        tegula_sim_tpu::Error::Program { line, .. } => *line as usize,
        _ => 0,
    };
    Problem::new(error.to_string()).at_line(text, line)
}

/// The chip of a name.
pub(crate) fn chip(name: &str) -> Result<Chip, Problem> {
    Chip::by_name(name).map_err(|e| Problem::new(e.to_string()))
}

/// What a value of a program is called: its instruction, or its number.
pub(crate) fn value_name(module: &tegula_ir::Module, program: &Program, value: ValueId) -> String {
    let name = tegula_layout::assign::name_of(module, program, value);
    name.map_or_else(|| value.to_string(), str::to_owned)
}
