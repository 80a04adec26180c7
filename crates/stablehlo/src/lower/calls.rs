//! Lowers calls: of functions, of composites' decompositions, and custom calls.

use super::{Frame, Local, Lowerer, MAX_INLINING, access::Access, chlo};
use crate::Error;
use crate::mlir::{Attribute, Block, Operation, Type, ValueId};
use smallvec::SmallVec;
use std::sync::Arc;
use tegula_ir::{CustomCall, Direction, Layout, Op, Shape};

/// Custom calls that return their operand; they are annotations for a partitioner or a scheduler.
const IDENTITIES: &[&str] = &[
    "Sharding",
    "annotate_device_placement",
    "AnnotateDevicePlacement",
    "LayoutConstraint",
];

/// Custom calls without results that only keep JAX and XLA from dropping or moving operations.
/// Operations here are pure, so they are dropped.
const NOTHING_TO_DO: &[&str] = &["control_dep", "dce_sink"];

impl<'m> Lowerer<'m> {
    pub(super) fn call(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let callee = access.attribute("callee")?.as_symbol();
        let callee = callee.ok_or_else(|| access.error("expected a symbol as `callee`"))?;
        let results = self.call_function(access, callee, frame)?;
        self.bind_all(access, frame, &results)
    }

    /// The results of calling a function on the operation's operands.
    fn call_function(
        &mut self,
        access: &Access<'m>,
        callee: &str,
        frame: &mut Frame,
    ) -> Result<Vec<Local>, Error> {
        let Some((&name, &function)) = self.functions.get_key_value(callee) else {
            return Err(access.error(format!("the function `@{callee}` does not exist")));
        };
        let operands = self.operands(access, frame)?;
        if self.open.contains(&name) || self.open.len() > MAX_INLINING {
            return Err(access.unsupported(format!(
                "`@{callee}` calls itself: recursion is not supported"
            )));
        }
        self.open.push(name);
        let results = match self.has_open_sizes && self.is_open_call(access, function) {
            true => self.inlined(access, function, &operands, frame),
            false => self.called(access, name, function, &operands, frame),
        };
        self.open.pop();
        results
    }

    /// Whether open sizes are passed to a function.
    fn is_open_call(&self, access: &Access<'_>, function: &Operation) -> bool {
        let is_open = |ty: &Type| ty.as_tensor().is_some_and(|t| t.dims.contains(&None));
        let signature = match function.attribute("function_type") {
            Some(Attribute::Type(Type::Function(signature))) => signature
                .inputs
                .iter()
                .chain(&signature.results)
                .any(is_open),
            _ => false,
        };
        let operands = &access.operation.operands;
        let all_sizes = operands
            .iter()
            .all(|value| self.sizes.terms(*value).is_some());
        // Constant sizes count as well, because the function may compare them with others.
        signature
            || (all_sizes && !operands.is_empty())
            || operands.iter().any(|value| self.sizes.is_open(*value))
    }

    fn called(
        &mut self,
        access: &Access<'m>,
        name: &'m str,
        function: &'m Operation,
        operands: &[Local],
        frame: &mut Frame,
    ) -> Result<Vec<Local>, Error> {
        let computation = match self.done.get(name) {
            Some(done) => *done,
            None => {
                let computation = self.function(function, Some(name))?;
                self.done.insert(name, computation);
                computation
            }
        };
        let op = Op::Call {
            to_apply: computation,
            is_composite: false,
        };
        let call = self.push(frame, op, operands, None)?;
        match access.operation.results.len() {
            1 => Ok(vec![call]),
            _ => self.elements(frame, call),
        }
    }

    /// Inlines a function's operations.
    fn inlined(
        &mut self,
        access: &Access<'m>,
        function: &'m Operation,
        operands: &[Local],
        frame: &mut Frame,
    ) -> Result<Vec<Local>, Error> {
        let block = self.body(function)?;
        self.inlined_block(access, block, operands, frame)
    }

    /// Inlines a block, whose arguments are the operands.
    pub(super) fn inlined_block(
        &mut self,
        access: &Access<'m>,
        block: &'m Block,
        operands: &[Local],
        frame: &mut Frame,
    ) -> Result<Vec<Local>, Error> {
        if block.arguments.len() != operands.len() {
            return Err(access.error(format!(
                "expected {} operands, found {}",
                block.arguments.len(),
                operands.len()
            )));
        }
        let given = access.operation.operands.iter();
        for ((argument, local), value) in block.arguments.iter().zip(operands).zip(given) {
            frame.bind(*argument, *local);
            self.sizes.copy(*value, *argument);
        }
        let results = self.block(block, frame)?;
        let returned = block.operations.last().map(|end| end.operands.as_slice());
        let results_of_call = access.operation.results.iter();
        for (value, result) in returned.unwrap_or_default().iter().zip(results_of_call) {
            self.sizes.copy(*value, *result);
        }
        Ok(results)
    }

