//! Elementwise operators.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use crate::tensor::element_type;
use tegula_ir::{Binary, Direction, ElementType, Op, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    if plain_unary(op).is_some() {
        return Some(unary);
    }
    if plain_binary(op).is_some() {
        return Some(binary);
    }
    if direction(op).is_some() {
        return Some(compare);
    }
    let lowering: Lowering = match op {
        "Sum" | "Max" | "Min" | "Mean" => variadic,
        "Pow" => power,
        "Mod" => modulo,
        "BitShift" => shift,
        "Cast" => cast,
        "CastLike" => cast_like,
        "BitCast" => bit_cast,
        "Where" => choose,
        "Clip" => clip,
        "IsNaN" | "IsInf" => special,
        "Identity" => identity,
        "PRelu" => prelu,
        "SwiGLU" => swish_gate,
        "Relu" | "LeakyRelu" | "Elu" | "Selu" | "Celu" | "ThresholdedRelu" | "HardSigmoid"
        | "HardSwish" | "Softplus" | "Softsign" | "Mish" | "Gelu" | "Swish" | "Shrink"
        | "Reciprocal" | "QuickGelu" => activation,
        _ => return None,
    };
    Some(lowering)
}

fn plain_unary(op: &str) -> Option<Unary> {
    Some(match op {
        "Abs" => Unary::Abs,
        "Acos" => Unary::Acos,
        "Acosh" => Unary::Acosh,
        "Asin" => Unary::Asin,
        "Asinh" => Unary::Asinh,
        "Atanh" => Unary::Atanh,
        "Ceil" => Unary::Ceil,
        "Cos" => Unary::Cos,
        "Cosh" => Unary::Cosh,
        "Erf" => Unary::Erf,
        "Exp" => Unary::Exp,
        "Floor" => Unary::Floor,
        "Log" => Unary::Log,
        "Neg" => Unary::Negate,
        "Not" | "BitwiseNot" => Unary::Not,
        "Round" => Unary::RoundNearestEven,
        "Sigmoid" => Unary::Logistic,
        "Sign" => Unary::Sign,
        "Sin" => Unary::Sin,
        "Sinh" => Unary::Sinh,
        "Sqrt" => Unary::Sqrt,
        "Tan" => Unary::Tan,
        "Tanh" => Unary::Tanh,
        "Atan" => Unary::Abs,
        _ => return None,
    })
}

fn plain_binary(op: &str) -> Option<Binary> {
    Some(match op {
        "Add" => Binary::Add,
        "Sub" => Binary::Subtract,
        "Mul" => Binary::Multiply,
        "Div" => Binary::Divide,
        "And" | "BitwiseAnd" => Binary::And,
        "Or" | "BitwiseOr" => Binary::Or,
        "Xor" | "BitwiseXor" => Binary::Xor,
        _ => return None,
    })
}

fn direction(op: &str) -> Option<Direction> {
    Some(match op {
        "Equal" => Direction::Eq,
        "Greater" => Direction::Gt,
        "GreaterOrEqual" => Direction::Ge,
        "Less" => Direction::Lt,
        "LessOrEqual" => Direction::Le,
        _ => return None,
    })
}

fn unary<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    if call.node.op == "Atan" {
        let one_ = lower.splat(x.ty, 1.0, &x.dims)?;
        return one(lower.binary(Binary::Atan2, &x, &one_)?);
    }
    let op = plain_unary(call.node.op)
        .ok_or_else(|| Error::unsupported("this operator is not supported"))?;
    one(lower.unary(op, &x)?)
}

/// Broadcasts the second operand as operator versions before 7 do: aligned at the dimension `axis`.
fn placed(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, a: &Value, b: Value) -> Result<Value> {
    if call.version >= 7 || call.int("broadcast", 0) == 0 || call.attribute("axis").is_none() {
        return Ok(b);
    }
    let axis = call.axis(0, a.rank())?;
    let mut dims = b.dims.clone();
    while axis + dims.len() < a.rank() {
        dims.push(tegula_expr::Term::constant(1));
    }
    lower.reshape(&b, &dims)
}

fn binary<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let b = placed(lower, call, &a, b)?;
    let op = plain_binary(call.node.op)
        .ok_or_else(|| Error::unsupported("this operator is not supported"))?;
    one(lower.binary(op, &a, &b)?)
}

