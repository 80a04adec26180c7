//! Types of values: MLIR's builtin ones, and those of other dialects by name.

use super::Attribute;
use std::sync::Arc;

/// The interpretation of an integer's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signedness {
    /// `i32`: the operation decides. StableHLO takes it as signed.
    Signless,
    /// `si32`.
    Signed,
    /// `ui32`.
    Unsigned,
}

macro_rules! float_kinds {
    ($($variant:ident $name:literal $bits:literal)*) => {
        /// A floating-point format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FloatKind { $(#[doc = concat!("`", $name, "`")] $variant,)* }

        impl FloatKind {
            /// The name in MLIR text.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The width in bits.
            pub const fn bits(self) -> u32 {
                match self { $(Self::$variant => $bits,)* }
            }

            /// The format of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

float_kinds! {
    BF16 "bf16" 16
    F16 "f16" 16
    F32 "f32" 32
    F64 "f64" 64
    F80 "f80" 80
    F128 "f128" 128
    TF32 "tf32" 19
    F4E2M1FN "f4E2M1FN" 4
    F6E2M3FN "f6E2M3FN" 6
    F6E3M2FN "f6E3M2FN" 6
    F8E3M4 "f8E3M4" 8
    F8E4M3 "f8E4M3" 8
    F8E4M3FN "f8E4M3FN" 8
    F8E5M2 "f8E5M2" 8
    F8E4M3FNUZ "f8E4M3FNUZ" 8
    F8E4M3B11FNUZ "f8E4M3B11FNUZ" 8
    F8E5M2FNUZ "f8E5M2FNUZ" 8
    F8E8M0FNU "f8E8M0FNU" 8
}

/// `(inputs) -> results`.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionType {
    /// Types of the arguments.
    pub inputs: Vec<Type>,
    /// Types of the results.
    pub results: Vec<Type>,
}

/// `tensor<2x?xf32, encoding>`.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorType {
    /// The sizes; [`None`] is `?`.
    pub dims: Vec<Option<i64>>,
    /// The element type.
    pub element: Type,
    /// The encoding, if any; in StableHLO `#stablehlo.bounds<...>`.
    pub encoding: Option<Attribute>,
}

/// `vector<2x[4]xf32>`.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorType {
    /// The sizes.
    pub dims: Vec<i64>,
    /// Which sizes are scalable; empty if none is.
    pub scalable: Vec<bool>,
    /// The element type.
    pub element: Type,
}

/// `memref<2x?xf32, layout, memory space>`.
#[derive(Clone, Debug, PartialEq)]
pub struct MemRefType {
    /// The sizes, where [`None`] is `?`; [`None`] for an unranked type.
    pub dims: Option<Vec<Option<i64>>>,
    /// The element type.
    pub element: Type,
    /// The layout, if it is not the identity.
    pub layout: Option<Attribute>,
    /// The memory space.
    pub space: Option<Attribute>,
}

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// `i32`, `si8`, `ui64`, and `i1` for truth values.
    Integer {
        /// The width in bits.
        width: u32,
        /// The interpretation of the bits.
        signedness: Signedness,
    },
    /// A floating-point type.
    Float(FloatKind),
    /// `index`.
    Index,
    /// `none`.
    None,
    /// `complex<f32>`.
    Complex(Arc<Type>),
    /// A function's type.
    Function(Arc<FunctionType>),
    /// A tensor of known rank.
    Tensor(Arc<TensorType>),
    /// `tensor<*xf32>`.
    UnrankedTensor(Arc<Type>),
    /// `tuple<...>`.
    Tuple(Arc<[Type]>),
    /// A vector.
    Vector(Arc<VectorType>),
    /// A reference to memory.
    MemRef(Arc<MemRefType>),
    /// A type of another dialect, `!dialect.body`, as text.
    Dialect {
        /// The dialect's name.
        dialect: Arc<str>,
        /// The text after the dot.
        body: Arc<str>,
    },
}

impl Type {
    /// `i1`.
    pub const BOOL: Self = Self::signless(1);

    /// `i{width}`.
    pub const fn signless(width: u32) -> Self {
        Self::Integer {
            width,
            signedness: Signedness::Signless,
        }
    }

    /// A type of a dialect.
    pub fn dialect(dialect: &str, body: &str) -> Self {
        Self::Dialect {
            dialect: dialect.into(),
            body: body.into(),
        }
    }

    /// A tensor without an encoding.
    pub fn tensor(dims: Vec<Option<i64>>, element: Self) -> Self {
        Self::Tensor(Arc::new(TensorType {
            dims,
            element,
            encoding: None,
        }))
    }

    /// The tensor, if this is one of known rank.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Whether this is `!stablehlo.token`.
    pub fn is_token(&self) -> bool {
        matches!(self, Self::Dialect { dialect, body }
            if matches!(&**dialect, "stablehlo" | "mhlo") && &**body == "token")
    }

    /// The sizes and the element type of a shaped type of known rank.
    pub fn shaped(&self) -> Option<(Vec<Option<i64>>, &Self)> {
        match self {
            Self::Tensor(tensor) => Some((tensor.dims.clone(), &tensor.element)),
            Self::Vector(vector) => {
                let dims = vector.dims.iter().map(|&dim| Some(dim)).collect();
                Some((dims, &vector.element))
            }
            Self::MemRef(memref) => Some((memref.dims.clone()?, &memref.element)),
            _ => None,
        }
    }

    /// The number of elements of a shaped type; [`None`] if a size is open, or on overflow.
    pub fn element_count(&self) -> Option<u64> {
        let (dims, _) = self.shaped()?;
        dims.iter().try_fold(1_u64, |count, dim| {
            count.checked_mul(u64::try_from((*dim)?).ok()?)
        })
    }

    /// The number of bytes of one element in a dense constant; narrow types take a whole byte.
    pub fn storage_bytes(&self) -> Option<usize> {
        match self {
            Self::Integer { width, .. } => Some((*width as usize).div_ceil(8).next_power_of_two()),
            Self::Float(kind) => Some((kind.bits() as usize).div_ceil(8)),
            Self::Index => Some(8),
            Self::Complex(part) => Some(2 * part.storage_bytes()?),
            _ => None,
        }
    }
}
