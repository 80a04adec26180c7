//! Decodes branches and block barriers.

use super::instruction::{Decoded, Decoding};
use super::kernel::Fill;
use crate::operation::{BarrierKind, Op};
use crate::text::syntax::Operand;

pub(super) fn bra(d: &mut Decoding<'_, '_>) -> Decoded {
    d.ignore(&["uni"]);
    d.operands(1)?;
    let Operand::Name(label) = d.operand(0)? else {
        return Err(d.error("a branch needs a label"));
    };
    d.builder.jump(label, d.raw.position);
    Ok(Op::Branch {
        target: 0,
        reconverge: 0,
    })
}

/// `brx.idx`.
pub(super) fn brx(d: &mut Decoding<'_, '_>) -> Decoded {
    if !d.take("idx") {
        return Err(d.unsupported("this form"));
    }
    d.ignore(&["uni"]);
    d.operands(2)?;
    let index = d.word(0)?;
    let Operand::Name(name) = d.operand(1)? else {
        return Err(d.error("the list of targets needs a name"));
    };
    let Some(labels) = d.builder.targets(name) else {
        return Err(d.error(format!("no `.branchtargets` list `{name}` is defined")));
    };
    for label in labels {
        d.builder.jump(label, d.raw.position);
    }
    Ok(Op::BranchTable {
        index,
        targets: Vec::new(),
        reconverge: 0,
    })
}

pub(super) fn none(d: &mut Decoding<'_, '_>, op: Op) -> Decoded {
    d.operands(0)?;
    Ok(op)
}

pub(super) fn nanosleep(d: &mut Decoding<'_, '_>) -> Decoded {
    d.kind()?;
    d.operands(1)?;
    d.word(0)?;
    Ok(Op::Nop)
}

/// `bar` and `barrier`; `bar.warp.sync` is a warp collective.
pub(super) fn barrier(d: &mut Decoding<'_, '_>, short: bool) -> Decoded {
    if d.take("warp") {
        return super::collective::warp_barrier(d);
    }
    d.ignore(&["cta"]);
    let aligned = d.take("aligned") || short;
    if d.take("sync") || d.take("arrive") {
        let arrives = d.raw.modifiers.contains(&"arrive");
        let kind = if arrives {
            BarrierKind::Arrive
        } else {
            BarrierKind::Sync
        };
        let id = d.word(0)?;
        let threads = match d.raw.operands.len() {
            1 => None,
            2 => Some(d.word(1)?),
            _ => return Err(d.error("a barrier has a number and a count of threads")),
        };
        return Ok(Op::Barrier {
            kind,
            aligned,
            id,
            threads,
        });
    }
    if !d.take("red") {
        return Err(d.unsupported("this form"));
    }
    let count = d.raw.operands.len();
    if !(3..=4).contains(&count) {
        return Err(d.error("`bar.red` has a result, a barrier and a predicate"));
    }
    let id = d.word(1)?;
    let threads = if count == 4 { Some(d.word(2)?) } else { None };
    let p = d.test(count - 1)?;
    let kind = if d.take("popc") {
        BarrierKind::Count {
            d: d.target_word(0)?,
            p,
        }
    } else if d.take("and") {
        BarrierKind::And {
            d: d.target_predicate(0)?,
            p,
        }
    } else if d.take("or") {
        BarrierKind::Or {
            d: d.target_predicate(0)?,
            p,
        }
    } else {
        return Err(d.unsupported("this reduction"));
    };
    d.ignore(&["pred", "u32"]);
    Ok(Op::Barrier {
        kind,
        aligned,
        id,
        threads,
    })
}

/// The member mask that contains all lanes.
pub(super) fn everyone(d: &mut Decoding<'_, '_>) -> crate::operation::R32 {
    d.builder.word(Fill::Bits(0xffff_ffff))
}
