//! Reductions: several threads share one point of the domain and split its loops.
//!
//! If the reduced elements are adjacent in memory, a group of adjacent threads shares a point. A
//! group is a part of a warp for short loops (so that a warp has several points), a warp, or a
//! block for long loops. A thread takes up to 16 bytes at once, in strides of the group's size.
//! Then the group combines its partial results by shuffles, and across warps through shared memory.
//! Every thread of the group computes what comes before and after the loops, and one of them
//! stores.
//!
//! If adjacent points are adjacent in memory instead, a row of threads takes adjacent points, up to
//! 16 bytes of them per thread, and the rows of a block split the loops. The partial results of the
//! rows are combined through shared memory.
//!
//! If points are few, several blocks split the loops of each point. They store partial results in
//! memory, and a second function combines these. The order of combination depends on sizes only, so
//! a result does not depend on which block is first.

mod spread;

use super::lanes::Lanes;
use crate::access::LANES;
use crate::body::Body;
use crate::error::Error;
use crate::function::{
    Function, KernelSequence, head, linear, name_domain, over_symbols, points, symbols,
};
use crate::reduction::{self, Reduction, neutral};
use crate::scalars::Operation;
use crate::terms::is_short;
use crate::types::{carrier, load, storage, store};
use rustc_hash::FxHashSet;
use spread::{Spread, THREADS, choose, width};
use tegula_expr::Term;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, Category, ElementType};

/// The functions, if thread groups suit the kernel.
pub(super) fn functions(
    name: &str,
    kernel: &Kernel,
    apart: bool,
) -> Result<Option<KernelSequence>, Error> {
    let Some(spread) = choose(kernel, apart) else {
        return Ok(None);
    };
    let Some(split) = spread.split else {
        let all = Writer::new(name, kernel, &spread, Part::All).function()?;
        return Ok(Some(KernelSequence::one(all, kernel.params.len())));
    };
    let reduced = kernel.body.statements.iter();
    let Some(reduction) = reduced.filter_map(|s| reduction::of(kernel, s)).next() else {
        return Err(Error::Bug("a split reduction has no loop".to_owned()));
    };
    let elements = over_symbols(kernel, &points(kernel)).mul(&Term::constant(split.blocks));
    let mut scratch = Vec::new();
    for &state in reduction.carried {
        let ty = kernel.scalars.get(state);
        let ty = ty.ok_or_else(|| Error::Bug(format!("{state} has no type")))?;
        scratch.push(elements.mul(&Term::constant(ty.storage_bytes() as i64)));
    }
    let first = Writer::new(name, kernel, &spread, Part::Partial).function()?;
    let rest = Spread {
        // In scratch memory, the partial results of adjacent points are adjacent if columns are
        // spread over threads, otherwise those of one point.
        group: if spread.columns.is_some() {
            1
        } else {
            LANES as i64
        },
        columns: None,
        split: spread.split,
        reason: format!("combines the partial results of the blocks of `{name}`"),
    };
    let by_point = spread.columns.is_none();
    let rest_name = format!("{name}_rest");
    let rest = Writer::new(&rest_name, kernel, &rest, Part::Rest { by_point }).function()?;
    let functions = vec![first, rest];
    Ok(Some(KernelSequence::in_turn(
        functions,
        kernel.params.len(),
        scratch,
    )))
}

/// The part of a kernel that a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    /// Everything up to the end of the loops, of which it does a part; the partial results are
    /// stored in memory.
    Partial,
    /// The rest: the loops combine the partial results in memory, which are ordered by point or by
    /// block.
    Rest {
        by_point: bool,
    },
}

struct Writer<'a> {
    name: &'a str,
    kernel: &'a Kernel,
    spread: &'a Spread,
    part: Part,
    /// The points of a thread.
    lanes: Lanes<'a>,
}

impl<'a> Writer<'a> {
    fn new(name: &'a str, kernel: &'a Kernel, spread: &'a Spread, part: Part) -> Self {
        let lanes = match (spread.columns, kernel.domain.last()) {
            (Some(columns), Some(&inner)) if columns.width > 1 => {
                Lanes::new(kernel, inner, columns.width)
            }
            _ => Lanes::one(kernel),
        };
        Self {
            name,
            kernel,
            spread,
            part,
            lanes,
        }
    }

