//! Translates HLO's elementwise operations to the SIMD form.

use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Type, UnaryOp, V};
use crate::simd::mathlib::{abs, negated, with_sign};
mod complex;
mod reduce_precision;
#[cfg(test)]
mod tests;

use crate::simd::{half_precision, integer_division, mathlib};
pub(crate) use reduce_precision::Rounding;
use smallvec::{SmallVec, smallvec};
use tegula_fusion::kernel::ScalarOp;
use tegula_ir::{Binary, Category, Direction, ElementType, Order, Unary};

/// The lanes of one scalar: one value, or two for a complex number.
pub(crate) type Lanes = SmallVec<[V; 2]>;

/// The type of a scalar's lanes; `None` if it cannot be vectorised.
pub(crate) fn lane_type(element_type: ElementType) -> Option<Type> {
    Some(match element_type {
        ElementType::Pred => Type::Mask,
        ElementType::F32 | ElementType::C64 => Type::F32,
        ElementType::F64 | ElementType::C128 => Type::F64,
        _ if half_precision::is_supported(element_type) => Type::F32,
        _ if !element_type.is_integer() || element_type.bits() < 8 => return None,
        _ if element_type.bits() == 64 => Type::I64,
        _ => Type::I32,
    })
}

/// Emits an operation; `None` if it has no vector form.
pub(crate) fn compute(
    b: &mut Builder,
    op: &ScalarOp,
    from: ElementType,
    to: ElementType,
    operands: &[Lanes],
) -> Option<Lanes> {
    lane_type(from)?;
    lane_type(to)?;
    let one = |i: usize| operands.get(i).and_then(|o: &Lanes| o.first()).copied();
    Some(match op {
        ScalarOp::Unary(op) => unary(b, *op, from, operands.first()?)?,
        ScalarOp::Binary(op) => binary(b, *op, from, operands.first()?, operands.get(1)?)?,
        ScalarOp::Compare(direction, _) if from.is_complex() => {
            smallvec![complex::compare(
                b,
                *direction,
                operands.first()?,
                operands.get(1)?
            )?]
        }
        ScalarOp::Compare(direction, order) => {
            smallvec![compare(b, *direction, *order, from, one(0)?, one(1)?)?]
        }
        ScalarOp::Select => {
            let mask = one(0)?;
            let pairs = operands.get(1)?.iter().zip(operands.get(2)?);
            pairs.map(|(&y, &n)| select(b, mask, y, n)).collect()
        }
        ScalarOp::Clamp => {
            let raised = binary(
                b,
                Binary::Maximum,
                from,
                operands.first()?,
                operands.get(1)?,
            )?;
            binary(b, Binary::Minimum, from, &raised, operands.get(2)?)?
        }
        ScalarOp::Convert => convert_parts(b, from, to, operands.first()?)?,
        ScalarOp::BitcastConvert => smallvec![bitcast(b, from, to, one(0)?)?],
        ScalarOp::ReducePrecision {
            exponent_bits,
            mantissa_bits,
        } => {
            let bits = [*exponent_bits, *mantissa_bits];
            smallvec![reduce_precision::reduce_precision(b, from, bits, one(0)?)?]
        }
        ScalarOp::Constant(_) | ScalarOp::Index(_) => return None,
    })
}

/// Selects by a mask between numbers or between masks.
pub(crate) fn select(b: &mut Builder, mask: V, yes: V, no: V) -> V {
    if b.type_of(yes) != Type::Mask {
        return b.select(mask, yes, no);
    }
    let yes = b.and(mask, yes);
    let other = b.not(mask);
    let no = b.and(other, no);
    b.or(yes, no)
}

fn round(b: &mut Builder, element_type: ElementType, x: V) -> V {
    match half_precision::is_supported(element_type) {
        true => half_precision::round(b, element_type, x),
        false => x,
    }
}

