//! Values as other types of the same bits, and vectors made of other vectors' bytes.

use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;

/// The same bits as another type; the first lane has the lowest ones.
pub(crate) fn reinterpreted(builder: &mut FunctionBuilder<'_>, to: Type, value: Value) -> Value {
    if builder.func.dfg.value_type(value) == to {
        return value;
    }
    let flags = MemFlagsData::new().with_endianness(Endianness::Little);
    builder.ins().bitcast(to, flags, value)
}

/// Selects bytes of two vectors of bytes: 0 to 15 are the first's, 16 to 31 the second's.
pub(crate) fn shuffled(
    builder: &mut FunctionBuilder<'_>,
    [a, b]: [Value; 2],
    bytes: [u8; 16],
) -> Value {
    let mask = builder.func.dfg.immediates.push(bytes.to_vec().into());
    builder.ins().shuffle(a, b, mask)
}
