//! Translates a block of a kernel to a SIMD body: statements.
//!
//! Uniform computations (the same for all lanes) stay outside, as statements to run before the body
//! ([`Run::hoisted`]) and as inputs ([`Source`]). Conditionals become masks.

mod indices;
mod lane_runs;
mod lane_spans;
mod memory;
mod reductions;
mod tiles;

use super::contract_fma::Products;
use super::elementwise::{Lanes, compute, lane_type, select};
use crate::analysis::affine_access::Ranges;
use crate::origin::Origin;
use crate::simd::builder::Builder;
use crate::simd::half_precision;
use crate::simd::ir::{BinaryOp, Body, Input, Type, V};
use indices::Indices;
pub(crate) use memory::small_array;
pub(crate) use reductions::loop_run;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};
use tegula_expr::{Term, Var, VarRanges, range_of};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access as Use, Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType};
pub(crate) use tiles::{TILE_BYTES, TILE_LANES, Tile, run_of_tiles};

/// The reason why a loop stays scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason(pub String);

impl Reason {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The value of one input of a body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The address of an element plus a number of bytes: the parameter, the element's offset as a
    /// term over the outer variables and the first lane, and the bytes.
    Address(usize, Term, u32),
    /// The value of a term over the same variables.
    Integer(Term),
    /// A part of a scalar defined outside or hoisted.
    Scalar(ScalarId, usize),
    /// The address of the table of 2/pi.
    Table,
    /// The address of the current row of a tile, by number.
    Tile(usize),
}

/// A carried scalar that is combined over the lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combined {
    /// The number of the loop's carried scalar.
    pub carried: usize,
    /// The operation on scalars.
    pub op: Binary,
}

/// A vector loop: the code before it, its body, and the use of its results.
#[derive(Debug)]
pub(crate) struct Run {
    /// The loop or domain variable that counts the lanes.
    pub lane: Var,
    /// The operations on each lane.
    pub body: Body,
    /// The body's inputs.
    pub sources: Vec<Source>,
    /// Statements of the block to run before, in order.
    pub hoisted: Vec<Statement>,
    /// The carried scalars that the body's reductions update, in order: each by one reduction, or
    /// complex ones by one for each part.
    pub combined: Vec<Combined>,
    /// The number of accesses by gather or scatter.
    pub gathers: usize,
    /// The parts of arrays that are transposed before the rows of a block.
    pub tiles: Vec<Tile>,
    /// The maximum number of lanes.
    pub lanes_at_most: Option<i64>,
    /// Terms over symbols. At sizes at which one has more than 32 bits, the body is not valid.
    pub guards: Vec<Term>,
}

/// A loop of the body being translated.
struct Frame {
    var: Var,
    steps: Vec<(u32, u32)>,
}

pub(crate) struct Translator<'k> {
    kernel: &'k Kernel,
    pub(crate) ranges: Ranges<'k>,
    lane: Var,
    /// Domain variables that are merged into the lane variable; they are 0.
    merged: &'k [Var],
    pub(crate) builder: Builder,
    sources: Vec<Source>,
    known: FxHashMap<Source, u32>,
    /// The lanes of scalars that vary between lanes.
    lanes: FxHashMap<ScalarId, Lanes>,
    constants: FxHashMap<ScalarId, u128>,
    products: Products,
    indices: Indices,
    /// Run-time variables that vary between lanes, as 32-bit integers.
    pub(crate) vars: FxHashMap<Var, V>,
    frames: Vec<Frame>,
    /// Accesses to an array's blocks, by pointer and by the loops that move them.
    blocks: FxHashMap<(u32, Vec<(Var, u32)>), u32>,
    mask: Option<V>,
    /// Loaded values, by parameter, offset and mask, since the last store or end of a loop.
    loaded: FxHashMap<(usize, Term, Option<V>), Lanes>,
    /// Uniform conditions of the enclosing branches, each 1 or 0.
    taken: Vec<Term>,
    gathers: usize,
    /// The dimension along which a block's rows go, if arrays may be read by tiles.
    row: Option<Var>,
    tiles: Vec<Tile>,
    guards: Vec<Term>,
    hoisted: Vec<Statement>,
    /// Carried scalars of the vectorised loop.
    carried: FxHashSet<ScalarId>,
    /// For a vectorised loop (not a domain, whose points are independent): the index of its store
    /// to each parameter.
    stored: Option<FxHashMap<usize, &'k [Term]>>,
}

