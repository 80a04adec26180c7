//! Operations on each element independently, of vectors and (as vectors of one element) of scalars.

use super::value::{Lanes, Vector, ir_type, rounded, unsigned, wrap};
use std::sync::Arc;
use tegula_ir as ir;
use tegula_mosaic::ir::{Binary, Cast, FloatPredicate, IntPredicate, Unary};
use tegula_mosaic::types::Element;
use tegula_scalar::{decode_single, encode_single, unary_f64};

type Made = Result<Vector, String>;

/// The marks of elements that are computed from those of several vectors: the union.
pub(super) fn joined(operands: &[&Vector]) -> Option<Vec<u8>> {
    let mut marks: Option<Vec<u8>> = None;
    for own in operands.iter().filter_map(|vector| vector.marks.as_ref()) {
        match &mut marks {
            None => marks = Some(own.to_vec()),
            Some(marks) => marks.iter_mut().zip(own.iter()).for_each(|(m, o)| *m |= o),
        }
    }
    marks
}

fn with_marks(lanes: Lanes, operands: &[&Vector]) -> Made {
    Ok(Vector::new(lanes).marked(joined(operands)))
}

/// Evaluates an operation with one operand.
pub(crate) fn unary(op: Unary, element: Element, x: &Vector) -> Made {
    let lanes = match &*x.lanes {
        Lanes::Float(values) => match op {
            Unary::IsFinite => {
                Lanes::Int(values.iter().map(|v| i32::from(v.is_finite())).collect())
            }
            Unary::IsNotFinite => {
                Lanes::Int(values.iter().map(|v| i32::from(!v.is_finite())).collect())
            }
            Unary::IsInfinite => {
                Lanes::Int(values.iter().map(|v| i32::from(v.is_infinite())).collect())
            }
            Unary::IsNan => Lanes::Int(values.iter().map(|v| i32::from(v.is_nan())).collect()),
            _ => {
                let function = float_function(op)?;
                let made = values.iter().map(|v| function(*v)).collect();
                Lanes::Float(rounded(element, made))
            }
        },
        Lanes::Int(values) => {
            let bits = element.bits();
            let one = |v: &i32| match op {
                Unary::AbsInt => Ok(wrap(element, i64::from(*v).abs())),
                Unary::CountLeadingZeros => {
                    Ok((unsigned(element, *v).leading_zeros() + bits - 32) as i32)
                }
                Unary::PopulationCount => Ok(unsigned(element, *v).count_ones() as i32),
                other => Err(format!("{other:?} of integers is not simulated")),
            };
            Lanes::Int(values.iter().map(one).collect::<Result<_, _>>()?)
        }
    };
    with_marks(lanes, &[x])
}

/// Stochastic rounding: each element becomes one of the two adjacent numbers of a narrower type. It
/// becomes the one of greater magnitude if the random word, as a fraction of 2^32, is less than the
/// element's relative distance towards that number. How the hardware uses the bits is not
/// documented.
pub(super) fn stochastic(element: Element, x: &Vector, bits: &Vector) -> Made {
    let ty = ir_type(element)?;
    let sign = 1_u32 << (element.bits() - 1);
    let one = |(value, bits): (&f32, &i32)| {
        let nearest = encode_single(ty, *value);
        let rounded = decode_single(ty, nearest);
        if !rounded.is_finite() || rounded == *value {
            return rounded;
        }
        // The codes of adjacent magnitudes are consecutive.
        let magnitude = nearest & (sign - 1);
        let other = match rounded.abs() < value.abs() {
            true => magnitude + 1,
            false => magnitude.saturating_sub(1),
        };
        let other = match other < sign {
            true => decode_single(ty, other).copysign(*value),
            false => return rounded,
        };
        if !other.is_finite() {
            return rounded;
        }
        let (low, high) = match rounded.abs() < other.abs() {
            true => (rounded, other),
            false => (other, rounded),
        };
        let [from, to, at] = [low, high, *value].map(|number| f64::from(number.abs()));
        let part = f64::from(*bits as u32) / 4_294_967_296.0;
        if part < (at - from) / (to - from) {
            high
        } else {
            low
        }
    };
    let pairs = x.lanes.floats()?.iter().zip(bits.lanes.ints()?);
    with_marks(Lanes::Float(pairs.map(one).collect()), &[x, bits])
}

