//! Disassembles AArch64 machine code. The code is listed but not run, so this works on any machine.

use super::listed::{Flow, Listed, code_only};
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand};

/// The instructions of a function, without the constants after it. `data`: the offsets of 8-byte
/// words among the instructions that hold addresses.
pub(crate) fn instructions(code: &[u8], data: &[u32]) -> Vec<Listed> {
    let decoder = InstDecoder::default();
    let mut at = 0;
    code_only(|| {
        let here = at as u32;
        let (length, text, flow) = if data.contains(&here) {
            (8, ".quad 0".to_owned(), Flow::Next)
        } else {
            let word = code.get(at..at + 4)?;
            match decoder.decode(&mut U8Reader::new(word)) {
                Ok(instruction) => (4, text(&instruction, here), flow(&instruction, here)),
                Err(_) => {
                    let bits = u32::from_le_bytes(*word.first_chunk()?);
                    (4, format!(".word {bits:#010x}"), Flow::Next)
                }
            }
        };
        at += length;
        let listed = Listed {
            at: here,
            end: at as u32,
            text,
        };
        Some((listed, flow))
    })
}

/// The target of an instruction with an offset relative to its own.
fn target(instruction: &Instruction, at: u32) -> Option<u64> {
    let distance = instruction
        .operands
        .iter()
        .find_map(|operand| match operand {
            Operand::PCOffset(distance) => Some(*distance),
            _ => None,
        });
    u64::try_from(i64::from(at) + distance?).ok()
}

/// The text of an instruction, with offsets from the function's start.
fn text(instruction: &Instruction, at: u32) -> String {
    let text = instruction.to_string();
    match (text.rfind('$'), target(instruction, at)) {
        (Some(relative), Some(target)) => format!("{}{target:#x}", &text[..relative]),
        _ => text,
    }
}

fn flow(instruction: &Instruction, at: u32) -> Flow {
    match (instruction.opcode, target(instruction, at)) {
        (Opcode::B, Some(target)) => Flow::Jump(target),
        (Opcode::RET | Opcode::BR | Opcode::UDF | Opcode::BRK, _) => Flow::End,
        (Opcode::BL, _) => Flow::Next,
        // Other instructions with a target are loads of constants after the code.
        (Opcode::Bcc(_) | Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ, Some(to)) => {
            Flow::Branch(to)
        }
        _ => Flow::Next,
    }
}
