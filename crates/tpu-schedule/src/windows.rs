//! The windows of a kernel: the block of each array that is in VMEM at a time.
//!
//! A kernel whose arrays are in HBM runs over a grid. Each step computes a block of the result, and
//! the blocks of the operands that it needs follow from the kernel's indexing maps. While one block
//! is computed, the next one is fetched, so each window exists twice. Among the blocks that fit,
//! the one with the least cost is chosen: HBM traffic (including blocks that are fetched again),
//! arithmetic that this does not hide, and the overhead of steps. Blocks are the whole array or
//! whole tiles along rows and lanes. A block that does not divide its dimension is masked at the
//! end.

use crate::time::{Speeds, operations};
use rustc_hash::FxHashMap;
use tegula_expr::Var;
use tegula_fusion::ValueId;
use tegula_indexing::tiles::{Tile, TilingSpace};
use tegula_indexing::{IndexingMap, Simplifier, output_to_input};
use tegula_ir::{Layout, Module};
use tegula_layout::assign::{Assignment, Kernel};
use tegula_target::{Chip, TileRule};

/// The overhead of a pipeline step in seconds: published times of a matmul in blocks of 128 on v5e
/// are 350 to 359 ns per step (JAX Pallas, tpu/matmul).
const STEP: f64 = 350e-9;
/// Windows are double-buffered.
const BUFFERS: i64 = 2;
/// The most blocks that are compared.
const MOST_BLOCKS: usize = 4096;
/// The number of alternatives kept for explanations.
const ALTERNATIVES: usize = 8;

/// A choice of block.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The block's size along each dimension of the result, then along those that are summed over.
    pub block: Vec<i64>,
    /// The number of blocks along each.
    pub grid: Vec<i64>,
    /// The bytes of VMEM for both buffers of every window.
    pub vmem_bytes: i64,
    /// The HBM traffic in bytes, including blocks that are fetched again.
    pub hbm_bytes: f64,
    /// The time in seconds: the maximum of HBM traffic and arithmetic, plus the part at both ends
    /// that is not overlapped, plus the overhead of steps.
    pub seconds: f64,
}

/// The window of one array.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The array.
    pub value: ValueId,
    /// The block's size along each of its dimensions.
    pub dims: Vec<i64>,
    /// The bytes of one buffer, including padding.
    pub bytes: i64,
    /// The dimensions of the grid that it follows.
    pub follows: Vec<usize>,
}

/// The windows of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    /// The block that was chosen.
    pub chosen: Choice,
    /// The window of each array for that block: the operands, then the result.
    pub windows: Vec<Window>,
    /// The dimensions that the block does not divide: there, the last block is masked.
    pub masked: Vec<usize>,
    /// Other blocks that fit, the cheapest first.
    pub alternatives: Vec<Choice>,
}

/// An array, and how its block follows from the grid's.
struct Array {
    value: ValueId,
    dims: Vec<i64>,
    bits: u32,
    rule: Option<TileRule>,
    order: Vec<u32>,
    /// The image of a block, with symbolic sizes. If it is not exact, the window is the whole
    /// array.
    tile: Option<Tile>,
}

/// What is known about a kernel before its block is chosen.
struct Problem {
    arrays: Vec<Array>,
    /// The extents of the grid: those of the result, then those that are summed over.
    extents: Vec<i64>,
    /// The result's dimensions, the most minor first.
    order: Vec<u32>,
    /// The HBM bandwidth, in bytes per second.
    bandwidth: f64,
    /// The time of the arithmetic, in seconds.
    arithmetic: f64,
}