impl<'k> Translator<'k> {
    fn new(kernel: &'k Kernel, lane: Var, merged: &'k [Var], extent: Option<i64>) -> Self {
        let mut constants = FxHashMap::default();
        find_constants(&kernel.body, &mut constants);
        Self {
            kernel,
            ranges: Ranges {
                vars: &kernel.vars,
                lanes: extent.map(|n| (lane, n)),
            },
            lane,
            merged,
            builder: Builder::new(),
            sources: Vec::new(),
            known: FxHashMap::default(),
            lanes: FxHashMap::default(),
            indices: Indices::of(kernel, &constants),
            constants,
            products: Products::of(kernel),
            vars: FxHashMap::default(),
            frames: Vec::new(),
            blocks: FxHashMap::default(),
            mask: None,
            loaded: FxHashMap::default(),
            taken: Vec::new(),
            gathers: 0,
            row: None,
            tiles: Vec::new(),
            guards: Vec::new(),
            hoisted: Vec::new(),
            carried: FxHashSet::default(),
            stored: None,
        }
    }

    // ---- inputs ----------------------------------------------------------------

    pub(crate) fn source(&mut self, source: Source, input: Input) -> u32 {
        if let Some(&known) = self.known.get(&source) {
            return known;
        }
        let number = self.builder.input(input);
        // Inputs that functions have requested in between are their table.
        self.sources.resize(number as usize, Source::Table);
        self.sources.push(source.clone());
        self.known.insert(source, number);
        number
    }

    /// A uniform term, broadcast to all lanes.
    pub(crate) fn splat_term(&mut self, term: &Term) -> V {
        if let Some(constant) = term.as_constant() {
            return self.builder.integer(Type::I32, constant);
        }
        let input = self.source(Source::Integer(term.clone()), Input::Number(Type::I32));
        self.builder.splat(input, Type::I32)
    }

    /// Whether a term is the same for all lanes.
    pub(crate) fn is_uniform(&self, term: &Term) -> bool {
        let mut uniform = true;
        term.for_each_var(&mut |var| uniform &= !self.varies(var));
        uniform
    }

    fn varies(&self, var: Var) -> bool {
        var == self.lane || self.vars.contains_key(&var) || self.depth_of(var).is_some()
    }

    /// The depth of the body's loop that a variable counts, 0 for the outermost.
    pub(crate) fn depth_of(&self, var: Var) -> Option<u32> {
        let depth = self.frames.iter().position(|f| f.var == var)?;
        u32::try_from(depth).ok()
    }

    pub(crate) fn lane_var(&self) -> Var {
        self.lane
    }

    fn lanes_of(&mut self, id: ScalarId) -> Result<Lanes, Reason> {
        if let Some(lanes) = self.lanes.get(&id) {
            return Ok(lanes.clone());
        }
        if self.carried.contains(&id) {
            return Err(Reason::new(
                "a scalar that the loop carries is used for more than a reduction",
            ));
        }
        let element_type = self.kernel.scalars[id];
        let ty = self.lane_type(element_type)?;
        if let Some(&bits) = self.constants.get(&id) {
            return Ok(self.constant(element_type, ty, bits));
        }
        let parts = if element_type.is_complex() { 2 } else { 1 };
        Ok((0..parts)
            .map(|part| {
                let input = self.source(Source::Scalar(id, part), Input::Number(ty));
                self.builder.splat(input, ty)
            })
            .collect())
    }

    fn constant(&mut self, element_type: ElementType, ty: Type, bits: u128) -> Lanes {
        let low = bits as u64;
        let b = &mut self.builder;
        if let Some(part) = element_type.complex_part() {
            let mask = u64::MAX >> (64 - part.bits());
            let imaginary = (bits >> part.bits()) as u64;
            return smallvec![b.constant(ty, low & mask), b.constant(ty, imaginary & mask)];
        }
        if half_precision::is_supported(element_type) {
            let value = tegula_scalar::decode_single(element_type, bits as u32);
            return smallvec![b.f32(value)];
        }
        smallvec![match (ty, element_type.is_signed()) {
            (Type::I32, true) => {
                let up = 64 - element_type.bits();
                b.integer(ty, (low << up).cast_signed() >> up)
            }
            (Type::Mask, _) => b.constant(ty, u64::from(low & 1 != 0)),
            _ => b.constant(ty, low),
        }]
    }

    fn lane_type(&self, element_type: ElementType) -> Result<Type, Reason> {
        lane_type(element_type)
            .ok_or_else(|| Reason::new(format!("{element_type} has no vector form")))
    }

    // ---- statements ----------------------------------------------------------------

