//! Cranelift's target: its settings and the permitted instructions.

use crate::error::Error;
use cranelift_codegen::isa::{Builder, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use tegula_target::{Architecture, IsaLevel};

/// Cranelift's description of the machine that code is made for.
pub(crate) fn target(cpu: IsaLevel) -> Result<OwnedTargetIsa, Error> {
    target_for(cpu, false)
}

/// The same as [`target`]. If `position_independent`, external symbols may be at any address, as
/// for a shared library.
pub(crate) fn target_for(
    cpu: IsaLevel,
    position_independent: bool,
) -> Result<OwnedTargetIsa, Error> {
    let flags = flags(position_independent)?;
    let mut isa = builder(cpu)?;
    for feature in features(cpu) {
        isa.enable(feature)
            .map_err(|_| Error::Cpu(format!("this machine's architecture has no {feature}")))?;
    }
    isa.finish(flags).map_err(|e| Error::Cpu(e.to_string()))
}

/// Settings common to all machines.
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
    // The offsets of basic blocks, which `isa::x64::branch_alignment` needs.
    set(&mut flags, "machine_code_cfg_info", "true")?;
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

/// The machine of a level; for [`IsaLevel::Native`] this one, with all its features.
fn builder(cpu: IsaLevel) -> Result<Builder, Error> {
    let architecture = cpu.architecture();
    let runs_here = architecture == Architecture::HERE && cfg!(not(target_family = "wasm"));
    if runs_here {
        let here = here(cpu == IsaLevel::Native);
        return here.map_err(|e| Error::Cpu(format!("this machine cannot be compiled for: {e}")));
    }
    // WebAssembly runs no machine code, and lists that of x86-64 as if it were this machine's.
    let triple = architecture.linux_triple();
    cranelift_codegen::isa::lookup_by_name(triple).map_err(|_| {
        let how = match architecture {
            Architecture::Aarch64 => ": build it with the feature `aarch64`",
            Architecture::X86_64 => "",
        };
        Error::Cpu(format!(
            "this build has no code generator for {triple}{how}"
        ))
    })
}

/// The machine that this runs on, with all its features if `all`.
#[cfg(not(target_family = "wasm"))]
fn here(all: bool) -> Result<Builder, &'static str> {
    cranelift_native::builder_with_options(all)
}

/// There is no native machine.
#[cfg(target_family = "wasm")]
fn here(_: bool) -> Result<Builder, &'static str> {
    Err("WebAssembly runs no machine code")
}

/// Cranelift's names for the features of a level; for [`IsaLevel::Native`], this machine's are on
/// by default.
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
        IsaLevel::ArmV8 => Vec::new(),
        IsaLevel::ArmV8_4 => vec!["has_lse", "has_dotprod"],
        IsaLevel::ArmV8_6 => vec!["has_lse", "has_dotprod", "has_i8mm"],
    }
}
