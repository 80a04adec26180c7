//! The tiling space: what is cut into tiles, and the variables that tiles are terms over.

use tegula_expr::{Interval, Term, Var, ceil_div};
use tegula_ir::InstructionId;

use crate::map::{IndexingMap, Variable, variable};

/// Whether tiles along a dimension are independent of one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DimensionKind {
    /// A dimension of the array that is computed: its tiles may be computed in any order.
    Parallel,
    /// What an operation sums over (the contraction of a dot, the window of a
    /// convolution): its tiles are summed one after the other.
    Sequential,
}

/// One dimension of a tiling space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceDim {
    /// Parallel or sequential.
    pub kind: DimensionKind,
    /// Which instruction it belongs to: of a sequential one, the operation that sums.
    pub instruction: Option<InstructionId>,
    /// The number among the instruction's dimensions of this kind.
    pub number: usize,
    /// Elements; of a size that is known at run time, the most there can be.
    pub extent: i64,
    /// The least and the most elements of a tile.
    pub sizes: Interval,
    /// What the number of elements of a tile is known to be a multiple of; 1 if nothing
    /// is known.
    pub multiple_of: i64,
}

/// Dimensions that are cut into tiles of equal size, the last one perhaps shorter.
///
/// Tiles are terms over the variables of their space: for `n` dimensions, `Var(k)` is
/// the number of the tile along dimension `k` (printed `i0`, `i1`, ...), `Var(n + k)`
/// its size if that is open (`t0`, `t1`, ...), and `Var(2 * n + r)` the run-time
/// variable `r` of the map that the tile is the image under (`rt0`, ...).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TilingSpace {
    /// The dimensions: parallel ones in the order of the array, then sequential ones.
    pub dims: Vec<SpaceDim>,
}

impl TilingSpace {
    /// The space of an array of these sizes, with every tile size open.
    pub fn of_array(sizes: &[i64]) -> Self {
        let mut space = Self { dims: Vec::new() };
        for (number, size) in sizes.iter().enumerate() {
            space.push(DimensionKind::Parallel, None, number, *size);
        }
        space
    }

    pub(super) fn push(
        &mut self,
        kind: DimensionKind,
        instruction: Option<InstructionId>,
        number: usize,
        extent: i64,
    ) {
        self.dims.push(SpaceDim {
            kind,
            instruction,
            number,
            extent,
            sizes: Interval::new(1, extent.max(1)),
            multiple_of: 1,
        });
    }

    /// The space with tiles of these sizes: one for each dimension, from the last
    /// *parallel* dimension backwards where there are fewer (as in `8,128`, which
    /// tiles the last two); other parallel dimensions have tiles of one element,
    /// sequential ones are taken whole. Sizes above the dimension's are the dimension's.
    #[must_use]
    pub fn with_minor_sizes(&self, sizes: &[i64]) -> Self {
        let mut space = self.clone();
        let parallel = space.parallel().count();
        for (position, dim) in space.dims.iter_mut().enumerate() {
            let size = match dim.kind {
                DimensionKind::Sequential => dim.extent,
                DimensionKind::Parallel => (position + sizes.len())
                    .checked_sub(parallel)
                    .and_then(|at| sizes.get(at).copied())
                    .unwrap_or(1),
            };
            dim.sizes = Interval::point(size.clamp(1, dim.extent.max(1)));
        }
        space
    }

    /// The space with tiles of these sizes, in the order of its dimensions; `None` leaves
    /// a size open.
    #[must_use]
    pub fn with_sizes(&self, sizes: &[Option<i64>]) -> Self {
        let mut space = self.clone();
        for (dim, size) in space.dims.iter_mut().zip(sizes) {
            dim.sizes = match size {
                Some(size) => Interval::point((*size).clamp(1, dim.extent.max(1))),
                None => Interval::new(1, dim.extent.max(1)),
            };
        }
        space
    }