    /// Translates the block that is the body.
    fn outermost(&mut self, block: &Block) -> Result<(), Reason> {
        for statement in &block.statements {
            if self.same_for_all(statement) {
                self.hoisted.push(statement.clone());
            } else {
                self.statement(statement)?;
            }
        }
        Ok(())
    }

    /// Whether a statement inside a conditional or a loop may be hoisted before it.
    fn may_be_hoisted(&self, statement: &Statement) -> bool {
        let harmless = match statement {
            Statement::Compute { .. } | Statement::Bind { .. } => true,
            // Loads may be hoisted if they are always in bounds.
            Statement::Load { param, index, .. } => {
                let dims = &self.kernel.params[*param].dims;
                let mut each = index.iter().zip(dims);
                each.all(|(i, dim)| self.is_always_inside(i, dim))
            }
            _ => false,
        };
        harmless && self.same_for_all(statement)
    }

    /// Whether an index is always inside a dimension, by the extents of loops and dimensions. The
    /// ranges of run-time indices are not used, because they may hold in a branch only.
    fn is_always_inside(&self, index: &Term, dim: &Term) -> bool {
        let counted = |var: Var| self.kernel.extent(var);
        if index.as_var().and_then(counted) == Some(dim) {
            return true;
        }
        let mut all_counted = true;
        index.for_each_var(&mut |var| all_counted &= counted(var).is_some());
        let range = range_of(index, &self.ranges);
        let below = |size: i64| 0 <= range.lower && range.upper < size;
        all_counted && dim.as_constant().is_some_and(below)
    }

    fn block(&mut self, block: &Block) -> Result<(), Reason> {
        block
            .statements
            .iter()
            .try_for_each(|statement| self.statement(statement))
    }

    /// Whether a statement has the same effect and result for all lanes.
    fn same_for_all(&self, statement: &Statement) -> bool {
        let is_same = |id: &ScalarId| !self.lanes.contains_key(id) && !self.carried.contains(id);
        let all = |b: &Block| b.statements.iter().all(|s| self.same_for_all(s));
        match statement {
            Statement::Compute { op, operands, .. } => {
                operands.iter().all(is_same)
                    && match op {
                        ScalarOp::Index(term) => self.is_uniform(term),
                        _ => true,
                    }
            }
            Statement::Load { param, index, .. } => {
                self.kernel.params[*param].access == Use::Read
                    && index.iter().all(|t| self.is_uniform(&self.merge(t)))
            }
            Statement::Store { .. } => false,
            Statement::Bind { var } => match self.kernel.var(*var) {
                Some(IndexVar::Runtime { value, .. }) => is_same(value),
                _ => false,
            },
            Statement::Loop {
                var, init, body, ..
            } => {
                let extent = match self.kernel.var(*var) {
                    Some(IndexVar::Loop(extent)) => self.is_uniform(extent),
                    _ => false,
                };
                extent && init.iter().all(is_same) && body.results.iter().all(is_same) && all(body)
            }
            Statement::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                self.is_uniform(condition)
                    && [then, otherwise]
                        .iter()
                        .all(|b| b.results.iter().all(is_same) && all(b))
            }
        }
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Reason> {
        let around = self.builder.set_origin(Origin::of(statement));
        let done = self.translate(statement);
        self.builder.set_origin(around);
        done
    }

