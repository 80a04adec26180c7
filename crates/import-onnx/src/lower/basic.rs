//! Elementwise operations, with numpy's broadcasting and constant folding.

use super::known::{self, fold_floats, most_followed};
use super::sampled::is_one;
use super::{Lowerer, Result, Value, sizes};
use crate::Error;
use tegula_expr::{Cmp, Term};
use tegula_ir::{Binary, DimNumbers, Direction, ElementType, Op, Order, Unary};

impl Lowerer<'_> {
    /// A scalar constant.
    pub(crate) fn scalar(&self, ty: ElementType, value: f64) -> Result<Value> {
        match ty.is_integer() {
            true => Value::of_integers(ty, &[], &[value as i64]),
            false => Value::of_floats(ty, &[], &[value]),
        }
    }

    /// A constant with the element type of another value.
    pub(crate) fn like(&self, value: &Value, number: f64) -> Result<Value> {
        self.scalar(value.ty, number)
    }

    /// An array of these sizes, filled with one value.
    pub(crate) fn splat(&mut self, ty: ElementType, value: f64, dims: &[Term]) -> Result<Value> {
        let scalar = self.scalar(ty, value)?;
        self.broadcast_to(&scalar, dims)
    }

    /// The broadcast sizes of two values.
    pub(crate) fn common_dims(&self, a: &[Term], b: &[Term]) -> Result<Vec<Term>> {
        let rank = a.len().max(b.len());
        let one = Term::constant(1);
        let size = |dims: &[Term], at: usize| -> Term {
            let lead = rank - dims.len();
            at.checked_sub(lead)
                .map_or(one.clone(), |at| dims[at].clone())
        };
        let mut common = Vec::with_capacity(rank);
        for at in 0..rank {
            let (a, b) = (size(a, at), size(b, at));
            common.push(match (a.as_constant(), b.as_constant()) {
                (Some(1), _) => b,
                (_, Some(1)) => a,
                _ if a == b => a,
                _ if is_one(&a) => b,
                _ if is_one(&b) => a,
                (Some(x), Some(y)) if x != y => {
                    return Err(Error::input(format!(
                        "the sizes {x} and {y} of dimension {at} cannot be broadcast: expected equal sizes, or 1"
                    )));
                }
                (None, Some(_)) => b,
                _ => a,
            });
        }
        Ok(common)
    }

    /// Broadcasts a value to these sizes; its dimensions are the last ones.
    pub(crate) fn broadcast_to(&mut self, value: &Value, dims: &[Term]) -> Result<Value> {
        if value.dims == dims {
            return Ok(value.clone());
        }
        let lead = dims.len().checked_sub(value.rank()).ok_or_else(|| {
            Error::input(format!(
                "an array of {} dimensions cannot be broadcast to {} dimensions",
                value.rank(),
                dims.len()
            ))
        })?;
        let places: Vec<usize> = (lead..dims.len()).collect();
        self.broadcast_in(value, &places, dims)
    }

    /// Broadcasts a value to these sizes; its dimension `i` becomes dimension `places[i]`.
    pub(crate) fn broadcast_in(
        &mut self,
        value: &Value,
        places: &[usize],
        dims: &[Term],
    ) -> Result<Value> {
        if places.len() != value.rank() || places.iter().any(|place| *place >= dims.len()) {
            return Err(Error::input(format!(
                "an array of {} dimensions cannot be broadcast to {} dimensions: expected an array of {} dimensions",
                value.rank(),
                dims.len(),
                places.len()
            )));
        }
        if let Some(out) = self.followed_dims(value, dims) {
            let own = value.static_dims().unwrap_or_default();
            return self.rearranged(value, &out, &|index| {
                own.iter()
                    .zip(places)
                    .map(|(size, place)| if *size == 1 { 0 } else { index[*place] })
                    .collect()
            });
        }
        let kept: Vec<usize> = (0..value.rank())
            .filter(|at| {
                dims.get(places[*at]) == Some(&value.dims[*at]) || !is_one(&value.dims[*at])
            })
            .collect();
        let narrowed = match kept.len() == value.rank() {
            true => value.clone(),
            false => {
                let dims: Vec<Term> = kept.iter().map(|at| value.dims[*at].clone()).collect();
                self.reshape(value, &dims)?
            }
        };
        let local = self.local(&narrowed)?;
        let mapping: DimNumbers = kept.iter().map(|at| places[*at] as i64).collect();
        let is_same =
            narrowed.dims == dims && kept.iter().enumerate().all(|(i, at)| places[*at] == i);
        match is_same {
            true => Ok(narrowed),
            false => self.push(Op::Broadcast(mapping), &[local], value.ty, dims),
        }
    }

    /// Broadcasts both values to their common sizes.
    pub(crate) fn together(&mut self, a: &Value, b: &Value) -> Result<(Value, Value)> {
        let dims = self.common_dims(&a.dims, &b.dims)?;
        Ok((self.broadcast_to(a, &dims)?, self.broadcast_to(b, &dims)?))
    }

    pub(crate) fn unary(&mut self, op: Unary, value: &Value) -> Result<Value> {
        if let (Some(terms), Some(dims)) = (value.terms(), value.static_dims()) {
            let zero = Term::constant(0);
            let is_truth = value.ty == ElementType::Pred;
            let apply = |x: &Term| match op {
                Unary::Negate => Some(x.neg()),
                Unary::Abs => Some(Term::max(x, &x.neg())),
                Unary::Sign => {
                    let one = Term::constant(1);
                    Some(Term::max(&Term::min(x, &one), &one.neg()))
                }
                Unary::Not if is_truth => Some(Term::cmp(Cmp::Eq, x, &zero)),
                _ => None,
            };
            let folded: Option<Vec<Term>> = terms.iter().map(apply).collect();
            if let Some(terms) = folded {
                return self.of_terms(value.ty, &dims, &terms);
            }
        }
        let folded = |x: f64| match op {
            Unary::Negate => Some(-x),
            Unary::Abs => Some(x.abs()),
            Unary::Floor => Some(x.floor()),
            Unary::Ceil => Some(x.ceil()),
            Unary::Sqrt => Some(x.sqrt()),
            _ => None,
        };
        if let Some(value) = fold_floats(&[value], &|x| folded(x[0]))? {
            return Ok(value);
        }
        let local = self.local(value)?;
        self.push(Op::Unary(op), &[local], value.ty, &value.dims)
    }

    pub(crate) fn binary(&mut self, op: Binary, a: &Value, b: &Value) -> Result<Value> {
        if a.ty != b.ty {
            return Err(Error::input(format!(
                "expected two values of one type, found {} and {}",
                a.ty, b.ty
            )));
        }
        let (a, b) = self.together(a, b)?;
        if let (Some(x), Some(y), Some(dims)) = (a.terms(), b.terms(), a.static_dims()) {
            let pairs = x.iter().zip(&y);
            let folded: Option<Vec<Term>> = pairs
                .map(|(x, y)| self.binary_term(op, a.ty, x, y))
                .collect();
            if let Some(terms) = folded {
                return self.of_terms(a.ty, &dims, &terms);
            }
        }
        let folded = |x: &[f64]| match op {
            Binary::Add => Some(x[0] + x[1]),
            Binary::Subtract => Some(x[0] - x[1]),
            Binary::Multiply => Some(x[0] * x[1]),
            Binary::Divide => Some(x[0] / x[1]),
            Binary::Maximum => Some(x[0].max(x[1])),
            Binary::Minimum => Some(x[0].min(x[1])),
            _ => None,
        };
        if let Some(value) = fold_floats(&[&a, &b], &folded)? {
            return Ok(value);
        }
        let operands = [self.local(&a)?, self.local(&b)?];
        self.push(Op::Binary(op), &operands, a.ty, &a.dims)
    }

    fn binary_term(&self, op: Binary, ty: ElementType, a: &Term, b: &Term) -> Option<Term> {
        let is_truth = ty == ElementType::Pred;
        Some(match op {
            Binary::Add if !is_truth => a.add(b),
            Binary::Subtract => a.sub(b),
            Binary::Multiply => a.mul(b),
            Binary::Divide => self.quotient(a, b)?,
            Binary::Remainder => a.sub(&self.quotient(a, b)?.mul(b)),
            Binary::Maximum => Term::max(a, b),
            Binary::Minimum => Term::min(a, b),
            Binary::And if is_truth => Term::min(a, b),
            Binary::Or if is_truth => Term::max(a, b),
            Binary::Xor if is_truth => Term::cmp(Cmp::Ne, a, b),
            _ => return None,
        })
    }

    /// The quotient of terms, rounded towards zero as in integer division; `None` unless the
    /// divisor is known to be positive.
    fn quotient(&self, a: &Term, b: &Term) -> Option<Term> {
        if self.range(b).lower < 1 {
            return None;
        }
        if self.range(a).lower >= 0 {
            return Some(a.floor_div(b));
        }
        let negative = a.neg().floor_div(b).neg();
        let is_negative = Term::cmp(Cmp::Lt, a, &Term::constant(0));
        Some(Term::select(&is_negative, &negative, &a.floor_div(b)))
    }

    /// A comparison of terms, decided if the ranges of both sides allow it.
    pub(crate) fn compare_terms(&self, direction: Direction, a: &Term, b: &Term) -> Term {
        let (op, a, b) = match direction {
            Direction::Eq => (Cmp::Eq, a, b),
            Direction::Ne => (Cmp::Ne, a, b),
            Direction::Lt => (Cmp::Lt, a, b),
            Direction::Le => (Cmp::Le, a, b),
            Direction::Gt => (Cmp::Lt, b, a),
            Direction::Ge => (Cmp::Le, b, a),
        };
        let range = self.range(&a.sub(b));
        let (lower, upper) = (range.lower, range.upper);
        let decided = match op {
            Cmp::Eq if lower > 0 || upper < 0 => Some(0),
            Cmp::Ne if lower > 0 || upper < 0 => Some(1),
            Cmp::Lt if upper < 0 => Some(1),
            Cmp::Lt if lower >= 0 => Some(0),
            Cmp::Le if upper <= 0 => Some(1),
            Cmp::Le if lower > 0 => Some(0),
            _ => None,
        };
        decided.map_or_else(|| Term::cmp(op, a, b), Term::constant)
    }

    pub(crate) fn compare(&mut self, direction: Direction, a: &Value, b: &Value) -> Result<Value> {
        let (a, b) = self.together(a, b)?;
        if let (Some(x), Some(y), Some(dims)) = (a.terms(), b.terms(), a.static_dims()) {
            let pairs = x.iter().zip(&y);
            let terms: Vec<Term> = pairs
                .map(|(x, y)| self.compare_terms(direction, x, y))
                .collect();
            return self.of_terms(ElementType::Pred, &dims, &terms);
        }
        if let Some(value) = known::compare(direction, &a, &b)? {
            return Ok(value);
        }
        let operands = [self.local(&a)?, self.local(&b)?];
        let order = Order::Partial;
        let op = Op::Compare { direction, order };
        self.push(op, &operands, ElementType::Pred, &a.dims)
    }

    pub(crate) fn select(&mut self, condition: &Value, a: &Value, b: &Value) -> Result<Value> {
        if a.ty != b.ty {
            return Err(Error::input(format!(
                "expected two values of one type, found {} and {}",
                a.ty, b.ty
            )));
        }
        let (a, b) = self.together(a, b)?;
        let (condition, a) = self.together(condition, &a)?;
        let b = self.broadcast_to(&b, &a.dims.clone())?;
        let parts = (condition.terms(), a.terms(), b.terms(), a.static_dims());
        if let (Some(c), Some(x), Some(y), Some(dims)) = parts {
            let terms: Vec<Term> = (0..c.len())
                .map(|at| Term::select(&self.canonical(&c[at]), &x[at], &y[at]))
                .collect();
            return self.of_terms(a.ty, &dims, &terms);
        }
        if let Some(value) = known::select(&condition, &a, &b)? {
            return Ok(value);
        }
        let operands = [self.local(&condition)?, self.local(&a)?, self.local(&b)?];
        self.push(Op::Select, &operands, a.ty, &a.dims)
    }

    /// Converts a value to another type as HLO does: rounds towards zero and saturates.
    pub(crate) fn convert(&mut self, value: &Value, ty: ElementType) -> Result<Value> {
        if value.ty == ty {
            return Ok(value.clone());
        }
        if let Some(literal) = (value.literal()).filter(|l| l.len() <= most_followed(value.ty)) {
            let shape = literal.shape().with_element_type(ty);
            let converted = tegula_ir::Literal::from_scalars(&shape, literal.scalars())?;
            return Ok(Value::of_literal(converted));
        }
        if let (Some(terms), Some(dims)) = (value.terms(), value.static_dims()) {
            if ty == ElementType::Pred {
                let zero = Term::constant(0);
                let truths: Vec<Term> = terms
                    .iter()
                    .map(|x| self.compare_terms(Direction::Ne, x, &zero))
                    .collect();
                return self.of_terms(ty, &dims, &truths);
            }
            if ty.is_integer() && ty.bits() >= 32 {
                return self.of_terms(ty, &dims, &terms);
            }
        }
        let local = self.local(value)?;
        self.push(Op::Convert, &[local], ty, &value.dims)
    }

    pub(crate) fn add(&mut self, a: &Value, b: &Value) -> Result<Value> {
        self.binary(Binary::Add, a, b)
    }
    pub(crate) fn sub(&mut self, a: &Value, b: &Value) -> Result<Value> {
        self.binary(Binary::Subtract, a, b)
    }
    pub(crate) fn mul(&mut self, a: &Value, b: &Value) -> Result<Value> {
        self.binary(Binary::Multiply, a, b)
    }
    pub(crate) fn div(&mut self, a: &Value, b: &Value) -> Result<Value> {
        self.binary(Binary::Divide, a, b)
    }
    pub(crate) fn max(&mut self, a: &Value, b: &Value) -> Result<Value> {
        self.binary(Binary::Maximum, a, b)
    }
    pub(crate) fn min(&mut self, a: &Value, b: &Value) -> Result<Value> {
        self.binary(Binary::Minimum, a, b)
    }
    /// The value times a number.
    pub(crate) fn scaled(&mut self, a: &Value, factor: f64) -> Result<Value> {
        let factor = self.like(a, factor)?;
        self.mul(a, &factor)
    }
    /// The value plus a number.
    pub(crate) fn shifted(&mut self, a: &Value, by: f64) -> Result<Value> {
        let by = self.like(a, by)?;
        self.add(a, &by)
    }

    /// The static sizes `dims`, if the value is known and has so few elements that they are
    /// rearranged at compile time.
    pub(super) fn followed_dims(&self, value: &Value, dims: &[Term]) -> Option<Vec<i64>> {
        let dims: Option<Vec<i64>> = dims.iter().map(Term::as_constant).collect();
        let dims = dims?;
        let count = dims.iter().try_fold(1i64, |n, d| n.checked_mul(*d))?;
        let most = most_followed(value.ty);
        let few = usize::try_from(count).is_ok_and(|count| count <= most);
        let known = value.literal().is_some_and(|l| l.len() <= most) || value.terms().is_some();
        (few && known).then_some(dims)
    }

    /// Rearranges a known value: the element at an index is the operand's element at `from(index)`.
    pub(super) fn rearranged(
        &self,
        value: &Value,
        dims: &[i64],
        from: &dyn Fn(&[i64]) -> Vec<i64>,
    ) -> Result<Value> {
        let own = value.static_dims().unwrap_or_default();
        let mut places = Vec::new();
        let count: i64 = dims.iter().product();
        let mut index = vec![0; dims.len()];
        for _ in 0..count {
            let flat = from(&index)
                .iter()
                .zip(&own)
                .fold(0, |flat, (at, size)| flat * size + at);
            places.push(usize::try_from(flat).unwrap_or(usize::MAX));
            for at in (0..dims.len()).rev() {
                index[at] += 1;
                if index[at] < dims[at] {
                    break;
                }
                index[at] = 0;
            }
        }
        let outside = |count: usize| {
            Error::input(format!(
                "an index is outside of an array of {count} elements"
            ))
        };
        if let Some(literal) = value.literal() {
            let shape = tegula_ir::ArrayShape::new(value.ty, dims);
            let scalars: Option<Vec<_>> = places.iter().map(|at| literal.scalar(*at)).collect();
            let literal = tegula_ir::Literal::from_scalars(
                &shape,
                scalars.ok_or_else(|| outside(literal.len()))?,
            )?;
            return Ok(Value::of_literal(literal));
        }
        let terms = value.terms().unwrap_or_default();
        let moved: Option<Vec<Term>> = places.iter().map(|at| terms.get(*at).cloned()).collect();
        self.of_terms(value.ty, dims, &moved.ok_or_else(|| outside(terms.len()))?)
    }

    /// Integers given by terms over sizes, computed by instructions.
    pub(super) fn terms_as_data(
        &mut self,
        ty: ElementType,
        dims: &[Term],
        terms: &[Term],
    ) -> Result<super::Local> {
        let mut rows = Vec::new();
        for term in terms {
            let scalar = self.term_as_data(term)?;
            let scalar = self.convert(&scalar, ty)?;
            rows.push(self.reshape(&scalar, &sizes(&[1]))?);
        }
        let list = match rows.as_slice() {
            [one] => one.clone(),
            _ => self.concat(&rows, 0)?,
        };
        let whole = self.reshape(&list, dims)?;
        self.local(&whole)
    }
}
