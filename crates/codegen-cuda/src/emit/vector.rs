//! Several adjacent points per thread, so that contiguous data is read and written 16 bytes at a
//! time.
//!
//! A thread's points are adjacent along the innermost dimension of the domain. If all accesses of a
//! kernel use the linear number of the point as index, the kernel is treated as one-dimensional, so
//! only the total number of points has to be a multiple of the vector width.

use super::lanes::{self, Lanes};
use crate::body::Body;
use crate::error::Error;
use crate::function::{Function, head, linear, name_domain, over_symbols, points, symbols};
use crate::terms::is_short;
use rustc_hash::FxHashMap;
use tegula_expr::{Term, canonicalize};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{IndexVar, ScalarOp, Statement};

/// The number of threads of a block.
const THREADS: i64 = 256;
/// Longer bodies have one point per thread: their arithmetic costs more than their accesses.
const LONGEST: usize = 48;

/// The function, if several points per thread suit the kernel.
pub(super) fn function(
    name: &str,
    kernel: &Kernel,
    apart: bool,
) -> Result<Option<Function>, Error> {
    if kernel.body.statements.len() > LONGEST || kernel.body.any(Statement::is_loop) {
        return Ok(None);
    }
    let flat = flattened(kernel);
    if let Some(flat) = &flat
        && let Some(width) = width(flat)
    {
        return written(name, flat, apart, width).map(Some);
    }
    match width(kernel) {
        Some(width) => written(name, kernel, apart, width).map(Some),
        None => Ok(None),
    }
}

fn width(kernel: &Kernel) -> Option<(i64, i64)> {
    let &inner = kernel.domain.last()?;
    lanes::width(kernel, inner, &mut kernel.body.statements.iter())
}

/// The same kernel with one dimension, if the index of every top-level access is the linear number
/// of the point or does not depend on the point, and nothing else depends on the point.
fn flattened(kernel: &Kernel) -> Option<Kernel> {
    if kernel.domain.len() < 2 {
        return None;
    }
    let ranges = crate::body::variable_ranges(kernel);
    let count = points(kernel).as_constant()?;
    let mut number = Term::constant(0);
    for &var in &kernel.domain {
        let IndexVar::Domain(extent) = kernel.var(var)? else {
            return None;
        };
        number = number.mul(extent).add(&Term::var(var));
    }
    let number = canonicalize(&number, &ranges);
    let depends = |term: &Term| kernel.domain.iter().any(|&var| term.mentions(var));
    let mut flat = kernel.clone();
    let var = flat.push_var(IndexVar::Domain(Term::constant(count)));
    flat.domain = vec![var];
    let mut places: FxHashMap<usize, bool> = FxHashMap::default();
    for statement in &mut flat.body.statements {
        match statement {
            Statement::Load { param, index, .. } | Statement::Store { param, index, .. } => {
                let place =
                    canonicalize(&kernel.params.get(*param)?.elements_before(index), &ranges);
                let at_number = place == number;
                if !at_number && depends(&place) {
                    return None;
                }
                // All accesses to a parameter must agree in this.
                if *places.entry(*param).or_insert(at_number) != at_number {
                    return None;
                }
                if at_number {
                    *index = vec![Term::var(var)];
                }
            }
            Statement::Compute {
                op: ScalarOp::Index(term),
                ..
            } if depends(term) => return None,
            Statement::Compute { .. } | Statement::Bind { .. } => {}
            Statement::Loop { .. } | Statement::If { .. } => return None,
        }
    }
    for (param, at_number) in places {
        if at_number {
            flat.params.get_mut(param)?.dims = vec![Term::constant(count)];
        }
    }
    Some(flat)
}

fn written(
    name: &str,
    kernel: &Kernel,
    apart: bool,
    (width, widest): (i64, i64),
) -> Result<Function, Error> {
    let Some(&inner) = kernel.domain.last() else {
        let message = "a kernel of several points has no domain";
        return Err(Error::Bug(message.to_owned()));
    };
    let mut body = Body::new(kernel);
    let count = points(kernel).floor_div(&Term::constant(width));
    let padded = points(kernel).add(&Term::constant(THREADS * width));
    let wide = !is_short(body.terms.range(&padded));
    let ty = if wide {
        "unsigned long long"
    } else {
        "unsigned int"
    };
    body.line(&format!(
        "const {ty} thread = ({ty})blockIdx.x * {THREADS}u + threadIdx.x;"
    ));
    let bound = body.term(&count);
    body.line(&format!("if (thread >= ({ty})({bound})) return;"));
    body.line(&format!("const {ty} point = thread * {width}u;"));
    name_domain(&mut body, "point", wide)?;
    let mut lanes = Lanes::new(kernel, inner, width);
    for (number, statement) in kernel.body.statements.iter().enumerate() {
        lanes.statement(&mut body, number, statement)?;
    }
    let blocks = count.ceil_div(&Term::constant(THREADS));
    let statements = body.finish();
    let head = head(name, kernel, &[], apart, THREADS as u32);
    let dims = if kernel.domain.len() == 1 {
        "in a row"
    } else {
        "along the last dimension"
    };
    Ok(Function {
        name: name.to_owned(),
        reason: format!("{width} points {dims} per thread, accesses of {widest} bytes"),
        text: format!("{head} {{\n{statements}}}\n"),
        block: [THREADS as u32, 1, 1],
        grid: linear(over_symbols(kernel, &blocks)),
        symbols: symbols(kernel),
        guarded: false,
    })
}
