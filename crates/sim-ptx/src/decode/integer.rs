//! Decodes integer arithmetic, bit operations and shifts.

use super::instruction::{Decoded, Decoding};
use crate::operation::{Carry, Int1, Int2, Int3, Logic, Op, Permute, R32, Type};
use crate::text::ParseError;

/// A binary integer operation; the caller has taken the type.
pub(super) fn two(d: &mut Decoding<'_, '_>, f: Int2, kind: Type) -> Decoded {
    d.operands(3)?;
    let signed = kind.is_signed();
    match kind.bits() {
        16 => Ok(Op::Int2Narrow {
            f,
            signed,
            d: d.target_word(0)?,
            a: d.narrow(1)?,
            b: d.narrow(2)?,
        }),
        32 => Ok(Op::Int2 {
            f,
            signed,
            d: d.target_word(0)?,
            a: d.word(1)?,
            b: d.word(2)?,
        }),
        64 => Ok(Op::Int2Wide {
            f,
            signed,
            d: d.target_double(0)?,
            a: d.double(1)?,
            b: d.double(2)?,
        }),
        _ => Err(d.unsupported("this type")),
    }
}

/// A unary integer operation.
pub(super) fn one(d: &mut Decoding<'_, '_>, f: Int1, kind: Type) -> Decoded {
    d.operands(2)?;
    let signed = kind.is_signed();
    match kind.bits() {
        16 => Ok(Op::Int1 {
            f,
            signed,
            narrow: true,
            d: d.target_word(0)?,
            a: d.narrow(1)?,
        }),
        32 => Ok(Op::Int1 {
            f,
            signed,
            narrow: false,
            d: d.target_word(0)?,
            a: d.word(1)?,
        }),
        64 => Ok(Op::Int1Wide {
            f,
            d: d.target_double(0)?,
            a: d.double(1)?,
        }),
        _ => Err(d.unsupported("this type")),
    }
}

/// `popc`, `clz`, `bfind`, whose results have 32 bits.
pub(super) fn count(d: &mut Decoding<'_, '_>, f: Int1) -> Decoded {
    let f = if matches!(f, Int1::Bfind { .. }) {
        Int1::Bfind {
            shift: d.take("shiftamt"),
        }
    } else {
        f
    };
    let kind = d.kind()?;
    d.operands(2)?;
    let signed = kind.is_signed();
    match kind.bits() {
        32 => Ok(Op::Int1 {
            f,
            signed,
            narrow: false,
            d: d.target_word(0)?,
            a: d.word(1)?,
        }),
        64 => Ok(Op::Count64 {
            f,
            signed,
            d: d.target_word(0)?,
            a: d.double(1)?,
        }),
        _ => Err(d.unsupported("this type")),
    }
}

/// `and`, `or`, `xor`, also for predicates.
pub(super) fn bitwise(d: &mut Decoding<'_, '_>, f: Int2, logic: Logic) -> Decoded {
    match d.kind()? {
        Type::Pred => {
            d.operands(3)?;
            Ok(Op::Logic {
                f: logic,
                d: d.target_predicate(0)?,
                a: d.test(1)?,
                b: d.test(2)?,
            })
        }
        kind => two(d, f, kind),
    }
}

pub(super) fn not(d: &mut Decoding<'_, '_>) -> Decoded {
    match d.kind()? {
        Type::Pred => {
            d.operands(2)?;
            let mut a = d.test(1)?;
            a.negated = !a.negated;
            Ok(Op::MovePredicate {
                d: d.target_predicate(0)?,
                a,
            })
        }
        kind => one(d, Int1::Not, kind),
    }
}

pub(super) fn shift(d: &mut Decoding<'_, '_>, f: Int2) -> Decoded {
    let kind = d.kind()?;
    d.operands(3)?;
    let signed = kind.is_signed();
    let b = d.word(2)?;
    match kind.bits() {
        16 => Ok(Op::Int2Narrow {
            f,
            signed,
            d: d.target_word(0)?,
            a: d.narrow(1)?,
            b,
        }),
        32 => Ok(Op::Int2 {
            f,
            signed,
            d: d.target_word(0)?,
            a: d.word(1)?,
            b,
        }),
        64 => Ok(Op::Shift64 {
            f,
            signed,
            d: d.target_double(0)?,
            a: d.double(1)?,
            b,
        }),
        _ => Err(d.unsupported("this type")),
    }
}

/// Integer `mul`.
pub(super) fn multiply(d: &mut Decoding<'_, '_>, kind: Type) -> Decoded {
    if d.take("wide") {
        return wide(d, kind, false);
    }
    let f = if d.take("hi") {
        Int2::MulHigh
    } else if d.take("lo") {
        Int2::Mul
    } else {
        return Err(d.error("an integer `mul` needs `.lo`, `.hi` or `.wide`"));
    };
    two(d, f, kind)
}

