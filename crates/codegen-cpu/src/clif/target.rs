//! Cranelift's target: which instructions it may use, and its settings.

use crate::error::Error;
use crate::options::Cpu;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};

pub(crate) fn target(cpu: Cpu) -> Result<OwnedTargetIsa, Error> {
    let mut flags = settings::builder();
    let set = |flags: &mut settings::Builder, name: &str, value: &str| {
        flags
            .set(name, value)
            .map_err(|e| Error::Bug(format!("setting {name}: {e}")))
    };
    set(&mut flags, "opt_level", "speed")?;
    set(&mut flags, "is_pic", "false")?;
    set(
        &mut flags,
        "enable_verifier",
        if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        },
    )?;
    let mut isa = cranelift_native::builder_with_options(cpu == Cpu::Native)
        .map_err(|e| Error::Cpu(format!("this machine cannot be compiled for: {e}")))?;
    for feature in cpu.features() {
        isa.enable(feature)
            .map_err(|_| Error::Cpu(format!("this machine's architecture has no {feature}")))?;
    }
    isa.finish(settings::Flags::new(flags))
        .map_err(|e| Error::Cpu(e.to_string()))
}
