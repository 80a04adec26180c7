//! Running a device program: once written, for every device.

use crate::device::{Allocation, Device, Launch};
use crate::error::Error;
use crate::program::Program;
use crate::schedule::{Action, Schedule, schedule};
use std::borrow::Cow;
use std::sync::Arc;
use tegula_ir::{ArrayShape, Literal};
use tegula_layout::plan::{PerSizes, Plan, verify};

/// A compiled plan. It may be run by several threads at once.
pub struct Executable {
    plan: Plan,
    program: Program,
    device: Box<dyn Device>,
    /// The program at the sizes of runs so far.
    prepared: PerSizes<Schedule>,
}

impl Executable {
    pub(crate) fn assemble(plan: Plan, program: Program, device: Box<dyn Device>) -> Self {
        Self {
            plan,
            program,
            device,
            prepared: PerSizes::default(),
        }
    }

    /// What was compiled.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs on flattened inputs, giving flattened results.
    ///
    /// # Errors
    /// Inputs of another number or shape than the program's, sizes that do not go
    /// together, too little memory, a device that fails, or an operation on the host
    /// that does.
    pub fn run(&self, inputs: &[Cow<'_, Literal>]) -> Result<Vec<Literal>, Error> {
        let shapes: Vec<&ArrayShape> = inputs.iter().map(|l| l.shape()).collect();
        let schedule = self.prepare(&shapes)?;
        let memory = Allocation::new(&*self.device, schedule.bytes)?;
        let run = Run {
            executable: self,
            base: memory.address,
        };
        for (literal, place) in self.plan.constants.iter().zip(&schedule.constants) {
            run.upload(literal, *place)?;
        }
        for (literal, place) in inputs.iter().zip(&schedule.parameters) {
            run.upload(literal, *place)?;
        }
        run.actions(&schedule.actions)?;
        let results = schedule.results.iter();
        results
            .map(|(place, shape)| run.download(*place, shape))
            .collect()
    }

    /// Bytes of device memory that a run on inputs of these shapes takes beyond them
    /// and the program's constants: the arena and the results.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn peak_bytes(&self, inputs: &[&ArrayShape]) -> Result<u64, Error> {
        Ok(self.prepare(inputs)?.own_bytes)
    }

    fn prepare(&self, inputs: &[&ArrayShape]) -> Result<Arc<Schedule>, Error> {
        self.plan.check_inputs(inputs)?;
        let sizes = match self.plan.has_open_sizes() {
            true => self.plan.bind(inputs).map_err(Error::Sizes)?,
            false => Vec::new(),
        };
        self.prepared.get(sizes, |sizes| {
            let plan = match self.plan.has_open_sizes() {
                true => Cow::Owned(self.plan.at(sizes).map_err(Error::Sizes)?),
                false => Cow::Borrowed(&self.plan),
            };
            verify(&plan).map_err(|errors| Error::Bug(errors.join("; ")))?;
            schedule(&self.program, &plan, sizes)
        })
    }
}

struct Run<'a> {
    executable: &'a Executable,
    /// Where the run's memory begins.
    base: u64,
}

impl Run<'_> {
    fn device(&self) -> &dyn Device {
        &*self.executable.device
    }

    fn upload(&self, literal: &Literal, place: u64) -> Result<(), Error> {
        match literal.bytes() {
            [] => Ok(()),
            bytes => self.device().write(self.base + place, bytes),
        }
    }

    fn download(&self, place: u64, shape: &ArrayShape) -> Result<Literal, Error> {
        let too_large = |_| Error::OutOfMemory {
            needed: shape.byte_size().unwrap_or(0).unsigned_abs(),
            reason: "a result does not fit the host's memory".to_owned(),
        };
        let mut literal = Literal::zeros(shape).map_err(too_large)?;
        if !literal.bytes().is_empty() {
            self.device().read(self.base + place, literal.bytes_mut())?;
        }
        Ok(literal)
    }

    fn actions(&self, actions: &[Action]) -> Result<(), Error> {
        actions.iter().try_for_each(|action| self.action(action))
    }

    fn action(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Launch {
                function,
                grid,
                places,
                sizes,
            } => self.launch(*function, *grid, places, sizes),
            Action::Copy { from, to, bytes } => match bytes {
                0 => Ok(()),
                _ => self.device().copy(self.base + from, self.base + to, *bytes),
            },
            Action::Host {
                call,
                operands,
                results,
            } => {
                let pairs = call.operands().zip(operands);
                let operands: Result<Vec<Literal>, Error> = pairs
                    .map(|(shape, place)| self.download(*place, shape))
                    .collect();
                let outputs = call.run(&operands?)?;
                let mut pairs = outputs.iter().zip(results);
                pairs.try_for_each(|(literal, place)| self.upload(literal, *place))
            }
            Action::While {
                condition,
                predicate,
                body,
            } => loop {
                self.actions(condition)?;
                let mut holds = [0u8];
                self.device().read(self.base + predicate, &mut holds)?;
                if holds == [0] {
                    return Ok(());
                }
                self.actions(body)?;
            },
            Action::Conditional {
                selector,
                is_pred,
                branches,
            } => {
                let last = branches.len().saturating_sub(1);
                let branch = if *is_pred {
                    let mut selected = [0u8];
                    self.device().read(self.base + selector, &mut selected)?;
                    usize::from(selected == [0])
                } else {
                    let mut selected = [0u8; 4];
                    self.device().read(self.base + selector, &mut selected)?;
                    let selected = i32::from_le_bytes(selected);
                    usize::try_from(selected).map_or(last, |branch| branch.min(last))
                };
                branches
                    .get(branch)
                    .map_or(Ok(()), |actions| self.actions(actions))
            }
        }
    }

    fn launch(
        &self,
        number: usize,
        grid: [u32; 3],
        places: &[u64],
        sizes: &[i64],
    ) -> Result<(), Error> {
        let function = &self.executable.program.functions[number];
        let arguments = places.iter().map(|place| self.base + place);
        let arguments = arguments.chain(sizes.iter().map(|size| size.cast_unsigned()));
        let arguments: smallvec::SmallVec<[u64; 16]> = arguments.collect();
        self.device().launch(&Launch {
            function: number,
            name: &function.name,
            grid,
            block: function.block,
            arguments: &arguments,
        })
    }
}
