//! `tegula compile --passes` and `--print-after`: lists the passes of a pipeline, or prints their
//! output.

use super::{CompileArgs, CompileTarget, write_text};
use crate::documents::{self, Passes};
use crate::exit_code::SUCCESS;
use crate::inputs::read_module;
use crate::instruction_names::nearest;
use crate::options::Common;
use crate::report::Failure;
use anyhow::anyhow;
use std::fmt::{Display, Write};
use tegula::{Options, PassManager, Target};

/// Lists the passes, or prints the output of one or of all.
pub(super) fn passes(args: &CompileArgs, common: &Common) -> Result<u8, Failure> {
    let target = match args.target {
        CompileTarget::Cpu => Target::Cpu,
        CompileTarget::Cuda => Target::Cuda,
        CompileTarget::Tpu => Target::Tpu,
    };
    let names = tegula::passes(target);
    let Some(wanted) = &args.print_after else {
        match common.json {
            true => documents::print(&Passes { passes: names }),
            false => names.iter().for_each(|name| say!("{name}")),
        }
        return Ok(SUCCESS);
    };
    if wanted != "all" && !names.contains(&wanted.as_str()) {
        let help = match nearest(names.iter().copied(), wanted) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use all, {}", names.join(", ")),
        };
        return Err(anyhow!("there is no pass `{wanted}`: {help}").into());
    }
    let options = Options {
        target,
        cpu: args.cpu.get()?,
        chip: match target {
            Target::Tpu => Some(crate::chip::load(&args.chip)?),
            _ => None,
        },
        ..Options::default()
    };
    let source = read_module(&args.model, &args.dims)?;
    let mut text = String::new();
    let mut observer = |name: &'static str, result: &dyn Display| {
        if wanted == "all" || wanted == name {
            let _ = writeln!(text, "// after {name}\n{}\n", result.to_string().trim_end());
        }
    };
    let mut manager = PassManager::observed(&mut observer);
    tegula::run_passes(&source.module, &options, &mut manager).map_err(|e| source.failure(e))?;
    if text.is_empty() {
        text = format!("// {wanted} changed nothing\n");
    }
    write_text(args, common, &text)
}
