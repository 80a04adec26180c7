//! The indexing maps of an edge, their simplified form, and the rules that simplified them.

use crate::{Problem, Session};
use rustc_hash::FxHashMap;
use serde::Serialize;
use tegula_expr::{Style, Term, Var};
use tegula_fusion::{Contraction, Labels, Node, NodeId, NodeKind};
use tegula_indexing::{
    Exactness, IndexingMap, RULES, RuntimeSource, Simplifier, Variable, output_leaf_to_input,
};
use tegula_ir::Module;

/// One application of a simplification rule.
#[derive(Clone, Debug, Serialize)]
pub struct StepInfo {
    /// The rule's name.
    pub rule: String,
    /// The identity that the rule applies.
    pub identity: &'static str,
    /// The term before.
    pub before: String,
    /// The term after.
    pub after: String,
    /// Why the rule holds here; empty if it always does.
    pub because: String,
}

/// One indexing map of an edge.
#[derive(Clone, Debug, Serialize)]
pub struct MapInfo {
    /// The map that follows from the operation's definition.
    pub raw: String,
    /// The simplified map.
    pub simplified: String,
    /// Whether the map covers exactly the elements that are read, rather than a superset.
    pub exact: bool,
    /// One sentence for each variable whose value is only known at run time.
    pub data: Vec<String>,
    /// The simplification steps, in order.
    pub steps: Vec<StepInfo>,
}

/// The indexing maps by which an operation reads an operand.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeInfo {
    /// The maps; empty if they are unknown.
    pub maps: Vec<MapInfo>,
    /// Why the maps are unknown.
    pub unknown: Option<String>,
}

impl Session {
    /// The indexing maps by which a node reads an operand to compute its first result.
    ///
    /// # Errors
    /// As [`Session::planned`]; the node does not exist, or has fewer operands.
    pub fn edge(&self, node: u32, operand: usize) -> Result<EdgeInfo, Problem> {
        let planned = self.planned()?;
        let program = &planned.fused.program;
        let found = program.nodes.get(NodeId::from_u32(node));
        let found = found.filter(|node| operand < node.operands.len());
        let node = found.ok_or_else(|| {
            Problem::new("unknown edge: expected an operation of the graph and one of its operands")
        })?;
        let maps = maps_of(&planned.module, program, node, 0, operand);
        let maps = match maps {
            Ok(maps) => maps,
            Err(unknown) => {
                return Ok(EdgeInfo {
                    maps: Vec::new(),
                    unknown: Some(unknown),
                });
            }
        };
        let mut simplifier = Simplifier::new().explaining();
        let maps = maps
            .iter()
            .map(|map| map_info(&planned.module, map, &mut simplifier));
        Ok(EdgeInfo {
            maps: maps.collect(),
            unknown: None,
        })
    }
}

fn map_info(module: &Module, map: &IndexingMap, simplifier: &mut Simplifier) -> MapInfo {
    let (simplified, report) = simplifier.simplify_with_report(map);
    let names = |var: Var| map.name(var);
    let term = |term: &Term| term.display(&names, Style::Xla).to_string();
    let steps = report.steps.iter().map(|step| {
        let line = step.display(&names, Style::Xla).to_string();
        let because = line.rsplit_once(&format!("by {} (", step.rule));
        StepInfo {
            rule: step.rule.to_owned(),
            identity: RULES
                .iter()
                .find(|rule| rule.name == step.rule)
                .map_or("", |rule| rule.identity),
            before: term(&step.before),
            after: term(&step.after),
            because: because.map_or(String::new(), |(_, b)| b.trim_end_matches(')').to_owned()),
        }
    });
    let data = map.runtime.iter().enumerate().map(|(number, variable)| {
        let name = map.name(Var((map.dims.len() + map.ranges.len() + number) as u32));
        match &variable.source {
            Some(RuntimeSource::Element { instruction, .. }) => {
                format!("{name} is an element of `{}`", module[*instruction].name)
            }
            Some(RuntimeSource::Size(_)) => format!("{name} is a size known at run time"),
            Some(RuntimeSource::Position(_)) => {
                format!("{name} is the position of the device in the mesh")
            }
            None => format!("{name} is known at run time"),
        }
    });
    MapInfo {
        raw: map.display(Style::Xla).to_string(),
        simplified: simplified.display(Style::Xla).to_string(),
        exact: map.exactness == Exactness::Exact,
        data: data.collect(),
        steps: steps.collect(),
    }
}

