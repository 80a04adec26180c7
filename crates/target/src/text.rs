//! The text format of chips.
//!
//! ```text
//! # a comment
//! name = v5e
//! alias = other-name            (any number of times)
//! tile_rule = compact           (of default layouts, if it was measured; or two_rows)
//! vmem_bytes = 128 MiB # source
//! clock = ~1.5 GHz # source     (uncertain)
//! xlus = ? count # not found    (not known)
//! ```
//!
//! A parameter has the form `key = value unit # source`. The keys are the names of [`Param`]; a
//! parameter without a line is unknown. Every number needs a source.

use crate::chip::Chip;
use crate::param::Param;
use crate::quantity::{Dimension, Quantity, Unit};
use crate::tile::TileRule;

/// An error in a chip's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ChipTextError {
    /// The line, from 1.
    pub line: usize,
    /// The range of bytes that is wrong.
    pub span: std::ops::Range<usize>,
    /// What is wrong there.
    pub message: String,
}

/// The wrong part of a line, and the message.
type Wrong<'a> = (&'a str, String);

impl Chip {
    /// Parses a chip's text: `name = NAME`, `alias = NAME`, `tile_rule = compact` and `PARAM =
    /// [~]NUMBER UNIT # SOURCE`, one per line. The documentation of the module `text` has the
    /// grammar.
    ///
    /// # Errors
    /// The first line that has another form, repeats a key, or has a number without a source or
    /// with a unit of another dimension.
    pub fn parse(text: &str) -> Result<Self, ChipTextError> {
        let mut chip = Self::default();
        let mut last = 1;
        for (number, line) in (1..).zip(text.lines()) {
            last = number;
            read_line(line, &mut chip).map_err(|(part, message)| {
                let start = part.as_ptr().addr() - text.as_ptr().addr();
                ChipTextError {
                    line: number,
                    span: start..start + part.len(),
                    message,
                }
            })?;
        }
        if chip.name.is_empty() {
            let end = text.trim_end().len();
            let start = text[..end].rfind('\n').map_or(0, |newline| newline + 1);
            return Err(ChipTextError {
                line: last,
                span: start..end,
                message: "the chip has no `name = ...`".to_owned(),
            });
        }
        Ok(chip)
    }
}

fn read_line<'a>(line: &'a str, chip: &mut Chip) -> Result<(), Wrong<'a>> {
    let (content, source) = match line.split_once('#') {
        Some((content, source)) => (content.trim(), source.trim()),
        None => (line.trim(), ""),
    };
    if content.is_empty() {
        return Ok(());
    }
    let Some((key, value)) = content.split_once('=') else {
        let message = format!("expected `key = value unit # source`, found `{content}`");
        return Err((content, message));
    };
    let (key, value) = (key.trim(), value.trim());
    match key {
        "name" | "alias" => name(key, value, chip),
        "tile_rule" => match TileRule::from_name(value) {
            Some(rule) => {
                chip.tile_rule = Some(rule);
                Ok(())
            }
            None => {
                let message =
                    format!("unknown tile rule `{value}`: expected `compact` or `two_rows`");
                Err((value, message))
            }
        },
        _ => {
            let param = Param::from_name(key).ok_or_else(|| (key, unknown_key(key)))?;
            let quantity = quantity(param, value, source)?;
            match chip.quantities.insert(param, quantity) {
                None => Ok(()),
                Some(_) => Err((key, format!("`{key}` is given twice"))),
            }
        }
    }
}

fn name<'a>(key: &'a str, value: &'a str, chip: &mut Chip) -> Result<(), Wrong<'a>> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    if value.is_empty() || !value.chars().all(part) {
        let message = format!("`{value}` is not a name: use letters, digits, `-`, `_` and `.`");
        return Err((if value.is_empty() { key } else { value }, message));
    }
    if key == "alias" {
        chip.aliases.push(value.to_owned());
    } else if chip.name.is_empty() {
        value.clone_into(&mut chip.name);
    } else {
        return Err((key, "`name` is given twice".to_owned()));
    }
    Ok(())
}

/// Suggestions for an unknown key: the nearest names if any are near, otherwise all.
fn unknown_key(key: &str) -> String {
    let names: Vec<&str> = Param::ALL.iter().map(|param| param.name()).collect();
    let shares = |name: &&str| {
        let mut words = key.split('_').filter(|word| word.len() > 2);
        words.any(|word| name.contains(word))
    };
    let near: Vec<&str> = names.iter().copied().filter(shares).collect();
    let shown = if near.is_empty() { names } else { near };
    format!(
        "there is no parameter `{key}`; there are {}",
        shown.join(", ")
    )
}

fn quantity<'a>(param: Param, text: &'a str, source: &str) -> Result<Quantity, Wrong<'a>> {
    let name = param.name();
    let mut words = text.split_whitespace();
    let (Some(number), Some(unit), None) = (words.next(), words.next(), words.next()) else {
        let message = format!("`{name}` takes a number and a unit, not `{text}`");
        return Err((text, message));
    };
    let known = Unit::from_name(unit).ok_or_else(|| (unit, format!("`{unit}` is not a unit")))?;
    if known.dimension() != param.dimension() {
        let (is, wanted) = (known.dimension(), param.dimension());
        let message = format!("`{unit}` measures {is:?}, but `{name}` is {wanted:?}");
        return Err((unit, message));
    }
    if source.is_empty() {
        let message = format!("`{name}` has no source: add `# SOURCE` at the end of the line");
        return Err((text, message));
    }
    let (uncertain, digits) = match number.strip_prefix('~') {
        Some(digits) => (true, digits),
        None => (false, number),
    };
    let value = match digits {
        "?" => None,
        _ => {
            let value = digits.parse::<f64>().ok();
            let value = value.filter(|value| value.is_finite() && *value >= 0.0);
            let wrong = || {
                (
                    number,
                    format!("expected a non-negative number, found `{number}`"),
                )
            };
            Some(value.ok_or_else(wrong)?)
        }
    };
    if known.dimension() == Dimension::Count && value.is_some_and(|value| value.fract() != 0.0) {
        return Err((number, format!("expected an integer, found `{number}`")));
    }
    Ok(Quantity {
        value,
        unit: known,
        source: source.to_owned(),
        uncertain,
    })
}

impl std::fmt::Display for Chip {
    /// The text that [`Chip::parse`] reads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "name = {}", self.name)?;
        for alias in &self.aliases {
            writeln!(f, "alias = {alias}")?;
        }
        if let Some(rule) = self.tile_rule {
            writeln!(f, "tile_rule = {}", rule.name())?;
        }
        for (param, quantity) in &self.quantities {
            writeln!(f, "{} = {quantity} # {}", param.name(), quantity.source)?;
        }
        Ok(())
    }
}