fn unary(b: &mut Builder, op: Unary, from: ElementType, x: &Lanes) -> Option<Lanes> {
    Some(match from.category() {
        Category::Float => smallvec![float_unary(b, op, from, x[0])?],
        Category::Complex => match op {
            Unary::Real => smallvec![x[0]],
            Unary::Imag => smallvec![*x.get(1)?],
            Unary::Negate => x.iter().map(|&v| negated(b, v)).collect(),
            _ => complex::unary(b, op, parts(x)?)?,
        },
        Category::Boolean => match op {
            Unary::Not => smallvec![b.not(x[0])],
            _ => return None,
        },
        Category::Signed | Category::Unsigned => smallvec![integer_unary(b, op, from, x[0])?],
    })
}

/// `-x` for floats and integers.
pub(crate) fn negative(b: &mut Builder, x: V) -> V {
    let ty = b.type_of(x);
    if ty.is_float() {
        return negated(b, x);
    }
    let zero = b.integer(ty, 0);
    b.sub(zero, x)
}

fn float_unary(b: &mut Builder, op: Unary, from: ElementType, x: V) -> Option<V> {
    let exact = |op| Some(op);
    let rounding = match op {
        Unary::Abs => return Some(abs(b, x)),
        Unary::Negate => return Some(negated(b, x)),
        Unary::Real => return Some(x),
        Unary::IsFinite => {
            let magnitude = abs(b, x);
            let infinity = b.float_like(x, f64::INFINITY);
            return Some(b.compare(Condition::Less, magnitude, infinity));
        }
        Unary::Sign => {
            let one = b.float_like(x, 1.0);
            let zero = b.float_like(x, 0.0);
            let signed = with_sign(b, one, x);
            let magnitude = abs(b, x);
            let nonzero = b.compare(Condition::Less, zero, magnitude);
            return Some(b.select(nonzero, signed, x));
        }
        Unary::RoundNearestAfz => {
            // The largest number below one half: adding one half itself would round up the number
            // just below it.
            let half = match b.type_of(x).is_wide() {
                true => b.f64(0.5f64.next_down()),
                false => b.f32(0.5f32.next_down()),
            };
            let half = with_sign(b, half, x);
            let sum = b.add(x, half);
            let result = b.unary(UnaryOp::Trunc, sum);
            return Some(round(b, from, result));
        }
        Unary::Ceil => exact(UnaryOp::Ceil),
        Unary::Floor => exact(UnaryOp::Floor),
        Unary::RoundNearestEven => exact(UnaryOp::Nearest),
        Unary::Sqrt => exact(UnaryOp::Sqrt),
        _ => None,
    };
    let result = match rounding {
        Some(op) => b.unary(op, x),
        None => mathlib::unary(b, op, x)?,
    };
    Some(round(b, from, result))
}

fn binary(b: &mut Builder, op: Binary, from: ElementType, x: &Lanes, y: &Lanes) -> Option<Lanes> {
    Some(match from.category() {
        Category::Float if op == Binary::Complex && from.bits() >= 32 => smallvec![x[0], y[0]],
        Category::Float => smallvec![float_binary(b, op, from, x[0], y[0])?],
        Category::Complex if op == Binary::Multiply => {
            let ([re, im], [c, d]) = (parts(x)?, parts(y)?);
            let (ac, bd) = (b.mul(re, c), b.mul(im, d));
            let (ad, bc) = (b.mul(re, d), b.mul(im, c));
            smallvec![b.sub(ac, bd), b.add(ad, bc)]
        }
        Category::Complex => {
            let op = match op {
                Binary::Add => BinaryOp::Add,
                Binary::Subtract => BinaryOp::Sub,
                _ => return complex::binary(b, op, parts(x)?, parts(y)?),
            };
            x.iter().zip(y).map(|(&x, &y)| b.binary(op, x, y)).collect()
        }
        Category::Boolean => smallvec![b.binary(combination(op, from)?, x[0], y[0])],
        Category::Signed | Category::Unsigned => {
            smallvec![integer_binary(b, op, from, x[0], y[0])?]
        }
    })
}

/// The real and the imaginary part.
pub(crate) fn parts(x: &Lanes) -> Option<[V; 2]> {
    Some([*x.first()?, *x.get(1)?])
}

fn float_binary(b: &mut Builder, op: Binary, from: ElementType, x: V, y: V) -> Option<V> {
    let result = match op {
        Binary::Subtract => b.sub(x, y),
        Binary::Divide => b.div(x, y),
        _ => match combination(op, from) {
            Some(op) => b.binary(op, x, y),
            None => mathlib::binary(b, op, x, y)?,
        },
    };
    match op {
        Binary::Maximum | Binary::Minimum => Some(result),
        _ => Some(round(b, from, result)),
    }
}

