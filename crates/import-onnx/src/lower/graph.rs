//! Translates a graph's nodes in order: resolves names to values, translates operators, inlines
//! functions, and makes computations of subgraphs.

use super::cut::{Cuts, Stage};
use super::value::{Scope, Source};
use super::{Item, Lowerer, NodeShapes, Result, Value};
use crate::read::{self, Attribute, Graph, Node, Size, Type};
use crate::tensor::{self, Tensors};
use crate::{Error, ops};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use tegula_ir::{Literal, Module};

/// The maximum depth of functions that call functions.
const MAX_DEPTH: u32 = 64;

/// The version of each operator set, by domain.
type Versions = FxHashMap<String, i64>;

/// A node with its inputs, as the argument of an operator's translation.
pub(crate) struct Call<'s, 'a> {
    pub(crate) node: &'s Node<'a>,
    /// The attributes, including those that a function passes to its nodes.
    pub(crate) attributes: Vec<&'s Attribute<'a>>,
    pub(crate) inputs: Vec<Item>,
    /// The version of the node's operator set.
    pub(crate) version: i64,
    pub(crate) scope: &'s Scope<'a>,
    versions: &'s Versions,
}

impl<'s, 'a> Call<'s, 'a> {
    /// The same node with another node's operator and attributes.
    pub(crate) fn of<'t>(
        &'t self,
        node: &'t Node<'a>,
        version: i64,
        inputs: Vec<Item>,
    ) -> Call<'t, 'a> {
        Call {
            node,
            attributes: self.attributes.clone(),
            inputs,
            version,
            scope: self.scope,
            versions: self.versions,
        }
    }

    /// Input `at`, which must be a tensor.
    pub(crate) fn input(&self, at: usize) -> Result<Value> {
        match self.inputs.get(at) {
            Some(Item::Tensor(value)) => Ok(value.clone()),
            Some(Item::Sequence(_)) => Err(Error::input(format!(
                "expected a tensor as input {at}, found a sequence"
            ))),
            Some(Item::Nothing) | None => Err(Error::input(format!("input {at} is missing"))),
        }
    }

    /// Input `at`, if it is present.
    pub(crate) fn optional(&self, at: usize) -> Option<Value> {
        match self.inputs.get(at) {
            Some(Item::Tensor(value)) => Some(value.clone()),
            _ => None,
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&'s Attribute<'a>> {
        self.attributes.iter().find(|a| a.name == name).copied()
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).and_then(|a| a.int).unwrap_or(default)
    }

    pub(crate) fn float(&self, name: &str, default: f32) -> f64 {
        f64::from(
            self.attribute(name)
                .and_then(|a| a.float)
                .unwrap_or(default),
        )
    }

    pub(crate) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|a| a.ints.clone())
    }

    pub(crate) fn text(&self, name: &str, default: &'static str) -> &'a str {
        let bytes = self.attribute(name).and_then(|a| a.string);
        bytes
            .and_then(|b| std::str::from_utf8(b).ok())
            .unwrap_or(default)
    }

    /// A list of integers that is an attribute in old versions and an input in later ones.
    pub(crate) fn ints_or_input(&self, name: &str, at: usize) -> Result<Option<Vec<i64>>> {
        match (self.optional(at), self.ints(name)) {
            (Some(value), _) => match value.integers() {
                Some(list) => Ok(Some(list)),
                None => Err(Error::depends_on_data(
                    at,
                    format!(
                        "input {at} (`{name}`) is not constant: expected numbers that are known when \
                     the model is read"
                    ),
                )),
            },
            (None, list) => Ok(list),
        }
    }

    /// An axis, converted to count from the beginning.
    pub(crate) fn axis_of(&self, axis: i64, rank: usize) -> Result<usize> {
        axis_of(axis, rank)
    }

    /// The attribute `axis`, converted to count from the beginning.
    pub(crate) fn axis(&self, default: i64, rank: usize) -> Result<usize> {
        axis_of(self.int("axis", default), rank)
    }
}

