//! Literals and numbers in XLA's form, but never shortened.

use crate::scalar::read_word;
use crate::{ElementType, Literal, Scalar, Specials};
use std::fmt::{self, Write};

/// A number in the format of C's `%.{digits}g`.
pub(crate) fn general(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let scientific = format!("{:.*e}", digits - 1, value);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        let exponent = exponent.unsigned_abs();
        return format!("{}e{sign}{exponent:02}", without_zeros(mantissa));
    }
    let places = (digits as i32 - 1 - exponent).max(0).unsigned_abs() as usize;
    without_zeros(&format!("{value:.places$}")).to_owned()
}

fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// A finite float with as few digits as XLA prints, but enough to read the same value back.
pub(crate) fn finite(value: f64, ty: ElementType) -> String {
    match ty {
        ElementType::F32 => {
            let short = general(value, 6);
            match short.parse::<f32>() {
                Ok(read) if f64::from(read) == value => short,
                _ => general(value, 9),
            }
        }
        ElementType::F64 => {
            let short = general(value, 15);
            match short.parse::<f64>() {
                Ok(read) if read == value => short,
                _ => general(value, 17),
            }
        }
        _ => general(value, decimal_digits(ty)),
    }
}

/// The number of decimal digits that distinguish all values of a narrow type: `1 + ceil(p *
/// log10(2))` for `p` significant bits (C's `max_digits10`).
fn decimal_digits(ty: ElementType) -> usize {
    let significant = ty
        .float_format()
        .map_or(53, |format| format.mantissa_bits + 1);
    1 + (f64::from(significant) * std::f64::consts::LOG10_2).ceil() as usize
}

fn write_float(out: &mut String, ty: ElementType, code: u64) -> fmt::Result {
    let Some(format) = ty.float_format() else {
        return Ok(());
    };
    let value = format.decode(code);
    if value.is_finite() {
        out.push_str(&finite(value, ty));
        return Ok(());
    }
    // The sign of the code; the NaN of a format with a single one has none.
    let lone = !matches!(format.specials, Specials::Ieee | Specials::NanOnly);
    if code & format.sign_mask() != 0 && !lone {
        out.push('-');
    }
    if value.is_infinite() {
        out.push_str("inf");
        return Ok(());
    }
    out.push_str("nan");
    let quiet = format.nan_code(false).unwrap_or(code);
    let payload_mask = (1u64 << format.mantissa_bits) - 1;
    if format.specials == Specials::Ieee && code & payload_mask != quiet & payload_mask {
        write!(out, "(0x{:x})", code & payload_mask)?;
    }
    Ok(())
}

fn write_element(out: &mut String, literal: &Literal, index: usize, in_array: bool) -> fmt::Result {
    let ty = literal.element_type();
    let Some(scalar) = literal.scalar(index) else {
        return Ok(());
    };
    match scalar {
        Scalar::Bool(value) if in_array => write!(out, "{}", u8::from(value)),
        Scalar::Bool(value) => write!(out, "{value}"),
        Scalar::Int(value) => write!(out, "{value}"),
        Scalar::Uint(value) => write!(out, "{value}"),
        Scalar::Float(_) | Scalar::Complex(..) => {
            let size = ty.storage_bytes();
            let bytes = literal.bytes().get(index * size..).unwrap_or_default();
            let Some(part) = ty.complex_part() else {
                return write_float(out, ty, read_word(bytes.get(..size).unwrap_or_default()));
            };
            let word = |range| read_word(bytes.get(range).unwrap_or_default());
            out.push('(');
            write_float(out, part, word(0..size / 2))?;
            out.push_str(", ");
            write_float(out, part, word(size / 2..size))?;
            out.push(')');
            Ok(())
        }
    }
}

/// The state of printing an array: the literal, its sizes, and the next element.
struct Nest<'a> {
    literal: &'a Literal,
    dims: &'a [i64],
    next: usize,
}

