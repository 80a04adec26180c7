//! Disassembled instructions.

use std::fmt;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The offset of the instruction from the function's start, in bytes.
    pub at: u32,
    /// The offset of the next instruction.
    pub end: u32,
    /// The assembly text.
    pub text: String,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:4x}: {}", self.at, self.text)
    }
}

/// Control flow after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Continues at the next one.
    Next,
    /// Continues at this offset.
    Jump(u64),
    /// Continues at this offset or the next one.
    Branch(u64),
    /// Leaves the function: returns or traps.
    End,
}

/// The instructions that `next` returns, without the constants after the code: these begin after an
/// instruction without a successor if no earlier instruction jumps beyond it.
pub(crate) fn code_only(mut next: impl FnMut() -> Option<(Listed, Flow)>) -> Vec<Listed> {
    let mut instructions = Vec::new();
    let mut furthest = 0;
    while let Some((instruction, flow)) = next() {
        let end = u64::from(instruction.end);
        instructions.push(instruction);
        match flow {
            Flow::Next => continue,
            Flow::Branch(target) => {
                furthest = furthest.max(target);
                continue;
            }
            Flow::Jump(target) => furthest = furthest.max(target),
            Flow::End => {}
        }
        if furthest < end {
            break;
        }
    }
    instructions
}
