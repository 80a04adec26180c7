//! The part of the verifier that checks a kernel by itself: the invariants of
//! [`tegula_fusion::kernel`] that can be checked without knowing sizes.
//!
//! - Scalars and index variables are defined once, before their uses, in the same block or an
//!   enclosing one.
//! - Loads and stores have one index term per dimension, move scalars of the parameter's type, and
//!   respect its access. Local parameters come last, and their sizes are constant.
//! - What loops and conditionals pass on agrees in number and types.
//!
//! It does not check that indices are in bounds, because they may depend on data.

use super::verifier_error::VerifierError;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType, Unary};

/// Checks a kernel by itself.
///
/// # Errors
/// The first invariant that it breaks.
pub fn verify_kernel(kernel: &Kernel) -> Result<(), VerifierError> {
    check_kernel(kernel).map_err(VerifierError)
}

fn check_kernel(kernel: &Kernel) -> Result<(), String> {
    let mut check = Check {
        kernel,
        scalars: vec![Scope::Before; kernel.scalars.len()],
        vars: vec![Scope::Before; kernel.vars.len()],
        opened: Vec::new(),
    };
    for (i, var) in kernel.vars.iter().enumerate() {
        if let (IndexVar::Symbol { .. }, Some(scope)) = (var, check.vars.get_mut(i)) {
            *scope = Scope::Inside;
        }
    }
    for (i, param) in kernel.params.iter().enumerate() {
        check.terms(&param.dims)?;
        let is_local = param.access == Access::Local;
        if is_local != (i >= kernel.given()) {
            return Err(format!(
                "parameter {i} comes after a local parameter but is not local"
            ));
        }
        if is_local && !param.dims.iter().all(|dim| dim.as_constant().is_some()) {
            return Err(format!(
                "parameter {i} is local, and its size is not constant"
            ));
        }
    }
    for &var in &kernel.domain {
        let Some(IndexVar::Domain(extent)) = kernel.var(var) else {
            return Err(format!("{} is not a variable of the domain", name(var)));
        };
        check.term(extent)?;
        check.define_var(var)?;
    }
    check.block(&kernel.body)?;
    match kernel.body.results.is_empty() {
        true => Ok(()),
        false => Err("the body yields scalars, but nothing takes them".to_owned()),
    }
}

/// Whether a kernel computes the same if a parameter that it reads and one that it writes are given
/// the same memory. At each point it must load the one only at the index where it later stores the
/// other; or, if it stores in a loop, before that loop and only at indices that the loop stores to.
pub(super) fn works_in_place(kernel: &Kernel, read: usize, written: usize) -> bool {
    let (Some(from), Some(to)) = (kernel.params.get(read), kernel.params.get(written)) else {
        return false;
    };
    let same_size = from.dims == to.dims
        && from.element_type.storage_bytes() == to.element_type.storage_bytes();
    if from.access != Access::Read || to.access != Access::Write || !same_size {
        return false;
    }
    let statements = &kernel.body.statements;
    let stores = |s: &Statement| !all(std::slice::from_ref(s), &|s| !is_store(s, written));
    let Some(position) = statements.iter().position(stores) else {
        return false;
    };
    let (before, rest) = statements.split_at(position);
    let Some((here, after)) = rest.split_first() else {
        return false;
    };
    let (inside, var) = match here {
        Statement::Loop { var, body, .. } => (&body.statements[..], Some(*var)),
        _ => (std::slice::from_ref(here), None),
    };
    let Some(inner) = inside.iter().position(|s| is_store(s, written)) else {
        return false;
    };
    let Statement::Store { index, .. } = &inside[inner] else {
        return false;
    };
    let loads = |at: &dyn Fn(&[Term]) -> bool, statements: &[Statement]| {
        all(statements, &|s| match s {
            Statement::Load { param, index, .. } => *param != read || at(index),
            _ => !is_store(s, written),
        })
    };
    let same = |at: &[Term]| at == index;
    // Along the loop's own dimension, it may be any element that the loop stores.
    let same_row = |at: &[Term]| {
        at.len() == index.len()
            && (at.iter().zip(index)).all(|(a, b)| a == b || var.is_some_and(|var| b.mentions(var)))
    };
    let none = |_: &[Term]| false;
    loads(&same_row, before)
        && loads(&same, &inside[..inner])
        && loads(&none, &inside[inner + 1..])
        && loads(&none, after)
}

fn is_store(statement: &Statement, of: usize) -> bool {
    matches!(statement, Statement::Store { param, .. } if *param == of)
}

