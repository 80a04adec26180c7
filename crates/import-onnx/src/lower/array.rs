//! Operations that move elements; sizes are terms.

use super::{Lowerer, Result, Value, sizes};
use crate::Error;
use tegula_expr::{Node, Term, Var};
use tegula_ir::{Binary, Dim, DimNumbers, Direction, ElementType, Op, PadDim, SliceDim, TO_END};

/// The product of sizes.
pub(crate) fn product(dims: &[Term]) -> Term {
    dims.iter()
        .fold(Term::constant(1), |all, size| all.mul(size))
}

impl Lowerer<'_> {
    /// Reshapes a value to these sizes.
    pub(crate) fn reshape(&mut self, value: &Value, dims: &[Term]) -> Result<Value> {
        let dims: Vec<Term> = dims.iter().map(|size| self.canonical(size)).collect();
        if value.dims == dims {
            return Ok(value.clone());
        }
        let (from, to) = (product(&value.dims), product(&dims));
        if let (Some(from), Some(to)) = (from.as_constant(), to.as_constant())
            && from != to
        {
            return Err(Error::input(format!(
                "an array of {from} elements cannot be reshaped to {to} elements"
            )));
        }
        if let Some(known) = dims
            .iter()
            .map(Term::as_constant)
            .collect::<Option<Vec<i64>>>()
        {
            if let Some(literal) = value.literal() {
                let shape = tegula_ir::ArrayShape::new(value.ty, &known);
                return Ok(Value::of_literal(literal.reshaped(&shape)?));
            }
            if let Some(terms) = value.terms() {
                return self.of_terms(value.ty, &known, &terms);
            }
        }
        let local = self.local(value)?;
        self.push(Op::Reshape, &[local], value.ty, &dims)
    }

    pub(crate) fn transpose(&mut self, value: &Value, permutation: &[usize]) -> Result<Value> {
        if permutation.iter().enumerate().all(|(i, p)| i == *p) {
            return Ok(value.clone());
        }
        let dims: Vec<Term> = permutation
            .iter()
            .map(|at| value.dims[*at].clone())
            .collect();
        if let Some(out) = self.followed_dims(value, &dims) {
            return self.rearranged(value, &out, &|index| {
                let mut from = vec![0; index.len()];
                for (at, place) in permutation.iter().enumerate() {
                    from[*place] = index[at];
                }
                from
            });
        }
        let local = self.local(value)?;
        let numbers = permutation.iter().map(|at| *at as i64).collect();
        self.push(Op::Transpose(numbers), &[local], value.ty, &dims)
    }

    /// A slice along one dimension: elements `start`, `start + stride`, ... below `limit`.
    pub(crate) fn slice(
        &mut self,
        value: &Value,
        along: usize,
        start: &Term,
        limit: &Term,
        stride: i64,
    ) -> Result<Value> {
        let (start, limit) = (self.canonical(start), self.canonical(limit));
        let whole = value.size(along)?.clone();
        if start.as_constant() == Some(0) && limit == whole && stride == 1 {
            return Ok(value.clone());
        }
        let count = limit.sub(&start).ceil_div(&Term::constant(stride));
        let count = self.canonical(&Term::max(&count, &Term::constant(0)));
        let mut dims = value.dims.clone();
        dims[along] = count.clone();
        if let (Some(out), Some(start)) = (self.followed_dims(value, &dims), start.as_constant()) {
            return self.rearranged(value, &out, &|index| {
                let mut from = index.to_vec();
                from[along] = start + stride * index[along];
                from
            });
        }
        let known = (start.as_constant(), limit.as_constant());
        let bounds = match known {
            (Some(start), Some(limit)) => Some((start, limit.max(start))),
            (Some(start), None) if limit == whole => Some((start, TO_END)),
            _ => None,
        };
        if let Some((start, limit)) = bounds {
            let local = self.local(value)?;
            let slices = value
                .dims
                .iter()
                .enumerate()
                .map(|(at, size)| match at == along {
                    true => SliceDim {
                        start,
                        limit,
                        stride,
                    },
                    false => SliceDim {
                        start: 0,
                        limit: size.as_constant().unwrap_or(TO_END),
                        stride: 1,
                    },
                });
            let op = Op::Slice(slices.collect());
            return self.push(op, &[local], value.ty, &dims);
        }
        // A slice whose start or size depends on open sizes becomes a gather.
        let index = self.iota(ElementType::S64, &[count], 0)?;
        let stride = self.scalar(ElementType::S64, stride as f64)?;
        let index = self.mul(&index, &stride)?;
        let start = self.of_terms(ElementType::S64, &[], &[start])?;
        let index = self.add(&index, &start)?;
        self.take(value, &index, along)
    }

    pub(crate) fn concat(&mut self, values: &[Value], along: usize) -> Result<Value> {
        let first = values
            .first()
            .ok_or_else(|| Error::input("expected at least one tensor"))?;
        if along >= first.rank() {
            return Err(Error::input(format!("dimension {along} is out of range")));
        }
        if let Some(other) = values
            .iter()
            .find(|v| v.ty != first.ty || v.rank() != first.rank())
        {
            return Err(Error::input(format!(
                "expected tensors of one type and rank, found {} and {}",
                first.shape(),
                other.shape()
            )));
        }
        let all = values
            .iter()
            .fold(Term::constant(0), |n, v| n.add(&v.dims[along]));
        let mut dims = first.dims.clone();
        dims[along] = all;
        if first.rank() == 1 {
            let lists: Option<Vec<Vec<Term>>> = values.iter().map(Value::terms).collect();
            if let Some(lists) = lists {
                let terms = lists.concat();
                return self.of_terms(first.ty, &[terms.len() as i64], &terms);
            }
            let floats: Option<Vec<Vec<f64>>> = values
                .iter()
                .map(|v| v.floats().filter(|l| l.len() <= 64))
                .collect();
            if let Some(floats) = floats {
                let all = floats.concat();
                return Value::of_floats(first.ty, &[all.len() as i64], &all);
            }
        }
        if let [only] = values {
            return Ok(only.clone());
        }
        let locals: Result<Vec<_>> = values.iter().map(|value| self.local(value)).collect();
        self.push(Op::Concatenate(along as i64), &locals?, first.ty, &dims)
    }

    /// Pads each dimension with `fill` before and after; negative amounts crop.
    pub(crate) fn pad(
        &mut self,
        value: &Value,
        fill: &Value,
        low: &[Term],
        high: &[Term],
    ) -> Result<Value> {
        let mut value = value.clone();
        let zero = Term::constant(0);
        for at in 0..value.rank() {
            for (amount, before) in [(&low[at], true), (&high[at], false)] {
                if amount.as_constant().is_some() {
                    continue;
                }
                if self.range(amount).lower < 0 {
                    let taken = Term::max(&amount.neg(), &zero);
                    let (from, to) = match before {
                        true => (taken, value.dims[at].clone()),
                        false => (zero.clone(), value.dims[at].sub(&taken)),
                    };
                    value = self.slice(&value, at, &from, &to, 1)?;
                }
                let mut dims = value.dims.clone();
                dims[at] = self.canonical(&Term::max(amount, &zero));
                let filled = self.broadcast_to(fill, &dims)?;
                let parts = match before {
                    true => [filled, value.clone()],
                    false => [value.clone(), filled],
                };
                value = self.concat(&parts, at)?;
            }
        }
        let known = |term: &Term| term.as_constant().unwrap_or(0);
        let pads: Vec<PadDim> = (0..value.rank())
            .map(|at| PadDim {
                low: known(&low[at]),
                high: known(&high[at]),
                interior: 0,
            })
            .collect();
        if pads.iter().all(|pad| pad.low == 0 && pad.high == 0) {
            return Ok(value);
        }
        let dims: Vec<Term> = (0..value.rank())
            .map(|at| {
                let amount = Term::constant(pads[at].low + pads[at].high);
                Term::max(&self.canonical(&value.dims[at].add(&amount)), &zero)
            })
            .collect();
        let operands = [self.local(&value)?, self.local(fill)?];
        self.push(Op::Pad(pads), &operands, value.ty, &dims)
    }

    pub(crate) fn reverse(&mut self, value: &Value, along: usize) -> Result<Value> {
        value.size(along)?;
        if let Some(out) = self.followed_dims(value, &value.dims) {
            return self.rearranged(value, &out, &|index| {
                let mut from = index.to_vec();
                from[along] = out[along] - 1 - index[along];
                from
            });
        }
        let local = self.local(value)?;
        let dims = [along as i64].into_iter().collect();
        self.push(Op::Reverse(dims), &[local], value.ty, &value.dims)
    }

    /// An array of the indices along one dimension.
    pub(crate) fn iota(&mut self, ty: ElementType, dims: &[Term], along: usize) -> Result<Value> {
        self.push(Op::Iota(along as i64), &[], ty, dims)
    }

    /// The sizes as a list of integers.
    pub(crate) fn dims_value(&self, dims: &[Term]) -> Result<Value> {
        self.of_terms(ElementType::S64, &[dims.len() as i64], dims)
    }

    /// Inserts a dimension of size 1.
    pub(crate) fn unsqueeze(&mut self, value: &Value, at: usize) -> Result<Value> {
        if at > value.rank() {
            return Err(Error::input(format!(
                "dimension {at} cannot be added to an array of {} dimensions",
                value.rank()
            )));
        }
        let mut dims = value.dims.clone();
        dims.insert(at, Term::constant(1));
        self.reshape(value, &dims)
    }

    /// Removes a dimension of size 1.
    pub(crate) fn squeeze(&mut self, value: &Value, at: usize) -> Result<Value> {
        value.size(at)?;
        let mut dims = value.dims.clone();
        dims.remove(at);
        self.reshape(value, &dims)
    }

    /// The slice at an index that depends on data, without the sliced dimension.
    pub(crate) fn at_index(&mut self, value: &Value, along: usize, index: &Value) -> Result<Value> {
        value.size(along)?;
        let zero = Value::of_integers(index.ty, &[], &[0])?;
        let zero = self.local(&zero)?;
        let mut operands = vec![self.local(value)?];
        operands.extend(std::iter::repeat_n(zero, value.rank()));
        operands[1 + along] = self.local(index)?;
        let lengths: DimNumbers = value
            .dims
            .iter()
            .enumerate()
            .map(|(at, size)| match at == along {
                true => 1,
                false => size.as_constant().unwrap_or(TO_END),
            })
            .collect();
        let mut dims = value.dims.clone();
        dims[along] = Term::constant(1);
        let row = self.push(Op::DynamicSlice(lengths), &operands, value.ty, &dims)?;
        self.squeeze(&row, along)
    }

    /// Pads a dimension that may be empty to size 1, with zeros. A loop over the dimension then has
    /// a valid slice to read, even if it has no iterations.
    pub(crate) fn at_least_one(&mut self, value: &Value, along: usize) -> Result<Value> {
        let size = value.size(along)?.clone();
        if self.range(&size).lower > 0 {
            return Ok(value.clone());
        }
        let fill = self.scalar(value.ty, 0.0)?;
        let none = vec![Term::constant(0); value.rank()];
        let mut high = none.clone();
        let one = Term::constant(1);
        high[along] = self.canonical(&Term::max(&one.sub(&size), &Term::constant(0)));
        self.pad(value, &fill, &none, &high)
    }

    /// Replaces the slice at an index.
    pub(crate) fn with_row(
        &mut self,
        array: &Value,
        along: usize,
        index: &Value,
        row: &Value,
    ) -> Result<Value> {
        array.size(along)?;
        let row = self.unsqueeze(row, along)?;
        let zero = Value::of_integers(index.ty, &[], &[0])?;
        let zero = self.local(&zero)?;
        let mut operands = vec![self.local(array)?, self.local(&row)?];
        operands.extend(std::iter::repeat_n(zero, array.rank()));
        operands[2 + along] = self.local(index)?;
        self.push(Op::DynamicUpdateSlice, &operands, array.ty, &array.dims)
    }

    /// A term over sizes, computed by instructions.
    pub(super) fn term_as_data(&mut self, term: &Term) -> Result<Value> {
        term.fold(&mut |term: &Term, parts: &[Result<Value>]| {
            let part = |at: usize| -> Result<Value> {
                let found = parts.get(at);
                found
                    .cloned()
                    .unwrap_or_else(|| Err(Error::input("a size expression has no operand")))
            };
            match term.node() {
                Node::Const(value) => Value::of_integers(ElementType::S64, &[], &[*value]),
                Node::Var(var) => self.size_as_data(*var),
                Node::Add(..) => self.add(&part(0)?, &part(1)?),
                Node::Mul(..) => self.mul(&part(0)?, &part(1)?),
                Node::FloorDiv(..) => self.floor_div(&part(0)?, &part(1)?),
                Node::CeilDiv(..) => {
                    let negative = self.unary(tegula_ir::Unary::Negate, &part(0)?)?;
                    let quotient = self.floor_div(&negative, &part(1)?)?;
                    self.unary(tegula_ir::Unary::Negate, &quotient)
                }
                Node::Mod(..) => {
                    let quotient = self.floor_div(&part(0)?, &part(1)?)?;
                    let whole = self.mul(&quotient, &part(1)?)?;
                    self.sub(&part(0)?, &whole)
                }
                Node::Min(..) => self.min(&part(0)?, &part(1)?),
                Node::Max(..) => self.max(&part(0)?, &part(1)?),
                Node::Cmp(op, ..) => {
                    let direction = match op {
                        tegula_expr::Cmp::Eq => Direction::Eq,
                        tegula_expr::Cmp::Ne => Direction::Ne,
                        tegula_expr::Cmp::Lt => Direction::Lt,
                        tegula_expr::Cmp::Le => Direction::Le,
                    };
                    let truth = self.compare(direction, &part(0)?, &part(1)?)?;
                    self.convert(&truth, ElementType::S64)
                }
                Node::Select(..) => {
                    let truth = self.convert(&part(0)?, ElementType::Pred)?;
                    self.select(&truth, &part(1)?, &part(2)?)
                }
            }
        })
    }

    /// The quotient of integers, rounded towards negative infinity.
    pub(crate) fn floor_div(&mut self, a: &Value, b: &Value) -> Result<Value> {
        let quotient = self.div(a, b)?;
        let rest = self.binary(Binary::Remainder, a, b)?;
        let zero = self.like(a, 0.0)?;
        let is_rest = self.compare(Direction::Ne, &rest, &zero)?;
        let below = self.compare(Direction::Lt, &rest, &zero)?;
        let divisor_below = self.compare(Direction::Lt, b, &zero)?;
        let differ = self.binary(Binary::Xor, &below, &divisor_below)?;
        let round = self.binary(Binary::And, &is_rest, &differ)?;
        let one_less = self.shifted(&quotient, -1.0)?;
        self.select(&round, &one_less, &quotient)
    }

    /// An open size, read by an instruction from an array that has it.
    pub(super) fn size_as_data(&mut self, var: Var) -> Result<Value> {
        if let Some(local) = self.size_locals.get(&var) {
            return self.value_of(*local);
        }
        let wanted = Term::var(var);
        let found = self.draft.ids().find_map(|id| {
            let array = self.draft.shape(id).as_array()?;
            let at = array
                .dims
                .iter()
                .position(|dim| !matches!(dim, Dim::Static(_)) && dim.term() == wanted)?;
            Some((id, at))
        });
        let (id, at) = found.ok_or_else(|| {
            Error::unsupported(
                "a subgraph uses a symbolic size as data, but has no array of that size",
            )
        })?;
        let size = self.push_inferred(Op::GetDimensionSize(at as i64), &[id])?;
        let local = self.local(&size)?;
        self.push(Op::Convert, &[local], ElementType::S64, &sizes(&[]))
    }
}
