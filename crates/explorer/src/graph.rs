//! The program as a graph: its operations, the fused units that compute them, and the reason for
//! each fusion decision.

use crate::repeats::{Repeat, longest_repeat};
use crate::session::value_name;
use crate::{Problem, Session};
use rustc_hash::FxHashSet;
use serde::Serialize;
use tegula_fusion::{
    BoundKernel, Def, Fused, FusedRegion, NodeId, NodeKind, Program, Reason, Region, Unit, ValueId,
};
use tegula_ir::{Module, Shape, Span};

/// Programs with more units than this are not searched for repeated layers.
const MOST_SEARCHED: usize = 4000;

/// An array of the program.
#[derive(Clone, Debug, Serialize)]
pub struct ValueInfo {
    /// Its number: the index in [`Graph::values`].
    pub id: u32,
    /// Its instruction's name.
    pub name: String,
    /// Its type, as text.
    pub shape: String,
    /// The size of each dimension; `None` if some are only known at run time.
    pub dims: Option<Vec<i64>>,
    /// `parameter`, `constant`, `node` or `state` (of a loop).
    pub kind: &'static str,
    /// The node that computes it.
    pub node: Option<u32>,
    /// Whether it is written to memory, rather than recomputed by each reader.
    pub in_memory: bool,
    /// The reason for `in_memory`.
    pub why: String,
}

/// An operation.
#[derive(Clone, Debug, Serialize)]
pub struct NodeInfo {
    /// Its number: the index in [`Graph::nodes`].
    pub id: u32,
    /// Its instruction's name.
    pub name: String,
    /// Its HLO opcode.
    pub opcode: String,
    /// The line of the program's text that defines it, from 1; 0 if a pass created it.
    pub line: usize,
    /// The numbers of the values that it reads.
    pub operands: Vec<u32>,
    /// The numbers of the values that it computes.
    pub results: Vec<u32>,
    /// The units that compute it; several if it is cheap and recomputed by several kernels.
    pub units: Vec<usize>,
    /// The loop or choice whose body it is in.
    pub parent: Option<u32>,
}

/// One step of the fused program.
#[derive(Clone, Debug, Serialize)]
pub struct UnitInfo {
    /// `kernel`, `library`, `copy`, `while` or `conditional`.
    pub kind: &'static str,
    /// Its label: the library routine's name, or the opcodes in the kernel.
    pub label: String,
    /// The operations that it computes, in the program's order.
    pub nodes: Vec<u32>,
    /// The arrays that it reads from memory.
    pub reads: Vec<u32>,
    /// The arrays that it writes to memory.
    pub writes: Vec<u32>,
    /// The loop or choice whose body it is in.
    pub parent: Option<u32>,
}

/// The whole graph. Edges are the operands of nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Graph {
    /// The program's name.
    pub name: String,
    /// The arrays.
    pub values: Vec<ValueInfo>,
    /// The operations.
    pub nodes: Vec<NodeInfo>,
    /// The units, in the order in which they run.
    pub units: Vec<UnitInfo>,
    /// The numbers of the program's parameters.
    pub parameters: Vec<u32>,
    /// The numbers of the program's results.
    pub results: Vec<u32>,
    /// A sequence of units that repeats, such as the layers of a network; indices into `units`.
    pub repeat: Option<Repeat>,
    /// One line: the numbers of operations, kernels and library calls.
    pub summary: String,
}

