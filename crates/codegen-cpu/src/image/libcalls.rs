//! Functions that generated code calls: transcendental functions, conversions of narrow floats, and
//! a general function for operations that are not open-coded.
//!
//! Each is an `extern "C"` function under a name that the generated code imports. They compute with
//! [`tegula_scalar`], so that all targets agree to the bit.

use cranelift_codegen::ir::{Type, types};
use serde::{Deserialize, Serialize};
use tegula_fusion::kernel::ScalarOp;
use tegula_ir::{Binary, ElementType, Unary};
use tegula_plan::{ScalarOpText, parse_scalar_op};
use tegula_scalar as scalar;

/// A function that generated code can import.
#[derive(Clone, Copy)]
pub(crate) struct Helper {
    /// The imported name.
    pub name: &'static str,
    /// Its address.
    pub address: *const u8,
    /// The types of its arguments.
    pub params: &'static [Type],
    /// The types of its results.
    pub returns: &'static [Type],
}

macro_rules! float_functions {
    ($($op:ident $f32:ident $f64:ident;)*) => {
        $(
            extern "C" fn $f32(x: f32) -> f32 {
                scalar::unary_f32(Unary::$op, x)
            }
            extern "C" fn $f64(x: f64) -> f64 {
                scalar::unary_f64(Unary::$op, x)
            }
        )*

        /// The function for an operation on f32 or f64.
        pub(crate) fn unary_function(op: Unary, double: bool) -> Option<Helper> {
            Some(match (op, double) {
                $(
                    (Unary::$op, false) => Helper {
                        name: stringify!($f32),
                        address: $f32 as *const u8,
                        params: &[types::F32],
                        returns: &[types::F32],
                    },
                    (Unary::$op, true) => Helper {
                        name: stringify!($f64),
                        address: $f64 as *const u8,
                        params: &[types::F64],
                        returns: &[types::F64],
                    },
                )*
                _ => return None,
            })
        }
    };
}

float_functions! {
    Acos acos_f32 acos_f64;
    Acosh acosh_f32 acosh_f64;
    Asin asin_f32 asin_f64;
    Asinh asinh_f32 asinh_f64;
    Atanh atanh_f32 atanh_f64;
    Cbrt cbrt_f32 cbrt_f64;
    Cos cos_f32 cos_f64;
    Cosh cosh_f32 cosh_f64;
    Erf erf_f32 erf_f64;
    Exp exp_f32 exp_f64;
    Expm1 expm1_f32 expm1_f64;
    Log log_f32 log_f64;
    Log1p log1p_f32 log1p_f64;
    Logistic logistic_f32 logistic_f64;
    RoundNearestAfz round_afz_f32 round_afz_f64;
    Sign sign_f32 sign_f64;
    Sin sin_f32 sin_f64;
    Sinh sinh_f32 sinh_f64;
    Tan tan_f32 tan_f64;
    Tanh tanh_f32 tanh_f64;
}

macro_rules! binary_functions {
    ($($op:ident $f32:ident $f64:ident;)*) => {
        $(
            extern "C" fn $f32(a: f32, b: f32) -> f32 {
                scalar::binary_f32(Binary::$op, a, b)
            }
            extern "C" fn $f64(a: f64, b: f64) -> f64 {
                scalar::binary_f64(Binary::$op, a, b)
            }
        )*

        /// The function for an operation on two f32 or f64.
        pub(crate) fn binary_function(op: Binary, double: bool) -> Option<Helper> {
            Some(match (op, double) {
                $(
                    (Binary::$op, false) => Helper {
                        name: stringify!($f32),
                        address: $f32 as *const u8,
                        params: &[types::F32, types::F32],
                        returns: &[types::F32],
                    },
                    (Binary::$op, true) => Helper {
                        name: stringify!($f64),
                        address: $f64 as *const u8,
                        params: &[types::F64, types::F64],
                        returns: &[types::F64],
                    },
                )*
                _ => return None,
            })
        }
    };
}

binary_functions! {
    Atan2 atan2_f32 atan2_f64;
    Power power_f32 power_f64;
    Remainder remainder_f32 remainder_f64;
}

extern "C" fn decode_narrow(element_type: u32, bits: u32) -> f32 {
    scalar::decode_single(narrow_type(element_type), bits)
}

extern "C" fn encode_narrow(element_type: u32, x: f32) -> u32 {
    scalar::encode_single(narrow_type(element_type), x)
}

/// Rounds once from f64.
extern "C" fn encode_narrow_f64(element_type: u32, x: f64) -> u32 {
    scalar::encode_double(narrow_type(element_type), x) as u32
}

