//! Prints the pretty forms of operations.

use super::Printer;
use crate::mlir::{Attribute, Attributes, FunctionType, Operation, Type};
use crate::print::attributes::{self, types};
use crate::text::formats::{self, Item, Kind, Types};
use std::fmt::Write;
use std::sync::Arc;

/// Appends an operation in its pretty form. `false`, with nothing appended, if it has none or if
/// this form cannot express the operation.
pub(super) fn write<'m>(printer: &mut Printer<'m>, operation: &'m Operation) -> bool {
    let start = printer.out.len();
    let written = match &*operation.name {
        "builtin.module" => module(printer, operation),
        "func.func" => function(printer, operation),
        "stablehlo.constant" => constant(printer, operation),
        "stablehlo.while" => while_loop(printer, operation),
        name => match formats::form(name) {
            Some(form) => by_form(printer, operation, form),
            None => None,
        },
    };
    if written.is_none() {
        printer.out.truncate(start);
    }
    written.is_some()
}

/// The attributes of an operation except for those with these names.
fn others(operation: &Operation, written: &[&str]) -> Attributes {
    let all = operation.properties.iter().chain(&operation.attributes);
    all.filter(|(name, _)| !written.contains(&&**name))
        .cloned()
        .collect()
}

fn by_form<'m>(printer: &mut Printer<'m>, operation: &'m Operation, form: &[Item]) -> Option<()> {
    if !operation.regions.is_empty() {
        return None;
    }
    let name = match &*operation.name {
        "func.return" if printer.is_in_function() => "return",
        "func.call" if printer.is_in_function() => "call",
        name => name,
    };
    printer.out.push_str(name);
    let mut operands = operation.operands.iter().copied();
    let mut written: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(item) = form.get(at) {
        at += 1;
        let glued = matches!(item, Item::Literal("," | ")" | "]"))
            || matches!(item, Item::Literal("("))
                && matches!(
                    name,
                    "call" | "func.call" | "stablehlo.custom_call" | "stablehlo.convolution"
                );
        let empty = matches!(
            item,
            Item::Dictionary
                | Item::OptionalBegin
                | Item::OptionalEnd
                | Item::Types(Types::Operands | Types::Value)
                | Item::Attribute(_, Kind::Precision | Kind::Algorithm)
        );
        if !glued && !empty && !printer.out.ends_with(['(', '[', '{']) {
            printer.out.push(' ');
        }
        match item {
            Item::Operand => {
                let operand = operands.next()?;
                printer.operands(&[operand]);
            }
            Item::Operands => {
                let rest: Vec<_> = operands.by_ref().collect();
                printer.operands(&rest);
            }
            Item::OperandsWithCommas => {
                let rest: Vec<_> = operands.by_ref().collect();
                printer.operands(&rest);
                printer.out.push(',');
            }
            Item::Attribute(attribute, kind) => {
                write_attribute(printer, operation, attribute, *kind, &mut written)?;
            }
            Item::OptionalBegin => {
                let present = form[at..].iter().find_map(|item| match item {
                    Item::Attribute(name, _) => Some(operation.attribute(name).is_some()),
                    _ => None,
                });
                if present != Some(true) {
                    let end = form[at..].iter().position(|i| *i == Item::OptionalEnd)?;
                    at += end + 1;
                }
            }
            Item::OptionalEnd => {}
            Item::Dictionary => {
                let rest = others(operation, &written);
                printer.dictionary(&rest);
            }
            Item::Types(kind) => write_types(printer, operation, *kind)?,
            Item::Literal(":") if operation.operands.is_empty() && is_barrier(operation) => {
                printer.out.push_str("()");
            }
            Item::Literal(text) => printer.out.push_str(text),
        }
    }
    operands.next().is_none().then_some(())
}

fn is_barrier(operation: &Operation) -> bool {
    &*operation.name == "stablehlo.optimization_barrier"
}

