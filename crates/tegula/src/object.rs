//! Compilation of programs to object files, which a C compiler links.

use crate::{Error, ErrorKind, IsaLevel, PlanOptions, plan_for};
use tegula_codegen_cpu::{Object, StreamLimits};
use tegula_fusion::Routines;
use tegula_ir::Module;

/// Options of object files.
#[derive(Clone, Debug)]
pub struct ObjectOptions {
    /// The prefix of the names of the object's functions.
    pub name: String,
    /// The instruction set level.
    pub cpu: IsaLevel,
    /// Whether large constants are written to a separate file, which the caller maps at run time.
    pub weights: bool,
}

impl ObjectOptions {
    /// Options for an object that contains all constants, whose function names have this prefix.
    pub fn new(name: impl Into<String>, cpu: IsaLevel) -> Self {
        Self {
            name: name.into(),
            cpu,
            weights: false,
        }
    }
}

/// Compiles a verified module to an object file for Linux and a C header. The level determines the
/// architecture, which may differ from this machine's.
///
/// # Errors
/// An operation that objects do not support yet, by name; a name that is invalid in C; an
/// architecture that this build does not include.
pub fn compile_object(module: &Module, options: &ObjectOptions) -> Result<Object, Error> {
    if let Some(required) = module.required.first() {
        let message = format!(
            "a program that was made for the value of its input `{}` cannot be an object",
            required.name
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let plan_options = PlanOptions {
        strips: None,
        routines: Routines::Expanded,
        ..PlanOptions::default()
    };
    let planned = plan_for(module, &plan_options)?;
    let entry = module.entry_computation();
    let parameters = entry.parameters.iter();
    let parameters = parameters.flat_map(|&parameter| {
        let parameter = &module[parameter];
        let name = parameter.name.to_string();
        tegula_fusion::array_leaves(&parameter.shape)
            .iter()
            .map(move |_| name.clone())
            .collect::<Vec<_>>()
    });
    let parameters: Vec<String> = parameters.collect();
    let object = tegula_codegen_cpu::ObjectOptions {
        name: options.name.clone(),
        parameters,
        weights: options.weights,
    };
    let options = tegula_codegen_cpu::Options {
        cpu: options.cpu,
        threads: 1,
        streaming: StreamLimits::MEASURED,
    };
    Ok(tegula_codegen_cpu::compile_object(
        &planned.plan,
        &options,
        &object,
    )?)
}
