//! Programs as objects that a C compiler links.

use crate::{Error, ErrorKind, IsaLevel, PlanOptions, plan_for};
use tegula_codegen_cpu::{Object, StreamLimits};
use tegula_fusion::Routines;
use tegula_ir::Module;

/// Compiles a verified module to an object file for Linux and a C header. The level says for which
/// architecture, which need not be this one. The names of its functions begin with `name`.
///
/// # Errors
/// An operation that objects cannot have yet, by name; a name that C does not take; an architecture that
/// this was built without.
pub fn compile_object(module: &Module, cpu: IsaLevel, name: &str) -> Result<Object, Error> {
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
    let options = tegula_codegen_cpu::Options {
        cpu,
        threads: 1,
        streaming: StreamLimits::MEASURED,
    };
    let object = tegula_codegen_cpu::compile_object(&planned.plan, &options, name, &parameters)?;
    Ok(object)
}
