//! Recognises reductions: loops that combine elements in any order.
//!
//! A loop, or several nested ones, is a reduction if each carried scalar is used only once, by an
//! operation that may be reordered and whose result is its next value. Sums of floats may be
//! reordered, because the Plan does not specify an order.

use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, Category, ElementType};

/// A nest of loops that is a reduction.
#[derive(Clone, Debug)]
pub(crate) struct Reduction<'a> {
    /// The loops' variables, outermost first.
    pub vars: Vec<Var>,
    /// The product of their extents.
    pub extent: Term,
    /// The initial values.
    pub init: &'a [ScalarId],
    /// The carried scalars as the innermost body sees them.
    pub carried: &'a [ScalarId],
    /// The operation that combines an element with each carried scalar.
    pub combine: Vec<Binary>,
    /// The innermost body.
    pub body: &'a Block,
    /// The carried scalars after the last iteration.
    pub results: &'a [ScalarId],
}

/// The reduction that a statement is, if it is one.
pub(crate) fn of<'a>(kernel: &Kernel, statement: &'a Statement) -> Option<Reduction<'a>> {
    let Statement::Loop {
        var,
        init,
        carried,
        body,
        results,
    } = statement
    else {
        return None;
    };
    let IndexVar::Loop(extent) = kernel.var(*var)? else {
        return None;
    };
    // A loop that only passes its state to an inner loop.
    if let [inner @ Statement::Loop { .. }] = &body.statements[..]
        && let Some(mut nest) = of(kernel, inner)
        && nest.init == &carried[..]
        && nest.results == &body.results[..]
    {
        nest.vars.insert(0, *var);
        nest.extent = extent.mul(&nest.extent);
        nest.init = init;
        nest.results = results;
        return Some(nest);
    }
    let mut combine = Vec::with_capacity(carried.len());
    for (&state, &next) in carried.iter().zip(&body.results) {
        let op = combination(&kernel.vars, body, state, next)?;
        may_be_reordered(op, kernel.scalars.get(state)?).then_some(())?;
        combine.push(op);
    }
    (!combine.is_empty()).then_some(Reduction {
        vars: vec![*var],
        extent: extent.clone(),
        init,
        carried,
        combine,
        body,
        results,
    })
}

/// The operation that computes the next value from a carried scalar, if the scalar is used for
/// nothing else.
fn combination(vars: &[IndexVar], body: &Block, state: ScalarId, next: ScalarId) -> Option<Binary> {
    let mut found = None;
    for statement in &body.statements {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => match op {
                ScalarOp::Binary(op) if *result == next => {
                    let uses = operands.iter().filter(|&&operand| operand == state);
                    if uses.count() != 1 {
                        return None;
                    }
                    found = Some(*op);
                }
                _ if operands.contains(&state) || operands.contains(&next) => return None,
                _ => {}
            },
            other if other.uses(vars, state) || other.uses(vars, next) => return None,
            _ => {}
        }
    }
    let shared = body
        .results
        .iter()
        .filter(|&&result| result == next)
        .count()
        > 1;
    found.filter(|_| !shared)
}

pub(crate) fn may_be_reordered(op: Binary, ty: ElementType) -> bool {
    match op {
        Binary::Add => true,
        Binary::Multiply => !ty.is_complex(),
        Binary::Maximum | Binary::Minimum => !ty.is_complex(),
        Binary::And | Binary::Or | Binary::Xor => {
            ty.is_integer() || ty.category() == Category::Boolean
        }
        _ => false,
    }
}

/// The neutral element, as C text of the carrier type: -0 for sums, because adding 0 would change
/// -0.
pub(crate) fn neutral(op: Binary, ty: ElementType) -> Option<String> {
    let double = ty == ElementType::F64;
    let float = ty.is_float();
    let infinity = |negative: bool| {
        let sign = if negative { "-" } else { "" };
        match double {
            true => format!("{sign}__longlong_as_double(0x7ff0000000000000ll)"),
            false => format!("{sign}__int_as_float(0x7f800000)"),
        }
    };
    let suffix = if double { "" } else { "f" };
    if ty.category() == Category::Boolean {
        return Some(match op {
            Binary::Add | Binary::Maximum | Binary::Or | Binary::Xor => "false".to_owned(),
            _ => "true".to_owned(),
        });
    }
    if ty.is_complex() {
        let zero = if ty == ElementType::C128 {
            "-0.0"
        } else {
            "-0.0f"
        };
        return (op == Binary::Add).then(|| format!("tegula_complex({zero}, {zero})"));
    }
    let (low, high) = match (ty.is_signed(), ty.bits().min(64)) {
        (true, bits) => {
            let high = i64::MAX >> (64 - bits);
            let wide = bits == 64;
            let text = |value| crate::terms::literal(value, wide);
            (text(-high - 1), text(high))
        }
        (false, 64) => ("0ull".to_owned(), format!("{}ull", u64::MAX)),
        (false, bits) => ("0u".to_owned(), format!("{}u", (1u64 << bits) - 1)),
    };
    Some(match op {
        Binary::Add if float => format!("-0.0{suffix}"),
        Binary::Multiply if float => format!("1.0{suffix}"),
        Binary::Maximum if float => infinity(true),
        Binary::Minimum if float => infinity(false),
        Binary::Add | Binary::Or | Binary::Xor => "0".to_owned(),
        Binary::Multiply => "1".to_owned(),
        Binary::Maximum => low,
        Binary::Minimum => high,
        Binary::And if ty.is_signed() => "-1".to_owned(),
        Binary::And => high,
        _ => return None,
    })
}
