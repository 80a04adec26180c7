//! `tegula compile --emit object|header|library`: files for a C compiler.

use super::{CompileArgs, Form};
use crate::documents::{self, Files, WrittenFile};
use crate::exit_code::SUCCESS;
use crate::inputs::read_module;
use crate::options::Common;
use crate::report::Failure;
use anyhow::{Context, anyhow};
use std::path::Path;
use tegula::{Architecture, IsaLevel, ObjectOptions};

/// The machines for which objects can be compiled.
const TRIPLES: [(&str, Architecture); 4] = [
    ("x86_64-unknown-linux-gnu", Architecture::X86_64),
    ("x86_64-linux-gnu", Architecture::X86_64),
    ("aarch64-unknown-linux-gnu", Architecture::Aarch64),
    ("aarch64-linux-gnu", Architecture::Aarch64),
];

/// Returns the instruction set level of an object: the one given by `--cpu`; otherwise this
/// machine's own, or for another architecture its lowest level.
fn level(args: &CompileArgs) -> Result<IsaLevel, Failure> {
    let cpu = args.cpu.asked()?;
    let Some(triple) = &args.target_triple else {
        return Ok(cpu.unwrap_or(IsaLevel::Native));
    };
    let known = TRIPLES.iter().find(|(known, _)| known == triple);
    let Some(&(_, architecture)) = known else {
        let (x86, arm) = (TRIPLES[0].0, TRIPLES[2].0);
        return Err(
            anyhow!("objects for `{triple}` cannot be made yet: use {x86} or {arm}").into(),
        );
    };
    match cpu {
        None if architecture == Architecture::HERE => Ok(IsaLevel::Native),
        None => Ok(architecture.levels()[0]),
        Some(cpu) if cpu.architecture() == architecture => Ok(cpu),
        Some(cpu) => {
            let levels = architecture.levels().map(|level| level.to_string());
            let known = levels.join(", ");
            Err(anyhow!("`--cpu {cpu}` is not a CPU of {triple}: use {known}").into())
        }
    }
}

/// Writes the files of an object.
pub(super) fn compile(args: &CompileArgs, form: Form, common: &Common) -> Result<u8, Failure> {
    let cpu = level(args)?;
    let folder = args.output.as_ref();
    let folder = folder
        .ok_or_else(|| anyhow!("an object is a binary file: give a folder for it with -o"))?;
    let source = read_module(&args.model, &args.dims)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => name_of(&args.model),
    };
    let options = ObjectOptions {
        weights: args.weights.is_some(),
        ..ObjectOptions::new(name.as_str(), cpu)
    };
    let object = tegula::compile_object(&source.module, &options);
    let object = object.map_err(|e| source.failure(e))?;
    let mut files = Vec::new();
    if form == Form::Object {
        files.push((format!("{name}.o"), object.bytes));
    } else if form == Form::Library {
        let archive = tegula_codegen_cpu::archive(&name, &object.bytes);
        let archive = archive.map_err(tegula::Error::from)?;
        files.push((format!("lib{name}.a"), archive));
    }
    if form != Form::Object {
        files.push((format!("{name}.h"), object.header.into_bytes()));
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut written = Vec::new();
    let files = files
        .into_iter()
        .map(|(file, bytes)| (folder.join(file), bytes));
    let weights = args.weights.clone().zip(object.weights);
    for (path, bytes) in files.chain(weights) {
        crate::terminal::result_file::write(&path, &bytes)?;
        written.push(WrittenFile {
            path: path.display().to_string(),
            bytes: bytes.len(),
        });
    }
    if common.json {
        documents::print(&Files { files: written });
    } else {
        for WrittenFile { path, bytes } in &written {
            say!("{path}: {bytes} bytes");
        }
    }
    Ok(SUCCESS)
}

/// Returns a C identifier made from a file's name.
fn name_of(model: &Path) -> String {
    let stem = model.file_stem().map(|stem| stem.to_string_lossy());
    let stem = stem.unwrap_or_default();
    let letters = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let name: String = letters.collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        true => format!("m{name}"),
        false => name,
    }
}
