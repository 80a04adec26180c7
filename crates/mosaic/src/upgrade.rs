//! Converts kernels of older versions to the newest version.
//!
//! JAX writes a kernel's operations with the prefix `stable_mosaic.` and a version on the module,
//! so that compilers of other versions can read them. The versions differ (JAX's
//! `mosaic/dialect/tpu/transforms/serde.cc`) in the number of operands of some operations, and in
//! attributes that were added later and have a default.

use tegula_stablehlo::Error;
use tegula_stablehlo::mlir::{Attribute, Module, Operation, Type};

/// The newest supported version.
pub const NEWEST: i64 = 18;
/// The oldest supported version.
pub const OLDEST: i64 = 1;

const VERSION: &str = "stable_mosaic.version";
const PREFIX: &str = "stable_mosaic.";

/// Removes the prefix and applies the rules of every version after the module's. A module without a
/// version is not changed: it is text that somebody wrote or printed.
///
/// # Errors
/// The version is unknown, or an operation is not valid in its version.
pub(crate) fn upgrade(module: &mut Module) -> Result<(), Error> {
    let stated = module.operation.attribute(VERSION);
    let version = stated.and_then(Attribute::as_integer).unwrap_or(NEWEST);
    if !(OLDEST..=NEWEST).contains(&version) {
        return Err(Error::unsupported(format!(
            "version {version} of stable_mosaic is not supported: expected {OLDEST} to {NEWEST}"
        )));
    }
    for operation in module.body_mut().into_iter().flatten() {
        walk(operation, version)?;
    }
    Ok(())
}

fn walk(operation: &mut Operation, version: i64) -> Result<(), Error> {
    if let Some(name) = operation.name.strip_prefix(PREFIX) {
        operation.name = name.into();
    }
    rules(operation, version).map_err(|why| {
        Error::input(format!("`{}`: {why}", operation.name)).at_byte(operation.offset)
    })?;
    for region in &mut operation.regions {
        for inner in region.blocks.iter_mut().flat_map(|b| &mut b.operations) {
            walk(inner, version)?;
        }
    }
    Ok(())
}

fn set(operation: &mut Operation, name: &str, value: Attribute) {
    operation.properties.retain(|(key, _)| &**key != name);
    operation.attributes.retain(|(key, _)| &**key != name);
    operation.attributes.push((name.into(), value));
}

fn default(operation: &mut Operation, name: &str, value: Attribute) {
    if operation.attribute(name).is_none() {
        operation.attributes.push((name.into(), value));
    }
}

fn i32s(values: &[i64]) -> Attribute {
    Attribute::IntegerArray {
        element: Type::signless(32),
        values: values.into(),
    }
}

const SEGMENTS: &str = "operandSegmentSizes";

/// Sets the sizes of an operation's operand groups, if it has none, by the number of operands.
fn segments(
    operation: &mut Operation,
    by_count: &[(usize, &[i64])],
    length: usize,
) -> Result<(), String> {
    let stated = operation.attribute(SEGMENTS);
    let mut sizes = match stated {
        Some(sizes) => sizes
            .as_integers()
            .ok_or("its groups of operands are not a list")?,
        None => {
            let count = operation.operands.len();
            let found = by_count.iter().find(|(operands, _)| *operands == count);
            let (_, sizes) = found.ok_or_else(|| format!("{count} operands were not expected"))?;
            sizes.to_vec()
        }
    };
    if sizes.len() > length {
        return Err(format!(
            "expected groups for {} of operands, found {length}",
            sizes.len()
        ));
    }
    sizes.resize(length, 0);
    set(operation, SEGMENTS, i32s(&sizes));
    Ok(())
}

fn rules(operation: &mut Operation, version: i64) -> Result<(), String> {
    let no = Attribute::bool(false);
    match &*operation.name.clone() {
        "tpu.enqueue_dma" => {
            // Operand groups were added in version 2, the priority in 4, the subcore in 14.
            let by_count: [(usize, &[i64]); 2] =
                [(3, &[1, 0, 1, 1, 0, 0, 0]), (5, &[1, 1, 1, 1, 1, 0, 0])];
            segments(operation, &by_count, 7)?;
            default(operation, "priority", i32_number(0));
            default(operation, "strict_ordering", no);
        }
        "tpu.wait_dma" => {
            // Versions before 14 have no subcore; in version 1 the operands are a semaphore and a
            // destination.
            if version < 3 && operation.operands.len() == 2 {
                return Err("a wait without a source needs a version before 3".to_owned());
            }
            segments(operation, &[(3, &[1, 0, 1, 1, 0, 0, 0])], 7)?;
            default(operation, "wait_target", Attribute::bool(true));
        }
        "tpu.wait_dma2" => segments(operation, &[(3, &[1, 1, 1, 0, 0])], 5)?,
        "tpu.sem_signal" => {
            let by_count: [(usize, &[i64]); 2] = [(2, &[1, 1, 0, 0, 0]), (3, &[1, 1, 1, 0, 0])];
            segments(operation, &by_count, 5)?;
        }
        "tpu.dynamic_gather" | "tpu.iota" => {
            // Before version 5 or 6, depending on the operation, there is only one dimension.
            if let Some(dimension) = operation.attribute("dimension").cloned() {
                let dimension = dimension
                    .as_integer()
                    .ok_or("its dimension is not a number")?;
                operation
                    .attributes
                    .retain(|(key, _)| &**key != "dimension");
                operation
                    .properties
                    .retain(|(key, _)| &**key != "dimension");
                set(operation, "dimensions", i32s(&[dimension]));
            }
        }
        "tpu.store" | "tpu.vector_store" => default(operation, "add", no),
        "tpu.matmul" => default(operation, "transpose_lhs_hint", no),
        "tpu.reinterpret_cast" => segments(operation, &[(1, &[1, 0, 0])], 3)?,
        _ => {}
    }
    Ok(())
}

fn i32_number(value: i64) -> Attribute {
    Attribute::Integer {
        value,
        ty: Type::signless(32),
    }
}
