//! Compiles a model to a library by the command `tegula` (or what `TEGULA` names), and links it.

use std::path::Path;
use std::process::Command;
use std::{env, io};

fn main() -> io::Result<()> {
    let model = Path::new("../models/symbolic_mlp.hlo");
    println!("cargo::rerun-if-changed={}", model.display());
    println!("cargo::rerun-if-env-changed=TEGULA");
    let tegula = env::var("TEGULA").unwrap_or_else(|_| "tegula".to_owned());
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    let status = Command::new(&tegula)
        .arg("compile")
        .arg(model)
        .args(["--emit", "library", "--name", "mlp", "-o", &out])
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!("{tegula} failed")));
    }
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static=mlp");
    println!("cargo::rustc-link-lib=m");
    Ok(())
}
