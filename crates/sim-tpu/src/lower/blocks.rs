//! Cutting a kernel along dimensions of its result: which dimensions of its operands
//! follow, how large a block may be, and the kernel's operations on one block.
//!
//! A dimension can be cut if every operation from the result back to the operands
//! treats its elements alike and independently: such a dimension of an operation's
//! result is the same dimension of its operands, or none of theirs. Walking backwards
//! from the result finds which dimension each value's dimensions follow; where two users
//! of a value disagree, or an operation needs all of a dimension, the result's dimension
//! cannot be cut.

use rustc_hash::FxHashMap;
use tegula_ir::{
    ArrayShape, ConvDims, DotDims, GatherDims, Instruction, InstructionId, Literal, Module,
    ModuleBuilder, Op, Shape, SliceDim, TileDim,
};

/// How an array is cut along one of its dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It is not.
    Whole,
    /// Into blocks of this size, which follow a dimension of the result.
    Follows {
        /// The result's dimension.
        dim: usize,
        /// Elements of a block.
        size: i64,
    },
}

/// A kernel in blocks.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// The kernel on one block.
    pub module: Module,
    /// For each dimension of the result: how many blocks.
    pub counts: Vec<i64>,
    /// For each parameter and then the result, by dimension.
    pub cuts: Vec<Vec<Cut>>,
    /// For how many blocks of an array that moves there is room.
    pub copies: i64,
}

/// For each dimension of a value the dimension of the result that it follows.
type Follows = Vec<Option<usize>>;

impl Blocks {
    /// Cuts a kernel so that what is `staged` (by parameter, then the result) fits in
    /// `limit` bytes, if possible twice where it moves from block to block.
    ///
    /// # Errors
    /// The bytes that the smallest blocks need.
    pub(super) fn of(
        module: &Module,
        staged: &[bool],
        limit: i64,
        bytes: &dyn Fn(&ArrayShape) -> i64,
    ) -> Result<Self, i64> {
        let entry = module.entry_computation();
        let Some(result) = module[entry.root].shape.as_array() else {
            return Err(i64::MAX);
        };
        let extents: Vec<i64> = result.static_dims().ok_or(i64::MAX)?.to_vec();
        let mut cut: Vec<usize> = (0..extents.len()).collect();
        cut.retain(|&dim| follow(module, &[dim]).is_some());
        // Together they may still disagree: the later ones give way.
        while follow(module, &cut).is_none() && cut.pop().is_some() {}
        let follows = follow(module, &cut).ok_or(i64::MAX)?;
        let arrays: Vec<InstructionId> = entry
            .parameters
            .iter()
            .copied()
            .chain([entry.root])
            .collect();
        let mut search = Search {
            module,
            arrays: &arrays,
            follows: &follows,
            staged,
            extents: &extents,
            copies: 2,
            bytes,
        };
        // Without room for two blocks of each array there may be room for one.
        let sizes = search.sizes(&cut, limit).or_else(|_| {
            search.copies = 1;
            search.sizes(&cut, limit)
        })?;
        let counts = extents.iter().zip(&sizes);
        let counts = counts.map(|(&extent, &size)| (extent + size - 1) / size.max(1));
        let cuts = arrays.iter().map(|id| search.cuts(*id, &sizes)).collect();
        let counts = counts.collect();
        let module = on_block(module, &follows, &sizes, &extents).ok_or(i64::MAX)?;
        Ok(Self {
            module,
            counts,
            cuts,
            copies: search.copies,
        })
    }
}

/// The search for the sizes of blocks.
struct Search<'a> {
    module: &'a Module,
    arrays: &'a [InstructionId],
    follows: &'a FxHashMap<InstructionId, Follows>,
    staged: &'a [bool],
    extents: &'a [i64],
    copies: i64,
    bytes: &'a dyn Fn(&ArrayShape) -> i64,
}