fn compare<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let b = placed(lower, call, &a, b)?;
    let direction = direction(call.node.op)
        .ok_or_else(|| Error::unsupported("this operator is not supported"))?;
    one(lower.compare(direction, &a, &b)?)
}

fn variadic<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let op = match call.node.op {
        "Max" => Binary::Maximum,
        "Min" => Binary::Minimum,
        _ => Binary::Add,
    };
    let mut all = call.input(0)?;
    for at in 1..call.inputs.len() {
        all = lower.binary(op, &all, &call.input(at)?)?;
    }
    if call.node.op == "Mean" {
        let count = lower.like(&all, call.inputs.len() as f64)?;
        all = lower.div(&all, &count)?;
    }
    one(all)
}

fn power<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let exponent = placed(lower, call, &base, exponent)?;
    if base.ty.is_integer() && exponent.ty.is_float() {
        let wide = lower.convert(&base, exponent.ty)?;
        let power = lower.binary(Binary::Power, &wide, &exponent)?;
        return one(lower.convert(&power, base.ty)?);
    }
    let known = exponent.floats().filter(|list| list.len() == 1);
    match known.as_deref() {
        Some([2.0]) if exponent.rank() <= base.rank() => return one(lower.mul(&base, &base)?),
        _ => {}
    }
    let exponent = lower.convert(&exponent, base.ty)?;
    one(lower.binary(Binary::Power, &base, &exponent)?)
}

/// The remainder with the sign of the divisor, or with that of the dividend for `fmod`.
fn modulo<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let (a, b) = lower.together(&a, &b)?;
    let rest = lower.binary(Binary::Remainder, &a, &b)?;
    if call.int("fmod", 0) != 0 || !(a.ty.is_signed() || a.ty.is_float()) {
        return one(rest);
    }
    let zero = lower.like(&a, 0.0)?;
    let is_rest = lower.compare(Direction::Ne, &rest, &zero)?;
    let below = lower.compare(Direction::Lt, &rest, &zero)?;
    let divisor_below = lower.compare(Direction::Lt, &b, &zero)?;
    let differ = lower.binary(Binary::Xor, &below, &divisor_below)?;
    let moves = lower.binary(Binary::And, &is_rest, &differ)?;
    let moved = lower.add(&rest, &b)?;
    one(lower.select(&moves, &moved, &rest)?)
}

fn shift<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let op = match call.text("direction", "") {
        "LEFT" => Binary::ShiftLeft,
        "RIGHT" => Binary::ShiftRightLogical,
        other => {
            return Err(Error::input(format!(
                "expected LEFT or RIGHT as `direction`, found `{other}`"
            )));
        }
    };
    let (a, b) = (call.input(0)?, call.input(1)?);
    let (a, b) = lower.together(&a, &b)?;
    let op = match op {
        Binary::ShiftRightLogical if a.ty.is_signed() => Binary::ShiftRightArithmetic,
        op => op,
    };
    let operands = [lower.local(&a)?, lower.local(&b)?];
    one(lower.push(Op::Binary(op), &operands, a.ty, &a.dims)?)
}

fn cast<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let attribute = call.attribute("to");
    let to = match attribute.and_then(|a| a.int) {
        Some(to) => to,
        // In the first version, types are given by name.
        None => match attribute.and_then(|a| a.string) {
            Some(b"FLOAT") => 1,
            Some(b"INT64") => 7,
            Some(b"INT32") => 6,
            Some(b"BOOL") => 9,
            Some(b"DOUBLE") => 11,
            _ => return Err(Error::input("expected the number of a type as `to`")),
        },
    };
    let x = call.input(0)?;
    one(lower.convert(&x, element_type(to)?)?)
}

/// Reinterprets the bits of each element as another type of the same width.
fn bit_cast<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, ty) = (call.input(0)?, element_type(call.int("to", 0))?);
    match (x.ty, ty) {
        // A `pred` element is a byte with the value 0 or 1.
        (ElementType::Pred, ElementType::U8 | ElementType::S8) => one(lower.convert(&x, ty)?),
        (from, to) if from == to => one(x),
        (from, to) if from.bits() == to.bits() => {
            let local = lower.local(&x)?;
            one(lower.push(Op::BitcastConvert, &[local], ty, &x.dims)?)
        }
        (from, to) => Err(Error::input(format!(
            "{from} and {to} have different element widths"
        ))),
    }
}