    /// Lowers a composite: to an operation that is known to be equivalent, or to its decomposition.
    pub(super) fn composite(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let name = access.string("name")?;
        if let Some(unary) = chlo::known_unary(name.trim_start_matches("chlo."))
            && name.starts_with("chlo.")
            && access.operation.operands.len() == 1
        {
            let operand = self.operand(access, frame, 0)?;
            let like = frame.shape(operand).clone();
            return self.push_result(access, frame, Op::Unary(unary), &[operand], Some(&like));
        }
        if name == "chlo.top_k"
            && let Some(k) = composite_integer(access, "k")
        {
            let operands = self.operands(access, frame)?;
            let op = Op::TopK {
                k,
                largest: true,
                is_stable: None,
            };
            return self.push_results(access, frame, op, &operands);
        }
        let callee = access.attribute("decomposition")?.as_symbol();
        let callee = callee.ok_or_else(|| access.error("expected a symbol as `decomposition`"))?;
        let results = self.call_function(access, callee, frame)?;
        self.bind_all(access, frame, &results)
    }

    pub(super) fn custom_call(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let target = access.string("call_target_name")?;
        match target {
            "shape_assertion" => return self.shape_assertion(access),
            "stablehlo.dynamic_reduce_window" => return self.dynamic_reduce_window(access, frame),
            "stablehlo.dynamic_rng_bit_generator" => return self.dynamic_bits(access, frame),
            "stablehlo.dynamic_top_k" => return self.dynamic_top_k(access, frame),
            _ => {}
        }
        if NOTHING_TO_DO.contains(&target) && access.operation.results.is_empty() {
            return Ok(());
        }
        let operands = self.operands(access, frame)?;
        if IDENTITIES.contains(&target) && operands.len() == 1 {
            let copy = self.push(frame, Op::Copy, &operands, None)?;
            return self.bind(access, frame, copy);
        }
        if target == "ApproxTopK" {
            return self.approx_top_k(access, frame, &operands);
        }
        let called = access.operation.attribute("called_computations");
        let names: Vec<&str> = called
            .and_then(Attribute::as_array)
            .unwrap_or_default()
            .iter()
            .filter_map(Attribute::as_symbol)
            .collect();
        let mut computations = Vec::new();
        for name in names {
            computations.push(self.called_computation(access, name)?);
        }
        let mut operand_layouts = None;
        if has_other_layouts(access) {
            let shapes = operands.iter().map(|&operand| frame.shape(operand).clone());
            operand_layouts = Some(with_orders(access, "operand_layouts", shapes.collect())?);
        }
        let config = backend_config(access);
        let call = CustomCall {
            target: target.into(),
            operand_layouts: None,
            has_side_effect: access.flag("has_side_effect")?,
            api_version: api_version(access, config.as_deref())?,
            called: computations,
            aliasing: aliasing(access),
            extra: Vec::new(),
        };
        let results = &access.operation.results;
        let mut shapes = Vec::new();
        for place in 0..results.len() {
            shapes.push(self.result_shape(access, place, None)?);
        }
        if operand_layouts.is_some() {
            shapes = with_orders(access, "result_layouts", shapes)?;
        }
        let op = Op::CustomCall(Box::new(CustomCall {
            operand_layouts,
            ..call
        }));
        let single = shapes.len() == 1;
        let shape = match single {
            true => shapes.remove(0),
            false => Shape::Tuple(shapes),
        };
        let call = self.push(frame, op, &operands, Some(shape))?;
        let annotations = frame.annotations_mut(call);
        annotations.backend_config = config.map(Arc::from);
        for (name, value) in access
            .operation
            .attribute("mhlo.frontend_attributes")
            .and_then(Attribute::as_entries)
            .into_iter()
            .flatten()
        {
            if let Some(text) = value.as_str() {
                let attribute = (Arc::clone(name), super::entry::quoted(text));
                annotations.frontend_attributes.push(attribute);
            }
        }
        if let Some(sharding) = access.operation.attribute("sdy.sharding") {
            let sharding = super::entry::sharding_attribute(sharding);
            annotations.frontend_attributes.push(sharding);
        }
        if let Some(rule) = access.operation.attribute("sdy.sharding_rule") {
            let text = super::entry::quoted(&crate::print::attribute_text(rule));
            let rule = ("xla.sdy.sharding_rule".into(), text);
            annotations.frontend_attributes.push(rule);
        }
        let results = match single {
            true => vec![call],
            false => self.elements(frame, call)?,
        };
        self.bind_all(access, frame, &results)
    }

