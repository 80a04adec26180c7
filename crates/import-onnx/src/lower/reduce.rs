//! Reductions over dimensions and windows, sorting, and dot products.

use super::{Lowerer, Result, Value};
use crate::Error;
use tegula_expr::Term;
use tegula_ir::{
    Binary, ComputationId, DimNumbers, Direction, DotDims, Draft, ElementType, Op, Order, Scalar,
    Shape, WindowDim,
};

/// The operation that combines elements in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Product,
    Max,
    Min,
}

impl Fold {
    pub(crate) fn op(self) -> Binary {
        match self {
            Self::Sum => Binary::Add,
            Self::Product => Binary::Multiply,
            Self::Max => Binary::Maximum,
            Self::Min => Binary::Minimum,
        }
    }
}

/// The smallest or the largest value of a type.
fn extreme(ty: ElementType, largest: bool) -> Scalar {
    let bits = ty.bits();
    match (ty, largest) {
        (ElementType::Pred, largest) => Scalar::Bool(largest),
        (ty, false) if ty.is_signed() => Scalar::Int(i64::MIN >> (64 - bits)),
        (ty, true) if ty.is_signed() => Scalar::Int(i64::MAX >> (64 - bits)),
        (ty, false) if ty.is_integer() => Scalar::Uint(0),
        (ty, true) if ty.is_integer() => Scalar::Uint(u64::MAX >> (64 - bits)),
        (_, false) => Scalar::Float(f64::NEG_INFINITY),
        (_, true) => Scalar::Float(f64::INFINITY),
    }
}

