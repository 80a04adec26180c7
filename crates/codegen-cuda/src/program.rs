//! Turns a plan into a device program: one source with every kernel, and the stages that launch
//! them.

use crate::attention;
use crate::counted;
use crate::emit;
use crate::epilogue;
use crate::error::Error;
use crate::function::{Function, KernelSequence, Work, linear};
use crate::functions::needed;
use crate::library::matrices::{self, Epilogue, Matrices};
use crate::library::{Routine, routine};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;
use tegula_expr::Term;
use tegula_fusion::kernel::Access;
use tegula_fusion::{Contraction, LibraryOp};
use tegula_ir::{ArrayShape, ElementType};
use tegula_plan::{KernelId, Plan, Step, ValueId};

/// A stage of a device program; values are the plan's.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Launches functions one after the other on these arrays.
    Launch {
        launches: Launches,
        arguments: Vec<ValueId>,
    },
    /// A matrix product for a library, and the stages that compute it otherwise.
    Product {
        product: Box<Product>,
        otherwise: Vec<Stage>,
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
    /// A loop whose predicate the host does not wait for. Functions of the body do nothing once the
    /// predicate is false, so iterations may be launched before it is known.
    Repeat {
        condition: Vec<Stage>,
        predicate: ValueId,
        body: Vec<Stage>,
    },
    /// A loop with a known number of iterations.
    Times { count: u64, body: Vec<Stage> },
    Conditional {
        selector: ValueId,
        is_pred: bool,
        branches: Vec<Vec<Stage>>,
    },
    /// A conditional whose selector the host does not wait for. A function sets a flag for each
    /// branch, and the functions of branches whose flag is 0 do nothing.
    Choice {
        selector: ValueId,
        choose: usize,
        branches: Vec<Vec<Stage>>,
    },
}

/// A dot that is a matrix product, with its epilogue.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub contraction: Contraction,
    /// The dot's factors, and the addend if there is one.
    pub operands: Vec<ValueId>,
    pub epilogue: Epilogue,
    pub bias: Option<ValueId>,
    pub out: ValueId,
}

impl Product {
    /// The matrix product, if sizes are static and suitable.
    pub(crate) fn matrices(&self, plan: &Plan) -> Option<Matrices> {
        let shape = |value: ValueId| &plan.values[value].shape;
        let &[lhs, rhs, ref added @ ..] = &self.operands[..] else {
            return None;
        };
        matrices::matrices(
            &self.contraction,
            [shape(lhs), shape(rhs)],
            shape(self.out).element_type,
            !added.is_empty(),
            self.epilogue,
        )
    }
}

/// The most launches that may be made without effect: those of a counted loop after the predicate
/// of the enclosing loop has become false, or those of the branches of a conditional that are not
/// taken.
const MOST_IN_VAIN: u64 = 32;

impl Stage {
    /// Whether the host need not wait for the device within the stage.
    fn stays(&self) -> bool {
        match self {
            Self::Launch { .. } | Self::Copy { .. } | Self::Choice { .. } => true,
            // Many launches without effect take longer than reading the predicate.
            Self::Times { body, .. } => {
                self.launches() <= MOST_IN_VAIN && body.iter().all(Self::stays)
            }
            // In such a loop, our own functions are used, because they can be skipped.
            Self::Product { otherwise, .. } => otherwise.iter().all(Self::stays),
            _ => false,
        }
    }
}

impl Stage {
    /// The number of launches, copies and reads of the device.
    fn launches(&self) -> u64 {
        let all = |stages: &[Self]| stages.iter().map(Self::launches).sum::<u64>();
        match self {
            Self::Launch { launches, .. } => launches.steps.len() as u64,
            Self::Product { otherwise, .. } => all(otherwise),
            Self::Times { count, body } => count.saturating_mul(all(body)),
            Self::Choice { branches, .. } => 1 + branches.iter().map(|b| all(b)).sum::<u64>(),
            _ => 1,
        }
    }

    /// Whether the host should read the selector of a conditional that contains this stage: for
    /// products, so that a library may compute them, and for the passes of a sort, because a sort
    /// of a single element is a copy by the driver.
    fn is_worth_a_look(&self) -> bool {
        match self {
            Self::Product { .. } => true,
            Self::Launch { launches, .. } => {
                let mut steps = launches.steps.iter();
                steps.any(|step| matches!(step, Work::Passes { .. }))
            }
            Self::Times { body, .. } => body.iter().any(Self::is_worth_a_look),
            _ => false,
        }
    }
}

