//! Specialises a plan to given sizes: every term over the plan's symbols becomes a number.
//!
//! To run a plan with symbolic sizes, it is specialised to the sizes of the run. The result is like
//! the plan of a static program: it can be evaluated and verified, and a backend takes sizes and
//! places from it. Values, buffers, kernels and steps keep their numbers.

use super::{Place, Plan};
use tegula_expr::{Interval, Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, MAX_OPEN_EXTENT, ScalarOp, Statement};
use tegula_ir::{ArrayShape, Dim};

impl Plan {
    /// Whether some sizes are known only at run time.
    pub fn has_open_sizes(&self) -> bool {
        !self.sizes.sources.is_empty()
    }

    /// The range of values of each of the plan's symbols, by number.
    pub fn symbol_ranges(&self) -> Vec<Interval> {
        let range = |s: &tegula_ir::Symbol| Interval::new(s.lower, s.upper);
        self.symbols.iter().map(range).collect()
    }

    /// The values of the plan's symbols for inputs of these shapes.
    ///
    /// # Errors
    /// A message about a requirement of the program that the sizes do not meet.
    pub fn bind(&self, inputs: &[&ArrayShape]) -> Result<Vec<i64>, String> {
        self.sizes.bind(&self.symbols, inputs)
    }

    /// The plan with each symbol replaced by its value.
    ///
    /// # Errors
    /// A size that has no value or does not fit.
    pub fn at(&self, sizes: &[i64]) -> Result<Self, String> {
        let mut plan = self.clone();
        let number = |term: &Term| {
            let value = term.eval(&|var: Var| sizes.get(var.0 as usize).copied());
            value.map_err(|error| format!("a size of the program cannot be computed: {error}"))
        };
        for value in plan.values.values_mut() {
            for dim in &mut value.shape.dims {
                *dim = Dim::Static(number(&dim.term())?);
            }
            if value.shape.byte_size().is_none() {
                return Err("an array's size in bytes does not fit".to_owned());
            }
        }
        for buffer in plan.buffers.values_mut() {
            buffer.bytes = Term::constant(number(&buffer.bytes)?);
            if let Place::Arena(offset) = &mut buffer.place {
                *offset = Term::constant(number(offset)?);
            }
        }
        plan.arena_bytes = Term::constant(number(&plan.arena_bytes)?);
        for kernel in plan.kernels.values_mut() {
            set_symbols(kernel, sizes)?;
        }
        plan.sizes = tegula_ir::RunTimeSizes::default();
        Ok(plan)
    }
}

/// Replaces a kernel's variables for symbols by the symbols' values.
///
/// # Errors
/// A dimension longer than the indices in the kernel's code allow.
fn set_symbols(kernel: &mut Kernel, sizes: &[i64]) -> Result<(), String> {
    let values: Vec<Option<Term>> = kernel
        .vars
        .iter()
        .map(|var| match var {
            IndexVar::Symbol { symbol, .. } => {
                sizes.get(*symbol as usize).map(|&n| Term::constant(n))
            }
            _ => None,
        })
        .collect();
    if values.iter().all(Option::is_none) {
        return Ok(());
    }
    let set = |term: &mut Term| {
        *term = term.substitute(&mut |var| values.get(var.0 as usize).cloned().flatten());
    };
    for param in &mut kernel.params {
        param.dims.iter_mut().for_each(set);
    }
    for var in &mut kernel.vars {
        if let IndexVar::Domain(extent) | IndexVar::Loop(extent) = var {
            let is_open = extent.as_constant().is_none();
            set(extent);
            let size = extent.as_constant().unwrap_or(0);
            if is_open && size > MAX_OPEN_EXTENT {
                return Err(format!(
                    "a dimension would have {size} elements: use sizes with which it has at most {MAX_OPEN_EXTENT}"
                ));
            }
        }
    }
    set_block(&mut kernel.body, &set);
    Ok(())
}

fn set_block(block: &mut Block, set: &dyn Fn(&mut Term)) {
    for statement in &mut block.statements {
        match statement {
            Statement::Compute {
                op: ScalarOp::Index(term),
                ..
            } => set(term),
            Statement::Compute { .. } | Statement::Bind { .. } => {}
            Statement::Load { index, .. } | Statement::Store { index, .. } => {
                index.iter_mut().for_each(set);
            }
            Statement::Loop { body, .. } => set_block(body, set),
            Statement::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                set(condition);
                set_block(then, set);
                set_block(otherwise, set);
            }
        }
    }
}
