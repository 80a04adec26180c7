//! Row blocking: computes several rows in one call, one pass of all rows after the other.
//!
//! In kernels whose points compute a row each, a point is one vector loop or several (the passes of
//! a softmax: a maximum, exponentials and their sum, quotients). Without blocking, each pass of
//! each row is a call of a SIMD body. For a short row the call takes as long as its lanes: loading
//! the body's constants, saving registers, waiting for the row's reduction. So a block of rows, as
//! many as fit in a near cache, goes through a pass together, then through the next:
//!
//! ```text
//! for each block of rows:
//!     for each row: code before the first loop; stores the inputs of its body
//!     one call: the first loop of all rows
//!     for each row: reads the first loop's results, code between the loops; stores inputs
//!     one call: the second loop of all rows
//!     ...
//! ```
//!
//! Rows that are the domain's vector loop itself, without passes, are computed one after the other.
//! Short rows that overlap the next row's vectors are computed in an order in which neighbours are
//! some rows apart: see [`VectorPlan::apart`](crate::vectorize::select_loops::VectorPlan).
//!
//! Scalars that a later part uses are stored as well; constants are computed once, before all rows.
//! The local arrays of a row are allocated for each row.

use super::counted_loop::CountedLoop;
use super::lower::{Lower, Values};
use super::types::carrier_types;
use crate::abi::LINE_SHIFT;
use crate::error::Error;
use crate::isa::clif128;
use crate::simd::row_addressing::RowsIn;
use crate::vectorize::translate::Run;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    FuncRef, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use smallvec::SmallVec;
use tegula_expr::Var;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::ElementType;

/// In rows of at least this many lanes, the cost of a call is negligible.
const LONG_ROW: i64 = 4096;
/// The maximum bytes of the table and rows that go through the passes together: they stay in the
/// second-level cache with room for other data. Measured: more rows in a call gain more than a
/// nearer cache does (`docs/notes/vector-code.md`).
const NEAR_BYTES: usize = 64 << 10;
/// The maximum number of rows of a single pass, which keeps nothing in a cache for a later one.
const MOST_ROWS: usize = 128;
/// Blocks of fewer rows than this do not pay.
const FEW_ROWS: usize = 2;

/// The number of rows in a block, a power of two.
const BLOCK_ROWS: i64 = 16;
/// The distance in a block from a row to the one that is computed next. It is its own inverse
/// modulo the number of rows: neighbours are computed seven or nine iterations apart.
const ROW_STEP: i64 = 7;

/// A vector loop and the statements before it.
struct Pass<'a> {
    before: &'a [Statement],
    of_lanes: &'a Statement,
    run: &'a Run,
    init: &'a [ScalarId],
    carried: &'a [ScalarId],
    results: &'a [ScalarId],
    lanes: i64,
}

impl Pass<'_> {
    /// The number of words of a row's inputs and results.
    fn words(&self) -> usize {
        self.run.sources.len() + self.run.body.reductions.len()
    }
}

/// The body of a kernel, as passes.
struct Rows<'a> {
    /// The kernel's variables.
    vars: &'a [IndexVar],
    passes: Vec<Pass<'a>>,
    after: &'a [Statement],
}

impl<'a> Rows<'a> {
    /// The passes of a kernel's body; `None` if it contains other loops.
    fn of(kernel: &'a Kernel, run_of: &dyn Fn(Var) -> Option<&'a Run>) -> Option<Self> {
        let mut rest = &kernel.body.statements[..];
        let mut passes = Vec::new();
        while let Some(place) = rest.iter().position(Statement::is_loop) {
            let (before, from) = rest.split_at(place);
            let (of_lanes, behind) = from.split_first()?;
            rest = behind;
            let Statement::Loop {
                var,
                init,
                carried,
                results,
                ..
            } = of_lanes
            else {
                return None;
            };
            let Some(IndexVar::Loop(extent)) = kernel.var(*var) else {
                return None;
            };
            passes.push(Pass {
                before,
                of_lanes,
                run: run_of(*var)?,
                init,
                carried,
                results,
                lanes: extent.as_constant().filter(|n| (1..LONG_ROW).contains(n))?,
            });
        }
        let rows = Self {
            passes,
            after: rest,
            vars: &kernel.vars,
        };
        let plain = (0..=rows.passes.len()).all(|k| rows.part(k).iter().all(is_plain));
        (!rows.passes.is_empty() && plain).then_some(rows)
    }