/// The operation on lanes for an associative operation on elements.
pub(crate) fn combination(op: Binary, element_type: ElementType) -> Option<BinaryOp> {
    let category = element_type.category();
    Some(match (category, op) {
        (Category::Float, Binary::Add) => BinaryOp::Add,
        (Category::Float, Binary::Multiply) => BinaryOp::Mul,
        (Category::Float, Binary::Maximum) => BinaryOp::Maximum,
        (Category::Float, Binary::Minimum) => BinaryOp::Minimum,
        (Category::Boolean, Binary::And | Binary::Multiply | Binary::Minimum) => BinaryOp::And,
        (Category::Boolean, Binary::Or | Binary::Maximum | Binary::Add) => BinaryOp::Or,
        (Category::Boolean, Binary::Xor) => BinaryOp::Xor,
        (Category::Float | Category::Boolean | Category::Complex, _) => return None,
        (_, Binary::Add) => BinaryOp::Add,
        (_, Binary::Multiply) => BinaryOp::Mul,
        (_, Binary::And) => BinaryOp::And,
        (_, Binary::Or) => BinaryOp::Or,
        (_, Binary::Xor) => BinaryOp::Xor,
        (Category::Signed, Binary::Maximum) => BinaryOp::MaxSigned,
        (Category::Signed, Binary::Minimum) => BinaryOp::MinSigned,
        (_, Binary::Maximum) => BinaryOp::MaxUnsigned,
        (_, Binary::Minimum) => BinaryOp::MinUnsigned,
        _ => return None,
    })
}

// ---- integers ------------------------------------------------------------------

/// Wraps an `I32` to the range of a narrow type by its low bits.
pub(crate) fn wrap(b: &mut Builder, element_type: ElementType, x: V) -> V {
    let bits = element_type.bits() as i64;
    if bits >= 32 {
        return x;
    }
    if element_type.is_signed() {
        let up = b.shift(BinaryOp::ShiftLeft, x, 32 - bits);
        return b.shift(BinaryOp::ShiftRightSigned, up, 32 - bits);
    }
    let mask = b.i32((1 << bits) - 1);
    b.and(x, mask)
}

fn integer_unary(b: &mut Builder, op: Unary, from: ElementType, x: V) -> Option<V> {
    let ty = b.type_of(x);
    let (zero, all) = (b.integer(ty, 0), b.integer(ty, -1));
    let result = match op {
        Unary::Abs if from.is_signed() => b.unary(UnaryOp::AbsInt, x),
        Unary::Abs | Unary::Real => return Some(x),
        Unary::Negate => negative(b, x),
        Unary::Not => b.xor(x, all),
        Unary::Sign => {
            let one = b.integer(ty, 1);
            if !from.is_signed() {
                let set = b.compare(Condition::NotEqual, x, zero);
                return Some(b.select(set, one, zero));
            }
            let most = b.binary(BinaryOp::MinSigned, x, one);
            return Some(b.binary(BinaryOp::MaxSigned, most, all));
        }
        Unary::Popcnt if ty == Type::I32 => {
            // Sign-extended bits of narrow types are not counted.
            let mask = b.i32((u32::MAX >> (32 - from.bits())).cast_signed());
            let x = b.and(x, mask);
            return Some(population(b, x));
        }
        Unary::Popcnt => return Some(population(b, x)),
        Unary::CountLeadingZeros if ty == Type::I64 => {
            let upper = b.shift(BinaryOp::ShiftRight, x, 32);
            let halves = [upper, x].map(|half| {
                let half = b.convert(Conversion::Low, half, Type::I32);
                leading_zeros(b, half)
            });
            let all = b.i32(32);
            let below = b.add(halves[1], all);
            let is_empty = b.compare(Condition::Equal, halves[0], all);
            let zeros = b.select(is_empty, below, halves[0]);
            return Some(b.convert(Conversion::ExtendUnsigned, zeros, Type::I64));
        }
        Unary::CountLeadingZeros if ty == Type::I32 => {
            let mask = b.i32((u32::MAX >> (32 - from.bits())).cast_signed());
            let x = b.and(x, mask);
            let zeros = leading_zeros(b, x);
            let above = b.i32(32 - from.bits() as i32);
            return Some(b.sub(zeros, above));
        }
        _ => return None,
    };
    Some(wrap(b, from, result))
}