/// An axis, converted to count from the beginning.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let from_begin = match axis < 0 {
        true => axis.checked_add(rank as i64),
        false => Some(axis),
    };
    let place = from_begin.and_then(|axis| usize::try_from(axis).ok());
    place
        .filter(|place| *place < rank)
        .ok_or_else(|| Error::input(format!("axis {axis} is out of range for {rank} dimensions")))
}

fn title(node: &Node<'_>) -> String {
    let op = match node.domain {
        "" | "ai.onnx" => node.op.to_owned(),
        domain => format!("{domain}.{}", node.op),
    };
    match (node.name, node.outputs.first()) {
        ("", Some(output)) => format!("the node of `{output}` ({op})"),
        ("", None) => format!("a node ({op})"),
        (name, _) => format!("node `{name}` ({op})"),
    }
}

fn versions(list: &[(&str, i64)]) -> Versions {
    let entry = |(domain, version): &(&str, i64)| (domain_of(domain).to_owned(), *version);
    list.iter().map(entry).collect()
}

/// Normalises a domain: the standard domain has two names.
fn domain_of(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Translates a model to one program.
pub(crate) fn lower_model(
    model: &read::Model<'_>,
    tensors: Tensors<'_>,
    fixed: &FxHashMap<usize, Literal>,
) -> Result<(Module, Vec<String>, NodeShapes)> {
    let mut lower = Lowerer::new(model.graph.name, tensors);
    let (inputs, mut scope) = lower.begin(model, fixed)?;
    let versions = versions(&model.opsets);
    lower.nodes(&model.graph.nodes, &mut scope, &versions, &[])?;
    let results = results_of(model, &scope)?;
    let root = match results.as_slice() {
        [one] => lower.local(one)?,
        many => lower.tuple(many)?,
    };
    let entry = lower.draft.finish(&mut lower.builder, root)?;
    let shapes = std::mem::take(&mut lower.shapes);
    Ok((lower.builder.build_unverified(entry), inputs, shapes))
}

/// A model translated to stages.
pub(crate) struct Lowered {
    pub(crate) stages: Vec<Stage>,
    /// The names of the graph's inputs, without initializers.
    pub(crate) inputs: Vec<String>,
    /// Whether the elements of the last stage's last result are needed to continue.
    pub(crate) asks: bool,
    pub(crate) shapes: NodeShapes,
}

/// Translates a model to stages, as far as the `known` elements suffice. If the elements of the
/// last stage's last result are needed to continue, [`Lowered::asks`] is set.
pub(crate) fn lower_stages(
    model: &read::Model<'_>,
    tensors: Tensors<'_>,
    known: &[Literal],
) -> Result<Lowered> {
    let mut lower = Lowerer::new(model.graph.name, tensors);
    lower.cuts = Some(Cuts::new(known));
    let (inputs, mut scope) = lower.begin(model, &FxHashMap::default())?;
    let versions = versions(&model.opsets);
    let mut asks = false;
    'nodes: for (at, node) in model.graph.nodes.iter().enumerate() {
        loop {
            lower.cuts.iter_mut().for_each(Cuts::begin_node);
            let error = match lower.node_into(node, &mut scope, &versions, &[]) {
                Ok(()) => break,
                Err(error) => error,
            };
            if !lower.asks_for_cut() {
                return Err(error);
            }
            let mut later = names_of(&model.graph.nodes[at..]);
            later.extend(model.graph.outputs.iter().map(|output| output.name));
            if !lower.cut(&mut scope, &later)? {
                asks = true;
                break 'nodes;
            }
        }
        lower.cuts.iter_mut().for_each(Cuts::end_node);
    }
    let mut cuts = lower.cuts.take().unwrap_or_else(|| Cuts::new(&[]));
    if !asks {
        let results = results_of(model, &scope)?;
        lower.end_stage(&mut cuts, &results)?;
    }
    Ok(Lowered {
        stages: cuts.stages,
        inputs,
        asks,
        shapes: lower.shapes,
    })
}

/// The values of the graph's outputs.
fn results_of(model: &read::Model<'_>, scope: &Scope<'_>) -> Result<Vec<Value>> {
    let mut results = Vec::new();
    for output in &model.graph.outputs {
        flat_results(output.name, scope.get(output.name), &mut results)?;
    }
    Ok(results)
}

