//! A device program at the sizes of a run: every address is an offset in one allocation, and every
//! launch has its numbers.
//!
//! The allocation begins with what is kept between runs: constants, and parameters that are frozen.
//! The other parameters, results, the arena and scratch memory follow. Consecutive launches and
//! copies form one straight-line piece, which a device may record and replay as a whole.

use crate::device::{Choice, Session};
use crate::error::Error;
use crate::function::{Function, Slot, Work};
use crate::host::HostCall;
use crate::library::matrices::Matrices;
use crate::program::{self, Launches, Program, Stage};
use tegula_expr::Term;
use tegula_ir::ArrayShape;
use tegula_plan::{Place, Plan, ValueId};

/// One action of a run. Places are byte offsets in the allocation.
#[derive(Debug)]
pub(crate) enum Action {
    Launch {
        function: usize,
        grid: [u32; 3],
        places: Vec<u64>,
        /// The values of symbolic dimensions, which are passed after the arrays.
        sizes: Vec<i64>,
        /// The address of the guard: the last argument of a function that has one.
        guard: Option<u64>,
    },
    /// A product computed by the device's library.
    Product(Box<Product>),
    /// Consecutive launches, products and copies, numbered within the schedule.
    Straight {
        number: usize,
        actions: Vec<Action>,
    },
    /// Runs iterations until the guard, which each iteration sets, is 0. Iterations that are
    /// launched after that change nothing.
    Repeat {
        iteration: Vec<Action>,
        guard: u64,
    },
    /// A fixed number of iterations.
    Times {
        count: u64,
        iteration: Vec<Action>,
    },
    Copy {
        from: u64,
        to: u64,
        bytes: u64,
    },
    Host {
        call: Box<HostCall>,
        operands: Vec<u64>,
        results: Vec<u64>,
    },
    While {
        condition: Vec<Action>,
        predicate: u64,
        body: Vec<Action>,
    },
    Conditional {
        selector: u64,
        is_pred: bool,
        branches: Vec<Vec<Action>>,
    },
}

/// A product, and the places of its arrays; see [`crate::device::Product`].
#[derive(Debug)]
pub(crate) struct Product {
    pub matrices: Matrices,
    pub choice: Choice,
    pub places: [Option<u64>; 6],
}

/// The actions of a run, and how much memory it takes.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub actions: Vec<Action>,
    /// The places of constants, parameters and results.
    pub constants: Vec<u64>,
    pub parameters: Vec<u64>,
    pub results: Vec<(u64, ArrayShape)>,
    /// The size of the memory kept between runs, in bytes; it is a separate allocation.
    pub kept: u64,
    /// The size of the whole allocation, in bytes.
    pub bytes: u64,
    /// The size of the arena and the results, in bytes.
    pub own_bytes: u64,
}

/// Resolves a plan's program at given sizes; `plan` is the plan at these sizes. Parameters for
/// which `frozen` holds are kept between runs. The session decides which products the device's
/// library computes.
///
/// # Errors
/// A size that overflows.
pub(crate) fn schedule(
    program: &Program,
    plan: &Plan,
    sizes: &[i64],
    frozen: &dyn Fn(usize) -> bool,
    session: &dyn Session,
) -> Result<Schedule, Error> {
    let mut next = 0u64;
    let constants = plan.constants.iter().map(|c| c.bytes().len() as u64);
    let constants = constants
        .map(|bytes| reserve(&mut next, bytes))
        .collect::<Result<_, _>>()?;
    let values = |values: &[ValueId], next: &mut u64| -> Result<Vec<u64>, Error> {
        values
            .iter()
            .map(|&v| reserve(next, bytes_of(plan, v)?))
            .collect()
    };
    let mut parameters = vec![0; plan.parameters.len()];
    let mut kept = next;
    for wanted in [true, false] {
        for (i, place) in parameters.iter_mut().enumerate() {
            if frozen(i) == wanted {
                *place = reserve(&mut next, bytes_of(plan, plan.parameters[i])?)?;
            }
        }
        if wanted {
            kept = next;
        }
    }
    let before = next;
    let results = values(&plan.results, &mut next)?;
    let arena = plan
        .arena_bytes
        .as_constant()
        .and_then(|b| u64::try_from(b).ok());
    let arena = arena.ok_or_else(|| Error::Bug("the arena has no size".to_owned()))?;
    let start = reserve(&mut next, arena)?;
    let scratch = next;
    let mut resolver = Resolver {
        functions: &program.functions,
        session,
        plan,
        sizes,
        constants,
        parameters,
        results,
        arena: start,
        scratch,
        end: scratch,
        guard: None,
        straight: 0,
    };
    let actions = resolver.actions(&program.stages)?;
    let shapes = plan.results.iter().map(|&v| plan.values[v].shape.clone());
    resolver.alias_parameters();
    Ok(Schedule {
        actions,
        results: resolver.results.iter().copied().zip(shapes).collect(),
        constants: resolver.constants,
        parameters: resolver.parameters,
        kept,
        bytes: resolver.end,
        own_bytes: resolver.end - before,
    })
}