fn write_attribute<'f>(
    printer: &mut Printer<'_>,
    operation: &Operation,
    name: &'f str,
    kind: Kind,
    written: &mut Vec<&'f str>,
) -> Option<()> {
    let value = operation.attribute(name);
    written.push(name);
    let out = &mut printer.out;
    match kind {
        Kind::Integer => {
            let _ = write!(out, "{}", value?.as_integer()?);
        }
        Kind::Float => match value? {
            Attribute::Float {
                bits,
                ty: Type::Float(kind),
            } => attributes::float(*bits, *kind, out),
            _ => return None,
        },
        Kind::Any => attributes::write(value?, out),
        Kind::Bool => {
            let _ = write!(out, "{}", value?.as_bool()?);
        }
        Kind::Integers => attributes::integers(&value?.as_integers()?, out),
        Kind::String => attributes::string(value?.as_str()?, out),
        Kind::SymbolString => attributes::symbol(value?.as_str()?, out),
        Kind::Case(_) => {
            // Directions and the like follow the operation's name directly.
            out.push_str(value?.as_case()?);
        }
        Kind::Convolution => out.push_str(&attributes::convolution(value?.as_entries()?)?),
        Kind::Window => return write_window(printer, operation, written),
        Kind::DotDimensions => return write_dot_dimensions(printer, value?.as_entries()?),
        Kind::Precision => {
            let Some(value) = value else { return Some(()) };
            let cases: Option<Vec<&str>> =
                value.as_array()?.iter().map(Attribute::as_case).collect();
            let _ = write!(out, ", precision = [{}]", cases?.join(", "));
        }
        Kind::Algorithm => {
            let Some(value) = value else { return Some(()) };
            out.push_str(", algorithm = <");
            attributes::write_fields(value.as_entries()?, out);
            out.push('>');
        }
        Kind::ExponentMantissa => {
            written.push("mantissa_bits");
            let mantissa = operation.attribute("mantissa_bits")?.as_integer()?;
            let _ = write!(out, "e{}m{mantissa}", value?.as_integer()?);
        }
        Kind::SliceRanges => {
            written.extend(["limit_indices", "strides"]);
            let list = |name: &str| operation.attribute(name)?.as_integers();
            let starts = list("start_indices")?;
            let limits = list("limit_indices")?;
            let strides = list("strides")?;
            if starts.len() != limits.len() || starts.len() != strides.len() {
                return None;
            }
            let range = |place: usize| match strides[place] {
                1 => format!("{}:{}", starts[place], limits[place]),
                stride => format!("{}:{}:{stride}", starts[place], limits[place]),
            };
            let ranges: Vec<String> = (0..starts.len()).map(range).collect();
            let _ = write!(out, "[{}]", ranges.join(", "));
        }
    }
    Some(())
}

fn write_window(
    printer: &mut Printer<'_>,
    operation: &Operation,
    written: &mut Vec<&str>,
) -> Option<()> {
    let parts = [
        ("stride", "window_strides"),
        ("pad", "padding"),
        ("lhs_dilate", "lhs_dilation"),
        ("rhs_dilate", "rhs_dilation"),
        ("reverse", "window_reversal"),
    ];
    let mut texts = Vec::new();
    for (word, name) in parts {
        written.push(name);
        let Some(value) = operation.attribute(name) else {
            continue;
        };
        let values = value.as_integers()?;
        let text = match word {
            "pad" => {
                let pairs: Vec<String> = values.chunks(2).map(|pair| format!("{pair:?}")).collect();
                format!("[{}]", pairs.join(", "))
            }
            "reverse" => {
                let flags: Vec<bool> = values.iter().map(|value| *value != 0).collect();
                format!("{flags:?}")
            }
            _ => format!("{values:?}"),
        };
        texts.push(format!("{word} = {text}"));
    }
    printer.out.push_str(&texts.join(", "));
    Some(())
}

