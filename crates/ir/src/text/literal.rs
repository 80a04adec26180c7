//! Reads literals: `{ { 1, 2 }, { 3, nan(0x7f) } }`.
//!
//! The braces must match the shape; an array without elements may be written `{}`. Memory is
//! allocated only for elements that have been read, so a huge shape with a short literal costs
//! nothing.

use super::cursor::{Cursor, Lexeme, shortened};
use super::lexer::Token;
use crate::scalar::{encode, write_word};
use crate::{ArrayShape, Category, ElementType, Error, Literal, Scalar, Shape, Specials};

impl<'a> Cursor<'a> {
    /// Reads a literal of this shape: one array, or a tuple's arrays in order.
    pub(crate) fn literal(&mut self, shape: &Shape) -> Result<Vec<Literal>, Error> {
        let mut literals = Vec::new();
        self.literal_into(shape, &mut literals)?;
        Ok(literals)
    }

    fn literal_into(&mut self, shape: &Shape, literals: &mut Vec<Literal>) -> Result<(), Error> {
        match shape {
            Shape::Array(array) => literals.push(self.array_literal(array)?),
            Shape::Tuple(shapes) => self.nested(|cursor| {
                let mut rest = shapes.iter();
                cursor.list(Token::ParenOpen, Token::ParenClose, |cursor| {
                    match rest.next() {
                        Some(shape) => cursor.literal_into(shape, literals),
                        None => Err(cursor.expected("`)`: the tuple has no more elements")),
                    }
                })?;
                match rest.next() {
                    None => Ok(()),
                    Some(_) => Err(cursor.error("the tuple has more elements than the literal")),
                }
            })?,
            _ => return Err(self.error("only arrays and tuples have literals")),
        }
        Ok(())
    }

    fn array_literal(&mut self, shape: &ArrayShape) -> Result<Literal, Error> {
        let span = self.span();
        let Some(dims) = shape.static_dims().filter(|_| shape.byte_size().is_some()) else {
            return Err(self.error("a literal's shape needs fixed sizes that fit into 64 bits"));
        };
        if let Some(filled) = self.elided(shape)? {
            return Ok(filled);
        }
        let mut bytes = Vec::new();
        let written_empty = shape.element_count() == Some(0)
            && self.peek() == Some(Token::BraceOpen)
            && self.peek_second() == Some(Token::BraceClose);
        if written_empty {
            self.take()?;
            self.take()?;
        } else {
            self.elements(shape.element_type, &dims, &mut bytes)?;
        }
        Literal::from_bytes(shape, &bytes).map_err(|error| self.error_at(span, error.to_string()))
    }

    /// Reads `{...}` and generates the elements, if the options ask for that.
    fn elided(&mut self, shape: &ArrayShape) -> Result<Option<Literal>, Error> {
        let is_elided =
            self.peek() == Some(Token::BraceOpen) && self.peek_second() == Some(Token::Ellipsis);
        let Some(fill) = self.fill.filter(|_| is_elided) else {
            return Ok(None);
        };
        let span = self.span();
        self.take()?;
        self.take()?;
        self.expect(Token::BraceClose)?;
        let filled = fill(shape, self.filled).map_err(|error| error.at(self.source(), span))?;
        self.filled += 1;
        Ok(Some(filled))
    }

    /// Reads one level of braces; `dims` are the sizes of this level and those inside it.
    fn elements(
        &mut self,
        ty: ElementType,
        dims: &[i64],
        bytes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some((&size, inner)) = dims.split_first() else {
            return self.element(ty, bytes);
        };
        let span = self.span();
        if self.peek() == Some(Token::BraceOpen) && self.peek_second() == Some(Token::Ellipsis) {
            return Err(self
                .error("the elements of this constant were left out of the text")
                .with_help("print the program with large constants included, e.g. with XLA's print_large_constants option; or generate the elements (`--fill-elided SEED`)"));
        }
        let mut count = 0i64;
        self.nested(|cursor| {
            cursor.list(Token::BraceOpen, Token::BraceClose, |cursor| {
                count += 1;
                if count > size {
                    let message = format!("more than {size} elements in these braces");
                    return Err(cursor.error(message));
                }
                cursor.elements(ty, inner, bytes)
            })
        })?;
        if count != size {
            let message = format!("expected {size} elements in these braces, found {count}");
            return Err(self.error_at(span, message));
        }
        Ok(())
    }

    fn element(&mut self, ty: ElementType, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let Some(part) = ty.complex_part() else {
            let word = self.number(ty)?;
            push_word(bytes, ty, word);
            return Ok(());
        };
        // A complex number without imaginary part may be written as a real number.
        if !self.eat(Token::ParenOpen) {
            let word = self.number(part)?;
            push_word(bytes, part, word);
            push_word(bytes, part, 0);
            return Ok(());
        }
        let real = self.number(part)?;
        self.expect(Token::Comma)?;
        let imaginary = self.number(part)?;
        self.expect(Token::ParenClose)?;
        push_word(bytes, part, real);
        push_word(bytes, part, imaginary);
        Ok(())
    }

