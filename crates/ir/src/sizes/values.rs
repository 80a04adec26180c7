//! Terms for integers that a program computes from its sizes: results of `get-dimension-size`, and
//! arithmetic on them.
//!
//! `set-dimension-size` and `dynamic-reshape` take the sizes of their results from such integers.
//! An integer that depends on data has no term; the size is then not known before the program runs.

use crate::{Binary, ElementType, InstructionId, Module, Op};
use rustc_hash::FxHashMap;
use tegula_expr::{Cmp, Term};

/// The maximum number of operations that are followed backwards.
const MAX_OPERATIONS: usize = 64;
/// The maximum number of nodes of a term: a sum that is multiplied by itself doubles each time.
const MAX_SIZE: u32 = 1 << 10;

/// Computes the terms of integer values.
pub(super) struct Values<'a> {
    module: &'a Module,
    /// Pairs of a value and its upper bound that must hold for the integer operations not to
    /// overflow.
    pub(super) fits: Vec<(Term, Term)>,
    /// The results so far, by instruction.
    known: FxHashMap<InstructionId, Option<Term>>,
}

/// Whether the value of a one-element integer array is computed from sizes and constants only.
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

    /// The term of a one-element integer array; `None` if it depends on anything but sizes.
    pub(super) fn of(&mut self, id: InstructionId) -> Option<Term> {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        if self.known.len() >= MAX_OPERATIONS {
            return None;
        }
        // This entry counts the operations followed, which bounds the depth of recursion. Operands
        // never lead back to the instruction itself.
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
                // HLO divides with rounding towards zero.
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
