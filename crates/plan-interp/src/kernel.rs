//! Interprets a kernel on bytes, statement by statement. This defines what kernels compute.

use super::{EvaluateError, Memory, Span};
use smallvec::SmallVec;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{ElementType, Unary};
use tegula_plan::part_of;
use tegula_scalar as scalar;

/// Runs a kernel over its whole domain. `args` has the memory of each parameter.
pub(crate) fn run_kernel(
    kernel: &Kernel,
    args: &[Span],
    memory: &mut Memory<'_>,
) -> Result<(), EvaluateError> {
    run_strip(kernel, args, (1, 0), memory)
}

/// Runs one of the `count` strips into which a kernel's outermost dimension is divided.
pub(crate) fn run_strip(
    kernel: &Kernel,
    args: &[Span],
    (count, strip): (i64, i64),
    memory: &mut Memory<'_>,
) -> Result<(), EvaluateError> {
    let mut run = Run {
        kernel,
        args,
        memory,
        scalars: vec![0; kernel.scalars.len()],
        vars: vec![None; kernel.vars.len()],
        strides: Vec::with_capacity(kernel.params.len()),
        locals: Vec::new(),
    };
    for param in &kernel.params {
        let dims: Result<Vec<i64>, _> = param.dims.iter().map(|d| run.term(d)).collect();
        run.strides.push(dims?);
    }
    run.make_locals()?;
    // An empty domain may still have a very long dimension.
    for &var in &kernel.domain {
        if run.extent(var)? <= 0 {
            return Ok(());
        }
    }
    let Some(&outermost) = kernel.domain.first() else {
        return run.point();
    };
    for i in part_of(run.extent(outermost)?, count, strip) {
        run.set(outermost, i);
        run.domain(1)?;
    }
    Ok(())
}

/// The location of an element.
enum At {
    /// In one of the kernel's parameters, at this byte offset.
    Given(Span, i64),
    /// In an array local to the point, at this element.
    Local(usize, usize),
}

struct Run<'a, 'm> {
    kernel: &'a Kernel,
    args: &'a [Span],
    memory: &'a mut Memory<'m>,
    scalars: Vec<u128>,
    vars: Vec<Option<i64>>,
    /// The strides of each parameter.
    strides: Vec<Vec<i64>>,
    /// The arrays local to the point: the value of each element that was stored.
    locals: Vec<Vec<Option<u128>>>,
}

/// The maximum number of bytes of all local arrays.
const MAX_LOCALS: i64 = 1 << 30;

impl Run<'_, '_> {
    fn make_locals(&mut self) -> Result<(), EvaluateError> {
        let mut bytes = 0i64;
        for dims in self.strides.iter().skip(self.kernel.given()) {
            let mut elements = 16i64;
            for &dim in dims {
                elements = elements.saturating_mul(dim);
            }
            bytes = bytes.saturating_add(elements);
            if dims.iter().any(|&dim| dim < 0) || bytes > MAX_LOCALS {
                return Err(EvaluateError::TooLarge(bytes));
            }
            self.locals.push(vec![None; (elements / 16) as usize]);
        }
        Ok(())
    }

    fn domain(&mut self, level: usize) -> Result<(), EvaluateError> {
        let kernel = self.kernel;
        let Some(&var) = kernel.domain.get(level) else {
            return self.point();
        };
        for i in 0..self.extent(var)? {
            self.set(var, i);
            self.domain(level + 1)?;
        }
        Ok(())
    }

    fn point(&mut self) -> Result<(), EvaluateError> {
        tegula_limits::check()?;
        // Values that the previous point stored are not visible.
        for local in &mut self.locals {
            local.fill(None);
        }
        self.block(&self.kernel.body)
    }

    fn extent(&self, var: Var) -> Result<i64, EvaluateError> {
        match self.kernel.var(var) {
            Some(IndexVar::Domain(extent) | IndexVar::Loop(extent)) => self.term(extent),
            _ => Err(EvaluateError::Malformed(
                "a loop or domain runs over a variable of another kind",
            )),
        }
    }

    fn set(&mut self, var: Var, value: i64) {
        if let Some(slot) = self.vars.get_mut(var.0 as usize) {
            *slot = Some(value);
        }
    }

    fn term(&self, term: &Term) -> Result<i64, EvaluateError> {
        if let Some(value) = term.as_constant() {
            return Ok(value);
        }
        let lookup = |var: Var| self.vars.get(var.0 as usize).copied().flatten();
        term.eval(&lookup)
            .map_err(|e| EvaluateError::Index(e.to_string()))
    }

    fn scalar(&self, id: ScalarId) -> u128 {
        self.scalars.get(id.as_u32() as usize).copied().unwrap_or(0)
    }

    fn define(&mut self, id: ScalarId, bits: u128) {
        if let Some(slot) = self.scalars.get_mut(id.as_u32() as usize) {
            *slot = bits;
        }
    }

    fn type_of(&self, id: ScalarId) -> Result<ElementType, EvaluateError> {
        self.kernel
            .scalars
            .get(id)
            .ok_or(EvaluateError::Malformed("a scalar has no declared type"))
    }

