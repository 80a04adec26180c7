//! Recognises kernels that are a softmax along the rows of an array of scores.
//!
//! Such a kernel has three loops over a row. They compute the largest `x`, where `x` is computed
//! from a score and its index; the sum of `exp(x - largest)`; and the quotient of these, which is
//! stored at the score's index. The loops' computations are compared as expressions (value
//! numbering), so it does not matter which loop stores which intermediate result for the next.

use rustc_hash::FxHashMap;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType, Unary};

/// A softmax along rows of scores.
#[derive(Debug)]
pub(super) struct Softmax<'a> {
    pub kernel: &'a Kernel,
    /// The statements before the loops.
    pub before: Vec<&'a Statement>,
    /// Computes `value`, the number whose exponential is taken, from the score of a column.
    pub block: &'a Block,
    pub value: ScalarId,
    /// The loop-carried scalar of the block, on which `value` does not depend.
    pub largest: ScalarId,
    pub column: Var,
    /// For each dimension of the scores but the last, its variable, if it has more than one
    /// position.
    pub dims: Vec<Option<Var>>,
}

/// A value number: equal expressions have the same.
type Value = usize;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Expression {
    Compute(ScalarOp, ElementType, Vec<Value>),
    Load(usize, Vec<Term>),
    /// A loop-carried scalar or a result of a loop.
    Scalar(ScalarId),
}

/// Value numbers of a kernel's scalars.
struct Expressions<'a> {
    kernel: &'a Kernel,
    numbers: FxHashMap<Expression, Value>,
    known: Vec<Expression>,
    scalars: FxHashMap<ScalarId, Value>,
    /// For each local array of the row, the value at each column.
    own: FxHashMap<usize, Value>,
    /// Represents the column in all loops.
    column: Var,
}

impl<'a> Expressions<'a> {
    fn number(&mut self, expression: Expression) -> Value {
        if let Some(&known) = self.numbers.get(&expression) {
            return known;
        }
        self.known.push(expression.clone());
        self.numbers.insert(expression, self.known.len() - 1);
        self.known.len() - 1
    }

    fn of(&mut self, scalar: ScalarId) -> Value {
        if let Some(&known) = self.scalars.get(&scalar) {
            return known;
        }
        self.number(Expression::Scalar(scalar))
    }

    fn at(&self, index: &[Term], counter: Option<Var>) -> Vec<Term> {
        let renamed = |var| (Some(var) == counter).then(|| Term::var(self.column));
        let terms = index.iter().map(|term| term.substitute(&mut { renamed }));
        terms.collect()
    }

