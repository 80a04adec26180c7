//! Prints StableHLO as text: `stablehlo_dis FILE [--generic]`, `-` for standard input.
//!
//! Bytecode of any version of VHLO is converted to StableHLO.

use std::io::{Read, Write};
use tegula_stablehlo::{Form, print, read};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut form = Form::Pretty;
    let mut file = None;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--generic" => form = Form::Generic,
            _ => file = Some(argument),
        }
    }
    let file = file.ok_or("expected a file, or `-` for standard input")?;
    let mut bytes = Vec::new();
    if file == "-" {
        std::io::stdin().read_to_end(&mut bytes)?;
    } else {
        bytes = std::fs::read(&file)?;
    }
    let module = read(bytes).map_err(|error| format!("{file}: {error}"))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", print(&module, form))?;
    Ok(out.flush()?)
}
