//! Scans (prefix sums and the like): a loop that combines elements by an associative operation and
//! stores the result of every step.
//!
//! A warp or a block handles a row. It takes as many adjacent elements at a time as it has threads.
//! Each thread gets the combination up to its own element by shuffles, and across warps through
//! shared memory; the combination of all elements is carried to the next round.

use super::reduce::shuffled;
use crate::access::{self, LANES, accesses, sectors, set_digits, typical_values};
use crate::body::Body;
use crate::error::Error;
use crate::function::{Function, head, linear, name_domain, over_symbols, points, symbols};
use crate::reduction::{may_be_reordered, neutral};
use crate::scalars::Operation;
use crate::terms::is_short;
use crate::types::carrier;
use rustc_hash::FxHashSet;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType};

/// The number of threads of a block.
const THREADS: i64 = 256;
/// Rows of at least this many elements have a block of their own.
const LONG: i64 = 1024;
/// Rows of at least this many elements are shared by several threads.
const SHORT: i64 = 32;

/// A scalar that the loop carries, and how an element is combined with it.
struct Running {
    init: ScalarId,
    state: ScalarId,
    next: ScalarId,
    op: Binary,
    element: ScalarId,
    ty: ElementType,
}

/// A kernel that is a scan.
struct Scan<'a> {
    before: &'a [Statement],
    var: Var,
    running: Vec<Running>,
    /// Statements of the loop that do not depend on carried scalars; `after` are those that do.
    own: Vec<&'a Statement>,
    after: Vec<&'a Statement>,
}

/// The function, if several threads should share a row.
pub(super) fn function(
    name: &str,
    kernel: &Kernel,
    apart: bool,
) -> Result<Option<Function>, Error> {
    let Some(scan) = scan(kernel).filter(|_| apart) else {
        return Ok(None);
    };
    match group(kernel, &scan) {
        Some(group) => written(name, kernel, &scan, group).map(Some),
        None => Ok(None),
    }
}

fn scan(kernel: &Kernel) -> Option<Scan<'_>> {
    let [
        before @ ..,
        Statement::Loop {
            var,
            init,
            carried,
            body,
            ..
        },
    ] = &kernel.body.statements[..]
    else {
        return None;
    };
    let plain = |s: &Statement| {
        matches!(
            s,
            Statement::Compute { .. } | Statement::Load { .. } | Statement::Bind { .. }
        )
    };
    if carried.is_empty() || !before.iter().all(plain) {
        return None;
    }
    let mut dependent: FxHashSet<ScalarId> = carried.iter().copied().collect();
    let (mut own, mut after) = (Vec::new(), Vec::new());
    let mut running: Vec<Running> = Vec::new();
    for statement in &body.statements {
        let place = match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                let state = carried.iter().position(|state| operands.contains(state));
                if let Some(at) = state {
                    let ScalarOp::Binary(op) = op else {
                        return None;
                    };
                    let &[a, b] = &operands[..] else {
                        return None;
                    };
                    let element = if a == carried[at] { b } else { a };
                    let ty = kernel.scalars.get(carried[at])?;
                    let fits = body.results.get(at) == Some(result)
                        && !dependent.contains(&element)
                        && may_be_reordered(*op, ty)
                        && neutral(*op, ty).is_some()
                        && !running.iter().any(|known| known.state == carried[at]);
                    if !fits {
                        return None;
                    }
                    running.push(Running {
                        init: *init.get(at)?,
                        state: carried[at],
                        next: *result,
                        op: *op,
                        element,
                        ty,
                    });
                    dependent.insert(*result);
                    continue;
                }
                if operands.iter().any(|operand| dependent.contains(operand)) {
                    dependent.insert(*result);
                    &mut after
                } else {
                    &mut own
                }
            }
            Statement::Load { .. } => &mut own,
            Statement::Bind { .. }
                if !dependent.iter().any(|&d| statement.uses(&kernel.vars, d)) =>
            {
                &mut own
            }
            Statement::Store { value, .. } if !carried.contains(value) => &mut after,
            _ => return None,
        };
        place.push(statement);
    }
    let whole = running.len() == carried.len() && after.iter().any(|s| s.is_store());
    let untouched = after
        .iter()
        .all(|s| s.is_store() || !carried.iter().any(|&state| s.uses(&kernel.vars, state)));
    (whole && untouched).then_some(Scan {
        before,
        var: *var,
        running,
        own,
        after,
    })
}

/// How many threads share a row, if they should: because adjacent elements are adjacent in memory,
/// or because rows are few.
fn group(kernel: &Kernel, scan: &Scan<'_>) -> Option<i64> {
    let values = typical_values(kernel);
    let IndexVar::Loop(extent) = kernel.var(scan.var)? else {
        return None;
    };
    let extent = access::value(extent, &values)?;
    if extent < SHORT {
        return None;
    }
    let mut found = Vec::new();
    accesses(kernel, &kernel.body, &mut found);
    let along = |vars: &[Var]| {
        sectors(kernel, &found, &|lane| {
            let mut values = values.clone();
            set_digits(kernel, vars, lane as i64, &mut values)?;
            Some(values)
        })
    };
    let (by_row, by_element) = (along(&kernel.domain), along(&[scan.var]));
    let count = access::value(&points(kernel), &values)?;
    let few = count < LANES as i64;
    (by_element < by_row || few).then_some(if extent >= LONG {
        THREADS
    } else {
        LANES as i64
    })
}

