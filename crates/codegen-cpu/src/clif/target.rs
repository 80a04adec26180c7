//! Cranelift's target: which instructions it may use, and its settings.

use crate::error::Error;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use tegula_target::IsaLevel;

/// Cranelift's description of the machine that code is made for.
pub(crate) fn target(cpu: IsaLevel) -> Result<OwnedTargetIsa, Error> {
    target_for(cpu, false)
}

/// As [`target`]; whether what is outside of the code may be anywhere, as for a library that is
/// loaded.
pub(crate) fn target_for(
    cpu: IsaLevel,
    position_independent: bool,
) -> Result<OwnedTargetIsa, Error> {
    let flags = flags(position_independent)?;
    let mut isa = builder(cpu)
        .map_err(|e| Error::Cpu(format!("this machine cannot be compiled for: {e}")))?;
    for feature in features(cpu) {
        isa.enable(feature)
            .map_err(|_| Error::Cpu(format!("this machine's architecture has no {feature}")))?;
    }
    isa.finish(flags).map_err(|e| Error::Cpu(e.to_string()))
}

/// A machine by its triple, whatever this one is.
pub(crate) fn foreign_target(triple: &str) -> Result<OwnedTargetIsa, Error> {
    let isa = cranelift_codegen::isa::lookup_by_name(triple)
        .map_err(|e| Error::Cpu(format!("{triple} cannot be compiled for: {e}")))?;
    let isa = isa.finish(flags(false)?);
    isa.map_err(|e| Error::Cpu(e.to_string()))
}

/// The settings that all machines share.
fn flags(position_independent: bool) -> Result<settings::Flags, Error> {
    let mut flags = settings::builder();
    let set = |flags: &mut settings::Builder, name: &str, value: &str| {
        flags
            .set(name, value)
            .map_err(|e| Error::Bug(format!("setting {name}: {e}")))
    };
    set(&mut flags, "opt_level", "speed")?;
    let pic = position_independent.to_string();
    set(&mut flags, "is_pic", &pic)?;
    set(
        &mut flags,
        "enable_verifier",
        if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        },
    )?;
    Ok(settings::Flags::new(flags))
}

/// The machine that this runs on, with what it has for [`IsaLevel::Native`].
#[cfg(not(target_family = "wasm"))]
fn builder(cpu: IsaLevel) -> Result<cranelift_codegen::isa::Builder, &'static str> {
    cranelift_native::builder_with_options(cpu == IsaLevel::Native)
}

/// x86-64 under Linux: WebAssembly runs no machine code, and lists that of this machine.
#[cfg(target_family = "wasm")]
fn builder(_: IsaLevel) -> Result<cranelift_codegen::isa::Builder, String> {
    cranelift_codegen::isa::lookup_by_name("x86_64-unknown-linux-gnu").map_err(|e| e.to_string())
}

/// Cranelift's names for the extensions of a level; what this machine has is on by default for
/// [`IsaLevel::Native`].
fn features(level: IsaLevel) -> Vec<&'static str> {
    let v2 = [
        "has_sse3",
        "has_ssse3",
        "has_sse41",
        "has_sse42",
        "has_popcnt",
    ];
    let v3 = [
        "has_avx",
        "has_avx2",
        "has_fma",
        "has_bmi1",
        "has_bmi2",
        "has_lzcnt",
    ];
    let v4 = ["has_avx512f", "has_avx512dq", "has_avx512vl"];
    match level {
        IsaLevel::Native => Vec::new(),
        IsaLevel::X86V2 => v2.to_vec(),
        IsaLevel::X86V3 => [&v2[..], &v3].concat(),
        IsaLevel::X86V4 => [&v2[..], &v3, &v4].concat(),
    }
}
