//! The checks before a program runs: blocks and offsets against tiles, element types against the
//! chip's units, and grids whose order is free. [`taint`] is the check of padding, which needs
//! values.

mod alignment;
pub(crate) mod taint;
mod types;

use crate::finding::{Code, Findings, Told};
use crate::memory::geometry::Geometry;
use crate::program::{
    Buffer, BufferId, Compute, Grid, Operand, ScalarOperation, Slice, SliceEntry, Space, Statement,
    StatementKind, TpuProgram, VectorBlock, VectorOp, VectorResult, Window, dependents,
    for_each_statement,
};
use crate::report::{AlignmentProof, AlignmentProofs, Error};
use crate::text::print_statement;
use alignment::Scope;
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::{Cmp, Term, Var};
use tegula_mosaic::ir::Binary;
use tegula_target::Chip;

/// The most proofs of alignment that are kept for the report.
const MOST_PROOFS: usize = 64;

/// The results of the checks before the run.
pub(crate) struct Fixed {
    pub(crate) proofs: AlignmentProofs,
    /// The block of each output window, with the array that it is written back to.
    pub(crate) write_backs: FxHashMap<BufferId, BufferId>,
}

/// The geometry (layout in memory) of each buffer.
pub(crate) fn geometries(program: &TpuProgram, chip: &Chip) -> Result<Vec<Geometry>, Error> {
    let one = |(id, buffer): (BufferId, &Buffer)| {
        Geometry::new(buffer, chip).map_err(|message| Error::Program {
            line: declaring_line(program, id),
            message: format!("`{}`: {message}", buffer.name),
        })
    };
    program.buffers.iter().map(one).collect()
}

/// The line of a buffer's declaration, or of the window that declares it; 0 if there is none.
fn declaring_line(program: &TpuProgram, buffer: BufferId) -> u32 {
    let mut line = 0;
    for_each_statement(&program.body, &mut |statement| match &statement.kind {
        StatementKind::Declare(id) if *id == buffer && line == 0 => line = statement.line,
        StatementKind::Grid(grid) => {
            let window = grid.windows.iter().find(|window| window.block == buffer);
            line = window.map_or(line, |window| window.line);
        }
        _ => {}
    });
    line
}

/// Runs the checks that need no execution.
pub(crate) fn fixed_checks(
    program: &TpuProgram,
    chip: &Chip,
    findings: &mut Findings,
) -> Result<Fixed, Error> {
    let mut checker = Checker {
        program,
        chip,
        geometry: geometries(program, chip)?,
        findings,
        proofs: AlignmentProofs::default(),
        write_backs: FxHashMap::default(),
        changed: FxHashSet::default(),
        modules: FxHashMap::default(),
        error: None,
    };
    for_each_statement(&program.body, &mut |statement| {
        if let StatementKind::Set { variable, .. } = statement.kind {
            checker.changed.insert(variable.var());
        }
    });
    let mut scope = Scope::new(std::mem::take(&mut checker.changed));
    checker.body(&program.body, &mut scope);
    if let Some(error) = checker.error {
        return Err(error);
    }
    Ok(Fixed {
        proofs: checker.proofs,
        write_backs: checker.write_backs,
    })
}

/// The result of a scalar operation as a term, if there is one; assumes that it does not overflow.
fn scalar_term(operation: &ScalarOperation, operands: &[Term]) -> Option<Term> {
    use tegula_mosaic::ir::{Cast, IntPredicate};
    let truth = |cmp: Cmp, a: &Term, b: &Term| Term::cmp(cmp, a, b);
    Some(match (operation, operands) {
        (ScalarOperation::Binary(op, element), [a, b]) if element.bits() > 1 => match op {
            Binary::AddInt => a + b,
            Binary::SubInt => a.sub(b),
            Binary::MulInt => a.mul(b),
            Binary::MaxSigned => Term::max(a, b),
            Binary::MinSigned => Term::min(a, b),
            _ => return None,
        },
        (ScalarOperation::CompareInt(predicate, _), [a, b]) => match predicate {
            IntPredicate::Eq => truth(Cmp::Eq, a, b),
            IntPredicate::Ne => truth(Cmp::Ne, a, b),
            IntPredicate::Slt => truth(Cmp::Lt, a, b),
            IntPredicate::Sle => truth(Cmp::Le, a, b),
            IntPredicate::Sgt => truth(Cmp::Lt, b, a),
            IntPredicate::Sge => truth(Cmp::Le, b, a),
            _ => return None,
        },
        (ScalarOperation::Select, [c, a, b]) => Term::select(c, a, b),
        (ScalarOperation::Cast(Cast::Signed, from, _), [x]) if from.bits() > 1 => x.clone(),
        (ScalarOperation::Cast(Cast::Unsigned, from, _), [x]) if from.bits() == 1 => x.clone(),
        _ => return None,
    })
}

