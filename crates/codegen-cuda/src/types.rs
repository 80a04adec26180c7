//! Element types in CUDA C++.
//!
//! An element is *stored* as the bytes that it has in a literal. In a kernel, it is *carried* in a
//! type that the machine can compute with: integers of at most 32 bits in an `int` or `unsigned
//! int` that is wrapped to their width, and floats of fewer than 32 bits as a `float` of the same
//! value.

use tegula_ir::{Category, ElementType, FloatFormat, Specials};

/// The type of an element in memory.
pub(crate) fn storage(ty: ElementType) -> &'static str {
    match (ty.category(), ty.storage_bytes()) {
        (Category::Boolean, _) => "unsigned char",
        (Category::Signed, 1) => "signed char",
        (Category::Signed, 2) => "short",
        (Category::Signed, 4) => "int",
        (Category::Signed, _) => "long long",
        (Category::Unsigned | Category::Float, 1) => "unsigned char",
        (Category::Unsigned | Category::Float, 2) => "unsigned short",
        (Category::Unsigned, 4) => "unsigned int",
        (Category::Unsigned, _) => "unsigned long long",
        (Category::Float, 4) => "float",
        (Category::Float, _) => "double",
        (Category::Complex, 8) => "tegula_c64",
        (Category::Complex, _) => "tegula_c128",
    }
}

/// The type of a scalar in a kernel.
pub(crate) fn carrier(ty: ElementType) -> &'static str {
    match ty.category() {
        Category::Boolean => "bool",
        Category::Signed if ty.bits() <= 32 => "int",
        Category::Unsigned if ty.bits() <= 32 => "unsigned int",
        Category::Float if ty.bits() <= 32 => "float",
        _ => storage(ty),
    }
}

/// Whether a type is a float that is carried as a wider one.
pub(crate) fn is_narrow_float(ty: ElementType) -> bool {
    ty.is_float() && ty.bits() < 32
}

/// Converts a stored element to its carrier type.
pub(crate) fn load(ty: ElementType, stored: &str) -> String {
    match ty {
        ElementType::Pred => format!("({stored} != 0)"),
        ElementType::BF16 => format!("__int_as_float((int)((unsigned int){stored} << 16))"),
        ElementType::F16 => format!("tegula_f16_to_f32({stored})"),
        _ if is_narrow_float(ty) => format!("tegula_decode<{}>({stored})", format_of(ty)),
        _ if carrier(ty) != storage(ty) => format!("({}){stored}", carrier(ty)),
        _ => stored.to_owned(),
    }
}

/// Converts a carried scalar to the stored element.
pub(crate) fn store(ty: ElementType, carried: &str) -> String {
    match ty {
        ElementType::Pred => format!("(unsigned char)({carried} ? 1 : 0)"),
        ElementType::BF16 => format!("tegula_f32_to_bf16({carried})"),
        ElementType::F16 => format!("tegula_f32_to_f16({carried})"),
        _ if is_narrow_float(ty) => {
            format!("(unsigned char)tegula_encode<{}>({carried})", format_of(ty))
        }
        _ if carrier(ty) != storage(ty) => format!("({}){carried}", storage(ty)),
        _ => carried.to_owned(),
    }
}

/// Rounds a float to a type that is carried as a wider one.
pub(crate) fn rounded(ty: ElementType, value: &str) -> String {
    if !is_narrow_float(ty) {
        return value.to_owned();
    }
    let stored = store(ty, value);
    load(ty, &stored)
}

/// Wraps an integer expression, which has at least the type's width and is unsigned or cannot
/// overflow, to the type's width.
pub(crate) fn wrapped(ty: ElementType, value: &str) -> String {
    let (bits, signed) = (ty.bits(), ty.is_signed());
    match (bits, signed) {
        (64, true) => format!("(long long)({value})"),
        (32, true) => format!("(int)({value})"),
        (16, true) => format!("(int)(short)({value})"),
        (8, true) => format!("(int)(signed char)({value})"),
        (_, true) => format!("((int)((unsigned int)({value}) << {0}) >> {0})", 32 - bits),
        (64, false) => format!("(unsigned long long)({value})"),
        (32, false) => format!("(unsigned int)({value})"),
        (_, false) => format!("((unsigned int)({value}) & {:#x}u)", (1u64 << bits) - 1),
    }
}

