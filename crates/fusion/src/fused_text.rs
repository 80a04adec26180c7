//! Text of clusters and of the fused graph: what is computed where, and why.

use crate::cluster::Clusters;
use crate::fused::{Fused, FusedRegion, Unit};
use crate::program::{Def, NodeId, Program, ValueId};
use std::fmt;
use tegula_ir::{Module, Shape};

/// Displays the clusters of a module's flat program: for each value, whether it is written to
/// memory, and why.
#[derive(Clone, Copy, Debug)]
pub struct ClustersText<'a> {
    /// The module that the program was flattened from.
    pub module: &'a Module,
    /// The program.
    pub program: &'a Program,
    /// Its clusters.
    pub clusters: &'a Clusters,
}

impl fmt::Display for ClustersText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("values:\n")?;
        for (id, value) in &self.program.values {
            if let Def::Node(node, _) = value.def {
                let origin = &self.module[self.program.nodes[node].origin].name;
                writeln!(f, "  {id} {origin}: {}", self.clusters.reason(id))?;
            }
        }
        Ok(())
    }
}

/// Displays the fused graph of a module: the units in order, then for each value why it is in
/// memory or why not.
#[derive(Clone, Copy, Debug)]
pub struct FusedText<'a> {
    /// The module that the graph was made from.
    pub module: &'a Module,
    /// The graph.
    pub fused: &'a Fused,
}

impl fmt::Display for FusedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "fused {} {{", self.module.name)?;
        self.region(f, &self.fused.entry, 1)?;
        f.write_str("}\n\n")?;
        let clusters = ClustersText {
            module: self.module,
            program: &self.fused.program,
            clusters: &self.fused.clusters,
        };
        write!(f, "{clusters}")
    }
}

impl FusedText<'_> {
    fn region(
        &self,
        f: &mut fmt::Formatter<'_>,
        region: &FusedRegion,
        depth: usize,
    ) -> fmt::Result {
        let pad = "  ".repeat(depth);
        for (node, unit) in region.units() {
            let name = self.name(node);
            let writes = || self.shapes(&unit.writes());
            let reads = || self.shapes(&unit.reads());
            match unit {
                Unit::Kernel(_) => {
                    writeln!(f, "{pad}kernel {name}: {} <- {}", writes(), reads())?;
                }
                Unit::Copy { from, to } => writeln!(f, "{pad}copy {name}: {to} <- {from}")?,
                Unit::Library { op, .. } => {
                    writeln!(f, "{pad}{} {name}: {} <- {}", op.name(), writes(), reads())?;
                }
                Unit::While {
                    condition,
                    body,
                    states,
                    ..
                } => {
                    writeln!(f, "{pad}while {name} over {} {{", self.shapes(states))?;
                    self.region(f, condition, depth + 1)?;
                    writeln!(f, "{pad}}} do {{")?;
                    self.region(f, body, depth + 1)?;
                    writeln!(f, "{pad}}}")?;
                }
                Unit::Conditional {
                    selector, branches, ..
                } => {
                    writeln!(f, "{pad}conditional {name} on {selector} {{")?;
                    for (i, branch) in branches.iter().enumerate() {
                        writeln!(f, "{pad}  branch {i}:")?;
                        self.region(f, branch, depth + 2)?;
                    }
                    writeln!(f, "{pad}}}")?;
                }
            }
        }
        writeln!(f, "{pad}yield {}", self.shapes(&region.results))
    }

    fn name(&self, node: NodeId) -> &str {
        &self.module[self.fused.program.nodes[node].origin].name
    }

    fn shapes(&self, values: &[ValueId]) -> String {
        let shape = |id: ValueId| Shape::Array(self.fused.program.values[id].shape.clone());
        let each = values.iter().map(|&id| format!("{id}:{}", shape(id)));
        each.collect::<Vec<_>>().join(", ")
    }
}
