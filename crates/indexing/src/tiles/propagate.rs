//! Derives the tiles of everything that an instruction or a whole fusion reads.
//!
//! The maps from the tiling space to every value are compositions, as in
//! [`crate::fusion_output_to_input`]; but reduced dimensions are dimensions of the space rather
//! than range variables. The maps are computed once, and tiles for given or symbolic sizes are
//! derived from them.

use rustc_hash::{FxHashMap, FxHashSet};
use tegula_ir::{ComputationId, InstructionId, Module, Op};

use super::space::{DimensionKind, TilingSpace};
use super::tile::Tile;
use crate::fusion::{Sequential, space_to_values};
use crate::map::IndexingMap;
use crate::ops::{Cause, OperandIndexing, Unknown, leaf_array, output_leaf_to_input};
use crate::simplify::Simplifier;

/// The most dimensions of a space; further reduced dimensions are not tiled.
const MAX_DIMENSIONS: usize = 48;

/// The tiles of one array of one operand, one for each way in which it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandTiles {
    /// The number of the operand.
    pub operand: usize,
    /// The number of its array, counted through its tuple from the left.
    pub leaf: usize,
    /// The tiles, or the reason why nothing is known.
    pub tiles: Result<Vec<Tile>, Unknown>,
}

/// The tiles of a value inside a fusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueTiles {
    /// The fused instruction.
    pub instruction: InstructionId,
    /// The number of the array in its result.
    pub leaf: usize,
    /// The tiles, one for each way in which it is read.
    pub tiles: Result<Vec<Tile>, Unknown>,
}

/// The tiling of an instruction or a whole fusion: its space, and the maps from the space.
///
/// ```
/// use tegula_indexing::tiles::Tiling;
/// use tegula_indexing::Simplifier;
///
/// let module = tegula_ir::parse_module(
///     "HloModule m
///      ENTRY e {
///        a = f32[512,256] parameter(0)
///        b = f32[256,1024] parameter(1)
///        ROOT c = f32[512,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
///      }",
/// )?;
/// let dot = module.entry_computation().root;
/// let tiling = Tiling::of(&module, dot, 0, &mut Simplifier::new()).expect("a dot has maps");
/// // Two dimensions of the result, one that is summed over.
/// let space = tiling.space.with_sizes(&[Some(64), Some(128), Some(32)]);
/// let text: Vec<String> = tiling
///     .operands(&space)
///     .iter()
///     .flat_map(|operand| operand.tiles.iter().flatten())
///     .map(|tile| tile.display(&space).to_string())
///     .collect();
/// assert_eq!(
///     text,
///     ["[i0 * 64 + 0..64, i2 * 32 + 0..32]", "[i2 * 32 + 0..32, i1 * 128 + 0..128]"]
/// );
/// # Ok::<(), tegula_ir::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tiling {
    /// The space, with all tile sizes symbolic.
    pub space: TilingSpace,
    operands: Vec<OperandIndexing>,
    values: Vec<(InstructionId, usize, Result<Vec<IndexingMap>, Unknown>)>,
}

impl Tiling {
    /// Derives the operands' tiles from tiles of array `output` of an instruction's result. For a
    /// fusion or call, this goes through the called computation.
    ///
    /// # Errors
    /// The result is not an array.
    pub fn of(
        module: &Module,
        instruction: InstructionId,
        output: usize,
        simplifier: &mut Simplifier,
    ) -> Result<Self, Unknown> {
        let callee = match module.instructions.get(instruction).map(|data| &data.op) {
            Some(Op::Fusion { calls, .. }) => Some(*calls),
            Some(Op::Call { to_apply, .. }) => Some(*to_apply),
            _ => None,
        };
        Self::new(module, (instruction, output), callee, simplifier)
    }

    fn new(
        module: &Module,
        (instruction, output): (InstructionId, usize),
        callee: Option<ComputationId>,
        simplifier: &mut Simplifier,
    ) -> Result<Self, Unknown> {
        let unknown = |cause| Unknown { cause, instruction };
        let data = module.instructions.get(instruction);
        let data = data.ok_or_else(|| unknown(Cause::Malformed))?;
        let array = leaf_array(&data.shape, output).map_err(unknown)?;
        let mut start = crate::ops::identity_of(module, array);
        let mut space = TilingSpace::of_array(&extents(&start));
        let own = [instruction];
        let reached = match callee {
            Some(callee) => reachable(module, callee),
            None => own.to_vec(),
        };
        let sequential = sequential_dimensions(module, &reached, &mut space, &mut start);
        let start = start.ranges_as_dims();
        let found = space_to_values(
            module,
            (instruction, output),
            callee,
            &start,
            &sequential,
            simplifier,
        );
        let (operands, values) = found.map_err(unknown)?;
        Ok(Self {
            space,
            operands,
            values,
        })
    }

    /// Derives the tiles of a computation's parameters, which count as its operands, from tiles of
    /// array `output` of its result.
    ///
    /// # Errors
    /// The result is not an array.
    pub fn of_computation(
        module: &Module,
        computation: ComputationId,
        output: usize,
        simplifier: &mut Simplifier,
    ) -> Result<Self, Unknown> {
        let root = module.computations.get(computation).map(|own| own.root);
        let root = root.unwrap_or(InstructionId::from_u32(0));
        Self::new(module, (root, output), Some(computation), simplifier)
    }