/// The names that nodes read, including those in subgraphs.
fn names_of<'a>(nodes: &[Node<'a>]) -> FxHashSet<&'a str> {
    let mut names = FxHashSet::default();
    visit_nodes(nodes, &mut |node| {
        names.extend(node.inputs.iter().copied());
        for attribute in &node.attributes {
            if let Some(inner) = &attribute.graph {
                names.extend(inner.outputs.iter().map(|output| output.name));
            }
        }
    });
    names
}

/// The name and the shape of an input that is not an initializer; open sizes are 0.
pub(crate) fn input_shape<'a>(
    model: &read::Model<'a>,
    position: usize,
) -> Option<(&'a str, tegula_ir::ArrayShape)> {
    let constants: FxHashSet<&str> = (model.graph.initializers.iter())
        .map(|tensor| tensor.name)
        .chain(model.graph.sparse.iter().map(|sparse| sparse.values.name))
        .collect();
    let mut inputs = (model.graph.inputs.iter()).filter(|info| !constants.contains(info.name));
    let info = inputs.nth(position)?;
    let Some(Type::Tensor { element, dims }) = &info.ty else {
        return None;
    };
    let sizes = dims.iter().flatten().map(|size| match size {
        Size::Known(size) => *size,
        _ => 0,
    });
    let sizes: Vec<i64> = sizes.collect();
    let ty = tensor::element_type(*element).ok()?;
    Some((info.name, tegula_ir::ArrayShape::new(ty, &sizes)))
}

/// Replaces an input by its fixed value.
fn fixed_value(parameter: &Value, literal: &Literal) -> Result<Value> {
    let value = Value::of_literal(literal.clone());
    match parameter.shape().may_equal(&value.shape()) {
        true => Ok(value),
        false => Err(Error::input(format!(
            "expected {}, but its value is {}",
            parameter.shape(),
            value.shape()
        ))),
    }
}

/// Appends a result's arrays; a sequence has one for each element.
fn flat_results(name: &str, item: Option<&Item>, results: &mut Vec<Value>) -> Result<()> {
    match item {
        Some(Item::Tensor(value)) => results.push(value.clone()),
        Some(Item::Sequence(items)) => {
            for item in items {
                flat_results(name, Some(item), results)?;
            }
        }
        Some(Item::Nothing) => {}
        None => {
            return Err(Error::input(format!(
                "no node computes the graph's result `{name}`"
            )));
        }
    }
    Ok(())
}

impl<'a> Lowerer<'a> {
    /// Registers the functions, and the constants and inputs of the graph in its scope. Returns the
    /// names of the inputs.
    fn begin(
        &mut self,
        model: &'a read::Model<'a>,
        fixed: &FxHashMap<usize, Literal>,
    ) -> Result<(Vec<String>, Scope<'a>)> {
        for function in &model.functions {
            let key = (
                domain_of(function.domain).to_owned(),
                function.name.to_owned(),
                function.overload.to_owned(),
            );
            self.functions.insert(key, function);
        }
        self.refuse_unsupported(model)?;
        let mut scope = Scope::default();
        self.constants_of(&model.graph, &mut scope)?;
        let mut inputs = Vec::new();
        for info in &model.graph.inputs {
            if scope.contains_key(info.name) {
                continue;
            }
            let named = |error: Error| error.at(format!("the input `{}`", info.name));
            let mut value = self.parameter(inputs.len(), info).map_err(named)?;
            if let Some(literal) = fixed.get(&inputs.len()) {
                value = fixed_value(&value, literal).map_err(named)?;
            }
            if let Some(cuts) = &mut self.cuts {
                cuts.input(&value.dims);
            }
            inputs.push(info.name.to_owned());
            scope.insert(info.name, value.into());
        }
        Ok((inputs, scope))
    }

