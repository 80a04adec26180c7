//! Types of values in a kernel.

use std::fmt;
pub use tegula_stablehlo::mlir::FloatKind;

/// The type of an element of a vector or a memory, or of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// An integer of this many bits; 1 bit is a truth value. Operations determine the signedness.
    Int(u8),
    /// An array index: 32 bits on the machine.
    Index,
    /// A floating-point number.
    Float(FloatKind),
}

impl Element {
    /// `i1`.
    pub const BOOL: Self = Self::Int(1);
    /// `i32`.
    pub const I32: Self = Self::Int(32);
    /// `f32`.
    pub const F32: Self = Self::Float(FloatKind::F32);

    /// The width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Int(bits) => u32::from(bits),
            Self::Index => 32,
            Self::Float(kind) => kind.bits(),
        }
    }

    /// Whether it is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float(_))
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(bits) => write!(f, "i{bits}"),
            Self::Index => f.write_str("index"),
            Self::Float(kind) => f.write_str(kind.name()),
        }
    }
}

/// A vector: an array of logical shape in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorType {
    /// The sizes.
    pub dims: Vec<i64>,
    /// The elements' type.
    pub element: Element,
}

/// The contents of a memory reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Numbers.
    Data(Element),
    /// Semaphores that count signals.
    Semaphore,
    /// Semaphores that count copied bytes.
    DmaSemaphore,
}

/// The memory that a reference is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySpace {
    /// Any memory, chosen by the compiler: HBM, for an argument.
    Any,
    /// The device's large memory.
    Hbm,
    /// The core's vector memory.
    Vmem,
    /// The core's scalar memory.
    Smem,
    /// The memory that the cores of some chips share.
    Cmem,
    /// The semaphores' memory.
    Semaphore,
    /// The host's memory.
    Host,
}

impl MemorySpace {
    /// The space with a name, in `#tpu.memory_space<NAME>`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "any" => Self::Any,
            "hbm" => Self::Hbm,
            "vmem" => Self::Vmem,
            "smem" => Self::Smem,
            "cmem" => Self::Cmem,
            "semaphore_mem" => Self::Semaphore,
            "host" => Self::Host,
            _ => return None,
        })
    }
}

/// A reference to an array in a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemRefType {
    /// The sizes. A size that is known only at run time is [`None`].
    pub dims: Vec<Option<i64>>,
    /// The contents.
    pub item: Item,
    /// The memory space.
    pub space: MemorySpace,
}

impl MemRefType {
    /// The sizes, if all are known.
    pub fn static_dims(&self) -> Option<Vec<i64>> {
        self.dims.iter().copied().collect()
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number in the scalar unit.
    Scalar(Element),
    /// A vector.
    Vector(VectorType),
    /// A reference to memory.
    MemRef(MemRefType),
}

impl Type {
    /// The element type of a scalar or a vector.
    pub fn element(&self) -> Option<Element> {
        match self {
            Self::Scalar(element) => Some(*element),
            Self::Vector(vector) => Some(vector.element),
            Self::MemRef(_) => None,
        }
    }

    /// The vector type, if this is one.
    pub fn as_vector(&self) -> Option<&VectorType> {
        match self {
            Self::Vector(vector) => Some(vector),
            _ => None,
        }
    }

    /// The scalar's type, if this is one.
    pub fn as_scalar(&self) -> Option<Element> {
        match self {
            Self::Scalar(element) => Some(*element),
            _ => None,
        }
    }

    /// The memory reference, if this is one.
    pub fn as_memref(&self) -> Option<&MemRefType> {
        match self {
            Self::MemRef(memref) => Some(memref),
            _ => None,
        }
    }

    /// The sizes; empty for a scalar.
    pub fn dims(&self) -> &[i64] {
        match self {
            Self::Vector(vector) => &vector.dims,
            _ => &[],
        }
    }
}

fn shaped(f: &mut fmt::Formatter<'_>, dims: impl Iterator<Item = String>) -> fmt::Result {
    for dim in dims {
        write!(f, "{dim}x")?;
    }
    Ok(())
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(element) => write!(f, "{element}"),
            Self::Vector(vector) => {
                f.write_str("vector<")?;
                shaped(f, vector.dims.iter().map(ToString::to_string))?;
                write!(f, "{}>", vector.element)
            }
            Self::MemRef(memref) => {
                f.write_str("memref<")?;
                let dim = |dim: &Option<i64>| dim.map_or("?".to_owned(), |dim| dim.to_string());
                shaped(f, memref.dims.iter().map(dim))?;
                match memref.item {
                    Item::Data(element) => write!(f, "{element}>"),
                    Item::Semaphore => f.write_str("!tpu.semaphore>"),
                    Item::DmaSemaphore => f.write_str("!tpu.dma_semaphore>"),
                }
            }
        }
    }
}
