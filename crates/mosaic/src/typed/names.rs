//! Operations that are fully described by their name.

use crate::ir::{Binary, Cast, Op, Unary};

/// The operation with this name, if it has no relevant attributes.
pub(super) fn plain(name: &str) -> Option<Op> {
    unary(name)
        .map(Op::Unary)
        .or_else(|| binary(name).map(Op::Binary))
        .or_else(|| cast(name).map(Op::Cast))
        .or_else(|| other(name))
}

fn unary(name: &str) -> Option<Unary> {
    Some(match name {
        "math.absf" => Unary::Abs,
        "math.absi" => Unary::AbsInt,
        "math.acos" => Unary::Acos,
        "math.asin" => Unary::Asin,
        "math.atan" => Unary::Atan,
        "math.cbrt" => Unary::Cbrt,
        "math.ceil" => Unary::Ceil,
        "math.ctlz" => Unary::CountLeadingZeros,
        "math.cos" => Unary::Cos,
        "math.cosh" => Unary::Cosh,
        "math.erf" => Unary::Erf,
        "math.exp" => Unary::Exp,
        "math.exp2" => Unary::Exp2,
        "math.expm1" => Unary::Expm1,
        "math.floor" => Unary::Floor,
        "math.isfinite" => Unary::IsFinite,
        "tpu.weird" => Unary::IsNotFinite,
        "math.isinf" => Unary::IsInfinite,
        "math.isnan" => Unary::IsNan,
        "math.log" => Unary::Log,
        "math.log1p" => Unary::Log1p,
        "math.log2" => Unary::Log2,
        "tpu.logistic" => Unary::Logistic,
        "arith.negf" => Unary::Negate,
        "math.ctpop" => Unary::PopulationCount,
        "tpu.reciprocal" => Unary::Reciprocal,
        "math.round" => Unary::Round,
        "math.roundeven" => Unary::RoundEven,
        "math.rsqrt" => Unary::Rsqrt,
        "math.sin" => Unary::Sin,
        "math.sinh" => Unary::Sinh,
        "math.sqrt" => Unary::Sqrt,
        "math.tan" => Unary::Tan,
        "math.tanh" => Unary::Tanh,
        "math.trunc" => Unary::Trunc,
        _ => return None,
    })
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        "arith.addi" => Binary::AddInt,
        "arith.subi" => Binary::SubInt,
        "arith.muli" => Binary::MulInt,
        "arith.divsi" => Binary::DivSigned,
        "arith.divui" => Binary::DivUnsigned,
        "arith.remsi" => Binary::RemSigned,
        "arith.remui" => Binary::RemUnsigned,
        "arith.ceildivsi" => Binary::CeilDivSigned,
        "arith.floordivsi" => Binary::FloorDivSigned,
        "arith.maxsi" => Binary::MaxSigned,
        "arith.minsi" => Binary::MinSigned,
        "arith.maxui" => Binary::MaxUnsigned,
        "arith.minui" => Binary::MinUnsigned,
        "arith.andi" => Binary::And,
        "arith.ori" => Binary::Or,
        "arith.xori" => Binary::Xor,
        "arith.shli" => Binary::ShiftLeft,
        "arith.shrsi" => Binary::ShiftRightSigned,
        "arith.shrui" => Binary::ShiftRightUnsigned,
        "arith.addf" => Binary::Add,
        "arith.subf" => Binary::Sub,
        "arith.mulf" => Binary::Mul,
        "arith.divf" => Binary::Div,
        "arith.remf" => Binary::Rem,
        "arith.maximumf" => Binary::Maximum,
        "arith.minimumf" => Binary::Minimum,
        "arith.maxnumf" => Binary::MaxNum,
        "arith.minnumf" => Binary::MinNum,
        "math.powf" => Binary::Pow,
        "math.atan2" => Binary::Atan2,
        "math.copysign" => Binary::CopySign,
        _ => return None,
    })
}

fn cast(name: &str) -> Option<Cast> {
    Some(match name {
        "arith.index_cast" | "arith.extsi" => Cast::Signed,
        "arith.extui" | "arith.index_castui" => Cast::Unsigned,
        "arith.trunci" => Cast::Truncate,
        "arith.extf" | "arith.truncf" | "tpu.extf" => Cast::Float,
        "arith.sitofp" => Cast::FromSigned,
        "arith.uitofp" => Cast::FromUnsigned,
        "arith.fptosi" => Cast::ToSigned,
        "arith.fptoui" => Cast::ToUnsigned,
        "arith.bitcast" => Cast::Bits,
        "tpu.mask_cast" => Cast::Mask,
        _ => return None,
    })
}

fn other(name: &str) -> Option<Op> {
    Some(match name {
        "arith.select" => Op::Select,
        "math.fma" | "vector.fma" => Op::MultiplyAdd,
        "vector.broadcast" | "vector.splat" => Op::Broadcast,
        "vector.shape_cast" | "tpu.reshape" => Op::Reshape,
        "tpu.bitcast" | "vector.bitcast" | "tpu.bitcast_vreg" => Op::BitcastVector,
        "memref.load" => Op::LoadScalar,
        "memref.store" => Op::StoreScalar,
        "tpu.memref_squeeze" => Op::MemRefSqueeze,
        "tpu.memref_reshape" => Op::MemRefReshape,
        "tpu.memref_bitcast" => Op::MemRefBitcast,
        "tpu.erase_memref_layout" | "tpu.assume_layout" | "memref.cast" => Op::MemRefCast,
        "memref.alloca" | "tpu.sem_alloc" => Op::Alloc,
        "tpu.sem_wait" => Op::Wait,
        "tpu.sem_read" => Op::ReadSemaphore,
        "tpu.sem_barrier" => Op::BarrierSemaphore,
        "tpu.device_id" => Op::DeviceId,
        "tpu.core_id" => Op::CoreId,
        "tpu.delay" => Op::Delay,
        "tpu.trace_start" | "tpu.trace_stop" | "tpu.trace_value" => Op::Trace,
        "tpu.prng_set_seed_32" => Op::SeedRandom,
        "tpu.prng_random_bits" => Op::RandomBits,
        "tpu.stochastic_convert" => Op::StochasticConvert,
        "scf.if" => Op::If,
        "scf.for" => Op::For,
        "scf.while" => Op::While,
        "scf.condition" => Op::Condition,
        "tpu.region" | "tpu.trace" => Op::Region,
        "scf.yield" | "tpu.yield" => Op::Yield,
        "func.return" => Op::Return,
        _ => return None,
    })
}
