//! Shape functions of operations that HLO lacks, as an importer outside of the compiler would write
//! them: one function for all providers. They follow ONNX's operators of the same names.

use tegula_expr::{Cmp, Extract, Provider, ShapeHelper};

/// The reason why an operation is invalid for operands of any size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

fn wrong<T>(message: &str) -> Result<T, Wrong> {
    Err(Wrong(message.to_owned()))
}

/// The sizes of one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dims<I> {
    /// The size of each dimension.
    pub dims: Vec<I>,
}

fn dims_only<I>(dims: Vec<I>) -> Dims<I> {
    Dims { dims }
}

/// `Reshape(data, shape)`: 0 keeps the input's dimension, -1 stands for the size that gives the
/// same number of elements.
#[derive(Clone, Copy, Debug)]
pub struct Reshape {
    /// The number of dimensions of the data.
    pub rank: usize,
    /// The number of elements of the shape.
    pub to_rank: usize,
}

impl ShapeHelper for Reshape {
    type Shapes<I: Clone> = Dims<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<Dims<P::Index>, Wrong> {
        let (zero, one, open) = (p.literal(0), p.literal(1), p.literal(-1));
        let count = p.element_count(0, self.rank);
        let wanted = p.ints_from_operand_as_symbols(1, self.to_rank);
        if wanted
            .iter()
            .filter(|&w| p.as_literal(w) == Some(-1))
            .count()
            > 1
        {
            return wrong("`Reshape` has -1 more than once");
        }
        let mut dims = Vec::new();
        let mut known = one.clone();
        for (dim, wanted) in wanted.iter().enumerate() {
            let mut size = wanted.clone();
            if dim < self.rank {
                let (keeps, own) = (p.cmp(Cmp::Eq, wanted, &zero), p.shape_as_dim(0, dim));
                size = p.select(&keeps, &own, &size);
            }
            let is_open = p.cmp(Cmp::Eq, wanted, &open);
            let factor = p.select(&is_open, &one, &size);
            known = p.mul(&known, &factor);
            dims.push((is_open, size));
        }
        let rest = p.floor_div(&count, &known);
        let dims = dims
            .iter()
            .map(|(is_open, size)| p.select(is_open, &rest, size));
        let dims: Vec<P::Index> = dims.collect();
        let elements = p.product(&dims);
        p.require(
            Cmp::Eq,
            &count,
            &elements,
            &"`Reshape`: numbers of elements",
        );
        Ok(dims_only(dims))
    }

    fn numbers<I: Clone>(shapes: Dims<I>) -> Vec<I> {
        shapes.dims
    }
}

/// `Slice(data, starts, ends, axes, steps)`; axes are constants, as exporters write
/// them.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The number of dimensions of the data.
    pub rank: usize,
    /// The dimension of each start; negative numbers count from the last dimension.
    pub axes: Vec<i64>,
    /// Whether there are steps.
    pub steps: bool,
}

/// A slice with normalised bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceBounds<I> {
    /// The size of each dimension.
    pub dims: Vec<I>,
    /// The index of the first element in each dimension, not negative.
    pub starts: Vec<I>,
    /// The exclusive end in each dimension; -1 if a negative step includes element 0.
    pub ends: Vec<I>,
    /// The distance between consecutive elements in each dimension.
    pub steps: Vec<I>,
}

impl ShapeHelper for Slice {
    type Shapes<I: Clone> = SliceBounds<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<SliceBounds<P::Index>, Wrong> {
        let (zero, one) = (p.literal(0), p.literal(1));
        let dims = p.shape_as_dims(0, self.rank).to_vec();
        let mut bounds = SliceBounds {
            starts: vec![zero.clone(); self.rank],
            ends: dims.clone(),
            steps: vec![one.clone(); self.rank],
            dims,
        };
        for (i, &axis) in self.axes.iter().enumerate() {
            let positive = if axis < 0 {
                axis + self.rank as i64
            } else {
                axis
            };
            let Some(dim) = usize::try_from(positive).ok().filter(|&d| d < self.rank) else {
                return wrong("`Slice` has an axis that its data do not have");
            };
            let step = match self.steps {
                true => p.int_from_operand_as_symbol(3, i),
                false => one.clone(),
            };
            if p.as_literal(&step) == Some(0) {
                return wrong("`Slice` has a step of 0");
            }
            let size = bounds.dims[dim].clone();
            let last = p.sub(&size, &one);
            let (start, end) = (
                p.int_from_operand_as_symbol(1, i),
                p.int_from_operand_as_symbol(2, i),
            );
            let (start, end) = (from_end(p, &start, &size), from_end(p, &end, &size));
            let back = p.cmp(Cmp::Lt, &step, &zero);
            let minus = p.literal(-1);
            // Bounds are clamped to 0..=size for positive steps, and to -1..=size - 1 for negative
            // ones.
            let most = p.select(&back, &last, &size);
            let least_end = p.select(&back, &minus, &zero);
            let start = clamp(p, &start, &zero, &most);
            let end = clamp(p, &end, &least_end, &most);
            let span = p.sub(&end, &start);
            let taken = p.ceil_div(&span, &step);
            bounds.dims[dim] = p.max(&taken, &zero);
            (bounds.starts[dim], bounds.ends[dim], bounds.steps[dim]) = (start, end, step);
        }
        Ok(bounds)
    }

