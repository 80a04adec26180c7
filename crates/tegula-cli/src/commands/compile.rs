//! `tegula compile`: prints one of a program's forms on the way to machine code.

mod object;
mod passes;

use crate::documents::{self, Text};
use crate::exit_code::SUCCESS;
use crate::inputs::{DimArgs, Source, read_programs};
use crate::options::{Common, CpuArgs};
use crate::report::Failure;
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tegula::PlanOptions;
use tegula_codegen_cpu::{Listing, listing};
use tegula_fusion::FusedText;
use tegula_ir::PrintStyle;
use tegula_sim_tpu::{PrintForm, print_kernel};

/// Targets of `tegula compile`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompileTarget {
    /// A CPU, as machine code.
    Cpu,
    /// An NVIDIA GPU, as CUDA C++.
    Cuda,
    /// A TPU, with tiled layouts, memory spaces, and kernels for the simulated core.
    Tpu,
}

/// A form of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// The program as HLO text.
    Hlo,
    /// The program as StableHLO text.
    Stablehlo,
    /// The program as StableHLO text in MLIR's generic form.
    StablehloGeneric,
    /// The fused graph: which operations each kernel computes, and why.
    Fused,
    /// The Plan: kernels, buffers with their offsets, and the steps in their order.
    Plan,
    /// Cranelift IR of each kernel.
    Clif,
    /// Assembly of each kernel.
    Asm,
    /// CUDA C++ source (target cuda).
    Cuda,
    /// PTX, the GPU's virtual instruction set (target cuda; needs NVRTC).
    Ptx,
    /// The GPU's machine code, an ELF file for `nvdisasm` and `cuobjdump` (target cuda; needs NVRTC
    /// and `-o`).
    Cubin,
    /// The program as a kernel for `tegula simulate` (target tpu).
    Tpu,
    /// An ELF object for linking, NAME.o, written into the folder given by `-o`.
    Object,
    /// The C header of that object, NAME.h, written into the folder given by `-o`.
    Header,
    /// A static library with that object, libNAME.a, and its header, written into the folder given
    /// by `-o`.
    Library,
}

/// The options of `tegula compile`.
#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// The program's file: HLO text, StableHLO (text or bytecode), an artifact that `jax.export`
    /// serialized, or an ONNX model. The contents decide which one it is. `-` reads standard input.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// The kind of machine to compile for.
    #[arg(long, value_enum, default_value = "cpu")]
    pub target: CompileTarget,
    /// The form of the program to print or write.
    #[arg(long, value_enum, required_unless_present_any = ["passes", "print_after"])]
    pub emit: Option<Form>,
    /// List the passes of the target's pipeline in the order in which they run, one per line.
    #[arg(long, conflicts_with_all = ["emit", "print_after"])]
    pub passes: bool,
    /// Print the module, program, kernel or plan after this pass, for example gvn, or after every
    /// pass if it is `all`. `--passes` lists the names.
    #[arg(long, value_name = "PASS", conflicts_with = "emit")]
    pub print_after: Option<String>,
    #[command(flatten)]
    pub cpu: CpuArgs,
    /// The GPU's compute capability: sm_90 is 9.0.
    #[arg(long, default_value = "sm_90")]
    pub arch: String,
    /// The chip for the target tpu: v4, v5e, v5p, v6e or 7x, or a file that describes one.
    #[arg(long, default_value = "v5e")]
    pub chip: String,
    /// For an object: the prefix of its C functions. The default is the model's file name without
    /// its extension.
    #[arg(long)]
    pub name: Option<String>,
    /// For an object: write its large constants, such as weights, to this file instead. The program
    /// that links the object maps or reads it.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// For an object: the machine that it runs on, x86_64-unknown-linux-gnu or
    /// aarch64-unknown-linux-gnu. The default is this machine.
    #[arg(long, value_name = "TRIPLE")]
    pub target_triple: Option<String>,
    /// Write to this file instead of standard output. For an object, its header and a library, this
    /// is the folder that they are written into.
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Compiles a program and prints one of its forms, the list of passes, or the output of a pass.
pub(crate) fn compile(args: &CompileArgs, common: &Common) -> Result<u8, Failure> {
    match args.emit {
        Some(form) => emit(args, form, common),
        None => passes::passes(args, common),
    }
}

/// Prints one form of a program.
fn emit(args: &CompileArgs, form: Form, common: &Common) -> Result<u8, Failure> {
    if let Form::Object | Form::Header | Form::Library = form {
        if !matches!(args.target, CompileTarget::Cpu) {
            return Err(anyhow!("objects are for a CPU: leave `--target` out").into());
        }
        return object::compile(args, form, common);
    }
    if args.weights.is_some() {
        return Err(anyhow!(
            "`--weights` only applies to objects: use it with `--emit library`, `object` or `header`"
        )
        .into());
    }
    if form == Form::Tpu && !matches!(args.target, CompileTarget::Cuda) {
        let bytes = crate::inputs::read_file(&args.model)?;
        if let Some(kernels) = super::simulate::pallas::read(&args.model, &bytes)? {
            let chip = crate::chip::load(&args.chip)?;
            let text = super::simulate::pallas::text(&args.model, &kernels, &chip)?;
            return write_text(args, common, &text);
        }
    }
    let cpu = args.cpu.get()?;
    let sources = read_programs(&args.model, &args.dims, None)?;
    let mut whole = String::new();
    for (stage, source) in sources.iter().enumerate() {
        let Some(text) = text_of_form(args, form, cpu, source)? else {
            return Ok(SUCCESS);
        };
        if sources.len() > 1 {
            whole.push_str(&format!("// stage {stage}\n"));
        }
        whole.push_str(&text);
    }
    write_text(args, common, &whole)
}

