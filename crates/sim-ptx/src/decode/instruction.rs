//! The instruction that is being decoded, whose modifiers and operands are taken one by one.

use super::builder::{Builder, Entity};
use super::kernel::{Fill, Special};
use crate::memory::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::number::Rounding;
use crate::operation::{Address, Op, P, R32, R64, Slot, Space, Test, Type};
use crate::text::ParseError;
use crate::text::syntax::{Operand, Raw};

pub(super) type Decoded = Result<Op, ParseError>;

pub(super) struct Decoding<'s, 'a> {
    pub(super) raw: &'a Raw<'a>,
    /// The modifiers that have not been taken.
    modifiers: Vec<&'a str>,
    pub(super) builder: &'s mut Builder<'a>,
}

impl<'s, 'a> Decoding<'s, 'a> {
    pub(super) fn new(raw: &'a Raw<'a>, builder: &'s mut Builder<'a>) -> Self {
        Self {
            raw,
            modifiers: raw.modifiers.clone(),
            builder,
        }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::new(self.raw.position, message)
    }

    pub(super) fn unsupported(&self, what: &str) -> ParseError {
        let name = std::iter::once(self.raw.opcode).chain(self.raw.modifiers.iter().copied());
        self.error(format!(
            "`{}`: {what} is not supported",
            name.collect::<Vec<_>>().join(".")
        ))
    }

    /// An error if there are modifiers that have not been taken.
    pub(super) fn finish(&self) -> Result<(), ParseError> {
        match self.modifiers.first() {
            None => Ok(()),
            Some(modifier) => Err(self.unsupported(&format!("the modifier `.{modifier}`"))),
        }
    }

    pub(super) fn take(&mut self, modifier: &str) -> bool {
        let found = self.modifiers.iter().position(|m| *m == modifier);
        found.map(|i| self.modifiers.remove(i)).is_some()
    }

