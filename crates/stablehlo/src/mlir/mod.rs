//! MLIR as data: operations with attributes, types and regions, of any dialect.
//!
//! Both readers ([`crate::bytecode`] and [`crate::text`]) return a [`Module`], and the printer
//! takes one. This module does not interpret operations.

mod attribute;
mod bytes;
mod elements;
mod location;
mod operation;
mod types;

pub use attribute::{Attribute, Attributes};
pub use bytes::Bytes;
pub(crate) use bytes::text_of_bytes;
pub use elements::Elements;
pub(crate) use location::LEVELS_OF_A_PLACE;
pub use location::Location;
pub use operation::{Block, Module, Operation, Region, Value, ValueId};
pub use types::{FloatKind, FunctionType, MemRefType, Signedness, TensorType, Type, VectorType};