    fn numbers<I: Clone>(shapes: SliceBounds<I>) -> Vec<I> {
        [shapes.dims, shapes.starts, shapes.ends, shapes.steps].concat()
    }
}

fn from_end<P: Provider>(p: &mut P, position: &P::Index, size: &P::Index) -> P::Index {
    let zero = p.literal(0);
    let negative = p.cmp(Cmp::Lt, position, &zero);
    let counted = p.add(position, size);
    p.select(&negative, &counted, position)
}

fn clamp<P: Provider>(p: &mut P, x: &P::Index, lower: &P::Index, upper: &P::Index) -> P::Index {
    let raised = p.max(x, lower);
    p.min(&raised, upper)
}

/// `Expand(data, shape)`: both broadcast to each other.
#[derive(Clone, Copy, Debug)]
pub struct Expand {
    /// The number of dimensions of the data.
    pub rank: usize,
    /// The number of elements of the shape.
    pub to_rank: usize,
}

impl ShapeHelper for Expand {
    type Shapes<I: Clone> = Dims<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<Dims<P::Index>, Wrong> {
        let rank = self.rank.max(self.to_rank);
        let one = p.literal(1);
        let mut dims = Vec::new();
        for dim in 0..rank {
            let own = (dim + self.rank).checked_sub(rank);
            let wanted = (dim + self.to_rank).checked_sub(rank);
            let own = own.map_or(one.clone(), |dim| p.shape_as_dim(0, dim));
            let wanted = wanted.map_or(one.clone(), |i| p.int_from_operand_as_symbol(1, i));
            let is_one = p.cmp(Cmp::Eq, &own, &one);
            let size = p.select(&is_one, &wanted, &own);
            let wants_one = p.cmp(Cmp::Eq, &wanted, &one);
            let fitting = p.select(&wants_one, &size, &wanted);
            p.require(Cmp::Eq, &size, &fitting, &"`Expand`: sizes are equal or 1");
            dims.push(size);
        }
        Ok(dims_only(dims))
    }

    fn numbers<I: Clone>(shapes: Dims<I>) -> Vec<I> {
        shapes.dims
    }
}

/// `Tile(data, repeats)`.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// The number of dimensions of the data.
    pub rank: usize,
}

impl ShapeHelper for Tile {
    type Shapes<I: Clone> = Dims<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<Dims<P::Index>, Wrong> {
        let dims = (0..self.rank).map(|dim| {
            let repeats = p.int_from_operand_as_symbol(1, dim);
            let size = p.shape_as_dim(0, dim);
            p.mul(&size, &repeats)
        });
        Ok(dims_only(dims.collect()))
    }

    fn numbers<I: Clone>(shapes: Dims<I>) -> Vec<I> {
        shapes.dims
    }
}

/// `Resize` by scales: `floor(size * scale)` of the exact product.
#[derive(Clone, Debug)]
pub struct Resize {
    /// The factor of each dimension.
    pub scales: Vec<f32>,
}

impl ShapeHelper for Resize {
    type Shapes<I: Clone> = Dims<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<Dims<P::Index>, Wrong> {
        let mut dims = Vec::new();
        for (dim, &scale) in self.scales.iter().enumerate() {
            let size = p.shape_as_dim(0, dim);
            match p.floor_scaled(&size, f64::from(scale)) {
                Some(scaled) if scale > 0.0 => dims.push(scaled),
                _ => return wrong("`Resize` has a scale that is not a positive number"),
            }
        }
        Ok(dims_only(dims))
    }

    fn numbers<I: Clone>(shapes: Dims<I>) -> Vec<I> {
        shapes.dims
    }
}

/// `ConstantOfShape(shape)`.
#[derive(Clone, Copy, Debug)]
pub struct ConstantOfShape {
    /// The number of elements of the shape.
    pub rank: usize,
}

