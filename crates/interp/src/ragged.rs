//! `ragged-dot` (products of groups) and `scaled-dot` (products of scaled operands), evaluated by
//! their definitions.
//!
//! Types are converted as for a [`dot`](crate::dot). As in XLA's evaluator, a row belongs to the
//! first group that ends after it, a row after all groups gives zero, and group sizes may have any
//! value.

use crate::dot::{
    Domain, Product, dot, in_one_type, load_complex, load_floats, load_integers, store_complex,
    store_integers,
};
use crate::elementwise;
use crate::error::{OpError, invalid};
use crate::matmul::Entry;
use crate::movement::{broadcast, position, positions};
use crate::numbers::{from_f64s, to_i64s};
use crate::strided::{Sizes, product, sizes};
use tegula_ir::helpers::scaled_type;
use tegula_ir::{ArrayShape, Binary, Dim, DimNumbers, DotDims, Literal};

/// The position of an element, by dimension.
type Index = Vec<usize>;

/// Advances an index to the next element, the last dimension fastest.
fn next(index: &mut [usize], sizes: &[usize]) {
    for (place, &size) in index.iter_mut().zip(sizes).rev() {
        *place += 1;
        if *place < size {
            return;
        }
        *place = 0;
    }
}

fn offset(index: &[usize], sizes: &[usize]) -> usize {
    let pairs = index.iter().zip(sizes);
    pairs.fold(0, |offset, (&place, &size)| offset * size + place)
}

/// The role of the left operand's ragged dimension.
enum Mode {
    /// It is a dimension of the result; `group` is the right operand's dimension of groups.
    Free {
        group: usize,
    },
    /// It is the contracted dimension of this number.
    Contracted {
        number: usize,
    },
    Batch,
}

/// The attributes of a `ragged-dot`.
pub(crate) struct Attributes<'a> {
    pub(crate) dims: &'a DotDims,
    pub(crate) ragged: &'a DimNumbers,
    pub(crate) group: &'a DimNumbers,
}

/// A `ragged-dot` with its dimensions checked.
struct Ragged<'a> {
    mode: Mode,
    ragged: usize,
    batch: [Sizes; 2],
    contracting: [Sizes; 2],
    /// The dimensions of each operand that appear in the result.
    free: [Sizes; 2],
    /// The dimensions of the left operand that precede the last dimension of `groups`.
    prefix: Sizes,
    sizes: [Sizes; 2],
    groups: &'a [i64],
    group_sizes: Sizes,
}

impl<'a> Ragged<'a> {
    fn new(
        [lhs, rhs, groups]: [&Literal; 3],
        values: &'a [i64],
        attributes: &Attributes<'_>,
    ) -> Result<Self, OpError> {
        let (l, r, dims) = (sizes(lhs), sizes(rhs), attributes.dims);
        let batch = [
            positions(&dims.lhs_batch, l.len())?,
            positions(&dims.rhs_batch, r.len())?,
        ];
        let contracting = [
            positions(&dims.lhs_contracting, l.len())?,
            positions(&dims.rhs_contracting, r.len())?,
        ];
        let pick =
            |sizes: &[usize], of: &[usize]| -> Sizes { of.iter().map(|&d| sizes[d]).collect() };
        if pick(&l, &batch[0]) != pick(&r, &batch[1])
            || pick(&l, &contracting[0]) != pick(&r, &contracting[1])
        {
            return Err(invalid(
                "expected batch and contracting dimensions of equal sizes in both operands",
            ));
        }
        let ragged = attributes.ragged.first();
        let ragged = ragged.ok_or_else(|| invalid("expected a ragged dimension"))?;
        let ragged = position(*ragged, l.len())?;
        let number = contracting[0].iter().position(|&dim| dim == ragged);
        let mode = match (number, attributes.group.first()) {
            (Some(number), _) => Mode::Contracted { number },
            _ if batch[0].contains(&ragged) => Mode::Batch,
            (None, Some(&group)) => Mode::Free {
                group: position(group, r.len())?,
            },
            (None, None) => {
                return Err(invalid(
                    "expected a group dimension, as the ragged dimension is neither contracted nor a batch dimension",
                ));
            }
        };
        let own = |rank: usize, side: usize, but: Option<usize>| -> Sizes {
            let others = |d: &usize| batch[side].contains(d) || contracting[side].contains(d);
            (0..rank)
                .filter(|d| !others(d) && Some(*d) != but)
                .collect()
        };
        let group = match mode {
            Mode::Free { group } => Some(group),
            _ => None,
        };
        let free = [own(l.len(), 0, None), own(r.len(), 1, group)];
        let group_sizes = sizes(groups);
        let before: Sizes = match mode {
            Mode::Free { .. } => batch[0].iter().chain(&free[0]).copied().collect(),
            Mode::Contracted { .. } => batch[0].iter().chain(&contracting[0]).copied().collect(),
            Mode::Batch => batch[0].clone(),
        };
        let before = before.into_iter().take_while(|&dim| dim != ragged);
        let prefix: Sizes = match group_sizes.len() {
            1 => Sizes::new(),
            _ => before.collect(),
        };
        let counts: Sizes = pick(&l, &prefix);
        if group_sizes
            .split_last()
            .is_none_or(|(_, front)| *front != counts[..])
        {
            return Err(invalid(format!(
                "the group sizes have shape {group_sizes:?}: expected {counts:?} and the number of groups, \
                 after the left operand's shape"
            )));
        }
        Ok(Self {
            mode,
            ragged,
            batch,
            contracting,
            free,
            prefix,
            sizes: [l, r],
            groups: values,
            group_sizes,
        })
    }

