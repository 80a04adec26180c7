//! `tegula partition`: prints the program of one device, and why arrays are sharded as they are.

use crate::documents::{self, Exchange, Partition, PartitionReason};
use crate::exit_code::SUCCESS;
use crate::inputs::{DimArgs, read_module};
use crate::options::Common;
use crate::report::Failure;
use anyhow::anyhow;
use clap::Args;
use std::path::PathBuf;
use tegula_partition::{Options, Partitioned};

/// The options of `tegula partition`.
#[derive(Debug, Args)]
pub(crate) struct PartitionArgs {
    /// The program's file: HLO text, StableHLO (text or bytecode), an artifact that `jax.export`
    /// serialized, or an ONNX model. The contents decide which one it is. `-` reads standard input.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// The number of devices, if the program does not state it (`num_partitions`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub devices: Option<u32>,
    /// Explain the sharding of this instruction, and how it is computed on the devices.
    #[arg(long, value_name = "NAME")]
    pub why: Option<String>,
    /// Instead of the program, print the collectives with their bytes, and how each operation is
    /// computed.
    #[arg(long)]
    pub report: bool,
}

/// Prints a partitioned program, or the reasons for one instruction.
pub(crate) fn partition(args: &PartitionArgs, common: &Common) -> Result<u8, Failure> {
    let source = read_module(&args.model, &args.dims)?;
    let options = Options {
        devices: args.devices.map(|count| count as usize),
        ..Options::default()
    };
    let partitioned = tegula_partition::partition(&source.module, &options);
    let partitioned = partitioned.map_err(|error| match error.line(&source.module) {
        Some(line) => anyhow!("{}:{line}: {error}", args.model.display()),
        None => anyhow!("{}: {error}", args.model.display()),
    })?;
    if let Some(name) = &args.why {
        let why = partitioned.report.why(name);
        let why = why.ok_or_else(|| anyhow!("there is no instruction `{name}`"))?;
        match common.json {
            true => documents::print(&PartitionReason {
                name: name.clone(),
                why,
            }),
            false => say!("{}", why.trim_end()),
        }
        return Ok(SUCCESS);
    }
    match (common.json, args.report) {
        (true, _) => documents::print(&document(&partitioned)),
        (false, true) => {
            say!(
                "{} bytes are received by each device",
                partitioned.report.bytes()
            );
            say!("{}", partitioned.report.to_string().trim_end());
        }
        (false, false) => say!("{}", partitioned.module.to_string().trim_end()),
    }
    Ok(SUCCESS)
}

fn document(partitioned: &Partitioned) -> Partition {
    let shardings = |all: &[tegula_partition::Sharding]| -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    };
    let exchanges = partitioned.report.exchanges.iter();
    let exchanges = exchanges.map(|exchange| Exchange {
        operation: exchange.operation,
        instruction: exchange.site.to_string(),
        bytes: exchange.bytes,
        reason: exchange.reason.clone(),
    });
    Partition {
        program: partitioned.module.to_string(),
        parameters: shardings(&partitioned.parameters),
        results: shardings(&partitioned.results),
        bytes: partitioned.report.bytes(),
        exchanges: exchanges.collect(),
    }
}
