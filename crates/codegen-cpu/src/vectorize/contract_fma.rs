//! Contracts a product and a sum to a fused multiply-add, which rounds once.
//!
//! A product of floats that is used once, by a sum or a difference, is computed with it if the
//! machine can: one instruction instead of two, and one rounding less. Only products of the program
//! are contracted, because functions are made of operations whose roundings matter. If two products
//! are added or subtracted, neither is contracted, so that symmetric expressions stay symmetric
//! (`x * y - y * x` is 0), and neither are parts of complex numbers.

use crate::simd::ir::Fused;
use rustc_hash::FxHashMap;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType};

/// The products of a kernel that are contracted with a sum or difference.
#[derive(Default)]
pub(crate) struct Products {
    factors: FxHashMap<ScalarId, [ScalarId; 2]>,
    /// The number of uses of each product.
    uses: FxHashMap<ScalarId, u32>,
}

impl Products {
    /// The products of a kernel.
    pub(crate) fn of(kernel: &Kernel) -> Self {
        let mut products = Self::default();
        products.find(kernel, &kernel.body);
        if !products.factors.is_empty() {
            products.count(&kernel.body);
            for var in &kernel.vars {
                if let IndexVar::Runtime { value, .. } = var {
                    products.used(value);
                }
            }
        }
        products
    }

    /// For a sum or difference with a contracted product: the product's factors and the other
    /// operand.
    pub(crate) fn contracted(
        &self,
        op: &ScalarOp,
        operands: &[ScalarId],
    ) -> Option<(Fused, [ScalarId; 2], ScalarId)> {
        let (ScalarOp::Binary(op), &[x, y]) = (op, operands) else {
            return None;
        };
        let (fused, swapped) = match op {
            Binary::Add => (Fused::Sum, Fused::Sum),
            Binary::Subtract => (Fused::Less, Fused::From),
            _ => return None,
        };
        match [x, y].map(|s| self.factors.get(&s)) {
            [Some(&factors), None] if self.is_used_once(x) => Some((fused, factors, y)),
            [None, Some(&factors)] if self.is_used_once(y) => Some((swapped, factors, x)),
            _ => None,
        }
    }

    fn is_used_once(&self, product: ScalarId) -> bool {
        self.uses.get(&product) == Some(&1)
    }

    fn find(&mut self, kernel: &Kernel, block: &Block) {
        for statement in &block.statements {
            match statement {
                Statement::Compute {
                    result,
                    op: ScalarOp::Binary(Binary::Multiply),
                    operands,
                } if matches!(kernel.scalars[*result], ElementType::F32 | ElementType::F64) => {
                    if let &[a, b] = operands.as_slice() {
                        self.factors.insert(*result, [a, b]);
                    }
                }
                Statement::Loop { body, .. } => self.find(kernel, body),
                Statement::If {
                    then, otherwise, ..
                } => {
                    self.find(kernel, then);
                    self.find(kernel, otherwise);
                }
                _ => {}
            }
        }
    }

    fn used(&mut self, scalar: &ScalarId) {
        if self.factors.contains_key(scalar) {
            *self.uses.entry(*scalar).or_default() += 1;
        }
    }

    fn count(&mut self, block: &Block) {
        block.results.iter().for_each(|s| self.used(s));
        for statement in &block.statements {
            match statement {
                Statement::Compute { operands, .. } => operands.iter().for_each(|s| self.used(s)),
                Statement::Store { value, .. } => self.used(value),
                Statement::Load { .. } | Statement::Bind { .. } => {}
                Statement::Loop { init, body, .. } => {
                    init.iter().for_each(|s| self.used(s));
                    self.count(body);
                }
                Statement::If {
                    then, otherwise, ..
                } => {
                    self.count(then);
                    self.count(otherwise);
                }
            }
        }
    }
}