fn narrow_type(index: u32) -> ElementType {
    ElementType::ALL
        .get(index as usize)
        .copied()
        .unwrap_or(ElementType::F16)
}

/// The number that identifies a type to the narrow conversions.
pub(crate) fn type_index(element_type: ElementType) -> i64 {
    ElementType::ALL
        .iter()
        .position(|&t| t == element_type)
        .unwrap_or(0) as i64
}

/// Converts bits of a narrow float to f32.
pub(crate) const DECODE_NARROW: Helper = Helper {
    name: "decode_narrow",
    address: decode_narrow as *const u8,
    params: &[types::I32, types::I32],
    returns: &[types::F32],
};

/// Converts f32 to bits of a narrow float.
pub(crate) const ENCODE_NARROW: Helper = Helper {
    name: "encode_narrow",
    address: encode_narrow as *const u8,
    params: &[types::I32, types::F32],
    returns: &[types::I32],
};

/// Converts f64 to bits of a narrow float.
pub(crate) const ENCODE_NARROW_F64: Helper = Helper {
    name: "encode_narrow_f64",
    address: encode_narrow_f64 as *const u8,
    params: &[types::I32, types::F64],
    returns: &[types::I32],
};

/// An operation for the general function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct General {
    /// The operation.
    pub op: ScalarOp,
    /// The first operand's type, or the result's if there is none.
    pub from: ElementType,
    /// The result's type.
    pub to: ElementType,
}

/// The types, followed by the operation as in a kernel's text.
impl From<General> for String {
    fn from(general: General) -> Self {
        let General { op, from, to } = &general;
        format!("{from} {to} {}", ScalarOpText(op))
    }
}

impl TryFrom<String> for General {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut parts = text.splitn(3, ' ');
        let mut part = || parts.next().unwrap_or_default();
        let mut element_type = || {
            let name = part();
            let ty = ElementType::from_name(name);
            ty.ok_or_else(|| format!("unknown element type `{name}`"))
        };
        let (from, to) = (element_type()?, element_type()?);
        let op = parse_scalar_op(part()).map_err(|error| error.to_string())?;
        Ok(Self { op, from, to })
    }
}

impl General {
    /// Applies the operation to raw bits; `None` if the type lacks it.
    pub(crate) fn apply(&self, operands: [u128; 3]) -> Option<u128> {
        let [a, b, c] = operands;
        match &self.op {
            ScalarOp::Unary(op) => scalar::apply_unary(*op, self.from, a),
            ScalarOp::Binary(op) => scalar::apply_binary(*op, self.from, a, b),
            ScalarOp::Compare(direction, order) => {
                scalar::apply_compare(*direction, *order, self.from, a, b)
            }
            ScalarOp::Clamp => scalar::apply_clamp(self.from, a, b, c),
            ScalarOp::Convert => Some(scalar::apply_convert(self.from, self.to, a)),
            ScalarOp::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            } => scalar::apply_reduce_precision(self.from, *exponent_bits, *mantissa_bits, a),
            ScalarOp::BitcastConvert => Some(scalar::apply_bitcast(self.from, self.to, a)),
            ScalarOp::Constant(_) | ScalarOp::Index(_) | ScalarOp::Select => None,
        }
    }
}

/// Applies `operation` to three 16-byte operands; the result replaces the first.
///
/// # Safety
/// `operation` points to a [`General`] and `slots` to three writable `u128`s.
unsafe extern "C" fn apply_general(operation: *const General, slots: *mut u128) {
    // SAFETY: generated code passes the address of a `General` that its
    // executable keeps alive, and a stack slot of three aligned u128s.
    let (operation, slots) = unsafe { (&*operation, &mut *slots.cast::<[u128; 3]>()) };
    // The type was checked to have the operation when the code was generated.
    slots[0] = operation.apply(*slots).unwrap_or(0);
}

/// The general function.
pub(crate) const APPLY_GENERAL: Helper = Helper {
    name: "apply_general",
    address: apply_general as *const u8,
    params: &[types::I64, types::I64],
    returns: &[],
};

/// The address of a helper, by name.
pub(crate) fn lookup(name: &str) -> Option<*const u8> {
    let all = [
        DECODE_NARROW,
        ENCODE_NARROW,
        ENCODE_NARROW_F64,
        APPLY_GENERAL,
    ];
    let unary = Unary::ALL
        .iter()
        .flat_map(|&op| [unary_function(op, false), unary_function(op, true)]);
    let binary = Binary::ALL
        .iter()
        .flat_map(|&op| [binary_function(op, false), binary_function(op, true)]);
    let mut helpers = all.into_iter().chain(unary.chain(binary).flatten());
    helpers
        .find(|helper| helper.name == name)
        .map(|helper| helper.address)
}
