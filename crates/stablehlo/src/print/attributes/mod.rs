//! Prints attributes.

pub(super) mod types;

use crate::mlir::{Attribute, Attributes, Elements, FloatKind, Location, Type};
use crate::number::float_to_f64;
use std::fmt::Write;

/// The maximum number of elements of a constant that are not written as hexadecimal digits.
const MAX_WRITTEN_ELEMENTS: u64 = 256;

/// Appends the text of an attribute.
pub(super) fn write(attribute: &Attribute, out: &mut String) {
    match attribute {
        Attribute::Unit => out.push_str("unit"),
        Attribute::Integer { value, ty } if *ty == Type::BOOL => {
            out.push_str(if *value != 0 { "true" } else { "false" });
        }
        Attribute::Integer { value, ty } => {
            integer(*value, ty, out);
            out.push_str(" : ");
            types::write(ty, out);
        }
        Attribute::Float { bits, ty } => {
            if let Type::Float(kind) = ty {
                float(*bits, *kind, out);
            }
            out.push_str(" : ");
            types::write(ty, out);
        }
        Attribute::String(text) => string(text, out),
        Attribute::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                comma(place, out);
                write(element, out);
            }
            out.push(']');
        }
        Attribute::Dictionary(entries) => dictionary(entries, out),
        Attribute::Symbol(names) => {
            for (place, name) in names.iter().enumerate() {
                if place > 0 {
                    out.push_str("::");
                }
                symbol(name, out);
            }
        }
        Attribute::Type(ty) => types::write(ty, out),
        Attribute::Elements(elements) => constant(elements, out),
        Attribute::IntegerArray { element, values } => {
            array(element, values.iter(), out, |value, out| {
                match *element == Type::BOOL {
                    true => out.push_str(if *value != 0 { "true" } else { "false" }),
                    false => integer(*value, element, out),
                }
            });
        }
        Attribute::FloatArray { element, values } => {
            array(element, values.iter(), out, |bits, out| {
                if let Type::Float(kind) = element {
                    float(*bits, *kind, out);
                }
            });
        }
        Attribute::Enum {
            dialect,
            kind,
            case,
        } => {
            let _ = write!(out, "#{dialect}<{kind} {case}>");
        }
        Attribute::Struct {
            dialect,
            name,
            fields,
        } => structure(dialect, name, fields, out),
        Attribute::Location(location) => {
            out.push_str("loc(");
            write_location(location, out);
            out.push(')');
        }
        Attribute::Opaque { dialect, body } if dialect.is_empty() => out.push_str(body),
        Attribute::Opaque { dialect, body } if is_named(body) => {
            let _ = write!(out, "#{dialect}.{body}");
        }
        Attribute::Opaque { dialect, body } => {
            let _ = write!(out, "#{dialect}<{body}>");
        }
    }
}

/// Whether the body of a dialect's attribute is a name, with or without parameters in angle
/// brackets: only then may it follow a dot.
fn is_named(body: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    let rest = body.trim_start_matches(is_of_name);
    rest.len() < body.len() && (rest.is_empty() || (rest.starts_with('<') && rest.ends_with('>')))
}

fn comma(place: usize, out: &mut String) {
    if place > 0 {
        out.push_str(", ");
    }
}

/// Appends `{name = value, name}`.
pub(super) fn dictionary(entries: &Attributes, out: &mut String) {
    out.push('{');
    for (place, (name, value)) in entries.iter().enumerate() {
        comma(place, out);
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'))
            && !name.starts_with(|c: char| c.is_ascii_digit());
        match plain && !name.is_empty() {
            true => out.push_str(name),
            false => string(name, out),
        }
        if *value != Attribute::Unit {
            out.push_str(" = ");
            write(value, out);
        }
    }
    out.push('}');
}

/// Appends a text in double quotes, with escapes.
pub(super) fn string(text: &str, out: &mut String) {
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out.push('"');
}

/// Appends `@name`.
pub(super) fn symbol(name: &str, out: &mut String) {
    let plain = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'))
        && !name.starts_with(|c: char| c.is_ascii_digit());
    out.push('@');
    match plain && !name.is_empty() {
        true => out.push_str(name),
        false => string(name, out),
    }
}

fn integer(value: i64, ty: &Type, out: &mut String) {
    let unsigned = matches!(
        ty,
        Type::Integer {
            signedness: crate::mlir::Signedness::Unsigned,
            ..
        }
    );
    let _ = match unsigned {
        true => write!(out, "{}", value as u64),
        false => write!(out, "{value}"),
    };
}

