//! Runs a device program. The runner is written once, for all kinds of devices.

use crate::device::{self, Allocation, Device, Launch, Session};
use crate::error::Error;
use crate::graphs::Recordings;
use crate::program::Program;
use crate::schedule::{Action, Schedule, schedule};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::{ArrayShape, Literal};
use tegula_plan::{PerSizes, Plan, verify};

/// A compiled plan, which several threads may run at the same time.
pub struct Executable {
    plan: Plan,
    program: Program,
    device: Box<dyn Device>,
    /// For each parameter, whether every run is given the same array.
    frozen: Vec<bool>,
    /// Constants and frozen parameters on the device.
    kept: Mutex<Option<Kept>>,
    /// The schedules for the sizes of past runs.
    prepared: PerSizes<Prepared>,
    recordings: Recordings,
    schedules: AtomicU64,
}

/// What stays on the device between runs.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// The device's context epoch in which it is valid.
    context_epoch: u64,
    address: u64,
}

/// A schedule, with a unique number.
struct Prepared {
    number: u64,
    schedule: Schedule,
}

/// The most iterations of a loop that are launched before its guard is read.
const MOST_AHEAD: u32 = 16;
/// A piece with fewer launches and copies gains nothing from being recorded.
const WORTH_RECORDING: usize = 3;

impl Executable {
    pub(crate) fn assemble(plan: Plan, program: Program, device: Box<dyn Device>) -> Self {
        Self {
            frozen: vec![false; plan.parameters.len()],
            plan,
            program,
            device,
            kept: Mutex::default(),
            prepared: PerSizes::default(),
            recordings: Recordings::default(),
            schedules: AtomicU64::new(0),
        }
    }

    /// The plan that was compiled.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Promises that runs from now on are given the same array for a parameter, until this is
    /// called again. The array is copied to the device only once. Nothing happens if there is no
    /// such parameter.
    pub fn freeze(&mut self, parameter: usize) {
        // A parameter whose memory a result takes over is changed by every run.
        let taken = self.plan.aliases.iter().any(|a| a.parameter == parameter);
        if let Some(frozen) = self.frozen.get_mut(parameter).filter(|_| !taken) {
            *frozen = true;
        }
        // From now on, addresses and contents are different.
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let (Some(kept), Ok(session)) = (kept.take(), self.device.open())
            && kept.context_epoch == session.context_epoch()
        {
            session.free(kept.address);
        }
        self.prepared = PerSizes::default();
    }