fn float_function(op: Unary) -> Result<fn(f32) -> f32, String> {
    Ok(match op {
        Unary::Abs => f32::abs,
        Unary::Negate => |x| -x,
        Unary::Exp => f32::exp,
        Unary::Exp2 => f32::exp2,
        Unary::Log => f32::ln,
        Unary::Log2 => f32::log2,
        Unary::Tanh => f32::tanh,
        Unary::Sqrt => f32::sqrt,
        Unary::Rsqrt => |x| 1.0 / x.sqrt(),
        Unary::Reciprocal => |x| 1.0 / x,
        Unary::Logistic => |x| 1.0 / (1.0 + (-x).exp()),
        Unary::Sin => f32::sin,
        Unary::Cos => f32::cos,
        Unary::Tan => f32::tan,
        Unary::Acos => f32::acos,
        Unary::Asin => f32::asin,
        Unary::Atan => f32::atan,
        Unary::Sinh => f32::sinh,
        Unary::Cosh => f32::cosh,
        Unary::Ceil => f32::ceil,
        Unary::Floor => f32::floor,
        Unary::Round => f32::round,
        Unary::RoundEven => f32::round_ties_even,
        Unary::Trunc => f32::trunc,
        Unary::Cbrt => f32::cbrt,
        Unary::Expm1 => |x| f64::from(x).exp_m1() as f32,
        Unary::Log1p => |x| f64::from(x).ln_1p() as f32,
        Unary::Erf => |x| unary_f64(ir::Unary::Erf, f64::from(x)) as f32,
        other => {
            return Err(format!(
                "{other:?} of floating-point numbers is not simulated"
            ));
        }
    })
}

/// Evaluates an operation with two operands.
pub(crate) fn binary(op: Binary, element: Element, a: &Vector, b: &Vector) -> Made {
    let lanes = match (&*a.lanes, &*b.lanes) {
        (Lanes::Float(a), Lanes::Float(b)) => {
            let each = |f: fn(f32, f32) -> f32| zip(a, b, f);
            let made = match op {
                // Written out so that each is a loop of its own, which the compiler vectorises.
                Binary::Add => zip(a, b, |x, y| x + y),
                Binary::Sub => zip(a, b, |x, y| x - y),
                Binary::Mul => zip(a, b, |x, y| x * y),
                Binary::Div => zip(a, b, |x, y| x / y),
                Binary::Maximum => zip(a, b, maximum),
                Binary::Minimum => zip(a, b, minimum),
                Binary::MaxNum => each(f32::max),
                Binary::MinNum => each(f32::min),
                Binary::Rem => each(|x, y| x % y),
                Binary::Pow => each(f32::powf),
                Binary::Atan2 => each(f32::atan2),
                Binary::CopySign => each(f32::copysign),
                other => {
                    return Err(format!(
                        "{other:?} of floating-point numbers is not simulated"
                    ));
                }
            };
            Lanes::Float(rounded(element, made))
        }
        (Lanes::Int(a), Lanes::Int(b)) => Lanes::Int(integers(op, element, a, b)?),
        _ => {
            return Err(
                "expected operands of the same kind: integers or floating-point numbers".to_owned(),
            );
        }
    };
    with_marks(lanes, &[a, b])
}

fn zip<T: Copy, R>(a: &[T], b: &[T], f: impl Fn(T, T) -> R) -> Vec<R> {
    a.iter().zip(b).map(|(x, y)| f(*x, *y)).collect()
}

