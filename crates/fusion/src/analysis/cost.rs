//! The cost of scalar operations, measured in additions.

use crate::kernel::ScalarOp;
use tegula_ir::{Binary, Unary};

pub(crate) fn unary_cost(op: Unary) -> u8 {
    match op {
        Unary::Abs
        | Unary::Ceil
        | Unary::Floor
        | Unary::Imag
        | Unary::IsFinite
        | Unary::Negate
        | Unary::Not
        | Unary::Real
        | Unary::RoundNearestEven
        | Unary::Sign
        | Unary::CountLeadingZeros
        | Unary::Popcnt => 1,
        _ => 2,
    }
}

/// Whether a scalar float operation compiles to a function call when it is not vectorised.
pub(crate) fn is_call(op: &ScalarOp) -> bool {
    match op {
        ScalarOp::Unary(Unary::Sqrt | Unary::Rsqrt) => false,
        ScalarOp::Unary(op) => unary_cost(*op) > 1,
        ScalarOp::Binary(op) => matches!(op, Binary::Power | Binary::Atan2),
        _ => false,
    }
}
