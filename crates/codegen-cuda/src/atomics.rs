//! Atomic operations of CUDA.

use tegula_ir::{Binary, ElementType};

/// The CUDA atomic function for an operation whose order does not matter; `None` if
/// there is none for this type.
pub(crate) fn atomic_name(op: Binary, ty: ElementType) -> Option<&'static str> {
    let fits = ty.is_integer() && matches!(ty.bits(), 32 | 64);
    Some(match op {
        _ if !fits => return None,
        Binary::Add => "atomicAdd",
        Binary::Maximum => "atomicMax",
        Binary::Minimum => "atomicMin",
        Binary::And => "atomicAnd",
        Binary::Or => "atomicOr",
        Binary::Xor => "atomicXor",
        _ => return None,
    })
}