impl Nest<'_> {
    /// Prints dimension `depth` in braces; `place` is the index in the dimension outside of it.
    fn write(&mut self, out: &mut String, depth: usize, place: i64) -> fmt::Result {
        let rank = self.dims.len();
        let Some(&size) = self.dims.get(depth) else {
            let result = write_element(out, self.literal, self.next, rank > 0);
            self.next += 1;
            return result;
        };
        let innermost = depth + 1 == rank;
        // XLA prints blanks inside braces, except in a one-dimensional array and around fewer than
        // two elements.
        let blank = match innermost {
            true if size <= 1 || rank == 1 => "",
            // The closing brace of an empty dimension follows the blank after its opening brace.
            false if size == 0 => "",
            _ => " ",
        };
        out.push('{');
        if !innermost && rank > 3 && depth > 0 {
            write!(out, " /*i{}={place}*/", depth - 1)?;
        }
        out.push_str(if innermost { blank } else { " " });
        for index in 0..size {
            if index > 0 {
                out.push_str(", ");
            }
            self.write(out, depth + 1, index)?;
        }
        out.push_str(blank);
        out.push('}');
        Ok(())
    }
}

/// The maximum number of empty braces printed for an array without elements. Beyond it, the array
/// is printed as `{}`, which only this crate reads.
const MAX_EMPTY_BRACES: i64 = 1 << 12;

/// Prints one array.
pub(crate) fn write_literal(out: &mut String, literal: &Literal) -> fmt::Result {
    let dims = literal.shape().static_dims().unwrap_or_default();
    if literal.is_empty() {
        // The sizes before the first 0 determine the number of braces.
        let mut before = dims.iter().take_while(|&&size| size != 0);
        let braces = before.try_fold(1i64, |product, &size| product.checked_mul(size));
        if braces.is_none_or(|braces| braces > MAX_EMPTY_BRACES) {
            out.push_str("{}");
            return Ok(());
        }
    }
    let mut nest = Nest {
        literal,
        dims: &dims,
        next: 0,
    };
    nest.write(out, 0, 0)
}

impl fmt::Display for Literal {
    /// The elements in nested braces, all of them, without the shape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_literal(&mut text, self)?;
        f.write_str(&text)
    }
}

/// A float with the fewest digits that read back as the same number of its type.
pub fn shortest_float(value: f64, ty: ElementType) -> String {
    if !value.is_finite() {
        return Scalar::Float(value).to_string();
    }
    let reads_back = |text: &String| match (ty, ty.float_format()) {
        (ElementType::F64, _) | (_, None) => text.parse() == Ok(value),
        (_, Some(format)) => {
            let read = text.parse::<f64>();
            read.is_ok_and(|read| format.encode(read) == format.encode(value))
        }
    };
    let forms = (1..=17).map(|digits| general(value, digits));
    forms
        .into_iter()
        .find(reads_back)
        .unwrap_or_else(|| general(value, 17))
}

impl Literal {
    /// The element at a row-major position, for people to read: a float has the fewest digits that
    /// read back as the same number. Empty if there is no such element.
    pub fn shortest(&self, index: usize) -> String {
        let ty = self.element_type();
        match self.scalar(index) {
            None => String::new(),
            Some(Scalar::Float(value)) => shortest_float(value, ty),
            Some(Scalar::Complex(re, im)) => {
                let part = ty.complex_part().unwrap_or(ty);
                {
                    let parts = [re, im].map(|value| shortest_float(value, part));
                    format!("({}, {})", parts[0], parts[1])
                }
            }
            Some(other) => other.to_string(),
        }
    }
}

impl fmt::Display for Scalar {
    /// The number without its type; a float has enough digits to read back the same `f64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let float = |value: f64| match value.is_finite() {
            true => finite(value, ElementType::F64),
            false if value.is_nan() => "nan".to_owned(),
            false if value < 0.0 => "-inf".to_owned(),
            false => "inf".to_owned(),
        };
        match *self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(&float(value)),
            Self::Complex(re, im) => write!(f, "({}, {})", float(re), float(im)),
        }
    }
}
