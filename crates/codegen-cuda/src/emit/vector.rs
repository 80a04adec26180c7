//! Several neighbouring points per thread, so that what lies together is read and
//! written 16 bytes at a time.
//!
//! A thread's points are neighbours along the innermost dimension of the domain. An
//! access is wide where its place is proved to be a multiple of the number of points
//! and to grow by one from point to point; one whose place is the same for all points
//! is done for each, which the compiler makes one; any other is done point by point. A
//! kernel all of whose accesses are at the number of the point is taken as one of a
//! single dimension, so that only the number of all its points has to be a multiple.

use crate::body::Body;
use crate::error::Error;
use crate::function::{Function, head, linear, name_domain, over_symbols, points, symbols};
use crate::terms::is_short;
use crate::types::{load, storage, store};
use rustc_hash::FxHashMap;
use tegula_expr::{Interval, Term, Var, canonicalize, residue_of};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{IndexVar, ScalarOp, Statement};

/// Threads of a block.
const THREADS: i64 = 256;
/// Bytes of the widest access of a thread.
const WIDEST: i64 = 16;
/// Bodies longer than this are written once: their arithmetic costs more than their
/// accesses.
const LONGEST: usize = 48;

/// How a top-level access relates to the points of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Along {
    /// Neighbouring points access neighbouring elements, the first at a multiple.
    Neighbours,
    /// The same element for all points.
    Same,
    /// Anything else.
    Apart,
}

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

/// The same kernel with one dimension, if every access at the top is at the number of
/// the point or at a place that does not depend on it, and nothing else depends on
/// the point.
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
                // A parameter has one shape.
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

/// How many points a thread should have, if more than one, and the bytes of its widest
/// access, at most 16.
fn width(kernel: &Kernel) -> Option<(i64, i64)> {
    let &inner = kernel.domain.last()?;
    let IndexVar::Domain(extent) = kernel.var(inner)? else {
        return None;
    };
    let extent = extent.as_constant()?;
    let statements = &kernel.body.statements;
    if statements.iter().any(|s| matches!(s, Statement::If { then, otherwise, .. } if then.any(Statement::is_store) || otherwise.any(Statement::is_store))) {
        return None;
    }
    let mut width = WIDEST;
    while width > 1 {
        if extent % width == 0 {
            let found = accesses_along(kernel, inner, width)?;
            let neighbours = found
                .iter()
                .filter(|(_, along)| *along == Along::Neighbours);
            let widest = neighbours.map(|(bytes, _)| bytes * width).max();
            // A point of its own for each lane is better for what is far apart: the
            // sectors of a warp's access are the same, but there are more of them.
            let scattered = found.iter().any(|(_, along)| *along == Along::Apart);
            if let Some(widest) = widest.filter(|&widest| widest <= WIDEST && !scattered) {
                return Some((width, widest));
            }
        }
        width /= 2;
    }
    None
}

/// For each top-level access: the bytes of its element, and how it lies along the
/// points of a thread. `None` if a store is not wide, or where
/// only some points read.
fn accesses_along(kernel: &Kernel, inner: Var, width: i64) -> Option<Vec<(i64, Along)>> {
    let mut found = Vec::new();
    for statement in &kernel.body.statements {
        if let Statement::If {
            then, otherwise, ..
        } = statement
            && (then.any(Statement::is_load) || otherwise.any(Statement::is_load))
        {
            return None;
        }
        let (param, index, is_store) = match statement {
            Statement::Load { param, index, .. } => (*param, index, false),
            Statement::Store { param, index, .. } => (*param, index, true),
            _ => continue,
        };
        let along = along(kernel, inner, width, param, index)?;
        if is_store && along != Along::Neighbours {
            return None;
        }
        let bytes = kernel.params.get(param)?.element_type.storage_bytes() as i64;
        found.push((bytes, along));
    }
    Some(found)
}