    /// Takes the first modifier for which `read` returns a value.
    pub(super) fn take_as<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (index, value) = self
            .modifiers
            .iter()
            .enumerate()
            .find_map(|(i, m)| Some((i, read(m)?)))?;
        self.modifiers.remove(index);
        Some(value)
    }

    /// Drops modifiers that do not change the result of an instruction.
    pub(super) fn ignore(&mut self, modifiers: &[&str]) {
        self.modifiers.retain(|m| !modifiers.contains(m));
    }

    /// Takes the first type among the modifiers.
    pub(super) fn kind(&mut self) -> Result<Type, ParseError> {
        self.take_as(Type::parse)
            .ok_or_else(|| self.error(format!("`{}` needs a type", self.raw.opcode)))
    }

    /// Takes the rounding of a floating-point result; the default is to nearest.
    pub(super) fn rounding(&mut self) -> Rounding {
        self.take_as(rounding).unwrap_or(Rounding::NearestEven)
    }

    pub(super) fn operands(&self, count: usize) -> Result<(), ParseError> {
        if self.raw.operands.len() == count {
            return Ok(());
        }
        Err(self.error(format!(
            "`{}` takes {count} operands here, not {}",
            self.raw.opcode,
            self.raw.operands.len()
        )))
    }

    pub(super) fn operand(&self, index: usize) -> Result<&'a Operand<'a>, ParseError> {
        let raw: &'a Raw<'a> = self.raw;
        raw.operands
            .get(index)
            .ok_or_else(|| self.error(format!("operand {} is missing", index + 1)))
    }

    fn named(&mut self, name: &str) -> Result<Entity, ParseError> {
        self.builder
            .lookup(name)
            .ok_or_else(|| self.error(format!("`{name}` is not declared")))
    }

    /// The 32-bit slot of source operand `index`.
    pub(super) fn word(&mut self, index: usize) -> Result<R32, ParseError> {
        let operand = self.operand(index)?;
        self.word_of(operand)
    }

    pub(super) fn word_of(&mut self, operand: &Operand<'a>) -> Result<R32, ParseError> {
        match self.value_of(operand, 32)? {
            Slot::W(r) => Ok(r),
            Slot::D(_) => Err(self.error("a register of 64 bits where one of 32 or 16 is read")),
        }
    }

    /// As [`Self::word`], with immediate values truncated to 16 bits.
    pub(super) fn narrow(&mut self, index: usize) -> Result<R32, ParseError> {
        match self.operand(index)? {
            Operand::Integer(value) => Ok(self.builder.word(Fill::Bits(*value as u64 & 0xffff))),
            other => self.word_of(other),
        }
    }

    pub(super) fn double(&mut self, index: usize) -> Result<R64, ParseError> {
        match self.value(index, 64)? {
            Slot::D(r) => Ok(r),
            Slot::W(_) => Err(self.error(format!(
                "operand {}: a register of 64 bits is needed",
                index + 1
            ))),
        }
    }

    /// The slot of source operand `index`; an immediate value has `bits` bits.
    pub(super) fn value(&mut self, index: usize, bits: u32) -> Result<Slot, ParseError> {
        let operand = self.operand(index)?;
        self.value_of(operand, bits)
    }

    /// As [`Self::value`], with a check that the slot's bank fits `bits`.
    pub(super) fn sized(&mut self, index: usize, bits: u32) -> Result<Slot, ParseError> {
        let slot = if bits == 16 {
            Slot::W(self.narrow(index)?)
        } else {
            self.value(index, bits)?
        };
        match (slot, bits) {
            (Slot::D(_), 64) | (Slot::W(_), 0..=32) => Ok(slot),
            _ => Err(self.error(format!(
                "operand {}: the register has another size",
                index + 1
            ))),
        }
    }

    pub(super) fn value_of(
        &mut self,
        operand: &Operand<'a>,
        bits: u32,
    ) -> Result<Slot, ParseError> {
        let fill = match operand {
            Operand::Name(name)
            | Operand::Address {
                base: name,
                offset: 0,
            } if special(name, "").is_some() => special(name, ""),
            Operand::Component(name, part) => {
                let found = special(name, part);
                if found.is_none() {
                    return Err(self.error(format!(
                        "the special register `{name}.{part}` is not supported"
                    )));
                }
                found
            }
            Operand::Name(name) => return self.named_value(name, 0, bits),
            Operand::Address { base, offset } => return self.named_value(base, *offset, bits),
            Operand::Integer(value) => Some(Fill::Bits(*value as u64)),
            Operand::Single(value) if bits == 64 => {
                Some(Fill::Bits(f64::from(f32::from_bits(*value)).to_bits()))
            }
            Operand::Single(value) => Some(Fill::Bits(u64::from(*value))),
            Operand::Double(value) if bits == 32 => Some(Fill::Bits(u64::from(
                (f64::from_bits(*value) as f32).to_bits(),
            ))),
            Operand::Double(value) => Some(Fill::Bits(*value)),
            _ => None,
        };
        let Some(fill) = fill else {
            return Err(self.error("this form of operand is not supported here"));
        };
        Ok(match (bits, fill) {
            (64, _) => Slot::D(self.builder.double(fill)),
            (_, Fill::Bits(value)) => Slot::W(self.builder.word(Fill::Bits(value & 0xffff_ffff))),
            _ => Slot::W(self.builder.word(fill)),
        })
    }

    /// A register, or the address of a variable, as a slot.
    fn named_value(&mut self, name: &str, offset: i64, bits: u32) -> Result<Slot, ParseError> {
        let fill = match self.named(name)? {
            Entity::Word(r) if offset == 0 => return Ok(Slot::W(r)),
            Entity::Double(r) if offset == 0 => return Ok(Slot::D(r)),
            Entity::Shared(at) | Entity::Local(at) => Fill::Bits(at.wrapping_add_signed(offset)),
            Entity::Dynamic => Fill::Dynamic { offset },
            Entity::Variable(index) => Fill::Variable { index, offset },
            Entity::Param(at) => Fill::Bits(at.wrapping_add_signed(offset)),
            Entity::Predicate(_) => {
                return Err(self.error(format!("`{name}` is a predicate, not a value")));
            }
            _ => return Err(self.error(format!("`{name}` plus an offset is not an operand"))),
        };
        Ok(if bits == 64 {
            Slot::D(self.builder.double(fill))
        } else {
            Slot::W(self.builder.word(fill))
        })
    }

    /// The slot of destination operand `index`, in either bank.
    pub(super) fn target(&mut self, index: usize) -> Result<Slot, ParseError> {
        let operand = self.operand(index)?;
        self.target_of(operand)
    }

    pub(super) fn target_of(&mut self, operand: &Operand<'a>) -> Result<Slot, ParseError> {
        let Operand::Name(name) = operand else {
            return Err(self.error("the result must be a register"));
        };
        if *name == "_" {
            return Ok(Slot::W(self.builder.scratch_word()));
        }
        match self.named(name)? {
            Entity::Word(r) => Ok(Slot::W(r)),
            Entity::Double(r) => Ok(Slot::D(r)),
            _ => Err(self.error(format!("`{name}` is not a register that holds a value"))),
        }
    }

    pub(super) fn target_word(&mut self, index: usize) -> Result<R32, ParseError> {
        match self.target(index)? {
            Slot::W(r) => Ok(r),
            Slot::D(_) => Err(self.error("the result has 32 or 16 bits, its register 64")),
        }
    }

    pub(super) fn target_double(&mut self, index: usize) -> Result<R64, ParseError> {
        match (self.target(index)?, self.operand(index)?) {
            (Slot::D(r), _) => Ok(r),
            (_, Operand::Name("_")) => Ok(self.builder.scratch_double()),
            _ => Err(self.error("the result has 64 bits, its register fewer")),
        }
    }

    pub(super) fn target_sized(&mut self, index: usize, bits: u32) -> Result<Slot, ParseError> {
        if bits == 64 {
            Ok(Slot::D(self.target_double(index)?))
        } else {
            Ok(Slot::W(self.target_word(index)?))
        }
    }

    pub(super) fn target_predicate(&mut self, index: usize) -> Result<P, ParseError> {
        match self.operand(index)? {
            Operand::Name(name) => self.predicate_named(name),
            _ => Err(self.error("the result must be a predicate")),
        }
    }

    /// A predicate register by name; `_` is one that is never read.
    pub(super) fn predicate_named(&mut self, name: &str) -> Result<P, ParseError> {
        if name == "_" {
            return Ok(self.builder.scratch_predicate());
        }
        match self.named(name)? {
            Entity::Predicate(p) => Ok(p),
            _ => Err(self.error(format!("`{name}` is not a predicate"))),
        }
    }

    /// A predicate operand that is read.
    pub(super) fn test(&mut self, index: usize) -> Result<Test, ParseError> {
        match self.operand(index)? {
            Operand::Name(name) => Ok(Test {
                p: self.predicate_named(name)?,
                negated: false,
            }),
            Operand::Not(name) => Ok(Test {
                p: self.predicate_named(name)?,
                negated: true,
            }),
            _ => Err(self.error(format!("operand {} must be a predicate", index + 1))),
        }
    }

    /// An operand that must be an immediate integer.
    pub(super) fn integer(&mut self, index: usize) -> Result<i64, ParseError> {
        match self.operand(index)? {
            Operand::Integer(value) => Ok(*value),
            _ => Err(self.error(format!("operand {} must be a constant", index + 1))),
        }
    }

    /// The slots of a vector operand, or of a single register.
    pub(super) fn words(&mut self, index: usize) -> Result<Vec<R32>, ParseError> {
        match self.operand(index)? {
            Operand::Vector(items) => items.iter().map(|item| self.word_of(item)).collect(),
            single => Ok(vec![self.word_of(single)?]),
        }
    }

    /// The address of operand `index` in `space`; a variable's own space takes precedence.
    pub(super) fn address(&mut self, index: usize, space: Space) -> Result<Address, ParseError> {
        let (base, offset) = match self.operand(index)? {
            Operand::Address { base, offset } => (*base, *offset),
            _ => {
                return Err(self.error(format!(
                    "operand {} must be an address in brackets",
                    index + 1
                )));
            }
        };
        if base.is_empty() {
            return Ok(Address {
                space,
                base: None,
                offset,
            });
        }
        let entity = self.named(base)?;
        let generic = space == Space::Generic;
        let absolute = |space, window: u64, at: u64| {
            let window = if generic { window as i64 } else { 0 };
            Address {
                space,
                base: None,
                offset: offset.wrapping_add(at as i64).wrapping_add(window),
            }
        };
        Ok(match entity {
            Entity::Word(r) => Address {
                space,
                base: Some(Slot::W(r)),
                offset,
            },
            Entity::Double(r) => Address {
                space,
                base: Some(Slot::D(r)),
                offset,
            },
            Entity::Shared(at) => absolute(space, SHARED_WINDOW, at),
            Entity::Local(at) if space == Space::Param => Address {
                space: Space::Local,
                ..absolute(space, 0, at)
            },
            Entity::Local(at) => absolute(space, LOCAL_WINDOW, at),
            Entity::Param(at) => absolute(Space::Param, 0, at),
            Entity::Dynamic => {
                let slot = self.builder.double(Fill::Dynamic { offset: 0 });
                Address {
                    space: Space::Shared,
                    base: Some(Slot::D(slot)),
                    offset,
                }
            }
            Entity::Variable(index) => {
                let slot = self.builder.double(Fill::Variable { index, offset: 0 });
                Address {
                    space: Space::Global,
                    base: Some(Slot::D(slot)),
                    offset,
                }
            }
            Entity::Predicate(_) => return Err(self.error(format!("`{base}` is not an address"))),
        })
    }
}

