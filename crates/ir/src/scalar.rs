//! Scalars: the value of one element of a literal, whatever its element type.
//!
//! This access to a [`Literal`] is general but slow. Code that knows the type uses a slice of all
//! elements ([`Literal::values`]).

use crate::{ArrayShape, Category, ElementType, Literal, LiteralError};

/// The value of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// An element of type `pred`.
    Bool(bool),
    /// An element of a signed integer type.
    Int(i64),
    /// An element of an unsigned integer type.
    Uint(u64),
    /// An element of a floating-point type; exact for every one of them.
    Float(f64),
    /// An element of a complex type: real and imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// The value as a real number: exact for floats, the nearest one for integers, the real part of
    /// a complex number.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Bool(value) => f64::from(u8::from(value)),
            Self::Int(value) => value as f64,
            Self::Uint(value) => value as f64,
            Self::Float(value) | Self::Complex(value, _) => value,
        }
    }

    /// The value as an integer, if it is one and is in range.
    pub fn to_i64(self) -> Option<i64> {
        match self {
            Self::Bool(value) => Some(i64::from(value)),
            Self::Int(value) => Some(value),
            Self::Uint(value) => i64::try_from(value).ok(),
            Self::Float(value) | Self::Complex(value, 0.0) => {
                // 2^63 can be a float, but not an `i64`.
                let fits = value >= -(2f64.powi(63)) && value < 2f64.powi(63);
                (fits && value.fract() == 0.0).then_some(value as i64)
            }
            Self::Complex(..) => None,
        }
    }

    /// The value of an element of type `ty` in which this value is stored.
    ///
    /// Integers wrap to the width, and floats are rounded to nearest, ties to even. A value of
    /// another category is converted as by HLO's `convert`: a float to an integer by truncation and
    /// saturation (a NaN becomes 0), a number to `pred` by comparing it with zero, and a complex
    /// number to a real one by dropping the imaginary part.
    pub fn convert(self, ty: ElementType) -> Self {
        decode(ty, encode(ty, self))
    }

    fn is_nonzero(self) -> bool {
        match self {
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Uint(value) => value != 0,
            Self::Float(value) => value != 0.0,
            Self::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }

    /// The integer that is stored in `bits` bits, in the low bits of a word.
    fn to_word(self, signed: bool, bits: u32) -> u64 {
        match self {
            Self::Bool(value) => u64::from(value),
            Self::Int(value) => value as u64,
            Self::Uint(value) => value,
            Self::Float(value) | Self::Complex(value, _) if signed => {
                let limit = 1i64 << (bits - 1).min(62);
                let (low, high) = match bits {
                    64 => (i64::MIN, i64::MAX),
                    _ => (-limit, limit - 1),
                };
                (value as i64).clamp(low, high) as u64
            }
            Self::Float(value) | Self::Complex(value, _) => {
                (value as u64).min(u64::MAX >> (64 - bits))
            }
        }
    }
}

/// The stored bits of one element, as two words; the second one is the imaginary part.
pub(crate) fn encode(ty: ElementType, value: Scalar) -> [u64; 2] {
    let bits = ty.bits();
    match (ty.category(), value) {
        (Category::Boolean, _) => [u64::from(value.is_nonzero()), 0],
        (Category::Signed, _) => [extend(value.to_word(true, bits), bits, true), 0],
        (Category::Unsigned, _) => [extend(value.to_word(false, bits), bits, false), 0],
        (Category::Float, _) => [encode_float(ty, value.to_f64()), 0],
        (Category::Complex, _) => {
            let imaginary = match value {
                Scalar::Complex(_, im) => im,
                _ => 0.0,
            };
            let part = ty.complex_part().unwrap_or(ty);
            [
                encode_float(part, value.to_f64()),
                encode_float(part, imaginary),
            ]
        }
    }
}

fn decode(ty: ElementType, [word, imaginary]: [u64; 2]) -> Scalar {
    let bits = ty.bits();
    match ty.category() {
        Category::Boolean => Scalar::Bool(word & 0xff != 0),
        Category::Signed => Scalar::Int(extend(word, bits, true) as i64),
        Category::Unsigned => Scalar::Uint(extend(word, bits, false)),
        Category::Float => Scalar::Float(decode_float(ty, word)),
        Category::Complex => {
            let part = ty.complex_part().unwrap_or(ty);
            Scalar::Complex(decode_float(part, word), decode_float(part, imaginary))
        }
    }
}

