//! Kernels of rows: several loops along one row, where later loops get the results of earlier ones
//! from registers.
//!
//! The threads of a group (a part of a warp, a warp, or a block) share a row. A thread has the same
//! columns in every loop, up to 16 bytes of adjacent ones at a time. So a local array of the row
//! becomes a local array of each thread, which the compiler can keep in registers once the loops
//! are unrolled and all its indices are constant. Loop-carried scalars are combined over the group
//! by shuffles and shared memory.

use super::lanes::{self, Lanes};
use super::reduce::{State, combine_group};
use crate::access::LANES;
use crate::body::Body;
use crate::error::Error;
use crate::function::{Function, head, linear, name_domain, over_symbols, points, symbols};
use crate::reduction::{may_be_reordered, neutral};
use crate::terms::is_short;
use crate::types::carrier;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use tegula_expr::{Term, Var, canonicalize};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, ScalarId, Statement};
use tegula_ir::Binary;

/// The number of threads of a block with several rows.
const THREADS: i64 = 256;
/// The most threads of a block.
const MOST_THREADS: i64 = 1024;
/// The number of accesses per thread and loop that leaves enough registers. It sets the size of
/// groups, which have enough threads for no more accesses than this, and it is the limit up to
/// which loops are unrolled.
const MOST_ROUNDS: i64 = 4;

/// A loop along the row.
struct Pass<'a> {
    var: Var,
    init: &'a [ScalarId],
    carried: &'a [ScalarId],
    results: &'a [ScalarId],
    body: &'a Block,
    combine: SmallVec<[Binary; 2]>,
}

/// How rows are spread over threads.
struct Spread {
    columns: i64,
    /// How many adjacent columns a thread takes at once.
    width: i64,
    /// The number of threads of a row.
    group: i64,
    /// How many times a thread takes columns in each loop.
    rounds: i64,
}

/// The function, if the kernel is a kernel of rows.
pub(super) fn function(
    name: &str,
    kernel: &Kernel,
    apart: bool,
) -> Result<Option<Function>, Error> {
    let Some(mut spread) = spread(kernel) else {
        return Ok(None);
    };
    if !apart && spread.group > 1 {
        // Threads without a row would otherwise read a row that others overwrite.
        spread.group = spread.group.max(LANES as i64);
        let vectors = spread.columns / spread.width;
        spread.rounds = (vectors + spread.group - 1) / spread.group;
    }
    let writer = Writer {
        kernel,
        spread,
        apart,
    };
    writer.function(name).map(Some)
}

/// The loop that a statement is, if its carried scalars are only combined.
fn pass<'a>(kernel: &Kernel, statement: &'a Statement) -> Option<Pass<'a>> {
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
    let mut combine = SmallVec::new();
    for (&state, &next) in carried.iter().zip(&body.results) {
        let op = body.combination(&kernel.vars, state, next)?;
        let ty = kernel.scalars.get(state)?;
        (may_be_reordered(op, ty) && neutral(op, ty).is_some()).then_some(())?;
        combine.push(op);
    }
    Some(Pass {
        var: *var,
        init,
        carried,
        results,
        body,
        combine,
    })
}

fn is_local(kernel: &Kernel, param: usize) -> bool {
    let declared = kernel.params.get(param);
    declared.is_some_and(|p| p.access == Access::Local)
}

/// Whether a statement accesses a local array of the row.
fn local(kernel: &Kernel, statement: &Statement) -> bool {
    match statement {
        Statement::Load { param, .. } | Statement::Store { param, .. } => is_local(kernel, *param),
        _ => false,
    }
}

