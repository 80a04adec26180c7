//! How many operands each operation takes.

use crate::{Error, Op, Opcode};

/// The smallest and the largest number of operands of an operation; `usize::MAX` means no limit.
pub(crate) fn arity(op: &Op) -> (usize, usize) {
    const ANY: usize = usize::MAX;
    match op {
        Op::Parameter(_)
        | Op::Constant(_)
        | Op::Iota(_)
        | Op::ReplicaId
        | Op::PartitionId
        | Op::RngGetAndUpdateState(_) => (0, 0),
        Op::Unary(_)
        | Op::Convert
        | Op::BitcastConvert
        | Op::ReducePrecision { .. }
        | Op::Broadcast(_)
        | Op::Reshape
        | Op::Bitcast
        | Op::Transpose(_)
        | Op::Reverse(_)
        | Op::Slice(_)
        | Op::Copy
        | Op::CopyStart { .. }
        | Op::CopyDone
        | Op::TopK { .. }
        | Op::Fft { .. }
        | Op::Cholesky { .. }
        | Op::RngBitGenerator(_)
        | Op::GetTupleElement(_)
        | Op::While { .. }
        | Op::Domain(_)
        | Op::GetDimensionSize(_)
        | Op::AsyncUpdate
        | Op::AsyncDone
        | Op::CollectiveDone(_) => (1, 1),
        Op::Binary(_)
        | Op::Compare { .. }
        | Op::StochasticConvert
        | Op::Pad(_)
        | Op::Dot { .. }
        | Op::Convolution { .. }
        | Op::TriangularSolve { .. }
        | Op::SetDimensionSize(_)
        | Op::AddDependency => (2, 2),
        Op::Gather { .. } => (2, 2),
        Op::Select
        | Op::Clamp
        | Op::SelectAndScatter { .. }
        | Op::BatchNormTraining { .. }
        | Op::RaggedDot { .. } => (3, 3),
        Op::ScaledDot { .. } => (4, 4),
        Op::BatchNormInference { .. } | Op::BatchNormGrad { .. } => (5, 5),
        Op::RaggedAllToAll(_) => (6, 6),
        Op::DynamicSlice(_) | Op::DynamicReshape | Op::OptBarrier => (1, ANY),
        Op::DynamicUpdateSlice => (2, ANY),
        Op::Concatenate(_) | Op::Map { .. } | Op::Sort { .. } => (1, ANY),
        Op::Reduce { .. } | Op::ReduceWindow { .. } => (2, ANY),
        Op::Scatter { .. } => (3, ANY),
        Op::Conditional { branches, .. } => (branches.len() + 1, branches.len() + 1),
        Op::Rng(_) => (2, 2),
        // A token is optional in older programs.
        Op::Infeed(_) => (0, 1),
        Op::Outfeed { .. } => (1, 2),
        Op::Channel { opcode, .. } => match opcode {
            Opcode::Send => (2, 2),
            _ => (1, 1),
        },
        Op::AllGather { .. }
        | Op::AllReduce { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectiveBroadcast(_)
        | Op::CollectivePermute { .. } => (1, ANY),
        Op::Scan { .. } => (1, ANY),
        Op::Tuple
        | Op::Call { .. }
        | Op::Fusion { .. }
        | Op::CustomCall(_)
        | Op::AfterAll
        | Op::AsyncStart { .. } => (0, ANY),
    }
}

/// Checks the number of operands.
pub(crate) fn check(op: &Op, count: usize) -> Result<(), Error> {
    let (least, most) = arity(op);
    let pairs = matches!(op, Op::Reduce { .. } | Op::ReduceWindow { .. });
    let expected = match (least, most) {
        _ if (least..=most).contains(&count) && !(pairs && count % 2 == 1) => return Ok(()),
        _ if pairs => "as many initial values as inputs".to_owned(),
        (1, 1) => "1 operand".to_owned(),
        (least, most) if least == most => format!("{least} operands"),
        (least, usize::MAX) => format!("{least} operands or more"),
        (least, most) => format!("{least} to {most} operands"),
    };
    let message = format!("`{}` takes {expected}, found {count}", op.opcode());
    Err(Error::input(message))
}
