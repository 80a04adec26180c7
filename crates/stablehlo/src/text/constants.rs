//! Reads the elements of constants: `dense<...>` and `dense_resource<...>`.

use super::{Parser, attributes::float_bits, scanner::Scanner, scanner::parse_integer};
use crate::mlir::{Attribute, Elements, Type};
use crate::{Bytes, Error};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The positions in the text of resources' hexadecimal contents, by key.
pub(super) struct Resources {
    places: FxHashMap<String, (usize, usize)>,
}

impl Resources {
    /// Finds the resources in a text: `{-# dialect_resources: { builtin: { key: "0x..." } } #-}`.
    pub(super) fn find(text: &str) -> Self {
        let mut places = FxHashMap::default();
        if let Some(start) = text.rfind("{-#") {
            let mut scanner = Scanner::new(text);
            scanner.go_to(start + 3);
            while !scanner.at_end() && !scanner.eat("#-}") {
                let quoted = scanner.peek() == Some(b'"');
                let key = match quoted {
                    true => scanner.string().unwrap_or_default(),
                    false => scanner.sigil_name().to_owned(),
                };
                let has_value = scanner.eat(":") && scanner.peek() == Some(b'"');
                let from = scanner.offset();
                if has_value && scanner.raw_string().is_ok() {
                    places.insert(key, (from, scanner.offset()));
                } else if scanner.peek_directly().is_some() && key.is_empty() {
                    // Brackets and commas are skipped.
                    let skipped = ["{", "}", ",", ":", "#-}"];
                    if !skipped.iter().any(|one| scanner.eat(one)) {
                        break;
                    }
                }
            }
        }
        Self { places }
    }
}

