//! The fused graph alone: which operations become one kernel?
//!
//!     cargo run --example fusion [MODEL.hlo]
//!
//! Reads a program (by default a softmax), flattens and fuses it, and prints each unit
//! of the fused graph with what it reads and writes.

use tegula_fusion::{Fused, FusedRegion, Limits, ShortLoops, Unit, ValueId, flatten, fuse};
use tegula_ir::{PassManager, Shape, parse_module, verify};

const SOFTMAX: &str = include_str!("../models/softmax.hlo");

/// A line for each unit; what a loop or a branch holds is indented.
fn units(text: &str) -> anyhow::Result<Vec<String>> {
    let module = parse_module(text)?;
    if let Some(error) = verify(&module).err().into_iter().flatten().next() {
        return Err(error.into());
    }
    let passes = &mut PassManager::new();
    let program = flatten(&module, ShortLoops::Kept, passes)?;
    let fused = fuse(&module, program, Limits::default(), passes)?;
    let mut lines = Vec::new();
    region(&fused, &fused.entry, "", &mut lines);
    Ok(lines)
}

fn region(fused: &Fused, of: &FusedRegion, indent: &str, lines: &mut Vec<String>) {
    let inner = format!("{indent}  ");
    for (_, unit) in of.units() {
        let what = match unit {
            Unit::Kernel(_) => "kernel",
            Unit::Copy { .. } => "copy",
            Unit::Library { op, .. } => op.name(),
            Unit::While { .. } => "while",
            Unit::Conditional { .. } => "conditional",
        };
        let (writes, reads) = (shapes(fused, &unit.writes()), shapes(fused, &unit.reads()));
        lines.push(format!("{indent}{what} {writes} <- {reads}"));
        match unit {
            Unit::While {
                condition, body, ..
            } => {
                region(fused, condition, &inner, lines);
                region(fused, body, &inner, lines);
            }
            Unit::Conditional { branches, .. } => {
                for branch in branches {
                    region(fused, branch, &inner, lines);
                }
            }
            _ => {}
        }
    }
}

fn shapes(fused: &Fused, values: &[ValueId]) -> String {
    let text = |&id: &ValueId| Shape::Array(fused.program.values[id].shape.clone()).to_string();
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn main() -> anyhow::Result<()> {
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => SOFTMAX.to_owned(),
    };
    for line in units(&text)? {
        println!("{line}");
    }
    Ok(())
}

#[test]
fn a_softmax_is_at_most_four_kernels() {
    let lines = units(SOFTMAX).unwrap();
    assert!(lines.len() <= 4, "{lines:#?}");
    assert!(
        lines.iter().all(|line| line.starts_with("kernel ")),
        "{lines:#?}"
    );
    // What it comes to in the end, and what it starts from.
    assert!(lines[0].ends_with("<- f32[16,100]"), "{lines:#?}");
    assert!(
        lines[lines.len() - 1].starts_with("kernel f32[16,100] <-"),
        "{lines:#?}"
    );
}
