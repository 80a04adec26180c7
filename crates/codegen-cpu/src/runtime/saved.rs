//! Serialises executables: the plan as text, and its machine code as an image without addresses.
//!
//! A loaded executable runs without being compiled again. The bytes contain no constants (the
//! caller stores those separately) and are not checked for damage: the caller must guard them by a
//! checksum, because they contain code that is executed.

use super::executable::{Executable, fixed};
use crate::clif::target::target;
use crate::compile::module::CompiledPlan;
use crate::error::Error;
use crate::transform::pipeline::Regrouping;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tegula_ir::Literal;
use tegula_linalg::thread_pool::ThreadPool;
use tegula_plan::{PlanWithoutConstants, parse_plan_with};
use tegula_target::{CpuFeatures, IsaLevel};

/// The serialised form of an executable.
#[derive(Serialize, Deserialize)]
struct Saved<'a> {
    /// The name of the instruction set level.
    cpu: Cow<'a, str>,
    /// [The instruction sets that code may use](machine) at that level, on the machine that
    /// compiled it.
    machine: Cow<'a, str>,
    plan: Cow<'a, str>,
    regroupings: Cow<'a, [Regrouping]>,
    compiled: Cow<'a, CompiledPlan>,
}

/// The names of all instruction sets that code for a level may use on this machine.
///
/// # Errors
/// Code for this machine cannot be compiled.
pub fn machine(cpu: IsaLevel) -> Result<String, Error> {
    let isa = target(cpu)?;
    let flags = isa.isa_flags().into_iter();
    let flags: Vec<String> = flags
        .filter(|flag| flag.as_bool() == Some(true))
        .map(|flag| flag.name.to_owned())
        .collect();
    let features = CpuFeatures::up_to(cpu);
    Ok(format!("{} {} {features:?}", isa.triple(), flags.join(" ")))
}

impl Executable {
    /// Serialises the executable, without its plan's constants.
    ///
    /// # Errors
    /// A parameter is [frozen](Self::freeze), or the machine cannot be named.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        if let Some(frozen) = self.frozen.iter().position(|&frozen| frozen) {
            let message = format!("parameter {frozen} is frozen: freeze it after loading");
            return Err(Error::Saved(message));
        }
        let cpu = self.cpu.to_string();
        let saved = Saved {
            machine: machine(self.cpu)?.into(),
            cpu: cpu.into(),
            plan: PlanWithoutConstants(&self.plan).to_string().into(),
            regroupings: (&self.regroupings).into(),
            compiled: Cow::Borrowed(&self.compiled),
        };
        postcard::to_stdvec(&saved).map_err(|error| Error::Saved(error.to_string()))
    }

    /// Loads an executable from [its bytes](Self::save), its plan's constants, and the number of
    /// threads that a run may use.
    ///
    /// # Safety
    /// The bytes must be unchanged output of [`Self::save`]: the machine code in them is executed.
    ///
    /// # Errors
    /// The bytes were made for another machine, the constants differ, or there is not enough
    /// memory.
    pub unsafe fn load(bytes: &[u8], constants: &[Literal], threads: usize) -> Result<Self, Error> {
        let saved: Saved<'_> =
            postcard::from_bytes(bytes).map_err(|error| Error::Saved(error.to_string()))?;
        let cpu: IsaLevel = saved.cpu.parse().map_err(|error| {
            let error: tegula_target::UnknownIsaLevel = error;
            Error::Saved(error.to_string())
        })?;
        let here = machine(cpu)?;
        if saved.machine != here {
            let message = format!("it was compiled for {}, and this is {here}", saved.machine);
            return Err(Error::Saved(message));
        }
        let plan = parse_plan_with(&saved.plan, constants);
        let plan = plan.map_err(|error| Error::Saved(format!("its plan: {error}")))?;
        let pool = ThreadPool::shared(threads);
        let isa = CpuFeatures::up_to(cpu);
        let fixed = fixed(&plan, &saved.regroupings, isa, &pool)?;
        Self::assemble(
            plan,
            saved.compiled.into_owned(),
            saved.regroupings.into_owned(),
            (cpu, pool),
            fixed,
        )
    }
}