/// Chooses how rows are spread, if the kernel has several loops along one row.
fn spread(kernel: &Kernel) -> Option<Spread> {
    // Updates of an array must keep their order.
    if kernel.params.iter().any(|p| p.access == Access::Update) {
        return None;
    }
    let mut columns = None;
    let mut passes = Vec::new();
    for statement in &kernel.body.statements {
        match statement {
            Statement::Loop { var, .. } => {
                let IndexVar::Loop(extent) = kernel.var(*var)? else {
                    return None;
                };
                let extent = extent.as_constant()?;
                if *columns.get_or_insert(extent) != extent {
                    return None;
                }
                passes.push(pass(kernel, statement)?);
            }
            Statement::If {
                then, otherwise, ..
            } if [then, otherwise]
                .iter()
                .any(|b| b.any(|s| s.is_store() || s.is_loop())) =>
            {
                return None;
            }
            other if local(kernel, other) => return None,
            _ => {}
        }
    }
    let columns = columns.filter(|&columns| columns > 1)?;
    let stores_in_loop = passes.iter().any(|p| p.body.any(Statement::is_store));
    if passes.len() < 2 && !stores_in_loop {
        return None;
    }
    let ranges = crate::body::variable_ranges(kernel);
    for pass in &passes {
        for statement in &pass.body.statements {
            match statement {
                // A thread has only its own columns of a local array.
                Statement::Load { param, index, .. } | Statement::Store { param, index, .. }
                    if is_local(kernel, *param) =>
                {
                    let place = kernel.params.get(*param)?.elements_before(index);
                    if canonicalize(&place, &ranges) != Term::var(pass.var) {
                        return None;
                    }
                }
                Statement::Store { param, index, .. } => {
                    let place = kernel.params.get(*param)?.elements_before(index);
                    if !moves_with(&canonicalize(&place, &ranges), pass.var) {
                        return None;
                    }
                }
                Statement::Loop { .. } => return None,
                Statement::If {
                    then, otherwise, ..
                } => {
                    for block in [then, otherwise] {
                        if block.any(|s| s.is_store() || s.is_loop())
                            || accesses_local(kernel, block)
                        {
                            return None;
                        }
                    }
                }
                _ => {}
            }
        }
    }
    let fits = |width: i64| {
        columns % width == 0
            && passes.iter().all(|pass| {
                let global = pass.body.statements.iter().filter(|s| !local(kernel, s));
                lanes::fits(kernel, pass.var, width, &mut { global })
            })
    };
    let width = [16, 8, 4, 2].into_iter().find(|&width| fits(width));
    let width = width.unwrap_or(1);
    let vectors = columns / width;
    let wanted = (vectors + MOST_ROUNDS - 1) / MOST_ROUNDS;
    let group = (wanted as u64).next_power_of_two() as i64;
    // If possible, a warp reads whole cache lines of a row.
    let whole = (vectors as u64).next_power_of_two().min(LANES as u64) as i64;
    let group = group.max(whole).min(MOST_THREADS);
    Some(Spread {
        columns,
        width,
        group,
        rounds: (vectors + group - 1) / group,
    })
}

/// Whether the index is different for every value of a variable.
fn moves_with(place: &Term, var: Var) -> bool {
    let Some((parts, _)) = place.as_linear() else {
        return false;
    };
    let mut moving = parts.iter().filter(|(part, _)| part.mentions(var));
    let first = moving.next();
    first.is_some_and(|(part, factor)| part.as_var() == Some(var) && *factor != 0)
        && moving.next().is_none()
}

fn accesses_local(kernel: &Kernel, block: &Block) -> bool {
    block.statements.iter().any(|statement| match statement {
        Statement::If {
            then, otherwise, ..
        } => accesses_local(kernel, then) || accesses_local(kernel, otherwise),
        other => local(kernel, other),
    })
}

struct Writer<'a> {
    kernel: &'a Kernel,
    spread: Spread,
    apart: bool,
}

