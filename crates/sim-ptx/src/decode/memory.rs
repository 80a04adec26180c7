//! Decodes loads, stores, atomics, asynchronous copies and fences.

use super::instruction::{Decoded, Decoding};
use crate::operation::{Address, AsyncCopy, Atomic, AtomicOp, Op, Space, Transfer, Type};
use crate::text::syntax::Operand;

/// Cache hints and scopes, which have no effect on results here.
const HINTS: &[&str] = &[
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "cta",
    "gpu",
    "sys",
    "cluster",
    "level::eviction_priority",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "weak",
];

fn space(word: &str) -> Option<Space> {
    Some(match word {
        "global" | "const" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "param" | "param::entry" | "param::func" => Space::Param,
        _ => return None,
    })
}

fn strong(d: &mut Decoding<'_, '_>) -> bool {
    let words = ["volatile", "relaxed", "acquire", "release", "mmio"];
    d.take_as(|m| words.contains(&m).then_some(())).is_some()
}

pub(super) fn transfer(d: &mut Decoding<'_, '_>, load: bool) -> Decoded {
    let in_space = d.take_as(space).unwrap_or(Space::Generic);
    let strong = strong(d);
    let constant = load && d.take("nc");
    d.ignore(HINTS);
    let lanes = [("v2", 2), ("v4", 4), ("v8", 8)];
    let count = d
        .take_as(|m| lanes.iter().find(|l| l.0 == m).map(|l| l.1))
        .unwrap_or(1);
    let kind = d.kind()?;
    d.operands(2)?;
    let width = kind.bits() / 8;
    if width == 0 || count * width > 32 {
        return Err(d.unsupported("this type"));
    }
    let address = d.address(usize::from(load), in_space)?;
    let value = d.operand(usize::from(!load))?;
    let items = match value {
        Operand::Vector(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    if items.len() as u32 != count {
        return Err(d.error(format!("{count} registers are needed")));
    }
    let mut registers = Vec::new();
    for item in items {
        registers.push(match (load, item) {
            (true, Operand::Name("_")) => None,
            (true, item) => Some(d.target_of(item)?),
            (false, item) => Some(d.value_of(item, kind.bits().max(32))?),
        });
    }
    let transfer = Transfer {
        address,
        width,
        count,
        signed: kind.is_signed(),
        strong,
        constant,
        registers,
    };
    Ok(if load {
        Op::Load(Box::new(transfer))
    } else {
        Op::Store(Box::new(transfer))
    })
}

fn atomic_op(word: &str) -> Option<AtomicOp> {
    Some(match word {
        "add" => AtomicOp::Add,
        "min" => AtomicOp::Min,
        "max" => AtomicOp::Max,
        "and" => AtomicOp::And,
        "or" => AtomicOp::Or,
        "xor" => AtomicOp::Xor,
        "inc" => AtomicOp::Inc,
        "dec" => AtomicOp::Dec,
        "exch" => AtomicOp::Exchange,
        "cas" => AtomicOp::CompareAndSwap,
        _ => return None,
    })
}

/// `atom`, or `red`, which has no result.
pub(super) fn atomic(d: &mut Decoding<'_, '_>, result: bool) -> Decoded {
    let in_space = d.take_as(space).unwrap_or(Space::Generic);
    d.ignore(&["relaxed", "acquire", "release", "acq_rel", "noftz"]);
    d.ignore(HINTS);
    let Some(op) = d.take_as(atomic_op) else {
        return Err(d.unsupported("this operation"));
    };
    let kind = d.kind()?;
    let first = usize::from(result);
    let swaps = op == AtomicOp::CompareAndSwap;
    d.operands(first + if swaps { 3 } else { 2 })?;
    let bits = kind.bits();
    let float = super::float::arithmetic(kind).is_some();
    let small = bits == 16 && !swaps && kind.is_bits();
    let adds = matches!(op, AtomicOp::Add | AtomicOp::Exchange);
    let extreme =
        matches!(op, AtomicOp::Min | AtomicOp::Max) && !matches!(kind, Type::F32 | Type::F64);
    if bits < 16
        || small
        || float && !adds && !extreme
        || matches!(in_space, Space::Local | Space::Param)
    {
        return Err(d.unsupported("this type or state space"));
    }
    let target = match d.operand(0)? {
        operand if result && !super::float::is_sink(operand) => Some(d.target_sized(0, bits)?),
        _ => None,
    };
    let address = d.address(first, in_space)?;
    let b = d.sized(first + 1, bits)?;
    let c = if swaps {
        Some(d.sized(first + 2, bits)?)
    } else {
        None
    };
    Ok(Op::Atomic(Box::new(Atomic {
        address,
        op,
        kind,
        d: target,
        b,
        c,
    })))
}

/// `cp.async` and its groups.
pub(super) fn copy(d: &mut Decoding<'_, '_>) -> Decoded {
    if !d.take("async") {
        return Err(d.unsupported("this form"));
    }
    if d.take("commit_group") {
        d.operands(0)?;
        return Ok(Op::AsyncCommit);
    }
    if d.take("wait_all") {
        d.operands(0)?;
        return Ok(Op::AsyncWait(0));
    }
    if d.take("wait_group") {
        d.operands(1)?;
        let groups = d.integer(0)?;
        return Ok(Op::AsyncWait(u32::try_from(groups).unwrap_or(u32::MAX)));
    }
    d.ignore(HINTS);
    if !(d.take("shared") || d.take("shared::cta")) || !d.take("global") {
        return Err(d.unsupported("this form"));
    }
    let bytes = d.integer(2)?;
    if !matches!(bytes, 4 | 8 | 16) {
        return Err(d.error("`cp.async` copies 4, 8 or 16 bytes"));
    }
    let source_bytes = match d.raw.operands.len() {
        3 => None,
        4 => Some(d.word(3)?),
        _ => return Err(d.unsupported("a cache policy")),
    };
    let to: Address = d.address(0, Space::Shared)?;
    let from = d.address(1, Space::Global)?;
    Ok(Op::AsyncCopy(Box::new(AsyncCopy {
        to,
        from,
        bytes: bytes as u32,
        source_bytes,
    })))
}

/// `membar` and `fence`.
pub(super) fn fence(d: &mut Decoding<'_, '_>) -> Decoded {
    d.ignore(HINTS);
    d.ignore(&[
        "gl", "sc", "acq_rel", "acquire", "release", "proxy", "async", "alias", "global",
    ]);
    d.ignore(&["shared::cta", "async::global", "async::shared::cta"]);
    Ok(Op::Fence)
}

/// `prefetch`, `prefetchu`, `discard`, `applypriority`, which compute nothing.
pub(super) fn prefetch(d: &mut Decoding<'_, '_>) -> Decoded {
    d.ignore(HINTS);
    d.ignore(&["global", "local", "L1", "L2"]);
    Ok(Op::Nop)
}