    /// Numbers a computation or a load; `None` for anything else.
    fn take(&mut self, statement: &'a Statement, counter: Option<Var>) -> Option<()> {
        let (result, expression) = match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                let op = match op {
                    ScalarOp::Index(term) => {
                        let own = self.at(std::slice::from_ref(term), counter);
                        ScalarOp::Index(own.into_iter().next()?)
                    }
                    other => other.clone(),
                };
                let operands = operands.iter().map(|&o| self.of(o)).collect();
                let ty = self.kernel.scalars.get(*result)?;
                (*result, Expression::Compute(op, ty, operands))
            }
            Statement::Load {
                result,
                param,
                index,
            } if *param < self.kernel.given() => {
                (*result, Expression::Load(*param, self.at(index, counter)))
            }
            Statement::Load {
                result,
                param,
                index,
            } => {
                let whole = self.at(index, counter) == [Term::var(self.column)];
                let value = *self.own.get(param).filter(|_| whole)?;
                self.scalars.insert(*result, value);
                return Some(());
            }
            _ => return None,
        };
        let value = self.number(expression);
        self.scalars.insert(result, value);
        Some(())
    }

    /// Numbers statements outside of loops.
    fn outside(&mut self, from: usize, to: usize) -> Option<()> {
        let kernel = self.kernel;
        let mut between = kernel.body.statements.get(from..to)?.iter();
        between.try_for_each(|statement| self.take(statement, None))
    }

    /// Numbers a loop's body; returns its stores to arrays that are arguments.
    fn body(&mut self, var: Var, block: &'a Block) -> Option<Vec<(usize, Vec<Term>, Value)>> {
        let mut stores = Vec::new();
        for statement in &block.statements {
            let Statement::Store {
                param,
                index,
                value,
            } = statement
            else {
                self.take(statement, Some(var))?;
                continue;
            };
            let index = self.at(index, Some(var));
            let value = self.of(*value);
            if *param < self.kernel.given() {
                stores.push((*param, index, value));
            } else if index == [Term::var(self.column)] {
                self.own.insert(*param, value);
            } else {
                return None;
            }
        }
        Some(stores)
    }

    /// Numbers the loop that computes the largest `x`; returns `x` and the largest.
    fn largest(&mut self, first: &Counted<'a>) -> Option<[Value; 2]> {
        let [init, carried, largest] = first.carried?;
        let (init, carried) = (self.of(init), self.of(carried));
        let stores = self.body(first.var, first.body)?;
        let next = self.of(*first.body.results.first()?);
        let x = self.beside(next, Binary::Maximum, carried)?;
        let lowest = self.is_constant(init, f32::NEG_INFINITY);
        (lowest && stores.is_empty()).then(|| [x, self.of(largest)])
    }

    /// Numbers the loop that sums the exponentials; returns the exponential and the sum.
    fn sum(&mut self, second: &Counted<'a>, [x, largest]: [Value; 2]) -> Option<[Value; 2]> {
        let [init, carried, sum] = second.carried?;
        let (init, carried) = (self.of(init), self.of(carried));
        let stores = self.body(second.var, second.body)?;
        let next = self.of(*second.body.results.first()?);
        let e = self.beside(next, Binary::Add, carried)?;
        let Some(Expression::Compute(ScalarOp::Unary(Unary::Exp), _, operands)) = self.known.get(e)
        else {
            return None;
        };
        let [own, base] = self.binary(*operands.first()?, Binary::Subtract)?;
        // The maximum with the lowest number changes nothing.
        let raised = self.beside(base, Binary::Maximum, largest);
        let raised = raised.is_some_and(|other| self.is_constant(other, f32::NEG_INFINITY));
        let zero = self.is_constant(init, 0.0) && stores.is_empty();
        (zero && own == x && (base == largest || raised)).then(|| [e, self.of(sum)])
    }

    /// Numbers the loop of quotients; returns where they are stored.
    fn quotients(&mut self, third: &Counted<'a>, terms: [Value; 2]) -> Option<(usize, Vec<Term>)> {
        let stores = self.body(third.var, third.body)?;
        let [(param, index, mut value)] = <[_; 1]>::try_from(stores).ok()?;
        if let Some(Expression::Compute(ScalarOp::Convert, _, operands)) = self.known.get(value) {
            value = *operands.first()?;
        }
        let quotient = self.binary(value, Binary::Divide)? == terms;
        (quotient && third.carried.is_none()).then_some((param, index))
    }

    /// The operands of a binary operation on `f32`.
    fn binary(&self, value: Value, wanted: Binary) -> Option<[Value; 2]> {
        match self.known.get(value)? {
            Expression::Compute(ScalarOp::Binary(op), ElementType::F32, operands)
                if *op == wanted =>
            {
                operands[..].try_into().ok()
            }
            _ => None,
        }
    }

    /// The other operand of a binary operation, one of whose operands is `other`.
    fn beside(&self, value: Value, wanted: Binary, other: Value) -> Option<Value> {
        let [a, b] = self.binary(value, wanted)?;
        match (a == other, b == other) {
            (true, false) => Some(b),
            (false, true) => Some(a),
            _ => None,
        }
    }

    fn is_constant(&self, value: Value, wanted: f32) -> bool {
        matches!(self.known.get(value), Some(Expression::Compute(ScalarOp::Constant(bits), ElementType::F32, _))
            if *bits as u32 == wanted.to_bits())
    }
}

/// A loop: its counter; and the initial value, carried scalar and result, if it carries exactly one
/// scalar.
struct Counted<'a> {
    var: Var,
    carried: Option<[ScalarId; 3]>,
    body: &'a Block,
}

