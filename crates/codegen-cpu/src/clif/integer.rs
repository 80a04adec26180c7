//! The operations of the term language on 64-bit machine integers. Index terms of
//! kernels and sizes are emitted through these functions.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use tegula_expr::{Arithmetic, Cmp};

/// One operation. Results that do not fit 64 bits wrap. The caller must ensure that the divisor is
/// not zero, nor -1 with the smallest number as dividend.
pub(crate) fn arithmetic(
    builder: &mut FunctionBuilder<'_>,
    op: Arithmetic,
    a: Value,
    b: Value,
) -> Value {
    match op {
        Arithmetic::Add => builder.ins().iadd(a, b),
        Arithmetic::Sub => builder.ins().isub(a, b),
        Arithmetic::Mul => builder.ins().imul(a, b),
        Arithmetic::Min => builder.ins().smin(a, b),
        Arithmetic::Max => builder.ins().smax(a, b),
        Arithmetic::FloorDiv => rounded_quotient(builder, a, b, false),
        Arithmetic::CeilDiv => rounded_quotient(builder, a, b, true),
        Arithmetic::Mod => {
            let quotient = rounded_quotient(builder, a, b, false);
            let product = builder.ins().imul(quotient, b);
            builder.ins().isub(a, product)
        }
        Arithmetic::Cmp(op) => {
            let truth = compare(builder, op, a, b);
            builder.ins().uextend(types::I64, truth)
        }
    }
}

/// A comparison, as an i8.
pub(crate) fn compare(builder: &mut FunctionBuilder<'_>, op: Cmp, a: Value, b: Value) -> Value {
    let condition = match op {
        Cmp::Eq => IntCC::Equal,
        Cmp::Ne => IntCC::NotEqual,
        Cmp::Lt => IntCC::SignedLessThan,
        Cmp::Le => IntCC::SignedLessThanOrEqual,
    };
    builder.ins().icmp(condition, a, b)
}

/// Rounds the machine's truncated quotient: rounding down subtracts one if the remainder and the
/// divisor have opposite signs, rounding up adds one if they have the same sign.
fn rounded_quotient(builder: &mut FunctionBuilder<'_>, a: Value, b: Value, up: bool) -> Value {
    let quotient = builder.ins().sdiv(a, b);
    let product = builder.ins().imul(quotient, b);
    let remainder = builder.ins().isub(a, product);
    let signs = builder.ins().bxor(remainder, b);
    let wrong = match up {
        true => IntCC::SignedGreaterThanOrEqual,
        false => IntCC::SignedLessThan,
    };
    let signs_are = builder.ins().icmp_imm_s(wrong, signs, 0);
    let inexact = builder.ins().icmp_imm_s(IntCC::NotEqual, remainder, 0);
    let by_one = builder.ins().band(signs_are, inexact);
    let by_one = builder.ins().uextend(types::I64, by_one);
    match up {
        true => builder.ins().iadd(quotient, by_one),
        false => builder.ins().isub(quotient, by_one),
    }
}
