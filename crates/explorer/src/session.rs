//! A parsed and planned program.

use crate::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tegula::{Module, PlanOptions, Planned};
use tegula_fusion::{Def, NodeKind, Program, ValueId};
use tegula_sim_tpu::TpuProgram;
use tegula_target::Chip;

/// The kinds of text that can be opened.
pub(crate) enum Source {
    /// A program over arrays.
    Program(Box<ProgramSource>),
    /// A kernel for the simulated TPU.
    Kernel(Box<TpuProgram>),
}

pub(crate) struct ProgramSource {
    pub(crate) module: Module,
    /// The program's plan for the CPU, or why it cannot be planned.
    pub(crate) planned: Result<Planned<'static>, Problem>,
}

/// A symbolic size of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeInfo {
    /// Its name.
    pub name: String,
    /// The smallest value that it may have.
    pub lower: i64,
    /// The largest value that it may have.
    pub upper: i64,
    /// The value that replaces it; `None` if it stays symbolic.
    pub value: Option<i64>,
}

/// The values of symbolic sizes.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Sizes {
    /// Values by name. A size that is not listed gets a small value.
    #[serde(default)]
    pub values: BTreeMap<String, i64>,
    /// Whether all sizes stay symbolic, so that the program is compiled once for all sizes.
    #[serde(default)]
    pub leave_open: bool,
}

/// An open program and the results of planning it.
pub struct Session {
    pub(crate) text: String,
    pub(crate) source: Source,
    pub(crate) sizes: Vec<SizeInfo>,
}

/// Values tried for symbolic sizes that have none. The first that the program allows is used.
const TRIED_SIZES: [i64; 6] = [8, 16, 4, 64, 2, 1];

impl Session {
    /// Reads and plans a program: HLO or StableHLO text, or a kernel of the simulated TPU. Symbolic
    /// sizes get small values.
    ///
    /// # Errors
    /// The text is invalid; the error has its position. A valid program that cannot be planned is
    /// opened without an error, and [`Self::planned`] returns the reason.
    pub fn open(text: &str) -> Result<Self, Problem> {
        Self::open_at(text, &Sizes::default())
    }

    /// As [`Self::open`], with given values for symbolic sizes.
    ///
    /// # Errors
    /// As [`Self::open`]; the sizes contradict the program.
    pub fn open_at(text: &str, sizes: &Sizes) -> Result<Self, Problem> {
        if text.trim().is_empty() {
            let help = "choose an example, or paste HLO or StableHLO text".to_owned();
            return Err(Problem {
                help: Some(help),
                ..Problem::new("the program is empty")
            });
        }
        let mut open_sizes = Vec::new();
        let source = if tegula_sim_tpu::is_kernel(text) {
            let program = tegula_sim_tpu::read_kernel(text);
            Source::Kernel(Box::new(program.map_err(|e| text_problem(&e, text))?))
        } else {
            let module: Module = text
                .parse()
                .map_err(|e: tegula::Error| unread(Problem::of(&e, text), text))?;
            let (module, bound) = bind(module, sizes).map_err(|e| Problem::of(&e, text))?;
            open_sizes = bound;
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
            sizes: open_sizes,
        })
    }

    pub(crate) fn program(&self) -> Result<&ProgramSource, Problem> {
        match &self.source {
            Source::Program(program) => Ok(program),
            Source::Kernel(_) => Err(Problem::new(
                "this text is a kernel for the simulated TPU; open the TPU view",
            )),
        }
    }

    /// The fused graph and the plan.
    ///
    /// # Errors
    /// The text is a TPU kernel, or an operation cannot be compiled.
    pub fn planned(&self) -> Result<&Planned<'static>, Problem> {
        self.program()?.planned.as_ref().map_err(Clone::clone)
    }
}

/// Adds help to a parse error: if the text looks like no known format, how each format begins.
fn unread(problem: Problem, text: &str) -> Problem {
    const WORDS: [&str; 4] = ["HloModule", "ENTRY", "module", "func."];
    let is_program = WORDS.iter().any(|word| text.contains(word));
    let forms =
        "HLO begins with `HloModule`, StableHLO with `module`, and a TPU kernel with `kernel`";
    let help = problem.help.clone();
    Problem {
        help: help.or_else(|| (!is_program).then(|| forms.to_owned())),
        ..problem
    }
}

/// Replaces symbolic sizes by values. Returns the program and the values.
fn bind(module: Module, wanted: &Sizes) -> Result<(Module, Vec<SizeInfo>), tegula::Error> {
    let mut infos: Vec<SizeInfo> = module
        .program()
        .symbols
        .iter()
        .map(|symbol| SizeInfo {
            name: symbol.name.to_string(),
            lower: symbol.lower,
            upper: symbol.upper,
            value: None,
        })
        .collect();
    if wanted.leave_open || infos.is_empty() {
        return Ok((module, infos));
    }
    let mut failed = None;
    for tried in TRIED_SIZES {
        let value = |info: &SizeInfo| {
            let value = wanted.values.get(&info.name).copied().unwrap_or(tried);
            value.clamp(info.lower, info.upper)
        };
        let sizes: Vec<(&str, i64)> = infos
            .iter()
            .map(|info| (info.name.as_str(), value(info)))
            .collect();
        match module.bind_sizes(&sizes) {
            Ok(bound) => {
                let values: Vec<i64> = sizes.iter().map(|(_, value)| *value).collect();
                for (info, value) in infos.iter_mut().zip(values) {
                    info.value = Some(value);
                }
                return Ok((bound, infos));
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    // No tried value fits. That is an error if the user chose one of the sizes; otherwise the sizes
    // stay symbolic.
    match failed.filter(|_| {
        infos
            .iter()
            .any(|info| wanted.values.contains_key(&info.name))
    }) {
        Some(error) => Err(error),
        None => Ok((module, infos)),
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

/// Finds a chip by its name.
pub(crate) fn chip(name: &str) -> Result<Chip, Problem> {
    Chip::by_name(name).map_err(|e| Problem::new(e.to_string()))
}

/// A value's name for the page: that of its instruction, or else its number.
pub(crate) fn value_name(module: &tegula_ir::Module, program: &Program, value: ValueId) -> String {
    if program.values[value].def == Def::LoopState {
        let state = program.nodes.values().find_map(|node| match &node.kind {
            NodeKind::While { states, .. } => {
                let number = states.iter().position(|&state| state == value)?;
                Some(format!("state {number} of {}", module[node.origin].name))
            }
            _ => None,
        });
        return state.unwrap_or_else(|| value.to_string());
    }
    let name = tegula_layout::assign::name_of(module, program, value);
    name.map_or_else(|| value.to_string(), str::to_owned)
}