fn write_dot_dimensions(printer: &mut Printer<'_>, fields: &Attributes) -> Option<()> {
    let list = |name: String| {
        let found = fields.iter().find(|(key, _)| **key == *name);
        found.map_or(Some(Vec::new()), |(_, value)| value.as_integers())
    };
    let mut texts = Vec::new();
    for name in ["batching", "contracting"] {
        let lhs = list(format!("lhs_{name}_dimensions"))?;
        let rhs = list(format!("rhs_{name}_dimensions"))?;
        if name == "contracting" || !lhs.is_empty() || !rhs.is_empty() {
            texts.push(format!("{name}_dims = {lhs:?} x {rhs:?}"));
        }
    }
    printer.out.push_str(", ");
    // The comma after the operands is part of the form.
    let comma = printer.out.len() - 2;
    if printer.out[..comma].trim_end().ends_with(',') {
        printer.out.truncate(comma);
    }
    printer.out.push_str(&texts.join(", "));
    Some(())
}

fn write_types(printer: &mut Printer<'_>, operation: &Operation, kind: Types) -> Option<()> {
    let signature = printer.signature(operation);
    let FunctionType { inputs, results } = &signature;
    let out = &mut printer.out;
    let all_are = |ty: &Type| inputs.iter().all(|input| input == ty);
    match kind {
        Types::Same => match results.as_slice() {
            [result] if all_are(result) => types::write(result, out),
            _ => types::write_function(&signature, out),
        },
        Types::Function => types::write_function(&signature, out),
        Types::Results => types::list(results, out),
        Types::Select => match (inputs.as_slice(), results.as_slice()) {
            ([predicate, a, b], [result]) if a == result && b == result => {
                types::list(&[predicate.clone(), result.clone()], out);
            }
            _ => types::write_function(&signature, out),
        },
        Types::Complex => {
            let result = results.first()?;
            let part = result.as_tensor().and_then(|tensor| match &tensor.element {
                Type::Complex(part) => {
                    let mut parts = tensor.clone();
                    parts.element = Type::clone(part);
                    Some(Type::Tensor(Arc::new(parts)))
                }
                _ => None,
            });
            match part {
                Some(part) if all_are(&part) => types::write(result, out),
                _ => types::write_function(&signature, out),
            }
        }
        Types::Tuple => {
            let [result @ Type::Tuple(elements)] = results.as_slice() else {
                return None;
            };
            if elements.as_ref() != inputs.as_slice() {
                return None;
            }
            types::write(result, out);
        }
        Types::Pairwise => {
            let alike = results.is_empty() || inputs == results;
            if !alike {
                return None;
            }
            types::list(inputs, out);
        }
        Types::Arrow => {
            types::list(inputs, out);
            out.push_str(" -> ");
            match results.as_slice() {
                [result] => types::write(result, out),
                results => {
                    out.push('(');
                    types::list(results, out);
                    out.push(')');
                }
            }
        }
        Types::Operands => {
            if !inputs.is_empty() {
                out.push_str(" : ");
                types::list(inputs, out);
            }
        }
        Types::OneOperand => types::write(inputs.first()?, out),
        Types::Value => {}
    }
    Some(())
}

fn constant(printer: &mut Printer<'_>, operation: &Operation) -> Option<()> {
    let value = operation.attribute("value")?;
    let Attribute::Elements(elements) = value else {
        return None;
    };
    if operation.results.len() != 1 || printer.type_of(operation.results[0]) != &elements.ty {
        return None;
    }
    printer.out.push_str("stablehlo.constant");
    let rest = others(operation, &["value"]);
    printer.dictionary(&rest);
    printer.out.push(' ');
    attributes::write(value, &mut printer.out);
    Some(())
}