impl Search<'_> {
    /// Halves the block along the dimension that saves most until it fits.
    fn sizes(&self, cut: &[usize], limit: i64) -> Result<Vec<i64>, i64> {
        let mut sizes = self.extents.to_vec();
        loop {
            let needed = self.needed(&sizes);
            if needed <= limit {
                return Ok(sizes);
            }
            let smaller = |&dim: &usize| {
                let mut next = sizes.clone();
                next[dim] = self.smaller(dim, sizes[dim])?;
                Some((self.needed(&next), next))
            };
            let best = cut.iter().filter_map(smaller).min();
            match best {
                Some((fewer, next)) if fewer <= needed => sizes = next,
                _ => return Err(needed),
            }
        }
    }

    /// The next smaller block along a dimension: about half, whole tiles of the arrays
    /// that follow it. Where an array that stays in VMEM is cut, its blocks are all of
    /// one size.
    fn smaller(&self, dim: usize, size: i64) -> Option<i64> {
        let mut granule = 1;
        let mut exact = false;
        for (at, id) in self.arrays.iter().enumerate() {
            let Some(shape) = self.module[*id].shape.as_array() else {
                continue;
            };
            let own = self.follows.get(id)?;
            for (own_dim, follows) in own.iter().enumerate() {
                if *follows == Some(dim) {
                    granule = granule.max(tile_of(shape, own_dim));
                    exact |= !self.staged.get(at).copied().unwrap_or(true);
                }
            }
        }
        let extent = self.extents[dim];
        let mut next = (size / 2 / granule) * granule;
        if size <= granule || next == 0 {
            next = if size > granule { granule } else { return None };
        }
        while exact && next > 0 && extent % next != 0 {
            next -= granule;
        }
        (next > 0 && next < size).then_some(next)
    }

    fn needed(&self, sizes: &[i64]) -> i64 {
        let mut total = 0_i64;
        for (at, id) in self.arrays.iter().enumerate() {
            if !self.staged.get(at).copied().unwrap_or(true) {
                continue;
            }
            let Some(shape) = self.module[*id].shape.as_array() else {
                return i64::MAX;
            };
            let mut block = shape.clone();
            let mut moves = false;
            for (dim, cut) in block.dims.iter_mut().zip(self.cuts(*id, sizes)) {
                if let Cut::Follows { size, dim: of } = cut {
                    moves |= size < self.extents[of];
                    *dim = size.into();
                }
            }
            let copies = if moves { self.copies } else { 1 };
            total = total.saturating_add(copies * (self.bytes)(&block));
        }
        total
    }

    fn cuts(&self, id: InstructionId, sizes: &[i64]) -> Vec<Cut> {
        let follows = self.follows.get(&id).cloned().unwrap_or_default();
        let cut = |follows: &Option<usize>| match *follows {
            Some(dim) if sizes[dim] < self.extents[dim] => Cut::Follows {
                dim,
                size: sizes[dim],
            },
            _ => Cut::Whole,
        };
        follows.iter().map(cut).collect()
    }
}

/// Elements of a tile along a dimension.
fn tile_of(shape: &ArrayShape, dim: usize) -> i64 {
    let Some(layout) = &shape.layout else {
        return 1;
    };
    let position = layout
        .minor_to_major
        .iter()
        .position(|&minor| minor as usize == dim);
    let tile = layout.tiles.first();
    let (Some(position), Some(tile)) = (position, tile) else {
        return 1;
    };
    let sizes = tile.dims.len();
    let at = sizes.checked_sub(1 + position);
    match at.and_then(|at| tile.dims.get(at)) {
        Some(TileDim::Size(size)) => *size,
        _ => 1,
    }
}