fn cast_like<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let ty = call.input(1)?.ty;
    one(lower.convert(&call.input(0)?, ty)?)
}

fn choose<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (condition, a, b) = (call.input(0)?, call.input(1)?, call.input(2)?);
    one(lower.select(&condition, &a, &b)?)
}

fn clip<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut x = call.input(0)?;
    let number = |name: &str| call.attribute(name).and_then(|a| a.float);
    let bound = |lower: &mut Lowerer<'_>, at: usize, name: &str| -> Result<Option<Value>> {
        match (call.optional(at), number(name)) {
            (Some(value), _) => Ok(Some(value)),
            (None, Some(value)) => lower.scalar(x.ty, f64::from(value)).map(Some),
            (None, None) => Ok(None),
        }
    };
    let low = bound(lower, 1, "min")?;
    let high = bound(lower, 2, "max")?;
    if let Some(low) = low {
        x = lower.max(&x, &low)?;
    }
    if let Some(high) = high {
        x = lower.min(&x, &high)?;
    }
    one(x)
}

fn special<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    if call.node.op == "IsNaN" {
        return one(lower.compare(Direction::Ne, &x, &x)?);
    }
    let mut found = lower.splat(ElementType::Pred, 0.0, &x.dims)?;
    let signs = [
        ("detect_positive", f64::INFINITY),
        ("detect_negative", f64::NEG_INFINITY),
    ];
    for (name, infinity) in signs {
        if call.int(name, 1) != 0 {
            let infinity = lower.like(&x, infinity)?;
            let is = lower.compare(Direction::Eq, &x, &infinity)?;
            found = lower.binary(Binary::Or, &found, &is)?;
        }
    }
    one(found)
}

fn identity<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let item = call.inputs.first().cloned();
    Ok(vec![item.unwrap_or(Item::Nothing)])
}

fn prelu<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, slope) = (call.input(0)?, call.input(1)?);
    let zero = lower.like(&x, 0.0)?;
    let below = lower.compare(Direction::Lt, &x, &zero)?;
    let scaled = lower.mul(&x, &slope)?;
    one(lower.select(&below, &scaled, &x)?)
}

/// The product of the second operand with the swish of the first.
fn swish_gate<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let alpha = Some(call.float("alpha", 1.0));
    let gate = activate(lower, "Swish", &a, alpha, None)?;
    one(lower.mul(&gate, &b)?)
}

fn activation<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let number = |name: &str, default: f32| {
        let found = call.attribute(name).and_then(|a| a.float);
        (call.attribute(name).is_some() || default != 0.0).then(|| found.unwrap_or(default))
    };
    let (alpha, beta) = match call.node.op {
        "LeakyRelu" => (number("alpha", 0.01), None),
        "HardSigmoid" => (number("alpha", 0.2), number("beta", 0.5)),
        "Shrink" => (number("lambd", 0.5), number("bias", 0.0)),
        "Selu" => (number("alpha", 1.673_263_2), number("gamma", 1.050_701)),
        "Gelu" => (
            Some(f32::from(call.text("approximate", "none") == "tanh")),
            None,
        ),
        "QuickGelu" => (number("alpha", 1.702), None),
        _ => (number("alpha", 1.0), number("beta", 0.0)),
    };
    let (alpha, beta) = (alpha.map(f64::from), beta.map(f64::from));
    one(activate(lower, call.node.op, &x, alpha, beta)?)
}