    /// The statements before pass `number`, or after all passes.
    fn part(&self, number: usize) -> &'a [Statement] {
        self.passes.get(number).map_or(self.after, |p| p.before)
    }

    /// Whether no work is left for each row.
    fn is_over(&self, number: usize) -> bool {
        let none = |pass: &Pass<'_>| pass.run.combined.is_empty();
        number == self.passes.len() && self.after.is_empty() && self.passes.last().is_none_or(none)
    }

    /// The scalars that a part defines and later parts use, except for constants.
    fn saved(&self, number: usize) -> Vec<ScalarId> {
        let mut made: Vec<ScalarId> = Vec::new();
        if let Some(before) = number.checked_sub(1) {
            made.extend(self.passes[before].results);
        }
        for statement in self.part(number) {
            match statement {
                Statement::Compute { result, .. } | Statement::Load { result, .. } => {
                    if !is_constant(statement) {
                        made.push(*result);
                    }
                }
                Statement::If { results, .. } => made.extend(results),
                Statement::Store { .. } | Statement::Bind { .. } | Statement::Loop { .. } => {}
            }
        }
        let later = |&id: &ScalarId| {
            let own = self
                .passes
                .get(number)
                .is_some_and(|p| p.init.contains(&id));
            let passes = self.passes.iter().skip(number + 1).map(|p| p.of_lanes);
            let parts = (number + 1..=self.passes.len()).flat_map(|k| self.part(k));
            own || passes.chain(parts).any(|s| s.uses(self.vars, id))
        };
        made.retain(later);
        made
    }
}

fn is_constant(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Compute {
            op: ScalarOp::Constant(_),
            ..
        }
    )
}

/// Whether a statement between passes contains no loop and binds no variable.
fn is_plain(statement: &Statement) -> bool {
    let not = |s: &Statement| s.is_loop() || matches!(s, Statement::Bind { .. });
    match statement {
        Statement::If {
            then, otherwise, ..
        } => !then.any(not) && !otherwise.any(not),
        _ => !not(statement),
    }
}

/// A column of the table: the offset of the first row's entry, and the bytes between rows.
#[derive(Clone, Copy)]
struct Column {
    first: usize,
    step: usize,
}

/// The layout of the table that stores values for a block of rows.
struct Table {
    /// The maximum number of rows.
    rows: usize,
    bytes: usize,
    /// For each pass, the inputs followed by the results.
    slots: Vec<Column>,
    /// Scalars for later parts, by the part that defines them.
    saved: Vec<(Vec<ScalarId>, Column)>,
    /// Local arrays of rows, by parameter.
    locals: Vec<(usize, Column)>,
}

impl Table {
    fn new(rows: &Rows<'_>, kernel: &Kernel) -> Self {
        let line = 1 << LINE_SHIFT;
        let carriers = |id: &ScalarId| carrier_types(kernel.scalars[*id]).len();
        let saved = (0..=rows.passes.len()).map(|k| {
            let saved = rows.saved(k);
            let words: usize = saved.iter().map(carriers).sum();
            (saved, 8 * words)
        });
        let saved: Vec<(Vec<ScalarId>, usize)> = saved.collect();
        let lanes = |p: &Pass<'_>| usize::try_from(p.lanes).unwrap_or(usize::MAX / 64);
        let lanes = rows.passes.iter().map(lanes).max().unwrap_or(1);
        let array = |ty: ElementType| (lanes * ty.storage_bytes()).next_multiple_of(line);
        let written = saved.iter().map(|(_, bytes)| bytes).sum::<usize>()
            + rows.passes.iter().map(|p| 8 * p.words()).sum::<usize>();
        let arrays: usize = kernel.params.iter().map(|p| array(p.element_type)).sum();
        let most = match rows.passes.len() {
            1 => MOST_ROWS.min(NEAR_BYTES / written.max(1)),
            _ => MOST_ROWS.min(NEAR_BYTES / (written + arrays)),
        };
        let mut table = Self {
            rows: most,
            bytes: 0,
            slots: Vec::new(),
            saved: Vec::new(),
            locals: Vec::new(),
        };
        for (i, param) in kernel.params.iter().enumerate() {
            if param.access == Access::Local {
                let column = table.column(array(param.element_type));
                table.locals.push((i, column));
            }
        }
        for pass in &rows.passes {
            let column = table.column(8 * pass.words());
            table.slots.push(column);
        }
        for (scalars, bytes) in saved {
            let column = table.column(bytes);
            table.saved.push((scalars, column));
        }
        table
    }

