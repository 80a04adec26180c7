//! The last steps of reading a program: inference of symbolic dimensions and verification.

use crate::Error;
use tegula_ir::Module;

/// Relates a program's open sizes to each other, with some of them fixed, and verifies the result.
pub(crate) fn relate_sizes(mut module: Module, sizes: &[(&str, i64)]) -> Result<Module, Error> {
    if !module.symbols.is_empty() || !sizes.is_empty() {
        tracing::info_span!("infer symbolic dimensions").in_scope(|| {
            tegula_ir::infer_symbolic_dims(&mut module, sizes)?;
            tegula_indexing::equality::discharge_guards(&mut module)
        })?;
        verify(&module)?;
    }
    Ok(module)
}

/// Verifies a program.
pub(crate) fn verify(module: &Module) -> Result<(), Error> {
    tracing::info_span!("verify")
        .in_scope(|| tegula_ir::verify(module))
        .map_err(Error::from)
}