    fn block(&mut self, block: &Block) -> Result<(), EvaluateError> {
        block
            .statements
            .iter()
            .try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), EvaluateError> {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                let bits = self.compute(*result, op, operands)?;
                self.define(*result, bits);
            }
            Statement::Load {
                result,
                param,
                index,
            } => {
                let (at, size) = self.element(*param, index)?;
                let bits = match at {
                    At::Given(span, offset) => self.memory.read(span, offset, size)?,
                    At::Local(local, i) => {
                        let element = self.locals.get(local).and_then(|l| l.get(i));
                        let stored = element.copied().flatten();
                        stored.ok_or(EvaluateError::Malformed(
                            "an element of a local array is read before it is written",
                        ))?
                    }
                };
                self.define(*result, bits);
            }
            Statement::Store {
                param,
                index,
                value,
            } => {
                let (at, size) = self.element(*param, index)?;
                let bits = self.scalar(*value);
                match at {
                    At::Given(span, offset) => self.memory.write(span, offset, size, bits)?,
                    At::Local(local, i) => {
                        let element = self.locals.get_mut(local).and_then(|l| l.get_mut(i));
                        if let Some(element) = element {
                            *element = Some(bits);
                        }
                    }
                }
            }
            Statement::Bind { var } => self.bind(*var)?,
            Statement::Loop {
                var,
                init,
                carried,
                body,
                results,
            } => {
                let mut state: SmallVec<[u128; 4]> = init.iter().map(|&s| self.scalar(s)).collect();
                for i in 0..self.extent(*var)? {
                    tegula_limits::check()?;
                    self.set(*var, i);
                    self.define_all(carried, &state);
                    self.block(body)?;
                    state = body.results.iter().map(|&s| self.scalar(s)).collect();
                }
                self.define_all(results, &state);
            }
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => {
                let block = if self.term(condition)? != 0 {
                    then
                } else {
                    otherwise
                };
                self.block(block)?;
                let state: SmallVec<[u128; 4]> =
                    block.results.iter().map(|&s| self.scalar(s)).collect();
                self.define_all(results, &state);
            }
        }
        Ok(())
    }

    fn define_all(&mut self, ids: &[ScalarId], bits: &[u128]) {
        for (&id, &bits) in ids.iter().zip(bits) {
            self.define(id, bits);
        }
    }

    fn bind(&mut self, var: Var) -> Result<(), EvaluateError> {
        let Some(&IndexVar::Runtime {
            value,
            lower,
            upper,
        }) = self.kernel.var(var)
        else {
            return Err(EvaluateError::Malformed(
                "a statement binds a variable that is not a run-time variable",
            ));
        };
        let wide =
            scalar::apply_convert(self.type_of(value)?, ElementType::S64, self.scalar(value));
        let value = (wide as u64).cast_signed();
        if value < lower || value > upper {
            return Err(EvaluateError::Index(format!(
                "the run-time index {value} is not in [{lower}, {upper}]"
            )));
        }
        self.set(var, value);
        Ok(())
    }

    /// The location of a parameter's element, checked against the dimensions, and the element's
    /// size in bytes.
    fn element(&self, param: usize, index: &[Term]) -> Result<(At, usize), EvaluateError> {
        let missing =
            EvaluateError::Malformed("an access names a parameter that the kernel does not have");
        let (Some(dims), Some(declared)) = (self.strides.get(param), self.kernel.params.get(param))
        else {
            return Err(missing);
        };
        let mut linear = 0i64;
        for (term, &size) in index.iter().zip(dims) {
            let i = self.term(term)?;
            if i < 0 || i >= size {
                return Err(EvaluateError::Index(format!(
                    "index {i} of parameter {param} is out of bounds for a dimension of size {size}"
                )));
            }
            linear = linear * size + i;
        }
        let size = declared.element_type.storage_bytes();
        if let Some(local) = param.checked_sub(self.kernel.given()) {
            return Ok((At::Local(local, linear as usize), size));
        }
        match self.args.get(param) {
            Some(&span) => Ok((At::Given(span, linear * size as i64), size)),
            None => Err(missing),
        }
    }

    fn compute(
        &self,
        result: ScalarId,
        op: &ScalarOp,
        operands: &[ScalarId],
    ) -> Result<u128, EvaluateError> {
        let to = self.type_of(result)?;
        let at = |i: usize| operands.get(i).map_or(0, |&s| self.scalar(s));
        let from = match operands.first() {
            Some(&first) => self.type_of(first)?,
            None => to,
        };
        let bits = match op {
            ScalarOp::Constant(bits) => Some(*bits),
            ScalarOp::Index(term) => {
                let index = u128::from(self.term(term)?.cast_unsigned());
                Some(scalar::apply_convert(ElementType::S64, to, index))
            }
            ScalarOp::Unary(op) => scalar::apply_unary(*op, from, at(0)),
            ScalarOp::Binary(op) => scalar::apply_binary(*op, from, at(0), at(1)),
            ScalarOp::Compare(direction, order) => {
                scalar::apply_compare(*direction, *order, from, at(0), at(1))
            }
            ScalarOp::Select => Some(scalar::apply_select(at(0), at(1), at(2))),
            ScalarOp::Clamp => scalar::apply_clamp(from, at(0), at(1), at(2)),
            ScalarOp::Convert => Some(scalar::apply_convert(from, to, at(0))),
            ScalarOp::BitcastConvert => Some(scalar::apply_bitcast(from, to, at(0))),
            ScalarOp::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            } => scalar::apply_reduce_precision(from, *exponent_bits, *mantissa_bits, at(0)),
        };
        bits.ok_or_else(|| EvaluateError::NoSuchOperation(describe(op, from)))
    }
}

fn describe(op: &ScalarOp, element_type: ElementType) -> String {
    match op {
        ScalarOp::Unary(op) => format!("{} of {element_type}", Unary::opcode(*op)),
        ScalarOp::Binary(op) => format!("{} of {element_type}", op.opcode()),
        other => format!("{other:?} of {element_type}"),
    }
}