/// The rounding for a modifier, for floating-point results.
pub(super) fn rounding(word: &str) -> Option<Rounding> {
    Some(match word {
        "rn" => Rounding::NearestEven,
        "rna" => Rounding::NearestAway,
        "rz" => Rounding::Zero,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        _ => return None,
    })
}

/// The special registers that are constant within a block.
fn special(name: &str, part: &str) -> Option<Fill> {
    let axis = match part {
        "x" => 0,
        "y" => 1,
        "z" => 2,
        "" => 3,
        _ => return None,
    };
    let triple = |make: fn(u8) -> Special| (axis < 3).then(|| Fill::Special(make(axis)));
    let single = |special| (axis == 3).then_some(Fill::Special(special));
    match name {
        "%tid" => triple(Special::Thread),
        "%ntid" => triple(Special::BlockSize),
        "%ctaid" => triple(Special::Block),
        "%nctaid" => triple(Special::GridSize),
        // Without clusters, each block is a cluster of its own.
        "%cluster_ctaid" | "%cluster_ctarank" => Some(Fill::Bits(0)),
        "%cluster_nctaid" | "%cluster_nctarank" => Some(Fill::Bits(1)),
        "%clusterid" => triple(Special::Block),
        "%nclusterid" => triple(Special::GridSize),
        "%laneid" => single(Special::Lane),
        "%warpid" => single(Special::Warp),
        "%nwarpid" => single(Special::Warps),
        "%smid" => single(Special::Multiprocessor),
        "%nsmid" => single(Special::Multiprocessors),
        "%gridid" => single(Special::GridId),
        "%lanemask_eq" => single(Special::LaneMaskEq),
        "%lanemask_lt" => single(Special::LaneMaskLt),
        "%lanemask_le" => single(Special::LaneMaskLe),
        "%lanemask_gt" => single(Special::LaneMaskGt),
        "%lanemask_ge" => single(Special::LaneMaskGe),
        "%dynamic_smem_size" => single(Special::DynamicShared),
        "%total_smem_size" => single(Special::TotalShared),
        "WARP_SZ" => Some(Fill::Bits(32)),
        _ => None,
    }
}
