//! Copies of small arrays with permuted dimensions, made when a kernel's function begins: the code
//! generation for [`pack_operand`](crate::transform::pack_operand).

use super::counted_loop::CountedLoop;
use super::types::integer_type;
use crate::abi::LINE_SHIFT;
use crate::error::Error;
use crate::transform::pack_operand::{PackedOperand, array_size};
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use tegula_expr::Term;
use tegula_fusion::kernel::Param;

/// Copies the array at address `from` to the stack; returns the copy's address. `param` has the
/// copy's dimensions.
pub(crate) fn copy_operand(
    packed: &PackedOperand,
    builder: &mut FunctionBuilder<'_>,
    param: &Param,
    from: Value,
) -> Result<Value, Error> {
    let bug =
        || Error::Bug("a packed operand must have a static shape that fits the stack".to_owned());
    let (elements, bytes) = array_size(param).ok_or_else(bug)?;
    let total = u32::try_from(elements * bytes).map_err(|_| bug())?;
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, total, LINE_SHIFT);
    let slot = builder.create_sized_stack_slot(slot);
    let to = builder.ins().stack_addr(types::I64, slot, 0);
    let dims: Option<Vec<i64>> = param.dims.iter().map(Term::as_constant).collect();
    let dims = dims.ok_or_else(bug)?;
    // The array's strides, in elements, in the order of the copy's dimensions.
    let mut steps = vec![1i64; dims.len()];
    let mut step = 1;
    for old in (0..dims.len()).rev() {
        let new = packed
            .order
            .iter()
            .position(|&d| d == old)
            .ok_or_else(bug)?;
        steps[new] = step;
        step *= dims[new];
    }
    let ty = integer_type(bytes as usize);
    let flags = MemFlagsData::trusted();
    let mut loops = Vec::new();
    let (mut source, mut target) = (from, to);
    let mut inside: i64 = dims.iter().product();
    for (&dim, &step) in dims.iter().zip(&steps) {
        inside /= dim;
        let [zero, end] = [0, dim].map(|n| builder.ins().iconst(types::I64, n));
        let counted = CountedLoop::open(builder, zero, end, &[source, target]);
        (source, target) = (counted.carried[0], counted.carried[1]);
        let next = [(source, step * bytes), (target, inside * bytes)];
        loops.push((counted, next));
    }
    let element = builder.ins().load(ty, flags, source, 0);
    builder.ins().store(flags, element, target, 0);
    for (counted, next) in loops.into_iter().rev() {
        let next = next.map(|(address, step)| builder.ins().iadd_imm_s(address, step));
        counted.close(builder, 1, &next);
    }
    Ok(to)
}