impl ShapeHelper for ConstantOfShape {
    type Shapes<I: Clone> = Dims<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<Dims<P::Index>, Wrong> {
        let dims = p.ints_from_operand_as_symbols(0, self.rank);
        let zero = p.literal(0);
        for size in &dims {
            if p.as_literal(size).is_some_and(|size| size < 0) {
                return wrong("`ConstantOfShape` of a negative size");
            }
            p.require(Cmp::Le, &zero, size, &"`ConstantOfShape`: 0 and a size");
        }
        Ok(dims_only(dims.to_vec()))
    }

    fn numbers<I: Clone>(shapes: Dims<I>) -> Vec<I> {
        shapes.dims
    }
}

/// `Range(start, limit, delta)` of integers.
#[derive(Clone, Copy, Debug)]
pub struct Range;

impl ShapeHelper for Range {
    type Shapes<I: Clone> = Dims<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<Dims<P::Index>, Wrong> {
        let [start, limit, delta] = [0, 1, 2].map(|o| p.int_from_operand_as_symbol(o, 0));
        if p.as_literal(&delta) == Some(0) {
            return wrong("`Range` has a delta of 0");
        }
        let (span, zero) = (p.sub(&limit, &start), p.literal(0));
        let count = p.ceil_div(&span, &delta);
        Ok(dims_only(vec![p.max(&count, &zero)]))
    }

    fn numbers<I: Clone>(shapes: Dims<I>) -> Vec<I> {
        shapes.dims
    }
}

/// `NonZero(data)`. The number of nonzero elements depends on the data; it is operand 1.
#[derive(Clone, Copy, Debug)]
pub struct NonZero {
    /// The number of dimensions of the data.
    pub rank: usize,
}

/// A result whose sizes depend on data, with upper bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded<I> {
    /// The size of each dimension.
    pub dims: Vec<I>,
    /// The upper bound of each size, for which memory is allocated.
    pub bounds: Vec<I>,
}

impl ShapeHelper for NonZero {
    type Shapes<I: Clone> = Bounded<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<Bounded<P::Index>, Wrong> {
        let rank = p.literal(self.rank as i64);
        let most = p.element_count(0, self.rank);
        let count = p.int_from_operand_as_symbol(1, 0);
        p.require(
            Cmp::Le,
            &count,
            &most,
            &"`NonZero`: the count and its bound",
        );
        Ok(Bounded {
            dims: vec![rank.clone(), count],
            bounds: vec![rank, most],
        })
    }

    fn numbers<I: Clone>(shapes: Bounded<I>) -> Vec<I> {
        [shapes.dims, shapes.bounds].concat()
    }
}

/// `Conv` along one spatial dimension, padded to `ceil(size / stride)` positions
/// (`auto_pad` of `SAME_UPPER` or `SAME_LOWER`).
#[derive(Clone, Copy, Debug)]
pub struct SameConvolution {
    /// The distance between window positions.
    pub stride: i64,
    /// The distance between taps.
    pub dilation: i64,
    /// Whether an odd element of padding goes before.
    pub lower: bool,
}

/// A convolution's spatial numbers once padding is normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padded<I> {
    /// The number of positions.
    pub dims: Vec<I>,
    /// Elements added before and after.
    pub pads: [I; 2],
    /// The number of taps, from the kernel's shape.
    pub kernel: I,
}

impl ShapeHelper for SameConvolution {
    type Shapes<I: Clone> = Padded<I>;
    type Error = Wrong;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<Padded<P::Index>, Wrong> {
        if self.stride < 1 || self.dilation < 1 {
            return wrong("`Conv` has a stride or dilation below 1");
        }
        let [stride, dilation, zero, one, two] =
            [self.stride, self.dilation, 0, 1, 2].map(|number| p.literal(number));
        let (size, kernel) = (p.shape_as_dim(0, 0), p.shape_as_dim(1, 0));
        let positions = p.ceil_div(&size, &stride);
        let steps = p.sub(&positions, &one);
        let reach = p.mul(&steps, &stride);
        let gaps = p.sub(&kernel, &one);
        let extent = p.mul(&gaps, &dilation);
        let needed = p.add(&reach, &extent);
        let needed = p.add(&needed, &one);
        let missing = p.sub(&needed, &size);
        let missing = p.max(&missing, &zero);
        let (down, up) = (p.floor_div(&missing, &two), p.ceil_div(&missing, &two));
        Ok(Padded {
            dims: vec![positions],
            pads: if self.lower { [up, down] } else { [down, up] },
            kernel,
        })
    }

    fn numbers<I: Clone>(shapes: Padded<I>) -> Vec<I> {
        let pads = shapes.pads.to_vec();
        [shapes.dims, pads, vec![shapes.kernel]].concat()
    }
}
