//! `dot`: the operands are transposed to `[batch, m, k]` and `[batch, k, n]` and multiplied.
//!
//! Where the types differ, the operands are first converted to [`product_type`], and the sums last
//! to the result's type. In between, all values have one type: floats are accumulated in `f64` and
//! rounded once, integers wrap, `pred` is computed with `and` and `or`. `operand_precision` and
//! `algorithm` concern speed and are ignored.

use crate::error::{OpError, invalid};
use crate::matmul::{Entry, matmul};
use crate::movement::{positions, transpose};
use crate::numbers::{from_f64s, from_i64s, to_f64s, to_i64s};
use crate::strided::{Sizes, product, sizes, to_i64s as dims_i64};
use std::num::Wrapping;
use tegula_ir::helpers::product_type;
use tegula_ir::{ArrayShape, Category, DotDims, ElementType, Literal};
use tegula_scalar::{C64, Number, decode, encode};

/// The sums of products of a dot, with the magnitudes of the terms if they were asked for.
pub(crate) struct Product {
    /// In the type in which the products were summed.
    pub(crate) sums: Literal,
    pub(crate) magnitudes: Option<Vec<f64>>,
    /// The number of products in each sum.
    pub(crate) terms: usize,
}

/// The kind of arithmetic for the products of two arrays.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Domain {
    Float,
    Integer,
    Complex,
}

impl Domain {
    pub(crate) fn of(ty: ElementType) -> Self {
        match ty.category() {
            Category::Complex => Self::Complex,
            Category::Float => Self::Float,
            Category::Boolean | Category::Signed | Category::Unsigned => Self::Integer,
        }
    }
}

/// Two operands in the type in which their products are summed, and the shape of the sums.
pub(crate) fn in_one_type(
    lhs: &Literal,
    rhs: &Literal,
    result: &ArrayShape,
) -> Result<(Literal, Literal, ArrayShape), OpError> {
    let ty = product_type(lhs.element_type(), rhs.element_type(), result.element_type);
    let converted = |x: &Literal| crate::elementwise::convert(x, &x.shape().with_element_type(ty));
    Ok((
        converted(lhs)?,
        converted(rhs)?,
        result.with_element_type(ty),
    ))
}

/// The elements of an array of any type as real numbers.
pub(crate) fn load_floats(x: &Literal) -> Vec<f64> {
    if x.element_type().is_float() {
        return to_f64s(x);
    }
    to_i64s(x).into_iter().map(|x| x as f64).collect()
}

pub(crate) fn load_integers(x: &Literal) -> Vec<Wrapping<i64>> {
    to_i64s(x).into_iter().map(Wrapping).collect()
}

pub(crate) fn load_complex(x: &Literal) -> Vec<C64> {
    let (ty, bits) = (x.element_type(), tegula_scalar::Bits::of(x));
    let number = |i| match decode(
        ElementType::C128,
        tegula_scalar::apply_convert(ty, ElementType::C128, bits.get(i)),
    ) {
        Number::ComplexDouble(x) => x,
        _ => C64::default(),
    };
    (0..x.len()).map(number).collect()
}

pub(crate) fn store_integers(
    shape: &ArrayShape,
    values: &[Wrapping<i64>],
) -> Result<Literal, OpError> {
    // The sums count the true products; a count that is not zero becomes true.
    let values: Vec<i64> = values.iter().map(|x| x.0).collect();
    from_i64s(shape, &values)
}

pub(crate) fn store_complex(shape: &ArrayShape, values: &[C64]) -> Result<Literal, OpError> {
    let ty = shape.element_type;
    crate::elementwise::fill(shape, |i| {
        values
            .get(i)
            .map_or(0, |&x| encode(ty, Number::ComplexDouble(x)))
    })
}

/// `x` transposed to the given order of dimensions.
pub(crate) fn ordered(x: &Literal, order: &[usize]) -> Result<Literal, OpError> {
    if order.iter().enumerate().all(|(i, &d)| i == d) && order.len() == x.shape().rank() {
        return Ok(x.clone());
    }
    transpose(x, &dims_i64(order))
}

struct Sides {
    lhs: Literal,
    rhs: Literal,
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
    result: Sizes,
}