/// The maps from a result of a node to one of its operands, or why they are unknown.
pub(crate) fn maps_of(
    module: &Module,
    program: &tegula_fusion::Program,
    node: &Node,
    result: usize,
    operand: usize,
) -> Result<Vec<IndexingMap>, String> {
    match &node.kind {
        NodeKind::While { .. } => Err(
            "a loop has no single map; choose an element to see what each iteration reads"
                .to_owned(),
        ),
        NodeKind::Conditional { .. } => Err(
            "a conditional has no single map; choose an element to see what its branches read"
                .to_owned(),
        ),
        NodeKind::Contraction(dot) => contraction_map(program, node, dot, operand)
            .map(|map| vec![map])
            .ok_or_else(|| {
                "the sizes of this matrix product are only known at run time".to_owned()
            }),
        NodeKind::Op => {
            let found = output_leaf_to_input(module, node.origin, result);
            if found.len() != node.operands.len() {
                return Err(
                    "a pass changed the operands, so the operation's definition gives no map"
                        .to_owned(),
                );
            }
            let found = found.into_iter().nth(operand);
            let found =
                found.ok_or_else(|| "the operation has no operand of this number".to_owned())?;
            found.maps.map_err(|unknown| unknown.cause.to_string())
        }
    }
}

/// The map from a contraction's result to an operand: each dimension of the operand is indexed by
/// the labels that it has.
fn contraction_map(
    program: &tegula_fusion::Program,
    node: &Node,
    dot: &Contraction,
    operand: usize,
) -> Option<IndexingMap> {
    let shape = |value| &program.values[value].shape;
    let result = node.results.first().map(|&value| shape(value))?;
    let dims = result.static_dims()?;
    let mut map = IndexingMap::over(&dims);
    // A third operand is added to the product and has the result's shape.
    let Some(labels) = [&dot.lhs, &dot.rhs].get(operand).copied() else {
        return Some(IndexingMap::identity(&dims));
    };
    let (lhs, rhs) = (*node.operands.first()?, *node.operands.get(1)?);
    let sizes = dot.sizes(shape(lhs), shape(rhs))?;
    let size = |label: u32| sizes.get(label as usize).map(|&size| size as i64);
    // The result is a reshape of the array whose dimensions are the labels of `out`.
    let mut linear = Term::constant(0);
    for (position, &dim) in dims.iter().enumerate() {
        linear = linear.mul(&Term::constant(dim)).add(&map.dim(position));
    }
    let out_sizes: Vec<i64> = dot
        .out
        .iter()
        .map(|&label| size(label))
        .collect::<Option<_>>()?;
    let direct = out_sizes[..] == dims[..];
    let mut terms: FxHashMap<u32, Term> = FxHashMap::default();
    let mut stride = 1i64;
    for (place, &label) in dot.out.iter().enumerate().rev() {
        let own = size(label)?;
        let term = match direct {
            true => map.dim(place),
            false => linear
                .floor_div(&Term::constant(stride))
                .modulo(&Term::constant(own.max(1))),
        };
        terms.insert(label, term);
        stride = stride.checked_mul(own.max(1))?;
    }
    let mut of = |map: &mut IndexingMap, labels: &Labels| -> Option<Term> {
        let mut term = Term::constant(0);
        for &label in labels {
            let own = size(label)?;
            let part = match terms.get(&label) {
                Some(part) => part.clone(),
                None => {
                    let part = map.push_range(Variable::of_size(own));
                    terms.insert(label, part.clone());
                    part
                }
            };
            term = term.mul(&Term::constant(own)).add(&part);
        }
        Some(term)
    };
    let results = labels
        .iter()
        .map(|labels| of(&mut map, labels))
        .collect::<Option<Vec<_>>>()?;
    map.results = results;
    Some(map)
}