impl Parser<'_> {
    /// Reads `dense<elements> : type`.
    pub(super) fn dense(&mut self) -> Result<Attribute, Error> {
        self.scanner.expect_word("dense")?;
        self.scanner.expect("<")?;
        let start = self.scanner.offset();
        self.scanner.balanced(b'>')?;
        let inside_end = self.scanner.offset() - 1;
        self.scanner.expect(":")?;
        let ty = self.ty()?;
        let end = self.scanner.offset();
        self.scanner.go_to(start);
        let elements = self.elements(ty, inside_end)?;
        self.scanner.go_to(end);
        Ok(Attribute::Elements(Arc::new(elements)))
    }

    /// Reads `dense_resource<key> : type`.
    pub(super) fn dense_resource(&mut self) -> Result<Attribute, Error> {
        self.scanner.expect_word("dense_resource")?;
        self.scanner.expect("<")?;
        let key = match self.scanner.peek() {
            Some(b'"') => self.scanner.string()?,
            _ => self.scanner.sigil_name().to_owned(),
        };
        self.scanner.expect(">")?;
        self.scanner.expect(":")?;
        let ty = self.ty()?;
        let Some(&(start, end)) = self.resources.places.get(&key) else {
            return Err(self.scanner.error(format!(
                "the resource `{key}` has no content in this text: it was elided"
            )));
        };
        let text = self.scanner.between(start, end).trim().trim_matches('"');
        let bytes = hexadecimal(text).ok_or_else(|| {
            self.scanner
                .error_at(start, "expected a resource's content as `0x...`")
        })?;
        // The first four bytes are the alignment.
        let content = bytes.get(4..).unwrap_or_default().to_vec();
        let elements = Elements::from_raw(ty, content.into());
        let elements = elements.map_err(|why| self.scanner.error_at(start, why))?;
        Ok(Attribute::Elements(Arc::new(elements)))
    }

    /// Reads the elements of a constant of this type, up to `end`.
    fn elements(&mut self, ty: Type, end: usize) -> Result<Elements, Error> {
        let start = self.scanner.offset();
        let shape = ty.shaped().and_then(|(dims, element)| {
            let element = element.clone();
            let size = element.storage_bytes()?;
            let dims: Option<Vec<i64>> = dims.into_iter().collect();
            Some((dims?, element, size))
        });
        let Some((dims, element, size)) = shape else {
            return Err(self.scanner.error_at(
                start,
                "the type of a dense constant has no fixed size, or its elements are not numbers",
            ));
        };
        if self.scanner.peek() == Some(b'"') {
            let text = self.scanner.raw_string()?;
            let bytes = hexadecimal(text);
            let bytes = bytes.ok_or_else(|| {
                self.scanner
                    .error_at(start, "expected the elements as `\"0x...\"` or numbers")
            })?;
            return Elements::from_raw(ty, bytes.into())
                .map_err(|why| self.scanner.error_at(start, why));
        }
        let mut bytes = Vec::new();
        let count = ty.element_count();
        let splat = self.scanner.peek() != Some(b'[') && self.scanner.offset() < end;
        if splat {
            self.element(&element, size, &mut bytes)?;
        } else if self.scanner.offset() < end {
            self.nested_elements(&dims, &element, size, &mut bytes)?;
        }
        if self.scanner.peek() != Some(b'>') {
            return Err(self.scanner.error("expected `>` after the elements"));
        }
        let found = (bytes.len() / size.max(1)) as u64;
        if !splat && count != Some(found) {
            let count = count.unwrap_or_default();
            return Err(self
                .scanner
                .error_at(start, format!("expected {count} elements, found {found}")));
        }
        Ok(Elements {
            ty,
            bytes: Bytes::from(bytes),
            splat: splat || count == Some(1),
        })
    }

    fn nested_elements(
        &mut self,
        dims: &[i64],
        element: &Type,
        size: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some((&dim, inner)) = dims.split_first() else {
            return self.element(element, size, bytes);
        };
        let place = self.scanner.offset();
        let items = self.list("[", "]", |parser| {
            parser.nested(|parser| parser.nested_elements(inner, element, size, bytes))
        })?;
        if items.len() as i64 != dim {
            return Err(self.scanner.error_at(
                place,
                format!("expected {dim} elements here, found {}", items.len()),
            ));
        }
        Ok(())
    }

    fn element(&mut self, ty: &Type, size: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        if let Type::Complex(part) = ty {
            self.scanner.expect("(")?;
            self.element(part, size / 2, bytes)?;
            self.scanner.expect(",")?;
            self.element(part, size / 2, bytes)?;
            return self.scanner.expect(")");
        }
        self.scanner.peek();
        let start = self.scanner.offset();
        let bits = match self.scanner.number() {
            Some(text) => match ty {
                Type::Float(kind) => float_bits(text, *kind),
                _ => parse_integer(text).and_then(|value| integer_bits(value, ty)),
            },
            None => match self.scanner.word() {
                Some("true") if *ty == Type::BOOL => Some(1),
                Some("false") if *ty == Type::BOOL => Some(0),
                _ => None,
            },
        };
        let Some(bits) = bits else {
            let ty = crate::print::type_text(ty);
            return Err(self
                .scanner
                .error_at(start, format!("expected an element of type {ty}")));
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..size.min(8)]);
        Ok(())
    }
}

/// The bits of an integer of a type, sign-extended to whole bytes; [`None`] if it does not fit.
fn integer_bits(value: i64, ty: &Type) -> Option<u64> {
    let width = match ty {
        Type::Integer { width, .. } => *width,
        Type::Index => 64,
        _ => return None,
    };
    if width == 1 {
        return matches!(value, -1..=1).then_some((value != 0).into());
    }
    if width >= 64 {
        return Some(value as u64);
    }
    // A signless type takes both signed and unsigned numbers.
    let fits = value >= -(1 << (width - 1)) && value < 1 << width;
    if !fits {
        return None;
    }
    let unsigned = matches!(
        ty,
        Type::Integer {
            signedness: crate::mlir::Signedness::Unsigned,
            ..
        }
    );
    let shift = 64 - width;
    Some(match unsigned {
        true => ((value as u64) << shift) >> shift,
        false => ((value << shift) >> shift) as u64,
    })
}

/// Decodes `0x...` to bytes.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?;
    if digits.len() % 2 != 0 {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}