/// Chooses the windows of a kernel, for its arrays in HBM (those for which `in_hbm` holds) and at
/// most `limit` bytes of VMEM. `None` if it has no such arrays, is a loop or conditional, or if no
/// block fits.
pub fn windows(
    module: &Module,
    assignment: &Assignment,
    kernel: &Kernel,
    chip: &Chip,
    limit: i64,
    in_hbm: &dyn Fn(ValueId) -> bool,
) -> Option<Windows> {
    let problem = Problem::of(module, assignment, kernel, chip, in_hbm)?;
    let mut choices: Vec<Choice> = blocks(&problem.extents, &problem.order)
        .into_iter()
        .filter_map(|block| problem.evaluate(&block))
        .filter(|choice| choice.vmem_bytes <= limit)
        .collect();
    choices.sort_by(|a, b| {
        a.seconds
            .total_cmp(&b.seconds)
            .then(a.vmem_bytes.cmp(&b.vmem_bytes))
    });
    let mut choices = choices.into_iter();
    let chosen = choices.next()?;
    let Problem {
        arrays, extents, ..
    } = &problem;
    let shown = arrays
        .iter()
        .map(|array| window(array, &chosen.block, extents));
    let masked = chosen.block.iter().zip(extents).enumerate();
    Some(Windows {
        windows: shown.collect(),
        masked: masked
            .filter(|(_, (block, extent))| **extent % **block != 0)
            .map(|(dim, _)| dim)
            .collect(),
        alternatives: choices.take(ALTERNATIVES).collect(),
        chosen,
    })
}

/// The cost of a given block for a kernel. `block` has the sizes along the result's dimensions,
/// then along those that are summed over; sizes that are left out mean whole dimensions. `None` as
/// for [`windows`], and if a size is not positive.
pub fn cost_of(
    module: &Module,
    assignment: &Assignment,
    kernel: &Kernel,
    chip: &Chip,
    in_hbm: &dyn Fn(ValueId) -> bool,
    block: &[i64],
) -> Option<Choice> {
    let problem = Problem::of(module, assignment, kernel, chip, in_hbm)?;
    let extents = problem.extents.iter().enumerate();
    let block: Vec<i64> = extents
        .map(|(dim, &extent)| block.get(dim).copied().unwrap_or(extent))
        .collect();
    if block.iter().any(|&size| size <= 0) {
        return None;
    }
    problem.evaluate(&block)
}

impl Problem {
    fn of(
        module: &Module,
        assignment: &Assignment,
        kernel: &Kernel,
        chip: &Chip,
        in_hbm: &dyn Fn(ValueId) -> bool,
    ) -> Option<Self> {
        let program = &assignment.program;
        let root = &program.nodes[kernel.root];
        let &result = root.results.first()?;
        if !root.kind.regions().is_empty() {
            return None;
        }
        let (maps, extents) = read_maps(module, assignment, kernel);
        let space = TilingSpace::of_array(&extents);
        let layout = |value: ValueId, inside: Option<&Layout>| {
            let layout = assignment.layouts.get(&value).or(inside);
            layout.map(|layout| layout.minor_to_major.to_vec())
        };
        let array = |value: ValueId, map: Option<&IndexingMap>| {
            let shape = &program.values[value].shape;
            let dims = shape.static_dims()?.to_vec();
            let order = layout(value, kernel.inside.get(&value));
            let order = order.unwrap_or_else(|| (0..dims.len() as u32).rev().collect());
            let tile = map.map(|map| Tile::of(map, &space));
            let bits = shape.element_type.bits();
            Some(Array {
                value,
                dims,
                bits,
                rule: chip.tile_rule,
                order,
                tile,
            })
        };
        let mut arrays = Vec::new();
        for read in kernel.reads.iter().filter(|read| in_hbm(read.value)) {
            arrays.push(array(read.value, maps.get(&read.value))?);
        }
        let rank = program.values[result].shape.rank();
        if in_hbm(result) {
            let mut own = IndexingMap::over(&extents);
            own.results = (0..rank).map(|dim| own.dim(dim)).collect();
            arrays.push(array(result, Some(&own))?);
        }
        if arrays.is_empty() {
            return None;
        }
        let order = layout(result, kernel.inside.get(&result));
        let speeds = Speeds::new(chip);
        Some(Self {
            arrays,
            order: order.unwrap_or_else(|| (0..rank as u32).rev().collect()),
            extents,
            bandwidth: speeds.bandwidth(),
            arithmetic: speeds.arithmetic(operations(module, program, &kernel.nodes)),
        })
    }