    /// Adds a column with this many bytes for each row.
    fn column(&mut self, step: usize) -> Column {
        let first = self.bytes;
        self.bytes += step * self.rows;
        Column { first, step }
    }
}

impl<'a> Lower<'a, '_> {
    /// Computes the points along a domain dimension and those inside: in blocks of rows, in a row
    /// loop, or one after the other. Short rows that overlap the next row's vectors are reordered
    /// in blocks, so that neighbours are some rows apart.
    pub(crate) fn points(
        &mut self,
        var: Var,
        part: [Value; 2],
        inside: &[Var],
    ) -> Result<(), Error> {
        let done = match inside {
            [] => self.points_with_rows(var, part)?,
            _ => self.points_in_turns(var, inside, part)?,
        };
        if done {
            return Ok(());
        }
        let domain = self.vectors().domain.as_ref();
        let is_row = domain.is_some_and(|(count, _)| *count == inside.len());
        let many = match self.kernel().var(var) {
            Some(IndexVar::Domain(extent)) => extent.as_constant().is_none_or(|n| n >= BLOCK_ROWS),
            _ => false,
        };
        let apart = is_row && many && self.vectors().apart;
        let [begin, end] = part;
        self.count(begin, end, Some(var), &[], &mut |lower, at, _| {
            if apart {
                let row = lower.row_apart(at, part);
                lower.set_var(var, row);
            }
            lower.inner_domain(inside)?;
            Ok(Values::new())
        })?;
        Ok(())
    }

    /// The row that is computed at iteration `at`, in an order in which neighbours are apart.
    fn row_apart(&mut self, at: Value, [begin, end]: [Value; 2]) -> Value {
        let ins = &mut self.builder;
        let [number, rows] = [at, end].map(|v| ins.ins().isub(v, begin));
        let whole = ins.ins().band_imm_s(rows, -BLOCK_ROWS);
        let block = ins.ins().band_imm_s(number, -BLOCK_ROWS);
        let inside = ins.ins().imul_imm_s(number, ROW_STEP);
        let inside = ins.ins().band_imm_s(inside, BLOCK_ROWS - 1);
        let moved = ins.ins().bor(block, inside);
        let in_block = ins.ins().icmp(IntCC::SignedLessThan, number, whole);
        let row = ins.ins().select(in_block, moved, number);
        ins.ins().iadd(begin, row)
    }

    /// Computes the points along a dimension in blocks of rows, if they consist of passes;
    /// otherwise returns false and emits nothing.
    fn points_with_rows(&mut self, var: Var, [begin, end]: [Value; 2]) -> Result<bool, Error> {
        let vectors = self.vectors();
        let Some(rows) = Rows::of(self.kernel(), &|var| vectors.loops.get(&var)) else {
            return Ok(false);
        };
        let table = Table::new(&rows, self.kernel());
        if table.rows < FEW_ROWS {
            return Ok(false);
        }
        let mut functions = Vec::new();
        for pass in &rows.passes {
            match self.wide_body(pass.run, RowsIn::Slots)? {
                Some(function) => functions.push(function),
                None => return Ok(false),
            }
        }
        let size = u32::try_from(table.bytes).map_err(|_| Error::Bug("a table".to_owned()))?;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, LINE_SHIFT);
        let slot = self.builder.create_sized_stack_slot(slot);
        let start = self.builder.ins().stack_addr(types::I64, slot, 0);
        for part in 0..=rows.passes.len() {
            let mut constants = rows.part(part).iter().filter(|s| is_constant(s));
            constants.try_for_each(|s| self.statement(s))?;
        }
        let turn = CountedLoop::open(self.builder, begin, end, &[]);
        self.open_terms();
        let left = self.builder.ins().isub(end, turn.counter);
        let all = self.integer(types::I64, table.rows as i64);
        let count = self.builder.ins().smin(left, all);
        let mut some = SomeRows {
            lower: self,
            rows: &rows,
            table: &table,
            start,
            first: turn.counter,
            count,
        };
        let done = some.passes(var, &functions);
        self.close_terms();
        turn.close(self.builder, table.rows as i64, &[]);
        done.map(|()| true)
    }
}

/// A block of rows that goes through the passes.
struct SomeRows<'s, 'a, 'f> {
    lower: &'s mut Lower<'a, 'f>,
    rows: &'s Rows<'a>,
    table: &'s Table,
    /// The address of the table.
    start: Value,
    /// The first row and the number of rows.
    first: Value,
    count: Value,
}

