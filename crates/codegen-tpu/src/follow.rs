//! Determines which dimensions of a kernel's values correspond to which dimension of its result.
//!
//! A dimension can be divided into blocks if every operation from the result back to the operands
//! treats its elements uniformly and independently, so that a dimension of an operation's result
//! corresponds to one dimension of each operand, or to none. Walking backwards from the result
//! finds the correspondence for each value. If two users of a value disagree, or if an operation
//! needs a whole dimension at once, the result's dimension cannot be divided.

use rustc_hash::FxHashMap;
use tegula_ir::helpers::{DotDim, kept_dimensions};
use tegula_ir::{
    ArrayShape, ConvDims, DotDims, GatherDims, Instruction, InstructionId, Module, Op,
};

/// For each dimension of a value, the dimension of the result that it corresponds to.
pub(super) type Follows = Vec<Option<usize>>;

/// The dimensions that correspond to those of the result in `cut`; `None` if one of these cannot be
/// divided. If a product is given, the dimension that it sums over is divided too, and is numbered
/// after the result's.
pub(super) fn follow(
    module: &Module,
    cut: &[usize],
    product: Option<InstructionId>,
) -> Option<FxHashMap<InstructionId, Follows>> {
    let entry = module.entry_computation();
    let rank = module[entry.root].shape.as_array()?.dims.len();
    let mut all: FxHashMap<InstructionId, Follows> = FxHashMap::default();
    let own = (0..rank).map(|dim| cut.contains(&dim).then_some(dim));
    all.insert(entry.root, own.collect());
    for &id in entry.instructions.iter().rev() {
        let instruction = &module[id];
        let Some(own) = all.get(&id).cloned() else {
            continue;
        };
        if product == Some(id) {
            let operands = of_product(module, instruction, &own, rank)?;
            for (&operand, follows) in instruction.operands.iter().zip(operands) {
                agree(&mut all, operand, follows)?;
            }
            continue;
        }
        if own.iter().all(Option::is_none) {
            // It is computed completely for every block, from its complete operands.
            for &operand in &instruction.operands {
                let rank = module[operand].shape.as_array()?.dims.len();
                agree(&mut all, operand, vec![None; rank])?;
            }
            continue;
        }
        let operands = of_operands(module, instruction, &own)?;
        for (&operand, follows) in instruction.operands.iter().zip(operands) {
            agree(&mut all, operand, follows)?;
        }
    }
    for &parameter in &entry.parameters {
        let rank = module[parameter].shape.as_array()?.dims.len();
        all.entry(parameter).or_insert_with(|| vec![None; rank]);
    }
    Some(all)
}

/// Records how a value is divided; `None` if another user needs it differently. Constants and
/// values with one element may be made separately for each user.
fn agree(
    all: &mut FxHashMap<InstructionId, Follows>,
    id: InstructionId,
    follows: Follows,
) -> Option<()> {
    match all.get(&id) {
        Some(other) if *other != follows => None,
        _ => {
            all.insert(id, follows);
            Some(())
        }
    }
}

/// How the operands of an instruction are divided if its result is divided in this way.
fn of_operands(module: &Module, instruction: &Instruction, own: &Follows) -> Option<Vec<Follows>> {
    let shapes: Option<Vec<&ArrayShape>> = instruction
        .operands
        .iter()
        .map(|&id| module[id].shape.as_array())
        .collect();
    let shapes = shapes?;
    let whole = |at: usize| vec![None; shapes.get(at).map_or(0, |shape| shape.dims.len())];
    let result = instruction.shape.as_array()?;
    match &instruction.op {
        Op::Parameter(_) => Some(Vec::new()),
        Op::Constant(literals) => literals.first()?.uniform_element().map(|_| Vec::new()),
        Op::Iota(dim) => {
            let along = usize::try_from(*dim).ok()?;
            own.get(along)?.is_none().then(Vec::new)
        }
        op if op.is_elementwise() || matches!(op, Op::Copy) => {
            // Scalar operands are not divided.
            let of = |at: usize| match shapes[at].dims.len() == own.len() {
                true => own.clone(),
                false => whole(at),
            };
            Some((0..shapes.len()).map(of).collect())
        }
        Op::Broadcast(dimensions) => {
            let of = |&dim: &i64| own.get(usize::try_from(dim).ok()?).copied();
            let follows: Option<Follows> = dimensions.iter().map(of).collect();
            Some(vec![follows?])
        }
        Op::Transpose(permutation) => {
            let mut follows = whole(0);
            for (to, &from) in permutation.iter().enumerate() {
                *follows.get_mut(usize::try_from(from).ok()?)? = *own.get(to)?;
            }
            Some(vec![follows])
        }
        Op::Reshape => Some(vec![of_reshape(shapes.first()?, result, own)?]),
        Op::Slice(slices) => {
            // Divided dimensions must not be sliced.
            let operand = shapes.first()?.static_dims()?;
            for ((follows, slice), &size) in own.iter().zip(slices).zip(&operand) {
                if follows.is_some() && !slice.is_whole(size) {
                    return None;
                }
            }
            Some(vec![own.clone()])
        }
        Op::Concatenate(dim) => {
            let dim = usize::try_from(*dim).ok()?;
            own.get(dim)?
                .is_none()
                .then(|| vec![own.clone(); shapes.len()])
        }
        Op::Reduce { dimensions, .. } => {
            let arrays = shapes.len() / 2;
            let mut one = whole(0);
            for (&dim, &follows) in kept_dimensions(dimensions, one.len()).iter().zip(own) {
                *one.get_mut(dim)? = follows;
            }
            let of = |at: usize| if at < arrays { one.clone() } else { whole(at) };
            Some((0..shapes.len()).map(of).collect())
        }
        Op::Gather {
            dims, slice_sizes, ..
        } => of_gather(&shapes, dims, slice_sizes, own),
        Op::Dot { dims, .. } => of_dot(&shapes, dims, own),
        Op::Convolution {
            dims,
            feature_group_count: 1,
            batch_group_count: 1,
            ..
        } => of_convolution(&shapes, dims, own),
        _ => None,
    }
}

