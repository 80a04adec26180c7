//! The Cranelift types of scalars, by element type.
//!
//! Integers and `pred` are carried in integers of their storage width, narrower
//! ones sign- or zero-extended; floats of fewer than 32 bits in an f32 that is
//! always exactly one of the type's values; complex numbers in two floats.

use cranelift_codegen::ir::{Type, types};
use smallvec::{SmallVec, smallvec};
use tegula_ir::{Category, ElementType};

/// The Cranelift types that carry one scalar: one, or two for complex types.
pub(crate) fn carrier_types(element_type: ElementType) -> SmallVec<[Type; 2]> {
    match element_type.category() {
        Category::Complex if element_type == ElementType::C64 => smallvec![types::F32; 2],
        Category::Complex => smallvec![types::F64; 2],
        Category::Float if element_type == ElementType::F64 => smallvec![types::F64],
        Category::Float => smallvec![types::F32],
        Category::Boolean | Category::Signed | Category::Unsigned => {
            smallvec![integer_type(element_type.storage_bytes())]
        }
    }
}

/// The types in which an element is stored, in the order of their addresses.
pub(crate) fn stored_types(element_type: ElementType) -> SmallVec<[Type; 2]> {
    match is_narrow_float(element_type) {
        true => smallvec![integer_type(element_type.storage_bytes())],
        false => carrier_types(element_type),
    }
}

/// The integer type of this many bytes.
pub(crate) fn integer_type(bytes: usize) -> Type {
    match bytes {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

/// Whether the type is a float that is carried in a wider one.
pub(crate) fn is_narrow_float(element_type: ElementType) -> bool {
    element_type.is_float() && element_type.bits() < 32
}

/// Whether the type is an integer of fewer bits than its storage.
pub(crate) fn is_sub_byte(element_type: ElementType) -> bool {
    element_type.is_integer() && element_type.bits() < 8
}
