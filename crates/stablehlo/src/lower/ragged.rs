//! Lowers `chlo.ragged_dot` to HLO's `ragged-dot`.

use super::{Frame, Lowerer, access::Access};
use crate::Error;
use tegula_ir::{DotDims, Op};

const NUMBERS: &str = "ragged_dot_dimension_numbers";

impl<'m> Lowerer<'m> {
    pub(super) fn ragged_dot(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let op = Op::RaggedDot {
            dims: DotDims {
                lhs_batch: access.field(NUMBERS, "lhs_batching_dimensions")?,
                rhs_batch: access.field(NUMBERS, "rhs_batching_dimensions")?,
                lhs_contracting: access.field(NUMBERS, "lhs_contracting_dimensions")?,
                rhs_contracting: access.field(NUMBERS, "rhs_contracting_dimensions")?,
            },
            precision: access.precision()?,
            lhs_ragged_dims: access.field(NUMBERS, "lhs_ragged_dimensions")?,
            rhs_group_dims: access.field(NUMBERS, "rhs_group_dimensions")?,
        };
        self.push_result(access, frame, op, &operands, None)
    }
}
