//! Decodes `mma.sync`, `ldmatrix`, `stmatrix`.

use super::instruction::{Decoded, Decoding};
use crate::number::{BF16, F16, TF32};
use crate::operation::{Collective, MatrixType, Multiply, Op, R32, Space, Type};
use crate::text::ParseError;

/// An element type of `mma`, and the number of elements in a register.
fn element(word: &str) -> Option<(MatrixType, u32)> {
    Some(match word {
        "f16" => (MatrixType::Float(F16), 2),
        "bf16" => (MatrixType::Float(BF16), 2),
        "tf32" => (MatrixType::Float(TF32), 1),
        "e4m3" => (MatrixType::Float(crate::number::E4M3), 4),
        "e5m2" => (MatrixType::Float(crate::number::E5M2), 4),
        "u8" => (MatrixType::U8, 4),
        "s8" => (MatrixType::S8, 4),
        _ => return None,
    })
}

pub(super) fn mma(d: &mut Decoding<'_, '_>) -> Decoded {
    if !d.take("sync") {
        return Err(d.unsupported("the form without `.sync`"));
    }
    d.ignore(&["aligned", "kind::f8f6f4"]);
    let shapes = [
        ("m16n8k4", 4),
        ("m16n8k8", 8),
        ("m16n8k16", 16),
        ("m16n8k32", 32),
    ];
    let Some(k) = d.take_as(|m| shapes.iter().find(|s| s.0 == m).map(|s| s.1)) else {
        return Err(d.unsupported("this shape"));
    };
    if !(d.take("row") && d.take("col")) {
        return Err(d.unsupported("a layout other than `.row.col`"));
    }
    let saturate = d.take("satfinite");
    let result = d.kind()?;
    let (Some((a_type, a_each)), Some((b_type, _))) = (d.take_as(element), d.take_as(element))
    else {
        return Err(d.unsupported("this element type"));
    };
    if d.kind()? != result {
        return Err(d.unsupported("an accumulator of another type than the result"));
    }
    let integers = matches!(a_type, MatrixType::U8 | MatrixType::S8);
    let fits = match (a_type, k) {
        (MatrixType::Float(format), 4 | 8) if format == TF32 => true,
        (MatrixType::Float(format), 8 | 16) if format == F16 || format == BF16 => true,
        (_, 16 | 32) if integers => true,
        (MatrixType::Float(_), 32) if a_each == 4 => true,
        _ => false,
    };
    let types = match result {
        Type::S32 => integers,
        Type::F32 => !integers,
        Type::F16 => a_type == MatrixType::Float(F16),
        _ => false,
    };
    if !fits
        || !types
        || std::mem::discriminant(&b_type) != std::mem::discriminant(&a_type) && !integers
    {
        return Err(d.unsupported("this combination of shape and types"));
    }
    d.operands(4)?;
    let results = if result == Type::F16 { 2 } else { 4 };
    let multiply = Multiply {
        k,
        a_type,
        b_type,
        result,
        saturate,
        d: fragment(d, 0, results)?,
        a: fragment(d, 1, (16 * k / 32 / a_each) as usize)?,
        b: fragment(d, 2, (8 * k / 32 / a_each) as usize)?,
        c: fragment(d, 3, results)?,
    };
    let members = super::control::everyone(d);
    Ok(Op::Collective {
        what: Collective::Multiply(Box::new(multiply)),
        members,
    })
}

fn fragment(d: &mut Decoding<'_, '_>, index: usize, count: usize) -> Result<Vec<R32>, ParseError> {
    let registers = d.words(index)?;
    if registers.len() == count {
        return Ok(registers);
    }
    Err(d.error(format!(
        "operand {} of this `mma` must have {count} registers, and {} are given",
        index + 1,
        registers.len()
    )))
}

/// `ldmatrix` and `stmatrix`.
pub(super) fn matrix(d: &mut Decoding<'_, '_>, load: bool) -> Decoded {
    if !d.take("sync") || !d.take("m8n8") {
        return Err(d.unsupported("this form"));
    }
    d.ignore(&["aligned", "shared", "shared::cta"]);
    let transposed = d.take("trans");
    let counts = [("x1", 1u32), ("x2", 2), ("x4", 4)];
    let Some(count) = d.take_as(|m| counts.iter().find(|c| c.0 == m).map(|c| c.1)) else {
        return Err(d.unsupported("this number of matrices"));
    };
    if d.kind()? != Type::B16 {
        return Err(d.unsupported("this type"));
    }
    d.operands(2)?;
    let list = d.words(usize::from(!load))?;
    if list.len() as u32 != count {
        return Err(d.error(format!("{count} registers are needed")));
    }
    let mut registers = [list[0]; 4];
    registers[..list.len()].copy_from_slice(&list);
    let address = d.address(usize::from(load), Space::Shared)?;
    let what = if load {
        Collective::LoadMatrix {
            count,
            transposed,
            registers,
            address,
        }
    } else {
        Collective::StoreMatrix {
            count,
            transposed,
            registers,
            address,
        }
    };
    let members = super::control::everyone(d);
    Ok(Op::Collective { what, members })
}
