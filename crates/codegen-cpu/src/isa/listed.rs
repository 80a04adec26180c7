//! Disassembled instructions.

use std::fmt;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Where it begins, in bytes from the function's start.
    pub at: u32,
    /// Where the next one begins.
    pub end: u32,
    /// What it is.
    pub text: String,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:4x}: {}", self.at, self.text)
    }
}

/// Where an instruction goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// At the next one.
    Next,
    /// At this offset.
    Jump(u64),
    /// At this offset or the next one.
    Branch(u64),
    /// Nowhere here: it returns, or traps.
    End,
}

/// The instructions that `next` gives, up to the constants behind the code: those begin where
/// nothing goes on and no earlier instruction jumps to what follows.
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
