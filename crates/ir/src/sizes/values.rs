//! Integers that a program computes from its sizes: what `get-dimension-size` gives, and
//! arithmetic on it.
//!
//! `set-dimension-size` and `dynamic-reshape` take the sizes of their results from such
//! values. A value that depends on data has no term: then a run does not know the size
//! before it starts.

use crate::{Binary, ElementType, InstructionId, Module, Op};
use rustc_hash::FxHashMap;
use tegula_expr::{Cmp, Term};

/// The most operations that are followed backwards.
const MAX_OPERATIONS: usize = 64;
/// The most nodes of a term: a sum that is multiplied by itself doubles each time.
const MAX_SIZE: u32 = 1 << 10;

/// Values as terms over sizes.
pub(super) struct Values<'a> {
    module: &'a Module,
    /// What must not be more than what, for no operation to wrap around.
    pub(super) fits: Vec<(Term, Term)>,
    /// What was followed so far, each once.
    known: FxHashMap<InstructionId, Option<Term>>,
}

/// Whether the value of an array of one integer follows from sizes and constants.
pub fn is_size_computation(module: &Module, id: InstructionId) -> bool {
    Values::new(module).of(id).is_some()
}

impl<'a> Values<'a> {
    pub(super) fn new(module: &'a Module) -> Self {
        Self {
            module,
            fits: Vec::new(),
            known: FxHashMap::default(),
        }
    }

    /// The value of an array of one integer; `None` if it follows from something else
    /// than sizes.
    pub(super) fn of(&mut self, id: InstructionId) -> Option<Term> {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        if self.known.len() >= MAX_OPERATIONS {
            return None;
        }
        // Nothing is its own operand; each step down adds one here, which bounds the depth.
        self.known.insert(id, None);
        let value = self.follow(id);
        self.known.insert(id, value.clone());
        value
    }

    fn follow(&mut self, id: InstructionId) -> Option<Term> {
        let module = self.module;
        let instruction = module.instructions.get(id)?;
        let array = instruction.shape.as_array()?;
        let is_one = array.dims.iter().all(|dim| dim.as_static() == Some(1));
        let (least, most) = match array.element_type {
            ElementType::S32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            ElementType::U32 => (0, i64::from(u32::MAX)),
            ElementType::S64 => (i64::MIN, i64::MAX),
            ElementType::U64 => (0, i64::MAX),
            _ => return None,
        };
        if !is_one {
            return None;
        }
        let operand = |number: usize| instruction.operands.get(number).copied();
        let mut value = |number: usize| self.of(operand(number)?);
        let result = match &instruction.op {
            Op::Constant(literals) => Term::constant(literals.first()?.scalar(0)?.to_i64()?),
            Op::GetDimensionSize(dimension) => {
                let shape = module.instructions.get(operand(0)?)?.shape.as_array()?;
                shape.dims.get(usize::try_from(*dimension).ok()?)?.term()
            }
            Op::Copy | Op::Convert | Op::Reshape | Op::Broadcast(_) => value(0)?,
            Op::Binary(Binary::Add) => value(0)?.add(&value(1)?),
            Op::Binary(Binary::Subtract) => value(0)?.sub(&value(1)?),
            Op::Binary(Binary::Multiply) => value(0)?.mul(&value(1)?),
            Op::Binary(Binary::Minimum) => Term::min(&value(0)?, &value(1)?),
            Op::Binary(Binary::Maximum) => Term::max(&value(0)?, &value(1)?),
            Op::Binary(Binary::Divide) => {
                let (a, b) = (value(0)?, value(1)?);
                b.as_constant().filter(|&b| b > 0)?;
                // Rounded towards zero.
                let negative = Term::cmp(Cmp::Lt, &a, &Term::constant(0));
                Term::select(&negative, &a.ceil_div(&b), &a.floor_div(&b))
            }
            Op::Clamp => Term::min(&Term::max(&value(1)?, &value(0)?), &value(2)?),
            _ => return None,
        };
        if result.size() > MAX_SIZE {
            return None;
        }
        if result.as_constant().is_none() {
            self.fits.push((Term::constant(least), result.clone()));
            self.fits.push((result.clone(), Term::constant(most)));
        }
        Some(result)
    }
}