fn while_loop<'m>(printer: &mut Printer<'m>, operation: &'m Operation) -> Option<()> {
    let [condition, body] = operation.regions.as_slice() else {
        return None;
    };
    let (before, inside) = (condition.block()?, body.block()?);
    let count = operation.operands.len();
    let as_many = before.arguments.len() == count && inside.arguments.len() == count;
    if !as_many || count == 0 {
        return None;
    }
    printer.out.push_str("stablehlo.while(");
    printer.name_arguments(inside);
    printer.name_alike(&before.arguments, &inside.arguments);
    for (place, operand) in operation.operands.iter().enumerate() {
        if place > 0 {
            printer.out.push_str(", ");
        }
        printer.operands(&[inside.arguments[place]]);
        printer.out.push_str(" = ");
        printer.operands(&[*operand]);
    }
    printer.out.push_str(") : ");
    let signature = printer.signature(operation);
    types::list(&signature.inputs, &mut printer.out);
    let rest = others(operation, &[]);
    if !rest.is_empty() {
        printer.out.push_str(" attributes");
        printer.dictionary(&rest);
    }
    printer.continue_line();
    printer.out.push_str("cond ");
    printer.region(condition, false, false);
    printer.out.push_str(" do ");
    printer.region(body, false, false);
    Some(())
}

fn module<'m>(printer: &mut Printer<'m>, operation: &'m Operation) -> Option<()> {
    let region = operation.regions.first()?;
    region.block()?;
    printer.out.push_str("module");
    if let Some(name) = operation.attribute("sym_name").and_then(Attribute::as_str) {
        printer.out.push(' ');
        attributes::symbol(name, &mut printer.out);
    }
    let rest = others(operation, &["sym_name"]);
    if !rest.is_empty() {
        printer.out.push_str(" attributes");
        printer.dictionary(&rest);
    }
    printer.out.push(' ');
    printer.region(region, false, true);
    Some(())
}

fn function<'m>(printer: &mut Printer<'m>, operation: &'m Operation) -> Option<()> {
    let name = operation.attribute("sym_name")?.as_str()?;
    let Some(Attribute::Type(Type::Function(signature))) = operation.attribute("function_type")
    else {
        return None;
    };
    let body = operation
        .regions
        .first()
        .filter(|region| !region.blocks.is_empty());
    let block = match body {
        Some(region) => Some(region.block()?),
        None => None,
    };
    if block.is_some_and(|block| block.arguments.len() != signature.inputs.len()) {
        return None;
    }
    printer.out.push_str("func.func ");
    if let Some(visibility) = operation
        .attribute("sym_visibility")
        .and_then(Attribute::as_str)
    {
        let _ = write!(printer.out, "{visibility} ");
    }
    attributes::symbol(name, &mut printer.out);
    printer.out.push('(');
    let lists = |name: &str| operation.attribute(name).and_then(Attribute::as_array);
    let list_of = |lists: Option<&[Attribute]>, place: usize| {
        let list = lists.and_then(|lists| lists.get(place));
        list.and_then(Attribute::as_entries)
            .cloned()
            .unwrap_or_default()
    };
    for (place, ty) in signature.inputs.iter().enumerate() {
        if place > 0 {
            printer.out.push_str(", ");
        }
        if block.is_some() {
            let _ = write!(printer.out, "%arg{place}: ");
        }
        types::write(ty, &mut printer.out);
        let list = list_of(lists("arg_attrs"), place);
        printer.dictionary(&list);
    }
    printer.out.push(')');
    if !signature.results.is_empty() {
        printer.out.push_str(" -> (");
        for (place, ty) in signature.results.iter().enumerate() {
            if place > 0 {
                printer.out.push_str(", ");
            }
            types::write(ty, &mut printer.out);
            let list = list_of(lists("res_attrs"), place);
            printer.dictionary(&list);
        }
        printer.out.push(')');
    }
    let written = [
        "sym_name",
        "sym_visibility",
        "function_type",
        "arg_attrs",
        "res_attrs",
    ];
    let rest = others(operation, &written);
    if !rest.is_empty() {
        printer.out.push_str(" attributes");
        printer.dictionary(&rest);
    }
    if let Some(region) = body {
        printer.out.push(' ');
        printer.region(region, false, true);
    }
    Some(())
}
