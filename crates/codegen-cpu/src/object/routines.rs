//! Functions that an object calls: functions of single numbers, implemented with the C library's
//! mathematical functions, and functions of the C library itself.
//!
//! They compute the same as [`libcalls`](crate::image::libcalls) in this process, in f64 and
//! rounded once; the C library's functions may differ from ours in the last bit of an f64.

use super::link::{NARROW, ROUTINE};
use crate::error::Error;
use crate::image::libcalls::{self, General, Helper};
use crate::image::{FunctionId, ImageBuilder, function};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use tegula_fusion::kernel::ScalarOp;
use tegula_ir::{Binary, ElementType, Unary};
use tegula_scalar::LEAST_ROUNDED_TO_NORMAL;

/// The C library's functions that an object may call. Cranelift calls those for memory, and the
/// first ones if the machine has no instruction for them.
const OUTSIDE: [&str; 32] = [
    "ceilf", "ceil", "floorf", "floor", "truncf", "trunc", "rintf", "rint", "fmaf", "fma",
    "memcpy", "memmove", "memset", "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "cos",
    "cosh", "erf", "exp", "expm1", "log", "log1p", "sin", "sinh", "tan", "tanh", "pow", "atan2",
];

/// Functions of one number by their names in generated code, without the type, and the C library's
/// functions for f64.
const UNARY: [(&str, &str); 19] = [
    ("acos", "acos"),
    ("acosh", "acosh"),
    ("asin", "asin"),
    ("asinh", "asinh"),
    ("atanh", "atanh"),
    ("cbrt", "cbrt"),
    ("cos", "cos"),
    ("cosh", "cosh"),
    ("erf", "erf"),
    ("exp", "exp"),
    ("expm1", "expm1"),
    ("log", "log"),
    ("log1p", "log1p"),
    ("logistic", "exp"),
    ("round_afz", "round"),
    ("sin", "sin"),
    ("sinh", "sinh"),
    ("tan", "tan"),
    ("tanh", "tanh"),
];
/// The same of two numbers.
const BINARY: [(&str, &str); 3] = [("atan2", "atan2"), ("power", "pow"), ("remainder", "fmod")];
/// Functions whose subnormal f32 results are flushed to zero.
const FLUSHED: [&str; 3] = ["exp", "logistic", "power"];

/// Whether the C library or `crates/rt` has a routine.
pub(super) fn is_outside(name: &str) -> bool {
    let ours = name.starts_with(ROUTINE) || NARROW.contains(&name);
    ours || OUTSIDE.contains(&name) || ["round", "fmod"].contains(&name)
}

/// Defines in an image the functions that its code calls and the C library lacks. Returns for each
/// routine the function that implements it, or `None` for those of the C library, of `crates/rt`
/// and for `custom` calls.
///
/// # Errors
/// Objects do not support a routine yet.
pub(super) fn define(
    image: &mut ImageBuilder,
    custom: &[String],
) -> Result<Vec<Option<FunctionId>>, Error> {
    let mut functions = Vec::new();
    // The functions themselves may call further routines.
    while let Some(name) = image.routine_name(functions.len()) {
        let name = name.to_owned();
        functions.push(match is_outside(&name) || custom.contains(&name) {
            true => None,
            false => Some(scalar_function(image, &name)?),
        });
    }
    Ok(functions)
}

/// The routine of `crates/rt` that applies an operation to operands in memory, if there is one.
pub(super) fn of_operation(operation: &General) -> Option<String> {
    let number = match operation.from {
        ElementType::C64 => "c64",
        ElementType::C128 => "c128",
        _ => return None,
    };
    let name = match &operation.op {
        ScalarOp::Unary(Unary::Abs) => "abs",
        ScalarOp::Unary(Unary::Acos) => "acos",
        ScalarOp::Unary(Unary::Acosh) => "acosh",
        ScalarOp::Unary(Unary::Asin) => "asin",
        ScalarOp::Unary(Unary::Asinh) => "asinh",
        ScalarOp::Unary(Unary::Atanh) => "atanh",
        ScalarOp::Unary(Unary::Cbrt) => "cbrt",
        ScalarOp::Unary(Unary::Cos) => "cos",
        ScalarOp::Unary(Unary::Cosh) => "cosh",
        ScalarOp::Unary(Unary::Exp) => "exp",
        ScalarOp::Unary(Unary::Expm1) => "expm1",
        ScalarOp::Unary(Unary::Log) => "log",
        ScalarOp::Unary(Unary::Log1p) => "log1p",
        ScalarOp::Unary(Unary::Logistic) => "logistic",
        ScalarOp::Unary(Unary::Rsqrt) => "rsqrt",
        ScalarOp::Unary(Unary::Sign) => "sign",
        ScalarOp::Unary(Unary::Sin) => "sin",
        ScalarOp::Unary(Unary::Sinh) => "sinh",
        ScalarOp::Unary(Unary::Sqrt) => "sqrt",
        ScalarOp::Unary(Unary::Tan) => "tan",
        ScalarOp::Unary(Unary::Tanh) => "tanh",
        ScalarOp::Binary(Binary::Power) => "power",
        ScalarOp::Binary(Binary::Atan2) => "atan2",
        _ => return None,
    };
    Some(format!("{ROUTINE}{number}_{name}"))
}