    /// The number of blocks that split the loops in this function.
    fn blocks_of_point(&self) -> i64 {
        match (self.part, self.spread.split) {
            (Part::Partial, Some(split)) => split.blocks,
            _ => 1,
        }
    }

    /// The number of points of a block.
    fn points_of_block(&self) -> i64 {
        match self.spread.columns {
            Some(columns) => columns.lanes * columns.width,
            None => THREADS / self.spread.group,
        }
    }

    fn function(mut self) -> Result<Function, Error> {
        let kernel = self.kernel;
        let mut body = Body::new(kernel);
        let count = points(kernel);
        let per_block = self.points_of_block();
        let padded = count.add(&Term::constant(THREADS * self.lanes.width()));
        let wide = !is_short(body.terms.range(&padded));
        self.place(&mut body, &count, wide);
        name_domain(&mut body, "point", wide)?;
        let mut scratch = Vec::new();
        for (number, statement) in kernel.body.statements.iter().enumerate() {
            match (reduction::of(kernel, statement), statement) {
                (Some(reduction), _) => {
                    for &state in reduction.carried {
                        scratch.push(storage(body.type_of(state)?));
                    }
                    self.reduce(&mut body, &reduction)?;
                    if self.part == Part::Partial {
                        self.leave(&mut body, &reduction)?;
                        break;
                    }
                }
                (None, Statement::Store { .. }) => {
                    body.open("if (stores)");
                    self.lanes.statement(&mut body, number, statement)?;
                    body.close("");
                }
                (None, other) => self.lanes.statement(&mut body, number, other)?,
            }
        }
        if self.part == Part::All {
            scratch.clear();
        }
        let blocks = count.ceil_div(&Term::constant(per_block));
        let blocks = blocks.mul(&Term::constant(self.blocks_of_point()));
        let statements = body.finish();
        let head = head(self.name, kernel, &scratch, true, THREADS as u32);
        Ok(Function {
            name: self.name.to_owned(),
            reason: self.spread.reason.clone(),
            text: format!("{head} {{\n{statements}}}\n"),
            block: [THREADS as u32, 1, 1],
            grid: linear(over_symbols(kernel, &blocks)),
            symbols: symbols(kernel),
            guarded: false,
        })
    }

    /// Declares the thread's first point, its number `lane` in the group, and whether it stores.
    /// Threads without a point take part in collective operations of the group.
    fn place(&self, body: &mut Body<'_>, count: &Term, wide: bool) {
        let ty = if wide {
            "unsigned long long"
        } else {
            "unsigned int"
        };
        let bound = body.term(count);
        let group = self.spread.group;
        let blocks = self.blocks_of_point();
        let block = match blocks {
            1 => "blockIdx.x".to_owned(),
            blocks => {
                body.line(&format!("const int split = blockIdx.x % {blocks}u;"));
                format!("blockIdx.x / {blocks}u")
            }
        };
        let width = self.lanes.width();
        match self.spread.columns {
            Some(columns) => {
                let lanes = columns.lanes;
                body.line(&format!("const int lane = threadIdx.x / {lanes};"));
                body.line(&format!("const int across = threadIdx.x % {lanes};"));
                body.line(&format!(
                    "{ty} point = (({ty})({block}) * {lanes}u + across) * {width}u;"
                ));
            }
            None if group == THREADS => {
                body.line(&format!("const {ty} point = {block};"));
                body.line("const int lane = threadIdx.x;");
                body.line("const bool stores = lane == 0;");
                return;
            }
            None => {
                body.line(&format!("const int lane = threadIdx.x % {group};"));
                body.line(&format!(
                    "{ty} point = ({ty})({block}) * {}u + threadIdx.x / {group};",
                    THREADS / group
                ));
            }
        }
        body.line(&format!(
            "const bool stores = lane == 0 && point < ({ty})({bound});"
        ));
        body.line(&format!(
            "point = point < ({ty})({bound}) ? point : ({ty})({bound}) - {width};"
        ));
    }

