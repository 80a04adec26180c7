//! Attributes of the entry's parameters and results: donations, shardings, layouts, names.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use crate::mlir::{Attribute, Attributes, Operation, Type};
use std::sync::Arc;
use tegula_ir::{Layout, Shape};

/// The attributes of one parameter or result.
fn entries(list: &Attribute) -> &[(Arc<str>, Attribute)] {
    list.as_entries()
        .map(Attributes::as_slice)
        .unwrap_or_default()
}

fn lists<'a>(operation: &'a Operation, name: &str) -> &'a [Attribute] {
    let lists = operation.attribute(name).and_then(Attribute::as_array);
    lists.unwrap_or_default()
}

/// A text in quotes, in HLO's form.
pub(super) fn quoted(text: &str) -> Arc<str> {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")).into()
}

/// A sharding in the form in which XLA stores it in HLO.
pub(super) fn sharding_attribute(value: &Attribute) -> (Arc<str>, Arc<str>) {
    let text = crate::print::attribute_text(value);
    ("xla.sdy.sharding".into(), quoted(&text))
}

impl Lowerer<'_> {
    /// Stores the parameters' shardings and donations.
    pub(super) fn note_parameters(
        &mut self,
        operation: &Operation,
        parameters: &[Local],
        frame: &mut Frame,
    ) {
        let result_count = result_types(operation).len();
        for (number, list) in lists(operation, "arg_attrs").iter().enumerate() {
            let Some(parameter) = parameters.get(number) else {
                return;
            };
            let number = number as i64;
            for (name, value) in entries(list) {
                let attributes = self.builder.attributes_mut();
                match (&**name, value) {
                    ("tf.aliasing_output", Attribute::Integer { value, .. }) => {
                        let output_index = match result_count {
                            1 => Vec::new(),
                            _ => vec![*value],
                        };
                        attributes
                            .input_output_alias
                            .push(tegula_ir::InputOutputAlias {
                                output_index,
                                parameter: number,
                                parameter_index: Vec::new(),
                                kind: tegula_ir::AliasKind::May,
                            });
                    }
                    ("jax.buffer_donor", value) if value.as_bool() == Some(true) => {
                        attributes.buffer_donor.push((number, Vec::new()));
                    }
                    ("mhlo.sharding", Attribute::String(sharding)) => {
                        frame.annotations_mut(*parameter).sharding = Some(Arc::clone(sharding));
                    }
                    ("sdy.sharding", value) => {
                        let annotations = frame.annotations_mut(*parameter);
                        annotations
                            .frontend_attributes
                            .push(sharding_attribute(value));
                    }
                    _ => {}
                }
            }
        }
    }

    /// A result with a stated sharding becomes a copy with that sharding.
    pub(super) fn state_result_shardings(
        &mut self,
        operation: &Operation,
        results: &mut [Local],
        frame: &mut Frame,
    ) -> Result<(), Error> {
        for (list, result) in lists(operation, "res_attrs").iter().zip(results) {
            for (name, value) in entries(list) {
                let (sharding, attribute) = match (&**name, value) {
                    ("sdy.sharding", value) => (None, Some(sharding_attribute(value))),
                    ("mhlo.sharding", Attribute::String(text)) => (Some(Arc::clone(text)), None),
                    _ => continue,
                };
                *result = self.push(frame, tegula_ir::Op::Copy, &[*result], None)?;
                let annotations = frame.annotations_mut(*result);
                annotations.sharding = sharding;
                annotations.frontend_attributes.extend(attribute);
            }
        }
        Ok(())
    }

    /// Stores the names of results, and meshes, as attributes of the module, because HLO has no
    /// other place for them.
    pub(super) fn note_results(&mut self, operation: &Operation) {
        let mut names = Vec::new();
        for list in lists(operation, "res_attrs") {
            let info = entries(list)
                .iter()
                .find(|(name, _)| &**name == "jax.result_info");
            names.push(
                info.and_then(|(_, value)| value.as_str())
                    .unwrap_or_default(),
            );
        }
        if names.iter().any(|name| !name.is_empty()) {
            let plain: Vec<String> = names
                .iter()
                .map(|name| name.replace(['"', ','], ""))
                .collect();
            let attributes = self.builder.attributes_mut();
            attributes
                .frontend_attributes
                .push(("result_names".into(), quoted(&plain.join(","))));
        }
        let meshes = self.source.body().iter().filter_map(|operation| {
            if &*operation.name != "sdy.mesh" {
                return None;
            }
            let name = operation.attribute("sym_name")?.as_str()?;
            let mesh = crate::print::attribute_text(operation.attribute("mesh")?);
            Some(format!("{name} = {mesh}"))
        });
        let meshes: Vec<String> = meshes.collect();
        if !meshes.is_empty() {
            let text = quoted(&format!("{{{}}}", meshes.join(", ")));
            let attributes = self.builder.attributes_mut();
            attributes
                .frontend_attributes
                .push(("xla.sdy.meshes".into(), text));
        }
    }

    /// Stores the layouts of parameters and results if any differs from its default: those that
    /// `mhlo.layout_mode` requests, and the default where a custom call returns its result in
    /// another order.
    pub(super) fn note_layouts(
        &mut self,
        access: &Access<'_>,
        parameters: &[Local],
        results: &[Local],
        frame: &Frame,
    ) -> Result<(), Error> {
        let laid_out = |name: &str, locals: &[Local]| {
            let lists = lists(access.operation, name);
            let mut any = false;
            let mut shapes = Vec::new();
            for (place, local) in locals.iter().enumerate() {
                let mut shape = frame.shape(*local).clone();
                let all = lists.get(place).map(entries).unwrap_or_default();
                let mode = all.iter().find(|(key, _)| &**key == "mhlo.layout_mode");
                match mode.and_then(|(_, value)| value.as_str()) {
                    Some("auto") => {}
                    // The order in which a custom call returns its result does not apply.
                    None | Some("default") => {
                        if let Shape::Array(array) = &mut shape
                            && array.layout.is_some()
                        {
                            array.layout = Some(Box::new(Layout::row_major(array.rank())));
                            any = true;
                        }
                    }
                    Some(text) => {
                        shape = with_layout(shape, text).ok_or_else(|| {
                            access.error(format!("`mhlo.layout_mode = \"{text}\"` does not fit"))
                        })?;
                        any = true;
                    }
                }
                shapes.push(shape);
            }
            Ok::<_, Error>((any, shapes))
        };
        let (given, parameters) = laid_out("arg_attrs", parameters)?;
        let (taken, mut results) = laid_out("res_attrs", results)?;
        if given || taken {
            let result = match results.len() {
                1 => results.remove(0),
                _ => Shape::Tuple(results),
            };
            self.builder.attributes_mut().entry_layout = Some((parameters, result));
        }
        Ok(())
    }
}

/// An array with the layout `{1,0}`, which lists dimensions from the fastest to the slowest.
fn with_layout(shape: Shape, text: &str) -> Option<Shape> {
    let Shape::Array(mut array) = shape else {
        return None;
    };
    let list = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let list = list.split(':').next().unwrap_or_default();
    let dims = list.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims: Option<Vec<u32>> = dims.map(|dim| dim.parse().ok()).collect();
    let dims = dims?;
    let mut sorted = dims.clone();
    sorted.sort_unstable();
    if sorted.len() != array.rank() || sorted.iter().enumerate().any(|(i, d)| i as u32 != *d) {
        return None;
    }
    let mut layout = Layout::row_major(array.rank());
    layout.minor_to_major = dims.into_iter().collect();
    array.layout = Some(Box::new(layout));
    Some(Shape::Array(array))
}

/// The types of a function's results.
fn result_types(operation: &Operation) -> &[Type] {
    match operation.attribute("function_type") {
        Some(Attribute::Type(Type::Function(signature))) => &signature.results,
        _ => &[],
    }
}