    /// The end of each group, for the left operand's element at this position.
    fn ends(&self, lhs: &[usize]) -> Vec<i64> {
        let mut index: Index = self.prefix.iter().map(|&dim| lhs[dim]).collect();
        index.push(0);
        let count = self.group_sizes.last().copied().unwrap_or(0);
        let first = offset(&index, &self.group_sizes);
        let groups = self.groups.iter().skip(first).take(count);
        groups
            .scan(0i64, |end, &size| {
                *end = end.wrapping_add(size);
                Some(*end)
            })
            .collect()
    }

    /// All sums of products, in the order of the result's elements.
    fn sums<T: Entry>(&self, lhs: &[T], rhs: &[T], result: &[usize]) -> Vec<T> {
        let mut index: Index = vec![0; result.len()];
        let count = product(result);
        let mut sums = Vec::with_capacity(count);
        for _ in 0..count {
            sums.push(self.sum(lhs, rhs, &index));
            next(&mut index, result);
        }
        sums
    }

    /// One element of the result.
    fn sum<T: Entry>(&self, lhs: &[T], rhs: &[T], result: &[usize]) -> T {
        let mut at: [Index; 2] = [0, 1].map(|side| vec![0; self.sizes[side].len()]);
        let is_by_group = matches!(self.mode, Mode::Contracted { .. });
        let (group, result) = result.split_at(usize::from(is_by_group));
        let mut places = result.iter().copied();
        for (&l, &r) in self.batch[0].iter().zip(&self.batch[1]) {
            let place = places.next().unwrap_or(0);
            (at[0][l], at[1][r]) = (place, place);
        }
        for side in [0, 1] {
            for &dim in &self.free[side] {
                at[side][dim] = places.next().unwrap_or(0);
            }
        }
        if let Mode::Free { group } = self.mode {
            let row = at[0][self.ragged] as i64;
            let Some(found) = self.ends(&at[0]).iter().position(|&end| row < end) else {
                return T::default();
            };
            at[1][group] = found;
        }
        let lengths: Sizes = self.contracting[0]
            .iter()
            .map(|&d| self.sizes[0][d])
            .collect();
        let mut terms: Index = vec![0; lengths.len()];
        let mut sum = T::default();
        for _ in 0..product(&lengths) {
            for (number, &place) in terms.iter().enumerate() {
                at[0][self.contracting[0][number]] = place;
                at[1][self.contracting[1][number]] = place;
            }
            if self.is_term(group, &terms, &at[0]) {
                let [l, r] = [0, 1].map(|side| offset(&at[side], &self.sizes[side]));
                sum = sum + lhs[l] * rhs[r];
            }
            next(&mut terms, &lengths);
        }
        sum
    }

    /// Whether a term belongs to the group of this result element.
    fn is_term(&self, group: &[usize], terms: &[usize], lhs: &[usize]) -> bool {
        let (Mode::Contracted { number }, [group]) = (&self.mode, group) else {
            return true;
        };
        let ends = self.ends(lhs);
        let start = group.checked_sub(1).map_or(0, |before| ends[before]);
        (start..ends[*group]).contains(&(terms[*number] as i64))
    }
}

