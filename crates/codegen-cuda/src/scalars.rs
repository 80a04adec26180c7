//! Scalar operations: turns an HLO elementwise operation into a C expression.
//!
//! Operands are names of scalars in their carrier type (see `types`), so they may occur several
//! times. Each result is rounded or wrapped to its type.

use crate::error::Error;
use crate::types::{
    carrier, constant, format_of, is_narrow_float, of_stored_bits, rounded, stored_bits, wrapped,
};
use tegula_fusion::kernel::ScalarOp;
use tegula_ir::{Binary, Category, Direction, ElementType, Order, Unary};

/// An operation with its types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    /// The operation.
    pub op: &'a ScalarOp,
    /// The first operand's type.
    pub from: ElementType,
    /// The result's type.
    pub to: ElementType,
}

impl Operation<'_> {
    /// The expression of the result. For an index, the only operand is its value, computed earlier
    /// as a `long long` or `int`.
    ///
    /// # Errors
    /// The type lacks the operation.
    pub(crate) fn expression(&self, operands: &[&str]) -> Result<String, Error> {
        let found = self.find(operands);
        found.ok_or_else(|| Error::NoSuchOperation {
            op: self.describe(),
            element_type: self.from,
        })
    }

    fn describe(&self) -> String {
        match self.op {
            ScalarOp::Unary(op) => op.opcode().to_string(),
            ScalarOp::Binary(op) => op.opcode().to_string(),
            other => format!("{other:?}"),
        }
    }

    fn find(&self, operands: &[&str]) -> Option<String> {
        let (from, to) = (self.from, self.to);
        let at = |i: usize| operands.get(i).copied();
        match self.op {
            ScalarOp::Constant(bits) => Some(constant(to, *bits)),
            ScalarOp::Index(_) => convert(ElementType::S64, to, at(0)?),
            ScalarOp::Unary(op) => unary(*op, from, at(0)?),
            ScalarOp::Binary(op) => binary(*op, from, at(0)?, at(1)?),
            ScalarOp::Compare(direction, order) => {
                compare(*direction, *order, from, at(0)?, at(1)?)
            }
            ScalarOp::Select => Some(format!("({} ? {} : {})", at(0)?, at(1)?, at(2)?)),
            ScalarOp::Clamp => {
                let raised = binary(Binary::Maximum, from, at(0)?, at(1)?)?;
                binary(Binary::Minimum, from, &raised, at(2)?)
            }
            ScalarOp::Convert => convert(from, to, at(0)?),
            ScalarOp::BitcastConvert => bitcast(from, to, at(0)?),
            ScalarOp::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            } => reduce_precision(from, *exponent_bits, *mantissa_bits, at(0)?),
        }
    }
}

// ---- one operand -----------------------------------------------------------

fn unary(op: Unary, ty: ElementType, x: &str) -> Option<String> {
    match ty.category() {
        Category::Boolean => match op {
            Unary::Not => Some(format!("!{x}")),
            Unary::Abs | Unary::Real | Unary::Sign => Some(x.to_owned()),
            _ => None,
        },
        Category::Signed | Category::Unsigned => integer_unary(op, ty, x),
        Category::Float => float_unary(op, ty, x),
        Category::Complex => complex_unary(op, ty, x),
    }
}

fn integer_unary(op: Unary, ty: ElementType, x: &str) -> Option<String> {
    let (bits, signed) = (ty.bits(), ty.is_signed());
    let (unsigned, long) = match bits {
        64 => ("unsigned long long", "ll"),
        _ => ("unsigned int", ""),
    };
    let own_bits = match bits {
        64 | 32 => format!("({unsigned}){x}"),
        _ => format!("((unsigned int){x} & {:#x}u)", (1u64 << bits) - 1),
    };
    let wide = bits.max(32);
    let value = match op {
        Unary::Abs if signed => {
            format!("({x} < 0 ? ({unsigned})0 - ({unsigned}){x} : ({unsigned}){x})")
        }
        Unary::Abs | Unary::Real => return Some(x.to_owned()),
        Unary::Negate => format!("({unsigned})0 - ({unsigned}){x}"),
        Unary::Not => format!("~{x}"),
        Unary::Sign if signed => format!("({x} > 0) - ({x} < 0)"),
        Unary::Sign => format!("({x} != 0)"),
        Unary::Popcnt => format!("__popc{long}({own_bits})"),
        Unary::CountLeadingZeros if bits == 64 => format!("__clzll((long long){x})"),
        Unary::CountLeadingZeros => format!("__clz((int){own_bits}) - {}", wide - bits),
        Unary::Imag => "0".to_owned(),
        _ => return None,
    };
    Some(wrapped(ty, &value))
}