fn wide(d: &mut Decoding<'_, '_>, kind: Type, adds: bool) -> Decoded {
    d.operands(if adds { 4 } else { 3 })?;
    let signed = kind.is_signed();
    match kind.bits() {
        16 => {
            let c = if adds { Some(d.word(3)?) } else { None };
            Ok(Op::MadWide16 {
                signed,
                d: d.target_word(0)?,
                a: d.narrow(1)?,
                b: d.narrow(2)?,
                c,
            })
        }
        32 => {
            let c = if adds { Some(d.double(3)?) } else { None };
            Ok(Op::MadWide {
                signed,
                d: d.target_double(0)?,
                a: d.word(1)?,
                b: d.word(2)?,
                c,
            })
        }
        _ => Err(d.unsupported("this type")),
    }
}

/// `mad`, with carries if the modifiers say so.
pub(super) fn mad(d: &mut Decoding<'_, '_>, takes: bool) -> Decoded {
    let gives = d.take("cc");
    let kind = d.kind()?;
    if d.take("wide") {
        return wide(d, kind, true);
    }
    let high = d.take("hi");
    if !high && !d.take("lo") {
        return Err(d.error("an integer `mad` needs `.lo`, `.hi` or `.wide`"));
    }
    d.operands(4)?;
    let signed = kind.is_signed();
    match (kind.bits(), takes || gives) {
        (16, false) => {
            let (a, b, c) = (d.narrow(1)?, d.narrow(2)?, d.narrow(3)?);
            Ok(Op::MadNarrow {
                signed,
                high,
                d: d.target_word(0)?,
                a,
                b,
                c,
            })
        }
        (32, false) => {
            let f = if high {
                Int3::MadHigh { signed }
            } else {
                Int3::MadLow
            };
            Ok(Op::Int3 {
                f,
                d: d.target_word(0)?,
                a: d.word(1)?,
                b: d.word(2)?,
                c: d.word(3)?,
            })
        }
        (32, true) => {
            let f = if high { Carry::MadHigh } else { Carry::MadLow };
            let (a, b, c) = (d.word(1)?, d.word(2)?, d.word(3)?);
            Ok(Op::Carry {
                f,
                signed,
                takes,
                gives,
                d: d.target_word(0)?,
                a,
                b,
                c,
            })
        }
        (64, false) => {
            let (a, b, c) = (d.double(1)?, d.double(2)?, d.double(3)?);
            Ok(Op::Mad64 {
                signed,
                high,
                d: d.target_double(0)?,
                a,
                b,
                c,
            })
        }
        _ => Err(d.unsupported("this type")),
    }
}

/// `add` and `sub` for integers, and `addc`, `subc`.
pub(super) fn sum(d: &mut Decoding<'_, '_>, subtract: bool, takes: bool, kind: Type) -> Decoded {
    let gives = d.take("cc");
    if takes || gives {
        d.operands(3)?;
        let f = if subtract { Carry::Sub } else { Carry::Add };
        return match kind.bits() {
            32 => {
                let (a, b) = (d.word(1)?, d.word(2)?);
                Ok(Op::Carry {
                    f,
                    signed: false,
                    takes,
                    gives,
                    d: d.target_word(0)?,
                    a,
                    b,
                    c: a,
                })
            }
            64 => Ok(Op::Carry64 {
                f,
                takes,
                gives,
                d: d.target_double(0)?,
                a: d.double(1)?,
                b: d.double(2)?,
            }),
            _ => Err(d.unsupported("this type")),
        };
    }
    let saturates = d.take("sat");
    if saturates && kind != Type::S32 {
        return Err(d.unsupported("`.sat` on this type"));
    }
    let f = match (subtract, saturates) {
        (false, false) => Int2::Add,
        (false, true) => Int2::AddSat,
        (true, false) => Int2::Sub,
        (true, true) => Int2::SubSat,
    };
    two(d, f, kind)
}

pub(super) fn add_carry(d: &mut Decoding<'_, '_>, subtract: bool) -> Decoded {
    let kind = d.kind()?;
    sum(d, subtract, true, kind)
}

/// The four slots of a 32-bit instruction with three source operands.
fn three(d: &mut Decoding<'_, '_>) -> Result<(R32, R32, R32, R32), ParseError> {
    d.operands(4)?;
    Ok((d.target_word(0)?, d.word(1)?, d.word(2)?, d.word(3)?))
}

pub(super) fn mul24(d: &mut Decoding<'_, '_>) -> Decoded {
    if !d.take("lo") {
        return Err(d.unsupported("`.hi`"));
    }
    let kind = d.kind()?;
    two(d, Int2::Mul24, kind)
}

pub(super) fn sad(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    if kind.bits() != 32 {
        return Err(d.unsupported("this type"));
    }
    let (target, a, b, c) = three(d)?;
    Ok(Op::Int3 {
        f: Int3::Sad {
            signed: kind.is_signed(),
        },
        d: target,
        a,
        b,
        c,
    })
}