/// Returns a form of a program as text; `None` if the form is binary and has been written.
fn text_of_form(
    args: &CompileArgs,
    form: Form,
    cpu: tegula::IsaLevel,
    source: &Source,
) -> Result<Option<String>, Failure> {
    let options = PlanOptions {
        reasons: form == Form::Fused,
        ..match args.target {
            CompileTarget::Cuda => PlanOptions::gpu(),
            _ => PlanOptions::default(),
        }
    };
    let planned = || tegula::plan_for(&source.module, &options).map_err(|e| source.failure(e));
    Ok(Some(match (form, args.target) {
        (Form::Hlo, _) => tegula_ir::print_module(&source.module, PrintStyle::Canonical),
        (form @ (Form::Stablehlo | Form::StablehloGeneric), _) => {
            let form = match form {
                Form::Stablehlo => tegula_stablehlo::Form::Pretty,
                _ => tegula_stablehlo::Form::Generic,
            };
            let module = tegula_stablehlo::from_module(&source.module);
            let module = module.map_err(|e| source.failure(e.into()))?;
            tegula_stablehlo::print(&module, form) + "\n"
        }
        (Form::Fused, _) => {
            let planned = planned()?;
            let mut text = FusedText {
                module: &planned.module,
                fused: &planned.fused,
            }
            .to_string();
            text.push_str(&super::fused_text::orders(&planned.reasons));
            text.push_str(&super::fused_text::strips(&planned.plan));
            text
        }
        (Form::Plan, _) => planned()?.plan.to_string(),
        (form @ (Form::Clif | Form::Asm), CompileTarget::Cpu) => {
            let options = tegula_codegen_cpu::Options {
                cpu,
                ..tegula_codegen_cpu::Options::default()
            };
            let what = if form == Form::Clif {
                Listing::Clif
            } else {
                Listing::Asm
            };
            listing(&planned()?.plan, &options, what).map_err(|e| source.failure(e.into()))?
        }
        (form @ (Form::Cuda | Form::Ptx | Form::Cubin), CompileTarget::Cuda) => {
            let bytes =
                gpu_form(args, form, &planned()?.plan)?.map_err(|e| source.failure(e.into()))?;
            match String::from_utf8(bytes) {
                Ok(text) if form != Form::Cubin => text,
                other => {
                    let bytes = other
                        .map_or_else(std::string::FromUtf8Error::into_bytes, String::into_bytes);
                    write_cubin(args, &bytes)?;
                    return Ok(None);
                }
            }
        }
        (Form::Tpu, CompileTarget::Tpu | CompileTarget::Cpu) => {
            let chip = crate::chip::load(&args.chip)?;
            let executable = tegula::tpu::TpuExecutable::new(&source.module, &chip);
            let executable = executable.map_err(|e| source.failure(e))?;
            print_kernel(&executable.lowered.program, PrintForm::Short)
        }
        (_, CompileTarget::Cpu) => {
            return Err(anyhow!(
                "this form requires `--target cuda` or `--target tpu`; `--target cpu` has clif and asm"
            )
            .into());
        }
        (_, CompileTarget::Cuda) => {
            return Err(anyhow!(
                "this form requires another `--target`; `--target cuda` has cuda, ptx and cubin"
            )
            .into());
        }
        (_, CompileTarget::Tpu) => {
            return Err(
                anyhow!("this form requires another `--target`; `--target tpu` has tpu").into(),
            );
        }
    }))
}

/// Prints a text, or writes it to the file given by `-o`.
pub(super) fn write_text(args: &CompileArgs, common: &Common, text: &str) -> Result<u8, Failure> {
    match &args.output {
        Some(path) => crate::terminal::result_file::write(path, text)?,
        None if common.json => documents::print(&Text {
            text: text.to_owned(),
        }),
        None => say!("{}", text.trim_end_matches('\n')),
    }
    Ok(SUCCESS)
}

fn gpu_form(
    args: &CompileArgs,
    form: Form,
    plan: &tegula_plan::Plan,
) -> Result<Result<Vec<u8>, tegula_codegen_cuda::Error>, Failure> {
    let arch = tegula_codegen_cuda::Arch::from_name(&args.arch)
        .ok_or_else(|| anyhow!("there is no GPU `{}`: use sm_80 or later", args.arch))?;
    let what = match form {
        Form::Cuda => tegula_codegen_cuda::Listing::Cuda,
        Form::Ptx => tegula_codegen_cuda::Listing::Ptx,
        _ => tegula_codegen_cuda::Listing::Cubin,
    };
    Ok(tegula_codegen_cuda::listing(plan, arch, what))
}

fn write_cubin(args: &CompileArgs, bytes: &[u8]) -> Result<(), Failure> {
    let path = args.output.as_ref();
    let path = path.ok_or_else(|| anyhow!("a cubin is a binary file: give its path with -o"))?;
    crate::terminal::result_file::write(path, bytes)?;
    Ok(())
}
