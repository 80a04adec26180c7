//! Source locations that are stored separately from a kernel.
//!
//! They are MLIR bytecode, in one of two forms: a module with as many operations as the kernel,
//! whose locations belong to the kernel's operations in the same order; or one whose attributes
//! list them. Anything else is ignored, because locations are used only in messages.

use std::sync::Arc;
use tegula_stablehlo::mlir::{Attribute, Location, Module, Operation};
use tegula_stablehlo::{Bytes, bytecode};

/// Sets the locations of a module's operations from a blob.
pub(crate) fn apply(module: &mut Module, blob: &Bytes) {
    let Ok(places) = bytecode::read(blob) else {
        return;
    };
    let mut found = Vec::new();
    collect(&places.operation, &mut found);
    let mut listed = Vec::new();
    in_attributes(&places.operation, &mut listed);
    let count = count(&module.operation);
    let places = [listed, found].into_iter().find(|list| {
        // The list may or may not include the module itself.
        list.len() == count || list.len() + 1 == count
    });
    if let Some(places) = places {
        let skipped = count - places.len();
        let mut places = places.into_iter();
        assign(&mut module.operation, &mut places, skipped);
    }
}

fn count(operation: &Operation) -> usize {
    let inner = operation.regions.iter().flat_map(|region| &region.blocks);
    1 + inner
        .flat_map(|block| &block.operations)
        .map(count)
        .sum::<usize>()
}

fn collect(operation: &Operation, found: &mut Vec<Arc<Location>>) {
    found.push(Arc::clone(&operation.location));
    let inner = operation.regions.iter().flat_map(|region| &region.blocks);
    for inner in inner.flat_map(|block| &block.operations) {
        collect(inner, found);
    }
}

fn in_attributes(operation: &Operation, found: &mut Vec<Arc<Location>>) {
    fn of(attribute: &Attribute, found: &mut Vec<Arc<Location>>) {
        match attribute {
            Attribute::Location(location) => found.push(Arc::clone(location)),
            Attribute::Array(parts) => parts.iter().for_each(|part| of(part, found)),
            _ => {}
        }
    }
    let attributes = operation.properties.iter().chain(&operation.attributes);
    attributes.for_each(|(_, attribute)| of(attribute, found));
    let inner = operation.regions.iter().flat_map(|region| &region.blocks);
    for inner in inner.flat_map(|block| &block.operations) {
        in_attributes(inner, found);
    }
}

fn assign(
    operation: &mut Operation,
    places: &mut impl Iterator<Item = Arc<Location>>,
    skipped: usize,
) {
    if skipped == 0
        && let Some(place) = places.next()
    {
        operation.location = place;
    }
    let inner = operation
        .regions
        .iter_mut()
        .flat_map(|region| &mut region.blocks);
    for inner in inner.flat_map(|block| &mut block.operations) {
        assign(inner, places, 0);
    }
}
