//! Elementwise operations, each once.

use tegula_ir::{Binary, Unary};

use super::super::case::{Instance, instance};

/// All of them, over `[2, 3]` or with a scalar operand beside it.
pub(crate) fn elementwise() -> Vec<Instance> {
    let unary = Unary::ALL.iter().map(|op| op.opcode().name()).map(|name| {
        let (from, to) = match name {
            "not" | "popcnt" | "count-leading-zeros" => ("s32[2,3]", "s32[2,3]"),
            "is-finite" => ("f32[2,3]", "pred[2,3]"),
            "real" | "imag" => ("c64[2,3]", "f32[2,3]"),
            _ => ("f32[2,3]", "f32[2,3]"),
        };
        instance(&[from], to, name)
    });
    let binary = Binary::ALL.iter().map(|op| op.opcode().name()).map(|name| {
        let (from, to) = match name {
            "and" | "or" | "xor" | "mulhi" => ("s32[2,3]", "s32[2,3]"),
            name if name.starts_with("shift") => ("s32[2,3]", "s32[2,3]"),
            "complex" => ("f32[2,3]", "c64[2,3]"),
            _ => ("f32[2,3]", "f32[2,3]"),
        };
        instance(&[from, from], to, name)
    });
    let own = "f32[2,3]";
    let others = [
        instance(&[own, own], "pred[2,3]", "compare , direction=LT"),
        instance(&["pred[2,3]", own, own], own, "select"),
        instance(&["f32[]", own, "f32[]"], own, "clamp"),
        instance(&[own], "f16[2,3]", "convert"),
        instance(
            &[own],
            own,
            "reduce-precision , exponent_bits=5, mantissa_bits=10",
        ),
        instance(&[own], own, "copy"),
        instance(&[own], "(f32[2,3])", "tuple"),
        instance(&["(f32[2,3], f32[2])"], "(f32[2,3], f32[2])", "opt-barrier"),
    ];
    unary.chain(binary).chain(others).collect()
}