impl Writer<'_> {
    /// The number of threads of a block, and of its rows.
    fn block(&self) -> (i64, i64) {
        let group = self.spread.group;
        match group > LANES as i64 || !self.apart && group > 1 {
            true => (group, 1),
            false => (THREADS, THREADS / group),
        }
    }

    fn function(self, name: &str) -> Result<Function, Error> {
        let kernel = self.kernel;
        let mut body = Body::new(kernel);
        let count = points(kernel);
        let (threads, rows) = self.block();
        let wide = !is_short(body.terms.range(&count.add(&Term::constant(threads))));
        let ty = if wide {
            "unsigned long long"
        } else {
            "unsigned int"
        };
        let bound = body.term(&count);
        let group = self.spread.group;
        body.line(&format!("const int lane = threadIdx.x % {group};"));
        body.line(&format!(
            "{ty} point = ({ty})blockIdx.x * {rows}u + threadIdx.x / {group};"
        ));
        if group == 1 {
            body.line(&format!("if (point >= ({ty})({bound})) return;"));
            body.line("const bool live = true;");
        } else {
            // Threads without a row take part in collective operations of a warp.
            body.line(&format!("const bool live = point < ({ty})({bound});"));
            body.line(&format!("point = live ? point : ({ty})({bound}) - 1;"));
        }
        name_domain(&mut body, "point", wide)?;
        let own = self.spread.rounds * self.spread.width;
        for (i, param) in kernel.params.iter().enumerate().skip(kernel.given()) {
            let ty = carrier(param.element_type);
            body.line(&format!("{ty} own{i}[{own}];"));
        }
        for (number, statement) in kernel.body.statements.iter().enumerate() {
            match statement {
                Statement::Loop { .. } => {
                    let pass = pass(kernel, statement);
                    let pass =
                        pass.ok_or_else(|| Error::Bug("a loop of a row changed".to_owned()))?;
                    self.pass(&mut body, number, &pass)?;
                }
                Statement::Store { .. } => {
                    self.before_stores(&mut body);
                    body.open("if (live && lane == 0)");
                    body.statement(statement)?;
                    body.close("");
                }
                other => body.statement(other)?,
            }
        }
        let statements = body.finish();
        let head = head(name, kernel, &[], self.apart, threads as u32);
        let blocks = count.ceil_div(&Term::constant(rows));
        let who = match group {
            1 => "a thread".to_owned(),
            32 => "a warp".to_owned(),
            2..32 => format!("{group} lanes"),
            _ => format!("a block of {group} threads"),
        };
        let Spread { columns, width, .. } = self.spread;
        Ok(Function {
            name: name.to_owned(),
            reason: format!(
                "{who} per row of {columns}, which stays in registers, {width} elements at once"
            ),
            text: format!("{head} {{\n{statements}}}\n"),
            block: [threads as u32, 1, 1],
            grid: linear(over_symbols(kernel, &blocks)),
            symbols: symbols(kernel),
            guarded: false,
        })
    }

    /// If a row may be overwritten while it is read, waits until all of its threads have read it.
    fn before_stores(&self, body: &mut Body<'_>) {
        if !self.apart && self.spread.group > 1 {
            body.line("__syncthreads();");
        }
    }

    fn pass(&self, body: &mut Body<'_>, number: usize, pass: &Pass<'_>) -> Result<(), Error> {
        let Spread {
            columns,
            width,
            group,
            rounds,
        } = self.spread;
        let mut lanes = match width {
            1 => Lanes::one(self.kernel),
            width => Lanes::new(self.kernel, pass.var, width),
        };
        let mut own: FxHashSet<ScalarId> = pass.carried.iter().copied().collect();
        super::reduce::defined(pass.body, &mut own);
        let mut states = Vec::new();
        for (&scalar, &op) in pass.carried.iter().zip(&pass.combine) {
            let ty = body.type_of(scalar)?;
            states.push(State { scalar, op, ty });
        }
        if pass.body.any(Statement::is_store) {
            self.before_stores(body);
        }
        body.own = Some(own);
        for state in &states {
            lanes.each(body, &mut |body, _| state.declare(body))?;
        }
        // A thread's local arrays are in registers only if all indices are constant.
        let keeps = self.kernel.given() < self.kernel.params.len();
        let unrolled = keeps || rounds <= MOST_ROUNDS;
        body.line(if unrolled {
            "#pragma unroll"
        } else {
            "#pragma unroll 1"
        });
        body.open(&format!(
            "for (int round{number} = 0; round{number} < {rounds}; ++round{number})"
        ));
        let vectors = columns / width;
        let at = format!("round{number} * {group} + lane");
        let guarded = vectors % group != 0;
        if guarded {
            body.open(&format!("if ({at} < {vectors})"));
        }
        let column = match width {
            1 => at,
            width => format!("({at}) * {width}"),
        };
        body.declare_index(pass.var, &column);
        for (inner, statement) in pass.body.statements.iter().enumerate() {
            let slot = |lane: usize| format!("round{number} * {width} + {lane}");
            match statement {
                Statement::Load { result, param, .. } if is_local(self.kernel, *param) => {
                    let ty = carrier(body.param_type(*param)?);
                    lanes.each(body, &mut |body, lane| {
                        let name = body.scalar(*result);
                        body.line(&format!("const {ty} {name} = own{param}[{}];", slot(lane)));
                        Ok(())
                    })?;
                }
                Statement::Store { param, value, .. } if is_local(self.kernel, *param) => {
                    lanes.each(body, &mut |body, lane| {
                        let value = body.scalar(*value);
                        body.line(&format!("own{param}[{}] = {value};", slot(lane)));
                        Ok(())
                    })?;
                }
                Statement::Store { .. } => {
                    body.open("if (live)");
                    lanes.statement(body, inner, statement)?;
                    body.close("");
                }
                other => lanes.statement(body, inner, other)?,
            }
        }
        lanes.each(body, &mut |body, _| {
            for (&state, &next) in pass.carried.iter().zip(&pass.body.results) {
                let line = format!("{} = {};", body.scalar(state), body.scalar(next));
                body.line(&line);
            }
            Ok(())
        })?;
        if guarded {
            body.close("");
        }
        body.close("");
        body.own = None;
        for (place, state) in states.iter().enumerate() {
            state.merge(body, &lanes)?;
            combine_group(body, state, group)?;
            let (first, all) = (body.scalar(pass.init[place]), body.scalar(state.scalar));
            let value = state.combined(&first, &all)?;
            let (own, result) = (carrier(state.ty), body.scalar(pass.results[place]));
            body.line(&format!("const {own} {result} = {value};"));
        }
        Ok(())
    }
}