    /// The cost of a block; `None` if its size overflows.
    fn evaluate(&self, block: &[i64]) -> Option<Choice> {
        let grid: Vec<i64> = self
            .extents
            .iter()
            .zip(block)
            .map(|(&extent, &size)| (extent + size - 1) / size)
            .collect();
        let (mut vmem, mut moved, mut once) = (0i64, 0.0, 0.0);
        for array in &self.arrays {
            let window = window(array, block, &self.extents);
            vmem = vmem.checked_add(window.bytes.checked_mul(BUFFERS)?)?;
            // The last dimension of the grid varies fastest. A block is kept as long as only
            // dimensions after the last one that it follows change.
            let last = window.follows.last().map_or(0, |&dim| dim + 1);
            let fetches: f64 = grid[..last].iter().map(|&count| count as f64).product();
            moved += fetches * window.bytes as f64;
            once += window.bytes as f64;
        }
        let steps: f64 = grid.iter().map(|&count| count as f64).product();
        // While the first blocks are fetched and the last result is written, nothing is computed;
        // in between, traffic and arithmetic overlap.
        let ends = once.min(moved) / self.bandwidth;
        let traffic = moved / self.bandwidth;
        let between = (traffic - ends).max(self.arithmetic);
        Some(Choice {
            block: block.to_vec(),
            vmem_bytes: vmem,
            hbm_bytes: moved,
            seconds: ends + between + steps * STEP,
            grid,
        })
    }
}

/// For each array that a kernel reads, the map from the grid to it; and the grid's extents: the
/// result's dimensions, then those that a product or reduction sums over.
fn read_maps(
    module: &Module,
    assignment: &Assignment,
    kernel: &Kernel,
) -> (FxHashMap<ValueId, IndexingMap>, Vec<i64>) {
    let program = &assignment.program;
    let mut maps: FxHashMap<ValueId, IndexingMap> = FxHashMap::default();
    let root = &program.nodes[kernel.root];
    let Some(&result) = root.results.first() else {
        return (maps, Vec::new());
    };
    let dims = program.values[result]
        .shape
        .static_dims()
        .unwrap_or_default();
    maps.insert(result, IndexingMap::identity(&dims));
    let mut simplifier = Simplifier::new();
    for &id in kernel.nodes.iter().rev() {
        let node = &program.nodes[id];
        let Some(own) = node
            .results
            .first()
            .and_then(|result| maps.get(result))
            .cloned()
        else {
            continue;
        };
        let of_operands = output_to_input(module, node.origin);
        for operand in of_operands {
            let Some(&value) = node.operands.get(operand.operand) else {
                continue;
            };
            let through = match operand.maps.as_deref() {
                Ok([one]) => simplifier.simplify_map(&own.compose(one)),
                _ => IndexingMap::undefined(),
            };
            // If an array is read in two ways, its window is the whole array.
            match maps.get(&value) {
                Some(other) if *other != through => {
                    maps.insert(value, IndexingMap::undefined());
                }
                _ => {
                    maps.insert(value, through);
                }
            }
        }
    }
    maps.remove(&result);
    // Dimensions that are summed over become part of the grid, if they are the same in all maps.
    let summed: Vec<Vec<i64>> = maps
        .values()
        .filter(|map| !map.is_undefined() && !map.ranges.is_empty() && map.runtime.is_empty())
        .map(|map| {
            map.ranges
                .iter()
                .map(|range| range.bounds.count() as i64)
                .collect()
        })
        .collect();
    let shared = summed
        .first()
        .filter(|first| summed.iter().all(|own| own == *first));
    let mut extents: Vec<i64> = dims.to_vec();
    if let Some(shared) = shared {
        extents.extend(shared);
    }
    for map in maps.values_mut() {
        let grid = extents.len();
        if !map.is_undefined() && map.runtime.is_empty() && shared.is_some() {
            let ranges = std::mem::take(&mut map.ranges);
            map.dims.extend(ranges);
        }
        // An array that is not summed over has the same block along these dimensions.
        for dim in map.dims.len()..grid {
            let extent = extents.get(dim).copied().unwrap_or(1);
            if map.ranges.is_empty() && map.runtime.is_empty() {
                map.dims.push(tegula_indexing::Variable::of_size(extent));
            }
        }
    }
    (maps, extents)
}

