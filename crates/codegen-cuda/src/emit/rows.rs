//! Reductions along what lies together in memory: the threads of a group share one
//! point of the domain and split its loops.
//!
//! A group is part of a warp for short loops, so that a warp has several points; a
//! warp; or a block for long ones. Each thread combines every n-th element, then
//! the group combines what its threads have by shuffles, and across warps through
//! shared memory. What comes before and after the loops is computed by every thread of
//! the group; one of them stores.
//!
//! Where neighbouring points lie together but are few, the warps of a block split the
//! loops of 32 points instead: the lanes of a warp read neighbouring points, and what
//! the warps have is combined through shared memory.

use crate::access::{self, LANES, accesses, sectors, set_digits, typical_values};
use crate::body::Body;
use crate::error::Error;
use crate::function::{Function, head, linear, name_domain, over_symbols, points, symbols};
use crate::reduction::{self, Reduction, neutral};
use crate::scalars::Operation;
use crate::terms::is_short;
use crate::types::carrier;
use tegula_expr::Term;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, Category, ElementType};

/// Threads of a block.
const THREADS: i64 = 256;
/// From this many elements on, a point has a block of its own.
const LONG: i64 = 1024;
/// So many points give work to every lane of a large GPU without groups (132
/// multiprocessors of an H100 with 2048 threads each, divided by eight).
const MANY_POINTS: i64 = 32768;

/// How a kernel is spread.
struct Choice {
    /// Threads that share a point: a power of two up to 32, or 256.
    group: i64,
    /// The threads of a group are those of the same lane in each warp.
    columns: bool,
    reason: String,
}

/// The function, if groups suit the kernel.
pub(super) fn function(
    name: &str,
    kernel: &Kernel,
    apart: bool,
) -> Result<Option<Function>, Error> {
    let Some(choice) = choose(kernel, apart) else {
        return Ok(None);
    };
    let Choice {
        group,
        columns,
        reason,
    } = choice;
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
    if columns {
        body.line(&format!("const int lane = threadIdx.x / {LANES};"));
        body.line(&format!(
            "{ty} point = ({ty})blockIdx.x * {per_block}u + threadIdx.x % {LANES};"
        ));
        live(&mut body, ty, &bound);
    } else if group == THREADS {
        body.line(&format!("const {ty} point = blockIdx.x;"));
        body.line("const int lane = threadIdx.x;");
        body.line("const bool stores = lane == 0;");
    } else {
        body.line(&format!("const int lane = threadIdx.x % {group};"));
        body.line(&format!(
            "{ty} point = ({ty})blockIdx.x * {per_block}u + threadIdx.x / {group};"
        ));
        live(&mut body, ty, &bound);
    }
    name_domain(&mut body, "point", wide)?;
    let rows = Rows { group, columns };
    for statement in &kernel.body.statements {
        match (reduction::of(kernel, statement), statement) {
            (Some(reduction), _) => rows.reduce(&mut body, &reduction)?,
            (None, Statement::Store { .. }) => {
                body.open("if (stores)");
                body.statement(statement)?;
                body.close("");
            }
            (None, other) => body.statement(other)?,
        }
    }
    let blocks = count.ceil_div(&Term::constant(per_block));
    let statements = body.finish();
    let head = head(name, kernel, apart, THREADS as u32);
    Ok(Some(Function {
        name: name.to_owned(),
        reason,
        text: format!("{head} {{\n{statements}}}\n"),
        block: [THREADS as u32, 1, 1],
        grid: linear(over_symbols(kernel, &blocks)),
        symbols: symbols(kernel),
    }))
}

/// Threads without a point take part in what the group does together and store
/// nothing.
fn live(body: &mut Body<'_>, ty: &str, bound: &str) {
    body.line(&format!(
        "const bool stores = lane == 0 && point < ({ty})({bound});"
    ));
    body.line(&format!(
        "point = point < ({ty})({bound}) ? point : ({ty})({bound}) - 1;"
    ));
}

