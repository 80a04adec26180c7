//! Loads TPU chips by name or from a file.

use crate::report::Failure;
use anyhow::{Context, anyhow};
use std::path::Path;
use tegula_target::Chip;

/// Returns the chip with this name, or the chip that the file of this name describes.
pub(crate) fn load(name: &str) -> Result<Chip, Failure> {
    let unknown = match Chip::by_name(name) {
        Ok(chip) => return Ok(chip),
        Err(unknown) => unknown,
    };
    let path = Path::new(name);
    if !path.is_file() {
        return Err(anyhow!("{unknown}, and no file has this name").into());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
    Chip::parse(&text).map_err(|wrong| {
        let mut error = tegula::Error::new(tegula::ErrorKind::Input, wrong.message);
        error.span = tegula_ir::Span {
            start: u32::try_from(wrong.span.start).unwrap_or(u32::MAX),
            end: u32::try_from(wrong.span.end).unwrap_or(u32::MAX),
        };
        Failure::program(path, &text, error)
    })
}
