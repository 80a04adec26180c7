//! Conventions for operations written as HLO, shared by the parser and the printer of kernels.

use tegula_ir::{Binary, ElementType, Opcode, Unary};

/// The name of the entry computation of a statement's module.
pub(super) const ENTRY: &str = "kernel.entry";

/// The text of a computation that combines two scalars by the operation whose name it has.
pub(super) fn combiner(name: &str, element_type: ElementType) -> String {
    let ty = element_type.name();
    format!(
        "{name} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  \
         ROOT r = {ty}[] {name}(a, b)\n}}\n"
    )
}

/// Whether an operation works element by element on arrays of one shape.
pub(super) fn is_elementwise(opcode: Opcode) -> bool {
    let others = [Opcode::Compare, Opcode::Select, Opcode::Clamp];
    Unary::from_opcode(opcode).is_some()
        || Binary::from_opcode(opcode).is_some()
        || others.contains(&opcode)
}

/// The type of an operand that is a number without a type; `types` are the types of the other
/// operands, where they have one.
pub(super) fn literal_type(
    opcode: Opcode,
    position: usize,
    types: &[Option<ElementType>],
    result: ElementType,
) -> ElementType {
    let at = |position: usize| types.get(position).copied().flatten();
    let first = types.iter().flatten().next().copied();
    match opcode {
        Opcode::Select if position == 0 => ElementType::Pred,
        Opcode::Select => result,
        Opcode::Reduce | Opcode::ReduceWindow => {
            let half = types.len() / 2;
            let partner = position.checked_sub(half).and_then(at);
            partner.or(first).unwrap_or(result)
        }
        Opcode::DynamicSlice if position > 0 => ElementType::S32,
        Opcode::DynamicUpdateSlice if position > 1 => ElementType::S32,
        _ => first.unwrap_or(result),
    }
}