/// The alignment of device memory, in bytes.
const ALIGNMENT: u64 = 256;

/// The alignment of a place in bytes, at most that of device memory.
fn alignment(place: u64) -> u32 {
    let bits = place.trailing_zeros().min(ALIGNMENT.trailing_zeros());
    1 << bits
}

fn reserve(next: &mut u64, bytes: u64) -> Result<u64, Error> {
    let place = *next;
    let end = place
        .checked_add(bytes)
        .and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
    *next = end.ok_or_else(|| {
        Error::Sizes("the program's arrays exceed the 64-bit address space".to_owned())
    })?;
    Ok(place)
}

fn bytes_of(plan: &Plan, value: ValueId) -> Result<u64, Error> {
    let bytes = plan.values[value].shape.byte_size();
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| Error::Bug(format!("{value} has no size")))
}

struct Resolver<'a> {
    functions: &'a [Function],
    session: &'a dyn Session,
    plan: &'a Plan,
    sizes: &'a [i64],
    constants: Vec<u64>,
    parameters: Vec<u64>,
    results: Vec<u64>,
    arena: u64,
    /// The start of the scratch memory of single calls; `end` is the highest end of any call's
    /// scratch memory.
    scratch: u64,
    end: u64,
    /// The guard of the loop whose body is being resolved.
    guard: Option<u64>,
    /// The number of straight-line pieces so far.
    straight: usize,
}