impl Lowerer<'_> {
    /// A constant: the smallest or the largest value of a type.
    pub(crate) fn extreme(&self, ty: ElementType, largest: bool) -> Result<Value> {
        let shape = tegula_ir::ArrayShape::new(ty, &[]);
        let literal = tegula_ir::Literal::from_scalars(&shape, [extreme(ty, largest)])?;
        Ok(Value::of_literal(literal))
    }

    /// The identity element of a combining operation.
    pub(crate) fn identity(&self, fold: Fold, ty: ElementType) -> Result<Value> {
        match fold {
            Fold::Sum => self.scalar(ty, 0.0),
            Fold::Product => self.scalar(ty, 1.0),
            Fold::Max => self.extreme(ty, false),
            Fold::Min => self.extreme(ty, true),
        }
    }

    pub(crate) fn reducer(&mut self, op: Binary, ty: ElementType) -> Result<ComputationId> {
        if let Some(id) = self.reducers.get(&(op, ty)) {
            return Ok(*id);
        }
        let id = self.builder.reducer(op, ty)?;
        self.reducers.insert((op, ty), id);
        Ok(id)
    }

    /// Reduces dimensions, which are kept with size 1 if `keep` is set.
    pub(crate) fn reduce(
        &mut self,
        value: &Value,
        fold: Fold,
        axes: &[usize],
        keep: bool,
    ) -> Result<Value> {
        let rest = |at: &usize| !axes.contains(at);
        let left: Vec<Term> = (0..value.rank())
            .filter(rest)
            .map(|at| value.dims[at].clone())
            .collect();
        let mut result = if axes.is_empty() {
            value.clone()
        } else if let (Some(terms), true) = (value.terms(), left.is_empty()) {
            let mut terms = terms.into_iter();
            let first = terms.next();
            let first = match (first, fold) {
                (Some(first), _) => first,
                (None, Fold::Sum) => Term::constant(0),
                _ => Term::constant(1),
            };
            let all = terms.fold(first, |all, term| match fold {
                Fold::Sum => all.add(&term),
                Fold::Product => all.mul(&term),
                Fold::Max => Term::max(&all, &term),
                Fold::Min => Term::min(&all, &term),
            });
            self.of_terms(value.ty, &[], &[all])?
        } else {
            let init = self.identity(fold, value.ty)?;
            let op = Op::Reduce {
                dimensions: axes.iter().map(|at| *at as i64).collect(),
                to_apply: self.reducer(fold.op(), value.ty)?,
            };
            let operands = [self.local(value)?, self.local(&init)?];
            self.push(op, &operands, value.ty, &left)?
        };
        if keep {
            let mut dims = value.dims.clone();
            for at in axes {
                dims[*at] = Term::constant(1);
            }
            result = self.reshape(&result, &dims)?;
        }
        Ok(result)
    }

    /// Reduces windows.
    pub(crate) fn window(
        &mut self,
        value: &Value,
        init: &Value,
        fold: Fold,
        window: Vec<WindowDim>,
    ) -> Result<Value> {
        let op = Op::ReduceWindow {
            window,
            to_apply: self.reducer(fold.op(), value.ty)?,
        };
        let operands = [self.local(value)?, self.local(init)?];
        self.push_inferred(op, &operands)
    }

    /// A dot product.
    pub(crate) fn dot(
        &mut self,
        a: &Value,
        b: &Value,
        batch: &[(usize, usize)],
        contracting: &[(usize, usize)],
    ) -> Result<Value> {
        self.dot_as(a, b, batch, contracting, a.ty)
    }

    /// A dot product that accumulates in another type.
    pub(crate) fn dot_as(
        &mut self,
        a: &Value,
        b: &Value,
        batch: &[(usize, usize)],
        contracting: &[(usize, usize)],
        ty: ElementType,
    ) -> Result<Value> {
        let numbers = |list: &[(usize, usize)], second: bool| -> DimNumbers {
            list.iter()
                .map(|pair| if second { pair.1 } else { pair.0 } as i64)
                .collect()
        };
        let dims = DotDims {
            lhs_batch: numbers(batch, false),
            rhs_batch: numbers(batch, true),
            lhs_contracting: numbers(contracting, false),
            rhs_contracting: numbers(contracting, true),
        };
        for (x, y) in batch.iter().chain(contracting) {
            let (x, y) = (a.size(*x)?.as_constant(), b.size(*y)?.as_constant());
            if let (Some(x), Some(y)) = (x, y)
                && x != y
            {
                return Err(Error::input(format!(
                    "a dimension of size {x} cannot be contracted with one of size {y}"
                )));
            }
        }
        let used = |list: &[(usize, usize)], second: bool, at: usize| {
            list.iter().any(|p| at == if second { p.1 } else { p.0 })
        };
        let rest = |value: &Value, second: bool| -> Vec<Term> {
            (0..value.rank())
                .filter(|at| !used(batch, second, *at) && !used(contracting, second, *at))
                .map(|at| value.dims[at].clone())
                .collect()
        };
        let mut out: Vec<Term> = batch.iter().map(|(x, _)| a.dims[*x].clone()).collect();
        out.extend(rest(a, false));
        out.extend(rest(b, true));
        let op = Op::Dot {
            dims,
            precision: Vec::new(),
            algorithm: None,
        };
        let operands = [self.local(a)?, self.local(b)?];
        self.push(op, &operands, ty, &out)
    }

    /// Sorts along a dimension, stably. Returns the sorted values and their original positions.
    pub(crate) fn sort(
        &mut self,
        value: &Value,
        along: usize,
        descending: bool,
    ) -> Result<(Value, Value)> {
        let (mut values, places) = self.sorted(std::slice::from_ref(value), along, descending)?;
        let values = values.pop();
        Ok((values.unwrap_or(value.clone()), places))
    }

    /// Sorts several lists of keys together, lexicographically from the first list to the last.
    /// Returns the sorted lists and the original positions.
    pub(crate) fn sort_by_keys(&mut self, keys: &[Value]) -> Result<(Vec<Value>, Value)> {
        self.sorted(keys, 0, false)
    }

    fn sorted(
        &mut self,
        keys: &[Value],
        along: usize,
        descending: bool,
    ) -> Result<(Vec<Value>, Value)> {
        let first = keys.first();
        let first = first.ok_or_else(|| Error::input("expected at least one array to sort"))?;
        let places = self.iota(ElementType::S64, &first.dims, along)?;
        let mut before = Draft::new("before");
        let mut pairs = Vec::new();
        for key in keys {
            let scalar = Shape::array(key.ty, &[]);
            let a = before.parameter(scalar.clone(), None);
            pairs.push((a, before.parameter(scalar, None)));
        }
        before.parameter(Shape::array(ElementType::S64, &[]), None);
        before.parameter(Shape::array(ElementType::S64, &[]), None);
        let compare = |direction| Op::Compare {
            direction,
            order: Order::Partial,
        };
        let direction = match descending {
            true => Direction::Gt,
            false => Direction::Lt,
        };
        // The comparison a0 < b0 or (a0 = b0 and (a1 < b1 or ...)), built from the last key to the
        // first.
        let module = self.builder.module();
        let mut root = None;
        for (a, b) in pairs.into_iter().rev() {
            let is_before = before.push(module, compare(direction), &[a, b], None)?;
            root = Some(match root {
                None => is_before,
                Some(rest) => {
                    let same = before.push(module, compare(Direction::Eq), &[a, b], None)?;
                    let rest = before.push(module, Op::Binary(Binary::And), &[same, rest], None)?;
                    before.push(module, Op::Binary(Binary::Or), &[is_before, rest], None)?
                }
            });
        }
        let root = root.ok_or_else(|| Error::input("expected at least one array to sort"))?;
        let to_apply = before.finish(&mut self.builder, root)?;
        let op = Op::Sort {
            dimension: along as i64,
            is_stable: true,
            to_apply,
        };
        let mut operands = Vec::new();
        for value in keys.iter().chain([&places]) {
            operands.push(self.local(value)?);
        }
        let tuple = self.push_local(op, &operands, None)?;
        let mut values = self.elements(tuple)?;
        let places = values.pop();
        let places = places.ok_or_else(|| Error::input("a sort has results"))?;
        Ok((values, places))
    }

    /// The position of the largest or smallest element along a dimension, which the result lacks.
    pub(crate) fn arg_extreme(
        &mut self,
        value: &Value,
        along: usize,
        largest: bool,
        last: bool,
    ) -> Result<Value> {
        let fold = if largest { Fold::Max } else { Fold::Min };
        let best = self.reduce(value, fold, &[along], true)?;
        let is_best = self.compare(Direction::Eq, value, &best)?;
        let places = self.iota(ElementType::S64, &value.dims, along)?;
        let (outside, fold) = match last {
            true => (-1, Fold::Max),
            false => (i64::from(i32::MAX), Fold::Min),
        };
        let outside = Value::of_integers(ElementType::S64, &[], &[outside])?;
        let candidates = self.select(&is_best, &places, &outside)?;
        self.reduce(&candidates, fold, &[along], false)
    }
}
