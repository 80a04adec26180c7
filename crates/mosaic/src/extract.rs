//! Extracts kernels from programs: the calls of `tpu_custom_call` in StableHLO.
//!
//! JAX encodes a kernel's bytecode in base64 in a JSON object, the call's configuration; the source
//! locations of its operations are stored next to it, as separate bytecode.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use tegula_stablehlo::mlir::{Attribute, Module, Operation, Type};
use tegula_stablehlo::{Bytes, Error};

/// The target's name of the custom call.
const TARGET: &str = "tpu_custom_call";

/// A call of a kernel in a program.
#[derive(Clone, Debug)]
pub struct Call {
    /// The kernel's name in the call; empty if the call states none.
    pub name: String,
    /// The kernel's module: bytecode or text.
    pub body: Bytes,
    /// The source locations of its operations, if they are stored separately from the kernel.
    pub locations: Option<Bytes>,
    /// The number of the call's operands.
    pub operands: usize,
    /// The number of its results.
    pub results: usize,
    /// For each result, the operand that it shares its memory with.
    pub aliases: Vec<Option<usize>>,
    /// The limit of the kernel's VMEM in bytes, if the call states one.
    pub vmem_limit: Option<i64>,
    /// The types of the operands in the call, for messages.
    pub operand_types: Vec<Type>,
    /// The types of its results.
    pub result_types: Vec<Type>,
}

/// The calls of kernels in a program, in order.
///
/// # Errors
/// A call's configuration does not have JAX's form.
pub fn calls(module: &Module) -> Result<Vec<Call>, Error> {
    let mut found = Vec::new();
    visit(module, &module.operation, &mut found)?;
    Ok(found)
}

fn visit(module: &Module, operation: &Operation, found: &mut Vec<Call>) -> Result<(), Error> {
    let target = operation.attribute("call_target_name");
    let target = target.and_then(|t| t.as_str().or_else(|| t.as_symbol()));
    if operation.name.ends_with(".custom_call") && target == Some(TARGET) {
        found.push(call(module, operation).map_err(|error| error.at_byte(operation.offset))?);
    }
    for region in &operation.regions {
        for inner in region.blocks.iter().flat_map(|block| &block.operations) {
            visit(module, inner, found)?;
        }
    }
    Ok(())
}

fn call(module: &Module, operation: &Operation) -> Result<Call, Error> {
    let config = operation.attribute("backend_config").or_else(|| {
        // The attribute of older versions of the call's interface.
        operation.attribute("mhlo.backend_config")
    });
    let config = config.and_then(Attribute::as_str);
    let config = config.ok_or_else(|| Error::input("`tpu_custom_call` has no configuration"))?;
    let config: Json = serde_json::from_str(config).map_err(|error| {
        Error::input(format!(
            "the configuration of `tpu_custom_call` is not valid JSON: {error}"
        ))
    })?;
    let inner = config.get("custom_call_config").unwrap_or(&config);
    let body = bytes(inner, "body")?.ok_or_else(|| {
        Error::input("the configuration of `tpu_custom_call` has no `body`, the kernel's bytecode")
    })?;
    let name = operation
        .attribute("kernel_name")
        .and_then(Attribute::as_str);
    let type_of = |&value: &_| module.type_of(value).clone();
    let mut result_types: Vec<Type> = operation.results.iter().map(type_of).collect();
    if let [Type::Tuple(types)] = result_types.as_slice() {
        result_types = types.to_vec();
    }
    let mut aliases = vec![None; result_types.len()];
    for alias in operation
        .attribute("output_operand_aliases")
        .and_then(Attribute::as_array)
        .unwrap_or_default()
    {
        let field = |name: &str| {
            let fields = alias.as_entries()?;
            fields
                .iter()
                .find(|(key, _)| &**key == name)?
                .1
                .as_integers()
        };
        let result = field("output_tuple_indices").unwrap_or_default();
        let result = result.first().copied().unwrap_or(0);
        let operand = field("operand_index").and_then(|list| list.first().copied());
        let slot = usize::try_from(result)
            .ok()
            .and_then(|at| aliases.get_mut(at));
        let operand = operand.and_then(|operand| usize::try_from(operand).ok());
        match (slot, operand) {
            (Some(slot), Some(operand)) if operand < operation.operands.len() => {
                *slot = Some(operand);
            }
            _ => {
                return Err(Error::input(
                    "an alias names an operand or a result that does not exist",
                ));
            }
        }
    }
    Ok(Call {
        name: name.unwrap_or_default().to_owned(),
        body,
        locations: bytes(inner, "debug_locations")?,
        operands: operation.operands.len(),
        results: result_types.len(),
        aliases,
        vmem_limit: vmem_limit(&config),
        operand_types: operation.operands.iter().map(type_of).collect(),
        result_types,
    })
}

fn bytes(config: &Json, field: &str) -> Result<Option<Bytes>, Error> {
    let Some(text) = config.get(field).and_then(Json::as_str) else {
        return Ok(None);
    };
    let decoded = STANDARD.decode(text).map_err(|error| {
        Error::input(format!(
            "`{field}` of a kernel's configuration is not valid base64: {error}"
        ))
    })?;
    Ok(Some(decoded.into()))
}

/// `scoped_memory_configs` states limits by memory space, of which 1 is VMEM.
fn vmem_limit(config: &Json) -> Option<i64> {
    const VMEM: i64 = 1;
    let number = |value: &Json| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    let limits = config.get("scoped_memory_configs")?.as_array()?;
    limits.iter().find_map(|limit| {
        let space = limit.get("memory_space").and_then(number)?;
        let size = limit.get("size").and_then(number)?;
        (space == VMEM && size > 0).then_some(size)
    })
}