/// The CUDA function of an operation on `float`; the name for `double` lacks the `f`.
fn function(op: Unary) -> Option<&'static str> {
    Some(match op {
        Unary::Abs => "fabsf",
        Unary::Ceil => "ceilf",
        Unary::Floor => "floorf",
        Unary::RoundNearestAfz => "roundf",
        Unary::RoundNearestEven => "rintf",
        Unary::Sqrt => "sqrtf",
        Unary::Acos => "acosf",
        Unary::Acosh => "acoshf",
        Unary::Asin => "asinf",
        Unary::Asinh => "asinhf",
        Unary::Atanh => "atanhf",
        Unary::Cbrt => "cbrtf",
        Unary::Cosh => "coshf",
        Unary::Erf => "erff",
        Unary::Exp => "expf",
        Unary::Expm1 => "expm1f",
        Unary::Log => "logf",
        Unary::Log1p => "log1pf",
        Unary::Rsqrt => "rsqrtf",
        Unary::Sinh => "sinhf",
        Unary::Tanh => "tanhf",
        _ => return None,
    })
}

fn float_unary(op: Unary, ty: ElementType, x: &str) -> Option<String> {
    let double = ty == ElementType::F64;
    let value = match op {
        Unary::Real => return Some(x.to_owned()),
        Unary::Imag => if double { "0.0" } else { "0.0f" }.to_owned(),
        Unary::Negate => format!("-{x}"),
        Unary::IsFinite => {
            let infinity = match double {
                true => "__longlong_as_double(0x7ff0000000000000ll)",
                false => "__int_as_float(0x7f800000)",
            };
            let abs = if double { "fabs" } else { "fabsf" };
            return Some(format!("({abs}({x}) < {infinity})"));
        }
        Unary::Sign | Unary::Logistic => {
            let name = if op == Unary::Sign {
                "sign"
            } else {
                "logistic"
            };
            format!("tegula_{name}({x})")
        }
        // Subnormal numbers become zeros, as on every target.
        Unary::Exp if !double => format!("tegula_flushed(expf({x}))"),
        Unary::Erf if !double => format!("erff(tegula_flushed({x}))"),
        // CUDA's own functions use an array in local memory.
        Unary::Sin | Unary::Cos | Unary::Tan => {
            let name = match op {
                Unary::Sin => "sin",
                Unary::Cos => "cos",
                _ => "tan",
            };
            format!("tegula_{name}({x})")
        }
        // The hardware's approximation has only half of a double's bits.
        Unary::Rsqrt if double => format!("(1.0 / sqrt({x}))"),
        _ => {
            let name = function(op)?;
            let name = if double {
                &name[..name.len() - 1]
            } else {
                name
            };
            format!("{name}({x})")
        }
    };
    Some(rounded(ty, &value))
}

fn complex_unary(op: Unary, ty: ElementType, x: &str) -> Option<String> {
    let single = ty == ElementType::C64;
    let part = if single { "float" } else { "double" };
    let name = match op {
        Unary::Real => return Some(format!("{x}.re")),
        Unary::Imag => return Some(format!("{x}.im")),
        Unary::Negate => return Some(format!("tegula_negate({x})")),
        Unary::Abs => return Some(format!("({part})hypot((double){x}.re, (double){x}.im)")),
        Unary::Sign => "sign",
        Unary::Exp => "exp",
        Unary::Expm1 => "expm1",
        Unary::Log => "log",
        Unary::Log1p => "log1p",
        Unary::Logistic => "logistic",
        Unary::Sqrt => "sqrt",
        Unary::Rsqrt => "rsqrt",
        Unary::Cbrt => "cbrt",
        Unary::Sin => "sin",
        Unary::Cos => "cos",
        Unary::Tan => "tan",
        Unary::Tanh => "tanh",
        Unary::Sinh => "sinh",
        Unary::Cosh => "cosh",
        Unary::Asin => "asin",
        Unary::Acos => "acos",
        Unary::Asinh => "asinh",
        Unary::Acosh => "acosh",
        Unary::Atanh => "atanh",
        _ => return None,
    };
    Some(format!(
        "tegula_as<{}>(tegula_c_{name}(tegula_widen({x})))",
        carrier(ty)
    ))
}