    /// The space in which open sizes along a dimension are multiples of a number, such as
    /// the 128 lanes of a register.
    #[must_use]
    pub fn with_multiple(&self, dim: usize, of: i64) -> Self {
        let mut space = self.clone();
        if let Some(dim) = space.dims.get_mut(dim)
            && dim.sizes.as_point().is_none()
            && (1..=dim.extent).contains(&of)
        {
            dim.multiple_of = of;
            dim.sizes.lower = of;
        }
        space
    }

    /// The values of the variables: those of the space, and run-time variables in these
    /// bounds. A map without results, on whose domain questions are asked.
    pub fn domain(&self, runtime: &[Interval]) -> IndexingMap {
        let mut map = IndexingMap::default();
        for dim in &self.dims {
            let most = dim.tile_count().unwrap_or(dim.extent);
            map.dims.push(Variable::of_size(most));
        }
        let sizes = self.dims.iter().map(|dim| dim.sizes);
        map.dims.extend(sizes.map(Variable::new));
        map.dims
            .extend(runtime.iter().map(|bounds| Variable::new(*bounds)));
        for (number, dim) in self.dims.iter().enumerate() {
            if dim.sizes.as_point().is_none() {
                let start = variable(number).mul(&self.size(number));
                map.constrain(start, Interval::of_size(dim.extent));
                if dim.multiple_of > 1 {
                    let rest = self.size(number).modulo(&dim.multiple_of.into());
                    map.constrain(rest, Interval::point(0));
                }
            }
        }
        for (number, dim) in map.dims.iter_mut().enumerate() {
            let name = self.name(Var(u32::try_from(number).unwrap_or(u32::MAX)));
            dim.name = Some(name.into());
        }
        map
    }

    /// The parallel dimensions.
    pub fn parallel(&self) -> impl Iterator<Item = &SpaceDim> {
        self.dims
            .iter()
            .filter(|dim| dim.kind == DimensionKind::Parallel)
    }

    /// Whether some tile size is open.
    pub fn is_open(&self) -> bool {
        self.dims.iter().any(|dim| dim.sizes.as_point().is_none())
    }

    /// The term of a tile's number along a dimension.
    pub fn index(&self, dim: usize) -> Term {
        match self.dims.get(dim).map(SpaceDim::tile_count) {
            Some(Some(0 | 1)) => Term::constant(0),
            _ => variable(dim),
        }
    }

    /// The term of the size of tiles along a dimension.
    pub fn size(&self, dim: usize) -> Term {
        match self.dims.get(dim).and_then(|dim| dim.sizes.as_point()) {
            Some(size) => Term::constant(size),
            None => variable(self.dims.len() + dim),
        }
    }

    /// The variable of a tile's number along a dimension.
    pub fn index_var(&self, dim: usize) -> Var {
        number(dim)
    }

    /// The variable of an open size.
    pub fn size_var(&self, dim: usize) -> Var {
        number(self.dims.len() + dim)
    }

    /// The variable of a run-time variable of a tile's map.
    pub fn runtime_var(&self, runtime: usize) -> Var {
        number(2 * self.dims.len() + runtime)
    }

    /// The name of a variable as it is printed.
    pub fn name(&self, var: Var) -> String {
        let (position, count) = (var.0 as usize, self.dims.len());
        match (position.checked_sub(count), position.checked_sub(2 * count)) {
            (_, Some(runtime)) => format!("rt{runtime}"),
            (Some(size), None) => format!("t{size}"),
            (None, None) => format!("i{position}"),
        }
    }

    /// The number of tiles if all sizes are known, saturating.
    pub fn tile_count(&self) -> Option<u64> {
        self.dims.iter().try_fold(1u64, |product, dim| {
            let count = u64::try_from(dim.tile_count()?).ok()?;
            Some(product.saturating_mul(count))
        })
    }
}

impl SpaceDim {
    /// The number of tiles along the dimension if their size is known.
    pub fn tile_count(&self) -> Option<i64> {
        ceil_div(self.extent.max(0), self.sizes.as_point()?)
    }

    /// Whether tiles of known size divide the dimension.
    pub fn is_divided(&self) -> Option<bool> {
        Some(self.extent % self.sizes.as_point()? == 0)
    }
}

fn number(position: usize) -> Var {
    Var(u32::try_from(position).unwrap_or(u32::MAX))
}