impl Resolver<'_> {
    /// A parameter that a result may take over is stored in the result's place.
    fn alias_parameters(&mut self) {
        for alias in &self.plan.aliases {
            if let (Some(parameter), Some(&result)) = (
                self.parameters.get_mut(alias.parameter),
                self.results.get(alias.output),
            ) {
                *parameter = result;
            }
        }
    }

    fn place(&self, value: ValueId) -> Result<u64, Error> {
        let found = match &self.plan.buffers[self.plan.values[value].buffer].place {
            Place::Parameter(i) => self.parameters.get(*i).copied(),
            Place::Output { result, from } => {
                let start = self.results.get(*result);
                let from = u64::try_from(*from).ok();
                start.and_then(|start| start.checked_add(from?))
            }
            Place::Constant(i) => self.constants.get(*i).copied(),
            Place::Arena(offset) => {
                let offset = offset.as_constant().and_then(|o| u64::try_from(o).ok());
                offset.and_then(|offset| self.arena.checked_add(offset))
            }
        };
        found.ok_or_else(|| Error::Bug(format!("{value} has no address")))
    }

    fn places(&self, values: &[ValueId]) -> Result<Vec<u64>, Error> {
        values.iter().map(|&v| self.place(v)).collect()
    }

    fn number(&self, term: &Term) -> Result<i64, Error> {
        let value = term.eval(&|var| self.sizes.get(var.0 as usize).copied());
        value.map_err(|error| Error::Sizes(format!("a size cannot be computed: {error}")))
    }

    fn actions(&mut self, stages: &[Stage]) -> Result<Vec<Action>, Error> {
        let mut actions = Vec::with_capacity(stages.len());
        for stage in stages {
            actions.extend(self.action(stage)?);
        }
        Ok(self.pieces(actions))
    }

    /// A product by the device's library; `None` if the library does not support it.
    fn product(&mut self, product: &program::Product) -> Result<Option<Action>, Error> {
        let Some(matrices) = product.matrices(self.plan) else {
            return Ok(None);
        };
        let &[lhs, rhs, ref added @ ..] = &product.operands[..] else {
            return Err(Error::Bug(
                "a matrix product must have at least two operands".to_owned(),
            ));
        };
        let [a, b] = match matrices.swapped {
            true => [rhs, lhs],
            false => [lhs, rhs],
        };
        let added = added.first().copied().unwrap_or(product.out);
        let mut places = [None; 6];
        let values = [a, b, added, product.out].map(Some);
        for (place, value) in places
            .iter_mut()
            .zip(values.into_iter().chain([product.bias]))
        {
            *place = value.map(|value| self.place(value)).transpose()?;
        }
        let alignment = std::array::from_fn(|i| match places[i] {
            Some(place) => alignment(place),
            None => ALIGNMENT as u32,
        });
        let Some(choice) = self.session.choose(&matrices, alignment)? else {
            tracing::info!(%matrices, "the library does not support this product");
            return Ok(None);
        };
        if choice.workspace > 0 {
            let mut end = self.scratch;
            places[5] = Some(reserve(&mut end, choice.workspace)?);
            self.end = self.end.max(end);
        }
        Ok(Some(Action::Product(Box::new(Product {
            matrices,
            choice,
            places,
        }))))
    }

    /// Groups consecutive launches, products and copies.
    fn pieces(&mut self, actions: Vec<Action>) -> Vec<Action> {
        let mut all: Vec<Action> = Vec::with_capacity(actions.len());
        for action in actions {
            let is_straight = matches!(
                action,
                Action::Launch { .. } | Action::Product(_) | Action::Copy { .. }
            );
            match all.last_mut() {
                Some(Action::Straight { actions, .. }) if is_straight => actions.push(action),
                _ if is_straight => {
                    all.push(Action::Straight {
                        number: self.straight,
                        actions: vec![action],
                    });
                    self.straight += 1;
                }
                _ => all.push(action),
            }
        }
        all
    }

    /// One iteration of a loop that stays on the device.
    fn repetition(
        &mut self,
        condition: &[Stage],
        predicate: ValueId,
        body: &[Stage],
    ) -> Result<Action, Error> {
        // The body may reuse the predicate's own memory, so the guard is a copy.
        let guard = reserve(&mut self.scratch, 1)?;
        self.end = self.end.max(self.scratch);
        let mut actions = Vec::new();
        for stage in condition {
            actions.extend(self.action(stage)?);
        }
        actions.push(Action::Copy {
            from: self.place(predicate)?,
            to: guard,
            bytes: 1,
        });
        let outer = self.guard.replace(guard);
        for stage in body {
            actions.extend(self.action(stage)?);
        }
        self.guard = outer;
        Ok(Action::Repeat {
            iteration: self.pieces(actions),
            guard,
        })
    }

    /// The branches of a conditional that stays on the device, each guarded by its flag.
    fn choice(
        &mut self,
        selector: ValueId,
        choose: usize,
        branches: &[Vec<Stage>],
    ) -> Result<Vec<Action>, Error> {
        let flags = reserve(&mut self.scratch, branches.len() as u64)?;
        self.end = self.end.max(self.scratch);
        let places = vec![self.place(selector)?, flags];
        let mut actions = Vec::from_iter(self.launch(choose, places, None)?);
        for (branch, flag) in branches.iter().zip(flags..) {
            let outer = self.guard.replace(flag);
            for stage in branch {
                actions.extend(self.action(stage)?);
            }
            self.guard = outer;
        }
        Ok(actions)
    }

    fn action(&mut self, stage: &Stage) -> Result<Vec<Action>, Error> {
        Ok(vec![match stage {
            Stage::Launch {
                launches,
                arguments,
            } => return self.launches(launches, &self.places(arguments)?),
            Stage::Product { product, otherwise } => match self.product(product)? {
                Some(action) => action,
                None => {
                    let mut actions = Vec::new();
                    for stage in otherwise {
                        actions.extend(self.action(stage)?);
                    }
                    return Ok(actions);
                }
            },
            Stage::Copy { from, to } => Action::Copy {
                from: self.place(*from)?,
                to: self.place(*to)?,
                bytes: bytes_of(self.plan, *from)?,
            },
            Stage::Host {
                op,
                operands,
                results,
            } => Action::Host {
                call: Box::new(HostCall::new(self.plan, op, operands, results)?),
                operands: self.places(operands)?,
                results: self.places(results)?,
            },
            Stage::While {
                condition,
                predicate,
                body,
            } => Action::While {
                condition: self.actions(condition)?,
                predicate: self.place(*predicate)?,
                body: self.actions(body)?,
            },
            Stage::Repeat {
                condition,
                predicate,
                body,
            } => self.repetition(condition, *predicate, body)?,
            Stage::Times { count, body } => Action::Times {
                count: *count,
                iteration: self.actions(body)?,
            },
            Stage::Choice {
                selector,
                choose,
                branches,
            } => return self.choice(*selector, *choose, branches),
            Stage::Conditional {
                selector,
                is_pred,
                branches,
            } => Action::Conditional {
                selector: self.place(*selector)?,
                is_pred: *is_pred,
                branches: branches
                    .iter()
                    .map(|b| self.actions(b))
                    .collect::<Result<_, _>>()?,
            },
        }])
    }

    /// Launches of functions one after the other, on given places and scratch memory.
    fn launches(&mut self, launches: &Launches, given: &[u64]) -> Result<Vec<Action>, Error> {
        let mut end = self.scratch;
        let mut own = Vec::with_capacity(launches.scratch.len());
        for bytes in &launches.scratch {
            own.push(reserve(&mut end, self.bytes(bytes)?)?);
        }
        self.end = self.end.max(end);
        let place = |slot: &Slot| match *slot {
            Slot::Given(i) => given.get(i).copied(),
            Slot::Scratch(i) => own.get(i).copied(),
        };
        let places = |slots: &[Slot]| -> Result<Vec<u64>, Error> {
            let places: Option<Vec<u64>> = slots.iter().map(place).collect();
            places.ok_or_else(|| {
                Error::Bug("a kernel sequence uses an array number that is out of range".to_owned())
            })
        };
        let mut actions = Vec::with_capacity(launches.steps.len());
        for step in &launches.steps {
            match step {
                Work::Launch { function, arrays } => {
                    actions.extend(self.launch(*function, places(arrays)?, None)?);
                }
                Work::Passes {
                    function,
                    run,
                    length,
                    from,
                    to,
                    between,
                    bytes,
                } => {
                    let arrays = [places(from)?, places(to)?, places(between)?];
                    let runs = (*run, self.number(length)?);
                    actions.extend(self.passes(*function, runs, arrays, bytes)?);
                }
            }
        }
        Ok(actions)
    }

    fn bytes(&self, bytes: &Term) -> Result<u64, Error> {
        u64::try_from(self.number(bytes)?)
            .map_err(|_| Error::Sizes("an array's size is negative".to_owned()))
    }

    /// Passes that double the length of sorted runs, from `run` on. The source may be at the same
    /// place as the result.
    fn passes(
        &self,
        function: usize,
        (run, length): (i64, i64),
        [from, to, between]: [Vec<u64>; 3],
        bytes: &[Term],
    ) -> Result<Vec<Action>, Error> {
        let widths = std::iter::successors(Some(run), |width| width.checked_mul(2));
        let widths: Vec<i64> = widths.take_while(|&width| width < length).collect();
        let copies = |from: &[u64], to: &[u64]| -> Result<Vec<Action>, Error> {
            let pairs = from.iter().zip(to).zip(bytes);
            let moved = pairs.filter(|((from, to), _)| from != to);
            let copies = moved.map(|((&from, &to), bytes)| {
                let bytes = self.bytes(bytes)?;
                Ok(Action::Copy { from, to, bytes })
            });
            copies.collect()
        };
        if widths.is_empty() {
            return copies(&from, &to);
        }
        let mut source = from;
        let mut actions = Vec::with_capacity(widths.len());
        // The first pass would otherwise overwrite what it reads.
        let over = source.iter().zip(&to).any(|(from, to)| from == to);
        if over && widths.len() % 2 == 1 {
            actions = copies(&source, &between)?;
            source.clone_from(&between);
        }
        for (pass, &width) in widths.iter().enumerate() {
            // The last pass writes the result.
            let target = match (widths.len() - pass) % 2 {
                1 => &to,
                _ => &between,
            };
            let places = source.iter().chain(target).copied().collect();
            actions.extend(self.launch(function, places, Some(width))?);
            source.clone_from(target);
        }
        Ok(actions)
    }

    /// A launch; `None` if there is nothing to do. `last` is an argument that follows the sizes.
    fn launch(
        &self,
        number: usize,
        places: Vec<u64>,
        last: Option<i64>,
    ) -> Result<Option<Action>, Error> {
        let function = self.functions.get(number);
        let function =
            function.ok_or_else(|| Error::Bug(format!("function {number} was not compiled")))?;
        let mut grid = [0u32; 3];
        for (blocks, term) in grid.iter_mut().zip(&function.grid) {
            let wanted = self.number(term)?;
            if wanted == 0 {
                return Ok(None);
            }
            *blocks = u32::try_from(wanted)
                .ok()
                .filter(|&blocks| blocks <= MAX_BLOCKS)
                .ok_or_else(|| {
                    Error::Sizes(format!(
                        "`{}` needs {wanted} thread blocks, more than a launch may have",
                        function.name
                    ))
                })?;
        }
        let sizes = function
            .symbols
            .iter()
            .map(|&s| self.number(&Term::var(tegula_expr::Var(s))));
        let guard = self.guard.filter(|_| function.guarded);
        // Outside of guarded loops, the function's guard is a null pointer.
        let nowhere = (function.guarded && guard.is_none()).then_some(0);
        let sizes = sizes.chain(last.map(Ok)).chain(nowhere.map(Ok));
        Ok(Some(Action::Launch {
            function: number,
            grid,
            places,
            sizes: sizes.collect::<Result<_, _>>()?,
            guard,
        }))
    }
}

/// The most blocks along the first dimension of a grid (CUDA C++ Programming Guide, technical
/// specifications per compute capability).
const MAX_BLOCKS: u32 = i32::MAX as u32;