/// Appends a number that reads back with the same bits; in decimal form if it is finite.
pub(super) fn float(bits: u64, kind: FloatKind, out: &mut String) {
    let decimal = match kind {
        FloatKind::F32 => {
            let value = f32::from_bits(bits as u32);
            value.is_finite().then(|| format!("{value:e}"))
        }
        _ => float_to_f64(bits, kind)
            .filter(|value| value.is_finite())
            .map(|value| format!("{value:e}")),
    };
    match decimal {
        Some(decimal) => {
            // MLIR requires a decimal point in every decimal number.
            let (mantissa, exponent) = decimal.split_once('e').unwrap_or((&decimal, "0"));
            out.push_str(mantissa);
            if !mantissa.contains('.') {
                out.push_str(".0");
            }
            let _ = match exponent.strip_prefix('-') {
                Some(digits) => write!(out, "e-{digits}"),
                None => write!(out, "e+{exponent}"),
            };
        }
        None => {
            let digits = kind.bits().div_ceil(4) as usize;
            let _ = write!(out, "0x{bits:0digits$X}");
        }
    }
}

fn array<T>(
    element: &Type,
    values: impl ExactSizeIterator<Item = T>,
    out: &mut String,
    mut one: impl FnMut(T, &mut String),
) {
    out.push_str("array<");
    types::write(element, out);
    for (place, value) in values.enumerate() {
        out.push_str(if place == 0 { ": " } else { ", " });
        one(value, out);
    }
    out.push('>');
}

fn structure(dialect: &str, name: &str, fields: &Attributes, out: &mut String) {
    if name == "bounds" {
        let bounds = fields.first().and_then(|(_, bounds)| bounds.as_integers());
        let _ = write!(out, "#{dialect}.bounds<");
        for (place, bound) in bounds.unwrap_or_default().into_iter().enumerate() {
            comma(place, out);
            let _ = match bound {
                i64::MIN => write!(out, "?"),
                bound => write!(out, "{bound}"),
            };
        }
        out.push('>');
        return;
    }
    if name == "conv"
        && let Some(labels) = convolution(fields)
    {
        let _ = write!(out, "#{dialect}.conv<{labels}>");
        return;
    }
    let _ = write!(out, "#{dialect}.{name}<");
    write_fields(fields, out);
    out.push('>');
}

/// Appends `name = value, ...` in the form of structured attributes: integers without types, and
/// without empty lists.
pub(super) fn write_fields(fields: &Attributes, out: &mut String) {
    let mut written = 0;
    for (name, value) in fields {
        let list = match value {
            Attribute::IntegerArray { .. } => value.as_integers(),
            _ => None,
        };
        if list.as_ref().is_some_and(Vec::is_empty) && !name.ends_with("indices") {
            continue;
        }
        comma(written, out);
        written += 1;
        out.push_str(name);
        out.push_str(" = ");
        match (list, value) {
            (Some(list), _) => integers(&list, out),
            (None, Attribute::Integer { value, ty }) if *ty != Type::BOOL => {
                let _ = write!(out, "{value}");
            }
            (
                None,
                Attribute::Float {
                    bits,
                    ty: Type::Float(kind),
                },
            ) => float(*bits, *kind, out),
            (None, value) => write(value, out),
        }
    }
}

/// Appends `[0, 1]`.
pub(super) fn integers(values: &[i64], out: &mut String) {
    let _ = write!(out, "{values:?}");
}

/// `[b, 0, f]x[0, i, o]->[b, 0, f]`, if the labels cover each dimension exactly once.
pub(super) fn convolution(fields: &Attributes) -> Option<String> {
    let sides = [
        ("input", ["batch", "feature"], ["b", "f"]),
        ("kernel", ["input_feature", "output_feature"], ["i", "o"]),
        ("output", ["batch", "feature"], ["b", "f"]),
    ];
    let mut text = String::new();
    for (place, (side, names, letters)) in sides.into_iter().enumerate() {
        let field = |name: String| {
            let found = fields.iter().find(|(key, _)| **key == *name);
            found.and_then(|(_, value)| value.as_integers())
        };
        let spatial = field(format!("{side}_spatial_dimensions"))?;
        let mut labels = vec![String::new(); spatial.len() + 2];
        let mut put = |at: i64, label: String| {
            let slot = labels.get_mut(usize::try_from(at).ok()?)?;
            slot.is_empty().then(|| *slot = label)
        };
        for (name, letter) in names.into_iter().zip(letters) {
            let at = field(format!("{side}_{name}_dimension"))?;
            put(*at.first()?, letter.to_owned())?;
        }
        for (dimension, at) in spatial.into_iter().enumerate() {
            put(at, dimension.to_string())?;
        }
        text.push_str(["", "x", "->"][place]);
        let _ = write!(text, "[{}]", labels.join(", "));
    }
    Some(text)
}

