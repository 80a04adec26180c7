//! The element types that a chip's units support.
//!
//! The matrix units follow `is_matmul_supported` of jax-ml/jax `jax/_src/tpu_info.py` @cec06d1,
//! where `v4` takes s8 as the right operand only. The vector unit has lanes of 32 bits: it computes
//! with no type of 64 bits and with none below a byte, and only converts 8-bit floats. SMEM holds
//! words of 32 bits.

use tegula_ir::{ElementType, InstructionId, Module, Op};
use tegula_target::Chip;

/// The reason why an operation does not run on a chip, and what to do about it.
pub(super) fn unsupported(module: &Module, chip: &Chip) -> Option<(String, String)> {
    let ids = module.computations.values().flat_map(|c| &c.instructions);
    ids.into_iter()
        .find_map(|&id| instruction(module, id, chip))
}

fn instruction(module: &Module, id: InstructionId, chip: &Chip) -> Option<(String, String)> {
    let instruction = &module[id];
    let element = |id: InstructionId| module[id].shape.as_array().map(|a| a.element_type);
    match &instruction.op {
        Op::Dot { .. } | Op::Convolution { .. } => {
            let sides = instruction.operands.iter().map(|&id| element(id));
            let wrong = sides.enumerate().find_map(|(side, ty)| {
                let ty = ty?;
                (!matrix(&chip.name, side, ty)).then_some((side, ty))
            });
            let (side, ty) = wrong?;
            let side = ["left", "right"].get(side).copied().unwrap_or("other");
            Some((
                format!(
                    "the matrix units of {} do not take {ty} as the {side} operand",
                    chip.name
                ),
                format!("convert the operands to {}", preferred(&chip.name)),
            ))
        }
        op if moves(op) => None,
        op => {
            let operands = instruction.operands.iter();
            let mut types: Vec<ElementType> = operands.filter_map(|&id| element(id)).collect();
            instruction.shape.for_each_leaf(&mut |leaf| {
                types.extend(leaf.as_array().map(|array| array.element_type));
            });
            let ty = types.into_iter().find(|&ty| !vector(ty))?;
            Some((
                format!("the vector unit does not compute `{}` on {ty}", op.opcode()),
                "convert to f32 or s32 first".to_owned(),
            ))
        }
    }
}

/// Whether an operation only moves elements or converts them.
fn moves(op: &Op) -> bool {
    matches!(
        op,
        Op::Parameter(_)
            | Op::Constant(_)
            | Op::Convert
            | Op::BitcastConvert
            | Op::Bitcast
            | Op::Broadcast(_)
            | Op::Reshape
            | Op::Transpose(_)
            | Op::Slice(_)
            | Op::Concatenate(_)
            | Op::Copy
            | Op::Reverse(_)
            | Op::DynamicSlice(_)
            | Op::DynamicUpdateSlice
            | Op::Pad(_)
            | Op::Gather { .. }
            | Op::Select
            | Op::Tuple
            | Op::GetTupleElement(_)
            | Op::Call { .. }
            | Op::Fusion { .. }
            | Op::While { .. }
            | Op::Conditional { .. }
    )
}

fn vector(ty: ElementType) -> bool {
    match ty {
        ElementType::Pred | ElementType::BF16 | ElementType::F16 | ElementType::F32 => true,
        _ if ty.is_integer() => (8..=32).contains(&ty.bits()),
        _ => false,
    }
}

fn preferred(chip: &str) -> &'static str {
    match chip {
        "v2" | "v3" => "f32",
        _ => "bf16 or f32",
    }
}

fn matrix(chip: &str, side: usize, ty: ElementType) -> bool {
    use ElementType as T;
    match chip {
        "v2" | "v3" => ty == T::F32,
        "v4i" | "v4" => matches!(ty, T::F32 | T::BF16) || ty == T::S8 && side == 1,
        "7x" => matches!(ty, T::F32 | T::BF16 | T::F8E5M2 | T::F8E4M3FN),
        // v5e, v5p, v6e, and chips that a user describes.
        _ => matches!(
            ty,
            T::F32 | T::BF16 | T::F8E5M2 | T::F8E4M3B11FNUZ | T::S8 | T::U8 | T::S4 | T::U4
        ),
    }
}

/// Whether SMEM holds elements of a type.
pub(super) fn scalar_memory(ty: ElementType) -> bool {
    ty.bits() == 32
}