pub(super) fn maximum(x: f32, y: f32) -> f32 {
    if x.is_nan() || y.is_nan() {
        f32::NAN
    } else if x > y {
        x
    } else {
        y
    }
}

pub(super) fn minimum(x: f32, y: f32) -> f32 {
    if x.is_nan() || y.is_nan() {
        f32::NAN
    } else if x < y {
        x
    } else {
        y
    }
}

fn integers(op: Binary, element: Element, a: &[i32], b: &[i32]) -> Result<Vec<i32>, String> {
    let full = element.bits() == 32;
    Ok(match op {
        Binary::AddInt if full => zip(a, b, i32::wrapping_add),
        Binary::SubInt if full => zip(a, b, i32::wrapping_sub),
        Binary::MulInt if full => zip(a, b, i32::wrapping_mul),
        Binary::And => zip(a, b, |x, y| x & y),
        Binary::Or => zip(a, b, |x, y| x | y),
        Binary::Xor => zip(a, b, |x, y| x ^ y),
        Binary::MaxSigned => zip(a, b, i32::max),
        Binary::MinSigned => zip(a, b, i32::min),
        _ => {
            let pairs = a.iter().zip(b);
            let made = pairs.map(|(x, y)| integer(op, element, i64::from(*x), i64::from(*y)));
            made.map(|v| Some(wrap(element, v?)))
                .collect::<Option<_>>()
                .ok_or_else(|| format!("{op:?} of integers is not simulated"))?
        }
    })
}

/// Evaluates an operation on two integers of a type, before the result is wrapped to the type.
/// Operations without a defined value return what the machine computes: all bits set for a division
/// by zero, the dividend for a remainder by zero, and 0 or the sign for a shift by the width or
/// more.
pub(crate) fn integer(op: Binary, element: Element, x: i64, y: i64) -> Option<i64> {
    let bits = i64::from(element.bits());
    let mask = |v: i64| {
        if bits >= 64 {
            v as u64
        } else {
            v as u64 & ((1 << bits) - 1)
        }
    };
    let (ux, uy) = (mask(x), mask(y));
    Some(match op {
        Binary::AddInt => x.wrapping_add(y),
        Binary::SubInt => x.wrapping_sub(y),
        Binary::MulInt => x.wrapping_mul(y),
        Binary::DivSigned => x.checked_div(y).unwrap_or(-1),
        Binary::RemSigned => x.checked_rem(y).unwrap_or(x),
        Binary::DivUnsigned => ux.checked_div(uy).map_or(-1, |v| v as i64),
        Binary::RemUnsigned => ux.checked_rem(uy).unwrap_or(ux) as i64,
        Binary::FloorDivSigned => match y {
            0 => -1,
            _ => x.wrapping_div(y) - i64::from(x % y != 0 && (x < 0) != (y < 0)),
        },
        Binary::CeilDivSigned => match y {
            0 => -1,
            _ => x.wrapping_div(y) + i64::from(x % y != 0 && (x < 0) == (y < 0)),
        },
        Binary::MaxSigned => x.max(y),
        Binary::MinSigned => x.min(y),
        Binary::MaxUnsigned => ux.max(uy) as i64,
        Binary::MinUnsigned => ux.min(uy) as i64,
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::ShiftLeft => match uy {
            0..64 if (uy as i64) < bits => x << uy,
            _ => 0,
        },
        Binary::ShiftRightSigned => x >> (uy as i64).clamp(0, bits - 1),
        Binary::ShiftRightUnsigned => match (uy as i64) < bits {
            true => (ux >> uy) as i64,
            false => 0,
        },
        _ => return None,
    })
}