fn encode_float(ty: ElementType, value: f64) -> u64 {
    ty.float_format().map_or(0, |format| format.encode(value))
}

fn decode_float(ty: ElementType, code: u64) -> f64 {
    ty.float_format()
        .map_or(f64::NAN, |format| format.decode(code))
}

/// The low `bits` bits of a word, sign- or zero-extended.
fn extend(word: u64, bits: u32, signed: bool) -> u64 {
    let unused = 64 - bits;
    match signed {
        true => (((word << unused) as i64) >> unused) as u64,
        false => (word << unused) >> unused,
    }
}

pub(crate) fn read_word(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

pub(crate) fn write_word(bytes: &mut [u8], word: u64) {
    match bytes.len() {
        1 => bytes.copy_from_slice(&(word as u8).to_ne_bytes()),
        2 => bytes.copy_from_slice(&(word as u16).to_ne_bytes()),
        4 => bytes.copy_from_slice(&(word as u32).to_ne_bytes()),
        8 => bytes.copy_from_slice(&word.to_ne_bytes()),
        _ => {}
    }
}

/// The byte range of element `index`, and the number of bytes of one part of it (half of a complex
/// element).
fn place(ty: ElementType, index: usize) -> Option<(std::ops::Range<usize>, usize)> {
    let size = ty.storage_bytes();
    let start = index.checked_mul(size)?;
    let part = if ty.is_complex() { size / 2 } else { size };
    Some((start..start.checked_add(size)?, part))
}

/// Writes one element to `bytes`, which are exactly its bytes.
pub(crate) fn store(ty: ElementType, bytes: &mut [u8], value: Scalar) {
    let [word, imaginary] = encode(ty, value);
    match bytes.split_at_mut_checked(bytes.len() / 2) {
        Some((re, im)) if ty.is_complex() => {
            write_word(re, word);
            write_word(im, imaginary);
        }
        _ => write_word(bytes, word),
    }
}

impl Literal {
    /// The element at a row-major position; `None` beyond the last.
    pub fn scalar(&self, index: usize) -> Option<Scalar> {
        let ty = self.element_type();
        let (range, part) = place(ty, index)?;
        let (word, imaginary) = self.bytes().get(range)?.split_at_checked(part)?;
        Some(decode(ty, [read_word(word), read_word(imaginary)]))
    }

    /// Every element, row-major.
    pub fn scalars(&self) -> impl Iterator<Item = Scalar> + '_ {
        (0..self.len()).filter_map(|index| self.scalar(index))
    }

    /// Stores [`value.convert(type)`](Scalar::convert) at a row-major position.
    ///
    /// Fails if the position is beyond the last element.
    pub fn set_scalar(&mut self, index: usize, value: Scalar) -> Result<(), LiteralError> {
        let ty = self.element_type();
        let len = self.len();
        let range = place(ty, index).map(|(range, _)| range);
        let bytes = range
            .filter(|_| index < len)
            .and_then(|range| self.bytes_mut().get_mut(range))
            .ok_or(LiteralError::NoSuchElement { index, len })?;
        store(ty, bytes, value);
        Ok(())
    }

    /// A literal of these elements, in row-major order, each converted to the shape's type.
    ///
    /// Fails if their number is not that of the shape.
    pub fn from_scalars(
        shape: &ArrayShape,
        values: impl IntoIterator<Item = Scalar>,
    ) -> Result<Self, LiteralError> {
        let mut literal = Self::zeros(shape)?;
        let ty = shape.element_type;
        let size = ty.storage_bytes();
        let expected = literal.bytes().len();
        let mut places = literal.bytes_mut().chunks_exact_mut(size);
        let mut given = 0usize;
        for value in values {
            given = given.saturating_add(size);
            match places.next() {
                Some(bytes) => store(ty, bytes, value),
                None => break,
            }
        }
        if given != expected {
            return Err(LiteralError::WrongSize {
                expected,
                actual: given,
            });
        }
        Ok(literal)
    }
}
