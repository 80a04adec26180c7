//! Disassembles x86-64 machine code.

use crate::isa::listed::{Flow, Listed, code_only};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic, OpKind};
use std::fmt::Write;

/// The instructions of a body's code, one on each line, with the constants that they read.
pub(crate) fn listing(code: &[u8]) -> String {
    let mut text = String::new();
    for instruction in instructions(code) {
        let _ = writeln!(text, "  {instruction}");
    }
    text
}

/// The instructions of a function, without the constants after it.
pub(crate) fn instructions(code: &[u8]) -> Vec<Listed> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_uppercase_hex(false);
    let mut instruction = Instruction::default();
    code_only(|| {
        if !decoder.can_decode() {
            return None;
        }
        decoder.decode_out(&mut instruction);
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        if let Some(constant) = constant(code, &instruction) {
            let value = f32::from_bits(constant);
            let _ = write!(text, "  # {constant:#x} = {value:e}");
        }
        let target = instruction.near_branch_target();
        let flow = match instruction.mnemonic() {
            Mnemonic::Jmp => Flow::Jump(target),
            Mnemonic::Ret | Mnemonic::Ud2 | Mnemonic::Int3 => Flow::End,
            Mnemonic::Call => Flow::Next,
            _ if instruction.op0_kind() == OpKind::NearBranch64 => Flow::Branch(target),
            _ => Flow::Next,
        };
        let listed = Listed {
            at: instruction.ip() as u32,
            end: instruction.next_ip() as u32,
            text,
        };
        Some((listed, flow))
    })
}

/// The first 32 bits of the constant that an instruction reads.
fn constant(code: &[u8], instruction: &Instruction) -> Option<u32> {
    if !instruction.is_ip_rel_memory_operand() {
        return None;
    }
    let at = usize::try_from(instruction.ip_rel_memory_address()).ok()?;
    let bytes = code.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