    fn reduce(&mut self, body: &mut Body<'_>, reduction: &Reduction<'_>) -> Result<(), Error> {
        let mut states = Vec::new();
        for (&state, &op) in reduction.carried.iter().zip(&reduction.combine) {
            states.push(State {
                scalar: state,
                op,
                ty: body.type_of(state)?,
            });
        }
        match (self.part, self.spread.columns) {
            (Part::Rest { by_point }, _) => self.partials(body, &states, by_point)?,
            (_, None) => self.along(body, reduction, &states)?,
            (_, Some(_)) => self.across(body, reduction, &states)?,
        }
        for (place, state) in states.iter().enumerate() {
            let (init, result) = (reduction.init[place], reduction.results[place]);
            self.lanes.each(body, &mut |body, _| {
                let (first, all) = (body.scalar(init), body.scalar(state.scalar));
                // If blocks compute partial results, the function that combines them adds the initial value.
                let value = match self.part {
                    Part::Partial => return Ok(()),
                    _ => state.combined(&first, &all)?,
                };
                let own = carrier(state.ty);
                let line = format!("const {own} {} = {value};", body.scalar(result));
                body.line(&line);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The loops of a group whose threads take adjacent elements.
    fn along(
        &self,
        body: &mut Body<'_>,
        reduction: &Reduction<'_>,
        states: &[State],
    ) -> Result<(), Error> {
        let Some(&inner) = reduction.vars.last() else {
            return Err(Error::Bug("a reduction has no loop".to_owned()));
        };
        let width = width(reduction, self.kernel);
        let mut lanes = match width {
            1 => Lanes::one(self.kernel),
            width => Lanes::new(self.kernel, inner, width),
        };
        let mut own: FxHashSet<ScalarId> = reduction.carried.iter().copied().collect();
        defined(reduction.body, &mut own);
        body.own = Some(own);
        let written = elements(body, &mut lanes, reduction, states, self.steps(width));
        body.own = None;
        written?;
        for state in states {
            state.merge(body, &lanes)?;
        }
        let group = self.spread.group;
        states
            .iter()
            .try_for_each(|state| combine_group(body, state, group))
    }

    /// The loops of rows of threads that take adjacent points.
    fn across(
        &mut self,
        body: &mut Body<'_>,
        reduction: &Reduction<'_>,
        states: &[State],
    ) -> Result<(), Error> {
        let steps = self.steps(1);
        elements(body, &mut self.lanes, reduction, states, steps)?;
        let (Some(columns), rows) = (self.spread.columns, self.spread.group) else {
            return Ok(());
        };
        if rows == 1 {
            return Ok(());
        }
        let lanes = columns.lanes;
        for state in states {
            self.lanes.each(body, &mut |body, _| {
                let (own, name) = (carrier(state.ty), body.scalar(state.scalar));
                body.line(&format!("__shared__ {own} rows_{name}[{rows}][{lanes}];"));
                body.line(&format!("rows_{name}[lane][across] = {name};"));
                Ok(())
            })?;
        }
        body.line("__syncthreads();");
        for state in states {
            self.lanes.each(body, &mut |body, _| {
                let (own, name) = (carrier(state.ty), body.scalar(state.scalar));
                body.line(&format!("{name} = rows_{name}[0][across];"));
                body.line("#pragma unroll");
                body.open(&format!("for (int row = 1; row < {rows}; ++row)"));
                body.line(&format!("const {own} other = rows_{name}[row][across];"));
                let value = state.combined(&name, "other")?;
                body.line(&format!("{name} = {value};"));
                body.close("");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Combines the partial results of blocks.
    fn partials(&self, body: &mut Body<'_>, states: &[State], by_point: bool) -> Result<(), Error> {
        let blocks = self.spread.split.map_or(1, |split| split.blocks);
        let count = body.term(&points(self.kernel));
        let group = self.spread.group;
        for state in states {
            state.declare(body)?;
        }
        body.open(&format!(
            "for (int split = lane; split < {blocks}; split += {group})"
        ));
        let at = match by_point {
            true => format!("(unsigned long long)point * {blocks}u + split"),
            false => format!("(unsigned long long)split * ({count}) + point"),
        };
        for (number, state) in states.iter().enumerate() {
            let value = load(state.ty, &format!("q{number}[{at}]"));
            let (own, name) = (carrier(state.ty), body.scalar(state.scalar));
            body.line(&format!("const {own} other{number} = {value};"));
            let value = state.combined(&name, &format!("other{number}"))?;
            body.line(&format!("{name} = {value};"));
        }
        body.close("");
        let group = self.spread.group;
        states
            .iter()
            .try_for_each(|state| combine_group(body, state, group))
    }

    /// Stores the partial results of a block.
    fn leave(&mut self, body: &mut Body<'_>, reduction: &Reduction<'_>) -> Result<(), Error> {
        let blocks = self.blocks_of_point();
        let count = body.term(&points(self.kernel));
        let by_point = self.spread.columns.is_none();
        body.open("if (stores)");
        for (number, &state) in reduction.carried.iter().enumerate() {
            let ty = body.type_of(state)?;
            if by_point {
                let value = store(ty, &body.scalar(state));
                body.line(&format!(
                    "q{number}[(unsigned long long)point * {blocks}u + split] = {value};"
                ));
                continue;
            }
            // The points of a thread are adjacent, and the first is a multiple of their number.
            let vector = self.lanes.vector(ty);
            body.line(&format!("{vector} y{number};"));
            self.lanes.each(body, &mut |body, lane| {
                let value = store(ty, &body.scalar(state));
                body.line(&format!("y{number}.at[{lane}] = {value};"));
                Ok(())
            })?;
            body.line(&format!(
                "*({vector} *)&q{number}[(unsigned long long)split * ({count}) + point] = y{number};"
            ));
        }
        body.close("");
        Ok(())
    }

    /// The loop steps of a thread, where a step is `width` elements.
    fn steps(&self, width: i64) -> Steps {
        Steps {
            width,
            group: self.spread.group,
            chunk: match self.part {
                Part::Partial => self.spread.split.map(|split| split.chunk),
                _ => None,
            },
        }
    }
}

/// The loop steps of a thread: every `group`-th one, starting from its own number, out of those of
/// its block if there are several blocks.
#[derive(Clone, Copy)]
struct Steps {
    width: i64,
    group: i64,
    chunk: Option<i64>,
}

/// A scalar that a loop carries.
pub(super) struct State {
    pub scalar: ScalarId,
    pub op: Binary,
    pub ty: ElementType,
}

impl State {
    pub(super) fn declare(&self, body: &mut Body<'_>) -> Result<(), Error> {
        let (op, ty) = (self.op, self.ty);
        let neutral = neutral(op, ty)
            .ok_or_else(|| Error::Bug(format!("{op:?} of {ty} has no neutral element")))?;
        let line = format!("{} {} = {neutral};", carrier(ty), body.scalar(self.scalar));
        body.line(&line);
        Ok(())
    }

    /// Combines the states of all positions of a thread.
    pub(super) fn merge(&self, body: &mut Body<'_>, lanes: &Lanes<'_>) -> Result<(), Error> {
        if lanes.width() == 1 {
            return Ok(());
        }
        let (own, name) = (carrier(self.ty), body.scalar(self.scalar));
        body.line(&format!("{own} {name} = {}{name};", lanes.prefix(0)));
        for lane in 1..lanes.width() as usize {
            let value = self.combined(&name, &format!("{}{name}", lanes.prefix(lane)))?;
            body.line(&format!("{name} = {value};"));
        }
        Ok(())
    }

    pub(super) fn combined(&self, a: &str, b: &str) -> Result<String, Error> {
        let operation = Operation {
            op: &ScalarOp::Binary(self.op),
            from: self.ty,
            to: self.ty,
        };
        operation.expression(&[a, b])
    }
}

/// A thread's own loop, with separate states for each position of `lanes`.
fn elements(
    body: &mut Body<'_>,
    lanes: &mut Lanes<'_>,
    reduction: &Reduction<'_>,
    states: &[State],
    steps: Steps,
) -> Result<(), Error> {
    for state in states {
        lanes.each(body, &mut |body, _| state.declare(body))?;
    }
    let Steps {
        width,
        group,
        chunk,
    } = steps;
    let count = reduction.extent.floor_div(&Term::constant(width));
    let reach = reduction.extent.add(&Term::constant(THREADS * width));
    let wide = !is_short(body.terms.range(&reach));
    let index = if wide { "long long" } else { "int" };
    let mut end = body.term(&count);
    let name = format!("j{}", reduction.vars[0].0);
    let mut begin = "lane".to_owned();
    if let Some(chunk) = chunk {
        begin = format!("({index})split * {chunk} + lane");
        let next = format!("({index})(split + 1) * {chunk}");
        body.line(&format!(
            "const {index} end_{name} = {next} < {end} ? {next} : {end};"
        ));
        end = format!("end_{name}");
    }
    body.open(&format!(
        "for ({index} {name} = {begin}; {name} < {end}; {name} += {group})"
    ));
    let mut rest = name;
    if width > 1 {
        body.line(&format!("const {index} {rest}_0 = {rest} * {width};"));
        rest += "_0";
    }
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
            let next = format!("j{}_{level}", reduction.vars[level - 1].0);
            body.line(&format!(
                "const {index} {next} = ({index})(({unsigned}){rest} / ({unsigned})({own}));"
            ));
            rest = next;
        }
    }
    for (number, statement) in reduction.body.statements.iter().enumerate() {
        lanes.statement(body, number, statement)?;
    }
    lanes.each(body, &mut |body, _| {
        for (&state, &next) in reduction.carried.iter().zip(&reduction.body.results) {
            let line = format!("{} = {};", body.scalar(state), body.scalar(next));
            body.line(&line);
        }
        Ok(())
    })?;
    body.close("");
    Ok(())
}

/// Combines a scalar over the adjacent threads of a group; all of them get the result.
pub(super) fn combine_group(body: &mut Body<'_>, state: &State, group: i64) -> Result<(), Error> {
    let (own, name) = (carrier(state.ty), body.scalar(state.scalar));
    let lanes = group.min(LANES as i64);
    if lanes > 1 {
        body.line("#pragma unroll");
        body.open(&format!(
            "for (int step = {}; step > 0; step /= 2)",
            lanes / 2
        ));
        body.line(&format!(
            "const {own} other = {};",
            shuffled(state.ty, &name, "xor", "step")
        ));
        let value = state.combined(&name, "other")?;
        body.line(&format!("{name} = {value};"));
        body.close("");
    }
    if group <= LANES as i64 {
        return Ok(());
    }
    let warps = group / LANES as i64;
    body.line(&format!("__shared__ {own} warps_{name}[{warps}];"));
    body.line(&format!(
        "if (lane % 32 == 0) warps_{name}[lane / 32] = {name};"
    ));
    body.line("__syncthreads();");
    body.line(&format!("{name} = warps_{name}[0];"));
    body.line("#pragma unroll");
    body.open(&format!("for (int warp = 1; warp < {warps}; ++warp)"));
    body.line(&format!("const {own} other = warps_{name}[warp];"));
    let value = state.combined(&name, "other")?;
    body.line(&format!("{name} = {value};"));
    body.close("");
    Ok(())
}

/// The scalars that a block defines.
pub(super) fn defined(block: &Block, found: &mut FxHashSet<ScalarId>) {
    for statement in &block.statements {
        match statement {
            Statement::Compute { result, .. } | Statement::Load { result, .. } => {
                found.insert(*result);
            }
            Statement::Loop {
                carried,
                body,
                results,
                ..
            } => {
                found.extend(carried.iter().chain(results));
                defined(body, found);
            }
            Statement::If {
                then,
                otherwise,
                results,
                ..
            } => {
                found.extend(results);
                defined(then, found);
                defined(otherwise, found);
            }
            Statement::Store { .. } | Statement::Bind { .. } => {}
        }
    }
}

/// The value of another lane: the one whose number is this one's xor `by` (`xor`), `by` lanes
/// before (`up`), or number `by` (`idx`).
pub(super) fn shuffled(ty: ElementType, name: &str, which: &str, by: &str) -> String {
    let call = match which {
        "idx" => "__shfl_sync".to_owned(),
        which => format!("__shfl_{which}_sync"),
    };
    let shuffle = |value: &str| format!("{call}(0xffffffffu, {value}, {by})");
    match ty.category() {
        Category::Boolean => format!("{} != 0", shuffle(&format!("(int){name}"))),
        Category::Complex => {
            let [re, im] = ["re", "im"].map(|part| shuffle(&format!("{name}.{part}")));
            format!("tegula_complex({re}, {im})")
        }
        _ => shuffle(name),
    }
}
