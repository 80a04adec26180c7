//! One thread per point of the domain: the form for kernels that fit no other.
//!
//! Threads are numbered along the domain's innermost dimension, which is also that of the written
//! elements, so the writes of a warp are adjacent.

use crate::body::Body;
use crate::error::Error;
use crate::function::{Function, head, linear, name_domain, over_symbols, points, symbols};
use crate::terms::is_short;
use crate::types::storage;
use tegula_expr::Term;
use tegula_fusion::Kernel;

/// The number of threads of a block.
const THREADS: u32 = 256;

pub(super) fn function(name: &str, kernel: &Kernel, apart: bool) -> Result<Function, Error> {
    let mut body = Body::new(kernel);
    let count = points(kernel);
    // The last block's threads beyond the last point have numbers too.
    let padded = count.add(&Term::constant(i64::from(THREADS)));
    let wide = !is_short(body.terms.range(&padded));
    let ty = if wide {
        "unsigned long long"
    } else {
        "unsigned int"
    };
    body.line(&format!(
        "const {ty} point = ({ty})blockIdx.x * {THREADS}u + threadIdx.x;"
    ));
    let bound = body.term(&count);
    body.line(&format!("if (point >= ({ty})({bound})) return;"));
    name_domain(&mut body, "point", wide)?;
    // Local arrays of a point that the better forms would keep in registers.
    for (i, param) in kernel.params.iter().enumerate().skip(kernel.given()) {
        let elements = param.dims.iter();
        let elements = elements.fold(Term::constant(1), |all, dim| all.mul(dim));
        let (own, count) = (storage(param.element_type), body.term(&elements));
        body.line(&format!("{own} p{i}[{count}];"));
    }
    body.block(&kernel.body)?;
    let blocks = count.ceil_div(&Term::constant(i64::from(THREADS)));
    let statements = body.finish();
    let head = head(name, kernel, &[], apart, THREADS);
    Ok(Function {
        name: name.to_owned(),
        reason: "one thread per point".to_owned(),
        text: format!("{head} {{\n{statements}}}\n"),
        block: [THREADS, 1, 1],
        grid: linear(over_symbols(kernel, &blocks)),
        symbols: symbols(kernel),
        guarded: false,
    })
}
