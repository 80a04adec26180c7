//! A builder for kernels: library operations that can be expressed in the kernel language are built
//! with it.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, Param, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, Direction, ElementType, Order, Symbol};

/// A kernel under construction.
pub(super) struct Builder<'a> {
    kernel: Kernel,
    plan_symbols: &'a [Symbol],
    symbols: FxHashMap<Var, Var>,
    statements: Vec<Statement>,
}

impl<'a> Builder<'a> {
    /// An empty kernel for a plan with these symbols.
    pub(super) fn new(plan_symbols: &'a [Symbol]) -> Self {
        Self {
            kernel: Kernel::default(),
            plan_symbols,
            symbols: FxHashMap::default(),
            statements: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> Kernel {
        self.kernel.body.statements = self.statements;
        self.kernel
    }

    /// Rewrites a size over the plan's symbols as one over the kernel's variables.
    pub(super) fn size(&mut self, size: &Term) -> Term {
        let mut used = Vec::new();
        size.for_each_var(&mut |var| used.push(var));
        for var in used {
            if self.symbols.contains_key(&var) {
                continue;
            }
            let known = self.plan_symbols.get(var.0 as usize);
            let own = self.kernel.push_var(IndexVar::Symbol {
                symbol: var.0,
                lower: known.map_or(0, |s| s.lower),
                upper: known.map_or(i64::MAX, |s| s.upper),
            });
            self.symbols.insert(var, own);
        }
        size.substitute(&mut |var| self.symbols.get(&var).map(|&own| Term::var(own)))
    }

    /// Adds a parameter; its dimensions are terms over the kernel's variables.
    pub(super) fn param(&mut self, access: Access, ty: ElementType, dims: Vec<Term>) -> usize {
        self.kernel.params.push(Param {
            access,
            element_type: ty,
            dims,
        });
        self.kernel.params.len() - 1
    }

    /// Adds a dimension to the domain.
    pub(super) fn domain(&mut self, extent: Term) -> Term {
        let var = self.kernel.push_var(IndexVar::Domain(extent));
        self.kernel.domain.push(var);
        Term::var(var)
    }

    pub(super) fn load(&mut self, param: usize, index: Vec<Term>) -> ScalarId {
        let ty = self.kernel.params[param].element_type;
        let result = self.kernel.scalars.push(ty);
        self.statements.push(Statement::Load {
            result,
            param,
            index,
        });
        result
    }

    pub(super) fn store(&mut self, param: usize, index: Vec<Term>, value: ScalarId) {
        self.statements.push(Statement::Store {
            param,
            index,
            value,
        });
    }

    fn compute(&mut self, ty: ElementType, op: ScalarOp, operands: &[ScalarId]) -> ScalarId {
        let result = self.kernel.scalars.push(ty);
        self.statements.push(Statement::Compute {
            result,
            op,
            operands: SmallVec::from_slice(operands),
        });
        result
    }

    /// Zero of any type.
    pub(super) fn zero(&mut self, ty: ElementType) -> ScalarId {
        self.compute(ty, ScalarOp::Constant(0), &[])
    }

    pub(super) fn convert(&mut self, ty: ElementType, value: ScalarId) -> ScalarId {
        match self.kernel.scalars[value] == ty {
            true => value,
            false => self.compute(ty, ScalarOp::Convert, &[value]),
        }
    }

    pub(super) fn binary(&mut self, op: Binary, a: ScalarId, b: ScalarId) -> ScalarId {
        let ty = self.kernel.scalars[a];
        self.compute(ty, ScalarOp::Binary(op), &[a, b])
    }

    /// A comparison in the total order of the operands' type.
    pub(super) fn compare(&mut self, direction: Direction, a: ScalarId, b: ScalarId) -> ScalarId {
        let op = ScalarOp::Compare(direction, Order::Total);
        self.compute(ElementType::Pred, op, &[a, b])
    }

    /// The value of a term.
    pub(super) fn index(&mut self, ty: ElementType, term: Term) -> ScalarId {
        self.compute(ty, ScalarOp::Index(term), &[])
    }

    /// A loop that carries one scalar; `body` computes its next value from the counter and the
    /// current value.
    pub(super) fn fold(
        &mut self,
        extent: Term,
        init: ScalarId,
        body: &mut dyn FnMut(&mut Self, Term, ScalarId) -> ScalarId,
    ) -> ScalarId {
        let ty = self.kernel.scalars[init];
        let var = self.kernel.push_var(IndexVar::Loop(extent));
        let carried = self.kernel.scalars.push(ty);
        let (statements, next) = self.block(&mut |builder| body(builder, Term::var(var), carried));
        let result = self.kernel.scalars.push(ty);
        self.statements.push(Statement::Loop {
            var,
            init: smallvec![init],
            carried: smallvec![carried],
            body: Block {
                statements,
                results: smallvec![next],
            },
            results: smallvec![result],
        });
        result
    }

    /// A conditional: the result of `then` where the condition holds, otherwise `otherwise`.
    pub(super) fn choose(
        &mut self,
        condition: Term,
        otherwise: ScalarId,
        then: &mut dyn FnMut(&mut Self) -> ScalarId,
    ) -> ScalarId {
        let (statements, value) = self.block(then);
        let result = self.kernel.scalars.push(self.kernel.scalars[otherwise]);
        self.statements.push(Statement::If {
            condition,
            then: Block {
                statements,
                results: smallvec![value],
            },
            otherwise: Block {
                statements: Vec::new(),
                results: smallvec![otherwise],
            },
            results: smallvec![result],
        });
        result
    }

    fn block(&mut self, body: &mut dyn FnMut(&mut Self) -> ScalarId) -> (Vec<Statement>, ScalarId) {
        let outer = std::mem::take(&mut self.statements);
        let value = body(self);
        (std::mem::replace(&mut self.statements, outer), value)
    }
}
