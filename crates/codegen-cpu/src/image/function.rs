//! One function of an image, built from its parameters' values.

use super::{FunctionId, ImageBuilder};
use crate::error::Error;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// Defines a function of these types. `emit` gets the values of its parameters, and returns the
/// function's results.
///
/// # Errors
/// Those of `emit`, and of Cranelift.
pub(crate) fn define(
    image: &mut ImageBuilder,
    (params, returns): (&[Type], &[Type]),
    emit: impl FnOnce(
        &mut ImageBuilder,
        &mut FunctionBuilder<'_>,
        &[Value],
    ) -> Result<Option<Value>, Error>,
) -> Result<FunctionId, Error> {
    let id = image.declare();
    let mut context = Context::new();
    context.func.signature = image.signature(params, returns);
    let mut functions = FunctionBuilderContext::new();
    let config = image.config();
    let mut builder = FunctionBuilder::new(&mut context.func, &mut functions);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let given = builder.block_params(entry).to_vec();
    let result = emit(image, &mut builder, &given)?;
    builder.ins().return_(result.as_slice());
    builder.seal_all_blocks();
    builder.finalize(config);
    image.define(id, &mut context)?;
    Ok(id)
}
