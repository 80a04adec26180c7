//! Expands grids into loops and copies.
//!
//! A grid stands for loops over its points in order. An input window's block for the next point is
//! fetched while the present point computes, if it is a different block; the program waits for it
//! at the first point that uses it. An output window's block is written back after the last point
//! of a run of points that share it; the next block goes into the next of the window's buffers,
//! once the write-back from that buffer is done. A window with one buffer fetches its next input
//! block after the point's computation instead.
//!
//! For a window `w` the expanded text has the variables `w_slot` (the index of its present buffer),
//! `w_new` (whether this point is the first with its block), `w_next` (whether the next point has a
//! different block), and for an output `w_count` (the number of blocks written back so far).

use crate::program::{
    BufferId, Comparison, Grid, SemaphoreId, SemaphoreRef, Semaphores, Slice, SliceEntry, Space,
    Statement, StatementKind, TpuProgram, Variable, VariableId, Window, find_statement,
    for_each_defined, for_each_slice_mut, rename, renamed_term,
};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use tegula_expr::{Cmp, Term};
use tegula_ir::{ArrayShape, Layout};
use tegula_target::TileRule;

/// The program with every grid expanded.
pub fn expand(program: &TpuProgram) -> Cow<'_, TpuProgram> {
    let mut is_grid = |s: &Statement| matches!(s.kind, StatementKind::Grid(_));
    if find_statement(&program.body, &mut is_grid).is_none() {
        return Cow::Borrowed(program);
    }
    let mut expanded = program.clone();
    let body = std::mem::take(&mut expanded.body);
    expanded.body = Expander {
        program: &mut expanded,
    }
    .statements(body);
    Cow::Owned(expanded)
}

struct Expander<'p> {
    program: &'p mut TpuProgram,
}

/// A window with the semaphores and variables of its expansion.
struct Expanded {
    window: Window,
    semaphores: SemaphoreId,
    slot: VariableId,
    new: VariableId,
    next: VariableId,
    count: VariableId,
    /// For a window whose indices are computed by statements: the index variables for this point
    /// and for the next.
    at: Vec<VariableId>,
    to: Vec<VariableId>,
    /// The indices as terms over the variables that those statements define.
    given: Vec<Term>,
}

fn term(variable: VariableId) -> Term {
    Term::var(variable.var())
}

fn equal(left: Term, right: i64) -> Comparison {
    Comparison {
        left,
        cmp: Cmp::Eq,
        right: Term::constant(right),
    }
}

impl Expanded {
    fn statement(&self, kind: StatementKind) -> Statement {
        Statement {
            kind,
            line: self.window.line,
        }
    }

    /// The index of the window's next buffer.
    fn next_slot(&self) -> Term {
        (term(self.slot) + 1).modulo(&self.window.buffers.into())
    }

    fn semaphore(&self, index: Term) -> SemaphoreRef {
        SemaphoreRef {
            array: self.semaphores,
            index,
        }
    }

    /// One of the window's buffers.
    fn block(&self, slot: Term) -> Slice {
        let mut entries = vec![SliceEntry::Element(slot)];
        entries.extend(self.window.sizes.iter().map(|_| SliceEntry::Whole));
        Slice {
            buffer: self.window.block,
            entries,
        }
    }

    /// The block of the window's array at a point.
    fn array(&self, program: &TpuProgram, at: &dyn Fn(&Term) -> Term) -> Slice {
        let dims = program.buffers[self.window.array].shape.static_dims();
        let dims = dims.unwrap_or_default();
        let pairs = self.window.indices.iter().zip(&self.window.sizes);
        let entries = pairs.enumerate().map(|(d, (index, &size))| {
            let whole = dims.get(d).copied().unwrap_or(size);
            SliceEntry::Range {
                start: at(index) * self.window.steps.get(d).copied().unwrap_or(size),
                size,
                clipped: whole.checked_rem(size) != Some(0) || !self.window.steps.is_empty(),
            }
        });
        Slice {
            buffer: self.window.array,
            entries: entries.collect(),
        }
    }

    fn fetch(&self, program: &TpuProgram, slot: Term, at: &dyn Fn(&Term) -> Term) -> Statement {
        self.statement(StatementKind::Start {
            source: self.array(program, at),
            destination: self.block(slot.clone()),
            semaphore: self.semaphore(slot),
            remote: None,
        })
    }

