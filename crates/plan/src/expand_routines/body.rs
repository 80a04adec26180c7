//! Builds the body of a kernel that sums products.

use smallvec::smallvec;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType};

/// The body of a kernel under construction; parameter 0 is the result.
pub(super) struct Body<'a> {
    kernel: &'a mut Kernel,
    result: ElementType,
    /// The accumulator's type.
    sum: ElementType,
}

/// Emits the statements inside of all loops, and returns the next sum.
pub(super) type Inside<'i> =
    dyn FnMut(&mut Body<'_>, ScalarId, &mut Vec<Statement>) -> ScalarId + 'i;

impl<'a> Body<'a> {
    /// The accumulator is `f32` for floats narrower than `f64`, else of the result's type.
    pub(super) fn new(kernel: &'a mut Kernel, result: ElementType) -> Self {
        let sum = match result.is_float() && result != ElementType::F64 {
            true => ElementType::F32,
            false => result,
        };
        Self {
            kernel,
            result,
            sum,
        }
    }

    /// The initial sum, zero.
    pub(super) fn zero(&mut self, statements: &mut Vec<Statement>) -> ScalarId {
        let result = self.kernel.scalars.push(self.sum);
        statements.push(Statement::Compute {
            result,
            op: ScalarOp::Constant(0),
            operands: smallvec![],
        });
        result
    }

    /// Emits a loop for each of these variables; the loops carry the sum.
    pub(super) fn sums(
        &mut self,
        loops: &[Var],
        start: ScalarId,
        statements: &mut Vec<Statement>,
        inside: &mut Inside<'_>,
    ) -> ScalarId {
        let Some((&var, inner)) = loops.split_first() else {
            return inside(self, start, statements);
        };
        let carried = self.kernel.scalars.push(self.sum);
        let mut body = Block::default();
        let next = self.sums(inner, carried, &mut body.statements, inside);
        body.results = smallvec![next];
        let result = self.kernel.scalars.push(self.sum);
        statements.push(Statement::Loop {
            var,
            init: smallvec![start],
            carried: smallvec![carried],
            body,
            results: smallvec![result],
        });
        result
    }

    /// Applies `then` to the sum where the condition holds; elsewhere, the sum stays the same.
    pub(super) fn where_holds(
        &mut self,
        condition: Option<Term>,
        sum: ScalarId,
        statements: &mut Vec<Statement>,
        then: &mut Inside<'_>,
    ) -> ScalarId {
        let Some(condition) = condition else {
            return then(self, sum, statements);
        };
        let mut block = Block::default();
        let next = then(self, sum, &mut block.statements);
        block.results = smallvec![next];
        let result = self.kernel.scalars.push(self.sum);
        statements.push(Statement::If {
            condition,
            then: block,
            otherwise: Block {
                results: smallvec![sum],
                ..Block::default()
            },
            results: smallvec![result],
        });
        result
    }

    /// Loads an element of a parameter and converts it to the accumulator's type.
    pub(super) fn load(
        &mut self,
        param: usize,
        index: Vec<Term>,
        statements: &mut Vec<Statement>,
    ) -> ScalarId {
        let element_type = self.kernel.params[param].element_type;
        let result = self.kernel.scalars.push(element_type);
        statements.push(Statement::Load {
            result,
            param,
            index,
        });
        self.converted(result, self.sum, statements)
    }

    /// Adds a product to a sum.
    pub(super) fn add_product(
        &mut self,
        sum: ScalarId,
        factors: [ScalarId; 2],
        statements: &mut Vec<Statement>,
    ) -> ScalarId {
        let product = self.binary(Binary::Multiply, factors, statements);
        self.binary(Binary::Add, [sum, product], statements)
    }

    /// An operation on two scalars of the accumulator's type.
    pub(super) fn binary(
        &mut self,
        op: Binary,
        operands: [ScalarId; 2],
        statements: &mut Vec<Statement>,
    ) -> ScalarId {
        let result = self.kernel.scalars.push(self.sum);
        statements.push(Statement::Compute {
            result,
            op: ScalarOp::Binary(op),
            operands: operands.into_iter().collect(),
        });
        result
    }

    /// Stores a sum to the result.
    pub(super) fn store(
        &mut self,
        sum: ScalarId,
        index: Vec<Term>,
        statements: &mut Vec<Statement>,
    ) {
        let value = self.converted(sum, self.result, statements);
        statements.push(Statement::Store {
            param: 0,
            index,
            value,
        });
    }

    fn converted(
        &mut self,
        value: ScalarId,
        to: ElementType,
        statements: &mut Vec<Statement>,
    ) -> ScalarId {
        if self.kernel.scalars[value] == to {
            return value;
        }
        let result = self.kernel.scalars.push(to);
        statements.push(Statement::Compute {
            result,
            op: ScalarOp::Convert,
            operands: smallvec![value],
        });
        result
    }
}