/// The dimension that a reshape preserves: with the same size and as many elements before it.
fn of_reshape(operand: &ArrayShape, result: &ArrayShape, own: &Follows) -> Option<Follows> {
    let (from, to) = (operand.static_dims()?, result.static_dims()?);
    let mut follows = vec![None; from.len()];
    for (dim, wanted) in own
        .iter()
        .enumerate()
        .filter(|(_, follows)| follows.is_some())
    {
        let before: i64 = to[..dim].iter().product();
        let mut product = 1;
        let place = (0..from.len()).find(|&at| {
            let found = product == before && from[at] == to[dim] && to[dim] > 1;
            product *= from[at];
            found
        })?;
        follows[place] = *wanted;
    }
    Some(follows)
}

/// Dimensions that a gather takes completely can be divided, and so can those of its indices.
fn of_gather(
    shapes: &[&ArrayShape],
    dims: &GatherDims,
    slice_sizes: &[i64],
    own: &Follows,
) -> Option<Vec<Follows>> {
    let [operand, indices] = shapes else {
        return None;
    };
    let sizes = operand.static_dims()?;
    let roles = dims.roles([sizes.len(), indices.dims.len(), own.len()])?;
    let (mut left, mut right) = (vec![None; sizes.len()], vec![None; indices.dims.len()]);
    for (dim, role) in roles.operand.iter().enumerate() {
        if let Some(offset) = role.offset {
            let follows = *own.get(offset)?;
            if follows.is_some() && slice_sizes.get(dim) != sizes.get(dim) {
                return None;
            }
            *left.get_mut(dim)? = follows;
        }
    }
    for (number, (&place, &dim)) in roles.indices.iter().zip(&roles.batch).enumerate() {
        let follows = *own.get(dim)?;
        if follows.is_some() && roles.paired_with(number).is_some() {
            return None;
        }
        *right.get_mut(place)? = follows;
    }
    Some(vec![left, right])
}

/// A product that is also divided along the dimension that it sums over.
fn of_product(
    module: &Module,
    instruction: &Instruction,
    own: &Follows,
    depth: usize,
) -> Option<Vec<Follows>> {
    let Op::Dot { dims, .. } = &instruction.op else {
        return None;
    };
    let (&[left], &[right]) = (&dims.lhs_contracting[..], &dims.rhs_contracting[..]) else {
        return None;
    };
    let mut operands = of_operands(module, instruction, own)?;
    for (follows, dim) in operands.iter_mut().zip([left, right]) {
        *follows.get_mut(usize::try_from(dim).ok()?)? = Some(depth);
    }
    Some(operands)
}

fn of_dot(shapes: &[&ArrayShape], dims: &DotDims, own: &Follows) -> Option<Vec<Follows>> {
    let [lhs, rhs] = shapes else { return None };
    let roles = dims.roles([lhs.dims.len(), rhs.dims.len()])?;
    let of = |role: &DotDim| match role.in_result() {
        Some(place) => own.get(place).copied(),
        None => Some(None),
    };
    let sides = roles.operands.iter();
    sides.map(|dims| dims.iter().map(of).collect()).collect()
}

/// Batches and output features can be divided; spatial positions overlap, so they cannot.
fn of_convolution(shapes: &[&ArrayShape], dims: &ConvDims, own: &Follows) -> Option<Vec<Follows>> {
    let [input, kernel] = shapes else { return None };
    for &spatial in &dims.output_spatial {
        if own.get(usize::try_from(spatial).ok()?)?.is_some() {
            return None;
        }
    }
    let at = |dim: i64| own.get(usize::try_from(dim).ok()?).copied();
    let (mut left, mut right) = (vec![None; input.dims.len()], vec![None; kernel.dims.len()]);
    *left.get_mut(usize::try_from(dims.input_batch).ok()?)? = at(dims.output_batch)?;
    *right.get_mut(usize::try_from(dims.kernel_output_feature).ok()?)? = at(dims.output_feature)?;
    Some(vec![left, right])
}