    /// Reports all operators that have no translation, in one error.
    fn refuse_unsupported(&self, model: &read::Model<'a>) -> Result<()> {
        let mut missing: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let mut look = |nodes: &[Node<'a>]| {
            visit_nodes(nodes, &mut |node| {
                let domain = domain_of(node.domain);
                if ops::find(domain, node.op).is_some() || self.function_of(node).is_some() {
                    return;
                }
                let version = model.opsets.iter().find(|o| domain_of(o.0) == domain);
                let of = match domain {
                    "" => String::new(),
                    domain => format!("{domain}."),
                };
                let version = version.map_or(String::new(), |v| format!(" of opset {}", v.1));
                let entry = missing.entry(format!("{of}{}{version}", node.op));
                let entry = entry.or_insert((0, title(node)));
                entry.0 += 1;
            });
        };
        look(&model.graph.nodes);
        for function in &model.functions {
            look(&function.nodes);
        }
        if missing.is_empty() {
            return Ok(());
        }
        let list = missing.iter().map(|(op, (count, first))| match count {
            1 => format!("{op} ({first})"),
            count => format!("{op} ({count} nodes, first {first})"),
        });
        let list: Vec<String> = list.collect();
        Err(Error::unsupported(format!(
            "unsupported operators: {}",
            list.join("; ")
        )))
    }

    fn function_of(&self, node: &Node<'_>) -> Option<&'a read::Function<'a>> {
        let key = (
            domain_of(node.domain).to_owned(),
            node.op.to_owned(),
            node.overload.to_owned(),
        );
        self.functions.get(&key).copied()
    }

    fn constants_of(&mut self, graph: &Graph<'a>, scope: &mut Scope<'a>) -> Result<()> {
        for tensor in &graph.initializers {
            let literal = self.tensors.literal(tensor)?;
            scope.insert(tensor.name, Value::of_literal(literal).into());
        }
        for sparse in &graph.sparse {
            scope.insert(sparse.values.name, self.dense(sparse)?.into());
        }
        Ok(())
    }

    /// A tensor in the file as a constant.
    pub(crate) fn constant_of(&self, tensor: &read::Tensor<'a>) -> Result<Value> {
        Ok(Value::of_literal(self.tensors.literal(tensor)?))
    }

    /// Converts a sparse tensor to a dense one.
    pub(crate) fn dense(&self, sparse: &read::Sparse<'a>) -> Result<Value> {
        let values = self.tensors.literal(&sparse.values)?;
        let indices = Value::of_literal(self.tensors.literal(&sparse.indices)?);
        let indices = indices.integers().unwrap_or_default();
        let shape = tegula_ir::ArrayShape::new(values.element_type(), &sparse.dims);
        let mut whole = tegula_ir::Literal::zeros(&shape)?;
        let width = indices.len().checked_div(values.len().max(1)).unwrap_or(1);
        for (value, index) in values.scalars().zip(indices.chunks(width.max(1))) {
            let flat = match index {
                [flat] => *flat,
                many => many
                    .iter()
                    .zip(&sparse.dims)
                    .fold(0, |flat, (at, size)| flat * size + at),
            };
            whole.set_scalar(usize::try_from(flat).unwrap_or(usize::MAX), value)?;
        }
        Ok(Value::of_literal(whole))
    }

    fn parameter(&mut self, number: usize, info: &read::ValueInfo<'a>) -> Result<Value> {
        let (element, dims) = match &info.ty {
            Some(Type::Tensor { element, dims }) => (*element, dims),
            Some(Type::Sequence) => {
                return Err(Error::unsupported(
                    "inputs that are sequences are not supported",
                ));
            }
            Some(Type::Optional) => {
                return Err(Error::unsupported(
                    "inputs that are optionals are not supported",
                ));
            }
            Some(Type::Other) | None => return Err(Error::input("expected the type of a tensor")),
        };
        let ty = tensor::element_type(element)?;
        let Some(dims) = dims else {
            return Err(Error::unsupported(
                "its number of dimensions is not known: expected a shape",
            ));
        };
        let dims = dims.iter().enumerate().map(|(at, size)| match size {
            Size::Known(size) => tegula_expr::Term::constant(*size),
            Size::Named(name) => self.named_size(name),
            Size::Unknown => self.named_size(&format!("p{number}_d{at}")),
        });
        let dims: Vec<_> = dims.collect();
        let shape = super::shape_of(ty, &dims);
        let local = self.draft.parameter(shape, Some(info.name));
        Ok(Value {
            ty,
            dims,
            source: Source::Local(local),
            quantized: None,
        })
    }

