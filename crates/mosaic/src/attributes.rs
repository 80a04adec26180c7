//! The values of the kernel dialects' attributes, parsed from the text in which MLIR stores them.

use crate::ir::DotDims;
use tegula_stablehlo::attribute_text;
use tegula_stablehlo::mlir::{Attribute, Operation};

/// The text between the brackets of `#dialect.name<...>`, if the attribute has this form and name.
pub(crate) fn bracketed(attribute: &Attribute, name: &str) -> Option<String> {
    let text = attribute_text(attribute);
    let rest = text.strip_prefix('#')?.strip_prefix(name)?;
    let inner = rest.strip_prefix('<')?.strip_suffix('>')?;
    Some(inner.trim().to_owned())
}

/// The integer value of an attribute.
pub(crate) fn integer(operation: &Operation, name: &str) -> Option<i64> {
    operation.attribute(name)?.as_integer()
}

/// The boolean value of an attribute; false if it is missing.
pub(crate) fn flag(operation: &Operation, name: &str) -> bool {
    integer(operation, name).is_some_and(|value| value != 0)
}

/// The integers of an attribute, in any of its forms; `None` if it is missing.
pub(crate) fn integers(operation: &Operation, name: &str) -> Option<Vec<i64>> {
    operation.attribute(name)?.as_integers()
}

/// Parses lists of integers in brackets, separated by commas: `[1], [0], [0, 0, 1, 1]`.
pub(crate) fn lists(text: &str) -> Option<Vec<Vec<i64>>> {
    let mut lists = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (inner, after) = rest.strip_prefix('[')?.split_once(']')?;
        let numbers = inner.split(',').map(str::trim).filter(|n| !n.is_empty());
        lists.push(numbers.map(|n| n.parse().ok()).collect::<Option<_>>()?);
        rest = after.trim().trim_start_matches(',').trim();
    }
    Some(lists)
}

/// Parses `#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>`: the contracting
/// and the other dimensions of both operands, the result's dimensions as pairs, and the batch
/// dimensions.
pub(crate) fn dot_dimensions(attribute: &Attribute) -> Option<DotDims> {
    let lists = lists(&bracketed(attribute, "tpu.dot_dimension_numbers")?)?;
    let [
        lhs_contracting,
        rhs_contracting,
        _,
        _,
        output,
        lhs_batch,
        rhs_batch,
    ] = <[Vec<i64>; 7]>::try_from(lists).ok()?;
    let pairs = output.chunks(2).map(|pair| match pair {
        &[operand, dim] => Some((operand, dim)),
        _ => None,
    });
    Some(DotDims {
        lhs_contracting,
        rhs_contracting,
        lhs_batch,
        rhs_batch,
        output: pairs.collect::<Option<_>>()?,
    })
}
