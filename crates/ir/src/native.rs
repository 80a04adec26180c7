//! Literals as slices of Rust's number types.

use crate::{ArrayShape, ElementType, Literal, LiteralError};
use half::{bf16, f16};
use num_complex::{Complex32, Complex64};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that has the same bytes as an element type.
///
/// `u8` represents the element type `u8`, and as 0 and 1 also `pred`; a literal made from `u8`
/// values has the type `u8`.
///
/// # Safety
/// Every bit pattern is a valid value, there is no padding, and the size is the
/// element type's [`ElementType::storage_bytes`]. The trait is sealed.
pub unsafe trait NativeType:
    sealed::Sealed + Copy + PartialEq + Send + Sync + 'static
{
    /// The element type.
    const ELEMENT_TYPE: ElementType;

    /// Whether elements of `ty` can be seen as this type.
    fn stores(ty: ElementType) -> bool {
        ty == Self::ELEMENT_TYPE
    }
}

macro_rules! native {
    ($($native:ty => $variant:ident)*) => { $(
        impl sealed::Sealed for $native {}
        // SAFETY: a plain number, or a `repr(C)` pair of them, with the size of the element type;
        // the test `sizes` checks the sizes.
        unsafe impl NativeType for $native {
            const ELEMENT_TYPE: ElementType = ElementType::$variant;
        }
    )* };
}

native! {
    i8 => S8
    i16 => S16
    i32 => S32
    i64 => S64
    u16 => U16
    u32 => U32
    u64 => U64
    f16 => F16
    bf16 => BF16
    f32 => F32
    f64 => F64
    Complex32 => C64
    Complex64 => C128
}

impl sealed::Sealed for u8 {}
// SAFETY: one byte, as elements of `u8` and `pred` are.
unsafe impl NativeType for u8 {
    const ELEMENT_TYPE: ElementType = ElementType::U8;

    fn stores(ty: ElementType) -> bool {
        matches!(ty, ElementType::U8 | ElementType::Pred)
    }
}

impl Literal {
    /// A literal of these dimensions from its row-major elements.
    pub fn from_values<T: NativeType>(dims: &[i64], values: &[T]) -> Result<Self, LiteralError> {
        Self::from_bytes(&ArrayShape::new(T::ELEMENT_TYPE, dims), as_bytes(values))
    }

    /// A scalar.
    pub fn from_value<T: NativeType>(value: T) -> Self {
        let mut bytes = crate::AlignedBytes::zeroed(size_of::<T>());
        bytes.as_mut_slice().copy_from_slice(as_bytes(&[value]));
        Self::from_parts(&ArrayShape::new(T::ELEMENT_TYPE, &[]), bytes)
    }

    /// The elements, row-major, if they are of this type.
    pub fn values<T: NativeType>(&self) -> Option<&[T]> {
        if !T::stores(self.element_type()) {
            return None;
        }
        let bytes = self.bytes();
        // SAFETY: the bytes are aligned for every type, their number is a multiple of the element's
        // size, and `NativeType` promises that any bit pattern is a valid value.
        Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), self.len()) })
    }

    /// The elements for writing, row-major, if they are of this type; copied
    /// first if shared.
    pub fn values_mut<T: NativeType>(&mut self) -> Option<&mut [T]> {
        if !T::stores(self.element_type()) {
            return None;
        }
        let len = self.len();
        let bytes = self.bytes_mut();
        // SAFETY: the bytes are aligned for every type, their number is a multiple of the element's
        // size, any bit pattern is a valid value, and `self` is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
    }

    /// A `pred` literal of these dimensions.
    pub fn from_bools(dims: &[i64], values: &[bool]) -> Result<Self, LiteralError> {
        let bytes: Vec<u8> = values.iter().map(|&value| u8::from(value)).collect();
        Self::from_bytes(&ArrayShape::new(ElementType::Pred, dims), &bytes)
    }
}

fn as_bytes<T: NativeType>(values: &[T]) -> &[u8] {
    // SAFETY: `NativeType` promises that the values have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

macro_rules! shorthands {
    ($($from:ident $view:ident $native:ty;)*) => {
        impl Literal { $(
            #[doc = concat!("[`Literal::from_values`] of `", stringify!($native), "`.")]
            pub fn $from(dims: &[i64], values: &[$native]) -> Result<Self, LiteralError> {
                Self::from_values(dims, values)
            }

            #[doc = concat!("[`Literal::values`] of `", stringify!($native), "`.")]
            pub fn $view(&self) -> Option<&[$native]> {
                self.values()
            }
        )* }
    };
}

shorthands! {
    from_f32s as_f32s f32;
    from_f64s as_f64s f64;
    from_f16s as_f16s f16;
    from_bf16s as_bf16s bf16;
    from_i8s as_i8s i8;
    from_i16s as_i16s i16;
    from_i32s as_i32s i32;
    from_i64s as_i64s i64;
    from_u8s as_u8s u8;
    from_u16s as_u16s u16;
    from_u32s as_u32s u32;
    from_u64s as_u64s u64;
    from_c64s as_c64s Complex32;
    from_c128s as_c128s Complex64;
}