// ---- two operands ----------------------------------------------------------

fn binary(op: Binary, ty: ElementType, a: &str, b: &str) -> Option<String> {
    if op == Binary::Complex {
        return matches!(ty, ElementType::F32 | ElementType::F64)
            .then(|| format!("tegula_complex({a}, {b})"));
    }
    match ty.category() {
        Category::Boolean => match op {
            Binary::Add | Binary::Maximum | Binary::Or => Some(format!("({a} | {b})")),
            Binary::Multiply | Binary::Minimum | Binary::And => Some(format!("({a} & {b})")),
            Binary::Xor | Binary::Subtract => Some(format!("({a} != {b})")),
            _ => None,
        },
        Category::Signed | Category::Unsigned => integer_binary(op, ty, a, b),
        Category::Float => float_binary(op, ty, a, b),
        Category::Complex => complex_binary(op, ty, a, b),
    }
}

fn integer_binary(op: Binary, ty: ElementType, a: &str, b: &str) -> Option<String> {
    let (bits, signed) = (ty.bits(), ty.is_signed());
    let unsigned = if bits == 64 {
        "unsigned long long"
    } else {
        "unsigned int"
    };
    let raw = |x: &str| match bits {
        32 | 64 => format!("({unsigned})({x})"),
        _ => format!("((unsigned int)({x}) & {:#x}u)", (1u64 << bits) - 1),
    };
    let sign = |symbol: char| format!("({unsigned})({a}) {symbol} ({unsigned})({b})");
    let ordered = |symbol: char| format!("({a} {symbol} {b} ? {a} : {b})");
    let value = match op {
        Binary::Add => sign('+'),
        Binary::Subtract => sign('-'),
        Binary::Multiply => sign('*'),
        Binary::And => return Some(format!("({a} & {b})")),
        Binary::Or => return Some(format!("({a} | {b})")),
        Binary::Xor => format!("{a} ^ {b}"),
        // The operands may be expressions, for example in a clamp.
        Binary::Maximum | Binary::Minimum => {
            let name = if op == Binary::Maximum { "max" } else { "min" };
            let simple = |x: &str| x.bytes().all(|c| c.is_ascii_alphanumeric());
            return Some(match simple(a) && simple(b) {
                true => ordered(if op == Binary::Maximum { '>' } else { '<' }),
                false => format!("tegula_{name}({a}, {b})"),
            });
        }
        Binary::Mulhi => match (bits, signed) {
            (64, true) => format!("__mul64hi({a}, {b})"),
            (64, false) => format!("__umul64hi({a}, {b})"),
            (32, true) => format!("__mulhi({a}, {b})"),
            (32, false) => format!("__umulhi({a}, {b})"),
            _ => format!("({a} * {b}) >> {bits}"),
        },
        Binary::Divide | Binary::Remainder => {
            let name = if op == Binary::Divide {
                "divide"
            } else {
                "remainder"
            };
            format!("tegula_{name}({a}, {b})")
        }
        Binary::ShiftLeft | Binary::ShiftRightLogical => {
            let side = if op == Binary::ShiftLeft {
                "left"
            } else {
                "right"
            };
            format!("tegula_shift_{side}({}, {}, {bits}u)", raw(a), raw(b))
        }
        Binary::ShiftRightArithmetic => {
            let signed_ty = if bits == 64 { "long long" } else { "int" };
            let value = match (signed, bits) {
                (true, _) => a.to_owned(),
                (false, 32 | 64) => format!("({signed_ty})({a})"),
                (false, _) => format!("((int)((unsigned int)({a}) << {0}) >> {0})", 32 - bits),
            };
            format!(
                "tegula_shift_right_arithmetic({value}, {}, {bits}u)",
                raw(b)
            )
        }
        Binary::Power => {
            let name = if signed { "signed" } else { "unsigned" };
            format!("tegula_power_{name}({a}, {b})")
        }
        Binary::Atan2 | Binary::Complex => return None,
    };
    Some(wrapped(ty, &value))
}

