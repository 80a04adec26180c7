//! Decodes moves, address conversions and clocks.

use super::instruction::{Decoded, Decoding};
use super::kernel::Fill;
use crate::memory::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::operation::{Clock, Int2, Op, Slot, Space, Type};
use crate::text::syntax::Operand;

pub(super) fn mov(d: &mut Decoding<'_, '_>) -> Decoded {
    let kind = d.kind()?;
    d.operands(2)?;
    if kind == Type::Pred {
        // An immediate predicate is written as an integer.
        if let Operand::Integer(value) = d.operand(1)? {
            let p = d.builder.scratch_predicate();
            let a = crate::operation::Test {
                p,
                negated: *value != 0,
            };
            return Ok(Op::MovePredicate {
                d: d.target_predicate(0)?,
                a,
            });
        }
        return Ok(Op::MovePredicate {
            d: d.target_predicate(0)?,
            a: d.test(1)?,
        });
    }
    let bits = kind.bits();
    if let Operand::Vector(parts) = d.operand(1)? {
        let each = bits / parts.len().max(1) as u32;
        let parts = parts
            .iter()
            .map(|part| d.value_of(part, each))
            .collect::<Result<Vec<_>, _>>()?;
        return Ok(Op::Pack {
            bits: each,
            d: d.target_sized(0, bits)?,
            parts,
        });
    }
    if let Operand::Vector(parts) = d.operand(0)? {
        let each = bits / parts.len().max(1) as u32;
        let mut targets = Vec::new();
        for part in parts {
            let sink = matches!(part, Operand::Name("_"));
            targets.push(if sink { None } else { Some(d.target_of(part)?) });
        }
        return Ok(Op::Unpack {
            bits: each,
            parts: targets,
            a: d.sized(1, bits)?,
        });
    }
    match d.operand(1)? {
        Operand::Name(name) => match *name {
            "%clock" | "%clock_hi" if bits == 32 => {
                return Ok(Op::Clock {
                    which: Clock::Cycles,
                    d: d.target(0)?,
                });
            }
            "%clock64" => {
                return Ok(Op::Clock {
                    which: Clock::Cycles,
                    d: d.target(0)?,
                });
            }
            "%globaltimer" | "%globaltimer_lo" => {
                return Ok(Op::Clock {
                    which: Clock::Nanoseconds,
                    d: d.target(0)?,
                });
            }
            _ => {}
        },
        Operand::Integer(_)
        | Operand::Component(..)
        | Operand::Single(_)
        | Operand::Double(_)
        | Operand::Address { .. } => {}
        _ => return Err(d.error("this form of `mov` is not supported")),
    }
    Ok(match (d.target_sized(0, bits)?, d.sized(1, bits)?) {
        (Slot::W(d), Slot::W(a)) => Op::Move32 { d, a },
        (Slot::D(d), Slot::D(a)) => Op::Move64 { d, a },
        _ => return Err(d.error("the registers of a `mov` have different sizes")),
    })
}

pub(super) fn activemask(d: &mut Decoding<'_, '_>) -> Decoded {
    d.kind()?;
    d.operands(1)?;
    Ok(Op::ActiveMask {
        d: d.target_word(0)?,
    })
}

/// The state space for a modifier, and the beginning of its window in the generic address space.
fn window(word: &str) -> Option<(Space, u64)> {
    Some(match word {
        "global" | "const" => (Space::Global, 0),
        "shared" | "shared::cta" | "shared::cluster" => (Space::Shared, SHARED_WINDOW),
        "local" => (Space::Local, LOCAL_WINDOW),
        "param" | "param::entry" => (Space::Param, PARAM_WINDOW),
        _ => return None,
    })
}

/// `cvta`: converts an address in a space to a generic address, or the reverse with `.to`.
pub(super) fn cvta(d: &mut Decoding<'_, '_>) -> Decoded {
    let to = d.take("to");
    let Some((_, window)) = d.take_as(window) else {
        return Err(d.unsupported("this state space"));
    };
    if d.kind()?.bits() != 64 {
        return Err(d.unsupported("an address of 32 bits"));
    }
    d.operands(2)?;
    let (target, a) = (d.target_double(0)?, d.double(1)?);
    if window == 0 {
        return Ok(Op::Move64 { d: target, a });
    }
    let b = d.builder.double(Fill::Bits(window));
    let f = if to { Int2::Sub } else { Int2::Add };
    Ok(Op::Int2Wide {
        f,
        signed: false,
        d: target,
        a,
        b,
    })
}

pub(super) fn isspacep(d: &mut Decoding<'_, '_>) -> Decoded {
    let Some((space, _)) = d.take_as(window) else {
        return Err(d.unsupported("this state space"));
    };
    d.operands(2)?;
    Ok(Op::InSpace {
        space,
        d: d.target_predicate(0)?,
        a: d.double(1)?,
    })
}