/// Applies an activation function, given by name; recurrent operators use it as well.
pub(super) fn activate(
    lower: &mut Lowerer<'_>,
    name: &str,
    x: &Value,
    alpha: Option<f64>,
    beta: Option<f64>,
) -> Result<Value> {
    let alpha_or = |default: f64| alpha.unwrap_or(default);
    let zero = lower.like(x, 0.0)?;
    match name {
        "Relu" => lower.max(x, &zero),
        "Tanh" => lower.unary(Unary::Tanh, x),
        "Sigmoid" => lower.unary(Unary::Logistic, x),
        "Affine" => {
            let scaled = lower.scaled(x, alpha_or(1.0))?;
            lower.shifted(&scaled, beta.unwrap_or(0.0))
        }
        "ScaledTanh" => {
            let inner = lower.scaled(x, beta.unwrap_or(1.0))?;
            let tanh = lower.unary(Unary::Tanh, &inner)?;
            lower.scaled(&tanh, alpha_or(1.0))
        }
        "LeakyRelu" => {
            let scaled = lower.scaled(x, alpha_or(0.01))?;
            let below = lower.compare(Direction::Lt, x, &zero)?;
            lower.select(&below, &scaled, x)
        }
        "Elu" | "Selu" | "Celu" => {
            let alpha = alpha_or(1.0);
            let inner = match name {
                "Celu" => lower.scaled(x, 1.0 / alpha)?,
                _ => x.clone(),
            };
            let grown = lower.unary(Unary::Expm1, &inner)?;
            let grown = lower.scaled(&grown, alpha)?;
            let above = lower.compare(Direction::Gt, x, &zero)?;
            let whole = lower.select(&above, x, &grown)?;
            match name {
                "Selu" => lower.scaled(&whole, beta.unwrap_or(1.050_701)),
                _ => Ok(whole),
            }
        }
        "ThresholdedRelu" => {
            let limit = lower.like(x, alpha_or(1.0))?;
            let above = lower.compare(Direction::Gt, x, &limit)?;
            lower.select(&above, x, &zero)
        }
        "HardSigmoid" => {
            let scaled = lower.scaled(x, alpha_or(0.2))?;
            let line = lower.shifted(&scaled, beta.unwrap_or(0.5))?;
            let one = lower.like(x, 1.0)?;
            let low = lower.max(&line, &zero)?;
            lower.min(&low, &one)
        }
        "HardSwish" => {
            let gate = activate(lower, "HardSigmoid", x, Some(1.0 / 6.0), Some(0.5))?;
            lower.mul(x, &gate)
        }
        "Softplus" => {
            // log(1 + e^x) is computed without overflow as max(x, 0) + log1p(e^-|x|).
            let size = lower.unary(Unary::Abs, x)?;
            let negative = lower.unary(Unary::Negate, &size)?;
            let exp = lower.unary(Unary::Exp, &negative)?;
            let tail = lower.unary(Unary::Log1p, &exp)?;
            let line = lower.max(x, &zero)?;
            lower.add(&line, &tail)
        }
        "Softsign" => {
            let size = lower.unary(Unary::Abs, x)?;
            let size = lower.shifted(&size, 1.0)?;
            lower.div(x, &size)
        }
        "Mish" => {
            let soft = activate(lower, "Softplus", x, None, None)?;
            let gate = lower.unary(Unary::Tanh, &soft)?;
            lower.mul(x, &gate)
        }
        "Gelu" => {
            let half = lower.scaled(x, 0.5)?;
            let inner = match alpha_or(0.0) == 0.0 {
                true => {
                    let scaled = lower.scaled(x, std::f64::consts::FRAC_1_SQRT_2)?;
                    lower.unary(Unary::Erf, &scaled)?
                }
                false => {
                    let square = lower.mul(x, x)?;
                    let cube = lower.mul(&square, x)?;
                    let cube = lower.scaled(&cube, 0.044_715)?;
                    let sum = lower.add(x, &cube)?;
                    let scaled = lower.scaled(&sum, (2.0 / std::f64::consts::PI).sqrt())?;
                    lower.unary(Unary::Tanh, &scaled)?
                }
            };
            let gate = lower.shifted(&inner, 1.0)?;
            lower.mul(&half, &gate)
        }
        "Swish" | "QuickGelu" => {
            let inner = lower.scaled(x, alpha_or(1.0))?;
            let gate = lower.unary(Unary::Logistic, &inner)?;
            lower.mul(x, &gate)
        }
        "Shrink" => {
            let (limit, bias) = (alpha_or(0.5), beta.unwrap_or(0.0));
            let (low, high) = (lower.like(x, -limit)?, lower.like(x, limit)?);
            let below = lower.compare(Direction::Lt, x, &low)?;
            let above = lower.compare(Direction::Gt, x, &high)?;
            let (up, down) = (lower.shifted(x, bias)?, lower.shifted(x, -bias)?);
            let rest = lower.select(&above, &down, &zero)?;
            lower.select(&below, &up, &rest)
        }
        "Reciprocal" => {
            let one = lower.like(x, 1.0)?;
            lower.div(&one, x)
        }
        other => Err(Error::unsupported(format!(
            "the activation `{other}` is not supported"
        ))),
    }
}