    /// Translates nodes in order; their outputs are added to the scope.
    fn nodes(
        &mut self,
        nodes: &[Node<'a>],
        scope: &mut Scope<'a>,
        versions: &Versions,
        given: &[Attribute<'a>],
    ) -> Result<()> {
        for node in nodes {
            self.node_into(node, scope, versions, given)?;
        }
        Ok(())
    }

    /// Translates a node; its outputs are added to the scope. If the elements of an input must be
    /// known, the program may be split there.
    fn node_into(
        &mut self,
        node: &Node<'a>,
        scope: &mut Scope<'a>,
        versions: &Versions,
        given: &[Attribute<'a>],
    ) -> Result<()> {
        let results = loop {
            let mut error = match self.node(node, scope, versions, given) {
                Ok(results) => break results,
                Err(error) => error,
            };
            let name = error.wants.take().and_then(|at| node.inputs.get(at));
            if let Some((name, Item::Tensor(value))) = name.and_then(|n| Some((*n, scope.get(n)?)))
            {
                let value = value.clone();
                if self.may_cut() && !self.is_known(&value) {
                    let known = self.elements_from_data(&value)?;
                    scope.insert(name, known.into());
                    continue;
                }
                error.needs = self.parameters_of(&value);
            }
            return Err(error.at(title(node)));
        };
        for (name, item) in node.outputs.iter().zip(results) {
            if self.nesting == 0 && self.depth == 0 {
                self.note_shape(name, &item);
            }
            if let Item::Tensor(Value {
                source: Source::Local(local),
                ..
            }) = &item
            {
                self.draft.set_name(*local, name);
            }
            scope.insert(name, item);
        }
        Ok(())
    }

    fn note_shape(&mut self, name: &str, item: &Item) {
        let shape = match item {
            Item::Tensor(value) => value.shape(),
            Item::Sequence(items) => {
                let tensors = items.iter().filter_map(|item| match item {
                    Item::Tensor(value) => Some(value.shape()),
                    _ => None,
                });
                tegula_ir::Shape::Tuple(tensors.collect())
            }
            Item::Nothing => return,
        };
        self.shapes.push((name.to_owned(), shape));
    }

    /// The entry's parameters from which a value is computed.
    fn parameters_of(&self, value: &Value) -> Vec<usize> {
        let Source::Local(local) = value.source else {
            return Vec::new();
        };
        if self.nesting > 0 {
            return Vec::new();
        }
        let (mut seen, mut open) = (FxHashSet::default(), vec![local]);
        let mut parameters = Vec::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let (op, operands) = self.draft.instruction(id);
            open.extend_from_slice(operands);
            if let tegula_ir::Op::Parameter(number) = op {
                parameters.push(*number as usize);
            }
        }
        parameters.sort_unstable();
        parameters
    }

    fn node(
        &mut self,
        node: &Node<'a>,
        scope: &Scope<'a>,
        versions: &Versions,
        given: &[Attribute<'a>],
    ) -> Result<Vec<Item>> {
        let mut inputs = Vec::new();
        for name in &node.inputs {
            inputs.push(match (*name, scope.get(name)) {
                ("", _) => Item::Nothing,
                (_, Some(item)) => item.clone(),
                (name, None) => {
                    return Err(Error::input(format!("no node computes its input `{name}`")));
                }
            });
        }
        let written: Vec<Attribute<'a>> = (node.attributes.iter())
            .filter(|a| !a.reference.is_empty())
            .filter_map(|a| {
                let found = given.iter().find(|own| own.name == a.reference)?;
                Some(Attribute {
                    name: a.name,
                    ..found.clone()
                })
            })
            .collect();
        let own = node.attributes.iter().filter(|a| a.reference.is_empty());
        let domain = domain_of(node.domain);
        let call = Call {
            node,
            attributes: own.chain(&written).collect(),
            inputs,
            version: versions.get(domain).copied().unwrap_or(1),
            scope,
            versions,
        };
        if let Some(function) = self.function_of(node) {
            return self.function(function, &call);
        }
        let lowering = ops::find(domain, node.op);
        let lowering =
            lowering.ok_or_else(|| Error::unsupported("this operator is not supported"))?;
        lowering(self, &call)
    }

    fn function(
        &mut self,
        function: &read::Function<'a>,
        call: &Call<'_, 'a>,
    ) -> Result<Vec<Item>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.depth -= 1;
            return Err(Error::input(format!(
                "function calls are nested deeper than {MAX_DEPTH} levels"
            )));
        }
        let mut scope = Scope::default();
        for (at, name) in function.inputs.iter().enumerate() {
            let item = call.inputs.get(at).cloned().unwrap_or(Item::Nothing);
            scope.insert(name, item);
        }
        let mut given: Vec<Attribute<'a>> = call.attributes.iter().copied().cloned().collect();
        for default in &function.defaults {
            if given.iter().all(|own| own.name != default.name) {
                given.push(default.clone());
            }
        }
        let versions = versions(&function.opsets);
        let done = self.nodes(&function.nodes, &mut scope, &versions, &given);
        self.depth -= 1;
        done?;
        let result = |name: &&str| scope.get(name).cloned().unwrap_or(Item::Nothing);
        Ok(function.outputs.iter().map(result).collect())
    }

    /// The results of a subgraph for these inputs; other names are looked up in the outer graph.
    pub(crate) fn subgraph(
        &mut self,
        graph: &Graph<'a>,
        call: &Call<'_, 'a>,
        outer: &Scope<'a>,
        inputs: Vec<Item>,
    ) -> Result<Vec<Item>> {
        let mut scope = outer.clone();
        self.constants_of(graph, &mut scope)?;
        for (info, item) in graph.inputs.iter().zip(inputs) {
            scope.insert(info.name, item);
        }
        self.nodes(&graph.nodes, &mut scope, call.versions, &[])?;
        let result = |info: &read::ValueInfo<'a>| {
            let item = scope.get(info.name).cloned();
            item.ok_or_else(|| Error::input(format!("no node computes the result `{}`", info.name)))
        };
        graph.outputs.iter().map(result).collect()
    }