impl Session {
    /// The graph.
    ///
    /// # Errors
    /// As [`Session::planned`].
    pub fn graph(&self) -> Result<Graph, Problem> {
        let planned = self.planned()?;
        let (module, fused) = (&*planned.module, &planned.fused);
        let program = &fused.program;
        let mut maker = Maker {
            line_ends: self.text.match_indices('\n').map(|(at, _)| at).collect(),
            module,
            fused,
            nodes: Vec::new(),
            units: Vec::new(),
        };
        let parents = parents(program);
        for (id, node) in &program.nodes {
            let info = maker.node(id, node, parents[id.as_u32() as usize]);
            maker.nodes.push(info);
        }
        maker.region(&fused.entry, None);
        let mut values: Vec<ValueInfo> = program.values.keys().map(|id| maker.value(id)).collect();
        // A node that no unit computes keeps an empty list: a pass made it unnecessary.
        let Maker {
            mut nodes, units, ..
        } = maker;
        for (number, unit) in units.iter().enumerate() {
            for &node in &unit.nodes {
                nodes[node as usize].units.push(number);
            }
        }
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); values.len()];
        for node in &nodes {
            for &operand in &node.operands {
                readers[operand as usize].push(node.id);
            }
        }
        for value in &mut values {
            let id = ValueId::from_u32(value.id);
            let why = match fused.clusters.reason(id) {
                Reason::RegionResult => Some(match program.entry.results.contains(&id) {
                    true => "it is a result of the program".to_owned(),
                    false => "it is a result of a loop body or of a branch".to_owned(),
                }),
                Reason::LibraryOrControl => {
                    memory_step(value, &readers[value.id as usize], &nodes, &units)
                }
                _ => None,
            };
            if let Some(why) = why {
                value.why = why;
            }
        }
        let signature = |unit: &UnitInfo| {
            let of = |&v: &u32| {
                let value = &program.values[ValueId::from_u32(v)];
                Shape::Array(value.shape.clone()).to_string()
            };
            let writes: Vec<String> = unit.writes.iter().map(of).collect();
            let parent = unit.parent;
            (unit.kind, unit.label.clone(), writes, parent)
        };
        let repeat = (units.len() <= MOST_SEARCHED)
            .then(|| longest_repeat(&units.iter().map(signature).collect::<Vec<_>>()))
            .flatten();
        let kernels = units.iter().filter(|unit| unit.kind == "kernel").count();
        let calls = units.iter().filter(|unit| unit.kind == "library").count();
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let summary = format!(
            "{} operation{} in {kernels} kernel{} and {calls} library call{}",
            nodes.len(),
            plural(nodes.len()),
            plural(kernels),
            plural(calls),
        );
        Ok(Graph {
            name: module.name.to_string(),
            values,
            nodes,
            units,
            parameters: numbers(&program.parameters),
            results: numbers(&program.entry.results),
            repeat,
            summary,
        })
    }
}

/// Names the library call, copy or loop that writes or reads an array: it needs the array in
/// memory.
fn memory_step(
    value: &ValueInfo,
    readers: &[u32],
    nodes: &[NodeInfo],
    units: &[UnitInfo],
) -> Option<String> {
    let step = |node: &NodeInfo| {
        let unit = node.units.iter().map(|&unit| &units[unit]);
        let mut other = unit.filter(|unit| unit.kind != "kernel");
        other.next().map(|unit| match unit.kind {
            "library" => format!("{}, a call to the {} routine", node.name, unit.label),
            "copy" => format!("{}, a copy", node.name),
            _ => format!("{}, a {}", node.name, unit.kind),
        })
    };
    let maker = value.node.and_then(|node| nodes.get(node as usize));
    if let Some(made) = maker.and_then(step) {
        return Some(format!("{made}, writes its whole result to memory"));
    }
    let mut readers = readers.iter().filter_map(|&node| nodes.get(node as usize));
    let read = readers.find_map(step)?;
    Some(format!("{read}, reads it from memory"))
}

/// The numbers of `values`.
pub(crate) fn numbers(values: &[ValueId]) -> Vec<u32> {
    values.iter().map(|v| v.as_u32()).collect()
}

/// For each node, the loop or conditional whose body contains it.
fn parents(program: &Program) -> Vec<Option<u32>> {
    fn visit(program: &Program, region: &Region, parent: Option<u32>, out: &mut [Option<u32>]) {
        for &node in &region.nodes {
            out[node.as_u32() as usize] = parent;
            for inner in program.nodes[node].kind.regions() {
                visit(program, inner, Some(node.as_u32()), out);
            }
        }
    }
    let mut out = vec![None; program.nodes.len()];
    visit(program, &program.entry, None, &mut out);
    out
}

struct Maker<'a> {
    /// The byte offset of each line end in the text.
    line_ends: Vec<usize>,
    module: &'a Module,
    fused: &'a Fused,
    nodes: Vec<NodeInfo>,
    units: Vec<UnitInfo>,
}

