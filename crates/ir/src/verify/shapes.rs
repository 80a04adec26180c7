//! Checks of single sizes and layouts.

use crate::{ArrayShape, Dim, Error, Layout, Module, Shape, TileDim};
use smallvec::SmallVec;
use tegula_expr::Var;

/// Checks the sizes and layouts of a shape.
pub(super) fn check(module: &Module, shape: &Shape) -> Result<(), Error> {
    match shape {
        Shape::Array(array) => check_array(module, array),
        Shape::Tuple(elements) => elements
            .iter()
            .try_for_each(|element| check(module, element)),
        Shape::Buffer(inner) => check(module, inner),
        Shape::Token | Shape::Opaque => Ok(()),
    }
}

fn check_array(module: &Module, array: &ArrayShape) -> Result<(), Error> {
    let mut buffer: SmallVec<[i64; 6]> = SmallVec::new();
    for dim in &array.dims {
        buffer.push(match dim {
            Dim::Static(size) | Dim::Bounded { bound: size, .. } => *size,
            Dim::Symbolic(_) => 1,
        });
        if let Dim::Bounded { bound, size } = dim
            && let Some(size) = size.as_constant()
            && !(0..=*bound).contains(&size)
        {
            return Err(Error::input(format!(
                "a dimension of at most {bound} cannot have size {size}"
            )));
        }
        if let Dim::Symbolic(term) | Dim::Bounded { size: term, .. } = dim {
            let mut unknown = None;
            term.for_each_var(&mut |Var(number)| {
                if number as usize >= module.symbols.len() {
                    unknown = Some(number);
                }
            });
            if let Some(number) = unknown {
                return Err(Error::input(format!(
                    "a size uses symbol {number}, which the module does not have"
                )));
            }
        }
    }
    if let Some(size) = buffer.iter().find(|&&size| size < 0) {
        return Err(Error::input(format!("a dimension cannot have size {size}")));
    }
    let plain = Layout::default();
    let layout = array.layout.as_deref().unwrap_or(&plain);
    if array.layout.is_some() {
        check_layout(layout, array)?;
    }
    match padded_bytes(array, &buffer, layout) {
        Some(_) => Ok(()),
        None => Err(Error::limit(format!(
            "the bytes of {array} do not fit into 64 bits"
        ))),
    }
}

/// Checks a layout against its array.
fn check_layout(layout: &Layout, array: &ArrayShape) -> Result<(), Error> {
    let rank = array.rank();
    let mut seen: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rank);
    let order = &layout.minor_to_major;
    let all = order.len() == rank
        && order.iter().all(|&dim| match seen.get_mut(dim as usize) {
            Some(seen) => !std::mem::replace(seen, true),
            None => false,
        });
    if !all {
        return Err(Error::input(format!(
            "{layout} is not a layout of {rank} dimensions"
        )));
    }
    let sizes = layout.tiles.iter().flat_map(|tile| &tile.dims);
    let zero_tile = sizes
        .into_iter()
        .any(|dim| matches!(dim, TileDim::Size(size) if *size < 1));
    let numbers = [
        layout.tail_padding,
        layout.element_bits,
        layout.memory_space,
        layout.metadata_prefix,
    ];
    if zero_tile || numbers.iter().any(|&number| number < 0) {
        return Err(Error::input(format!("{layout} has a number out of range")));
    }
    for split in &layout.splits {
        let physical = usize::try_from(split.dimension).ok();
        let logical = physical.and_then(|place| order.iter().rev().nth(place));
        let dim = logical.and_then(|&dim| array.dims.get(dim as usize));
        let limit = match dim {
            Some(Dim::Static(size) | Dim::Bounded { bound: size, .. }) => *size,
            Some(Dim::Symbolic(_)) => i64::MAX,
            None => 0,
        };
        let inside = split
            .indices
            .iter()
            .all(|&index| index > 0 && index < limit);
        if !inside || !split.indices.is_sorted_by(|a, b| a < b) {
            return Err(Error::input(format!(
                "{layout} splits outside its dimensions"
            )));
        }
    }
    Ok(())
}

/// An upper bound on the bytes with tile padding, if it fits an `i64`: each tile level rounds every
/// dimension up to its size at most.
fn padded_bytes(array: &ArrayShape, sizes: &[i64], layout: &Layout) -> Option<i64> {
    let mut bytes = sizes.iter().try_fold(
        array.element_type.storage_bytes() as i64,
        |product, &size| product.checked_mul(size),
    )?;
    if bytes == 0 {
        return Some(0);
    }
    for dim in layout.tiles.iter().flat_map(|tile| &tile.dims) {
        if let TileDim::Size(size) = dim {
            bytes = bytes.checked_mul(*size)?;
        }
    }
    bytes.checked_mul(layout.tail_padding.max(1))
}
