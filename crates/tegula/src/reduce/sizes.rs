//! Changes sizes in a program: replaces some sizes wherever they occur, and recomputes the sizes
//! that depend on them.
//!
//! All dimensions of the same size change together, in shapes, constants and attributes. If an
//! operation's result then has a different size (such as a concatenation of smaller arrays), that
//! size is replaced everywhere, too, until nothing changes. The verifier decides whether the
//! resulting program is valid.

use std::collections::BTreeMap;
use tegula_expr::numbers;
use tegula_ir::{
    ArrayShape, ConvDims, Dim, InstructionId, Literal, Module, Op, Shape, WindowDim, infer_shape,
};

/// A map from old sizes to new ones.
pub(super) type Sizes = BTreeMap<i64, i64>;

/// The maximum number of sizes that are replaced because they depend on others.
const MAX_ROUNDS: usize = 64;

/// The static sizes of a program above 1, the largest first.
pub(super) fn sizes_of(module: &Module) -> Vec<i64> {
    let mut sizes = Vec::new();
    for instruction in module.instructions.values() {
        for leaf in tegula_fusion::array_leaves(&instruction.shape) {
            let known = leaf.dims.iter().filter_map(Dim::as_static);
            sizes.extend(known.filter(|&size| size > 1));
        }
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    sizes
}

/// The program with sizes replaced; `None` if that fails.
pub(super) fn resized(module: &Module, sizes: &Sizes) -> Option<Module> {
    let mut sizes = sizes.clone();
    for _ in 0..MAX_ROUNDS {
        match attempt(module, &sizes)? {
            Attempt::Done(module) => return Some(*module),
            Attempt::Follows(from, to) => sizes.insert(from, to),
        };
    }
    None
}

enum Attempt {
    Done(Box<Module>),
    /// Another size must be replaced as well: the old and the new one.
    Follows(i64, i64),
}

fn attempt(module: &Module, sizes: &Sizes) -> Option<Attempt> {
    let mut out = module.clone();
    for computation in module.computations.values() {
        for &id in &computation.instructions {
            out.instructions[id].op = op_of(module, &out, id, sizes);
            let shape = shape_of(module, &out, id, sizes)?;
            if let Some((from, to)) = follows(&module[id].shape, &shape, sizes) {
                return Some(Attempt::Follows(from, to));
            }
            out.instructions[id].shape = shape;
        }
    }
    Some(Attempt::Done(Box::new(out)))
}

fn replaced(size: i64, sizes: &Sizes) -> i64 {
    sizes.get(&size).copied().unwrap_or(size)
}

/// The first size that has changed without being in the map, with its new value.
fn follows(before: &Shape, after: &Shape, sizes: &Sizes) -> Option<(i64, i64)> {
    let before = tegula_fusion::array_leaves(before);
    let after = tegula_fusion::array_leaves(after);
    let pairs = before.iter().zip(&after);
    let mut dims = pairs.flat_map(|(b, a)| b.dims.iter().zip(&a.dims));
    dims.find_map(|(before, after)| {
        let (before, after) = (before.as_static()?, after.as_static()?);
        let new = before != after && before > 1 && !sizes.contains_key(&before);
        new.then_some((before, after))
    })
}

fn array_with(array: &ArrayShape, sizes: &Sizes) -> ArrayShape {
    let mut array = array.clone();
    for dim in &mut array.dims {
        if let Dim::Static(size) = dim {
            *size = replaced(*size, sizes);
        }
    }
    array
}

fn shape_with(shape: &Shape, sizes: &Sizes) -> Shape {
    match shape {
        Shape::Array(array) => Shape::Array(array_with(array, sizes)),
        Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(|p| shape_with(p, sizes)).collect()),
        Shape::Buffer(inner) => Shape::Buffer(Box::new(shape_with(inner, sizes))),
        other => other.clone(),
    }
}

/// The sizes of an operand; empty if it is not an array of known sizes.
fn operand_dims(module: &Module, id: InstructionId, operand: usize) -> Vec<i64> {
    let array = module.operand_shape(id, operand).and_then(Shape::as_array);
    let dims = array.and_then(ArrayShape::static_dims);
    dims.map(|dims| dims.to_vec()).unwrap_or_default()
}

/// The shape of an instruction, inferred from its operation and operands in `out`.
fn shape_of(module: &Module, out: &Module, id: InstructionId, sizes: &Sizes) -> Option<Shape> {
    let mut stated = shape_with(&module[id].shape, sizes);
    match (&out[id].op, &mut stated) {
        (Op::Constant(literals), _) => {
            if let ([literal], Shape::Array(array)) = (&literals[..], &mut stated) {
                array.dims.clone_from(&literal.shape().dims);
            }
            return Some(stated);
        }
        (Op::Broadcast(dimensions), Shape::Array(array)) => {
            let operand = operand_dims(out, id, 0);
            for (&dimension, &size) in dimensions.iter().zip(&operand) {
                *array.dims.get_mut(usize::try_from(dimension).ok()?)? = Dim::Static(size);
            }
        }
        (Op::Reshape | Op::Bitcast, Shape::Array(array)) => {
            fit_elements(array, &operand_dims(out, id, 0), sizes);
        }
        _ => {}
    }
    let operands: Vec<&Shape> = out[id].operands.iter().map(|&o| &out[o].shape).collect();
    let inferred = infer_shape(out, &out[id].op, &operands, Some(&stated)).ok()?;
    Some(with_layouts(inferred, &stated))
}