/// Whether a condition holds for all statements, including nested ones.
fn all(statements: &[Statement], holds: &dyn Fn(&Statement) -> bool) -> bool {
    statements.iter().all(|statement| {
        holds(statement)
            && match statement {
                Statement::Loop { body, .. } => all(&body.statements, holds),
                Statement::If {
                    then, otherwise, ..
                } => all(&then.statements, holds) && all(&otherwise.statements, holds),
                _ => true,
            }
    })
}

/// Where the definition of a scalar or variable is, relative to the current statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Not defined yet.
    Before,
    /// Defined, and its block is still open.
    Inside,
    /// Defined in a block that has ended.
    After,
}

enum Defined {
    Scalar(ScalarId),
    Var(Var),
}

struct Check<'a> {
    kernel: &'a Kernel,
    scalars: Vec<Scope>,
    vars: Vec<Scope>,
    /// What the open blocks define, in order.
    opened: Vec<Defined>,
}

fn name(var: Var) -> String {
    format!("i{}", var.0)
}

impl Check<'_> {
    fn define(&mut self, id: ScalarId) -> Result<(), String> {
        match self.scalars.get_mut(id.as_u32() as usize) {
            Some(scope @ Scope::Before) => *scope = Scope::Inside,
            Some(_) => return Err(format!("{id} is defined twice")),
            None => return Err(format!("{id} has no type")),
        }
        self.opened.push(Defined::Scalar(id));
        Ok(())
    }

    fn define_var(&mut self, var: Var) -> Result<(), String> {
        match self.vars.get_mut(var.0 as usize) {
            Some(scope @ Scope::Before) => *scope = Scope::Inside,
            Some(_) => return Err(format!("{} is defined twice", name(var))),
            None => return Err(format!("{} is not declared", name(var))),
        }
        self.opened.push(Defined::Var(var));
        Ok(())
    }

    /// The type of a scalar that is used; an error if it is not defined here.
    fn used(&self, id: ScalarId) -> Result<ElementType, String> {
        let inside = self.scalars.get(id.as_u32() as usize) == Some(&Scope::Inside);
        let element_type = self.kernel.scalars.get(id).filter(|_| inside);
        element_type.ok_or_else(|| format!("{id} is used where it is not defined"))
    }

    fn all_used(&self, ids: &[ScalarId]) -> Result<Vec<ElementType>, String> {
        ids.iter().map(|&id| self.used(id)).collect()
    }

    fn types(&self, ids: &[ScalarId]) -> Vec<Option<ElementType>> {
        ids.iter().map(|&id| self.kernel.scalars.get(id)).collect()
    }

    fn term(&self, term: &Term) -> Result<(), String> {
        let mut missing = None;
        term.for_each_var(&mut |var| {
            if self.vars.get(var.0 as usize) != Some(&Scope::Inside) {
                missing = missing.or(Some(var));
            }
        });
        match missing {
            Some(var) => Err(format!("{} is used where it is not defined", name(var))),
            None => Ok(()),
        }
    }

    fn terms(&self, terms: &[Term]) -> Result<(), String> {
        terms.iter().try_for_each(|term| self.term(term))
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        for statement in &block.statements {
            self.statement(statement)?;
        }
        self.all_used(&block.results).map(|_| ())
    }

    /// Checks a nested block and returns the types that it yields.
    fn inner(&mut self, block: &Block, first: usize) -> Result<Vec<ElementType>, String> {
        self.block(block)?;
        let types = self.all_used(&block.results)?;
        for defined in self.opened.drain(first..) {
            let scope = match defined {
                Defined::Scalar(id) => self.scalars.get_mut(id.as_u32() as usize),
                Defined::Var(var) => self.vars.get_mut(var.0 as usize),
            };
            if let Some(scope) = scope {
                *scope = Scope::After;
            }
        }
        Ok(types)
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                self.compute(*result, op, operands)?;
                self.define(*result)
            }
            Statement::Load {
                result,
                param,
                index,
            } => {
                self.define(*result)?;
                self.element(*param, index, *result, Access::Write, "loaded")
            }
            Statement::Store {
                param,
                index,
                value,
            } => {
                self.used(*value)?;
                self.element(*param, index, *value, Access::Read, "stored")
            }
            Statement::Bind { var } => self.bind(*var),
            Statement::Loop { .. } => self.counted_loop(statement),
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => {
                self.term(condition)?;
                let first = self.opened.len();
                let then = self.inner(then, first)?;
                let otherwise = self.inner(otherwise, first)?;
                let results_: Vec<_> = self.types(results);
                let agrees = |types: &[ElementType]| {
                    types.iter().copied().map(Some).eq(results_.iter().copied())
                };
                if !agrees(&then) || !agrees(&otherwise) {
                    return Err("the branches of an `if` do not yield its results".to_owned());
                }
                results.iter().try_for_each(|&id| self.define(id))
            }
        }
    }

    fn counted_loop(&mut self, statement: &Statement) -> Result<(), String> {
        let Statement::Loop {
            var,
            init,
            carried,
            body,
            results,
        } = statement
        else {
            return Ok(());
        };
        let Some(IndexVar::Loop(extent)) = self.kernel.var(*var) else {
            return Err(format!("{} is not a variable of a loop", name(*var)));
        };
        self.term(extent)?;
        let init: Vec<_> = self.all_used(init)?.into_iter().map(Some).collect();
        let first = self.opened.len();
        self.define_var(*var)?;
        carried.iter().try_for_each(|&id| self.define(id))?;
        let next: Vec<_> = self.inner(body, first)?.into_iter().map(Some).collect();
        if self.types(carried) != init || next != init || self.types(results) != init {
            let var = name(*var);
            return Err(format!(
                "the scalars that the loop over {var} carries do not agree"
            ));
        }
        results.iter().try_for_each(|&id| self.define(id))
    }

    fn bind(&mut self, var: Var) -> Result<(), String> {
        let Some(IndexVar::Runtime { value, .. }) = self.kernel.var(var) else {
            return Err(format!("{} is not a run-time variable", name(var)));
        };
        let element_type = self.used(*value)?;
        if !element_type.is_integer() && element_type != ElementType::Pred {
            return Err(format!(
                "{} is bound to {value}, which is not an integer",
                name(var)
            ));
        }
        self.define_var(var)
    }

    fn element(
        &self,
        param: usize,
        index: &[Term],
        scalar: ScalarId,
        forbidden: Access,
        what: &str,
    ) -> Result<(), String> {
        let Some(declared) = self.kernel.params.get(param) else {
            return Err(format!("parameter {param} is not declared"));
        };
        if declared.access == forbidden {
            return Err(format!(
                "parameter {param} is {what}, which its access does not allow"
            ));
        }
        if declared.dims.len() != index.len() {
            let (rank, given) = (declared.dims.len(), index.len());
            return Err(format!(
                "parameter {param} has {rank} dimensions, not {given}"
            ));
        }
        if self.kernel.scalars.get(scalar) != Some(declared.element_type) {
            return Err(format!(
                "parameter {param} and {scalar} are of different types"
            ));
        }
        self.terms(index)
    }

    fn compute(
        &self,
        result: ScalarId,
        op: &ScalarOp,
        operands: &[ScalarId],
    ) -> Result<(), String> {
        let types = self.all_used(operands)?;
        let Some(to) = self.kernel.scalars.get(result) else {
            return Err(format!("{result} has no type"));
        };
        let right = match (op, &types[..]) {
            (ScalarOp::Constant(_), []) => true,
            (ScalarOp::Index(term), []) => return self.term(term),
            (ScalarOp::Convert, [_]) => true,
            (ScalarOp::Unary(op), [a]) => to == of_one(*op, *a),
            (ScalarOp::Binary(Binary::Complex), [a, b]) => a == b && to.complex_part() == Some(*a),
            (ScalarOp::Binary(_), [a, b]) => a == b && *a == to,
            (ScalarOp::Compare(..), [a, b]) => a == b && to == ElementType::Pred,
            (ScalarOp::Select, [condition, a, b]) => {
                *condition == ElementType::Pred && *a == to && *b == to
            }
            (ScalarOp::Clamp, [a, b, c]) => [a, b, c].iter().all(|&&t| t == to),
            (ScalarOp::BitcastConvert, [a]) => a.bits() == to.bits(),
            (ScalarOp::ReducePrecision { .. }, [a]) => *a == to,
            _ => false,
        };
        match right {
            true => Ok(()),
            false => Err(format!("the operands of {result} do not fit its operation")),
        }
    }
}

/// The result type of a unary operation.
fn of_one(op: Unary, operand: ElementType) -> ElementType {
    match op {
        Unary::IsFinite => ElementType::Pred,
        Unary::Abs | Unary::Real | Unary::Imag => operand.complex_part().unwrap_or(operand),
        _ => operand,
    }
}