    /// Derives the tile of array `output` of the result that depends on a tile of an operand's
    /// array.
    ///
    /// # Errors
    /// The operand is not an array.
    pub fn forward(
        module: &Module,
        instruction: InstructionId,
        (operand, leaf): (usize, usize),
        output: usize,
        simplifier: &mut Simplifier,
    ) -> Result<Self, Unknown> {
        let unknown = |cause| Unknown { cause, instruction };
        let id = module.instructions.get(instruction);
        let id = id.and_then(|data| data.operands.get(operand));
        let data = id.and_then(|id| module.instructions.get(*id));
        let data = data.ok_or_else(|| unknown(Cause::Malformed))?;
        let array = leaf_array(&data.shape, leaf).map_err(unknown)?;
        let space = TilingSpace::of_array(&extents(&crate::ops::identity_of(module, array)));
        let all = crate::fusion_input_to_output(module, instruction, output, simplifier);
        let found = all
            .into_iter()
            .filter(|own| (own.operand, own.leaf) == (operand, leaf));
        Ok(Self {
            space,
            operands: found.collect(),
            values: Vec::new(),
        })
    }

    /// The tiles of all operands' arrays, for `space`, which is [`Self::space`] with some sizes
    /// fixed.
    pub fn operands(&self, space: &TilingSpace) -> Vec<OperandTiles> {
        let tiles = |own: &OperandIndexing| OperandTiles {
            operand: own.operand,
            leaf: own.leaf,
            tiles: tiles(&own.maps, space),
        };
        self.operands.iter().map(tiles).collect()
    }

    /// The maps from the space to the operands' arrays.
    pub fn operand_maps(&self) -> &[OperandIndexing] {
        &self.operands
    }

    /// The tiles of all values inside a fusion, including its parameters and its root; none for
    /// other instructions.
    pub fn values(&self, space: &TilingSpace) -> Vec<ValueTiles> {
        let tiles = |(instruction, leaf, maps): &(InstructionId, usize, _)| ValueTiles {
            instruction: *instruction,
            leaf: *leaf,
            tiles: tiles(maps, space),
        };
        self.values.iter().map(tiles).collect()
    }
}

fn tiles(
    maps: &Result<Vec<IndexingMap>, Unknown>,
    space: &TilingSpace,
) -> Result<Vec<Tile>, Unknown> {
    let maps = maps.as_ref().map_err(Clone::clone)?;
    let mut found: Vec<Tile> = Vec::new();
    for map in maps {
        let tile = Tile::of(map, space);
        if !found.contains(&tile) {
            found.push(tile);
        }
    }
    Ok(found)
}

/// The sizes of the dimensions of a map, or the largest sizes that they can have.
fn extents(map: &IndexingMap) -> Vec<i64> {
    let size = |dim: &crate::map::Variable| dim.bounds.upper.saturating_add(1).max(0);
    map.dims.iter().map(size).collect()
}

/// The instructions of a computation that its root depends on, operands first.
fn reachable(module: &Module, callee: ComputationId) -> Vec<InstructionId> {
    let Some(computation) = module.computations.get(callee) else {
        return Vec::new();
    };
    let mut needed: FxHashSet<InstructionId> = FxHashSet::default();
    let mut stack = vec![computation.root];
    while let Some(id) = stack.pop() {
        if needed.insert(id)
            && let Some(data) = module.instructions.get(id)
        {
            stack.extend(&data.operands);
        }
    }
    let all = computation.instructions.iter().copied();
    all.filter(|id| needed.contains(id)).collect()
}

/// Whether the range variables of an operation's maps are dimensions that it reduces over, the same
/// ones for all operands that are read through them.
fn sums(op: &Op) -> bool {
    matches!(
        op,
        Op::Reduce { .. }
            | Op::ReduceWindow { .. }
            | Op::Dot { .. }
            | Op::ScaledDot { .. }
            | Op::Convolution { .. }
    )
}

/// Adds a dimension to the space, and a range variable to the starting map, for every reduced
/// dimension.
fn sequential_dimensions(
    module: &Module,
    instructions: &[InstructionId],
    space: &mut TilingSpace,
    start: &mut IndexingMap,
) -> Sequential {
    let mut found = FxHashMap::default();
    for id in instructions.iter().rev() {
        let data = module.instructions.get(*id);
        if !data.is_some_and(|data| sums(&data.op)) {
            continue;
        }
        let operands = output_leaf_to_input(module, *id, 0);
        let maps = operands.iter().filter_map(|own| own.maps.as_ref().ok());
        let ranges = maps
            .flatten()
            .map(|map| &map.ranges)
            .max_by_key(|r| r.len());
        let Some(ranges) = ranges.filter(|ranges| !ranges.is_empty()) else {
            continue;
        };
        if space.dims.len() + ranges.len() > MAX_DIMENSIONS {
            continue;
        }
        let first = space.dims.len();
        for (number, range) in ranges.iter().enumerate() {
            let extent = range.bounds.upper.saturating_add(1);
            space.push(DimensionKind::Sequential, Some(*id), number, extent);
            start.push_range(range.bounds);
        }
        found.insert(*id, first..space.dims.len());
    }
    found
}