fn written(name: &str, kernel: &Kernel, scan: &Scan<'_>, group: i64) -> Result<Function, Error> {
    let mut body = Body::new(kernel);
    let count = points(kernel);
    let per_block = THREADS / group;
    let padded = count.add(&Term::constant(THREADS));
    let wide = !is_short(body.terms.range(&padded));
    let ty = if wide {
        "unsigned long long"
    } else {
        "unsigned int"
    };
    let bound = body.term(&count);
    body.line(&format!("const int lane = threadIdx.x % {group};"));
    body.line(&format!(
        "{ty} point = ({ty})blockIdx.x * {per_block}u + threadIdx.x / {group};"
    ));
    body.line(&format!("const bool stores = point < ({ty})({bound});"));
    body.line(&format!(
        "point = point < ({ty})({bound}) ? point : ({ty})({bound}) - 1;"
    ));
    name_domain(&mut body, "point", wide)?;
    for statement in scan.before {
        body.statement(statement)?;
    }
    for running in &scan.running {
        let (init, state) = (body.scalar(running.init), body.scalar(running.state));
        body.line(&format!("{} {state} = {init};", carrier(running.ty)));
        if group > LANES as i64 {
            let warps = group / LANES as i64;
            let own = carrier(running.ty);
            body.line(&format!("__shared__ {own} warps_{state}[{warps}];"));
        }
    }
    let extent = body.extent(scan.var)?;
    let reach = extent.add(&Term::constant(THREADS));
    let index = match is_short(body.terms.range(&reach)) {
        true => "int",
        false => "long long",
    };
    let extent = body.term(extent);
    body.open(&format!(
        "for ({index} first = 0; first < {extent}; first += {group})"
    ));
    // Threads beyond the end contribute the neutral element.
    body.line(&format!("const bool inside = first + lane < {extent};"));
    body.declare_index(scan.var, &format!("inside ? first + lane : {extent} - 1"));
    for statement in &scan.own {
        body.statement(statement)?;
    }
    for running in &scan.running {
        running.write(&mut body, group)?;
    }
    body.open("if (inside && stores)");
    for statement in &scan.after {
        body.statement(statement)?;
    }
    body.close("");
    body.close("");
    let blocks = count.ceil_div(&Term::constant(per_block));
    let statements = body.finish();
    let head = head(name, kernel, &[], true, THREADS as u32);
    let who = if group == THREADS {
        "a block"
    } else {
        "a warp"
    };
    Ok(Function {
        name: name.to_owned(),
        reason: format!("{who} per row, with a running total across its steps"),
        text: format!("{head} {{\n{statements}}}\n"),
        block: [THREADS as u32, 1, 1],
        grid: linear(over_symbols(kernel, &blocks)),
        symbols: symbols(kernel),
        guarded: false,
    })
}

impl Running {
    fn combined(&self, a: &str, b: &str) -> Result<String, Error> {
        let operation = Operation {
            op: &ScalarOp::Binary(self.op),
            from: self.ty,
            to: self.ty,
        };
        operation.expression(&[a, b])
    }

    /// The next value at every thread's element, and the combination of all elements so far.
    fn write(&self, body: &mut Body<'_>, group: i64) -> Result<(), Error> {
        let (own, ty) = (carrier(self.ty), self.ty);
        let neutral = neutral(self.op, ty)
            .ok_or_else(|| Error::Bug(format!("{:?} of {ty} has no neutral element", self.op)))?;
        let (state, next) = (body.scalar(self.state), body.scalar(self.next));
        let (element, sum) = (body.scalar(self.element), format!("sum_{next}"));
        body.line(&format!("{own} {sum} = {neutral};"));
        body.line(&format!("if (inside) {sum} = {element};"));
        body.line("#pragma unroll");
        body.open("for (int step = 1; step < 32; step *= 2)");
        let other = shuffled(ty, &sum, "up", "step");
        body.line(&format!("const {own} other = {other};"));
        let value = self.combined("other", &sum)?;
        body.line(&format!("if (lane % 32 >= step) {sum} = {value};"));
        body.close("");
        if group == LANES as i64 {
            let value = self.combined(&state, &sum)?;
            body.line(&format!("const {own} {next} = {value};"));
            let last = shuffled(ty, &next, "idx", "31");
            body.line(&format!("{state} = {last};"));
            return Ok(());
        }
        let shared = format!("warps_{state}");
        body.line(&format!(
            "if (lane % 32 == 31) {shared}[lane / 32] = {sum};"
        ));
        body.line("__syncthreads();");
        body.line(&format!("{own} {next}_before = {state};"));
        body.line("#pragma unroll");
        body.open(&format!(
            "for (int warp = 0; warp < {}; ++warp)",
            group / LANES as i64
        ));
        body.line(&format!("if (warp == lane / 32) {next}_before = {state};"));
        let value = self.combined(&state, &format!("{shared}[warp]"))?;
        body.line(&format!("{state} = {value};"));
        body.close("");
        let value = self.combined(&format!("{next}_before"), &sum)?;
        body.line(&format!("const {own} {next} = {value};"));
        // The next round overwrites what this one has read.
        body.line("__syncthreads();");
        Ok(())
    }
}
