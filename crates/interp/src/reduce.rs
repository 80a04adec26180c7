//! `reduce`.
//!
//! A reduction of one operand by a single operation (addition, maximum, ...) is recognised and
//! folded over a vector of `f64`, `i64` or `u64`; any other reduction calls its computation for
//! each element. Sums of floats are accumulated in `f64` and rounded once; products are rounded to
//! the type at every step; other operations are exact.

use crate::callee::Callee;
use crate::error::{OpError, invalid};
use crate::movement::positions;
use crate::numbers::{from_f64s, from_i64s, from_u64s, to_f64, to_f64s, to_i64s, to_u64s};
use crate::strided::{Sizes, Strides, Walk, row_major, sizes};
use smallvec::SmallVec;
use tegula_ir::{ArrayShape, Binary, Category, ElementType, Literal};
use tegula_scalar::{Bits, BitsMut};
use tegula_scalar::{
    Number, binary_pred, binary_signed, binary_unsigned, decode, encode, maximum_f64, minimum_f64,
};

/// A function that combines two elements, by the type that it computes on.
pub(crate) enum Fold {
    /// Sums of floats, unrounded.
    Sum,
    Float(Box<dyn Fn(f64, f64) -> f64>),
    Signed(Box<dyn Fn(i64, i64) -> i64>),
    Unsigned(Box<dyn Fn(u64, u64) -> u64>),
}

impl Fold {
    /// The fold of `op` on elements of type `ty`, if there is one.
    pub(crate) fn new(op: Binary, ty: ElementType) -> Option<Self> {
        if !tegula_scalar::has_binary(op, ty) {
            return None;
        }
        let bits = ty.bits();
        Some(match (ty.category(), op) {
            (Category::Float, Binary::Add) => Self::Sum,
            (Category::Float, Binary::Maximum) => Self::Float(Box::new(maximum_f64)),
            (Category::Float, Binary::Minimum) => Self::Float(Box::new(minimum_f64)),
            (Category::Float, Binary::Multiply) => Self::Float(Box::new(move |a, b| {
                to_f64(decode(ty, encode(ty, Number::Double(a * b))))
            })),
            (Category::Signed, _) => Self::Signed(Box::new(move |a, b| {
                binary_signed(op, a, b, bits).unwrap_or(0)
            })),
            (Category::Unsigned, _) => Self::Unsigned(Box::new(move |a, b| {
                binary_unsigned(op, a, b, bits).unwrap_or(0)
            })),
            (Category::Boolean, _) => Self::Unsigned(Box::new(move |a, b| {
                u64::from(binary_pred(op, a != 0, b != 0).unwrap_or(false))
            })),
            _ => return None,
        })
    }
}

/// Applies a fold of any kind to arrays of that kind.
pub(crate) fn with_fold(
    fold: &Fold,
    x: &Literal,
    init: &Literal,
    shape: &ArrayShape,
    kernel: &dyn FoldKernel,
) -> Result<Literal, OpError> {
    match fold {
        Fold::Sum => from_f64s(shape, &kernel.sums(&to_f64s(x), first(&to_f64s(init))?)),
        Fold::Float(f) => from_f64s(
            shape,
            &kernel.floats(&to_f64s(x), first(&to_f64s(init))?, f),
        ),
        Fold::Signed(f) => from_i64s(
            shape,
            &kernel.signed(&to_i64s(x), first(&to_i64s(init))?, f),
        ),
        Fold::Unsigned(f) => from_u64s(
            shape,
            &kernel.unsigned(&to_u64s(x), first(&to_u64s(init))?, f),
        ),
    }
}

fn first<T: Copy>(values: &[T]) -> Result<T, OpError> {
    let value = values.first().copied();
    value.ok_or_else(|| invalid("expected a scalar as initial value"))
}

/// A loop nest that folds, generic over the type of the elements.
pub(crate) trait FoldKernel {
    fn sums(&self, x: &[f64], init: f64) -> Vec<f64>;
    fn floats(&self, x: &[f64], init: f64, f: &dyn Fn(f64, f64) -> f64) -> Vec<f64>;
    fn signed(&self, x: &[i64], init: i64, f: &dyn Fn(i64, i64) -> i64) -> Vec<i64>;
    fn unsigned(&self, x: &[u64], init: u64, f: &dyn Fn(u64, u64) -> u64) -> Vec<u64>;
}

/// Implements [`FoldKernel`] by a generic method `fold(x, init, f)`.
macro_rules! fold_kernel {
    ($ty:ty) => {
        impl $crate::reduce::FoldKernel for $ty {
            fn sums(&self, x: &[f64], init: f64) -> Vec<f64> {
                self.fold(x, init, |a, b| a + b)
            }
            fn floats(&self, x: &[f64], init: f64, f: &dyn Fn(f64, f64) -> f64) -> Vec<f64> {
                self.fold(x, init, f)
            }
            fn signed(&self, x: &[i64], init: i64, f: &dyn Fn(i64, i64) -> i64) -> Vec<i64> {
                self.fold(x, init, f)
            }
            fn unsigned(&self, x: &[u64], init: u64, f: &dyn Fn(u64, u64) -> u64) -> Vec<u64> {
                self.fold(x, init, f)
            }
        }
    };
}
pub(crate) use fold_kernel;

/// The elements that a reduce combines into each result.
struct Nest {
    /// For each result, the offset of its first element.
    kept: Vec<isize>,
    /// The offsets from there of the elements to combine, in order.
    reduced: Vec<isize>,
    /// Whether elements adjacent in memory belong to the same result.
    inner_reduced: bool,
}

