//! A plan as a device program: one source with every kernel, and the steps that
//! launch them.

use crate::emit;
use crate::error::Error;
use crate::function::Function;
use crate::functions::needed;
use crate::library::{Routine, routine};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;
use tegula_expr::Term;
use tegula_fusion::LibraryOp;
use tegula_fusion::kernel::Access;
use tegula_ir::{ArrayShape, ElementType};
use tegula_layout::plan::{KernelId, Plan, Step, ValueId};

/// A step of a device program. Values are the plan's.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Launches a function on arrays.
    Launch {
        /// Its number.
        function: usize,
        arguments: Vec<ValueId>,
    },
    /// Sorts along a dimension of this length, by passes of a function.
    Sort {
        function: usize,
        length: Term,
        operands: Vec<ValueId>,
        results: Vec<ValueId>,
    },
    /// Copies one value to another.
    Copy { from: ValueId, to: ValueId },
    /// Runs an operation on the host.
    Host {
        op: LibraryOp,
        operands: Vec<ValueId>,
        results: Vec<ValueId>,
    },
    While {
        condition: Vec<Stage>,
        predicate: ValueId,
        body: Vec<Stage>,
    },
    Conditional {
        selector: ValueId,
        is_pred: bool,
        branches: Vec<Vec<Stage>>,
    },
}

/// A device program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub functions: Vec<Function>,
    pub stages: Vec<Stage>,
}

/// Makes the program of a plan.
///
/// # Errors
/// An operation that a type lacks.
pub(crate) fn program(plan: &Plan) -> Result<Program, Error> {
    let mut maker = Maker {
        plan,
        together: FxHashSet::default(),
        functions: Vec::new(),
        kernels: FxHashMap::default(),
        routines: FxHashMap::default(),
    };
    maker.note_shared(&plan.steps);
    let stages = maker.stages(&plan.steps)?;
    Ok(Program {
        functions: maker.functions,
        stages,
    })
}

/// What stands for the name of a function that has none yet.
const UNNAMED: &str = "routine_without_name";

struct Maker<'a> {
    plan: &'a Plan,
    /// Kernels of which some step reads an array where it writes.
    together: FxHashSet<KernelId>,
    functions: Vec<Function>,
    kernels: FxHashMap<KernelId, usize>,
    /// Library operations' functions by their text without a name.
    routines: FxHashMap<String, usize>,
}

impl Maker<'_> {
    fn note_shared(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Kernel { kernel, args } => {
                    let params = &self.plan.kernels[*kernel].params;
                    let with = |wanted: fn(Access) -> bool| {
                        let pairs = params.iter().zip(args);
                        pairs
                            .filter(move |(p, _)| wanted(p.access))
                            .map(|(_, &v)| v)
                    };
                    let shared = with(|a| a != Access::Read)
                        .any(|w| with(|a| a == Access::Read).any(|r| self.plan.same_place(r, w)));
                    if shared {
                        self.together.insert(*kernel);
                    }
                }
                Step::While {
                    condition, body, ..
                } => {
                    self.note_shared(condition);
                    self.note_shared(body);
                }
                Step::Conditional { branches, .. } => {
                    branches.iter().for_each(|steps| self.note_shared(steps));
                }
                Step::Copy { .. } | Step::Library { .. } => {}
            }
        }
    }

    fn stages(&mut self, steps: &[Step]) -> Result<Vec<Stage>, Error> {
        let mut stages = Vec::with_capacity(steps.len());
        for step in steps {
            stages.extend(self.stage(step)?);
        }
        Ok(stages)
    }

    fn stage(&mut self, step: &Step) -> Result<Option<Stage>, Error> {
        Ok(Some(match step {
            Step::Kernel { kernel, args } => Stage::Launch {
                function: self.kernel(*kernel)?,
                arguments: args.clone(),
            },
            Step::Copy { from, to } if self.plan.same_place(*from, *to) => return Ok(None),
            Step::Copy { from, to } => Stage::Copy {
                from: *from,
                to: *to,
            },
            Step::Library {
                op,
                operands,
                results,
            } => self.library(op, operands, results)?,
            Step::While {
                condition,
                predicate,
                body,
            } => Stage::While {
                condition: self.stages(condition)?,
                predicate: *predicate,
                body: self.stages(body)?,
            },
            Step::Conditional { selector, branches } => {
                let element_type = self.plan.values[*selector].shape.element_type;
                let branches: Result<_, _> = branches.iter().map(|b| self.stages(b)).collect();
                Stage::Conditional {
                    selector: *selector,
                    is_pred: element_type == ElementType::Pred,
                    branches: branches?,
                }
            }
        }))
    }

    fn kernel(&mut self, id: KernelId) -> Result<usize, Error> {
        if let Some(&known) = self.kernels.get(&id) {
            return Ok(known);
        }
        let apart = !self.together.contains(&id);
        let function = emit::function(&id.to_string(), &self.plan.kernels[id], apart)?;
        let number = self.add(function);
        self.kernels.insert(id, number);
        Ok(number)
    }

    fn add(&mut self, function: Function) -> usize {
        self.functions.push(function);
        self.functions.len() - 1
    }

    fn library(
        &mut self,
        op: &LibraryOp,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Result<Stage, Error> {
        let shapes = |values: &[ValueId]| -> Vec<&ArrayShape> {
            values.iter().map(|&v| &self.plan.values[v].shape).collect()
        };
        let symbols = &self.plan.symbols;
        let routine = routine(UNNAMED, op, &shapes(operands), &shapes(results), symbols)?;
        let (operands, results) = (operands.to_vec(), results.to_vec());
        Ok(match routine {
            Routine::Function(function) => Stage::Launch {
                function: self.routine(op, *function),
                arguments: operands.into_iter().chain(results).collect(),
            },
            Routine::Sort(function, length) => Stage::Sort {
                function: self.routine(op, *function),
                length,
                operands,
                results,
            },
            Routine::Host => Stage::Host {
                op: op.clone(),
                operands,
                results,
            },
        })
    }

    /// The number of a library operation's function, which has no name yet.
    fn routine(&mut self, op: &LibraryOp, mut function: Function) -> usize {
        if let Some(&known) = self.routines.get(&function.text) {
            return known;
        }
        let name = format!("{}{}", op.name().replace('-', "_"), self.routines.len());
        let unnamed = function.text.clone();
        function.text = unnamed.replace(UNNAMED, &name);
        function.name = name;
        let number = self.add(function);
        self.routines.insert(unnamed, number);
        number
    }
}

impl Program {
    /// The source of all functions: CUDA C++ that includes no header.
    pub(crate) fn source(&self) -> String {
        let mut text = String::new();
        for function in &self.functions {
            let _ = write!(
                text,
                "// {}: {}\n{}\n",
                function.name, function.reason, function.text
            );
        }
        needed(&text) + &text
    }
}
