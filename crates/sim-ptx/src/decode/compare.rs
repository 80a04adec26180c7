//! Decodes comparisons and selections.

use super::instruction::{Decoded, Decoding};
use crate::number::{BF16, F16};
use crate::operation::{Compare, Compared, Comparison, Logic, Op, Type};
use crate::text::ParseError;
use crate::text::syntax::Operand;

fn comparison(word: &str) -> Option<Comparison> {
    Some(match word {
        "eq" => Comparison::Eq,
        "ne" => Comparison::Ne,
        "lt" | "lo" => Comparison::Lt,
        "le" | "ls" => Comparison::Le,
        "gt" | "hi" => Comparison::Gt,
        "ge" | "hs" => Comparison::Ge,
        "equ" => Comparison::Equ,
        "neu" => Comparison::Neu,
        "ltu" => Comparison::Ltu,
        "leu" => Comparison::Leu,
        "gtu" => Comparison::Gtu,
        "geu" => Comparison::Geu,
        "num" => Comparison::Num,
        "nan" => Comparison::Nan,
        _ => return None,
    })
}

fn logic(word: &str) -> Option<Logic> {
    Some(match word {
        "and" => Logic::And,
        "or" => Logic::Or,
        "xor" => Logic::Xor,
        _ => return None,
    })
}

/// A comparison whose operands begin at operand 1, and whether they are packed.
fn compare(d: &mut Decoding<'_, '_>, kind: Type) -> Result<(Compare, bool), ParseError> {
    let Some(how) = d.take_as(comparison) else {
        return Err(d.error("a comparison such as `.lt` is missing"));
    };
    let combined = d.take_as(logic);
    let ftz = d.take("ftz");
    let (compared, packed) = match kind {
        Type::B16 | Type::U16 => (Compared::U16, false),
        Type::S16 => (Compared::S16, false),
        Type::B32 | Type::U32 => (Compared::U32, false),
        Type::S32 => (Compared::S32, false),
        Type::B64 | Type::U64 => (Compared::U64, false),
        Type::S64 => (Compared::S64, false),
        Type::F32 => (Compared::F32 { ftz }, false),
        Type::F64 => (Compared::F64, false),
        Type::F16 => (Compared::Half { format: F16, ftz }, false),
        Type::BF16 => (Compared::Half { format: BF16, ftz }, false),
        Type::F16x2 => (Compared::Half { format: F16, ftz }, true),
        Type::BF16x2 => (Compared::Half { format: BF16, ftz }, true),
        _ => return Err(d.unsupported("this type")),
    };
    d.operands(if combined.is_some() { 4 } else { 3 })?;
    let combine = match combined {
        Some(logic) => Some((logic, d.test(3)?)),
        None => None,
    };
    let (a, b) = (d.sized(1, kind.bits())?, d.sized(2, kind.bits())?);
    Ok((
        Compare {
            kind: compared,
            how,
            a,
            b,
            combine,
        },
        packed,
    ))
}

pub(super) fn setp(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    let (compare, packed) = compare(d, kind)?;
    let compare = Box::new(compare);
    let (first, second) = match d.operand(0)? {
        Operand::Name(name) => (d.predicate_named(name)?, None),
        Operand::Pair(p, q) => (d.predicate_named(p)?, Some(d.predicate_named(q)?)),
        _ => return Err(d.error("the result of `setp` must be a predicate")),
    };
    if packed {
        let q = second.ok_or_else(|| d.error("`setp` on packed operands has two results"))?;
        return Ok(Op::SetPredicatePair {
            compare,
            d: first,
            q,
        });
    }
    Ok(Op::SetPredicate {
        compare,
        d: first,
        q: second,
    })
}

pub(super) fn set(d: &mut Decoding<'_, '_>) -> Decoded {
    let result = d.kind()?;
    let kind = d.kind()?;
    let (compare, packed) = compare(d, kind)?;
    let float = result == Type::F32;
    if packed || !(float || matches!(result, Type::U32 | Type::S32 | Type::B32)) {
        return Err(d.unsupported("this type of result"));
    }
    Ok(Op::Set {
        compare: Box::new(compare),
        float,
        d: d.target_word(0)?,
    })
}

pub(super) fn selp(d: &mut Decoding<'_, '_>) -> Decoded {
    let bits = d.kind()?.bits();
    d.operands(4)?;
    Ok(Op::Select {
        d: d.target_sized(0, bits)?,
        a: d.sized(1, bits)?,
        b: d.sized(2, bits)?,
        p: d.test(3)?,
    })
}

pub(super) fn slct(d: &mut Decoding<'_, '_>) -> Decoded {
    let bits = d.kind()?.bits();
    let float = match d.kind()? {
        Type::S32 => false,
        Type::F32 => true,
        _ => return Err(d.unsupported("this type")),
    };
    d.ignore(&["ftz"]);
    d.operands(4)?;
    let (a, b, c) = (d.sized(1, bits)?, d.sized(2, bits)?, d.word(3)?);
    Ok(Op::SelectSign {
        float,
        d: d.target_sized(0, bits)?,
        a,
        b,
        c,
    })
}