/// The inferred shape with the stated layouts, which do not depend on sizes.
fn with_layouts(inferred: Shape, stated: &Shape) -> Shape {
    match (inferred, stated) {
        (Shape::Array(mut array), Shape::Array(stated)) => {
            array.layout.clone_from(&stated.layout);
            Shape::Array(array)
        }
        (Shape::Tuple(parts), Shape::Tuple(stated)) => {
            let pairs = parts.into_iter().zip(stated.iter());
            Shape::Tuple(pairs.map(|(part, s)| with_layouts(part, s)).collect())
        }
        (inferred, _) => inferred,
    }
}

/// Changes one dimension of a reshape so that the number of elements is unchanged, preferably a
/// dimension that was not replaced.
fn fit_elements(array: &mut ArrayShape, operand: &[i64], sizes: &Sizes) {
    let Some(dims) = array.static_dims().map(|dims| dims.to_vec()) else {
        return;
    };
    let product = |dims: &[i64]| dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d));
    let (Some(wanted), Some(given)) = (product(operand), product(&dims)) else {
        return;
    };
    if operand.is_empty() && wanted != given {
        array.dims.iter_mut().for_each(|d| *d = Dim::Static(1));
        return;
    }
    if wanted == given || given == 0 {
        return;
    }
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.sort_by_key(|&i| (sizes.values().any(|&to| to == dims[i]), -dims[i]));
    for i in order {
        let others = given / dims[i];
        if wanted % others == 0 {
            array.dims[i] = Dim::Static(wanted / others);
            return;
        }
    }
}

/// An instruction's operation, with sizes replaced in its attributes.
fn op_of(module: &Module, out: &Module, id: InstructionId, sizes: &Sizes) -> Op {
    let mut op = module[id].op.clone();
    let dims = operand_dims(out, id, 0);
    match &mut op {
        Op::Constant(literals) => {
            let smaller = literals.iter().map(|l| cropped(l, sizes));
            if let Some(smaller) = smaller.collect::<Option<Vec<_>>>() {
                *literals = smaller.into();
            }
        }
        Op::Slice(slices) => {
            for (slice, &size) in slices.iter_mut().zip(&dims) {
                slice.limit = replaced(slice.limit, sizes).min(size);
                slice.start = slice.start.min((slice.limit - 1).max(0));
            }
        }
        Op::DynamicSlice(lengths)
        | Op::Gather {
            slice_sizes: lengths,
            ..
        } => {
            for (length, &size) in lengths.iter_mut().zip(&dims) {
                *length = replaced(*length, sizes).min(size);
            }
        }
        Op::ReduceWindow { window, .. } | Op::SelectAndScatter { window, .. } => {
            fit_window(window, &dims, sizes);
        }
        Op::Convolution {
            window,
            dims,
            feature_group_count,
            batch_group_count,
            ..
        } => {
            fit_kernel(window, dims, &operand_dims(out, id, 1));
            *feature_group_count = replaced_count(*feature_group_count, sizes);
            *batch_group_count = replaced_count(*batch_group_count, sizes);
        }
        Op::TopK { k, .. } => {
            *k = replaced(*k, sizes).min(dims.last().copied().unwrap_or(*k));
        }
        Op::Fft { length, .. } => {
            for size in length.iter_mut() {
                *size = replaced(*size, sizes);
            }
        }
        _ => {}
    }
    op
}

/// A number of groups, replaced unless it is 1, which means no groups.
fn replaced_count(count: i64, sizes: &Sizes) -> i64 {
    if count > 1 {
        replaced(count, sizes)
    } else {
        count
    }
}

/// Limits a window to the size of its base.
fn fit_window(window: &mut [WindowDim], dims: &[i64], sizes: &Sizes) {
    for (w, &size) in window.iter_mut().zip(dims) {
        let room = w.sizes(&mut numbers(), &Ok(size)).padded.unwrap_or(1);
        resize(w, replaced(w.size, sizes).min(room.max(1)));
    }
}

/// Makes a convolution's window as large as its kernel.
fn fit_kernel(window: &mut [WindowDim], dims: &ConvDims, kernel: &[i64]) {
    for (w, &dimension) in window.iter_mut().zip(&dims.kernel_spatial) {
        let size = usize::try_from(dimension).ok().and_then(|d| kernel.get(d));
        resize(w, size.copied().unwrap_or(w.size));
    }
}

/// Changes the size of a window; a smaller window needs less padding.
fn resize(window: &mut WindowDim, size: i64) {
    if size < window.size {
        let smaller = WindowDim { size, ..*window };
        let extent = smaller.sizes(&mut numbers(), &Ok(0)).extent;
        let reach = extent.map_or(0, |extent| (extent - 1).max(0));
        window.padding_low = window.padding_low.min(reach);
        window.padding_high = window.padding_high.min(reach);
    }
    window.size = size;
}

/// A constant cropped to its first elements in each dimension.
fn cropped(literal: &Literal, sizes: &Sizes) -> Option<Literal> {
    let from = literal.shape().static_dims()?;
    let shape = array_with(literal.shape(), sizes);
    let to = shape.static_dims()?;
    if from.iter().zip(&to).any(|(from, to)| to > from) {
        return None;
    }
    let size = literal.element_type().storage_bytes();
    let mut bytes = Vec::new();
    let mut index = vec![0; to.len()];
    for _ in 0..shape.element_count()? {
        let place = index.iter().zip(&from).fold(0, |at, (i, n)| at * n + i);
        let start = usize::try_from(place).ok()? * size;
        bytes.extend_from_slice(literal.bytes().get(start..start + size)?);
        for (i, &n) in index.iter_mut().zip(&to).rev() {
            *i += 1;
            if *i < n {
                break;
            }
            *i = 0;
        }
    }
    Literal::from_bytes(&shape, &bytes).ok()
}