fn float_binary(op: Binary, ty: ElementType, a: &str, b: &str) -> Option<String> {
    let suffix = if ty == ElementType::F64 { "" } else { "f" };
    let value = match op {
        Binary::Add => format!("{a} + {b}"),
        Binary::Subtract => format!("{a} - {b}"),
        Binary::Multiply => format!("{a} * {b}"),
        Binary::Divide => format!("{a} / {b}"),
        Binary::Remainder => format!("fmod{suffix}({a}, {b})"),
        Binary::Power => format!("pow{suffix}({a}, {b})"),
        Binary::Atan2 => format!("atan2{suffix}({a}, {b})"),
        Binary::Maximum | Binary::Minimum => {
            let name = if op == Binary::Maximum {
                "maximum"
            } else {
                "minimum"
            };
            // The result is one of the operands, so there is nothing to round.
            return Some(format!("tegula_{name}({a}, {b})"));
        }
        _ => return None,
    };
    Some(rounded(ty, &format!("({value})")))
}

fn complex_binary(op: Binary, ty: ElementType, a: &str, b: &str) -> Option<String> {
    let wide = |name: &str| {
        let carried = carrier(ty);
        Some(format!(
            "tegula_as<{carried}>({name}(tegula_widen({a}), tegula_widen({b})))"
        ))
    };
    match op {
        Binary::Add => Some(format!("tegula_add({a}, {b})")),
        Binary::Subtract => Some(format!("tegula_subtract({a}, {b})")),
        Binary::Multiply => Some(format!("tegula_multiply({a}, {b})")),
        Binary::Divide if ty == ElementType::C64 => wide("tegula_quotient_of_singles"),
        Binary::Divide => wide("tegula_quotient"),
        Binary::Power => wide("tegula_c_power"),
        Binary::Atan2 => wide("tegula_c_atan2"),
        _ => None,
    }
}

// ---- comparisons and conversions -------------------------------------------

fn compare(
    direction: Direction,
    order: Order,
    ty: ElementType,
    a: &str,
    b: &str,
) -> Option<String> {
    let symbol = match direction {
        Direction::Eq => "==",
        Direction::Ne => "!=",
        Direction::Ge => ">=",
        Direction::Gt => ">",
        Direction::Le => "<=",
        Direction::Lt => "<",
    };
    match ty.category() {
        Category::Complex => match direction {
            Direction::Eq => Some(format!("tegula_equal({a}, {b})")),
            Direction::Ne => Some(format!("!tegula_equal({a}, {b})")),
            _ => None,
        },
        Category::Float if order == Order::Total => {
            // For one-byte formats, the NaN's code is used: the float instructions yield NaNs with
            // other bits.
            let number = |x: &str| match ty.float_format() {
                Some(format) if ty.bits() <= 8 => {
                    let signed = format.nan_code(false) != format.nan_code(true);
                    format!("tegula_of_code({x}, {signed})")
                }
                _ => x.to_owned(),
            };
            let [a, b] = [number(a), number(b)];
            Some(format!(
                "(tegula_total_order({a}) {symbol} tegula_total_order({b}))"
            ))
        }
        _ => Some(format!("({a} {symbol} {b})")),
    }
}

