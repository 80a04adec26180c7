//! The tiling space: the dimensions that are tiled, and the variables of tiles.

use tegula_expr::{Interval, Term, Var, ceil_div};
use tegula_ir::InstructionId;

use crate::map::{IndexingMap, Variable, variable};

/// Whether tiles along a dimension are independent of one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DimensionKind {
    /// A dimension of the array that is computed. Its tiles may be computed in any order.
    Parallel,
    /// A dimension that an operation reduces over (the contraction of a dot, the window of a
    /// convolution). Its tiles are accumulated one after the other.
    Sequential,
}

/// One dimension of a tiling space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceDim {
    /// Parallel or sequential.
    pub kind: DimensionKind,
    /// The instruction that it belongs to; for a sequential dimension, the operation that reduces.
    pub instruction: Option<InstructionId>,
    /// Its number among the instruction's dimensions of this kind.
    pub number: usize,
    /// The number of elements; if that is known only at run time, the largest possible number.
    pub extent: i64,
    /// The smallest and largest size of a tile.
    pub sizes: Interval,
    /// A number that the tile size is known to be a multiple of; 1 if nothing is known.
    pub multiple_of: i64,
}

/// The dimensions that are divided into tiles of equal size; the last tile may be smaller.
///
/// Tiles are terms over the variables of their space. For `n` dimensions, `Var(k)` is the number of
/// the tile along dimension `k` (printed `i0`, `i1`, ...), `Var(n + k)` its size if that is
/// symbolic (`t0`, `t1`, ...), and `Var(2 * n + r)` is run-time variable `r` of the map that the
/// tile is the image under (`rt0`, ...).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TilingSpace {
    /// The dimensions: parallel ones in the order of the array, then sequential ones.
    pub dims: Vec<SpaceDim>,
}

impl TilingSpace {
    /// The space of an array of these sizes, with all tile sizes symbolic.
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

    /// The space with tiles of these sizes. If there are fewer sizes than dimensions, they apply to
    /// the last *parallel* dimensions (`8,128` tiles the last two), and other parallel dimensions
    /// have tiles of one element. Sequential dimensions are not divided. Sizes larger than a
    /// dimension are reduced to it.
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

    /// The space with tiles of these sizes, in the order of its dimensions; `None` leaves a size
    /// symbolic.
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

    /// The space in which the symbolic tile size of a dimension is a multiple of a number, such as
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

    /// The domain of the space's variables and of run-time variables in these bounds, as a map
    /// without results.
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

    /// Whether some tile size is symbolic.
    pub fn is_open(&self) -> bool {
        self.dims.iter().any(|dim| dim.sizes.as_point().is_none())
    }

    /// The number of the tile along a dimension, as a term.
    pub fn index(&self, dim: usize) -> Term {
        match self.dims.get(dim).map(SpaceDim::tile_count) {
            Some(Some(0 | 1)) => Term::constant(0),
            _ => variable(dim),
        }
    }

    /// The size of tiles along a dimension, as a term.
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

    /// The variable of a symbolic size.
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

    /// The number of tiles if all sizes are known; saturates.
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