    fn translate(&mut self, statement: &Statement) -> Result<(), Reason> {
        if self.may_be_hoisted(statement) {
            self.hoisted.push(statement.clone());
            return Ok(());
        }
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                let lanes = self.compute(*result, op, operands)?;
                self.lanes.insert(*result, lanes);
            }
            Statement::Load {
                result,
                param,
                index,
            } => {
                let lanes = self.load(*param, index)?;
                self.lanes.insert(*result, lanes);
            }
            Statement::Store {
                param,
                index,
                value,
            } => self.store(*param, index, *value)?,
            Statement::Bind { var } => self.bind(*var)?,
            Statement::Loop {
                var,
                init,
                carried,
                body,
                results,
            } => self.inner_loop(*var, [init, carried, results], body)?,
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => self.branch(condition, then, otherwise, results)?,
        }
        Ok(())
    }

    fn compute(
        &mut self,
        result: ScalarId,
        op: &ScalarOp,
        operands: &[ScalarId],
    ) -> Result<Lanes, Reason> {
        if self.indices.widened.contains(&result) || self.indices.clamped.contains(&result) {
            return self.index_in_32_bits(op, operands);
        }
        let to = self.kernel.scalars[result];
        let ty = self.lane_type(to)?;
        match op {
            ScalarOp::Constant(bits) => return Ok(self.constant(to, ty, *bits)),
            ScalarOp::Index(term) => {
                let term = self.merge(term);
                let index = self.term(&term)?;
                return super::elementwise::convert(&mut self.builder, ElementType::S32, to, index)
                    .map(|v| smallvec![v])
                    .ok_or_else(|| Reason::new(format!("an index to {to}")));
            }
            _ => {}
        }
        if let Some((fused, [a, b], c)) = self.products.contracted(op, operands)
            && (self.lanes.contains_key(&a) || self.lanes.contains_key(&b))
        {
            let [a, b, c] = [self.lanes_of(a)?, self.lanes_of(b)?, self.lanes_of(c)?];
            return Ok(smallvec![self.builder.fused(fused, [a[0], b[0]], c[0])]);
        }
        let from = operands.first().map_or(to, |&s| self.kernel.scalars[s]);
        let operands: SmallVec<[Lanes; 3]> = operands
            .iter()
            .map(|&s| self.lanes_of(s))
            .collect::<Result<_, _>>()?;
        compute(&mut self.builder, op, from, to, &operands)
            .ok_or_else(|| Reason::new(format!("{} of {from}", name(op))))
    }

    /// A conversion or a clamp that [`Indices`] keeps in 32 bits.
    fn index_in_32_bits(&mut self, op: &ScalarOp, operands: &[ScalarId]) -> Result<Lanes, Reason> {
        let lanes = match (op, operands) {
            (ScalarOp::Clamp, &[low, index, high]) => {
                let bound = |t: &mut Self, id: ScalarId| {
                    let bits = t.constants.get(&id).copied().unwrap_or_default();
                    t.builder.integer(Type::I32, (bits as u64).cast_signed())
                };
                let (low, high) = (bound(self, low), bound(self, high));
                let index = self.lanes_of(index)?;
                let above = self.builder.binary(BinaryOp::MaxSigned, index[0], low);
                Some(self.builder.binary(BinaryOp::MinSigned, above, high))
            }
            (_, &[from, ..]) => {
                let lanes = self.lanes_of(from)?;
                let from = self.kernel.scalars[from];
                super::elementwise::convert(&mut self.builder, from, ElementType::S32, lanes[0])
            }
            _ => None,
        };
        let lanes = lanes.ok_or_else(|| Reason::new("an index of an unsupported type"))?;
        Ok(smallvec![lanes])
    }

    fn bind(&mut self, var: Var) -> Result<(), Reason> {
        let Some(&IndexVar::Runtime {
            value,
            lower,
            upper,
        }) = self.kernel.var(var)
        else {
            return Err(Reason::new(
                "a statement binds a variable that is not a run-time variable",
            ));
        };
        if i32::try_from(lower).is_err() || i32::try_from(upper).is_err() {
            return Err(Reason::new("a run-time index of more than 32 bits"));
        }
        let from = match self.indices.clamped.contains(&value) {
            true => ElementType::S32,
            false => self.kernel.scalars[value],
        };
        let lanes = self.lanes_of(value)?;
        let index =
            super::elementwise::convert(&mut self.builder, from, ElementType::S32, lanes[0])
                .ok_or_else(|| Reason::new("a run-time index of an unsupported type"))?;
        self.vars.insert(var, index);
        Ok(())
    }

    fn inner_loop(
        &mut self,
        var: Var,
        [init, carried, results]: [&[ScalarId]; 3],
        body: &Block,
    ) -> Result<(), Reason> {
        let Some(IndexVar::Loop(extent)) = self.kernel.var(var) else {
            return Err(Reason::new(
                "a loop runs over a variable that is not a loop variable",
            ));
        };
        let extent = self.merge(extent);
        if !self.is_uniform(&extent) {
            return Err(Reason::new(
                "the trip count of a loop differs between lanes",
            ));
        }
        let trips = self.source(Source::Integer(extent), Input::Integer);
        let flatten = |t: &mut Self, ids: &[ScalarId]| -> Result<Vec<V>, Reason> {
            let mut out = Vec::new();
            for &id in ids {
                out.extend(t.lanes_of(id)?);
            }
            Ok(out)
        };
        let start = flatten(self, init)?;
        let inside = self.builder.open_loop(&start);
        self.frames.push(Frame {
            var,
            steps: Vec::new(),
        });
        self.define_flat(carried, &inside);
        self.loaded.clear();
        self.block(body)?;
        self.loaded.clear();
        let next = flatten(self, &body.results)?;
        let steps = self.frames.pop().map(|f| f.steps).unwrap_or_default();
        let last = self
            .builder
            .close_loop(trips, &start, &inside, &next, steps);
        self.define_flat(results, &last);
        Ok(())
    }

    fn define_flat(&mut self, ids: &[ScalarId], values: &[V]) {
        let mut rest = values;
        for &id in ids {
            let parts = if self.kernel.scalars[id].is_complex() {
                2
            } else {
                1
            };
            let (these, others) = rest.split_at(parts.min(rest.len()));
            self.lanes.insert(id, these.into());
            rest = others;
        }
    }

    fn branch(
        &mut self,
        condition: &Term,
        then: &Block,
        otherwise: &Block,
        results: &[ScalarId],
    ) -> Result<(), Reason> {
        let condition = self.merge(condition);
        let yes = self.truth(&condition)?;
        let no = self.builder.not(yes);
        let (outer, depth) = (self.mask, self.taken.len());
        let is_uniform = self.is_uniform(&condition);
        self.taken.extend(is_uniform.then(|| condition.clone()));
        self.mask = Some(self.builder.both(outer, yes));
        self.block(then)?;
        self.taken.truncate(depth);
        let not = is_uniform.then(|| Term::constant(1).sub(&condition));
        self.taken.extend(not);
        self.mask = Some(self.builder.both(outer, no));
        self.block(otherwise)?;
        self.taken.truncate(depth);
        self.mask = outer;
        for (i, &result) in results.iter().enumerate() {
            let (a, b) = (
                self.lanes_of(then.results[i])?,
                self.lanes_of(otherwise.results[i])?,
            );
            let lanes = a
                .iter()
                .zip(&b)
                .map(|(&a, &b)| select(&mut self.builder, yes, a, b))
                .collect();
            self.lanes.insert(result, lanes);
        }
        Ok(())
    }

    fn finish(self, combined: Vec<Combined>) -> Run {
        let Self {
            lane,
            builder,
            mut sources,
            gathers,
            tiles,
            guards,
            hoisted,
            ranges,
            ..
        } = self;
        let last = ranges.range(lane).upper;
        let mut body = builder.finish();
        body.origins.lanes = Origin::Variable(lane);
        // Inputs that functions request are their table.
        sources.resize(body.inputs.len(), Source::Table);
        Run {
            lane,
            body,
            sources,
            hoisted,
            combined,
            gathers,
            tiles,
            guards,
            lanes_at_most: last.checked_add(1).filter(|&n| n < i64::from(i32::MAX)),
        }
    }
}