impl SomeRows<'_, '_, '_> {
    fn passes(&mut self, var: Var, functions: &[FuncRef]) -> Result<(), Error> {
        let last = self.lower.builder.ins().iadd(self.first, self.count);
        for number in 0..=self.rows.passes.len() {
            if !self.rows.is_over(number) {
                let turn = CountedLoop::open(self.lower.builder, self.first, last, &[]);
                self.lower.open_terms();
                self.lower.set_var(var, turn.counter);
                let done = self.part(number, turn.counter);
                self.lower.close_terms();
                turn.close(self.lower.builder, 1, &[]);
                done?;
            }
            if let Some((pass, &function)) = self.rows.passes.get(number).zip(functions.get(number))
            {
                let slots = self.table.slots[number].first as i64;
                let slots = self.lower.builder.ins().iadd_imm_s(self.start, slots);
                let lanes = self.lower.integer(types::I64, pass.lanes);
                let args = [slots, lanes, self.count];
                self.lower.builder.ins().call(function, &args);
            }
        }
        Ok(())
    }

    /// The statements of a row before pass `number`, or after all passes.
    fn part(&mut self, number: usize, row: Value) -> Result<(), Error> {
        let row = self.lower.builder.ins().isub(row, self.first);
        for &(param, column) in &self.table.locals {
            let place = self.place(column, row);
            self.lower.set_base(param, place);
        }
        for (scalars, column) in &self.table.saved[..number] {
            self.load_scalars(scalars, *column, row);
        }
        if let Some(before) = number.checked_sub(1) {
            self.results(before, row)?;
        }
        let statements = self.rows.part(number).iter();
        for statement in statements.filter(|s| !is_constant(s)) {
            self.lower.statement(statement)?;
        }
        if let Some(pass) = self.rows.passes.get(number) {
            let place = self.place(self.table.slots[number], row);
            let zero = self.lower.integer(types::I64, 0);
            for (i, input) in self.lower.inputs(pass.run, zero)?.into_iter().enumerate() {
                self.store(input, place, 8 * i);
            }
        }
        let (scalars, column) = &self.table.saved[number];
        let place = self.place(*column, row);
        let values = scalars.iter().flat_map(|&id| self.lower.values(id));
        let values: Values = values.collect();
        for (i, value) in values.into_iter().enumerate() {
            self.store(value, place, 8 * i);
        }
        Ok(())
    }

    fn place(&mut self, column: Column, row: Value) -> Value {
        let ins = &mut self.lower.builder;
        let before = ins.ins().imul_imm_s(row, column.step as i64);
        let before = ins.ins().iadd_imm_s(before, column.first as i64);
        ins.ins().iadd(self.start, before)
    }

    fn store(&mut self, value: Value, place: Value, at: usize) {
        let flags = MemFlagsData::trusted();
        let ins = self.lower.builder.ins();
        ins.store(flags, value, place, at as i32);
    }

    fn load(&mut self, ty: types::Type, place: Value, at: usize) -> Value {
        let flags = MemFlagsData::trusted();
        let ins = self.lower.builder.ins();
        ins.load(ty, flags, place, at as i32)
    }

    /// Loads scalars that an earlier part has stored.
    fn load_scalars(&mut self, scalars: &[ScalarId], column: Column, row: Value) {
        let place = self.place(column, row);
        let carriers = |&id: &ScalarId| carrier_types(self.lower.type_of(id));
        let carriers: Vec<types::Type> = scalars.iter().flat_map(carriers).collect();
        let values = carriers.into_iter().enumerate();
        let values: Values = values.map(|(i, ty)| self.load(ty, place, 8 * i)).collect();
        self.lower.define_flat(scalars, &values);
    }

    /// Reads the results of a pass.
    fn results(&mut self, number: usize, row: Value) -> Result<(), Error> {
        let pass = &self.rows.passes[number];
        let place = self.place(self.table.slots[number], row);
        let (run, inputs) = (pass.run, pass.run.sources.len());
        let reduced = run.body.reductions.iter().enumerate();
        let reduced: SmallVec<[Value; 4]> = reduced
            .map(|(i, r)| {
                let ty = clif128::scalar_type(run.body.type_of(r.value));
                self.load(ty, place, 8 * (inputs + i))
            })
            .collect();
        let init = self.lower.flat(pass.init);
        let results = self.lower.combine(run, &reduced, pass.carried, &init)?;
        self.lower.define_flat(pass.results, &results);
        Ok(())
    }
}
