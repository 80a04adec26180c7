//! A program that was read and planned.

use crate::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tegula::{Module, PlanOptions, Planned};
use tegula_fusion::{Def, NodeKind, Program, ValueId};
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

/// A size that the program leaves open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeInfo {
    /// Its name.
    pub name: String,
    /// The least that it may be.
    pub lower: i64,
    /// The most.
    pub upper: i64,
    /// What it is taken to be; nothing if it is left open.
    pub value: Option<i64>,
}

/// What open sizes are taken to be.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Sizes {
    /// By name; those that are not here get a small one.
    #[serde(default)]
    pub values: BTreeMap<String, i64>,
    /// Whether all stay open: the program as it is compiled for every size.
    #[serde(default)]
    pub leave_open: bool,
}

/// A program with what was found out about it.
pub struct Session {
    pub(crate) text: String,
    pub(crate) source: Source,
    pub(crate) sizes: Vec<SizeInfo>,
}

/// What an open size is taken to be at first: those that the program allows, the first of these.
const TRIED_SIZES: [i64; 6] = [8, 16, 4, 64, 2, 1];

impl Session {
    /// Reads and plans a program: HLO or StableHLO text, or a kernel of the simulated TPU. Sizes
    /// that it leaves open are small.
    ///
    /// # Errors
    /// What is wrong with the text, at its place. A program that is right but cannot be planned
    /// is no error: [`Self::planned`] says why.
    pub fn open(text: &str) -> Result<Self, Problem> {
        Self::open_at(text, &Sizes::default())
    }

    /// As [`Self::open`], with open sizes given.
    ///
    /// # Errors
    /// As [`Self::open`]; sizes that contradict the program.
    pub fn open_at(text: &str, sizes: &Sizes) -> Result<Self, Problem> {
        if text.trim().is_empty() {
            let help = "choose an example, or paste HLO or StableHLO text".to_owned();
            return Err(Problem {
                help: Some(help),
                ..Problem::new("there is no program yet")
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

/// What is wrong with a text; one that does not look like a program is told what programs look like.
fn unread(problem: Problem, text: &str) -> Problem {
    const WORDS: [&str; 4] = ["HloModule", "ENTRY", "module", "func."];
    let is_program = WORDS.iter().any(|word| text.contains(word));
    let forms =
        "HLO begins with `HloModule`, StableHLO with `module`, a kernel for the TPU with `kernel`";
    let help = problem.help.clone();
    Problem {
        help: help.or_else(|| (!is_program).then(|| forms.to_owned())),
        ..problem
    }
}

/// The program at sizes, and what they are.
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
    // Sizes that were asked for are refused; those that were made up are none.
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

/// The chip of a name.
pub(crate) fn chip(name: &str) -> Result<Chip, Problem> {
    Chip::by_name(name).map_err(|e| Problem::new(e.to_string()))
}

/// What a value of a program is called: its instruction, or its number.
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
