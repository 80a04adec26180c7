//! A kernel's body as C statements.

use crate::error::Error;
use crate::scalars::Operation;
use crate::terms::Terms;
use crate::types::{carrier, load, store};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::{Interval, Term, Var, range_of};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType};

/// Writes the statements of a kernel.
pub(crate) struct Body<'a> {
    pub kernel: &'a Kernel,
    pub terms: Terms,
    lines: Vec<String>,
    indent: usize,
    /// Prepended to names of scalars. A thread that computes several points writes the
    /// body once for each, and each copy needs its own names.
    pub prefix: String,
    /// Values of variables at the current point, where a thread computes several
    /// points.
    pub lane: FxHashMap<Var, Term>,
    /// If other threads may update the same elements: the atomic operation that stores
    /// use.
    pub atomic: Option<Binary>,
    /// The scalars whose names get the prefix; `None` means all of them.
    pub own: Option<FxHashSet<ScalarId>>,
}

/// All values that each variable of a kernel can take.
pub(crate) fn variable_ranges(kernel: &Kernel) -> Vec<Interval> {
    let mut ranges: Vec<Interval> = Vec::with_capacity(kernel.vars.len());
    // Symbols first: extents are terms over them.
    for var in &kernel.vars {
        ranges.push(match var {
            IndexVar::Symbol { lower, upper, .. } | IndexVar::Runtime { lower, upper, .. } => {
                Interval::new(*lower, *upper)
            }
            _ => Interval::FULL,
        });
    }
    for (i, var) in kernel.vars.iter().enumerate() {
        if let IndexVar::Domain(extent) | IndexVar::Loop(extent) = var {
            let most = range_of(extent, &ranges).upper;
            ranges[i] = Interval::new(0, most.saturating_sub(1).max(0));
        }
    }
    ranges
}

impl<'a> Body<'a> {
    pub(crate) fn new(kernel: &'a Kernel) -> Self {
        let mut terms = Terms::new(variable_ranges(kernel));
        for (i, var) in kernel.vars.iter().enumerate() {
            if let IndexVar::Symbol { symbol, .. } = var {
                // Sizes arrive as parameters of 64 bits.
                terms.name(Var(i as u32), &format!("s{symbol}"), true);
            }
        }
        Self {
            kernel,
            terms,
            lines: Vec::new(),
            indent: 1,
            prefix: String::new(),
            lane: FxHashMap::default(),
            atomic: None,
            own: None,
        }
    }