/// The number of zeros above the highest set bit, 32 if there is none, computed from the exponent
/// of the integer as a float. Of neighbouring set bits the lower one is cleared first, so that the
/// conversion cannot round up to the next power of two.
fn leading_zeros(b: &mut Builder, x: V) -> V {
    let next = b.shift(BinaryOp::ShiftRight, x, 1);
    let all = b.i32(-1);
    let others = b.xor(next, all);
    let apart = b.and(x, others);
    let float = b.convert(Conversion::FromUnsigned, apart, Type::F32);
    let bits = b.bits(float);
    let exponent = b.shift(BinaryOp::ShiftRight, bits, 23);
    // The exponent of 2^31.
    let last = b.i32(127 + 31);
    let zeros = b.sub(last, exponent);
    let most = b.i32(32);
    b.binary(BinaryOp::MinSigned, zeros, most)
}

/// Population count: sums of ever wider fields.
fn population(b: &mut Builder, x: V) -> V {
    let ty = b.type_of(x);
    let mut sum = x;
    for (shift, mask) in [(1, 0x55), (2, 0x33), (4, 0x0f)] {
        let mask = b.integer(ty, i64::from_le_bytes([mask; 8]));
        let high = b.shift(BinaryOp::ShiftRight, sum, shift);
        let (low, high) = (b.and(sum, mask), b.and(high, mask));
        sum = b.add(low, high);
    }
    if ty == Type::I32 {
        let ones = b.i32(0x0101_0101);
        let total = b.mul(sum, ones);
        return b.shift(BinaryOp::ShiftRight, total, 24);
    }
    // Products of 64 bits take several instructions.
    for shift in [8, 16, 32] {
        let high = b.shift(BinaryOp::ShiftRight, sum, shift);
        sum = b.add(sum, high);
    }
    let mask = b.integer(ty, 0x7f);
    b.and(sum, mask)
}

fn integer_binary(b: &mut Builder, op: Binary, from: ElementType, x: V, y: V) -> Option<V> {
    let result = match op {
        Binary::Subtract => b.sub(x, y),
        Binary::ShiftLeft => b.binary(BinaryOp::ShiftLeft, x, y),
        Binary::ShiftRightLogical if from.is_signed() && from.bits() < 32 => {
            let mask = b.i32((1 << from.bits()) - 1);
            let x = b.and(x, mask);
            b.binary(BinaryOp::ShiftRight, x, y)
        }
        Binary::ShiftRightLogical => b.binary(BinaryOp::ShiftRight, x, y),
        Binary::ShiftRightArithmetic => {
            let up = 32 - from.bits() as i64;
            let mut x = x;
            if up > 0 && !from.is_signed() {
                x = b.shift(BinaryOp::ShiftLeft, x, up);
                x = b.shift(BinaryOp::ShiftRightSigned, x, up);
            }
            b.binary(BinaryOp::ShiftRightSigned, x, y)
        }
        Binary::Divide | Binary::Remainder if b.type_of(x) == Type::I32 => {
            integer_division::divided(b, op, from.is_signed(), x, y)?
        }
        _ => b.binary(combination(op, from)?, x, y),
    };
    Some(wrap(b, from, result))
}

// ---- comparisons and conversions ---------------------------------------------------

