//! The text of a flat program: one line per node, regions indented.

use super::{Def, NodeKind, Program, Region, ValueId};
use std::fmt;
use tegula_ir::{Module, Shape};

/// The most elements of a constant whose values are printed.
const SHORT: usize = 4;

/// Displays a flat program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramText<'a> {
    /// The module that the program was flattened from.
    pub module: &'a Module,
    /// The program.
    pub program: &'a Program,
}

impl fmt::Display for ProgramText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {} {{", self.module.name)?;
        writeln!(f, "  parameters {}", self.typed(&self.program.parameters))?;
        for (id, value) in &self.program.values {
            let Def::Constant(literal) = &value.def else {
                continue;
            };
            write!(f, "  {id}: {} = constant", self.shape(id))?;
            match literal.len() <= SHORT && value.shape.rank() < 2 {
                true => writeln!(f, " {literal}")?,
                false => writeln!(f)?,
            }
        }
        self.region(f, &self.program.entry, 1)?;
        f.write_str("}\n")
    }
}

impl ProgramText<'_> {
    fn region(&self, f: &mut fmt::Formatter<'_>, region: &Region, depth: usize) -> fmt::Result {
        let pad = "  ".repeat(depth);
        for &id in &region.nodes {
            let node = &self.program.nodes[id];
            let origin = &self.module[node.origin];
            let operands = names(&node.operands);
            write!(f, "{pad}")?;
            if !node.results.is_empty() {
                write!(f, "{} = ", self.typed(&node.results))?;
            }
            match &node.kind {
                NodeKind::Op => {
                    writeln!(
                        f,
                        "{} {operands} // {}",
                        origin.op.opcode().name(),
                        origin.name
                    )?;
                }
                NodeKind::Contraction(contraction) => {
                    writeln!(f, "contraction {operands} {contraction} // {}", origin.name)?;
                }
                NodeKind::While {
                    condition,
                    body,
                    states,
                } => {
                    writeln!(
                        f,
                        "while {operands} states {} {{ // {}",
                        self.typed(states),
                        origin.name
                    )?;
                    self.region(f, condition, depth + 1)?;
                    writeln!(f, "{pad}}} do {{")?;
                    self.region(f, body, depth + 1)?;
                    writeln!(f, "{pad}}}")?;
                }
                NodeKind::Conditional { branches } => {
                    writeln!(f, "conditional {operands} // {}", origin.name)?;
                    for (number, branch) in branches.iter().enumerate() {
                        writeln!(f, "{pad}branch {number} {{")?;
                        self.region(f, branch, depth + 1)?;
                        writeln!(f, "{pad}}}")?;
                    }
                }
            }
        }
        writeln!(f, "{pad}yield {}", names(&region.results))
    }

    fn shape(&self, id: ValueId) -> Shape {
        Shape::Array(self.program.values[id].shape.clone())
    }

    fn typed(&self, values: &[ValueId]) -> String {
        let each = values.iter().map(|&id| format!("{id}: {}", self.shape(id)));
        each.collect::<Vec<_>>().join(", ")
    }
}

fn names(values: &[ValueId]) -> String {
    let each = values.iter().map(ToString::to_string);
    each.collect::<Vec<_>>().join(", ")
}