    /// The instructions' names of the outer graph that graphs read, in order.
    pub(crate) fn captured(
        &self,
        graphs: &[&Graph<'a>],
        scope: &Scope<'a>,
    ) -> Vec<(&'a str, Value)> {
        let mut names = Vec::new();
        let mut seen = FxHashSet::default();
        for graph in graphs {
            let mut note = |name: &'a str| {
                if seen.insert(name) {
                    names.push(name);
                }
            };
            visit_nodes(&graph.nodes, &mut |node| {
                node.inputs.iter().copied().for_each(&mut note);
                for attribute in &node.attributes {
                    if let Some(inner) = &attribute.graph {
                        inner.outputs.iter().for_each(|o| note(o.name));
                    }
                }
            });
            graph.outputs.iter().for_each(|output| note(output.name));
        }
        let found = names.into_iter().filter_map(|name| match scope.get(name)? {
            Item::Tensor(value) if !matches!(value.source, Source::Literal(_)) => {
                Some((name, value.clone()))
            }
            _ => None,
        });
        found.collect()
    }

    /// The outer scope, with captured names bound to parameters of a computation.
    pub(crate) fn with_captured(
        &self,
        scope: &Scope<'a>,
        captured: &[(&'a str, Value)],
        inner: &[Value],
    ) -> Scope<'a> {
        let mut scope = scope.clone();
        for ((name, outer), inner) in captured.iter().zip(inner) {
            // Terms over sizes stay known within the computation.
            if !matches!(outer.source, Source::Terms(_)) {
                scope.insert(name, inner.clone().into());
            }
        }
        scope
    }
}

/// Calls `visit` with each node, including those in subgraphs.
fn visit_nodes<'n, 'a>(nodes: &'n [Node<'a>], visit: &mut dyn FnMut(&'n Node<'a>)) {
    for node in nodes {
        visit(node);
        for attribute in &node.attributes {
            if let Some(graph) = &attribute.graph {
                visit_nodes(&graph.nodes, visit);
            }
        }
    }
}