fn sides(lhs: &Literal, rhs: &Literal, dims: &DotDims) -> Result<Sides, OpError> {
    let (l, r) = (sizes(lhs), sizes(rhs));
    let lhs_batch = positions(&dims.lhs_batch, l.len())?;
    let rhs_batch = positions(&dims.rhs_batch, r.len())?;
    let lhs_contracting = positions(&dims.lhs_contracting, l.len())?;
    let rhs_contracting = positions(&dims.rhs_contracting, r.len())?;
    let pick =
        |sizes: &[usize], which: &[usize]| -> Sizes { which.iter().map(|&d| sizes[d]).collect() };
    if pick(&l, &lhs_batch) != pick(&r, &rhs_batch)
        || pick(&l, &lhs_contracting) != pick(&r, &rhs_contracting)
    {
        return Err(invalid(
            "expected batch and contracting dimensions of equal sizes in both operands",
        ));
    }
    let free = |rank: usize, a: &[usize], b: &[usize]| -> Sizes {
        (0..rank)
            .filter(|d| !a.contains(d) && !b.contains(d))
            .collect()
    };
    let lhs_free = free(l.len(), &lhs_batch, &lhs_contracting);
    let rhs_free = free(r.len(), &rhs_batch, &rhs_contracting);
    let concat = |parts: [&Sizes; 3]| -> Sizes { parts.into_iter().flatten().copied().collect() };
    Ok(Sides {
        batch: product(&pick(&l, &lhs_batch)),
        m: product(&pick(&l, &lhs_free)),
        k: product(&pick(&l, &lhs_contracting)),
        n: product(&pick(&r, &rhs_free)),
        result: concat([
            &pick(&l, &lhs_batch),
            &pick(&l, &lhs_free),
            &pick(&r, &rhs_free),
        ]),
        lhs: ordered(lhs, &concat([&lhs_batch, &lhs_free, &lhs_contracting]))?,
        rhs: ordered(rhs, &concat([&rhs_batch, &rhs_contracting, &rhs_free]))?,
    })
}

impl Sides {
    fn multiply<T: Entry>(&self, lhs: &[T], rhs: &[T]) -> Vec<T> {
        let (m, k, n) = (self.m, self.k, self.n);
        let mut result = Vec::with_capacity(self.batch * m * n);
        for b in 0..self.batch {
            let a = &lhs[b * m * k..(b + 1) * m * k];
            let b = &rhs[b * k * n..(b + 1) * k * n];
            result.extend(matmul(a, b, m, k, n));
        }
        result
    }

    fn magnitudes<T: Entry>(&self, lhs: &[T], rhs: &[T]) -> Vec<f64> {
        let abs = |x: &[T]| -> Vec<f64> { x.iter().map(|x| x.magnitude()).collect() };
        self.multiply(&abs(lhs), &abs(rhs))
    }
}

/// Evaluates `dot(lhs, rhs)`; `magnitudes` asks for the sums of absolute products too.
pub(crate) fn dot(
    lhs: &Literal,
    rhs: &Literal,
    dims: &DotDims,
    shape: &ArrayShape,
    magnitudes: bool,
) -> Result<Product, OpError> {
    let (lhs, rhs, shape) = in_one_type(lhs, rhs, shape)?;
    let sides = sides(&lhs, &rhs, dims)?;
    if dims_i64(&sides.result).as_slice() != shape.static_dims().unwrap_or_default().as_slice() {
        return Err(invalid(
            "the stated shape of the result differs from the computed one",
        ));
    }
    let (sums, magnitudes) = match Domain::of(shape.element_type) {
        Domain::Float => {
            let (l, r) = (load_floats(&sides.lhs), load_floats(&sides.rhs));
            let sizes = magnitudes.then(|| sides.magnitudes(&l, &r));
            (from_f64s(&shape, &sides.multiply(&l, &r))?, sizes)
        }
        Domain::Integer => {
            let (l, r) = (load_integers(&sides.lhs), load_integers(&sides.rhs));
            (store_integers(&shape, &sides.multiply(&l, &r))?, None)
        }
        Domain::Complex => {
            let (l, r) = (load_complex(&sides.lhs), load_complex(&sides.rhs));
            let sizes = magnitudes.then(|| sides.magnitudes(&l, &r));
            (store_complex(&shape, &sides.multiply(&l, &r))?, sizes)
        }
    };
    Ok(Product {
        sums,
        magnitudes,
        terms: sides.k,
    })
}
