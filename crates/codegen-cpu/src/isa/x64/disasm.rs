//! Disassembles a body's machine code.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic};
use std::fmt::Write;

/// The instructions of a body's code, a line each; constants that they read, behind them.
pub(crate) fn listing(code: &[u8]) -> String {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let mut text = String::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        // What fills the space before the constants.
        if instruction.mnemonic() == Mnemonic::Int3 {
            break;
        }
        let _ = write!(text, "  {:4x}: ", instruction.ip());
        formatter.format(&instruction, &mut text);
        if let Some(constant) = constant(code, &instruction) {
            let value = f32::from_bits(constant);
            let _ = write!(text, "  # {constant:#x} = {value:e}");
        }
        text.push('\n');
    }
    text
}

/// The first 32 bits that an instruction reads from behind the code.
fn constant(code: &[u8], instruction: &Instruction) -> Option<u32> {
    if !instruction.is_ip_rel_memory_operand() {
        return None;
    }
    let at = usize::try_from(instruction.ip_rel_memory_address()).ok()?;
    let bytes = code.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
