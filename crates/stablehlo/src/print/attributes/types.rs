//! Prints types.

use super::{self as attributes};
use crate::mlir::{FunctionType, Signedness, Type};
use std::fmt::Write;

/// Appends the text of a type.
pub(in crate::print) fn write(ty: &Type, out: &mut String) {
    match ty {
        Type::Integer { width, signedness } => {
            let prefix = match signedness {
                Signedness::Signless => "i",
                Signedness::Signed => "si",
                Signedness::Unsigned => "ui",
            };
            let _ = write!(out, "{prefix}{width}");
        }
        Type::Float(kind) => out.push_str(kind.name()),
        Type::Index => out.push_str("index"),
        Type::None => out.push_str("none"),
        Type::Complex(part) => {
            out.push_str("complex<");
            write(part, out);
            out.push('>');
        }
        Type::Function(function) => write_function(function, out),
        Type::Tensor(tensor) => {
            out.push_str("tensor<");
            dimensions(&tensor.dims, out);
            write(&tensor.element, out);
            if let Some(encoding) = &tensor.encoding {
                out.push_str(", ");
                attributes::write(encoding, out);
            }
            out.push('>');
        }
        Type::UnrankedTensor(element) => {
            out.push_str("tensor<*x");
            write(element, out);
            out.push('>');
        }
        Type::Tuple(elements) => {
            out.push_str("tuple<");
            list(elements, out);
            out.push('>');
        }
        Type::Vector(vector) => {
            out.push_str("vector<");
            for (place, dim) in vector.dims.iter().enumerate() {
                let _ = match vector.scalable.get(place) {
                    Some(true) => write!(out, "[{dim}]x"),
                    _ => write!(out, "{dim}x"),
                };
            }
            write(&vector.element, out);
            out.push('>');
        }
        Type::MemRef(memref) => {
            out.push_str("memref<");
            match &memref.dims {
                Some(dims) => dimensions(dims, out),
                None => out.push_str("*x"),
            }
            write(&memref.element, out);
            for rest in memref.layout.iter().chain(&memref.space) {
                out.push_str(", ");
                attributes::write(rest, out);
            }
            out.push('>');
        }
        Type::Dialect { dialect, body } => {
            let _ = write!(out, "!{dialect}.{body}");
        }
    }
}

/// Appends `(inputs) -> results`.
pub(in crate::print) fn write_function(function: &FunctionType, out: &mut String) {
    out.push('(');
    list(&function.inputs, out);
    out.push_str(") -> ");
    match function.results.as_slice() {
        [only] if !matches!(only, Type::Function(_)) => write(only, out),
        results => {
            out.push('(');
            list(results, out);
            out.push(')');
        }
    }
}

/// Appends types with commas between them.
pub(in crate::print) fn list(types: &[Type], out: &mut String) {
    for (place, ty) in types.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        write(ty, out);
    }
}

fn dimensions(dims: &[Option<i64>], out: &mut String) {
    for dim in dims {
        let _ = match dim {
            Some(dim) => write!(out, "{dim}x"),
            None => write!(out, "?x"),
        };
    }
}
