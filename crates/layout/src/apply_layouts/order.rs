//! Orders of dimensions as permutations, and permuting the elements of arrays.

use smallvec::SmallVec;
use tegula_ir::{ArrayShape, Layout, Literal, LiteralError, Module};

/// An order of dimensions, the most major first: dimension `k` of the array in memory is dimension
/// `order[k]` of the logical array. It is `minor_to_major` reversed.
pub type Permutation = SmallVec<[usize; 6]>;

/// The default order.
pub fn row_major(rank: usize) -> Permutation {
    (0..rank).collect()
}

/// Whether the order is the identity.
pub fn is_row_major(order: &[usize]) -> bool {
    order.iter().copied().eq(0..order.len())
}

/// The inverse permutation: the position of each dimension in an order.
pub fn inverse(order: &[usize]) -> Permutation {
    let mut places = row_major(order.len());
    for (place, &dim) in order.iter().enumerate() {
        if let Some(slot) = places.get_mut(dim) {
            *slot = place;
        }
    }
    places
}

/// The order of a layout.
pub fn of_layout(layout: &Layout) -> Permutation {
    let dims = layout.minor_to_major.iter().rev();
    dims.map(|&dim| dim as usize).collect()
}

/// The layout of an order.
pub fn to_layout(order: &[usize]) -> Layout {
    Layout {
        minor_to_major: order.iter().rev().map(|&dim| dim as u32).collect(),
        ..Layout::default()
    }
}

/// The shape of an array permuted to an order; it states no layout any more.
pub fn in_order(shape: &ArrayShape, order: &[usize]) -> ArrayShape {
    let dims = order.iter().filter_map(|&dim| shape.dims.get(dim).cloned());
    ArrayShape {
        element_type: shape.element_type,
        dims: dims.collect(),
        layout: None,
    }
}

/// The orders that a program states for its parameters and its results, by number after flattening
/// tuples: those of the header, else those of the instructions. Row-major where nothing is stated.
pub fn stated(module: &Module) -> (Vec<Permutation>, Vec<Permutation>) {
    let entry = module.entry_computation();
    let found = entry.parameters.iter().map(|&p| &module[p].shape);
    let found: Vec<_> = found.collect();
    let root = &module[entry.root].shape;
    let (header, header_root) = match &module.attributes.entry_layout {
        Some((parameters, root)) => (parameters.iter().collect(), Some(root)),
        None => (Vec::new(), None),
    };
    let mut parameters = Vec::new();
    for (number, shape) in found.into_iter().enumerate() {
        orders(shape, header.get(number).copied(), &mut parameters);
    }
    let mut results = Vec::new();
    orders(root, header_root, &mut results);
    (parameters, results)
}

fn orders(
    found: &tegula_ir::Shape,
    header: Option<&tegula_ir::Shape>,
    into: &mut Vec<Permutation>,
) {
    let header = header.map(tegula_fusion::array_leaves).unwrap_or_default();
    for (number, own) in tegula_fusion::array_leaves(found).into_iter().enumerate() {
        let layout = header.get(number).and_then(|shape| shape.layout.as_deref());
        let layout = layout.or(own.layout.as_deref());
        let order = layout.map(of_layout).filter(|o| o.len() == own.rank());
        into.push(order.unwrap_or_else(|| row_major(own.rank())));
    }
}

/// The side length of a tile of elements that are moved together, for the rows being read across to
/// stay in the cache.
const TILE: usize = 32;

/// Permutes an array: dimension `k` of the result is dimension `order[k]` of this array.
///
/// # Errors
/// Not enough memory. If `order` is not a permutation of the array's dimensions, the error is
/// [`LiteralError::NoFixedSize`].
pub fn permuted(literal: &Literal, order: &[usize]) -> Result<Literal, LiteralError> {
    let sizes = literal.shape().static_dims();
    let sizes = sizes.ok_or(LiteralError::NoFixedSize)?;
    let mut sorted: Permutation = order.into();
    sorted.sort_unstable();
    if order.len() != sizes.len() || !is_row_major(&sorted) {
        return Err(LiteralError::NoFixedSize);
    }
    let shape = in_order(literal.shape(), order);
    let moves = |&dim: &usize| sizes.get(dim).is_some_and(|&size| size != 1);
    if literal.is_empty() || order.iter().copied().filter(|d| moves(d)).is_sorted() {
        return literal.reshaped(&shape);
    }
    let mut strides: SmallVec<[usize; 6]> = SmallVec::from_elem(1, sizes.len());
    for dim in (1..sizes.len()).rev() {
        strides[dim - 1] = strides[dim] * sizes[dim] as usize;
    }
    // The size of each dimension of the result, and its stride in the source.
    let loops: Vec<(usize, usize)> = order
        .iter()
        .map(|&dim| (sizes[dim] as usize, strides[dim]))
        .collect();
    let mut result = Literal::zeros(&shape)?;
    let width = literal.element_type().storage_bytes();
    let (from, to) = (literal.bytes(), result.bytes_mut());
    match width {
        1 => gather::<1>(from, to, &loops),
        2 => gather::<2>(from, to, &loops),
        4 => gather::<4>(from, to, &loops),
        8 => gather::<8>(from, to, &loops),
        _ => gather::<16>(from, to, &loops),
    }
    Ok(result)
}