    /// Lowers JAX's approximate top k to an exact one, by a sort with its comparator. The operands
    /// are arrays and as many initial values, which only an approximation needs.
    fn approx_top_k(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
        operands: &[Local],
    ) -> Result<(), Error> {
        let config = ["backend_config", "mhlo.backend_config"];
        let config = config
            .into_iter()
            .find_map(|name| access.operation.attribute(name)?.as_entries());
        let entries = config.map(Vec::as_slice).unwrap_or_default();
        let dimension = entries.iter().find(|(key, _)| &**key == "reduction_dim");
        let dimension = dimension.and_then(|(_, value)| value.as_integer());
        let called = access.operation.attribute("called_computations");
        let called = called.and_then(Attribute::as_array).and_then(<[_]>::first);
        let comparator = called.and_then(Attribute::as_symbol);
        let arrays = operands
            .get(..operands.len() / 2)
            .filter(|arrays| !arrays.is_empty());
        let (Some(arrays), Some(dimension), Some(comparator)) = (arrays, dimension, comparator)
        else {
            return Err(access.error("expected arrays, `reduction_dim` and a comparator"));
        };
        let rank = self.array(access, frame, arrays[0])?.rank() as i64;
        let dimension = if dimension < 0 {
            dimension + rank
        } else {
            dimension
        };
        let comparator = self.called_computation(access, comparator)?;
        if let &[array, places] = arrays
            && dimension == rank - 1
            && *frame.op(places) == Op::Iota(dimension)
            && let Some(largest) = self.orders_by_size(comparator)
            && let Some(k) = self.last_size(access)?
        {
            let op = Op::TopK {
                k,
                largest,
                is_stable: None,
            };
            return self.push_results(access, frame, op, &[array]);
        }
        let op = Op::Sort {
            dimension,
            is_stable: true,
            to_apply: comparator,
        };
        let sorted = self.push(frame, op, arrays, None)?;
        let sorted = match arrays.len() {
            1 => vec![sorted],
            _ => self.elements(frame, sorted)?,
        };
        let mut results = Vec::new();
        for (place, array) in sorted.into_iter().enumerate() {
            let wanted = self.result_shape(access, place, None)?;
            let dims = wanted
                .as_array()
                .and_then(tegula_ir::ArrayShape::static_dims);
            let dims = dims.ok_or_else(|| {
                access.unsupported("results with dynamic sizes are not supported")
            })?;
            let whole = |limit: &i64| tegula_ir::SliceDim {
                start: 0,
                limit: *limit,
                stride: 1,
            };
            let op = Op::Slice(dims.iter().map(whole).collect());
            results.push(self.push(frame, op, &[array], None)?);
        }
        self.bind_all(access, frame, &results)
    }

    /// Whether a comparator puts the larger (true) or the smaller (false) of its first two operands
    /// first; `None` if it does something else.
    fn orders_by_size(&self, comparator: tegula_ir::ComputationId) -> Option<bool> {
        let module = self.builder.module();
        let computation = &module.computations[comparator];
        let root = &module[computation.root];
        let first = computation.parameters.get(..2)?;
        let Op::Compare { direction, .. } = root.op else {
            return None;
        };
        match direction {
            Direction::Gt if root.operands[..] == *first => Some(true),
            Direction::Lt if root.operands[..] == *first => Some(false),
            _ => None,
        }
    }

    /// The last dimension's size of the first result, if it is known.
    fn last_size(&self, access: &Access<'m>) -> Result<Option<i64>, Error> {
        let shape = self.result_shape(access, 0, None)?;
        let dims = shape
            .as_array()
            .and_then(tegula_ir::ArrayShape::static_dims);
        Ok(dims.and_then(|dims| dims.last().copied()))
    }

    pub(super) fn called_computation(
        &mut self,
        access: &Access<'m>,
        name: &str,
    ) -> Result<tegula_ir::ComputationId, Error> {
        let Some((&name, &function)) = self.functions.get_key_value(name) else {
            return Err(access.error(format!("the function `@{name}` does not exist")));
        };
        if let Some(done) = self.done.get(name) {
            return Ok(*done);
        }
        let computation = self.function(function, Some(name))?;
        self.done.insert(name, computation);
        Ok(computation)
    }

    /// Lowers `jax.export`'s assertion about sizes: operand 0 must be true, otherwise the run fails
    /// with the message, in which the other operands are inserted.
    fn shape_assertion(&mut self, access: &Access<'_>) -> Result<(), Error> {
        let operands = &access.operation.operands;
        let message = access.operation.attribute("error_message");
        let message = message
            .and_then(Attribute::as_str)
            .unwrap_or("a shape assertion fails");
        let known = |value: &ValueId| self.sizes.scalar(*value);
        let condition = operands.first().and_then(known);
        let values: Option<Vec<_>> = operands.iter().skip(1).map(known).collect();
        let (Some(condition), Some(values)) = (condition, values) else {
            return Err(access.unsupported(
                "a shape assertion about values that do not follow from input sizes is not supported",
            ));
        };
        self.sizes
            .assert(&condition, message, values)
            .map_err(|message| access.error(message))
    }
}