/// Whether a comparison of integers holds.
pub(crate) fn int_holds(predicate: IntPredicate, element: Element, x: i64, y: i64) -> bool {
    use IntPredicate as P;
    let mask = |v: i64| match element.bits() {
        64.. => v as u64,
        bits => v as u64 & ((1 << bits) - 1),
    };
    let (ux, uy) = (mask(x), mask(y));
    // A truth value is unsigned, except in comparisons of its one bit.
    let (x, y) = match element {
        Element::Int(1) => (-(x & 1), -(y & 1)),
        _ => (x, y),
    };
    match predicate {
        P::Eq => ux == uy,
        P::Ne => ux != uy,
        P::Slt => x < y,
        P::Sle => x <= y,
        P::Sgt => x > y,
        P::Sge => x >= y,
        P::Ult => ux < uy,
        P::Ule => ux <= uy,
        P::Ugt => ux > uy,
        P::Uge => ux >= uy,
    }
}

/// Whether a comparison of floating-point numbers holds.
pub(crate) fn float_holds(predicate: FloatPredicate, x: f32, y: f32) -> bool {
    match x.partial_cmp(&y) {
        Some(std::cmp::Ordering::Less) => predicate.less,
        Some(std::cmp::Ordering::Equal) => predicate.equal,
        Some(std::cmp::Ordering::Greater) => predicate.greater,
        None => predicate.unordered,
    }
}

pub(crate) fn compare_ints(p: IntPredicate, element: Element, a: &Vector, b: &Vector) -> Made {
    let (x, y) = (a.lanes.ints()?, b.lanes.ints()?);
    let full = element.bits() == 32;
    let made = match p {
        IntPredicate::Slt if full => zip(x, y, |x, y| i32::from(x < y)),
        IntPredicate::Sle if full => zip(x, y, |x, y| i32::from(x <= y)),
        IntPredicate::Sge if full => zip(x, y, |x, y| i32::from(x >= y)),
        IntPredicate::Eq if full => zip(x, y, |x, y| i32::from(x == y)),
        _ => zip(x, y, |x, y| {
            i32::from(int_holds(p, element, x.into(), y.into()))
        }),
    };
    with_marks(Lanes::Int(made), &[a, b])
}

pub(crate) fn compare_floats(p: FloatPredicate, a: &Vector, b: &Vector) -> Made {
    let made = zip(a.lanes.floats()?, b.lanes.floats()?, |x, y| {
        i32::from(float_holds(p, x, y))
    });
    with_marks(Lanes::Int(made), &[a, b])
}

/// Selects element by element; an element that is not selected leaves no mark.
pub(crate) fn select(condition: &Vector, a: &Vector, b: &Vector) -> Made {
    let chosen = condition.lanes.ints()?;
    let pick = |x: &[u8], y: &[u8]| -> Vec<u8> {
        let pairs = x.iter().zip(y).zip(chosen);
        pairs
            .map(|((x, y), c)| if *c != 0 { *x } else { *y })
            .collect()
    };
    let lanes = match (&*a.lanes, &*b.lanes) {
        (Lanes::Float(x), Lanes::Float(y)) => {
            let pairs = x.iter().zip(y).zip(chosen);
            Lanes::Float(
                pairs
                    .map(|((x, y), c)| if *c != 0 { *x } else { *y })
                    .collect(),
            )
        }
        (Lanes::Int(x), Lanes::Int(y)) => {
            let pairs = x.iter().zip(y).zip(chosen);
            Lanes::Int(
                pairs
                    .map(|((x, y), c)| if *c != 0 { *x } else { *y })
                    .collect(),
            )
        }
        _ => {
            return Err(
                "expected operands of the same kind: integers or floating-point numbers".to_owned(),
            );
        }
    };
    let count = chosen.len();
    let marks = match (&a.marks, &b.marks) {
        (None, None) => None,
        (x, y) => {
            let none = vec![0; count];
            let of = |m: &Option<Arc<Vec<u8>>>| m.as_ref().map_or(none.clone(), |m| m.to_vec());
            Some(pick(&of(x), &of(y)))
        }
    };
    let marks = match (marks, &condition.marks) {
        (None, None) => None,
        (Some(marks), None) => Some(marks),
        (marks, Some(own)) => {
            let mut marks = marks.unwrap_or_else(|| vec![0; count]);
            marks.iter_mut().zip(own.iter()).for_each(|(m, o)| *m |= o);
            Some(marks)
        }
    };
    Ok(Vector::new(lanes).marked(marks))
}

