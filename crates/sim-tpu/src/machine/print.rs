//! A kernel's debug output and assertions.

use super::access::Touch;
use super::code::Printable;
use super::terms::{Cut, Index};
use super::vector::value::{Lanes, from_bytes};
use super::{Flow, Here, Machine};
use crate::finding::Code;
use crate::program::Print;
use crate::report::{Error, PrintedText};
use std::fmt::Write;
use tegula_mosaic::types::Element;

/// The most texts that are kept.
const MOST_TEXTS: usize = 1000;
/// The most elements of an array that are printed.
const MOST_ELEMENTS: usize = 1024;

impl<'p> Machine<'p> {
    /// Prints a text. Without values nothing is printed.
    pub(super) fn print(
        &mut self,
        print: &Print,
        values: &[Printable],
        here: Here<'p>,
    ) -> Result<Flow, Error> {
        self.engines.issue(here.line);
        let mut texts = Vec::new();
        for value in values {
            texts.push(match value {
                Printable::Scalar(index, element) => {
                    let value = self.value(index, here)?;
                    [false, true].map(|hexadecimal| scalar_text(value, *element, hexadecimal))
                }
                Printable::Array(cut, element) => {
                    let text = self.array_text(cut, *element, here)?;
                    [text.clone(), text]
                }
            });
        }
        if self.functional && self.printed.len() < MOST_TEXTS {
            self.printed.push(PrintedText {
                core: usize::try_from(self.core).unwrap_or(0),
                line: here.line,
                text: match print.formatted {
                    true => filled(&print.text, &texts),
                    false => {
                        let texts = texts.iter().map(|[text, _]| text.as_str());
                        let tag = print.text.trim_end();
                        let all: Vec<&str> = std::iter::once(tag).chain(texts).collect();
                        all.join(" ")
                    }
                },
            });
        }
        Ok(Flow::Next)
    }

    /// The existing elements of an array as text, row by row.
    fn array_text(&mut self, cut: &Cut, element: Element, here: Here<'p>) -> Result<String, Error> {
        let Some(access) = self.access(cut, here)? else {
            return Ok("[]".to_owned());
        };
        self.check_races(&access, Touch::Read, here);
        self.check_written(&access, here);
        if !self.functional {
            return Ok(String::new());
        }
        let sizes = access.region.low.iter().zip(&access.region.high);
        let sizes: Vec<i64> = sizes.map(|(low, high)| high - low).collect();
        let elements = sizes.iter().fold(1_u64, |all, size| {
            all.saturating_mul(u64::try_from(*size).unwrap_or(0))
        });
        self.spend(elements / 256, here.line)?;
        let whole: Vec<i64> = cut.kept.iter().map(|d| sizes[*d]).collect();
        let bytes = self.read_bytes(access.buffer, &access.region, cut, &whole);
        let lanes = from_bytes(element, &bytes).map_err(|message| Error::Unsupported {
            line: here.line,
            message,
        })?;
        Ok(array_of(&lanes, &whole))
    }

    /// Checks an assertion of the kernel; without values it is not checked.
    pub(super) fn assert(
        &mut self,
        condition: &Index,
        message: &str,
        here: Here<'p>,
    ) -> Result<Flow, Error> {
        self.engines.issue(here.line);
        if self.functional && self.value(condition, here)? == 0 {
            self.find(Code::CheckFailed, here, None, || {
                (
                    format!("a check of the kernel failed: {message}"),
                    "use inputs for which it holds, or fix the kernel".to_owned(),
                )
            });
        }
        Ok(Flow::Next)
    }
}

/// The text of a scalar as a variable holds it.
fn scalar_text(value: i64, element: Element, hexadecimal: bool) -> String {
    match element {
        Element::Float(_) => f32::from_bits(value as u32).to_string(),
        Element::BOOL => (value != 0).to_string(),
        _ if hexadecimal => format!("{:x}", value as u32),
        _ => value.to_string(),
    }
}

/// A text with `$0`, `$1`, ... replaced by values, and `$x0` by hexadecimal numbers.
fn filled(text: &str, values: &[[String; 2]]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (hexadecimal, digits) = match after.strip_prefix('x') {
            Some(digits) => (true, digits),
            None => (false, after),
        };
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let (number, left) = digits.split_at(end.unwrap_or(digits.len()));
        let value = number.parse().ok().and_then(|at: usize| values.get(at));
        match value {
            Some(value) => {
                out.push_str(&value[usize::from(hexadecimal)]);
                rest = left;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// An array's elements in brackets, one row a line.
fn array_of(lanes: &Lanes, sizes: &[i64]) -> String {
    let count = lanes.len();
    let row = sizes
        .last()
        .map_or(1, |size| usize::try_from(*size).unwrap_or(1));
    let mut out = String::from("[");
    for at in 0..count.min(MOST_ELEMENTS) {
        if at > 0 {
            out.push_str(if at % row.max(1) == 0 { "\n " } else { " " });
        }
        // Writing to a `String` cannot fail.
        let _ = match lanes {
            Lanes::Float(values) => write!(out, "{}", values[at]),
            Lanes::Int(values) => write!(out, "{}", values[at]),
        };
    }
    if count > MOST_ELEMENTS {
        let _ = write!(out, " ... and {} more", count - MOST_ELEMENTS);
    }
    out.push(']');
    out
}