/// Fills `to` element by element. `loops` are the dimensions of `to`, each with its size and its
/// stride in `from`, in elements of `W` bytes.
fn gather<const W: usize>(from: &[u8], to: &mut [u8], loops: &[(usize, usize)]) {
    let (from, _) = from.as_chunks::<W>();
    let (to, _) = to.as_chunks_mut::<W>();
    // The dimension along which the source is contiguous, and that of the result: a tile along both
    // is moved while it is in the cache.
    let across = loops
        .iter()
        .rposition(|&(size, stride)| stride == 1 && size > 1);
    let (Some(across), Some(last)) = (across, loops.len().checked_sub(1)) else {
        return;
    };
    let mut own = vec![1; loops.len()];
    for dim in (1..loops.len()).rev() {
        own[dim - 1] = own[dim] * loops[dim].0;
    }
    let (columns, column_stride) = loops[last];
    let (rows, row_stride, own_row) = if across == last {
        (1, 0, 0)
    } else {
        (loops[across].0, loops[across].1, own[across])
    };
    let outer: Vec<usize> = (0..last).filter(|&dim| dim != across).collect();
    let mut at = vec![0usize; outer.len()];
    loop {
        let place = |strides: &dyn Fn(usize) -> usize| -> usize {
            let parts = outer.iter().zip(&at);
            parts.map(|(&dim, &index)| index * strides(dim)).sum()
        };
        let (source, target) = (place(&|dim| loops[dim].1), place(&|dim| own[dim]));
        for row in (0..rows).step_by(TILE) {
            for column in (0..columns).step_by(TILE) {
                for r in row..rows.min(row + TILE) {
                    let source = source + r * row_stride;
                    let target = target + r * own_row;
                    for c in column..columns.min(column + TILE) {
                        to[target + c] = from[source + c * column_stride];
                    }
                }
            }
        }
        // Advances the index of the other dimensions.
        let next = outer.iter().zip(&mut at).rev().find_map(|(&dim, index)| {
            *index += 1;
            if *index < loops[dim].0 {
                return Some(());
            }
            *index = 0;
            None
        });
        if next.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_ir::ElementType;
    /// The definition, element by element.
    fn by_hand(literal: &Literal, order: &[usize]) -> Vec<u8> {
        let sizes = literal.shape().static_dims().unwrap();
        let shape = in_order(literal.shape(), order);
        let own = shape.static_dims().unwrap();
        let width = literal.element_type().storage_bytes();
        let mut bytes = Vec::new();
        for mut element in 0..literal.len() {
            let mut index = vec![0; sizes.len()];
            for k in (0..own.len()).rev() {
                index[order[k]] = element % own[k] as usize;
                element /= own[k] as usize;
            }
            let places = index.iter().zip(&sizes);
            let at = places.fold(0, |at, (&i, &size)| at * size as usize + i);
            bytes.extend_from_slice(&literal.bytes()[at * width..][..width]);
        }
        bytes
    }

    #[test]
    fn literals_are_permuted() {
        let types = [
            ElementType::S8,
            ElementType::BF16,
            ElementType::F32,
            ElementType::F64,
            ElementType::C128,
        ];
        let cases: &[(&[i64], &[usize])] = &[
            (&[3, 5], &[1, 0]),
            (&[70, 45], &[1, 0]),
            (&[4, 33, 65], &[0, 2, 1]),
            (&[4, 33, 65], &[2, 0, 1]),
            (&[2, 3, 4, 5], &[3, 1, 0, 2]),
            (&[2, 3, 4, 5], &[1, 0, 2, 3]),
            (&[1, 7, 1, 3], &[2, 3, 0, 1]),
            (&[0, 7], &[1, 0]),
            (&[5], &[0]),
            (&[], &[]),
        ];
        for (sizes, order) in cases {
            for ty in types {
                let mut literal = Literal::zeros(&ArrayShape::new(ty, sizes)).unwrap();
                let bytes = literal.bytes_mut().iter_mut().enumerate();
                bytes.for_each(|(i, byte)| *byte = (i * 37 % 251) as u8);
                let result = permuted(&literal, order).unwrap();
                assert_eq!(
                    result.bytes(),
                    by_hand(&literal, order),
                    "{sizes:?} {order:?}"
                );
                assert_eq!(permuted(&result, &inverse(order)).unwrap(), literal);
            }
        }
        let literal = Literal::zeros(&ArrayShape::new(ElementType::F32, &[2, 3])).unwrap();
        for wrong in [&[0][..], &[0, 0], &[0, 2]] {
            assert!(permuted(&literal, wrong).is_err());
        }
    }
}