/// Which dimensions follow those of the result that are cut; `None` if one of them
/// cannot be.
fn follow(module: &Module, cut: &[usize]) -> Option<FxHashMap<InstructionId, Follows>> {
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
        if own.iter().all(Option::is_none) {
            // All of it is computed at every block, from all of its operands.
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

/// Notes how a value is cut; `None` if another user needs it otherwise. Constants and
/// what has one element may be made for each user alike.
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

/// How the operands of an instruction are cut if its result is cut so.
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
            // Scalars beside arrays are whole.
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
            // What is cut must be taken whole.
            let operand = shapes.first()?.static_dims()?;
            for ((follows, slice), &size) in own.iter().zip(slices).zip(&operand) {
                let all = slice.start == 0 && slice.stride == 1 && slice.limit == size;
                if follows.is_some() && !all {
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
            let mut rest = own.iter().copied();
            let arrays = shapes.len() / 2;
            let rank = shapes.first()?.dims.len();
            let one: Option<Follows> = (0..rank as i64)
                .map(|dim| match dimensions.contains(&dim) {
                    true => Some(None),
                    false => rest.next(),
                })
                .collect();
            let one = one?;
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

/// A dimension that a reshape keeps: as many elements before it and as large.
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

/// What a gather takes whole can be cut, and so can what it is indexed by.
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
    let (mut left, mut right) = (vec![None; sizes.len()], vec![None; indices.dims.len()]);
    let kept = (0..sizes.len()).filter(|&dim| is_kept(dims, dim));
    for (dim, &offset) in kept.zip(&dims.offset_dims) {
        let follows = *own.get(usize::try_from(offset).ok()?)?;
        if follows.is_some() && slice_sizes.get(dim) != sizes.get(dim) {
            return None;
        }
        *left.get_mut(dim)? = follows;
    }
    let mut places = (0..right.len()).filter(|&dim| dim as i64 != dims.index_vector_dim);
    for (dim, follows) in own.iter().enumerate() {
        if dims.offset_dims.contains(&(dim as i64)) {
            continue;
        }
        let place = places.next()?;
        let batched = dims.start_indices_batching_dims.contains(&(place as i64));
        if follows.is_some() && batched {
            return None;
        }
        *right.get_mut(place)? = *follows;
    }
    Some(vec![left, right])
}

/// Whether a dimension of a gather's operand is one of the result.
fn is_kept(dims: &GatherDims, dim: usize) -> bool {
    let dim = dim as i64;
    !dims.collapsed_slice_dims.contains(&dim) && !dims.operand_batching_dims.contains(&dim)
}

fn of_dot(shapes: &[&ArrayShape], dims: &DotDims, own: &Follows) -> Option<Vec<Follows>> {
    let [lhs, rhs] = shapes else { return None };
    let mut at = 0;
    let mut next = || {
        at += 1;
        own.get(at - 1).copied()
    };
    let (mut left, mut right) = (vec![None; lhs.dims.len()], vec![None; rhs.dims.len()]);
    for (&l, &r) in dims.lhs_batch.iter().zip(&dims.rhs_batch) {
        let follows = next()?;
        *left.get_mut(usize::try_from(l).ok()?)? = follows;
        *right.get_mut(usize::try_from(r).ok()?)? = follows;
    }
    for (dim, place) in left.iter_mut().enumerate() {
        let dim = dim as i64;
        if !dims.lhs_batch.contains(&dim) && !dims.lhs_contracting.contains(&dim) {
            *place = next()?;
        }
    }
    for (dim, place) in right.iter_mut().enumerate() {
        let dim = dim as i64;
        if !dims.rhs_batch.contains(&dim) && !dims.rhs_contracting.contains(&dim) {
            *place = next()?;
        }
    }
    Some(vec![left, right])
}

/// Batches and output features can be cut; positions overlap and cannot.
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

/// The kernel's operations on one block.
fn on_block(
    module: &Module,
    follows: &FxHashMap<InstructionId, Follows>,
    sizes: &[i64],
    extents: &[i64],
) -> Option<Module> {
    let entry = module.entry_computation().clone();
    let instructions: Vec<(InstructionId, Instruction)> = entry
        .instructions
        .iter()
        .map(|&id| (id, module[id].clone()))
        .collect();
    let mut builder = ModuleBuilder::extend(module.clone());
    let mut new = builder.computation("block");
    let mut made: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    let block = |id: InstructionId, shape: &Shape| {
        let mut shape = shape.clone();
        if let (Shape::Array(array), Some(follows)) = (&mut shape, follows.get(&id)) {
            for (dim, follows) in array.dims.iter_mut().zip(follows) {
                if let Some(of) = follows
                    && sizes[*of] < extents[*of]
                {
                    *dim = sizes[*of].into();
                }
            }
        }
        shape
    };
    for &parameter in &entry.parameters {
        let shape = block(parameter, &module[parameter].shape);
        made.insert(
            parameter,
            new.named_parameter(&module[parameter].name, shape),
        );
    }
    for (id, instruction) in instructions {
        if made.contains_key(&id) || !follows.contains_key(&id) {
            continue;
        }
        let shape = block(id, &instruction.shape);
        let op = op_on_block(&instruction.op, &shape)?;
        let operands: Option<Vec<InstructionId>> = instruction
            .operands
            .iter()
            .map(|id| made.get(id).copied())
            .collect();
        let name = Some(&*instruction.name);
        made.insert(id, new.push_named(name, op, &operands?, Some(shape)).ok()?);
    }
    let entry = new.finish(*made.get(&entry.root)?).ok()?;
    Some(builder.build_unverified(entry))
}

/// An operation whose attributes say how large its result is.
fn op_on_block(op: &Op, shape: &Shape) -> Option<Op> {
    let dims = shape.as_array()?.static_dims()?;
    Some(match op {
        Op::Slice(slices) => {
            let cut = |(slice, &size): (&SliceDim, &i64)| SliceDim {
                limit: slice.limit.min(slice.start + (size - 1) * slice.stride + 1),
                ..*slice
            };
            Op::Slice(slices.iter().zip(&dims).map(cut).collect())
        }
        Op::Gather {
            dims: roles,
            slice_sizes,
            indices_are_sorted,
        } => {
            let mut slice_sizes = slice_sizes.clone();
            let kept = (0..slice_sizes.len()).filter(|&dim| is_kept(roles, dim));
            let kept: Vec<usize> = kept.collect();
            for (dim, &offset) in kept.into_iter().zip(&roles.offset_dims) {
                *slice_sizes.get_mut(dim)? = *dims.get(usize::try_from(offset).ok()?)?;
            }
            Op::Gather {
                dims: roles.clone(),
                slice_sizes,
                indices_are_sorted: *indices_are_sorted,
            }
        }
        Op::Constant(literals) => {
            let literal = literals.first()?;
            let whole = literal.shape().static_dims()?;
            if whole == dims {
                op.clone()
            } else {
                let one = literal.uniform_element()?;
                let count = usize::try_from(dims.iter().product::<i64>()).ok()?;
                let shape = ArrayShape::new(literal.element_type(), &dims);
                let literal = Literal::from_bytes(&shape, &one.repeat(count)).ok()?;
                Op::Constant([literal].into())
            }
        }
        _ => op.clone(),
    })
}