/// The steps of a kernel sequence, with functions numbered as in the program, and the size in bytes
/// of each scratch array.
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

/// Compiles a plan to a device program.
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

/// A placeholder for the name of a function that has none yet.
const UNNAMED: &str = "routine_without_name";

struct Maker<'a> {
    plan: &'a Plan,
    /// Kernels for which some step passes overlapping arrays to read and write.
    together: FxHashSet<KernelId>,
    readers: attention::Readers,
    functions: Vec<Function>,
    kernels: FxHashMap<KernelId, Launches>,
    /// The functions of library operations, by their text without names and their sizes.
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
                step => step
                    .blocks()
                    .iter()
                    .for_each(|steps| self.note_shared(steps)),
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
        // The number of steps that a product before them includes.
        let mut joined = 0;
        for (number, step) in steps.iter().enumerate() {
            match part_of.remove(&number) {
                None if joined > 0 => joined -= 1,
                // Strips are of no use on this device, so their steps run one after the other.
                None if let Step::Strips { steps, .. } = step => {
                    stages.extend(self.stages(steps)?);
                }
                None => {
                    let [before, after] = [&steps[..number], &steps[number + 1..]];
                    match self.product(before, step, after)? {
                        Some((product, steps)) => {
                            stages.push(product);
                            joined = steps;
                        }
                        None => stages.extend(self.stage(before, step)?),
                    }
                }
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
            // The steps of strips are handled by the caller.
            Step::Strips { .. } => return Ok(None),
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
                self.choice(*selector, element_type == ElementType::Pred, branches?)?
            }
        }))
    }

    /// A dot that a library may compute, and the number of following steps that it includes.
    fn product(
        &mut self,
        before: &[Step],
        step: &Step,
        after: &[Step],
    ) -> Result<Option<(Stage, usize)>, Error> {
        let Step::Library {
            op: LibraryOp::Dot(contraction),
            operands,
            results,
        } = step
        else {
            return Ok(None);
        };
        let (&[lhs, rhs, ..], &[result]) = (&operands[..], &results[..]) else {
            return Ok(None);
        };
        let ty = |value: ValueId| self.plan.values[value].shape.element_type;
        if ty(lhs) != ty(rhs) || !matrices::has_product(ty(lhs), ty(result)) {
            return Ok(None);
        }
        let mut product = Product {
            contraction: (**contraction).clone(),
            operands: operands.clone(),
            epilogue: Epilogue::default(),
            bias: None,
            out: result,
        };
        let known = product.matrices(self.plan);
        let open = self.plan.has_open_sizes();
        if known.is_none() && !open {
            return Ok(None);
        }
        let joined = known.and_then(|known| {
            let dot = (&operands[..], result);
            epilogue::find(self.plan, after, &self.readers, dot, known.rows)
        });
        let mut otherwise = Vec::from_iter(self.stage(before, step)?);
        let mut steps = 0;
        if let Some(joined) = joined {
            steps = joined.steps;
            (product.epilogue, product.bias) = (joined.epilogue, joined.bias);
            product.out = joined.out;
            for step in &after[..steps] {
                otherwise.extend(self.stage(before, step)?);
            }
        }
        let product = Box::new(product);
        Ok(Some((Stage::Product { product, otherwise }, steps)))
    }

    /// A conditional. If the branches are few function launches, all are launched, because that
    /// takes less time than waiting for the selector.
    fn choice(
        &mut self,
        selector: ValueId,
        is_pred: bool,
        mut branches: Vec<Vec<Stage>>,
    ) -> Result<Stage, Error> {
        let mut stages = branches.iter().flatten();
        let count: u64 = branches.iter().flatten().map(Stage::launches).sum();
        let stays = stages.all(|stage| stage.stays() && !stage.is_worth_a_look());
        if !stays || count > MOST_IN_VAIN {
            return Ok(Stage::Conditional {
                selector,
                is_pred,
                branches,
            });
        }
        for branch in &mut branches {
            self.guard(branch)?;
        }
        let function = choose(UNNAMED, is_pred, branches.len());
        let launches = self.routine("choose", KernelSequence::one(function, 2));
        let Some(&Work::Launch {
            function: choose, ..
        }) = launches.steps.first()
        else {
            return Err(Error::Bug(
                "a conditional's first step must be a launch".to_owned(),
            ));
        };
        Ok(Stage::Choice {
            selector,
            choose,
            branches,
        })
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

    /// Makes stages do nothing once the predicate of the enclosing loop is false.
    fn guard(&mut self, stages: &mut Vec<Stage>) -> Result<(), Error> {
        // A library call cannot be skipped by the device either.
        let all = std::mem::take(stages).into_iter();
        stages.extend(all.flat_map(|stage| match stage {
            Stage::Product { otherwise, .. } => otherwise,
            other => vec![other],
        }));
        for stage in stages {
            // A copy by the driver cannot be skipped by the device.
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

    fn add(&mut self, mut series: KernelSequence) -> Launches {
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

    /// The numbers of a library operation's functions, which get their names here.
    fn routine(&mut self, what: &str, mut series: KernelSequence) -> Launches {
        // Functions with the same text may differ in the number of blocks, if only the number of
        // batches differs.
        let functions = series.functions.iter();
        let same = |f: &Function| format!("{}{:?}{:?}", f.text, f.block, f.grid);
        let mut unnamed: String = functions.map(same).collect();
        let _ = write!(unnamed, "{:?}", series.scratch);
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

/// A function that sets a flag for each branch of a conditional. If the conditional itself is
/// skipped, all flags are 0.
fn choose(name: &str, is_pred: bool, branches: usize) -> Function {
    let last = branches.saturating_sub(1);
    let (selector, branch) = match is_pred {
        true => ("unsigned char", "(*selector != 0 ? 0 : 1)".to_owned()),
        false => (
            "int",
            format!("(*selector < 0 || *selector > {last} ? {last} : *selector)"),
        ),
    };
    let text = format!(
        "extern \"C\" __global__ void __launch_bounds__(32) {name}(const {selector} *__restrict__ selector, \
         unsigned char *__restrict__ flags, const unsigned char *__restrict__ guard) {{
    // What is left out has no selector.
    const bool any = guard == 0 || *guard != 0;
    const int branch = !any ? -1 : {branch};
    for (int i = threadIdx.x; i < {branches}; i += 32) flags[i] = i == branch;
}}
"
    );
    Function {
        name: name.to_owned(),
        reason: "flags for the branches of a choice".to_owned(),
        text,
        block: [32, 1, 1],
        grid: linear(Term::constant(1)),
        symbols: Vec::new(),
        guarded: true,
    }
}

impl Program {
    /// A listing, as comments, of the products passed to cublasLt if it is found, and of the
    /// functions used otherwise.
    pub(crate) fn products(&self, plan: &Plan) -> String {
        let mut text = String::new();
        self.note_products(plan, &self.stages, &mut text);
        text
    }

    fn note_products(&self, plan: &Plan, stages: &[Stage], text: &mut String) {
        for stage in stages {
            let lists = match stage {
                Stage::Product { product, otherwise } => {
                    let what = match product.matrices(plan) {
                        Some(matrices) => matrices.to_string(),
                        None => "a product, if its sizes suit".to_owned(),
                    };
                    let functions = otherwise.iter().flat_map(|stage| match stage {
                        Stage::Launch { launches, .. } => &launches.steps[..],
                        _ => &[],
                    });
                    let numbers = functions.map(|step| match *step {
                        Work::Launch { function, .. } | Work::Passes { function, .. } => function,
                    });
                    let names = numbers.filter_map(|number| self.functions.get(number));
                    let names: Vec<&str> = names.map(|function| &function.name[..]).collect();
                    let names = names.join(", ");
                    let _ = writeln!(text, "// cublasLt: {what}; without it {names}");
                    continue;
                }
                Stage::While {
                    condition, body, ..
                }
                | Stage::Repeat {
                    condition, body, ..
                } => vec![condition, body],
                Stage::Times { body, .. } => vec![body],
                Stage::Conditional { branches, .. } | Stage::Choice { branches, .. } => {
                    branches.iter().collect()
                }
                _ => continue,
            };
            for stages in lists {
                self.note_products(plan, stages, text);
            }
        }
    }

    /// The source of all functions: CUDA C++ that includes no headers.
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