    /// Reads one number of a type that is not complex; returns its stored bits.
    fn number(&mut self, ty: ElementType) -> Result<u64, Error> {
        let lexeme = match self.peek() {
            Some(Token::Int | Token::Decimal | Token::Word) => self.take()?,
            Some(Token::Ellipsis) => {
                return Err(self.error("the elements of this constant were left out of the text"));
            }
            _ => return Err(self.expected(&format!("a number of type {ty}"))),
        };
        let code = match ty.category() {
            Category::Float => return self.float(ty, lexeme),
            Category::Boolean => match lexeme.text {
                "true" | "1" => Some(1),
                "false" | "0" => Some(0),
                _ => None,
            },
            Category::Signed => lexeme.text.parse::<i64>().ok().and_then(|value| {
                let value = Scalar::Int(value);
                (value.convert(ty) == value).then(|| encode(ty, value)[0])
            }),
            Category::Unsigned | Category::Complex => {
                // As in XLA, a negative number stands for the 64-bit word that stores it.
                let wrapped = || {
                    let value = lexeme.text.parse::<i64>().ok();
                    value
                        .filter(|_| ty == ElementType::U64)
                        .map(i64::cast_unsigned)
                };
                lexeme
                    .text
                    .parse::<u64>()
                    .ok()
                    .or_else(wrapped)
                    .and_then(|value| {
                        let value = Scalar::Uint(value);
                        (value.convert(ty) == value).then(|| encode(ty, value)[0])
                    })
            }
        };
        code.ok_or_else(|| self.not_a_number(ty, lexeme))
    }

    fn not_a_number(&self, ty: ElementType, lexeme: Lexeme<'_>) -> Error {
        let message = format!("`{}` is not a value of type {ty}", shortened(lexeme.text));
        self.error_at(lexeme.span, message)
    }

    fn float(&mut self, ty: ElementType, lexeme: Lexeme<'a>) -> Result<u64, Error> {
        let Some(format) = ty.float_format() else {
            return Err(self.not_a_number(ty, lexeme));
        };
        let (negative, magnitude) = match lexeme.text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, lexeme.text.strip_prefix('+').unwrap_or(lexeme.text)),
        };
        let sign = if negative { format.sign_mask() } else { 0 };
        let code = match magnitude {
            "nan" => match self.nan_payload()? {
                None => format.nan_code(negative),
                Some(payload) if format.specials == Specials::Ieee => {
                    let mantissa = (1u64 << format.mantissa_bits) - 1;
                    let fits = payload != 0 && payload <= mantissa;
                    let infinity = format.infinity_code();
                    infinity.filter(|_| fits).map(|code| sign | code | payload)
                }
                Some(_) => None,
            },
            "inf" => format.infinity_code().map(|code| sign | code),
            digits => finite(ty, digits).map(|code| match code {
                // In a format without -0, -0 is read as 0.
                0 if format.specials == Specials::UnsignedZero => 0,
                code => sign | code,
            }),
        };
        let signless = negative && format.specials == Specials::ExponentOnly && magnitude != "nan";
        code.filter(|_| !signless)
            .ok_or_else(|| self.not_a_number(ty, lexeme))
    }

    /// Reads the `(0x...)` that may follow a `nan`.
    fn nan_payload(&mut self) -> Result<Option<u64>, Error> {
        if !self.eat(Token::ParenOpen) {
            return Ok(None);
        }
        // The digits may be several tokens: `0x7fc0` is `0x7` and `fc0`.
        let start = self.span();
        while matches!(self.peek(), Some(Token::Int | Token::Sizes | Token::Word)) {
            self.take()?;
        }
        let span = self.span_since(start);
        let digits = self.slice(span).strip_prefix("0x");
        let payload = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        self.expect(Token::ParenClose)?;
        match payload {
            Some(payload) => Ok(Some(payload)),
            None => Err(self.error_at(span, "expected a NaN's payload such as `0x7f`")),
        }
    }
}

/// The code of an unsigned decimal number; `None` if the type cannot represent it.
fn finite(ty: ElementType, digits: &str) -> Option<u64> {
    let format = ty.float_format()?;
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let code = match ty {
        // Parsed as `f32` directly, so that it is rounded only once.
        ElementType::F32 => u64::from(digits.parse::<f32>().ok()?.to_bits()),
        _ => format.encode(digits.parse::<f64>().ok()?),
    };
    let negative_zero = code == 0 && format.specials == Specials::UnsignedZero;
    (negative_zero || format.decode(code).is_finite()).then_some(code)
}

fn push_word(bytes: &mut Vec<u8>, ty: ElementType, word: u64) {
    let start = bytes.len();
    bytes.resize(start + ty.storage_bytes(), 0);
    if let Some(place) = bytes.get_mut(start..) {
        write_word(place, word);
    }
}