/// How an access lies along the points `inner = width * q + lane` of a thread.
fn along(kernel: &Kernel, inner: Var, width: i64, param: usize, index: &[Term]) -> Option<Along> {
    let mut ranges = crate::body::variable_ranges(kernel);
    let place = kernel.params.get(param)?.elements_before(index);
    // Places that depend on what was read are not known.
    let runtime = |var: Var| matches!(kernel.var(var), Some(IndexVar::Runtime { .. }));
    let mut unknown = false;
    place.for_each_var(&mut |var| unknown |= runtime(var));
    let range = ranges.get(inner.0 as usize).copied()?;
    let quotient = Var(ranges.len() as u32);
    ranges.push(Interval::new(0, range.upper / width));
    let at = |lane: i64| {
        let point = Term::var(quotient)
            .mul(&Term::constant(width))
            .add(&Term::constant(lane));
        let place = place.substitute(&mut |var| (var == inner).then(|| point.clone()));
        canonicalize(&place, &ranges)
    };
    let first = at(0);
    if unknown {
        return Some(Along::Apart);
    }
    let steps: Vec<Term> = (1..width)
        .map(|lane| canonicalize(&at(lane).sub(&first), &ranges))
        .collect();
    if steps.iter().all(|step| step.as_constant() == Some(0)) {
        return Some(Along::Same);
    }
    let neighbours = steps
        .iter()
        .zip(1..)
        .all(|(step, lane)| step.as_constant() == Some(lane));
    let residue = residue_of(&first, &ranges);
    let aligned = residue.modulus % width == 0 && residue.remainder % width == 0;
    Some(if neighbours && aligned {
        Along::Neighbours
    } else {
        Along::Apart
    })
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
    let lanes: Vec<FxHashMap<Var, Term>> = (0..width)
        .map(|lane| {
            [(inner, Term::var(inner).add(&Term::constant(lane)))]
                .into_iter()
                .collect()
        })
        .collect();
    let mut lanes = Lanes {
        kernel,
        inner,
        width,
        lanes,
    };
    for (number, statement) in kernel.body.statements.iter().enumerate() {
        lanes.statement(&mut body, number, statement)?;
    }
    let blocks = count.ceil_div(&Term::constant(THREADS));
    let statements = body.finish();
    let head = head(name, kernel, apart, THREADS as u32);
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
    })
}

/// The points of a thread.
struct Lanes<'a> {
    kernel: &'a Kernel,
    inner: Var,
    width: i64,
    /// What variables are at each point.
    lanes: Vec<FxHashMap<Var, Term>>,
}

impl Lanes<'_> {
    fn statement(
        &mut self,
        body: &mut Body<'_>,
        number: usize,
        statement: &Statement,
    ) -> Result<(), Error> {
        match statement {
            Statement::Load {
                result,
                param,
                index,
            } if self.is_wide(*param, index) => {
                let (ty, vector) = (body.param_type(*param)?, self.vector(body, *param)?);
                let element = self.first(body, *param, index)?;
                let name = format!("x{number}");
                body.line(&format!(
                    "const {vector} {name} = *(const {vector} *)&{element};"
                ));
                self.each(body, &mut |body, lane| {
                    let value = load(ty, &format!("{name}.at[{lane}]"));
                    let own = crate::types::carrier(ty);
                    let line = format!("const {own} {} = {value};", body.scalar(*result));
                    body.line(&line);
                    Ok(())
                })
            }
            Statement::Store {
                param,
                index,
                value,
            } => {
                let (ty, vector) = (body.param_type(*param)?, self.vector(body, *param)?);
                let name = format!("y{number}");
                body.line(&format!("{vector} {name};"));
                self.each(body, &mut |body, lane| {
                    let stored = store(ty, &body.scalar(*value));
                    body.line(&format!("{name}.at[{lane}] = {stored};"));
                    Ok(())
                })?;
                let element = self.first(body, *param, index)?;
                body.line(&format!("*({vector} *)&{element} = {name};"));
                Ok(())
            }
            other => self.each(body, &mut |body, _| body.statement(other)),
        }
    }

    fn is_wide(&self, param: usize, index: &[Term]) -> bool {
        along(self.kernel, self.inner, self.width, param, index) == Some(Along::Neighbours)
    }

    fn vector(&self, body: &Body<'_>, param: usize) -> Result<String, Error> {
        let ty = storage(body.param_type(param)?);
        Ok(format!("tegula_vector<{ty}, {}>", self.width))
    }

    /// The element of the thread's first point.
    fn first(&self, body: &mut Body<'_>, param: usize, index: &[Term]) -> Result<String, Error> {
        body.lane.clone_from(&self.lanes[0]);
        let element = body.element(param, index);
        body.lane.clear();
        element
    }

    /// Does something for each point.
    fn each(
        &mut self,
        body: &mut Body<'_>,
        write: &mut dyn FnMut(&mut Body<'_>, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (lane, known) in self.lanes.iter_mut().enumerate() {
            std::mem::swap(&mut body.lane, known);
            body.prefix = format!("n{lane}_");
            let written = write(body, lane);
            body.prefix.clear();
            std::mem::swap(&mut body.lane, known);
            written?;
        }
        Ok(())
    }
}
