//! Decodes `cvt`.

use super::instruction::{Decoded, Decoding};
use crate::number::Rounding;
use crate::operation::{Convert, Op, Type};
use crate::text::ParseError;

fn is_float(kind: Type) -> bool {
    matches!(kind, Type::F16 | Type::BF16 | Type::F32 | Type::F64)
}

pub(super) fn cvt(d: &mut Decoding<'_, '_>) -> Decoded {
    let (to, from) = (d.kind()?, d.kind()?);
    let relu = d.take("relu");
    let satfinite = d.take("satfinite");
    match (to, from) {
        (Type::F16x2 | Type::BF16x2 | Type::E4M3x2 | Type::E5M2x2, Type::F32) => {
            let rounding = d.rounding();
            d.operands(3)?;
            let (a, b) = (d.word(1)?, d.word(2)?);
            return Ok(Op::ConvertPair {
                to,
                rounding,
                relu,
                satfinite,
                d: d.target_word(0)?,
                a,
                b,
            });
        }
        (Type::F16x2, Type::E4M3x2 | Type::E5M2x2) => {
            d.rounding();
            d.operands(2)?;
            return Ok(Op::UnpackPair {
                from,
                relu,
                d: d.target_word(0)?,
                a: d.word(1)?,
            });
        }
        (Type::TF32, Type::F32) => {}
        _ if is_float(to) || to.is_integer() => {
            if !(is_float(from) || from.is_integer()) {
                return Err(d.unsupported("this conversion"));
            }
        }
        _ => return Err(d.unsupported("this conversion")),
    }
    scalar(d, to, from, relu, satfinite)
}

fn scalar(d: &mut Decoding<'_, '_>, to: Type, from: Type, relu: bool, satfinite: bool) -> Decoded {
    let integral = d.take_as(integral_rounding);
    let stated = d.take_as(super::instruction::rounding);
    let (ftz, saturate) = (d.take("ftz"), d.take("sat"));
    let rounding = rounding_of(d, to, from, integral, stated)?;
    d.operands(2)?;
    // A register may be wider than the source type; an immediate has the source type's width.
    let a = d.value(1, from.bits().max(32))?;
    Ok(Op::Convert(Box::new(Convert {
        from,
        to,
        rounding,
        integral: integral.is_some() || to.is_integer(),
        ftz,
        saturate,
        relu,
        satfinite,
        d: d.target(0)?,
        a,
    })))
}

/// The rounding of a conversion. It must be stated if the conversion can be inexact.
fn rounding_of(
    d: &Decoding<'_, '_>,
    to: Type,
    from: Type,
    integral: Option<Rounding>,
    stated: Option<Rounding>,
) -> Result<Rounding, ParseError> {
    let to_integer = to.is_integer() && is_float(from);
    let same_size = is_float(to) && is_float(from) && to.bits() == from.bits();
    let loses = is_float(to) && (from.is_integer() || to.bits() < from.bits()) || to_integer;
    if loses && integral.is_none() && stated.is_none() {
        return Err(d.error("this `cvt` needs a rounding such as `.rn` or `.rzi`"));
    }
    if integral.is_some() && !(to_integer || same_size) {
        return Err(d.unsupported("rounding to an integer"));
    }
    Ok(integral.or(stated).unwrap_or(Rounding::NearestEven))
}

fn integral_rounding(word: &str) -> Option<Rounding> {
    Some(match word {
        "rni" => Rounding::NearestEven,
        "rzi" => Rounding::Zero,
        "rmi" => Rounding::Down,
        "rpi" => Rounding::Up,
        _ => return None,
    })
}