impl Maker<'_> {
    fn node(&self, id: NodeId, node: &tegula_fusion::Node, parent: Option<u32>) -> NodeInfo {
        let origin = &self.module[node.origin];
        let opcode = match node.kind {
            NodeKind::Contraction(_) => "dot",
            _ => origin.op.opcode().name(),
        };
        NodeInfo {
            id: id.as_u32(),
            name: origin.name.to_string(),
            opcode: opcode.to_owned(),
            line: match origin.span == Span::default() {
                true => 0,
                false => {
                    1 + self
                        .line_ends
                        .partition_point(|&end| end < origin.span.start as usize)
                }
            },
            operands: numbers(&node.operands),
            results: numbers(&node.results),
            units: Vec::new(),
            parent,
        }
    }

    fn value(&self, id: ValueId) -> ValueInfo {
        let program = &self.fused.program;
        let value = &program.values[id];
        let (kind, node) = match &value.def {
            Def::Parameter(_) => ("parameter", None),
            Def::Constant(_) => ("constant", None),
            Def::Node(node, _) => ("node", Some(node.as_u32())),
            Def::LoopState => ("state", None),
        };
        let reason = self.fused.clusters.reason(id);
        ValueInfo {
            id: id.as_u32(),
            name: value_name(self.module, program, id),
            shape: Shape::Array(value.shape.clone()).to_string(),
            dims: value.shape.static_dims().map(|dims| dims.to_vec()),
            kind,
            node,
            in_memory: kind != "node" || reason.is_materialised(),
            why: reason.to_string(),
        }
    }

    fn region(&mut self, region: &FusedRegion, parent: Option<u32>) {
        for (node, unit) in region.units() {
            let (kind, nodes) = match unit {
                Unit::Kernel(bound) => ("kernel", self.computed_by(bound, node)),
                Unit::Copy { .. } => ("copy", vec![node.as_u32()]),
                Unit::Library { .. } => ("library", vec![node.as_u32()]),
                Unit::While { .. } => ("while", vec![node.as_u32()]),
                Unit::Conditional { .. } => ("conditional", vec![node.as_u32()]),
            };
            let label = match unit {
                Unit::Library { op, .. } => op.name().to_owned(),
                Unit::Copy { .. } => "copy".to_owned(),
                Unit::While { .. } => "while".to_owned(),
                Unit::Conditional { .. } => "conditional".to_owned(),
                Unit::Kernel(_) => {
                    let opcodes = nodes
                        .iter()
                        .map(|&n| self.nodes[n as usize].opcode.as_str());
                    shortened(&opcodes.collect::<Vec<_>>())
                }
            };
            let (reads, writes) = match unit {
                // Arrays that the regions read and write belong to the units inside of them.
                Unit::While { operands, .. } => (operands.clone(), unit.writes()),
                Unit::Conditional { selector, .. } => (vec![*selector], unit.writes()),
                _ => (unit.reads(), unit.writes()),
            };
            self.units.push(UnitInfo {
                kind,
                label,
                nodes,
                reads: numbers(&reads),
                writes: numbers(&writes),
                parent,
            });
            let inside = Some(node.as_u32());
            match unit {
                Unit::While {
                    condition, body, ..
                } => {
                    self.region(condition, inside);
                    self.region(body, inside);
                }
                Unit::Conditional { branches, .. } => {
                    branches
                        .iter()
                        .for_each(|branch| self.region(branch, inside));
                }
                _ => {}
            }
        }
    }

    /// The operations whose results a kernel writes, and all operations fused into them.
    fn computed_by(&self, bound: &BoundKernel, node: NodeId) -> Vec<u32> {
        let program = &self.fused.program;
        let writes = Unit::Kernel(bound.clone()).writes();
        let mut work: Vec<NodeId> = writes
            .iter()
            .filter_map(|&value| match program.values[value].def {
                Def::Node(node, _) => Some(node),
                _ => None,
            })
            .chain([node])
            .collect();
        let mut seen: FxHashSet<NodeId> = work.iter().copied().collect();
        while let Some(node) = work.pop() {
            for &operand in &program.nodes[node].operands {
                let Def::Node(source, _) = program.values[operand].def else {
                    continue;
                };
                if !self.fused.clusters.is_materialised(operand) && seen.insert(source) {
                    work.push(source);
                }
            }
        }
        let mut all: Vec<u32> = seen.into_iter().map(NodeId::as_u32).collect();
        all.sort_unstable();
        all
    }
}

/// Shortens a list of opcodes to its first names and the count of the others. Opcodes that only
/// move data are left out if others remain.
fn shortened(opcodes: &[&str]) -> String {
    const SHOWN: usize = 4;
    let views = [
        "broadcast",
        "reshape",
        "transpose",
        "constant",
        "iota",
        "convert",
    ];
    let mut telling: Vec<&str> = Vec::new();
    for opcode in opcodes {
        if !views.contains(opcode) && !telling.contains(opcode) {
            telling.push(opcode);
        }
    }
    if telling.is_empty() {
        telling.extend(opcodes.first());
    }
    let more = telling.len().saturating_sub(SHOWN);
    telling.truncate(SHOWN);
    match more {
        0 => telling.join(", "),
        more => format!("{} and {more} more", telling.join(", ")),
    }
}
