//! Decodes floating-point arithmetic, and instructions that exist for floats and integers.

use super::instruction::{Decoded, Decoding};
use super::integer;
use crate::number::{BF16, F16, Rounding};
use crate::operation::{Float, Float1, Float2, Int1, Int2, Mode, Op, Slot, Type};
use crate::text::ParseError;
use crate::text::syntax::Operand;

/// The arithmetic for a type; `None` if it is not floating-point.
pub(super) fn arithmetic(kind: Type) -> Option<Float> {
    Some(match kind {
        Type::F32 => Float::F32,
        Type::F64 => Float::F64,
        Type::F16 => Float::Half {
            format: F16,
            packed: false,
        },
        Type::F16x2 => Float::Half {
            format: F16,
            packed: true,
        },
        Type::BF16 => Float::Half {
            format: BF16,
            packed: false,
        },
        Type::BF16x2 => Float::Half {
            format: BF16,
            packed: true,
        },
        _ => return None,
    })
}

fn mode(d: &mut Decoding<'_, '_>) -> Mode {
    Mode {
        rounding: d.rounding(),
        ftz: d.take("ftz"),
        saturate: d.take("sat"),
        relu: d.take("relu"),
    }
}

/// Checks that directed rounding is used for `f32` and `f64` only, and `.ftz` not for `f64`.
fn check(d: &Decoding<'_, '_>, float: Float, mode: Mode) -> Result<(), ParseError> {
    let half = matches!(float, Float::Half { .. });
    if half && mode.rounding != Rounding::NearestEven || mode.rounding == Rounding::NearestAway {
        return Err(d.unsupported("this rounding"));
    }
    if float == Float::F64 && (mode.ftz || mode.saturate) {
        return Err(d.unsupported("`.ftz` or `.sat` on f64"));
    }
    Ok(())
}

fn bits(float: Float) -> u32 {
    match float {
        Float::F64 => 64,
        Float::Half { packed: false, .. } => 16,
        _ => 32,
    }
}

fn two(d: &mut Decoding<'_, '_>, f: Float2, float: Float, mode: Mode) -> Decoded {
    check(d, float, mode)?;
    d.operands(3)?;
    let size = bits(float);
    Ok(Op::Float2 {
        float,
        f,
        mode,
        d: d.target_sized(0, size)?,
        a: d.sized(1, size)?,
        b: d.sized(2, size)?,
    })
}

fn one(d: &mut Decoding<'_, '_>, f: Float1, float: Float, mode: Mode) -> Decoded {
    check(d, float, mode)?;
    d.operands(2)?;
    let size = bits(float);
    Ok(Op::Float1 {
        float,
        f,
        mode,
        d: d.target_sized(0, size)?,
        a: d.sized(1, size)?,
    })
}

pub(super) fn add(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    match arithmetic(kind) {
        None => integer::sum(d, false, false, kind),
        Some(float) => {
            let mode = mode(d);
            two(d, Float2::Add, float, mode)
        }
    }
}

pub(super) fn sub(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    match arithmetic(kind) {
        None => integer::sum(d, true, false, kind),
        Some(float) => {
            let mode = mode(d);
            two(d, Float2::Sub, float, mode)
        }
    }
}

pub(super) fn mul(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    match arithmetic(kind) {
        None => integer::multiply(d, kind),
        Some(float) => {
            let mode = mode(d);
            two(d, Float2::Mul, float, mode)
        }
    }
}

/// `fma`, and `mad` for floats, which is the same on all supported targets.
pub(super) fn fma(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    let Some(float) = arithmetic(kind) else {
        return Err(d.unsupported("this type"));
    };
    let mode = mode(d);
    check(d, float, mode)?;
    d.operands(4)?;
    let size = bits(float);
    Ok(Op::Fma {
        float,
        mode,
        d: d.target_sized(0, size)?,
        a: d.sized(1, size)?,
        b: d.sized(2, size)?,
        c: d.sized(3, size)?,
    })
}