/// The blocks to try: along the result's lanes and rows whole tiles or everything; along other
/// dimensions 1, everything, or powers of two in between.
fn blocks(extents: &[i64], order: &[u32]) -> Vec<Vec<i64>> {
    let options = extents.iter().enumerate().map(|(dim, &extent)| {
        let place = order.iter().position(|&d| d as usize == dim);
        let least = match place {
            Some(0) => 128,
            Some(1) => 8,
            Some(_) => 1,
            // A dimension that is summed over is in the lanes of one operand and in the rows of the
            // other.
            None => 128,
        };
        let mut sizes = vec![extent.max(1)];
        let mut size = least;
        while size < extent {
            sizes.push(size);
            size *= 2;
        }
        sizes
    });
    let mut blocks: Vec<Vec<i64>> = vec![Vec::new()];
    for sizes in options {
        // If there would be too many blocks, only the whole dimension and the smallest size are
        // tried.
        let few: Vec<i64> = if blocks.len() * sizes.len() > MOST_BLOCKS {
            sizes.iter().copied().take(2).collect()
        } else {
            sizes
        };
        let longer = blocks.iter().flat_map(|block| {
            few.iter()
                .map(|&size| block.iter().copied().chain([size]).collect())
        });
        blocks = longer.collect();
        blocks.truncate(MOST_BLOCKS);
    }
    blocks
}

/// The sizes of an array's block, including gaps between its elements; `None` if it is not a block.
fn block_of(array: &Array, block: &[i64]) -> Option<Vec<i64>> {
    let tile = array.tile.as_ref()?;
    // This is for the first block. In the variables, the numbers of blocks come before their sizes.
    let env = |var: Var| match (var.0 as usize).checked_sub(block.len()) {
        None => Some(0),
        Some(size) => block.get(size).copied(),
    };
    if tile.exact.eval(&env) != Ok(true) || tile.present.eval(&env) != Ok(true) {
        return None;
    }
    let dims = tile.dims.iter().zip(&array.dims);
    dims.map(|(dim, &whole)| {
        let (size, stride) = (dim.size.eval(&env).ok()?, dim.stride.eval(&env).ok()?);
        let reach = size.checked_sub(1)?.checked_mul(stride)?;
        Some(reach.saturating_add(1).clamp(0, whole))
    })
    .collect()
}

/// The window of an array for a block at the start of the grid.
fn window(array: &Array, block: &[i64], extents: &[i64]) -> Window {
    let image = block_of(array, block);
    let dims = image.clone().unwrap_or_else(|| array.dims.clone());
    let moves = |dim: &usize| image.is_some() && follows(array, *dim, block, extents);
    let follows = (0..extents.len()).filter(moves);
    let rule = array.rule;
    let bytes = rule.and_then(|rule| rule.padded_bytes(array.bits, &dims, &array.order));
    let plain = || {
        dims.iter()
            .product::<i64>()
            .saturating_mul(array.bits.into())
            / 8
    };
    Window {
        value: array.value,
        bytes: bytes.unwrap_or_else(plain),
        follows: follows.collect(),
        dims,
    }
}

/// Whether an array's window moves along a dimension of the grid.
fn follows(array: &Array, dim: usize, block: &[i64], extents: &[i64]) -> bool {
    let Some(tile) = &array.tile else {
        return false;
    };
    if block[dim] >= extents[dim] {
        return false;
    }
    let var = Var(dim as u32);
    tile.dims.iter().any(|dim| dim.offset.mentions(var))
}
