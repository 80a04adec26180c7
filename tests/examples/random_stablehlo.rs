//! Writes random programs as StableHLO text, with their inputs, for other tools to read.
//!
//!     cargo run -p tegula-tests --example random_stablehlo -- FOLDER COUNT [FIRST SEED]
//!
//! makes `FOLDER/SEED.mlir`, `FOLDER/SEED.hlo` and `FOLDER/SEED.npz`; floats are small multiples of powers of two,
//! so that every correct compiler gives the same bits.

use anyhow::{Context, Result};
use std::path::PathBuf;
use tegula_stablehlo::{Form, from_module, print};
use tegula_tests::random::{Regime, random_program};

fn main() -> Result<()> {
    let usage = "usage: random_stablehlo FOLDER COUNT [FIRST SEED]";
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().context(usage)?);
    let count: u64 = arguments.next().context(usage)?.parse().context(usage)?;
    let first: u64 = match arguments.next() {
        Some(text) => text.parse().context(usage)?,
        None => 0,
    };
    std::fs::create_dir_all(&folder)?;
    let mut unwritten = 0;
    for seed in first..first + count {
        let program = random_program(seed, Regime::Dyadic);
        let module = tegula_tests::read(&program.text)?;
        let raised = match from_module(&module) {
            Ok(raised) => raised,
            Err(error) => {
                eprintln!("{seed}: {error}");
                unwritten += 1;
                continue;
            }
        };
        let form = [Form::Pretty, Form::Generic][(seed % 2) as usize];
        std::fs::write(folder.join(format!("{seed}.mlir")), print(&raised, form))?;
        std::fs::write(folder.join(format!("{seed}.hlo")), &program.text)?;
        let names: Vec<String> = (0..program.inputs.len())
            .map(|i| format!("in{i}"))
            .collect();
        let arrays = names.iter().map(String::as_str).zip(&program.inputs);
        let file = std::fs::File::create(folder.join(format!("{seed}.npz")))?;
        tegula::npz::write_npz(file, arrays)?;
    }
    eprintln!(
        "{} programs, {unwritten} have no StableHLO",
        count - unwritten
    );
    Ok(())
}