struct Checker<'a> {
    program: &'a TpuProgram,
    chip: &'a Chip,
    geometry: Vec<Geometry>,
    findings: &'a mut Findings,
    proofs: AlignmentProofs,
    write_backs: FxHashMap<BufferId, BufferId>,
    /// Variables that a statement sets again.
    changed: FxHashSet<Var>,
    /// For each computation's module, the finding about its element types, if there is one.
    modules: FxHashMap<*const tegula_ir::Module, Option<(String, String)>>,
    /// The first contradiction in the program.
    error: Option<Error>,
}

impl Checker<'_> {
    fn find(
        &mut self,
        code: Code,
        statement: &Statement,
        line: u32,
        buffer: BufferId,
        told: (String, String),
    ) {
        let program = self.program;
        self.findings.add(code, line, Some(buffer), || Told {
            message: told.0,
            help: told.1,
            instruction: print_statement(program, statement),
            buffer: program.buffers.get(buffer).map(|b| b.name.clone()),
        });
    }

    fn body(&mut self, body: &[Statement], scope: &mut Scope) {
        for statement in body {
            self.statement(statement, scope);
        }
    }

    fn statement(&mut self, statement: &Statement, scope: &mut Scope) {
        match &statement.kind {
            StatementKind::Declare(id) => self.declaration(statement, *id),
            StatementKind::Start {
                source,
                destination,
                ..
            } => {
                self.copied(statement, source, scope);
                self.copied(statement, destination, scope);
            }
            StatementKind::Compute(compute) => self.compute(statement, compute, scope),
            StatementKind::For {
                variable,
                low,
                high,
                body,
            } => {
                let mut inner = scope.clone();
                inner.enter_loop(*variable, low, high);
                self.body(body, &mut inner);
            }
            StatementKind::While {
                condition,
                test,
                body,
            } => {
                let mut inner = scope.clone();
                self.body(condition, &mut inner);
                inner.suppose(test, true);
                self.body(body, &mut inner);
            }
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                let (mut yes, mut no) = (scope.clone(), scope.clone());
                yes.suppose(condition, true);
                no.suppose(condition, false);
                self.body(then, &mut yes);
                self.body(otherwise, &mut no);
            }
            StatementKind::WaitCopy { .. } => {}
            StatementKind::Vector(block) => self.vector(block, scope),
            StatementKind::Scalar {
                variable,
                operation,
                operands,
            } => match scalar_term(operation, operands) {
                Some(term) => scope.define(*variable, &term),
                None => scope.forget(*variable, self.program),
            },
            StatementKind::AssumeMultiple {
                variable,
                multiple,
                quotient,
                ..
            } => scope.define(*variable, &(Term::var(quotient.var()) * *multiple)),
            StatementKind::CoreNumber { variable }
            | StatementKind::ReadSemaphore { variable, .. } => {
                scope.forget(*variable, self.program);
            }
            StatementKind::Let { variable, value } => scope.define(*variable, value),
            StatementKind::Load { variable, .. } => scope.forget(*variable, self.program),
            StatementKind::Assume {
                variable,
                low,
                high,
            } => scope.assume(*variable, low, high),
            StatementKind::Grid(grid) => self.grid(statement, grid, scope),
            _ => {}
        }
    }

    fn declaration(&mut self, statement: &Statement, id: BufferId) {
        let Some(buffer) = self.program.buffers.get(id) else {
            return;
        };
        let ty = buffer.shape.element_type;
        // Pallas keeps 8-bit and 16-bit integers in SMEM; its compiler packs them.
        let packed = self.program.is_of_pallas() && matches!(ty.bits(), 8 | 16);
        if buffer.space == Space::Smem && !types::scalar_memory(ty) && !packed {
            let told = (
                format!("SMEM holds words of 32 bits, not {ty}"),
                "convert to s32, u32 or f32".to_owned(),
            );
            self.find(Code::ElementType, statement, statement.line, id, told);
        }
    }

    /// Checks one end of a copy: it is of whole tiles, or reaches the end of the array.
    fn copied(&mut self, statement: &Statement, slice: &Slice, scope: &Scope) {
        let id = slice.buffer;
        let Some(geometry) = self.geometry_of(id) else {
            return;
        };
        let (name, line) = (self.program.buffers[id].name.clone(), statement.line);
        for (d, entry) in slice.entries.iter().enumerate() {
            let (Some(&tile), Some(&whole)) = (geometry.tile.get(d), geometry.dims.get(d)) else {
                continue;
            };
            let (start, size) = match entry {
                SliceEntry::Whole => continue,
                SliceEntry::Element(start) => (start, Some(1)),
                SliceEntry::Range { start, size, .. } => (start, Some(*size)),
                // Whether a size known only at run time is of whole tiles is checked when the copy
                // runs.
                SliceEntry::Sized { start, size } => (start, size.as_constant()),
            };
            let end = start.as_constant().zip(size);
            let to_end = end.and_then(|(start, size)| start.checked_add(size)) == Some(whole);
            if tile == 1 || size == Some(whole) && to_end {
                continue;
            }
            // A row of 32-bit words is a part of a tile that a copy can address.
            let rows = geometry.sublanes == Some(d) && geometry.bits == 32;
            if rows && self.program.is_of_pallas() {
                continue;
            }
            if let Some(size) = size.filter(|size| size % tile != 0 && !to_end) {
                let d = self.program.source_dimension(id, d);
                let told = (
                    format!(
                        "the copy takes {size} elements of dimension {d} of `{name}`, whose tile is {tile} and whose size is {whole}: not whole tiles"
                    ),
                    format!("take a multiple of {tile}, or all {whole}"),
                );
                self.find(Code::Block, statement, line, id, told);
                continue;
            }
            self.aligned(statement, line, id, d, start, tile, scope);
        }
    }

    fn geometry_of(&self, id: BufferId) -> Option<Geometry> {
        use tegula_arena::EntityRef;
        self.geometry.get(id.index()).cloned()
    }

    #[expect(clippy::too_many_arguments, reason = "where, what and how much")]
    fn aligned(
        &mut self,
        statement: &Statement,
        line: u32,
        id: BufferId,
        dimension: usize,
        start: &Term,
        tile: i64,
        scope: &Scope,
    ) {
        let why = match scope.aligned(self.program, start, tile) {
            Ok((offset, proof)) => {
                let proof = AlignmentProof {
                    line,
                    place: (self.program.buffers[id].name.clone(), dimension),
                    tile,
                    offset,
                    proof,
                };
                let shown = &mut self.proofs.shown;
                if start.as_constant().is_none()
                    && shown.len() < MOST_PROOFS
                    && !shown.contains(&proof)
                {
                    shown.push(proof);
                }
                self.proofs.proved += 1;
                return;
            }
            Err(why) => why,
        };
        self.proofs.failed += 1;
        let name = &self.program.buffers[id].name;
        let dimension = self.program.source_dimension(id, dimension);
        let told = (
            format!("dimension {dimension} of `{name}` has tiles of {tile}: {why}"),
            format!(
                "write the offset as a multiple of {tile}, such as `{tile} * i`, so that it is one for every value"
            ),
        );
        self.find(Code::Alignment, statement, line, id, told);
    }

    fn compute(&mut self, statement: &Statement, compute: &Compute, scope: &Scope) {
        let key = std::sync::Arc::as_ptr(&compute.operation);
        let said = self
            .modules
            .entry(key)
            .or_insert_with(|| types::unsupported(&compute.operation, self.chip));
        let said = said.clone().filter(|_| !self.program.emulates);
        if let (Some(told), Some(slice)) = (said, compute.destinations.first()) {
            self.find(
                Code::ElementType,
                statement,
                statement.line,
                slice.buffer,
                told,
            );
        }
        let operands = compute.operands.iter().filter_map(|operand| match operand {
            Operand::Slice(slice) => Some(slice),
            Operand::Literal(_) => None,
        });
        for slice in operands.chain(&compute.destinations) {
            self.computed(statement, slice, scope);
        }
    }

    /// Checks an operand or destination of a computation: a dynamic offset along the lanes must be
    /// a multiple of the tile, and so must one along the sublanes where several elements share a
    /// word. The compiler handles constant offsets by shifting.
    fn computed(&mut self, statement: &Statement, slice: &Slice, scope: &Scope) {
        let id = slice.buffer;
        let Some(geometry) = self.geometry_of(id) else {
            return;
        };
        for (d, entry) in slice.entries.iter().enumerate() {
            let start = match entry {
                SliceEntry::Whole => continue,
                SliceEntry::Element(start)
                | SliceEntry::Range { start, .. }
                | SliceEntry::Sized { start, .. } => start,
            };
            let tile = geometry.tile.get(d).copied().unwrap_or(1);
            let along_lanes = geometry.lanes == Some(d);
            let packed = geometry.sublanes == Some(d) && geometry.bits < 32;
            if tile > 1 && (along_lanes || packed) && start.as_constant().is_none() {
                self.aligned(statement, statement.line, id, d, start, tile, scope);
            }
        }
    }

    /// Checks the offsets of vector loads and stores as those of operands of computations.
    fn vector(&mut self, block: &VectorBlock, scope: &mut Scope) {
        for operation in &block.operations {
            let here = Statement {
                kind: StatementKind::Vector(Box::new(VectorBlock {
                    operations: vec![operation.clone()],
                })),
                line: operation.line,
            };
            match &operation.op {
                VectorOp::Load(view) | VectorOp::Store { view, .. } => {
                    self.computed(&here, &view.slice, scope);
                }
                _ => {}
            }
            if let Some(VectorResult::Variable(variable)) = operation.result {
                scope.forget(variable, self.program);
            }
        }
    }

    fn grid(&mut self, statement: &Statement, grid: &Grid, scope: &Scope) {
        let mut inner = scope.clone();
        let own = |term: &Term| {
            let mut dimensions = grid.dimensions.iter();
            dimensions.any(|d| term.mentions(d.variable.var()))
        };
        if grid.dimensions.iter().any(|d| own(&d.low) || own(&d.high)) {
            self.error.get_or_insert(Error::Program {
                line: statement.line,
                message: "a grid's bounds depend on its own variables".to_owned(),
            });
        }
        // A block is fetched one grid point ahead, so only the point may determine which block it
        // is.
        for_each_statement(&grid.body, &mut |inner| {
            let StatementKind::Set { variable, .. } = inner.kind else {
                return;
            };
            let indices = grid.windows.iter().flat_map(|w| &w.indices);
            let bounds = grid.dimensions.iter().flat_map(|d| [&d.low, &d.high]);
            if indices.chain(bounds).any(|t| t.mentions(variable.var())) {
                self.error.get_or_insert(Error::Program {
                    line: inner.line,
                    message: "a window of this grid depends on the variable that is set here"
                        .to_owned(),
                });
            }
        });
        for dimension in &grid.dimensions {
            inner.enter_loop(dimension.variable, &dimension.low, &dimension.high);
        }
        for window in &grid.windows {
            let mut own = inner.clone();
            self.body(&window.transform, &mut own);
            self.window(statement, grid, window, &own);
        }
        self.body(&grid.body, &mut inner);
    }

    fn window(&mut self, statement: &Statement, grid: &Grid, window: &Window, scope: &Scope) {
        let Some(geometry) = self.geometry_of(window.array) else {
            return;
        };
        let name = self.program.buffers[window.array].name.clone();
        let in_smem = self.program.buffers[window.block].space == Space::Smem;
        let sizes = if in_smem { &[][..] } else { &window.sizes };
        for (d, &size) in sizes.iter().enumerate() {
            let (Some(&tile), Some(&whole)) = (geometry.tile.get(d), geometry.dims.get(d)) else {
                continue;
            };
            if tile == 1 || size == whole {
                continue;
            }
            if size % tile != 0 {
                let told = (
                    format!(
                        "blocks of {size} along dimension {d} of `{name}`: the tile is {tile} and the dimension has {whole}"
                    ),
                    format!("take a multiple of {tile}, or all {whole}"),
                );
                self.find(Code::Block, statement, window.line, window.array, told);
                continue;
            }
            let Some(index) = window.indices.get(d) else {
                continue;
            };
            let start = index * window.steps.get(d).copied().unwrap_or(size);
            let line = window.line;
            self.aligned(statement, line, window.array, d, &start, tile, scope);
        }
        if window.output {
            self.write_backs.insert(window.block, window.array);
            self.free_order(statement, grid, window);
        }
    }

    /// Checks a parallel dimension: its points run in any order, so their output blocks must
    /// differ.
    fn free_order(&mut self, statement: &Statement, grid: &Grid, window: &Window) {
        for dimension in &grid.dimensions {
            let var = dimension.variable.var();
            let many = dimension.high.sub(&dimension.low).as_constant() != Some(1);
            let known = dependents(&window.transform, var);
            let mut follows = false;
            for index in &window.indices {
                index.for_each_var(&mut |var| follows |= known.contains(&var));
            }
            if dimension.parallel && many && !follows {
                let name = &self.program.variables[dimension.variable].name;
                let block = &self.program.buffers[window.block].name;
                let told = (
                    format!(
                        "the points of `parallel {name}` run in any order, and all of them write the same block of `{block}`"
                    ),
                    format!("remove `parallel` from `{name}`, or let the block depend on it"),
                );
                self.find(Code::TwoWrites, statement, window.line, window.block, told);
            }
        }
    }
}