pub(super) fn mad(d: &mut Decoding<'_, '_>) -> Decoded {
    let float = d
        .raw
        .modifiers
        .iter()
        .any(|m| Type::parse(m).and_then(arithmetic).is_some());
    if float {
        fma(d)
    } else {
        integer::mad(d, false)
    }
}

pub(super) fn div(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    match arithmetic(kind) {
        None => integer::two(d, Int2::Div, kind),
        Some(float @ (Float::F32 | Float::F64)) => {
            // Approximate quotients are rounded to nearest, which is within their allowed error.
            d.ignore(&["approx", "full"]);
            let mode = mode(d);
            two(d, Float2::Div, float, mode)
        }
        Some(_) => Err(d.unsupported("this type")),
    }
}

pub(super) fn extreme(d: &mut Decoding<'_, '_>, largest: bool) -> Decoded {
    let kind = d.kind()?;
    let Some(float) = arithmetic(kind) else {
        return integer::two(d, if largest { Int2::Max } else { Int2::Min }, kind);
    };
    let mode = mode(d);
    let f = match (largest, d.take("NaN")) {
        (false, false) => Float2::Min,
        (false, true) => Float2::MinNan,
        (true, false) => Float2::Max,
        (true, true) => Float2::MaxNan,
    };
    if d.raw.operands.len() == 4 {
        return Err(d.unsupported("an operation of three operands"));
    }
    two(d, f, float, mode)
}

pub(super) fn sign(d: &mut Decoding<'_, '_>, float1: Float1, int: Int1) -> Decoded {
    let kind = d.kind()?;
    match arithmetic(kind) {
        None => integer::one(d, int, kind),
        Some(float) => {
            let mode = mode(d);
            one(d, float1, float, mode)
        }
    }
}

/// Functions of one operand.
pub(super) fn function(d: &mut Decoding<'_, '_>, f: Float1) -> Decoded {
    let kind = d.kind()?;
    let approximate = d.take("approx");
    let Some(float) = arithmetic(kind) else {
        return Err(d.unsupported("this type"));
    };
    if float == Float::F64 && approximate {
        let f = match f {
            Float1::Rcp => Float1::RcpHigh,
            Float1::Rsqrt => Float1::RsqrtHigh,
            _ => return Err(d.unsupported("this type")),
        };
        d.ignore(&["ftz"]);
        return one(d, f, float, Mode::PLAIN);
    }
    let exact = matches!(f, Float1::Sqrt | Float1::Rcp);
    if matches!(float, Float::Half { .. }) && !matches!(f, Float1::Ex2 | Float1::Tanh)
        || float == Float::F64 && !exact
        || !exact && !approximate
    {
        return Err(d.unsupported("this type or precision"));
    }
    let mode = mode(d);
    one(d, f, float, mode)
}

pub(super) fn copysign(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    match arithmetic(kind) {
        Some(float @ (Float::F32 | Float::F64)) => two(d, Float2::CopySign, float, Mode::PLAIN),
        _ => Err(d.unsupported("this type")),
    }
}

/// `testp`; the property is stored as an index into [`PROPERTIES`].
pub(super) fn testp(d: &mut Decoding<'_, '_>) -> Decoded {
    let found = d.take_as(|m| PROPERTIES.iter().position(|p| *p == m));
    let Some(property) = found else {
        return Err(d.error("`testp` needs a property such as `.finite`"));
    };
    let kind = d.kind()?;
    d.operands(2)?;
    let a = d.sized(1, kind.bits())?;
    let wide = matches!(a, Slot::D(_));
    Ok(Op::TestFloat {
        wide,
        property: property as u8,
        d: d.target_predicate(0)?,
        a,
    })
}

/// The properties that `testp` can test.
pub(super) const PROPERTIES: [&str; 6] = [
    "finite",
    "infinite",
    "number",
    "notanumber",
    "normal",
    "subnormal",
];

/// Whether an operand is the sink `_`.
pub(super) fn is_sink(operand: &Operand<'_>) -> bool {
    matches!(operand, Operand::Name("_"))
}
