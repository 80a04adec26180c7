//! A plan as a device program: one source with every kernel, and the steps that
//! launch them.

use crate::attention;
use crate::counted;
use crate::emit;
use crate::error::Error;
use crate::function::{Function, Series, Work};
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
    /// Launches functions one after the other on these arrays.
    Launch {
        launches: Launches,
        arguments: Vec<ValueId>,
    },
    /// Copies one value to another.
    Copy { from: ValueId, to: ValueId },
    /// Runs an operation on the host.
    Host {
        op: LibraryOp,
        operands: Vec<ValueId>,
        results: Vec<ValueId>,
    },
    /// A loop whose predicate the host reads before each iteration.
    While {
        condition: Vec<Stage>,
        predicate: ValueId,
        body: Vec<Stage>,
    },
    /// A loop that stays on the device: functions of the body do nothing once the
    /// predicate does not hold, so iterations may be asked for before it is known.
    Repeat {
        condition: Vec<Stage>,
        predicate: ValueId,
        body: Vec<Stage>,
    },
    /// A loop of so many iterations.
    Times { count: u64, body: Vec<Stage> },
    Conditional {
        selector: ValueId,
        is_pred: bool,
        branches: Vec<Vec<Stage>>,
    },
}

/// Launches of a counted loop inside of one that may have ended.
const MOST_IN_VAIN: u64 = 32;

impl Stage {
    /// Whether the host need not wait for the device in it.
    fn stays(&self) -> bool {
        match self {
            Self::Launch { .. } | Self::Copy { .. } => true,
            // Asked for in vain, many launches take longer than a look at the predicate.
            Self::Times { count, body } => {
                let launches = count.saturating_mul(body.len() as u64);
                launches <= MOST_IN_VAIN && body.iter().all(Self::stays)
            }
            _ => false,
        }
    }
}

/// The steps of a series, whose functions have the program's numbers, and the bytes of
/// each array of its own.
#[derive(Clone, Debug)]
pub(crate) struct Launches {
    pub steps: Vec<Work>,
    pub scratch: Vec<Term>,
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
        readers: attention::readers(plan),
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
    readers: attention::Readers,
    functions: Vec<Function>,
    kernels: FxHashMap<KernelId, Launches>,
    /// Library operations' functions by their text without a name.
    routines: FxHashMap<String, Launches>,
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
        let attention = attention::find(self.plan, steps, &self.readers, UNNAMED)?;
        let mut part_of = FxHashMap::default();
        for found in attention {
            let [start, middle, end] = found.steps;
            part_of.insert(start, None);
            part_of.insert(middle, None);
            part_of.insert(end, Some(found));
        }
        for (number, step) in steps.iter().enumerate() {
            match part_of.remove(&number) {
                None => stages.extend(self.stage(&steps[..number], step)?),
                Some(None) => {}
                Some(Some(found)) => {
                    stages.push(Stage::Launch {
                        launches: self.routine("attention", found.fused.series),
                        arguments: found.arguments,
                    });
                }
            }
        }
        Ok(stages)
    }

    fn stage(&mut self, before: &[Step], step: &Step) -> Result<Option<Stage>, Error> {
        Ok(Some(match step {
            Step::Kernel { kernel, args } => Stage::Launch {
                launches: self.kernel(*kernel)?,
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
            } => {
                let count = counted::iterations(self.plan, before, condition, *predicate, body);
                match count.filter(|_| self.readers.get(predicate) == Some(&1)) {
                    Some(count) => Stage::Times {
                        count,
                        body: self.stages(body)?,
                    },
                    None => self.repetition(condition, *predicate, body)?,
                }
            }
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

    fn repetition(
        &mut self,
        condition: &[Step],
        predicate: ValueId,
        body: &[Step],
    ) -> Result<Stage, Error> {
        let condition = self.stages(condition)?;
        let mut body = self.stages(body)?;
        let mut stages = condition.iter().chain(&body);
        if !stages.all(Stage::stays) {
            return Ok(Stage::While {
                condition,
                predicate,
                body,
            });
        }
        self.guard(&mut body)?;
        Ok(Stage::Repeat {
            condition,
            predicate,
            body,
        })
    }

    /// Has stages do nothing once the predicate of the loop that they are in does not hold.
    fn guard(&mut self, stages: &mut [Stage]) -> Result<(), Error> {
        for stage in stages {
            // A copy of the driver's cannot be left out by the device.
            if let Stage::Copy { from, to } = *stage {
                *stage = self.copy(from, to)?;
            }
            match stage {
                Stage::Launch { launches, .. } => {
                    for step in &mut launches.steps {
                        if let Some(function) = self.functions.get_mut(*step.function()) {
                            function.guard();
                        }
                    }
                }
                Stage::Times { body, .. } => self.guard(body)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A copy as a function.
    fn copy(&mut self, from: ValueId, to: ValueId) -> Result<Stage, Error> {
        let shape = &self.plan.values[from].shape;
        let kernel = crate::library::copy(shape, &self.plan.symbols);
        let series = emit::functions(UNNAMED, &kernel, true)?;
        Ok(Stage::Launch {
            launches: self.routine("copy", series),
            arguments: vec![from, to],
        })
    }

    fn kernel(&mut self, id: KernelId) -> Result<Launches, Error> {
        if let Some(known) = self.kernels.get(&id) {
            return Ok(known.clone());
        }
        let apart = !self.together.contains(&id);
        let series = emit::functions(&id.to_string(), &self.plan.kernels[id], apart)?;
        let launches = self.add(series);
        self.kernels.insert(id, launches.clone());
        Ok(launches)
    }

    fn add(&mut self, mut series: Series) -> Launches {
        for step in &mut series.steps {
            *step.function() += self.functions.len();
        }
        self.functions.extend(series.functions);
        Launches {
            steps: series.steps,
            scratch: series.scratch,
        }
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
            Routine::Functions(series) => Stage::Launch {
                launches: self.routine(op.name(), series),
                arguments: operands.into_iter().chain(results).collect(),
            },
            Routine::Host => Stage::Host {
                op: op.clone(),
                operands,
                results,
            },
        })
    }

    /// The numbers of a library operation's functions, which have no names yet.
    fn routine(&mut self, what: &str, mut series: Series) -> Launches {
        let texts = series.functions.iter().map(|f| f.text.as_str());
        let unnamed: String = texts.collect();
        if let Some(known) = self.routines.get(&unnamed) {
            return known.clone();
        }
        let name = format!("{}{}", what.replace('-', "_"), self.routines.len());
        for function in &mut series.functions {
            for text in [&mut function.name, &mut function.text, &mut function.reason] {
                *text = text.replace(UNNAMED, &name);
            }
        }
        let launches = self.add(series);
        self.routines.insert(unnamed, launches.clone());
        launches
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