/// The general function in an object: an operation's address is that of a routine, which gets the
/// address of the operands.
fn apply_general(image: &mut ImageBuilder) -> Result<FunctionId, Error> {
    let routine = image.signature(&[types::I64], &[]);
    let signature = (&[types::I64; 2][..], &[][..]);
    function::define(image, signature, |_, builder, given| {
        let &[operation, slots] = given else {
            return Err(Error::Bug(
                "the fallback function for operations must have two parameters".to_owned(),
            ));
        };
        let routine = builder.import_signature(routine);
        let ins = builder.ins();
        ins.call_indirect(routine, operation, &[slots]);
        Ok(None)
    })
}

/// Defines a routine by name, such as `exp_f32`.
fn scalar_function(image: &mut ImageBuilder, name: &str) -> Result<FunctionId, Error> {
    if name == libcalls::APPLY_GENERAL.name {
        return apply_general(image);
    }
    let missing = || Error::Unsupported(format!("`{name}` in an object"));
    let (base, ty) = match (name.strip_suffix("_f32"), name.strip_suffix("_f64")) {
        (Some(base), _) => (base, types::F32),
        (_, Some(base)) => (base, types::F64),
        _ => return Err(missing()),
    };
    let find = |table: &[(&str, &'static str)]| {
        let found = table.iter().find(|(own, _)| *own == base);
        found.map(|(_, outside)| *outside)
    };
    let (outside, count) = match (find(&UNARY), find(&BINARY)) {
        (Some(outside), _) => (Some(outside), 1),
        (_, Some(outside)) => (Some(outside), 2),
        _ if base == "sign" => (None, 1),
        _ => return Err(missing()),
    };
    let signature = (&[ty, ty][..count], &[ty][..]);
    function::define(image, signature, |image, builder, operands| {
        Ok(Some(match outside {
            None => sign(builder, ty, operands[0]),
            Some(outside) => computed(image, builder, (base, outside), ty, operands),
        }))
    })
}

/// Calls the C library's function in f64 and rounds the result.
fn computed(
    image: &mut ImageBuilder,
    builder: &mut FunctionBuilder<'_>,
    (base, outside): (&str, &'static str),
    ty: Type,
    operands: &[Value],
) -> Value {
    let is_single = ty == types::F32;
    let widened = operands.iter().map(|&x| {
        if !is_single {
            return x;
        }
        // The error function of a subnormal number is flushed to zero.
        let x = match base == "erf" {
            true => flushed(builder, x, f64::from(f32::MIN_POSITIVE), ty),
            false => x,
        };
        builder.ins().fpromote(types::F64, x)
    });
    let mut widened: Vec<Value> = widened.collect();
    if base == "logistic" {
        widened[0] = builder.ins().fneg(widened[0]);
    }
    let routine = Helper {
        name: outside,
        address: std::ptr::null(),
        params: &[types::F64, types::F64][..operands.len()],
        returns: &[types::F64],
    };
    let routine = image.refer_to_routine(&routine, builder.func);
    let call = builder.ins().call(routine, &widened);
    let mut result = builder.inst_results(call)[0];
    if base == "logistic" {
        let one = builder.ins().f64const(1.0);
        let sum = builder.ins().fadd(one, result);
        result = builder.ins().fdiv(one, sum);
    }
    if !is_single {
        return result;
    }
    if FLUSHED.contains(&base) {
        result = flushed(builder, result, LEAST_ROUNDED_TO_NORMAL, types::F64);
    }
    builder.ins().fdemote(types::F32, result)
}

/// Flushes a number whose magnitude is below the smallest one to a zero of its sign.
fn flushed(builder: &mut FunctionBuilder<'_>, x: Value, least: f64, ty: Type) -> Value {
    let [zero, least] = [0.0, least].map(|number| constant(builder, number, ty));
    let magnitude = builder.ins().fabs(x);
    let is_small = builder.ins().fcmp(FloatCC::LessThan, magnitude, least);
    let zero = builder.ins().fcopysign(zero, x);
    builder.ins().select(is_small, zero, x)
}

/// One with the number's sign; the number itself if it is a zero or NaN.
fn sign(builder: &mut FunctionBuilder<'_>, ty: Type, x: Value) -> Value {
    let [zero, one] = [0.0, 1.0].map(|number| constant(builder, number, ty));
    let differs = builder.ins().fcmp(FloatCC::OrderedNotEqual, x, zero);
    let one = builder.ins().fcopysign(one, x);
    builder.ins().select(differs, one, x)
}

fn constant(builder: &mut FunctionBuilder<'_>, number: f64, ty: Type) -> Value {
    match ty {
        types::F32 => builder.ins().f32const(number as f32),
        _ => builder.ins().f64const(number),
    }
}