pub(super) fn bfe(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    let signed = kind.is_signed();
    if kind.bits() == 64 {
        d.operands(4)?;
        return Ok(Op::Bfe64 {
            signed,
            d: d.target_double(0)?,
            a: d.double(1)?,
            b: d.word(2)?,
            c: d.word(3)?,
        });
    }
    let (target, a, b, c) = three(d)?;
    Ok(Op::Int3 {
        f: Int3::Bfe { signed },
        d: target,
        a,
        b,
        c,
    })
}

pub(super) fn bfi(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    d.operands(5)?;
    let (c, e) = (d.word(3)?, d.word(4)?);
    if kind.bits() == 64 {
        return Ok(Op::Bfi64 {
            d: d.target_double(0)?,
            a: d.double(1)?,
            b: d.double(2)?,
            c,
            e,
        });
    }
    Ok(Op::Bfi {
        d: d.target_word(0)?,
        a: d.word(1)?,
        b: d.word(2)?,
        c,
        e,
    })
}

pub(super) fn bmsk(d: &mut Decoding<'_, '_>) -> Decoded {
    let wrap = d.take("wrap");
    d.ignore(&["clamp"]);
    d.kind()?;
    d.operands(3)?;
    let (a, b) = (d.word(1)?, d.word(2)?);
    Ok(Op::Int3 {
        f: Int3::Bmsk { wrap },
        d: d.target_word(0)?,
        a,
        b,
        c: b,
    })
}

pub(super) fn lop3(d: &mut Decoding<'_, '_>) -> Decoded {
    d.kind()?;
    d.operands(5)?;
    let table = d.integer(4)?;
    let Ok(table) = u8::try_from(table) else {
        return Err(d.error(format!(
            "the table {table} of `lop3` does not fit in 8 bits"
        )));
    };
    Ok(Op::Int3 {
        f: Int3::Lop3(table),
        d: d.target_word(0)?,
        a: d.word(1)?,
        b: d.word(2)?,
        c: d.word(3)?,
    })
}

pub(super) fn prmt(d: &mut Decoding<'_, '_>) -> Decoded {
    d.kind()?;
    let mode = d.take_as(|m| {
        Some(match m {
            "f4e" => Permute::F4e,
            "b4e" => Permute::B4e,
            "rc8" => Permute::Rc8,
            "ecl" => Permute::Ecl,
            "ecr" => Permute::Ecr,
            "rc16" => Permute::Rc16,
            _ => return None,
        })
    });
    let (target, a, b, c) = three(d)?;
    Ok(Op::Int3 {
        f: Int3::Prmt(mode.unwrap_or(Permute::Index)),
        d: target,
        a,
        b,
        c,
    })
}

pub(super) fn funnel(d: &mut Decoding<'_, '_>) -> Decoded {
    let left = d.take("l");
    if !left && !d.take("r") {
        return Err(d.error("`shf` needs `.l` or `.r`"));
    }
    let wrap = d.take("wrap");
    if !wrap && !d.take("clamp") {
        return Err(d.error("`shf` needs `.clamp` or `.wrap`"));
    }
    d.kind()?;
    let (target, a, b, c) = three(d)?;
    Ok(Op::Int3 {
        f: Int3::Funnel { left, wrap },
        d: target,
        a,
        b,
        c,
    })
}

pub(super) fn dp2a(d: &mut Decoding<'_, '_>) -> Decoded {
    let upper = d.take("hi");
    d.ignore(&["lo"]);
    let (a_type, b_type) = (d.kind()?, d.kind()?);
    let (target, a, b, c) = three(d)?;
    let f = Int3::Dp2a {
        a: a_type.is_signed(),
        b: b_type.is_signed(),
        upper,
    };
    Ok(Op::Int3 {
        f,
        d: target,
        a,
        b,
        c,
    })
}

pub(super) fn dp4a(d: &mut Decoding<'_, '_>) -> Decoded {
    let (a_type, b_type) = (d.kind()?, d.kind()?);
    let (target, a, b, c) = three(d)?;
    let f = Int3::Dp4a {
        a: a_type.is_signed(),
        b: b_type.is_signed(),
    };
    Ok(Op::Int3 {
        f,
        d: target,
        a,
        b,
        c,
    })
}

/// `szext`: sign or zero extension from a number of bits, decoded as a bit field that begins at bit
/// 0.
pub(super) fn szext(d: &mut Decoding<'_, '_>) -> Decoded {
    let wrap = d.take("wrap");
    d.ignore(&["clamp"]);
    let kind = d.kind()?;
    d.operands(3)?;
    if wrap {
        return Err(d.unsupported("`.wrap`"));
    }
    let zero = d.builder.word(super::Fill::Bits(0));
    let (a, c) = (d.word(1)?, d.word(2)?);
    Ok(Op::Int3 {
        f: Int3::Bfe {
            signed: kind.is_signed(),
        },
        d: d.target_word(0)?,
        a,
        b: zero,
        c,
    })
}
