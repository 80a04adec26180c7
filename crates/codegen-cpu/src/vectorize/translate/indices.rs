//! Narrows 64-bit computations of indices to 32 bits.
//!
//! A gather's index is widened to 64 bits, clamped to the array's bounds, and bound to a variable.
//! If the bounds are constants of 32 bits, clamping the 32-bit index gives the same, whereas 64-bit
//! lanes would halve the number of lanes in all vectors.

use rustc_hash::{FxHashMap, FxHashSet};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::ElementType;

/// The scalars of 64 bits that vectorised code computes in lanes of 32 bits.
#[derive(Default)]
pub(super) struct Indices {
    /// Conversions to 64 bits whose results only the clamps in `clamped` use.
    pub(super) widened: FxHashSet<ScalarId>,
    /// Clamps of the conversions in `widened`. Their results are only bound to variables.
    pub(super) clamped: FxHashSet<ScalarId>,
}

impl Indices {
    /// The indices of a kernel; `constants` are the bits of its constants.
    pub(super) fn of(kernel: &Kernel, constants: &FxHashMap<ScalarId, u128>) -> Self {
        if !kernel.body.any(|s| matches!(s, Statement::Bind { .. })) {
            return Self::default();
        }
        let mut indices = Self::default();
        indices.find(kernel, constants, &kernel.body);
        for var in &kernel.vars {
            if let IndexVar::Runtime { value, .. } = var {
                indices.widened.remove(value);
            }
        }
        indices.drop_clamps(&kernel.body);
        loop {
            let before = indices.clamped.len();
            let mut kept = (indices.widened.clone(), indices.clamped.clone());
            drop_used(&kernel.body, &indices.clamped, &mut kept);
            (indices.widened, indices.clamped) = kept;
            indices.drop_clamps(&kernel.body);
            if indices.clamped.len() == before {
                return indices;
            }
        }
    }

    fn find(&mut self, kernel: &Kernel, constants: &FxHashMap<ScalarId, u128>, block: &Block) {
        use ElementType::{S8, S16, S32, S64, U8, U16};
        let short = |id: &ScalarId| {
            let bits = constants.get(id)?;
            i32::try_from((*bits as u64).cast_signed()).ok()
        };
        for statement in &block.statements {
            match statement {
                Statement::Compute {
                    result,
                    op,
                    operands,
                } if kernel.scalars[*result] == S64 => match (op, &operands[..]) {
                    (ScalarOp::Convert, &[from])
                        if matches!(kernel.scalars[from], S8 | S16 | S32 | U8 | U16) =>
                    {
                        self.widened.insert(*result);
                    }
                    (ScalarOp::Clamp, [low, wide, high])
                        if short(low).is_some()
                            && short(high).is_some()
                            && self.widened.contains(wide) =>
                    {
                        self.clamped.insert(*result);
                    }
                    _ => {}
                },
                Statement::Loop { body, .. } => self.find(kernel, constants, body),
                Statement::If {
                    then, otherwise, ..
                } => {
                    self.find(kernel, constants, then);
                    self.find(kernel, constants, otherwise);
                }
                _ => {}
            }
        }
    }

    /// Drops the clamps whose operand is not such a conversion.
    fn drop_clamps(&mut self, block: &Block) {
        for statement in &block.statements {
            match statement {
                Statement::Compute {
                    result,
                    op: ScalarOp::Clamp,
                    operands,
                } if !operands.get(1).is_some_and(|w| self.widened.contains(w)) => {
                    self.clamped.remove(result);
                }
                Statement::Loop { body, .. } => self.drop_clamps(body),
                Statement::If {
                    then, otherwise, ..
                } => {
                    self.drop_clamps(then);
                    self.drop_clamps(otherwise);
                }
                _ => {}
            }
        }
    }
}

type Sets = (FxHashSet<ScalarId>, FxHashSet<ScalarId>);

/// Drops scalars with other uses from `kept`: conversions may only be used by clamps, and clamps by
/// no computation.
fn drop_used(block: &Block, clamped: &FxHashSet<ScalarId>, kept: &mut Sets) {
    let drop = |id: &ScalarId, kept: &mut Sets| {
        kept.0.remove(id);
        kept.1.remove(id);
    };
    for statement in &block.statements {
        match statement {
            Statement::Compute {
                result, operands, ..
            } => {
                for (i, operand) in operands.iter().enumerate() {
                    if !(i == 1 && clamped.contains(result)) {
                        drop(operand, kept);
                    }
                }
            }
            Statement::Store { value, .. } => drop(value, kept),
            Statement::Load { .. } | Statement::Bind { .. } => {}
            Statement::Loop { init, body, .. } => {
                init.iter()
                    .chain(&body.results)
                    .for_each(|id| drop(id, kept));
                drop_used(body, clamped, kept);
            }
            Statement::If {
                then, otherwise, ..
            } => {
                for block in [then, otherwise] {
                    block.results.iter().for_each(|id| drop(id, kept));
                    drop_used(block, clamped, kept);
                }
            }
        }
    }
}