fn compare(
    b: &mut Builder,
    direction: Direction,
    order: Order,
    from: ElementType,
    x: V,
    y: V,
) -> Option<V> {
    let (mut x, mut y) = (x, y);
    let mut signed = from.category() != Category::Unsigned;
    match from.category() {
        Category::Complex => return None,
        Category::Boolean => (x, y) = (b.truth(x), b.truth(y)),
        Category::Float if order == Order::Total => {
            (x, y) = (total_order_key(b, x), total_order_key(b, y));
            signed = true;
        }
        _ => {}
    }
    let (less, less_equal) = match signed {
        true => (Condition::Less, Condition::LessEqual),
        false => (Condition::LessUnsigned, Condition::LessEqualUnsigned),
    };
    Some(match direction {
        Direction::Eq => b.compare(Condition::Equal, x, y),
        Direction::Ne => b.compare(Condition::NotEqual, x, y),
        Direction::Lt => b.compare(less, x, y),
        Direction::Le => b.compare(less_equal, x, y),
        Direction::Gt => b.compare(less, y, x),
        Direction::Ge => b.compare(less_equal, y, x),
    })
}

/// A signed integer in IEEE's total order: the magnitude bits of negative numbers are flipped.
fn total_order_key(b: &mut Builder, x: V) -> V {
    let bits = b.bits(x);
    let last = if b.type_of(x).is_wide() { 63 } else { 31 };
    let sign = b.shift(BinaryOp::ShiftRightSigned, bits, last);
    let flip = b.shift(BinaryOp::ShiftRight, sign, 1);
    b.xor(bits, flip)
}

/// HLO's `convert`. Parts of complex numbers are converted separately, and a real number becomes
/// the real part of a complex one.
fn convert_parts(b: &mut Builder, from: ElementType, to: ElementType, x: &Lanes) -> Option<Lanes> {
    let Some(part) = to.complex_part() else {
        return Some(smallvec![convert(b, from, to, *x.first()?)?]);
    };
    if let Some(from) = from.complex_part() {
        return x.iter().map(|&x| convert(b, from, part, x)).collect();
    }
    let re = convert(b, from, part, *x.first()?)?;
    let ty = b.type_of(re);
    Some(smallvec![re, b.constant(ty, 0)])
}

/// HLO's `convert` between real types.
pub(crate) fn convert(b: &mut Builder, from: ElementType, to: ElementType, x: V) -> Option<V> {
    if from == to {
        return Some(x);
    }
    if from.is_complex() || to.is_complex() {
        return None;
    }
    let target = lane_type(to)?;
    if from == ElementType::Pred {
        let number = b.truth(x);
        return convert(b, ElementType::S32, to, number);
    }
    if to == ElementType::Pred {
        let ty = b.type_of(x);
        let zero = b.constant(ty, 0);
        return Some(b.compare(Condition::NotEqual, x, zero));
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => match (b.type_of(x), target) {
            (Type::F64, Type::F32) if to != ElementType::F32 => None,
            (source, _) if source == target => Some(round(b, to, x)),
            _ => Some(b.convert(Conversion::Float, x, target)),
        },
        (true, false) => float_to_integer(b, to, x),
        // An integer of more than 24 bits would be rounded twice.
        (false, true) if to.bits() < 32 && from.bits() > 16 => None,
        (false, true) => {
            let conversion = match from.is_signed() {
                true => Conversion::FromSigned,
                false => Conversion::FromUnsigned,
            };
            let value = b.convert(conversion, x, target);
            Some(round(b, to, value))
        }
        (false, false) => Some(match (b.type_of(x), target) {
            (Type::I32, Type::I64) if from.is_signed() => {
                b.convert(Conversion::ExtendSigned, x, target)
            }
            (Type::I32, Type::I64) => b.convert(Conversion::ExtendUnsigned, x, target),
            (Type::I64, Type::I32) => {
                let low = b.convert(Conversion::Low, x, target);
                wrap(b, to, low)
            }
            _ => wrap(b, to, x),
        }),
    }
}