/// Whether a custom call requires an operand, or returns a result, in an order other than
/// row-major.
fn has_other_layouts(access: &Access<'_>) -> bool {
    let layouts = ["operand_layouts", "result_layouts"].into_iter();
    let layouts = layouts.filter_map(|name| access.operation.attribute(name)?.as_array());
    let mut orders = layouts.flatten().filter_map(Attribute::as_integers);
    orders.any(|order| !order.iter().rev().copied().eq(0..order.len() as i64))
}

/// The shapes of arrays with the orders that an attribute states, the fastest-varying dimension
/// first. Tokens have no orders.
fn with_orders(
    access: &Access<'_>,
    name: &str,
    mut shapes: Vec<Shape>,
) -> Result<Vec<Shape>, Error> {
    let orders = access.operation.attribute(name);
    let orders = orders.and_then(Attribute::as_array).unwrap_or_default();
    for (shape, order) in shapes.iter_mut().zip(orders) {
        let (Shape::Array(array), Some(order)) = (shape, order.as_integers()) else {
            continue;
        };
        let order = order.iter().map(|&dim| u32::try_from(dim).ok());
        let order: Option<SmallVec<[u32; 6]>> = order.collect();
        let rank = array.rank() as u32;
        let order = order.filter(|o| o.len() == array.rank() && (0..rank).all(|d| o.contains(&d)));
        let order = order.ok_or_else(|| {
            access.error(format!(
                "`{name}` is not a permutation of {rank} dimensions"
            ))
        })?;
        array.layout = Some(Box::new(Layout {
            minor_to_major: order,
            ..Layout::default()
        }));
    }
    Ok(shapes)
}

/// The configuration of a custom call, in HLO text's form.
fn backend_config(access: &Access<'_>) -> Option<String> {
    let own = access.operation.attribute("backend_config");
    let discardable = access.operation.attribute("mhlo.backend_config");
    for value in [own, discardable].into_iter().flatten() {
        match value {
            Attribute::String(text) if !text.is_empty() => {
                let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
                return Some(format!("\"{escaped}\""));
            }
            Attribute::Dictionary(entries) if !entries.is_empty() => {
                return Some(crate::print::attribute_text(value));
            }
            _ => {}
        }
    }
    None
}

/// The pairs of results and operands that share memory.
fn aliasing(access: &Access<'_>) -> Vec<(Vec<i64>, i64, Vec<i64>)> {
    let stated = access.operation.attribute("output_operand_aliases");
    let stated = stated.and_then(Attribute::as_array).unwrap_or_default();
    let is_tuple = access.operation.results.len() != 1;
    let alias = |attribute: &Attribute| {
        let text = crate::print::attribute_text(attribute);
        let list = |name: &str| -> Option<Vec<i64>> {
            let (_, rest) = text.split_once(name)?;
            let (list, _) = rest.split_once('[')?.1.split_once(']')?;
            let numbers = list.split(',').map(str::trim).filter(|n| !n.is_empty());
            numbers.map(|number| number.parse().ok()).collect()
        };
        let (_, operand) = text.split_once("operand_index = ")?;
        let end = operand.find(|c: char| !c.is_ascii_digit());
        let operand = operand[..end.unwrap_or(operand.len())].parse().ok()?;
        // StableHLO numbers results; HLO indexes the tuple, if there are several.
        let mut result = list("output_tuple_indices")?;
        if !is_tuple {
            result.clear();
        }
        Some((result, operand, list("operand_tuple_indices")?))
    };
    stated.iter().filter_map(alias).collect()
}

/// An integer among the attributes of a composite's operation.
fn composite_integer(access: &Access<'_>, name: &str) -> Option<i64> {
    let attributes = access.operation.attribute("composite_attributes")?;
    let mut entries = attributes.as_entries()?.iter();
    let (_, value) = entries.find(|(key, _)| &**key == name)?;
    value.as_integer()
}

fn api_version(access: &Access<'_>, config: Option<&str>) -> Result<Option<Arc<str>>, Error> {
    let version = match access.operation.attribute("api_version") {
        Some(_) => access.integer("api_version")?,
        // Typed handlers take a dictionary.
        None if config.is_some_and(|config| config.starts_with('{')) => 4,
        None => 1,
    };
    Ok(match version {
        2 => Some("API_VERSION_STATUS_RETURNING".into()),
        3 => Some("API_VERSION_STATUS_RETURNING_UNIFIED".into()),
        4 => Some("API_VERSION_TYPED_FFI".into()),
        _ => None,
    })
}