pub(crate) fn multiply_add(element: Element, a: &Vector, b: &Vector, c: &Vector) -> Made {
    let (x, y, z) = (a.lanes.floats()?, b.lanes.floats()?, c.lanes.floats()?);
    let made = x.iter().zip(y).zip(z).map(|((x, y), z)| x.mul_add(*y, *z));
    let made = rounded(element, made.collect());
    with_marks(Lanes::Float(made), &[a, b, c])
}

/// Converts a vector to another element type.
pub(crate) fn cast(cast: Cast, from: Element, to: Element, x: &Vector) -> Made {
    let lanes = match (&*x.lanes, cast) {
        (Lanes::Int(_), Cast::Mask) => return Ok(x.clone()),
        (Lanes::Int(values), Cast::Signed | Cast::Truncate) => {
            // A truth value that is sign-extended is 0 or -1.
            let signed = |v: &i32| if from == Element::BOOL { -v } else { *v };
            let wide = |v: &i32| {
                wrap(
                    to,
                    i64::from(if cast == Cast::Signed { signed(v) } else { *v }),
                )
            };
            Lanes::Int(values.iter().map(wide).collect())
        }
        (Lanes::Int(values), Cast::Unsigned) => {
            let wide = |v: &i32| wrap(to, i64::from(unsigned(from, *v)));
            Lanes::Int(values.iter().map(wide).collect())
        }
        (Lanes::Int(values), Cast::FromSigned) => {
            let signed = |v: &i32| if from == Element::BOOL { -v } else { *v };
            Lanes::Float(rounded(
                to,
                values.iter().map(|v| signed(v) as f32).collect(),
            ))
        }
        (Lanes::Int(values), Cast::FromUnsigned) => {
            let float = |v: &i32| unsigned(from, *v) as f32;
            Lanes::Float(rounded(to, values.iter().map(float).collect()))
        }
        (Lanes::Float(values), Cast::Float) => Lanes::Float(rounded(to, values.clone())),
        (Lanes::Float(values), Cast::ToSigned | Cast::ToSignedNearest) => {
            let int = |v: &f32| to_signed(cast, to, *v);
            Lanes::Int(values.iter().map(int).collect())
        }
        (Lanes::Float(values), Cast::ToUnsigned) => {
            let most = if to.bits() >= 32 {
                u32::MAX
            } else {
                (1 << to.bits()) - 1
            };
            let int = |v: &f32| wrap(to, i64::from((*v as u32).min(most)));
            Lanes::Int(values.iter().map(int).collect())
        }
        (lanes, Cast::Bits) => same_bits(lanes, from, to)?,
        _ => return Err(format!("{cast:?} from {from} to {to}")),
    };
    with_marks(lanes, &[x])
}

/// Converts a floating-point number to a signed integer, towards zero or to the nearest; a number
/// out of range becomes the type's greatest or least, and NaN becomes 0.
pub(crate) fn to_signed(cast: Cast, to: Element, value: f32) -> i32 {
    let value = if cast == Cast::ToSignedNearest {
        value.round_ties_even()
    } else {
        value
    };
    let whole = value as i32;
    match to {
        Element::Int(bits @ 2..32) => {
            let most = (1i32 << (bits - 1)) - 1;
            whole.clamp(-most - 1, most)
        }
        _ => whole,
    }
}

/// Reinterprets the elements as another type of the same width.
fn same_bits(lanes: &Lanes, from: Element, to: Element) -> Result<Lanes, String> {
    let bytes = super::value::to_bytes(from, lanes)?;
    super::value::from_bytes(to, &bytes)
}
