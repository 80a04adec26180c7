//! Shapes: the types of instructions' results.

use crate::{ElementType, Layout};
use smallvec::SmallVec;
use tegula_expr::Term;

/// The size of one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Known: `8`.
    Static(i64),
    /// A term over the module's symbols; prints as `?`.
    Symbolic(Term),
    /// `<=bound`: a buffer of `bound` elements, of which `size` are in use.
    Bounded {
        /// The size of the buffer.
        bound: i64,
        /// The size in use, a term over the module's symbols.
        size: Term,
    },
}

impl Dim {
    /// The size, if it is known.
    pub fn as_static(&self) -> Option<i64> {
        match self {
            Self::Static(size) => Some(*size),
            Self::Symbolic(term) => term.as_constant(),
            Self::Bounded { .. } => None,
        }
    }

    /// The size if it is static, otherwise an estimate for cost models: the value of the term if
    /// every symbol is 64. A size that depends on its symbols counts as at least 16, because after
    /// several strides nothing would be left of a signal of 64 elements, and real signals are
    /// longer.
    pub fn representative(&self) -> i64 {
        const SYMBOL: i64 = 64;
        const LARGE_SYMBOL: i64 = 1 << 20;
        const LEAST: i64 = 16;
        match self {
            Self::Static(size) => *size,
            Self::Symbolic(size) | Self::Bounded { size, .. } => {
                let with = |symbol| size.eval(&|_| Some(symbol)).unwrap_or(SYMBOL);
                match with(SYMBOL) {
                    small if small < LEAST => with(LARGE_SYMBOL).clamp(small, LEAST),
                    usual => usual,
                }
            }
        }
    }

    /// The logical size as a term.
    pub fn term(&self) -> Term {
        match self {
            Self::Static(size) => Term::constant(*size),
            Self::Symbolic(size) | Self::Bounded { size, .. } => size.clone(),
        }
    }
}

impl From<i64> for Dim {
    fn from(size: i64) -> Self {
        Self::Static(size)
    }
}

/// The sizes of an array's dimensions, dimension 0 first.
pub type Dims = SmallVec<[Dim; 4]>;

/// An array's element type, dimensions and (if given) layout.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// The type of the elements.
    pub element_type: ElementType,
    /// The size of each dimension.
    pub dims: Dims,
    /// The layout, if the program states one.
    pub layout: Option<Box<Layout>>,
}

impl ArrayShape {
    /// An array of static dimensions with no stated layout.
    pub fn new(element_type: ElementType, dims: &[i64]) -> Self {
        Self {
            element_type,
            dims: dims.iter().map(|&size| Dim::Static(size)).collect(),
            layout: None,
        }
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The *true number of dimensions*: how many are symbolic or have a size greater than 1.
    pub fn true_rank(&self) -> usize {
        let counts = |dim: &&Dim| dim.as_static().is_none_or(|size| size > 1);
        self.dims.iter().filter(counts).count()
    }

    /// The size of a dimension; a negative number counts from the end, with -1 for the last one.
    pub fn dimension(&self, number: i64) -> Option<&Dim> {
        let rank = i64::try_from(self.rank()).ok()?;
        let number = if number < 0 {
            number.checked_add(rank)?
        } else {
            number
        };
        self.dims.get(usize::try_from(number).ok()?)
    }

    /// All sizes, if all are static.
    pub fn static_dims(&self) -> Option<SmallVec<[i64; 6]>> {
        self.dims.iter().map(Dim::as_static).collect()
    }

    /// The same array with an estimate in place of each size that is known only at run time; see
    /// [`Dim::representative`].
    #[must_use]
    pub fn representative(&self) -> Self {
        Self {
            dims: self
                .dims
                .iter()
                .map(|dim| Dim::Static(dim.representative()))
                .collect(),
            ..self.clone()
        }
    }

    /// The number of elements, if every size is static and the product does not overflow.
    pub fn element_count(&self) -> Option<i64> {
        self.dims
            .iter()
            .try_fold(1i64, |product, dim| product.checked_mul(dim.as_static()?))
    }

    /// The number of bytes of a dense host buffer of this shape, if it is known and does not
    /// overflow.
    pub fn byte_size(&self) -> Option<i64> {
        self.element_count()?
            .checked_mul(self.element_type.storage_bytes() as i64)
    }

    /// [`Self::byte_size`] as a term over the module's symbols, if the product of the static sizes
    /// does not overflow.
    pub fn byte_size_term(&self) -> Option<Term> {
        let bytes = self.element_type.storage_bytes() as i64;
        if self.dims.iter().all(|dim| matches!(dim, Dim::Static(_))) {
            return self.byte_size().map(Term::constant);
        }
        let bytes = Term::constant(bytes);
        Some(
            self.dims
                .iter()
                .fold(bytes, |product, dim| product.mul(&dim.term())),
        )
    }

    /// Whether element types and dimensions are equal; layouts are not compared.
    pub fn same_ignoring_layout(&self, other: &Self) -> bool {
        self.element_type == other.element_type && self.dims == other.dims
    }

    /// The same dimensions with another element type and no stated layout.
    pub fn with_element_type(&self, element_type: ElementType) -> Self {
        Self {
            element_type,
            dims: self.dims.clone(),
            layout: None,
        }
    }
}

/// The type of an instruction's result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// An array.
    Array(ArrayShape),
    /// A tuple of shapes.
    Tuple(Vec<Shape>),
    /// `token[]`: orders side effects.
    Token,
    /// `opaque[]`: a value that the compiler does not inspect.
    Opaque,
    /// `b(shape)`: a buffer that instructions update in place.
    Buffer(Box<Shape>),
}

impl Shape {
    /// An array of static dimensions with no stated layout.
    pub fn array(element_type: ElementType, dims: &[i64]) -> Self {
        Self::Array(ArrayShape::new(element_type, dims))
    }

    /// The array, if this is one.
    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The elements, if this is a tuple.
    pub fn as_tuple(&self) -> Option<&[Self]> {
        match self {
            Self::Tuple(elements) => Some(elements),
            _ => None,
        }
    }

    /// Calls `visit` with each leaf (anything but a tuple), left to right.
    pub fn for_each_leaf<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        match self {
            Self::Tuple(elements) => elements.iter().for_each(|e| e.for_each_leaf(visit)),
            leaf => visit(leaf),
        }
    }

    /// The number of leaves.
    pub fn leaf_count(&self) -> usize {
        let mut count = 0;
        self.for_each_leaf(&mut |_| count += 1);
        count
    }

    /// Whether the shapes are equal; layouts are not compared.
    pub fn same_ignoring_layout(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => a.same_ignoring_layout(b),
            (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_ignoring_layout(b))
            }
            (Self::Buffer(a), Self::Buffer(b)) => a.same_ignoring_layout(b),
            (a, b) => a == b,
        }
    }

    /// Whether the shapes can be equal: sizes that are known on both sides do not differ. Layouts
    /// are not compared.
    pub fn may_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => {
                let sizes = a.dims.iter().zip(&b.dims);
                let sizes = sizes.map(|(a, b)| (a.as_static(), b.as_static()));
                a.element_type == b.element_type
                    && a.rank() == b.rank()
                    && !sizes
                        .into_iter()
                        .any(|sizes| matches!(sizes, (Some(a), Some(b)) if a != b))
            }
            (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.may_equal(b))
            }
            (Self::Buffer(a), Self::Buffer(b)) => a.may_equal(b),
            (a, b) => a == b,
        }
    }
}