/// Evaluates `ragged-dot(lhs, rhs, groups)`; `magnitudes` asks for the sums of absolute products
/// too.
pub(crate) fn ragged_dot(
    [lhs, rhs, groups]: [&Literal; 3],
    attributes: &Attributes<'_>,
    shape: &ArrayShape,
    magnitudes: bool,
) -> Result<Product, OpError> {
    let (lhs, rhs, shape) = in_one_type(lhs, rhs, shape)?;
    let values = to_i64s(groups);
    let ragged = Ragged::new([&lhs, &rhs, groups], &values, attributes)?;
    let result: Sizes = shape
        .static_dims()
        .unwrap_or_default()
        .iter()
        .map(|&d| d as usize)
        .collect();
    let terms = ragged.contracting[0]
        .iter()
        .map(|&d| ragged.sizes[0][d])
        .product();
    let (sums, magnitudes) = match Domain::of(shape.element_type) {
        Domain::Float => {
            let (l, r) = (load_floats(&lhs), load_floats(&rhs));
            let sums = from_f64s(&shape, &ragged.sums(&l, &r, &result))?;
            let size = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| x.magnitude()).collect() };
            let sizes = magnitudes.then(|| ragged.sums(&size(&l), &size(&r), &result));
            (sums, sizes)
        }
        Domain::Integer => {
            let (l, r) = (load_integers(&lhs), load_integers(&rhs));
            (store_integers(&shape, &ragged.sums(&l, &r, &result))?, None)
        }
        Domain::Complex => {
            let (l, r) = (load_complex(&lhs), load_complex(&rhs));
            let sums = store_complex(&shape, &ragged.sums(&l, &r, &result))?;
            let size = |x: &[tegula_scalar::C64]| -> Vec<f64> {
                x.iter().map(|x| x.magnitude()).collect()
            };
            let sizes = magnitudes.then(|| ragged.sums(&size(&l), &size(&r), &result));
            (sums, sizes)
        }
    };
    Ok(Product {
        sums,
        magnitudes,
        terms,
    })
}

/// Evaluates `scaled-dot(lhs, rhs, lhs_scale, rhs_scale)`: each operand times its scale, then a
/// dot.
pub(crate) fn scaled_dot(
    [lhs, rhs, lhs_scale, rhs_scale]: [&Literal; 4],
    dims: &DotDims,
    shape: &ArrayShape,
    magnitudes: bool,
) -> Result<Product, OpError> {
    let ty = scaled_type(lhs.element_type(), rhs.element_type(), shape.element_type);
    let scaled = |x: &Literal, scale: &Literal| -> Result<Literal, OpError> {
        let shape = x.shape().with_element_type(ty);
        let x = elementwise::convert(x, &shape)?;
        if scale.shape().rank() == 0 && shape.rank() != 0 {
            return Ok(x);
        }
        let scale = elementwise::convert(scale, &scale.shape().with_element_type(ty))?;
        elementwise::binary(Binary::Multiply, &x, &by_parts(&scale, &shape)?)
    };
    let (lhs, rhs) = (scaled(lhs, lhs_scale)?, scaled(rhs, rhs_scale)?);
    dot(&lhs, &rhs, dims, &shape.with_element_type(ty), magnitudes)
}

/// Broadcasts scales, each of which applies to an equal part of the operand, to one for each
/// element.
fn by_parts(scale: &Literal, shape: &ArrayShape) -> Result<Literal, OpError> {
    let mut split = ArrayShape::new(shape.element_type, &[]);
    let mut places = DimNumbers::new();
    let whole = shape.static_dims().unwrap_or_default();
    for (&size, count) in whole.iter().zip(sizes(scale)) {
        places.push(split.rank() as i64);
        let count = count as i64;
        let length = if count == 0 { 0 } else { size / count };
        if count * length != size {
            return Err(invalid(
                "expected scales that divide each dimension of the operand into equal blocks",
            ));
        }
        split.dims.extend([Dim::Static(count), Dim::Static(length)]);
    }
    Ok(broadcast(scale, &split, &places)?.reshaped(shape)?)
}