/// HLO's `convert`.
pub(crate) fn convert(from: ElementType, to: ElementType, x: &str) -> Option<String> {
    if from == to {
        return Some(x.to_owned());
    }
    match (from.category(), to.category()) {
        (Category::Complex, Category::Complex) => {
            Some(format!("tegula_as<{}>(tegula_widen({x}))", carrier(to)))
        }
        (Category::Complex, Category::Boolean) => Some(format!("({x}.re != 0 || {x}.im != 0)")),
        (Category::Complex, _) => {
            let part = from.complex_part()?;
            convert(part, to, &format!("{x}.re"))
        }
        (_, Category::Complex) => {
            let part = to.complex_part()?;
            let real = convert(from, part, x)?;
            let zero = if part == ElementType::F64 {
                "0.0"
            } else {
                "0.0f"
            };
            Some(format!("tegula_complex({real}, {zero})"))
        }
        (_, Category::Boolean) => Some(format!("({x} != 0)")),
        (Category::Float, Category::Float) => Some(float_to_float(from, to, x)),
        (Category::Float, _) => Some(float_to_integer(to, x)),
        (_, Category::Float) => Some(integer_to_float(from, to, x)),
        _ => Some(wrapped(to, x)),
    }
}

fn float_to_float(from: ElementType, to: ElementType, x: &str) -> String {
    if from == ElementType::F64 && is_narrow_float(to) {
        return rounded_once(to, x);
    }
    match to {
        ElementType::F64 => format!("(double){x}"),
        _ => rounded(to, &format!("(float){x}")),
    }
}

/// Rounds a double to a narrow float in one step.
fn rounded_once(to: ElementType, x: &str) -> String {
    let format = format_of(to);
    format!("tegula_decode<{format}>(tegula_encode<{format}>({x}))")
}

fn integer_to_float(from: ElementType, to: ElementType, x: &str) -> String {
    // A `pred` and integers of at most 16 bits are exact in a float.
    let exact = from.category() == Category::Boolean || from.bits() <= 16;
    match to {
        ElementType::F64 => format!("(double){x}"),
        ElementType::F32 => format!("(float){x}"),
        _ if exact => rounded(to, &format!("(float){x}")),
        _ if from.bits() <= 32 => rounded_once(to, &format!("(double){x}")),
        _ => {
            // An index may be computed in fewer bits than its type has.
            let unsigned = if from.is_signed() { "" } else { "unsigned " };
            rounded_once(to, &format!("tegula_to_odd(({unsigned}long long){x})"))
        }
    }
}

fn float_to_integer(to: ElementType, x: &str) -> String {
    let bits = to.bits();
    match (bits, to.is_signed()) {
        (64, true) => format!("tegula_to_long({x})"),
        (64, false) => format!("tegula_to_ulong({x})"),
        (32, true) => format!("tegula_to_int({x})"),
        (32, false) => format!("tegula_to_uint({x})"),
        (_, true) => {
            let largest = (1i64 << (bits - 1)) - 1;
            format!(
                "tegula_clamp_int(tegula_to_int({x}), {}, {largest})",
                -largest - 1
            )
        }
        (_, false) => {
            let largest = (1i64 << bits) - 1;
            format!("(unsigned int)tegula_clamp_int(tegula_to_int({x}), 0, {largest})")
        }
    }
}

fn bitcast(from: ElementType, to: ElementType, x: &str) -> Option<String> {
    if from == to {
        return Some(x.to_owned());
    }
    let bits = match (from, to) {
        // Among complex types, only `c64` has the width of another type, `f64`.
        (ElementType::C64, _) => format!(
            "(((unsigned long long)(unsigned int)__float_as_int({x}.im) << 32) | (unsigned int)__float_as_int({x}.re))"
        ),
        _ => stored_bits(from, x)?,
    };
    if to == ElementType::C64 {
        return Some(format!(
            "tegula_complex(__int_as_float((int)({bits})), __int_as_float((int)(({bits}) >> 32)))"
        ));
    }
    of_stored_bits(to, &bits)
}

fn reduce_precision(
    ty: ElementType,
    exponent_bits: u32,
    mantissa_bits: u32,
    x: &str,
) -> Option<String> {
    let format = ty.float_format()?;
    format.infinity_code()?;
    let bits = stored_bits(ty, x)?;
    let unsigned = if ty == ElementType::F64 {
        "unsigned long long"
    } else {
        "unsigned int"
    };
    let reduced = format!(
        "tegula_reduce_precision<{unsigned}, {}, {}>({bits}, {exponent_bits}u, {mantissa_bits}u)",
        format.exponent_bits, format.mantissa_bits
    );
    of_stored_bits(ty, &reduced)
}
