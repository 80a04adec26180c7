//! A simulated device: it interprets the PTX that NVRTC generates, and reports errors in it.
//!
//! Races, out-of-bounds accesses and reads of uninitialised memory fail the run with the kernel and
//! the instruction.

use crate::device::{Choice, Device, Launch, Product, Recording, Session};
use crate::error::Error;
use crate::execute::Executable;
use crate::library::matrices::Matrices;
use crate::nvrtc::{Arch, Form, compiler};
use crate::program::program;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tegula_ir::Literal;
use tegula_plan::Plan;
use tegula_sim_ptx::{LaunchError, Memory, MemoryError, Module, Options, Report, launch};

/// The size of the simulated memory: 16 GiB, of which the host allocates only what is written.
const CAPACITY: u64 = 1 << 34;
/// The simulated architecture.
const ARCH: Arch = Arch(90);

struct Simulated {
    module: Module,
    memory: Mutex<Memory>,
    /// The reports of launches, if they are collected.
    reports: Option<Reports>,
}

type Reports = Arc<Mutex<Vec<LaunchReport>>>;

/// What a launch on the simulated device did.
#[derive(Clone, Debug)]
pub struct LaunchReport {
    /// The function.
    pub function: String,
    /// Its findings, and the statistics of its accesses.
    pub report: Report,
}

/// Compiles a plan for the simulated device.
///
/// # Errors
/// NVRTC is missing; an operation that a type lacks; PTX that the simulator does not support.
pub fn executable(plan: Plan) -> Result<Executable, Error> {
    assemble(plan, None)
}

/// Runs a plan on the simulated device, and returns a report for each launch, in order.
///
/// # Errors
/// As [`executable`] and [`Executable::run`].
pub fn measure(plan: Plan, inputs: &[Literal]) -> Result<(Vec<Literal>, Vec<LaunchReport>), Error> {
    let reports = Reports::default();
    let executable = assemble(plan, Some(Arc::clone(&reports)))?;
    let inputs: Vec<Cow<'_, Literal>> = inputs.iter().map(Cow::Borrowed).collect();
    let results = executable.run(&inputs)?;
    let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((results, std::mem::take(&mut *reports)))
}

fn assemble(plan: Plan, reports: Option<Reports>) -> Result<Executable, Error> {
    let program = program(&plan)?;
    // Simulated programs are tests, which are many and used only once, so they are not cached.
    let ptx = compiler()?.compile(&program.source(), ARCH, Form::Ptx)?;
    let text = String::from_utf8(ptx).map_err(|e| Error::Bug(e.to_string()))?;
    let module = Module::parse(&text).map_err(|e| Error::Device {
        step: "loading the program".to_owned(),
        reason: e.to_string(),
    })?;
    let device = Simulated {
        module,
        memory: Mutex::new(Memory::new(CAPACITY)),
        reports,
    };
    Ok(Executable::assemble(plan, program, Box::new(device)))
}

impl Simulated {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(step: &str, error: &impl ToString) -> Error {
    Error::Device {
        step: step.to_owned(),
        reason: error.to_string(),
    }
}

impl Device for Simulated {
    fn open(&self) -> Result<Box<dyn Session + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Session for &Simulated {
    fn context_epoch(&self) -> u64 {
        0
    }

    fn wait(&self) -> Result<(), Error> {
        Ok(())
    }

    fn choose(&self, _matrices: &Matrices, _: [u32; 5]) -> Result<Option<Choice>, Error> {
        Ok(None)
    }

    fn multiply(&self, _product: &Product<'_>) -> Result<(), Error> {
        Err(Error::Bug(
            "the simulated device does not have cuBLASLt".to_owned(),
        ))
    }

    fn record(
        &self,
        _work: &mut dyn FnMut(&dyn Session) -> Result<(), Error>,
    ) -> Option<Recording> {
        None
    }

    fn replay(&self, _recording: Recording) -> Result<(), Error> {
        Err(Error::Bug(
            "the simulated device cannot record graphs".to_owned(),
        ))
    }

    fn forget(&self, _recording: Recording) {}

    fn allocate(&self, bytes: u64) -> Result<u64, Error> {
        self.memory().allocate(bytes).map_err(|error| match error {
            MemoryError::OutOfMemory { .. } => Error::OutOfMemory {
                needed: bytes,
                reason: error.to_string(),
            },
            other => failed("allocating memory", &other),
        })
    }

    fn free(&self, address: u64) {
        // The address comes from `allocate`, and each is freed once.
        let _ = self.memory().free(address);
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let written = self.memory().write(address, bytes);
        written.map_err(|e| failed("copying to the device", &e))
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let read = self.memory().read(address, bytes);
        read.map_err(|e| failed("copying from the device", &e))
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Error> {
        let copied = self.memory().copy(from, to, bytes);
        copied.map_err(|e| failed("copying on the device", &e))
    }

    fn launch(&self, wanted: &Launch<'_>) -> Result<(), Error> {
        let params: Vec<u8> = wanted
            .arguments
            .iter()
            .flat_map(|a| a.to_le_bytes())
            .collect();
        let shape = tegula_sim_ptx::Launch {
            grid: wanted.grid,
            block: wanted.block,
            dynamic_shared: 0,
            params: &params,
        };
        let options = Options {
            statistics: self.reports.is_some(),
            // A thread without a point may return before the others.
            exited_at_barriers: false,
            ..Options::default()
        };
        let step = || format!("running `{}`", wanted.name);
        let launched = launch(
            &self.module,
            wanted.name,
            &mut self.memory(),
            &shape,
            &options,
        );
        let report = launched.map_err(|error| match error {
            LaunchError::Stopped(stopped) => Error::Stopped(stopped),
            error => failed(&step(), &error),
        })?;
        if let Some(finding) = report.errors().next() {
            return Err(failed(&step(), finding));
        }
        if let Some(reports) = &self.reports {
            let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports.push(LaunchReport {
                function: wanted.name.to_owned(),
                report,
            });
        }
        Ok(())
    }
}
