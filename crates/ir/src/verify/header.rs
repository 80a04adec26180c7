//! Checks what the header states about the entry computation.

use super::shapes::check as check_shape;
use crate::{Error, Module, Shape};

/// Checks the entry layout, the aliases and the donations.
pub(super) fn check(module: &Module, errors: &mut Vec<Error>) {
    let entry = module.entry_computation();
    let place = crate::Span::default();
    let mut report = |message: String| errors.push(Error::input(message).at(&module.source, place));
    let parameters: Vec<&Shape> = entry
        .parameters
        .iter()
        .map(|&id| &module.instructions[id].shape)
        .collect();
    let result = &module.instructions[entry.root].shape;
    if let Some((stated, stated_result)) = &module.attributes.entry_layout {
        let agree = stated.len() == parameters.len()
            && stated
                .iter()
                .zip(&parameters)
                .all(|(stated, found)| stated.may_equal(found))
            && stated_result.may_equal(result);
        if !agree {
            report("entry_computation_layout does not fit the entry computation".to_owned());
        }
        for shape in stated.iter().chain([stated_result]) {
            if let Err(error) = check_shape(module, shape) {
                report(format!("entry_computation_layout: {}", error.message()));
            }
        }
    }
    let mut aliased = Vec::new();
    for alias in &module.attributes.input_output_alias {
        let from = usize::try_from(alias.parameter)
            .ok()
            .and_then(|number| parameters.get(number));
        let from = from.and_then(|shape| place_in(shape, &alias.parameter_index));
        let to = place_in(result, &alias.output_index);
        match (from, to) {
            (Some(from), Some(to)) if from.may_equal(to) => {}
            (Some(from), Some(to)) => {
                report(format!("input_output_alias: {from:#} cannot become {to:#}"));
            }
            _ => report(
                "input_output_alias names a parameter or an output that does not exist".to_owned(),
            ),
        }
        if aliased.contains(&&alias.output_index) {
            report("input_output_alias names an output twice".to_owned());
        }
        aliased.push(&alias.output_index);
    }
    for (number, index) in &module.attributes.buffer_donor {
        let shape = usize::try_from(*number)
            .ok()
            .and_then(|number| parameters.get(number));
        if shape.and_then(|shape| place_in(shape, index)).is_none() {
            report("buffer_donor names a parameter that does not exist".to_owned());
        }
    }
}

/// The part of a shape at an index into nested tuples.
fn place_in<'a>(shape: &'a Shape, index: &[i64]) -> Option<&'a Shape> {
    index.iter().try_fold(shape, |shape, &element| {
        shape.as_tuple()?.get(usize::try_from(element).ok()?)
    })
}
