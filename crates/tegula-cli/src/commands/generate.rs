//! `tegula completions`, `man` and `schema`: files generated from the definitions of the commands.

use crate::documents;
use crate::exit_code::SUCCESS;
use crate::instruction_names::nearest;
use crate::report::Failure;
use anyhow::{Context, anyhow};
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;

/// The options of `tegula completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to print completions for.
    pub shell: Shell,
}

/// Prints a shell's completions.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tegula", &mut script);
    let script = String::from_utf8(script).map_err(anyhow::Error::new)?;
    say!("{}", script.trim_end());
    Ok(SUCCESS)
}

/// The options of `tegula man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages into this folder: tegula.1, tegula-run.1, ...
    #[arg(short = 'o', value_name = "DIR")]
    pub output: PathBuf,
}

/// Writes a manual page for the program and each command.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<u8, Failure> {
    let folder = &args.output;
    let about = || format!("manual pages cannot be written to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(about)?;
    clap_mangen::generate_to(command, folder).with_context(about)?;
    Ok(SUCCESS)
}

/// The options of `tegula schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The name of a JSON document. A document with `"schema": "tegula.run.v1"` is named `run`.
    /// Without a name, all names are listed.
    pub name: Option<String>,
}

/// Prints the JSON schema of what commands print with `--json`.
pub(crate) fn schema(args: &SchemaArgs) -> Result<u8, Failure> {
    let Some(name) = &args.name else {
        documents::NAMES.iter().for_each(|name| say!("{name}"));
        return Ok(SUCCESS);
    };
    let schema = documents::schema(name).ok_or_else(|| {
        let names = documents::NAMES.iter().copied();
        let help = match nearest(names, name) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`tegula schema` lists their names".to_owned(),
        };
        anyhow!("there is no form `{name}`; {help}")
    })?;
    let text = serde_json::to_string_pretty(&schema).map_err(anyhow::Error::new)?;
    say!("{text}");
    Ok(SUCCESS)
}