impl Nest {
    fn new(dims: &[usize], dimensions: &[i64]) -> Result<Self, OpError> {
        let reduced = positions(dimensions, dims.len())?;
        let strides = row_major(dims);
        let part = |is_reduced: bool| {
            let chosen = (0..dims.len()).filter(|d| reduced.contains(d) == is_reduced);
            let (dims, strides): (Sizes, Strides) = chosen.map(|d| (dims[d], strides[d])).unzip();
            let walk = Walk {
                dims,
                offset: 0,
                strides,
            };
            walk.offsets()
        };
        Ok(Self {
            kept: part(false),
            reduced: part(true),
            inner_reduced: dims.is_empty() || reduced.contains(&(dims.len() - 1)),
        })
    }

    fn fold<T: Copy>(&self, x: &[T], init: T, f: impl Fn(T, T) -> T) -> Vec<T> {
        if self.inner_reduced {
            let line = |&start: &isize| {
                let places = self.reduced.iter().map(|&place| (start + place) as usize);
                places.fold(init, |sum, place| f(sum, x[place]))
            };
            return self.kept.iter().map(line).collect();
        }
        // The order for each result is the same, but memory is traversed contiguously.
        let mut results = vec![init; self.kept.len()];
        for &place in &self.reduced {
            for (result, &start) in results.iter_mut().zip(&self.kept) {
                *result = f(*result, x[(start + place) as usize]);
            }
        }
        results
    }
}

fold_kernel!(Nest);

/// The sizes of the dimensions that a reduce keeps.
fn kept_dims(dims: &[usize], dimensions: &[i64]) -> Sizes {
    let kept = (0..dims.len()).filter(|&d| !dimensions.contains(&(d as i64)));
    kept.map(|d| dims[d]).collect()
}

/// The results of a reduce; for a sum of floats also the sum of its absolute terms, which error
/// estimates need.
pub(crate) struct Reduced {
    pub(crate) results: Vec<Literal>,
    pub(crate) magnitudes: Option<Vec<f64>>,
    /// The number of elements combined into each result.
    pub(crate) terms: usize,
}

/// Evaluates `reduce(inputs..., inits...)`; `magnitudes` asks for the sums of absolute values where
/// the reduction is a sum of floats.
pub(crate) fn reduce(
    inputs: &[&Literal],
    inits: &[&Literal],
    dimensions: &[i64],
    callee: &mut Callee<'_, '_>,
    magnitudes: bool,
) -> Result<Reduced, OpError> {
    let Some(&x) = inputs.first() else {
        return Err(invalid("expected at least one operand"));
    };
    let dims = sizes(x);
    let kept = crate::strided::to_i64s(&kept_dims(&dims, dimensions));
    // Without results, any number of elements may be combined into each.
    if kept.contains(&0) {
        let empty = |x: &&Literal| Literal::zeros(&ArrayShape::new(x.element_type(), &kept));
        return Ok(Reduced {
            results: inputs.iter().map(empty).collect::<Result<_, _>>()?,
            magnitudes: None,
            terms: 0,
        });
    }
    let nest = Nest::new(&dims, dimensions)?;
    let agrees = inputs.len() == inits.len()
        && inputs.iter().all(|input| sizes(input) == dims)
        && inits.iter().all(|init| init.len() == 1)
        && inputs
            .iter()
            .zip(inits)
            .all(|(x, i)| x.element_type() == i.element_type());
    if !agrees {
        return Err(invalid(
            "expected inputs of equal shapes, each with a scalar initial value of its type",
        ));
    }
    let terms = nest.reduced.len();
    if let (&[init], Some(op)) = (inits, callee.as_binary())
        && let Some(fold) = Fold::new(op, x.element_type())
    {
        let shape = ArrayShape::new(x.element_type(), &kept);
        let result = with_fold(&fold, x, init, &shape, &nest)?;
        let magnitudes = (magnitudes && matches!(fold, Fold::Sum)).then(|| {
            let init = to_f64s(init).first().map_or(0.0, |x| x.abs());
            nest.fold(&to_f64s(x), init, |sum, x| sum + x.abs())
        });
        return Ok(Reduced {
            results: vec![result],
            magnitudes,
            terms,
        });
    }
    Ok(Reduced {
        results: reduce_general(inputs, inits, &nest, &kept, callee)?,
        magnitudes: None,
        terms,
    })
}

fn reduce_general(
    inputs: &[&Literal],
    inits: &[&Literal],
    nest: &Nest,
    kept: &[i64],
    callee: &mut Callee<'_, '_>,
) -> Result<Vec<Literal>, OpError> {
    let bits: Vec<Bits<'_>> = inputs.iter().map(|input| Bits::of(input)).collect();
    let init: SmallVec<[u128; 2]> = inits.iter().map(|init| Bits::of(init).get(0)).collect();
    let mut results = Vec::with_capacity(inputs.len());
    for input in inputs {
        results.push(Literal::zeros(&ArrayShape::new(
            input.element_type(),
            kept,
        ))?);
    }
    let mut outs: Vec<BitsMut<'_>> = results.iter_mut().map(BitsMut::of).collect();
    let mut arguments: SmallVec<[u128; 4]> = SmallVec::new();
    for (i, &start) in nest.kept.iter().enumerate() {
        let mut sums = init.clone();
        for &place in &nest.reduced {
            arguments.clear();
            arguments.extend_from_slice(&sums);
            arguments.extend(bits.iter().map(|bits| bits.get((start + place) as usize)));
            sums = callee.call(&arguments)?;
            if sums.len() != outs.len() {
                return Err(invalid(
                    "the number of results of the called computation is not that of the operands",
                ));
            }
        }
        for (out, &sum) in outs.iter_mut().zip(&sums) {
            out.set(i, sum);
        }
    }
    Ok(results)
}