/// A constant's text, from its stored bits.
pub(crate) fn constant(ty: ElementType, bits: u128) -> String {
    match ty {
        ElementType::Pred => (bits & 0xff != 0).to_string(),
        ElementType::F64 => double(bits as u64),
        ElementType::C64 => format!(
            "tegula_complex({}, {})",
            single(f32::from_bits(bits as u32)),
            single(f32::from_bits((bits >> 32) as u32))
        ),
        ElementType::C128 => format!(
            "tegula_complex({}, {})",
            double(bits as u64),
            double((bits >> 64) as u64)
        ),
        _ if ty.is_float() => single(tegula_scalar::decode_single(ty, bits as u32)),
        _ if ty.is_signed() => {
            let value = tegula_scalar::wrap_signed(bits as i64, ty.bits());
            match (ty.bits(), value) {
                (64, value) => crate::terms::literal(value, true),
                (_, value) => crate::terms::literal(value, false),
            }
        }
        _ => {
            let value = tegula_scalar::wrap_unsigned(bits as u64, ty.bits());
            let suffix = if ty.bits() == 64 { "ull" } else { "u" };
            format!("{value}{suffix}")
        }
    }
}

/// The shortest text that parses to the number; numbers that are not finite are written by their
/// bits.
fn single(value: f32) -> String {
    if value.is_finite() {
        format!("{value:?}f")
    } else {
        format!("__int_as_float({:#x})", value.to_bits())
    }
}

fn double(bits: u64) -> String {
    let value = f64::from_bits(bits);
    if value.is_finite() {
        format!("{value:?}")
    } else {
        format!("__longlong_as_double({bits:#x}ll)")
    }
}

/// The stored bits of a scalar, as an expression of an unsigned integer type.
pub(crate) fn stored_bits(ty: ElementType, carried: &str) -> Option<String> {
    Some(match ty {
        ElementType::F32 => format!("(unsigned int)__float_as_int({carried})"),
        ElementType::F64 => format!("(unsigned long long)__double_as_longlong({carried})"),
        ElementType::C64 | ElementType::C128 => return None,
        _ if ty.is_float() => format!("(unsigned int){}", store(ty, carried)),
        _ if ty.bits() == 64 => format!("(unsigned long long)({carried})"),
        _ => format!("(unsigned int)({carried})"),
    })
}

/// Converts stored bits in an unsigned integer to a carried scalar.
pub(crate) fn of_stored_bits(ty: ElementType, bits: &str) -> Option<String> {
    Some(match ty {
        ElementType::Pred => format!("(({bits} & 0xff) != 0)"),
        ElementType::F32 => format!("__int_as_float((int)({bits}))"),
        ElementType::F64 => format!("__longlong_as_double((long long)({bits}))"),
        ElementType::C64 | ElementType::C128 => return None,
        _ if ty.is_float() => {
            let stored = format!("(({})({bits}))", storage(ty));
            load(ty, &stored)
        }
        _ => wrapped(ty, bits),
    })
}

/// The template arguments that describe a narrow float's format.
pub(crate) fn format_of(ty: ElementType) -> String {
    let format = ty.float_format().unwrap_or(FloatFormat {
        exponent_bits: 8,
        mantissa_bits: 23,
        bias: 127,
        specials: Specials::Ieee,
    });
    let specials = match format.specials {
        Specials::Ieee => 0,
        Specials::NanOnly => 1,
        Specials::FiniteOnly => 2,
        Specials::UnsignedZero => 3,
        Specials::ExponentOnly => 4,
    };
    format!(
        "{}, {}, {}, {specials}",
        format.exponent_bits, format.mantissa_bits, format.bias
    )
}