fn counted(statement: &Statement) -> Option<Counted<'_>> {
    let Statement::Loop {
        var,
        init,
        carried,
        body,
        results,
    } = statement
    else {
        return None;
    };
    let carried = match (&init[..], &carried[..], &results[..]) {
        ([], [], []) => None,
        (&[init], &[carried], &[result]) => Some([init, carried, result]),
        _ => return None,
    };
    Some(Counted {
        var: *var,
        carried,
        body,
    })
}

/// The softmax that a kernel computes from its parameter `scores` to its parameter `out`, if it is
/// one.
pub(super) fn softmax(kernel: &Kernel, scores: usize, out: usize) -> Option<Softmax<'_>> {
    let statements = &kernel.body.statements;
    let places = statements.iter().enumerate().filter(|(_, s)| s.is_loop());
    let places: [usize; 3] = places
        .map(|(at, _)| at)
        .collect::<Vec<_>>()
        .try_into()
        .ok()?;
    let mut expressions = Expressions {
        kernel,
        numbers: FxHashMap::default(),
        known: Vec::new(),
        scalars: FxHashMap::default(),
        own: FxHashMap::default(),
        column: Var(kernel.vars.len() as u32),
    };
    let [first, second, third] = places.map(|place| counted(&statements[place]));
    let (first, second, third) = (first?, second?, third?);
    let whole = kernel.params.get(scores)?.dims.last()?;
    let mut vars = [first.var, second.var, third.var].into_iter();
    let through = |var| matches!(kernel.var(var), Some(IndexVar::Loop(extent)) if extent == whole);
    if !vars.all(through) || kernel.params.get(out)?.dims.last() != Some(whole) {
        return None;
    }
    expressions.outside(0, places[0])?;
    let [x, largest] = expressions.largest(&first)?;
    expressions.outside(places[0] + 1, places[1])?;
    let terms = expressions.sum(&second, [x, largest])?;
    expressions.outside(places[1] + 1, places[2])?;
    let (param, index) = expressions.quotients(&third, terms)?;
    expressions.outside(places[2] + 1, statements.len())?;
    let [_, so_far, _] = first.carried?;
    if param != out {
        return None;
    }
    let dims = dims(kernel, &index, expressions.column)?;
    // The only element of the scores that it reads must be the one at the index that it stores to.
    let mut reads = expressions.known.iter().filter_map(|e| match e {
        Expression::Load(param, index) if *param == scores => Some(index),
        _ => None,
    });
    let one = reads.next() == Some(&index) && reads.next().is_none();
    let value = scalar_of(first.body, x, &expressions)?;
    one.then_some(Softmax {
        kernel,
        before: statements[..places[0]].iter().collect(),
        block: first.body,
        value,
        largest: so_far,
        column: first.var,
        dims,
    })
}

/// The scalar of a block that has this value number.
fn scalar_of(block: &Block, value: Value, expressions: &Expressions<'_>) -> Option<ScalarId> {
    block
        .statements
        .iter()
        .find_map(|statement| match statement {
            Statement::Compute { result, .. } | Statement::Load { result, .. } => {
                (expressions.scalars.get(result) == Some(&value)).then_some(*result)
            }
            _ => None,
        })
}

/// The variables of an index that covers the kernel's domain, using each variable once, with the
/// column last.
fn dims(kernel: &Kernel, index: &[Term], column: Var) -> Option<Vec<Option<Var>>> {
    let (last, outer) = index.split_last()?;
    let mut left = kernel.domain.clone();
    let mut dims = Vec::new();
    for term in outer {
        if term.as_constant() == Some(0) {
            dims.push(None);
            continue;
        }
        let at = left.iter().position(|&var| Term::var(var) == *term)?;
        dims.push(Some(left.remove(at)));
    }
    // The remaining variables have one position each.
    let single = left.iter().all(|&var| {
        matches!(kernel.var(var), Some(IndexVar::Domain(extent)) if extent.as_constant() == Some(1))
    });
    (*last == Term::var(column) && single).then_some(dims)
}
