//! The programs of `examples/models`: `NAME.hlo`, and `NAME.npz` with inputs `in0`,
//! ... by parameter number and expected results `out0`, ... by flattened result.

use crate::program::{Expected, Program};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use tegula::npz::read_npz;

/// The folder of these programs.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/models")
}

/// The names of these programs, sorted.
///
/// # Errors
/// The folder cannot be read.
pub fn names() -> Result<Vec<String>> {
    crate::program::names(&folder(), "npz")
}

/// Reads a program with its arrays.
///
/// # Errors
/// A file is missing or malformed, or the program is wrong.
pub fn load(name: &str) -> Result<Program> {
    let path = |extension: &str| folder().join(format!("{name}.{extension}"));
    let text = fs::read_to_string(path("hlo")).context("its text")?;
    let module = crate::read(&text).with_context(|| format!("{name}.hlo"))?;
    let arrays = read_npz(&fs::read(path("npz"))?)?;
    let mut inputs = Vec::new();
    for (i, &parameter) in module.entry_computation().parameters.iter().enumerate() {
        let array = arrays.iter().find(|array| array.name == format!("in{i}"));
        let array = array.with_context(|| format!("there is no in{i}"))?;
        let shape = module[parameter].shape.as_array();
        let shape = shape.context("a parameter is not an array")?;
        inputs.push(array.to_literal(shape.element_type)?);
    }
    let mut expected = Vec::new();
    for array in arrays {
        if let Some(number) = array.name.strip_prefix("out") {
            let output = number.parse()?;
            expected.push(Expected {
                output,
                array,
                step: 1,
            });
        }
    }
    Ok(Program {
        name: name.to_owned(),
        module,
        inputs,
        expected,
    })
}
