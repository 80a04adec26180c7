//! Decodes collectives of a warp's lanes.

use super::instruction::{Decoded, Decoding};
use crate::operation::{AtomicOp, Collective, Op, Shuffle, Type};
use crate::text::syntax::Operand;

pub(super) fn warp_barrier(d: &mut Decoding<'_, '_>) -> Decoded {
    d.ignore(&["sync"]);
    d.operands(1)?;
    Ok(Op::Collective {
        what: Collective::Barrier,
        members: d.word(0)?,
    })
}

fn synchronous(d: &mut Decoding<'_, '_>) -> Result<(), crate::text::ParseError> {
    if d.take("sync") {
        Ok(())
    } else {
        Err(d.unsupported("the form without `.sync`"))
    }
}

pub(super) fn shfl(d: &mut Decoding<'_, '_>) -> Decoded {
    synchronous(d)?;
    let modes = [
        ("up", Shuffle::Up),
        ("down", Shuffle::Down),
        ("bfly", Shuffle::Butterfly),
        ("idx", Shuffle::Index),
    ];
    let Some(mode) = d.take_as(|m| modes.iter().find(|n| n.0 == m).map(|n| n.1)) else {
        return Err(d.unsupported("this mode"));
    };
    d.kind()?;
    d.operands(5)?;
    let (target, p) = match d.operand(0)? {
        Operand::Pair(name, p) => (*name, Some(d.predicate_named(p)?)),
        Operand::Name(name) => (*name, None),
        _ => return Err(d.error("the result must be a register")),
    };
    let target = match d.target_of(&Operand::Name(target))? {
        crate::operation::Slot::W(r) => r,
        crate::operation::Slot::D(_) => return Err(d.error("a shuffle moves 32 bits")),
    };
    let (a, b, c) = (d.word(1)?, d.word(2)?, d.word(3)?);
    let what = Collective::Shuffle {
        mode,
        d: target,
        p,
        a,
        b,
        c,
    };
    Ok(Op::Collective {
        what,
        members: d.word(4)?,
    })
}

pub(super) fn vote(d: &mut Decoding<'_, '_>) -> Decoded {
    synchronous(d)?;
    d.operands(3)?;
    let p = d.test(1)?;
    let what = if d.take("ballot") {
        Collective::Ballot {
            d: d.target_word(0)?,
            p,
        }
    } else if d.take("all") {
        Collective::VoteAll {
            d: d.target_predicate(0)?,
            p,
        }
    } else if d.take("any") {
        Collective::VoteAny {
            d: d.target_predicate(0)?,
            p,
        }
    } else if d.take("uni") {
        Collective::VoteUniform {
            d: d.target_predicate(0)?,
            p,
        }
    } else {
        return Err(d.unsupported("this mode"));
    };
    d.kind()?;
    Ok(Op::Collective {
        what,
        members: d.word(2)?,
    })
}

pub(super) fn matching(d: &mut Decoding<'_, '_>) -> Decoded {
    synchronous(d)?;
    let all = d.take("all");
    if !all && !d.take("any") {
        return Err(d.unsupported("this mode"));
    }
    let bits = d.kind()?.bits();
    d.operands(3)?;
    let a = d.sized(1, bits)?;
    let what = match d.operand(0)? {
        Operand::Pair(name, p) if all => {
            let p = Some(d.predicate_named(p)?);
            let crate::operation::Slot::W(target) = d.target_of(&Operand::Name(name))? else {
                return Err(d.error("the mask has 32 bits"));
            };
            Collective::MatchAll { d: target, p, a }
        }
        _ if all => Collective::MatchAll {
            d: d.target_word(0)?,
            p: None,
            a,
        },
        _ => Collective::MatchAny {
            d: d.target_word(0)?,
            a,
        },
    };
    Ok(Op::Collective {
        what,
        members: d.word(2)?,
    })
}

pub(super) fn redux(d: &mut Decoding<'_, '_>) -> Decoded {
    synchronous(d)?;
    let ops = [
        ("add", AtomicOp::Add),
        ("min", AtomicOp::Min),
        ("max", AtomicOp::Max),
        ("and", AtomicOp::And),
        ("or", AtomicOp::Or),
        ("xor", AtomicOp::Xor),
    ];
    let Some(op) = d.take_as(|m| ops.iter().find(|n| n.0 == m).map(|n| n.1)) else {
        return Err(d.unsupported("this operation"));
    };
    let kind = d.kind()?;
    if !matches!(kind, Type::U32 | Type::S32 | Type::B32) {
        return Err(d.unsupported("this type"));
    }
    d.operands(3)?;
    let what = Collective::Reduce {
        op,
        signed: kind.is_signed(),
        d: d.target_word(0)?,
        a: d.word(1)?,
    };
    Ok(Op::Collective {
        what,
        members: d.word(2)?,
    })
}

pub(super) fn elect(d: &mut Decoding<'_, '_>) -> Decoded {
    synchronous(d)?;
    d.operands(2)?;
    let Operand::Pair(name, p) = d.operand(0)? else {
        return Err(d.error("`elect.sync` has two results, `d|p`"));
    };
    let p = d.predicate_named(p)?;
    let target = match *name {
        "_" => None,
        name => match d.target_of(&Operand::Name(name))? {
            crate::operation::Slot::W(r) => Some(r),
            crate::operation::Slot::D(_) => return Err(d.error("the lane has 32 bits")),
        },
    };
    Ok(Op::Collective {
        what: Collective::Elect { d: target, p },
        members: d.word(1)?,
    })
}