    /// Runs on flattened inputs, giving flattened results.
    ///
    /// # Errors
    /// Inputs of another number or shape than the program's, sizes that do not go
    /// together, too little memory, a device that fails, or an operation on the host
    /// that does.
    pub fn run(&self, inputs: &[Cow<'_, Literal>]) -> Result<Vec<Literal>, Error> {
        let mut results = Vec::new();
        self.on_device(inputs, &mut |run| {
            let schedule = &run.prepared.schedule;
            run.actions(&schedule.actions)?;
            for (place, shape) in &schedule.results {
                results.push(run.download(*place, shape)?);
            }
            Ok(())
        })?;
        Ok(results)
    }

    /// Uploads the inputs and calls `work` with the run.
    fn on_device(
        &self,
        inputs: &[Cow<'_, Literal>],
        work: &mut dyn FnMut(&Run<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let shapes: Vec<&ArrayShape> = inputs.iter().map(|l| l.shape()).collect();
        self.plan.check_inputs(&shapes)?;
        let session = self.device.open()?;
        let prepared = self.prepare(&*session, &shapes)?;
        let schedule = &prepared.schedule;
        let kept = self.keep(&*session, schedule, inputs)?;
        let _claim = tegula_limits::claim(schedule.own_bytes)?;
        let memory = Allocation::new(&*session, schedule.bytes - schedule.kept)?;
        let run = Run {
            executable: self,
            session: &*session,
            prepared: &prepared,
            kept,
            base: memory.address,
        };
        for (literal, place) in inputs.iter().zip(&schedule.parameters) {
            if *place >= schedule.kept {
                run.upload(literal, *place)?;
            }
        }
        work(&run)
    }

    /// The run time on the device, with inputs already there and results left there: the mean of
    /// `runs` runs, after two that are not counted. It waits only once. An input that a result
    /// takes over holds what the previous run left.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn time(&self, inputs: &[Cow<'_, Literal>], runs: u32) -> Result<Duration, Error> {
        let mut elapsed = Duration::ZERO;
        self.on_device(inputs, &mut |run| {
            // The second run is recorded, so that all further runs are replays.
            for _ in 0..2 {
                run.actions(&run.prepared.schedule.actions)?;
            }
            run.session.wait()?;
            let start = Instant::now();
            for _ in 0..runs {
                run.actions(&run.prepared.schedule.actions)?;
            }
            run.session.wait()?;
            elapsed = start.elapsed();
            Ok(())
        })?;
        Ok(elapsed / runs.max(1))
    }

    /// The device memory that a run with inputs of these shapes takes in addition to the inputs and
    /// the program's constants: the arena and the results.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn peak_bytes(&self, inputs: &[&ArrayShape]) -> Result<u64, Error> {
        self.plan.check_inputs(inputs)?;
        let session = self.device.open()?;
        Ok(self.prepare(&*session, inputs)?.schedule.own_bytes)
    }

    /// The schedule for inputs that were checked.
    fn prepare(
        &self,
        session: &dyn Session,
        inputs: &[&ArrayShape],
    ) -> Result<Arc<Prepared>, Error> {
        let sizes = match self.plan.has_open_sizes() {
            true => self.plan.bind(inputs).map_err(Error::Sizes)?,
            false => Vec::new(),
        };
        self.prepared.get(sizes, |sizes| {
            let plan = match self.plan.has_open_sizes() {
                true => Cow::Owned(self.plan.at(sizes).map_err(Error::Sizes)?),
                false => Cow::Borrowed(&self.plan),
            };
            verify(&plan).map_err(|errors| Error::Bug(errors.to_string()))?;
            let frozen = |parameter| self.frozen.get(parameter) == Some(&true);
            Ok(Prepared {
                number: self.schedules.fetch_add(1, Ordering::Relaxed),
                schedule: schedule(&self.program, &plan, sizes, &frozen, session)?,
            })
        })
    }

    /// The address of the memory kept between runs; the data is copied there at first. Offsets in
    /// it do not depend on symbolic sizes, because an array that is kept has one fixed size.
    fn keep(
        &self,
        session: &dyn Session,
        schedule: &Schedule,
        inputs: &[Cow<'_, Literal>],
    ) -> Result<u64, Error> {
        if schedule.kept == 0 {
            return Ok(0);
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.filter(|kept| kept.context_epoch == session.context_epoch()) {
            return Ok(kept.address);
        }
        let address = session.allocate(schedule.kept)?;
        let constants = self.plan.constants.iter().zip(&schedule.constants);
        let parameters = inputs.iter().zip(&schedule.parameters);
        let parameters = parameters.filter(|(_, place)| **place < schedule.kept);
        let all = constants.chain(parameters.map(|(literal, place)| (&**literal, place)));
        for (literal, place) in all {
            let written = match literal.bytes() {
                [] => Ok(()),
                bytes => session.write(address + place, bytes),
            };
            if let Err(error) = written {
                session.free(address);
                return Err(error);
            }
        }
        let context_epoch = session.context_epoch();
        *kept = Some(Kept {
            context_epoch,
            address,
        });
        Ok(address)
    }
}

struct Run<'a> {
    executable: &'a Executable,
    session: &'a dyn Session,
    prepared: &'a Prepared,
    /// The address of the memory kept between runs; `base` is where the run's own memory begins.
    kept: u64,
    base: u64,
}

impl Run<'_> {
    fn address(&self, place: u64) -> u64 {
        let kept = self.prepared.schedule.kept;
        match place.checked_sub(kept) {
            Some(own) => self.base + own,
            None => self.kept + place,
        }
    }

    fn upload(&self, literal: &Literal, place: u64) -> Result<(), Error> {
        match literal.bytes() {
            [] => Ok(()),
            bytes => self.session.write(self.address(place), bytes),
        }
    }

    fn download(&self, place: u64, shape: &ArrayShape) -> Result<Literal, Error> {
        let too_large = |_| Error::OutOfMemory {
            needed: shape.byte_size().unwrap_or(0).unsigned_abs(),
            reason: "a result does not fit the host's memory".to_owned(),
        };
        let mut literal = Literal::zeros(shape).map_err(too_large)?;
        if !literal.bytes().is_empty() {
            let address = self.address(place);
            self.session.read(address, literal.bytes_mut())?;
        }
        Ok(literal)
    }

    fn actions(&self, actions: &[Action]) -> Result<(), Error> {
        actions.iter().try_for_each(|action| self.action(action))
    }

    fn action(&self, action: &Action) -> Result<(), Error> {
        tegula_limits::check()?;
        match action {
            Action::Launch { .. } | Action::Product(_) | Action::Copy { .. } => {
                self.simple(self.session, action)
            }
            Action::Straight { number, actions } => {
                let mut work = |session: &dyn Session| {
                    let mut actions = actions.iter();
                    actions.try_for_each(|action| self.simple(session, action))
                };
                if actions.len() < WORTH_RECORDING {
                    return work(self.session);
                }
                let piece = (self.prepared.number, *number, self.base);
                let recordings = &self.executable.recordings;
                recordings.run(self.session, piece, &mut work)
            }
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
            Action::Repeat { iteration, guard } => {
                let mut ahead = 1;
                loop {
                    tegula_limits::check()?;
                    for _ in 0..ahead {
                        self.actions(iteration)?;
                    }
                    if self.flag(*guard)? == 0 {
                        return Ok(());
                    }
                    ahead = (ahead * 2).min(MOST_AHEAD);
                }
            }
            Action::Times { count, iteration } => {
                (0..*count).try_for_each(|_| self.actions(iteration))
            }
            Action::While {
                condition,
                predicate,
                body,
            } => loop {
                tegula_limits::check()?;
                self.actions(condition)?;
                if self.flag(*predicate)? == 0 {
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
                    usize::from(self.flag(*selector)? == 0)
                } else {
                    let mut selected = [0u8; 4];
                    let address = self.address(*selector);
                    self.session.read(address, &mut selected)?;
                    let selected = i32::from_le_bytes(selected);
                    usize::try_from(selected).map_or(last, |branch| branch.min(last))
                };
                branches
                    .get(branch)
                    .map_or(Ok(()), |actions| self.actions(actions))
            }
        }
    }

    /// Reads a byte of device memory.
    fn flag(&self, place: u64) -> Result<u8, Error> {
        let mut flag = [0u8];
        self.session.read(self.address(place), &mut flag)?;
        Ok(flag[0])
    }

    /// Does a launch, a library product or a copy.
    fn simple(&self, session: &dyn Session, action: &Action) -> Result<(), Error> {
        match action {
            Action::Launch {
                function,
                grid,
                places,
                sizes,
                guard,
            } => {
                let function_of = &self.executable.program.functions[*function];
                let places = places.iter().map(|place| self.address(*place));
                let sizes = sizes.iter().map(|size| size.cast_unsigned());
                let guard = guard.map(|place| self.address(place));
                let arguments: smallvec::SmallVec<[u64; 16]> =
                    places.chain(sizes).chain(guard).collect();
                session.launch(&Launch {
                    function: *function,
                    name: &function_of.name,
                    grid: *grid,
                    block: function_of.block,
                    arguments: &arguments,
                })
            }
            Action::Product(product) => {
                let address = |place: Option<u64>| place.map_or(0, |place| self.address(place));
                session.multiply(&device::Product {
                    matrices: &product.matrices,
                    choice: product.choice,
                    addresses: product.places.map(address),
                })
            }
            Action::Copy { bytes: 0, .. } => Ok(()),
            Action::Copy { from, to, bytes } => {
                session.copy(self.address(*from), self.address(*to), *bytes)
            }
            _ => Err(Error::Bug(
                "a CUDA graph was recorded over steps with control flow".to_owned(),
            )),
        }
    }
}
