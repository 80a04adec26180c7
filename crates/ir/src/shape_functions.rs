//! .
use crate::{Error, Module, Op, Shape};

/// .
pub fn infer_shape(_module: &Module, op: &Op, _operands: &[&Shape]) -> Result<Shape, Error> {
    Err(Error::input(format!(
        "the shape of `{}` must be written",
        op.opcode()
    )))
}
