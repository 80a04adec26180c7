//! Recognises the form of an input by its first bytes, and extracts bytecode from files of
//! `jax.export`.
//!
//! `Exported.serialize()` returns a flatbuffer (`jax/_src/export/serialization.fbs`) whose field
//! `mlir_module_serialized` contains the module. The other fields describe argument trees, which
//! are also in the module's own attributes.

use crate::{Bytes, bytecode};

/// The form of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputForm {
    /// MLIR bytecode.
    Bytecode,
    /// MLIR text.
    Text,
    /// A file of `jax.export`, which holds bytecode.
    JaxExport,
}

impl InputForm {
    /// The form of an input, if it is any of these.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(&bytecode::MAGIC) {
            return Some(Self::Bytecode);
        }
        if exported_range(bytes).is_some() {
            return Some(Self::JaxExport);
        }
        looks_like_text(bytes).then_some(Self::Text)
    }
}

/// Whether a text begins like MLIR: with a module, a function, an alias or an operation.
fn looks_like_text(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    loop {
        rest = rest.trim_ascii_start();
        if !rest.starts_with(b"//") {
            break;
        }
        let line = rest.iter().position(|byte| *byte == b'\n');
        rest = &rest[line.unwrap_or(rest.len())..];
    }
    let words: [&[u8]; 5] = [b"module", b"builtin.module", b"func", b"sdy.mesh", b"vhlo."];
    let quoted = rest.strip_prefix(b"\"").unwrap_or(rest);
    if quoted.len() < rest.len() {
        let dialects: [&[u8]; 4] = [b"builtin.", b"func.", b"stablehlo.", b"vhlo."];
        return dialects.iter().any(|dialect| quoted.starts_with(dialect));
    }
    let begins = |word: &&[u8]| {
        let next = rest.get(word.len());
        rest.starts_with(word) && next.is_none_or(|c| !c.is_ascii_alphanumeric() && *c != b'_')
            || (word.ends_with(b".") && rest.starts_with(word))
    };
    if words.iter().any(begins) || rest.starts_with(b"func.") {
        return true;
    }
    // `#loc = loc(...)` or `!t = tensor<...>`.
    let alias = rest.first().is_some_and(|c| matches!(c, b'#' | b'!'));
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    alias && line.contains(&b'=')
}

/// The bytecode in a file of `jax.export`.
pub(crate) fn exported(bytes: &Bytes) -> Option<Bytes> {
    bytes.slice(exported_range(bytes)?)
}

fn exported_range(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    /// The offset of `mlir_module_serialized` in the flatbuffer's table of fields.
    const FIELD: usize = 30;
    let u32_at = |at: usize| {
        let four = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
    };
    let u16_at = |at: usize| {
        let two = bytes.get(at..at.checked_add(2)?)?;
        Some(usize::from(u16::from_le_bytes(two.try_into().ok()?)))
    };
    let table = u32_at(0)?;
    let back = u32_at(table)? as u32 as i32;
    let fields = usize::try_from((table as i64).checked_sub(back.into())?).ok()?;
    if FIELD + 2 > u16_at(fields)? {
        return None;
    }
    let field = u16_at(fields + FIELD)?;
    if field == 0 {
        return None;
    }
    let reference = table.checked_add(field)?;
    let vector = reference.checked_add(u32_at(reference)?)?;
    let start = vector.checked_add(4)?;
    let end = start.checked_add(u32_at(vector)?)?;
    let module = bytes.get(start..end)?;
    module.starts_with(&bytecode::MAGIC).then_some(start..end)
}