    fn set(&self, variable: VariableId, value: Term) -> Statement {
        self.statement(StatementKind::Set { variable, value })
    }

    fn define(&self, variable: VariableId, value: impl Into<Term>) -> Statement {
        let value = value.into();
        self.statement(StatementKind::Let { variable, value })
    }

    fn when(&self, condition: Comparison, then: Vec<Statement>) -> Statement {
        self.statement(StatementKind::If {
            condition,
            then,
            otherwise: Vec::new(),
        })
    }

    /// A window index at the next point.
    fn index_at(&self, next: &dyn Fn(&Term) -> Term, index: &Term) -> Term {
        if self.at.is_empty() {
            return next(index);
        }
        index.substitute(&mut |var| {
            let place = self.at.iter().position(|at| at.var() == var)?;
            Some(term(self.to[place]))
        })
    }

    /// A term that is 1 if the next point has a different block, else 0.
    fn changes(&self, next: &dyn Fn(&Term) -> Term) -> Term {
        let differ = self.window.indices.iter().map(|index| {
            let there = self.index_at(next, index);
            Term::cmp(Cmp::Ne, &there, index)
        });
        let any = differ.reduce(|a, b| Term::max(&a, &b));
        any.unwrap_or_default()
    }
}

impl Expander<'_> {
    fn statements(&mut self, statements: Vec<Statement>) -> Vec<Statement> {
        let mut out = Vec::with_capacity(statements.len());
        for mut statement in statements {
            match &mut statement.kind {
                StatementKind::For { body, .. } => {
                    *body = self.statements(std::mem::take(body));
                }
                StatementKind::While {
                    condition, body, ..
                } => {
                    *condition = self.statements(std::mem::take(condition));
                    *body = self.statements(std::mem::take(body));
                }
                StatementKind::If {
                    then, otherwise, ..
                } => {
                    *then = self.statements(std::mem::take(then));
                    *otherwise = self.statements(std::mem::take(otherwise));
                }
                StatementKind::Grid(grid) => {
                    let line = statement.line;
                    self.grid(std::mem::take(&mut **grid), line, &mut out);
                    continue;
                }
                _ => {}
            }
            out.push(statement);
        }
        out
    }

    fn variable(&mut self, name: String) -> VariableId {
        self.program.variables.push(Variable { name, range: None })
    }

    /// Creates the buffers and variables of a window.
    fn window(&mut self, mut window: Window) -> Expanded {
        let buffer = &mut self.program.buffers[window.block];
        let name = buffer.name.clone();
        if buffer.space == Space::Smem && buffer.shape.layout.is_none() {
            // SMEM is word-addressed: arrays there are row-major and have no tiles.
            let layout = Layout::row_major(buffer.shape.dims.len());
            buffer.shape.layout = Some(Box::new(layout));
        }
        buffer.shape = copies_of(&buffer.shape, window.buffers);
        let hidden = self.program.hidden.entry(window.block).or_default();
        hidden.iter_mut().for_each(|dimension| *dimension += 1);
        hidden.insert(0, 0);
        let semaphores = self.program.semaphores.push(Semaphores {
            name: format!("{name}_sem"),
            count: window.buffers,
        });
        let (mut at, mut to, mut given) = (Vec::new(), Vec::new(), Vec::new());
        if !window.transform.is_empty() {
            for d in 0..window.indices.len() {
                at.push(self.variable(format!("{name}_at{d}")));
                to.push(self.variable(format!("{name}_to{d}")));
            }
            let here = at.iter().map(|at| term(*at)).collect();
            given = std::mem::replace(&mut window.indices, here);
        }
        Expanded {
            at,
            to,
            given,
            semaphores,
            slot: self.variable(format!("{name}_slot")),
            new: self.variable(format!("{name}_new")),
            next: self.variable(format!("{name}_next")),
            count: self.variable(format!("{name}_count")),
            window,
        }
    }

    fn grid(&mut self, grid: Grid, line: u32, out: &mut Vec<Statement>) {
        let Grid {
            dimensions,
            windows,
            body,
        } = grid;
        let mut body = self.statements(body);
        let at_line = |kind| Statement { kind, line };
        let windows: Vec<Expanded> = windows.into_iter().map(|w| self.window(w)).collect();
        for window in &windows {
            let slot = term(window.slot);
            in_slot(&mut body, window.window.block, &slot);
        }
        // The values of the next point, innermost dimension first, and whether this point is the
        // last.
        let mut last = Term::constant(1);
        let mut inner = Vec::new();
        let mut next_values = Vec::new();
        for dimension in dimensions.iter().rev() {
            let here = term(dimension.variable);
            let at_end = Term::cmp(Cmp::Le, &dimension.high, &(&here + 1));
            let step = Term::select(&at_end, &dimension.low, &(&here + 1));
            let value = Term::select(&last, &step, &here);
            let name = format!("next_{}", self.program.variables[dimension.variable].name);
            let variable = self.variable(name);
            inner.push(at_line(StatementKind::Let { variable, value }));
            next_values.push((dimension.variable, variable));
            last = last.mul(&at_end);
        }
        let last_name = self.variable("last".to_owned());
        inner.push(at_line(StatementKind::Let {
            variable: last_name,
            value: last,
        }));
        let next = |index: &Term| {
            index.substitute(&mut |var| {
                let found = next_values.iter().find(|(here, _)| here.var() == var);
                found.map(|(_, there)| term(*there))
            })
        };
        let first = |index: &Term| {
            index.substitute(&mut |var| {
                let found = dimensions.iter().find(|d| d.variable.var() == var);
                found.map(|d| d.low.clone())
            })
        };
        for w in windows.iter().filter(|w| !w.at.is_empty()) {
            let (statements, indices) = self.placed(w, &next_values);
            inner.extend(statements);
            let pairs = w.to.iter().zip(indices);
            inner.extend(pairs.map(|(to, index)| w.define(*to, index)));
        }
        let mut prologue = Vec::new();
        for w in windows.iter().filter(|w| !w.at.is_empty()) {
            let mut first_values = Vec::new();
            for dimension in &dimensions {
                let variable = self.variable("first".to_owned());
                prologue.push(w.define(variable, dimension.low.clone()));
                first_values.push((dimension.variable, variable));
            }
            let (statements, indices) = self.placed(w, &first_values);
            prologue.extend(statements);
            for (at, index) in w.at.iter().zip(indices) {
                out.push(w.define(*at, 0));
                prologue.push(w.set(*at, index));
            }
        }
        let first = |w: &Expanded, index: &Term| match w.at.is_empty() {
            true => first(index),
            false => index.clone(),
        };
        for w in &windows {
            out.push(w.statement(StatementKind::Declare(w.window.block)));
            out.push(w.define(w.slot, 0));
            out.push(w.define(w.new, 1));
            if w.window.output {
                out.push(w.define(w.count, 0));
            } else {
                prologue.push(w.fetch(self.program, Term::constant(0), &|index| first(w, index)));
            }
        }
        let some = dimensions.iter().fold(Term::constant(1), |some, d| {
            some.mul(&Term::cmp(Cmp::Lt, &d.low, &d.high))
        });
        match some.as_constant() {
            Some(0) => {}
            Some(_) => out.append(&mut prologue),
            None => out.push(at_line(StatementKind::If {
                condition: equal(some, 1),
                then: prologue,
                otherwise: Vec::new(),
            })),
        }
        self.point(&windows, &next, &term(last_name), &mut inner, body);
        let nest = dimensions.into_iter().rev().fold(inner, |body, d| {
            vec![at_line(StatementKind::For {
                variable: d.variable,
                low: d.low,
                high: d.high,
                body,
            })]
        });
        out.extend(nest);
        self.epilogue(&windows, out);
    }

    /// The statements of one point.
    fn point(
        &self,
        windows: &[Expanded],
        next: &dyn Fn(&Term) -> Term,
        last: &Term,
        out: &mut Vec<Statement>,
        body: Vec<Statement>,
    ) {
        let (outputs, inputs): (Vec<&Expanded>, Vec<&Expanded>) =
            windows.iter().partition(|w| w.window.output);
        let none = Term::constant(0);
        for w in &inputs {
            let changes = Term::select(last, &none, &w.changes(next));
            out.push(w.define(w.next, changes));
            if w.window.buffers > 1 {
                let fetch = w.fetch(self.program, w.next_slot(), &|index| {
                    w.index_at(next, index)
                });
                out.push(w.when(equal(term(w.next), 1), vec![fetch]));
            }
        }
        for w in windows {
            let wait = w.statement(StatementKind::Wait {
                semaphore: w.semaphore(term(w.slot)),
                bytes: None,
            });
            let mut condition = term(w.new);
            if w.window.output {
                let used = Term::cmp(Cmp::Le, &w.window.buffers.into(), &term(w.count));
                condition = condition.mul(&used);
            }
            out.push(w.when(equal(condition, 1), vec![wait]));
        }
        out.extend(body);
        for w in &outputs {
            let changes = Term::select(last, &Term::constant(1), &w.changes(next));
            out.push(w.define(w.next, changes));
            let back = w.statement(StatementKind::Start {
                source: w.block(term(w.slot)),
                destination: w.array(self.program, &Term::clone),
                semaphore: w.semaphore(term(w.slot)),
                remote: None,
            });
            let slot = w.set(w.slot, w.next_slot());
            let count = w.set(w.count, term(w.count) + 1);
            out.push(w.when(equal(term(w.next), 1), vec![back, slot, count]));
            out.push(w.set(w.new, term(w.next)));
        }
        for w in &inputs {
            if w.window.buffers == 1 {
                let fetch = w.fetch(self.program, Term::constant(0), &|index| {
                    w.index_at(next, index)
                });
                out.push(w.when(equal(term(w.next), 1), vec![fetch]));
            }
            let slot = (term(w.slot) + term(w.next)).modulo(&w.window.buffers.into());
            out.push(w.set(w.slot, slot));
            out.push(w.set(w.new, term(w.next)));
        }
        for w in windows {
            let pairs = w.at.iter().zip(&w.to);
            out.extend(pairs.map(|(at, to)| w.set(*at, term(*to))));
        }
    }

    /// The statements that compute a window's indices for other values of the grid's variables, and
    /// the indices.
    fn placed(
        &mut self,
        window: &Expanded,
        values: &[(VariableId, VariableId)],
    ) -> (Vec<Statement>, Vec<Term>) {
        let mut statements = window.window.transform.clone();
        let mut names: FxHashMap<VariableId, VariableId> = values.iter().copied().collect();
        for_each_defined(&statements, &mut |variable| {
            let fresh = self.program.variables[variable].clone();
            let fresh = self.program.variables.push(fresh);
            names.insert(variable, fresh);
        });
        rename(&mut statements, &names);
        let renamed = |index: &Term| renamed_term(index, &names);
        (statements, window.given.iter().map(renamed).collect())
    }

    /// Waits for write-backs that are under way, and ends the blocks' lives.
    fn epilogue(&mut self, windows: &[Expanded], out: &mut Vec<Statement>) {
        for w in windows {
            if w.window.output {
                let slot = self.variable("slot".to_owned());
                let wait = w.statement(StatementKind::Wait {
                    semaphore: w.semaphore(term(slot)),
                    bytes: None,
                });
                let used = Comparison {
                    left: term(slot),
                    cmp: Cmp::Lt,
                    right: term(w.count),
                };
                out.push(w.statement(StatementKind::For {
                    variable: slot,
                    low: Term::constant(0),
                    high: Term::constant(w.window.buffers),
                    body: vec![w.when(used, vec![wait])],
                }));
            }
            out.push(w.statement(StatementKind::Free(w.window.block)));
        }
    }
}

/// The shape of several copies of a block, stored one after the other, each in its own tiles.
pub fn copies_of(block: &ArrayShape, copies: i64) -> ArrayShape {
    let mut shape = block.clone();
    shape.dims.insert(0, copies.into());
    if let Some(layout) = &mut shape.layout {
        layout.minor_to_major.iter_mut().for_each(|dim| *dim += 1);
        layout.minor_to_major.push(0);
    } else {
        let dims = shape.static_dims().unwrap_or_default();
        let order: Vec<u32> = (0..dims.len() as u32).rev().collect();
        let layout = TileRule::Compact.layout_in_order(shape.element_type.bits(), &dims, &order);
        shape.layout = layout.ok().map(Box::new);
    }
    shape
}

/// Redirects the slices of a block to one of the window's buffers.
fn in_slot(statements: &mut [Statement], block: BufferId, slot: &Term) {
    let enter = |slice: &mut Slice| {
        if slice.buffer == block {
            slice.entries.insert(0, SliceEntry::Element(slot.clone()));
        }
    };
    for_each_slice_mut(statements, &mut |slice| enter(slice));
}
