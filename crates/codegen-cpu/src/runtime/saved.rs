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

/// What bytes hold.
#[derive(Serialize, Deserialize)]
struct Saved<'a> {
    /// The name of the level of instructions.
    cpu: Cow<'a, str>,
    /// [What code may use](machine) at that level where it was compiled.
    machine: Cow<'a, str>,
    plan: Cow<'a, str>,
    regroupings: Cow<'a, [Regrouping]>,
    compiled: Cow<'a, CompiledPlan>,
}

/// Every instruction set that code for a level may use on this machine, by name.
///
/// # Errors
/// This machine cannot be compiled for.
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
    /// The executable as bytes, without its plan's constants.
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

    /// An executable from [its bytes](Self::save), its plan's constants, and the number of threads
    /// that a run may use.
    ///
    /// # Safety
    /// The bytes are what [`Self::save`] gave, unchanged: the machine code in them is executed.
    ///
    /// # Errors
    /// The bytes were made for another machine, the constants are others, or there is no memory.
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