/// Whether groups suit the kernel, and how large they are.
fn choose(kernel: &Kernel, apart: bool) -> Option<Choice> {
    // A group's threads read what one of them overwrites.
    if !apart {
        return None;
    }
    let mut longest: Option<(i64, Reduction<'_>)> = None;
    let values = typical_values(kernel);
    for statement in &kernel.body.statements {
        match reduction::of(kernel, statement) {
            Some(found) => {
                let extent = access::value(&found.extent, &values)?;
                if longest.as_ref().is_none_or(|(known, _)| extent > *known) {
                    longest = Some((extent, found));
                }
            }
            None if is_plain(statement) => {}
            None => return None,
        }
    }
    let (extent, reduction) = longest?;
    let count = access::value(&points(kernel), &values)?;
    if extent < 2 || count < 1 {
        return None;
    }
    let group = match extent {
        LONG.. => THREADS,
        _ => (extent as u64).next_power_of_two().min(LANES as u64) as i64,
    };
    let mut read = Vec::new();
    accesses(kernel, reduction.body, &mut read);
    // A warp of points against a warp of elements.
    let by_point = sectors(kernel, &read, &|lane| {
        let mut values = values.clone();
        set_digits(kernel, &kernel.domain, lane as i64, &mut values)?;
        Some(values)
    });
    let by_element = sectors(kernel, &read, &|lane| {
        let (point, element) = (lane as i64 / group, lane as i64 % group);
        let mut values = values.clone();
        set_digits(kernel, &kernel.domain, point, &mut values)?;
        set_digits(kernel, &reduction.vars, element, &mut values)?;
        Some(values)
    });
    let few = count < MANY_POINTS && extent >= 32;
    if by_element >= by_point && !few {
        return None;
    }
    if by_element > by_point && count >= LANES as i64 {
        return Some(Choice {
            group: THREADS / LANES as i64,
            columns: true,
            reason: format!(
                "8 warps per 32 points: a warp's reads touch {by_point} sectors with a thread \
                 per point, {by_element} with a warp, but the points are few"
            ),
        });
    }
    if by_element > by_point.saturating_mul(2) {
        return None;
    }
    let who = match group {
        THREADS => "a block of 256 threads".to_owned(),
        32 => "a warp".to_owned(),
        group => format!("{group} lanes"),
    };
    let reason = format!(
        "{who} per point: a warp's reads touch {by_element} sectors so, {by_point} with a thread per point{}",
        if by_element >= by_point {
            ", but the points are few"
        } else {
            ""
        }
    );
    Some(Choice {
        group,
        columns: false,
        reason,
    })
}

/// Whether a statement may be run by every thread of a group, or is a store.
fn is_plain(statement: &Statement) -> bool {
    match statement {
        Statement::Compute { .. }
        | Statement::Load { .. }
        | Statement::Bind { .. }
        | Statement::Store { .. } => true,
        Statement::Loop { body, .. } => body.statements.iter().all(is_pure),
        Statement::If {
            then, otherwise, ..
        } => then
            .statements
            .iter()
            .chain(&otherwise.statements)
            .all(is_pure),
    }
}

fn is_pure(statement: &Statement) -> bool {
    is_plain(statement) && !matches!(statement, Statement::Store { .. })
}

struct Rows {
    group: i64,
    columns: bool,
}

impl Rows {
    fn reduce(&self, body: &mut Body<'_>, reduction: &Reduction<'_>) -> Result<(), Error> {
        let mut states = Vec::new();
        for (&state, &op) in reduction.carried.iter().zip(&reduction.combine) {
            let ty = body.type_of(state)?;
            let neutral = neutral(op, ty)
                .ok_or_else(|| Error::Bug(format!("{op:?} of {ty} has no neutral element")))?;
            body.line(&format!(
                "{} {} = {neutral};",
                carrier(ty),
                body.scalar(state)
            ));
            states.push((state, op, ty));
        }
        let extent = body.term(&reduction.extent);
        let wide = !is_short(
            body.terms
                .range(&reduction.extent.add(&Term::constant(THREADS))),
        );
        let index = if wide { "long long" } else { "int" };
        let name = format!("j{}", reduction.vars[0].0);
        let group = self.group;
        body.open(&format!(
            "for ({index} {name} = lane; {name} < {extent}; {name} += {group})"
        ));
        let mut rest = name;
        for (level, &var) in reduction.vars.iter().enumerate().rev() {
            let own = body.term(body.extent(var)?);
            if level == 0 {
                body.declare_index(var, &rest);
            } else {
                let unsigned = if wide {
                    "unsigned long long"
                } else {
                    "unsigned int"
                };
                body.declare_index(var, &format!("({unsigned}){rest} % ({unsigned})({own})"));
                let next = format!("j{}", reduction.vars[level - 1].0);
                let next = format!("{next}_{level}");
                body.line(&format!(
                    "const {index} {next} = ({index})(({unsigned}){rest} / ({unsigned})({own}));"
                ));
                rest = next;
            }
        }
        body.block(reduction.body)?;
        for (&state, &next) in reduction.carried.iter().zip(&reduction.body.results) {
            let line = format!("{} = {};", body.scalar(state), body.scalar(next));
            body.line(&line);
        }
        body.close("");
        for (place, &(state, op, ty)) in states.iter().enumerate() {
            self.combine(body, state, op, ty)?;
            let (init, result) = (reduction.init[place], reduction.results[place]);
            let (first, all) = (body.scalar(init), body.scalar(state));
            let value = combined(op, ty, &first, &all)?;
            let line = format!("const {} {} = {value};", carrier(ty), body.scalar(result));
            body.line(&line);
        }
        Ok(())
    }

    /// Combines a scalar over the threads of the group; every one has the result.
    fn combine(
        &self,
        body: &mut Body<'_>,
        state: ScalarId,
        op: Binary,
        ty: ElementType,
    ) -> Result<(), Error> {
        let name = body.scalar(state);
        let own = carrier(ty);
        if self.columns {
            let warps = self.group;
            body.line(&format!("__shared__ {own} warps_{name}[{warps}][{LANES}];"));
            body.line(&format!(
                "warps_{name}[lane][threadIdx.x % {LANES}] = {name};"
            ));
            body.line("__syncthreads();");
            body.line(&format!("{name} = warps_{name}[0][threadIdx.x % {LANES}];"));
            body.line("#pragma unroll");
            body.open(&format!("for (int warp = 1; warp < {warps}; ++warp)"));
            body.line(&format!(
                "const {own} other = warps_{name}[warp][threadIdx.x % {LANES}];"
            ));
            let value = combined(op, ty, &name, "other")?;
            body.line(&format!("{name} = {value};"));
            body.close("");
            return Ok(());
        }
        let lanes = self.group.min(LANES as i64);
        if lanes > 1 {
            body.line("#pragma unroll");
            body.open(&format!(
                "for (int step = {}; step > 0; step /= 2)",
                lanes / 2
            ));
            body.line(&format!("const {own} other = {};", shuffled(ty, &name)));
            let value = combined(op, ty, &name, "other")?;
            body.line(&format!("{name} = {value};"));
            body.close("");
        }
        if self.group <= LANES as i64 {
            return Ok(());
        }
        let warps = self.group / LANES as i64;
        body.line(&format!("__shared__ {own} warps_{name}[{warps}];"));
        body.line(&format!(
            "if (lane % 32 == 0) warps_{name}[lane / 32] = {name};"
        ));
        body.line("__syncthreads();");
        body.line(&format!("{name} = warps_{name}[0];"));
        body.line("#pragma unroll");
        body.open(&format!("for (int warp = 1; warp < {warps}; ++warp)"));
        body.line(&format!("const {own} other = warps_{name}[warp];"));
        let value = combined(op, ty, &name, "other")?;
        body.line(&format!("{name} = {value};"));
        body.close("");
        Ok(())
    }
}

fn combined(op: Binary, ty: ElementType, a: &str, b: &str) -> Result<String, Error> {
    let operation = Operation {
        op: &ScalarOp::Binary(op),
        from: ty,
        to: ty,
    };
    operation.expression(&[a, b])
}

/// The value of the lane whose number differs in one bit.
fn shuffled(ty: ElementType, name: &str) -> String {
    let shuffle = |value: &str| format!("__shfl_xor_sync(0xffffffffu, {value}, step)");
    match ty.category() {
        Category::Boolean => format!("{} != 0", shuffle(&format!("(int){name}"))),
        Category::Complex => {
            let [re, im] = ["re", "im"].map(|part| shuffle(&format!("{name}.{part}")));
            format!("tegula_complex({re}, {im})")
        }
        _ => shuffle(name),
    }
}
