//! Quoted strings, with C's escapes.

use std::fmt::Write;

/// The contents of a quoted string. Bytes that are not UTF-8 are replaced.
pub(crate) fn unescape(quoted: &str) -> String {
    let inner = quoted.get(1..quoted.len().saturating_sub(1));
    let inner = inner.unwrap_or_default();
    if !inner.contains('\\') {
        return inner.to_owned();
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'x') => {
                let digits = take_digits(&mut rest, 16, 2);
                bytes.push(digits.unwrap_or(b'x'));
            }
            Some(first @ b'0'..=b'7') => {
                let first = first - b'0';
                let mut value = first;
                for _ in 0..2 {
                    let Some(&digit @ b'0'..=b'7') = rest.peek() else {
                        break;
                    };
                    rest.next();
                    value = value.wrapping_mul(8).wrapping_add(digit - b'0');
                }
                bytes.push(value);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn take_digits(
    rest: &mut std::iter::Peekable<std::str::Bytes<'_>>,
    radix: u32,
    most: usize,
) -> Option<u8> {
    let mut value: Option<u8> = None;
    for _ in 0..most {
        let Some(digit) = rest.peek().and_then(|&b| char::from(b).to_digit(radix)) else {
            break;
        };
        rest.next();
        value = Some(
            value
                .unwrap_or(0)
                .wrapping_mul(radix as u8)
                .wrapping_add(digit as u8),
        );
    }
    value
}

/// The text in quotes, with escapes that [`unescape`] reverses.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_ascii_control() => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\{:03o}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