fn name(op: &ScalarOp) -> String {
    match op {
        ScalarOp::Unary(op) => op.opcode().to_string(),
        ScalarOp::Binary(op) => op.opcode().to_string(),
        ScalarOp::Convert => "convert".to_owned(),
        ScalarOp::ReducePrecision { .. } => "reduce-precision".to_owned(),
        ScalarOp::BitcastConvert => "bitcast-convert".to_owned(),
        ScalarOp::Compare(..) => "compare".to_owned(),
        _ => "operation".to_owned(),
    }
}

fn find_constants(block: &Block, out: &mut FxHashMap<ScalarId, u128>) {
    for statement in &block.statements {
        match statement {
            Statement::Compute {
                result,
                op: ScalarOp::Constant(bits),
                ..
            } => {
                out.insert(*result, *bits);
            }
            Statement::Loop { body, .. } => find_constants(body, out),
            Statement::If {
                then, otherwise, ..
            } => {
                find_constants(then, out);
                find_constants(otherwise, out);
            }
            _ => {}
        }
    }
}

/// Translates the kernel's body with the innermost domain dimensions as lanes: `merged` are those
/// except the last.
pub(crate) fn domain_run(
    kernel: &Kernel,
    merged: &[Var],
    extent: Option<i64>,
) -> Result<Run, Reason> {
    domain_run_in_rows(kernel, merged, extent, None)
}

/// The same; arrays may be read by tiles for rows along a dimension.
fn domain_run_in_rows(
    kernel: &Kernel,
    merged: &[Var],
    extent: Option<i64>,
    row: Option<Var>,
) -> Result<Run, Reason> {
    let &lane = kernel
        .domain
        .last()
        .ok_or_else(|| Reason::new("a kernel without a domain"))?;
    let mut translator = Translator::new(kernel, lane, merged, extent);
    translator.row = row;
    translator.outermost(&kernel.body)?;
    Ok(translator.finish(Vec::new()))
}