    /// The text so far.
    pub(crate) fn finish(self) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        text
    }

    pub(crate) fn line(&mut self, text: &str) {
        let spaces = 4 * self.indent;
        self.lines.push(format!("{:spaces$}{text}", ""));
    }

    /// Opens a block of statements after a head.
    pub(crate) fn open(&mut self, head: &str) {
        self.line(format!("{head} {{").trim_start());
        self.indent += 1;
        self.terms.open_block();
    }

    pub(crate) fn close(&mut self, tail: &str) {
        self.indent = self.indent.saturating_sub(1);
        self.terms.close_block();
        self.line(&format!("}}{tail}"));
    }

    /// Substitutes the current point's variables (`lane`) into a term.
    fn of_lane(&self, term: &Term) -> Term {
        match self.lane.is_empty() {
            true => term.clone(),
            false => term.substitute(&mut |var| self.lane.get(&var).cloned()),
        }
    }

    /// Writes a term as a C expression, evaluated at the current point.
    pub(crate) fn term(&mut self, term: &Term) -> String {
        let own = self.of_lane(term);
        self.own_term(&own)
    }

    /// Writes a term whose variables have already been substituted.
    fn own_term(&mut self, term: &Term) -> String {
        let mut statements = Vec::new();
        let expression = self.terms.term(term, &mut statements);
        for statement in statements {
            self.line(&statement);
        }
        expression.text
    }

    pub(crate) fn type_of(&self, id: ScalarId) -> Result<ElementType, Error> {
        let ty = self.kernel.scalars.get(id);
        ty.ok_or_else(|| Error::Bug(format!("{id} has no type")))
    }

    pub(crate) fn scalar(&self, id: ScalarId) -> String {
        match &self.own {
            Some(own) if !own.contains(&id) => id.to_string(),
            _ => format!("{}{id}", self.prefix),
        }
    }

    fn scalars(&self, ids: &[ScalarId]) -> Vec<String> {
        ids.iter().map(|&id| self.scalar(id)).collect()
    }

    fn declaration(&self, id: ScalarId) -> Result<String, Error> {
        Ok(format!(
            "{} {}",
            carrier(self.type_of(id)?),
            self.scalar(id)
        ))
    }

    fn define(&mut self, id: ScalarId, value: &str) -> Result<(), Error> {
        let line = format!("const {} = {value};", self.declaration(id)?);
        self.line(&line);
        Ok(())
    }

    /// An element of a parameter as a C lvalue.
    pub(crate) fn element(&mut self, param: usize, index: &[Term]) -> Result<String, Error> {
        let declared = self.kernel.params.get(param);
        let declared = declared.ok_or_else(|| {
            Error::Bug(format!(
                "a kernel accesses parameter {param}, which it does not declare"
            ))
        })?;
        let linear = self.of_lane(&declared.elements_before(index));
        let linear = tegula_expr::canonicalize(&linear, &self.terms.ranges);
        let at = self.own_term(&linear);
        Ok(format!("p{param}[{at}]"))
    }

    pub(crate) fn param_type(&self, param: usize) -> Result<ElementType, Error> {
        let declared = self.kernel.params.get(param).map(|p| p.element_type);
        declared.ok_or_else(|| Error::Bug(format!("parameter {param} is not declared")))
    }

    /// A name for an index variable that a statement defines.
    pub(crate) fn declare_index(&mut self, var: Var, value: &str) {
        let wide = self.terms.is_wide(var);
        let ty = if wide { "long long" } else { "int" };
        let name = format!("{}i{}", self.prefix, var.0);
        self.line(&format!("const {ty} {name} = ({ty})({value});"));
        if self.prefix.is_empty() {
            self.terms.name(var, &name, wide);
            return;
        }
        // Each point of the thread has its own value of this index.
        let range = self.terms.ranges.get(var.0 as usize).copied();
        let own = self.terms.fresh(range.unwrap_or(Interval::FULL));
        self.terms.name(own, &name, wide);
        self.lane.insert(var, Term::var(own));
    }

    /// Writes the statements of a block.
    ///
    /// # Errors
    /// An operation that a type lacks, or a kernel that breaks its invariants.
    pub(crate) fn block(&mut self, block: &Block) -> Result<(), Error> {
        block
            .statements
            .iter()
            .try_for_each(|statement| self.statement(statement))
    }

    pub(crate) fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => self.compute(*result, op, operands),
            Statement::Load {
                result,
                param,
                index,
            } => {
                let element = self.element(*param, index)?;
                let value = load(self.param_type(*param)?, &element);
                self.define(*result, &value)
            }
            Statement::Store {
                param,
                index,
                value,
            } => {
                let element = self.element(*param, index)?;
                let value = self.scalar(*value);
                if let Some(op) = self.atomic {
                    return self.combine(*param, op, &element, &value);
                }
                let value = store(self.param_type(*param)?, &value);
                self.line(&format!("{element} = {value};"));
                Ok(())
            }
            Statement::Bind { var } => {
                let Some(&IndexVar::Runtime { value, .. }) = self.kernel.var(*var) else {
                    return Err(Error::Bug(format!("i{} is not a run-time variable", var.0)));
                };
                let value = self.scalar(value);
                self.declare_index(*var, &value);
                Ok(())
            }
            Statement::Loop {
                var,
                init,
                carried,
                body,
                results,
            } => self.counted(*var, [init, carried, results], body),
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => self.choice(condition, [then, otherwise], results),
        }
    }

    /// Combines a value with an element atomically.
    fn combine(
        &mut self,
        param: usize,
        op: Binary,
        element: &str,
        value: &str,
    ) -> Result<(), Error> {
        let ty = self.param_type(param)?;
        let name = crate::atomics::atomic_name(op, ty)
            .ok_or_else(|| Error::Bug(format!("no atomic operation exists for {op:?} of {ty}")))?;
        // CUDA has no signed 64-bit atomics. Unsigned ones give the same bits unless
        // the operation depends on the sign, as minimum and maximum do.
        let line = match (ty, op) {
            (ElementType::S64, Binary::Minimum | Binary::Maximum) => {
                format!("{name}(&{element}, {value});")
            }
            (ElementType::S64, _) => {
                format!("{name}((unsigned long long *)&{element}, (unsigned long long)({value}));")
            }
            _ => format!("{name}(&{element}, {value});"),
        };
        self.line(&line);
        Ok(())
    }

    fn compute(
        &mut self,
        result: ScalarId,
        op: &ScalarOp,
        operands: &[ScalarId],
    ) -> Result<(), Error> {
        let to = self.type_of(result)?;
        let mut names = self.scalars(operands);
        let from = match operands.first() {
            Some(&first) => self.type_of(first)?,
            None => to,
        };
        if let ScalarOp::Index(term) = op {
            names = vec![format!("({})", self.term(term))];
        }
        let operation = Operation { op, from, to };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let value = operation.expression(&names)?;
        self.define(result, &value)
    }

    /// The extent of a loop's or domain's variable.
    pub(crate) fn extent(&self, var: Var) -> Result<&'a Term, Error> {
        match self.kernel.var(var) {
            Some(IndexVar::Domain(extent) | IndexVar::Loop(extent)) => Ok(extent),
            _ => Err(Error::Bug(format!("i{} has no extent", var.0))),
        }
    }

    fn counted(
        &mut self,
        var: Var,
        [init, carried, results]: [&[ScalarId]; 3],
        body: &Block,
    ) -> Result<(), Error> {
        for (&inner, &first) in carried.iter().zip(init) {
            let line = format!("{} = {};", self.declaration(inner)?, self.scalar(first));
            self.line(&line);
        }
        let extent = self.term(self.extent(var)?);
        let wide = self.terms.is_wide(var);
        let ty = if wide { "long long" } else { "int" };
        let name = format!("{}i{}", self.prefix, var.0);
        self.open(&format!(
            "for ({ty} {name} = 0; {name} < {extent}; ++{name})"
        ));
        self.terms.name(var, &name, wide);
        self.block(body)?;
        self.assign(carried, &body.results)?;
        self.close("");
        for (&result, &last) in results.iter().zip(carried) {
            let last = self.scalar(last);
            self.define(result, &last)?;
        }
        Ok(())
    }

    /// Assigns to several scalars in parallel: every source is read before any target
    /// is written.
    fn assign(&mut self, to: &[ScalarId], from: &[ScalarId]) -> Result<(), Error> {
        let pairs = to.iter().copied().zip(from.iter().copied());
        let pairs: Vec<(ScalarId, ScalarId)> = pairs.filter(|(to, from)| to != from).collect();
        // Whether an earlier assignment would overwrite a source that is still needed.
        let crossed = pairs
            .iter()
            .any(|(_, value)| pairs.iter().any(|(to, _)| to == value));
        if crossed {
            self.open("");
        }
        let mut values = Vec::with_capacity(pairs.len());
        for (i, &(_, value)) in pairs.iter().enumerate() {
            let mut name = self.scalar(value);
            if crossed {
                let line = format!("const {} next{i} = {name};", carrier(self.type_of(value)?));
                self.line(&line);
                name = format!("next{i}");
            }
            values.push(name);
        }
        for (&(target, _), value) in pairs.iter().zip(values) {
            let line = format!("{} = {value};", self.scalar(target));
            self.line(&line);
        }
        if crossed {
            self.close("");
        }
        Ok(())
    }

    fn choice(
        &mut self,
        condition: &Term,
        blocks: [&Block; 2],
        results: &[ScalarId],
    ) -> Result<(), Error> {
        for &result in results {
            let line = format!("{};", self.declaration(result)?);
            self.line(&line);
        }
        let condition = self.term(condition);
        let [then, otherwise] = blocks;
        self.open(&format!("if ({condition})"));
        self.branch(then, results)?;
        if otherwise.statements.is_empty() && results.is_empty() {
            self.close("");
            return Ok(());
        }
        self.indent -= 1;
        self.terms.close_block();
        self.open("} else");
        self.branch(otherwise, results)?;
        self.close("");
        Ok(())
    }

    fn branch(&mut self, block: &Block, results: &[ScalarId]) -> Result<(), Error> {
        self.block(block)?;
        for (&result, &value) in results.iter().zip(&block.results) {
            let line = format!("{} = {};", self.scalar(result), self.scalar(value));
            self.line(&line);
        }
        Ok(())
    }
}