/// Truncation with saturation; NaN gives 0.
fn float_to_integer(b: &mut Builder, to: ElementType, x: V) -> Option<V> {
    let (bits, signed) = (to.bits() as i32, to.is_signed());
    if bits == 64 {
        if !signed {
            return None;
        }
        let wide = match b.type_of(x) {
            Type::F32 => b.convert(Conversion::Float, x, Type::F64),
            _ => x,
        };
        let cut = b.convert(Conversion::Truncate, wide, Type::I64);
        let limit = b.f64(2f64.powi(63));
        let (most, zero) = (
            b.constant(Type::I64, u64::MAX >> 1),
            b.constant(Type::I64, 0),
        );
        let large = b.compare(Condition::LessEqual, limit, wide);
        let cut = b.select(large, most, cut);
        let nan = b.compare(Condition::Unordered, wide, wide);
        return Some(b.select(nan, zero, cut));
    }
    let zero = b.i32(0);
    let nan = b.compare(Condition::Unordered, x, x);
    let result = if bits < 32 || b.type_of(x).is_wide() && signed {
        let (low, high) = match signed {
            true => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0),
            false => (0.0, 2f64.powi(bits) - 1.0),
        };
        let (low, high) = (b.float_like(x, low), b.float_like(x, high));
        let x = b.binary(BinaryOp::LesserOrSecond, high, x);
        let x = b.binary(BinaryOp::GreaterOrSecond, low, x);
        b.convert(Conversion::Truncate, x, Type::I32)
    } else if signed {
        let cut = b.convert(Conversion::Truncate, x, Type::I32);
        let limit = b.float_like(x, 2f64.powi(31));
        let most = b.i32(i32::MAX);
        let large = b.compare(Condition::LessEqual, limit, x);
        let cut = b.select(large, most, cut);
        // Below the range, the result does not depend on the truncation.
        let below = b.float_like(x, -(2f64.powi(31)));
        let least = b.i32(i32::MIN);
        let small = b.compare(Condition::Less, x, below);
        b.select(small, least, cut)
    } else {
        unsigned_word(b, x)
    };
    Some(b.select(nan, zero, result))
}

/// Conversion to `u32`: from 2^31 on, the excess over 2^31 is converted.
fn unsigned_word(b: &mut Builder, x: V) -> V {
    let half = b.float_like(x, 2f64.powi(31));
    let limit = b.float_like(x, 2f64.powi(32));
    let zero = b.float_like(x, 0.0);
    let positive = b.binary(BinaryOp::GreaterOrSecond, x, zero);
    let upper = b.compare(Condition::LessEqual, half, positive);
    let less = b.sub(positive, half);
    let reduced = b.select(upper, less, positive);
    let cut = b.convert(Conversion::Truncate, reduced, Type::I32);
    let (top, none, all) = (b.i32(i32::MIN), b.i32(0), b.i32(-1));
    let top = b.select(upper, top, none);
    let sum = b.add(cut, top);
    let large = b.compare(Condition::LessEqual, limit, positive);
    b.select(large, all, sum)
}

/// HLO's `bitcast-convert` between types of one width.
fn bitcast(b: &mut Builder, from: ElementType, to: ElementType, x: V) -> Option<V> {
    if from == to {
        return Some(x);
    }
    if from.bits() != to.bits() || from.is_complex() || to.is_complex() {
        return None;
    }
    if from == ElementType::Pred || to == ElementType::Pred {
        return None;
    }
    let bits = match (from.is_float(), half_precision::is_supported(from)) {
        (true, true) => half_precision::encode(b, from, x),
        (true, false) => b.bits(x),
        (false, _) => x,
    };
    Some(match (to.is_float(), half_precision::is_supported(to)) {
        (true, true) => {
            let mask = b.i32(0xffff);
            let bits = b.and(bits, mask);
            half_precision::decode(b, to, bits)
        }
        (true, false) => b.bits(bits),
        (false, _) => wrap(b, to, bits),
    })
}

/// The parts of a complex number held in one 64-bit word, the real part in the low half.
pub(crate) fn split_pair(b: &mut Builder, pair: V) -> Lanes {
    let high = b.shift(BinaryOp::ShiftRight, pair, 32);
    [pair, high]
        .into_iter()
        .map(|word| {
            let low = b.convert(Conversion::Low, word, Type::I32);
            b.convert(Conversion::Bits, low, Type::F32)
        })
        .collect()
}

/// The inverse of [`split_pair`].
pub(crate) fn join_pair(b: &mut Builder, re: V, im: V) -> V {
    let [low, high] = [re, im].map(|part| {
        let bits = b.convert(Conversion::Bits, part, Type::I32);
        b.convert(Conversion::ExtendUnsigned, bits, Type::I64)
    });
    let high = b.shift(BinaryOp::ShiftLeft, high, 32);
    b.or(low, high)
}
