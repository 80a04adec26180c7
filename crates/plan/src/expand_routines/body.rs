//! Building the body of a kernel that adds up products.

use smallvec::smallvec;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType};

/// The body of a kernel in the making, whose parameter 0 is the result.
pub(super) struct Body<'a> {
    kernel: &'a mut Kernel,
    result: ElementType,
    /// The type that products are added up in.
    sum: ElementType,
}

/// What is done inside of all loops: it gives the next sum.
pub(super) type Inside<'i> =
    dyn FnMut(&mut Body<'_>, ScalarId, &mut Vec<Statement>) -> ScalarId + 'i;

impl<'a> Body<'a> {
    /// Floats narrower than f32 are added up in f32, other numbers in the result's type.
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

    /// The sum of nothing.
    pub(super) fn zero(&mut self, statements: &mut Vec<Statement>) -> ScalarId {
        let result = self.kernel.scalars.push(self.sum);
        statements.push(Statement::Compute {
            result,
            op: ScalarOp::Constant(0),
            operands: smallvec![],
        });
        result
    }

    /// A loop for each of these variables, which carries the sum.
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

    /// What `then` makes of a sum where the condition holds, and the sum itself elsewhere.
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

    /// An element of a parameter, in the type of the sums.
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

    /// A sum and a product.
    pub(super) fn add_product(
        &mut self,
        sum: ScalarId,
        factors: [ScalarId; 2],
        statements: &mut Vec<Statement>,
    ) -> ScalarId {
        let product = self.binary(Binary::Multiply, factors, statements);
        self.binary(Binary::Add, [sum, product], statements)
    }

    /// An operation on two numbers of the sums' type.
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

    /// Writes a sum to the result.
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