/// Appends `dense<...> : type`.
fn constant(elements: &Elements, out: &mut String) {
    out.push_str("dense<");
    write_elements(elements, out);
    out.push_str("> : ");
    types::write(&elements.ty, out);
}

fn write_elements(elements: &Elements, out: &mut String) {
    let Some((dims, element)) = elements.ty.shaped() else {
        return;
    };
    let count = elements.ty.element_count().unwrap_or_default();
    let size = element.storage_bytes().unwrap_or(1);
    if count == 0 {
        return;
    }
    if elements.splat {
        write_element(&elements.bytes, element, out);
        return;
    }
    // Versions of MLIR differ in the hexadecimal form of truth values.
    if count > MAX_WRITTEN_ELEMENTS && *element != Type::BOOL {
        hexadecimal(elements, out);
        return;
    }
    let dims: Vec<usize> = dims
        .into_iter()
        .map(|dim| usize::try_from(dim.unwrap_or_default()).unwrap_or_default())
        .collect();
    let mut chunks = elements.bytes.chunks_exact(size);
    write_nested(&dims, &mut chunks, element, out);
}

fn hexadecimal(elements: &Elements, out: &mut String) {
    out.push_str("\"0x");
    out.reserve(2 * elements.bytes.len());
    for byte in &elements.bytes[..] {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from(b"0123456789ABCDEF"[digit as usize]));
        }
    }
    out.push('"');
}

fn write_nested<'b>(
    dims: &[usize],
    chunks: &mut impl Iterator<Item = &'b [u8]>,
    element: &Type,
    out: &mut String,
) {
    let Some((&dim, inner)) = dims.split_first() else {
        if let Some(chunk) = chunks.next() {
            write_element(chunk, element, out);
        }
        return;
    };
    out.push('[');
    for place in 0..dim {
        comma(place, out);
        write_nested(inner, chunks, element, out);
    }
    out.push(']');
}

fn write_element(bytes: &[u8], ty: &Type, out: &mut String) {
    let mut wide = [0; 8];
    let length = bytes.len().min(8);
    wide[..length].copy_from_slice(&bytes[..length]);
    let bits = u64::from_le_bytes(wide);
    match ty {
        Type::Complex(part) => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            out.push('(');
            write_element(real, part, out);
            out.push_str(", ");
            write_element(imaginary, part, out);
            out.push(')');
        }
        Type::Float(kind) => float(bits, *kind, out),
        ty if *ty == Type::BOOL => out.push_str(if bits != 0 { "true" } else { "false" }),
        ty => {
            let shift = 64 - 8 * length.max(1) as u32;
            let signed = ((bits << shift) as i64) >> shift;
            let unsigned = (bits << shift) >> shift;
            let is_unsigned = matches!(
                ty,
                Type::Integer {
                    signedness: crate::mlir::Signedness::Unsigned,
                    ..
                }
            );
            integer(if is_unsigned { unsigned as i64 } else { signed }, ty, out);
        }
    }
}

fn write_location(location: &Location, out: &mut String) {
    match location {
        Location::Unknown => out.push_str("unknown"),
        Location::File { file, range } => {
            string(file, out);
            let _ = write!(out, ":{}:{}", range[0], range[1]);
        }
        Location::Name { name, child } => {
            string(name, out);
            if **child != Location::Unknown {
                out.push('(');
                write_location(child, out);
                out.push(')');
            }
        }
        Location::CallSite { callee, caller } => {
            out.push_str("callsite(");
            write_location(callee, out);
            out.push_str(" at ");
            write_location(caller, out);
            out.push(')');
        }
        Location::Fused {
            locations,
            metadata,
        } => {
            out.push_str("fused");
            if let Some(metadata) = metadata {
                out.push('<');
                write(metadata, out);
                out.push('>');
            }
            out.push('[');
            for (place, location) in locations.iter().enumerate() {
                comma(place, out);
                write_location(location, out);
            }
            out.push(']');
        }
    }
}
