//! Terms compiled for repeated evaluation at the points of a small box.

use rustc_hash::FxHashMap;
use tegula_expr::{Cmp, Node, Term, ceil_div, floor_div, floor_mod};

#[derive(Clone, Copy)]
enum Code {
    Const(i64),
    Var(usize),
    Add(usize, usize),
    Mul(usize, usize),
    FloorDiv(usize, usize),
    CeilDiv(usize, usize),
    Mod(usize, usize),
    Min(usize, usize),
    Max(usize, usize),
    Cmp(Cmp, usize, usize),
    Select(usize, usize, usize),
}

/// Several terms as one list of checked operations; common subterms are computed once.
pub(super) struct Program {
    codes: Vec<Code>,
    outputs: Vec<usize>,
    values: Vec<i64>,
}

impl Program {
    /// Compiles terms. A point lists the values of `variables`, in that order; other variables have
    /// no value.
    pub(super) fn new<'a>(terms: impl IntoIterator<Item = &'a Term>, variables: &[usize]) -> Self {
        let mut codes = Vec::new();
        let mut slots: FxHashMap<Term, usize> = FxHashMap::default();
        let outputs = terms
            .into_iter()
            .map(|term| {
                term.fold(&mut |term: &Term, args: &[usize]| {
                    *slots.entry(term.clone()).or_insert_with(|| {
                        codes.push(encode(term, args, variables));
                        codes.len() - 1
                    })
                })
            })
            .collect();
        let values = vec![0; codes.len()];
        Self {
            codes,
            outputs,
            values,
        }
    }

    /// The number of operations.
    pub(super) fn len(&self) -> usize {
        self.codes.len()
    }

    /// Evaluates at a point; `None` if any operation has no `i64` value there, even one whose value
    /// a `select` would not use.
    pub(super) fn run(&mut self, point: &[i64]) -> Option<()> {
        for position in 0..self.codes.len() {
            let code = *self.codes.get(position)?;
            let value = self.step(code, point)?;
            *self.values.get_mut(position)? = value;
        }
        Some(())
    }

    /// The value of the n-th term after [`Program::run`].
    pub(super) fn output(&self, term: usize) -> i64 {
        self.outputs.get(term).map_or(0, |slot| self.value(*slot))
    }

    fn value(&self, slot: usize) -> i64 {
        self.values.get(slot).copied().unwrap_or(0)
    }

    fn step(&self, code: Code, point: &[i64]) -> Option<i64> {
        let value = |slot: usize| self.value(slot);
        match code {
            Code::Const(constant) => Some(constant),
            Code::Var(position) => point.get(position).copied(),
            Code::Add(a, b) => value(a).checked_add(value(b)),
            Code::Mul(a, b) => value(a).checked_mul(value(b)),
            Code::FloorDiv(a, b) => floor_div(value(a), value(b)),
            Code::CeilDiv(a, b) => ceil_div(value(a), value(b)),
            Code::Mod(a, b) => floor_mod(value(a), value(b)),
            Code::Min(a, b) => Some(value(a).min(value(b))),
            Code::Max(a, b) => Some(value(a).max(value(b))),
            Code::Cmp(op, a, b) => Some(i64::from(op.holds(value(a), value(b)))),
            Code::Select(c, a, b) => Some(if value(c) != 0 { value(a) } else { value(b) }),
        }
    }
}

fn encode(term: &Term, args: &[usize], variables: &[usize]) -> Code {
    // `fold` passes one result for each operand. If a variable is not in the point, `run` fails.
    let arg = |n: usize| args.get(n).copied().unwrap_or(0);
    match term.node() {
        Node::Const(value) => Code::Const(*value),
        Node::Var(var) => {
            let position = variables.iter().position(|v| *v == var.0 as usize);
            Code::Var(position.unwrap_or(usize::MAX))
        }
        Node::Add(..) => Code::Add(arg(0), arg(1)),
        Node::Mul(..) => Code::Mul(arg(0), arg(1)),
        Node::FloorDiv(..) => Code::FloorDiv(arg(0), arg(1)),
        Node::CeilDiv(..) => Code::CeilDiv(arg(0), arg(1)),
        Node::Mod(..) => Code::Mod(arg(0), arg(1)),
        Node::Min(..) => Code::Min(arg(0), arg(1)),
        Node::Max(..) => Code::Max(arg(0), arg(1)),
        Node::Cmp(op, ..) => Code::Cmp(*op, arg(0), arg(1)),
        Node::Select(..) => Code::Select(arg(0), arg(1), arg(2)),
    }
}
