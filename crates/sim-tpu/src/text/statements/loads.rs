//! Loads of scalars inside terms.
//!
//! `load(t[i])` inside a term stands for a generated name, to which a `load` statement before the
//! statement with the term assigns the scalar. What is assumed of an array's elements (`assume t in
//! [LOW, HIGH]`) is assumed of each scalar that is loaded from it afterwards.

use super::Reader;
use crate::program::{BufferId, Slice, Space, Statement, StatementKind, Variable, VariableId};
use crate::text::cursor::Read;
use rustc_hash::FxHashMap;
use std::ops::Range;
use tegula_expr::{ParseError, Term, Var, parse_prefix};

/// The deepest nesting of loads: an index may itself be loaded.
const MAX_NESTING: usize = 64;

/// The state of the parser that concerns loads.
#[derive(Default)]
pub(in crate::text) struct Loads {
    /// Statements to put before the statement that is being parsed.
    pub(in crate::text) before: Vec<Statement>,
    /// Statements to put after it.
    pub(in crate::text) behind: Vec<Statement>,
    /// The assumed range of each array's elements.
    ranges: FxHashMap<BufferId, (i64, i64)>,
    /// The number of names generated so far.
    names: usize,
    nesting: usize,
    /// Whether loads are rejected here because no statement can be put before the term: the indices
    /// of a window are evaluated at each point of its grid, not before the grid.
    pub(in crate::text) refused: bool,
}

impl Reader<'_> {
    /// Whether `load(` is next.
    pub(in crate::text) fn at_load(&mut self) -> bool {
        self.cursor.word() == "load" && self.cursor.behind_word() == Some(b'(')
    }

    /// Parses `load(SLICE)`; returns the slice, and moves past it.
    pub(in crate::text) fn load(&mut self) -> Read<Slice> {
        let begin = self.cursor.at;
        self.loads.nesting += 1;
        if self.loads.nesting > MAX_NESTING {
            let message = format!("loads are nested more than {MAX_NESTING} deep");
            return Err(self.cursor.error_at(begin, begin + "load".len(), message));
        }
        self.cursor.at += "load".len();
        self.cursor.expect("(")?;
        let start = self.cursor.at;
        let source = self.slice()?;
        let end = self.cursor.at;
        self.cursor.expect(")")?;
        self.loads.nesting -= 1;
        let buffer = &self.program.buffers[source.buffer];
        let single = source.shape(&self.program).and_then(|s| s.element_count()) == Some(1);
        let integer = buffer.shape.element_type.is_integer();
        if buffer.space != Space::Smem || !single || !integer {
            let message = "`load` takes one element of an array of integers in SMEM";
            return Err(self.cursor.error_at(start, end, message));
        }
        Ok(source)
    }

    /// Parses `load(SLICE)` if nothing else is on the line; otherwise the cursor stays.
    pub(in crate::text) fn lone_load(&mut self) -> Read<Option<Slice>> {
        if !self.at_load() {
            return Ok(None);
        }
        let start = self.cursor.at;
        self.cursor.at += "load".len();
        self.cursor.bracketed("(")?;
        let end = self.cursor.piece_end(&[";"], true);
        let rest = self.cursor.text.get(self.cursor.at..end);
        let alone = rest.is_some_and(|rest| rest.trim().is_empty());
        self.cursor.at = start;
        alone.then(|| self.load()).transpose()
    }

    /// An assumption about a loaded scalar, if something is assumed of its array.
    pub(in crate::text) fn range_of_load(
        &mut self,
        variable: VariableId,
        source: &Slice,
    ) -> Option<StatementKind> {
        let &(low, high) = self.loads.ranges.get(&source.buffer)?;
        Some(self.assumed(variable, Term::constant(low), Term::constant(high)))
    }

    /// An assumption that a variable is within bounds from here on.
    pub(in crate::text) fn assumed(
        &mut self,
        variable: VariableId,
        low: Term,
        high: Term,
    ) -> StatementKind {
        if let (Some(low), Some(high)) = (low.as_constant(), high.as_constant()) {
            let slot = &mut self.program.variables[variable].range;
            *slot = Some(slot.map_or((low, high), |(l, h)| (l.max(low), h.min(high))));
        }
        StatementKind::Assume {
            variable,
            low,
            high,
        }
    }

    /// Records that the elements of an array are within bounds in all loads from here on. Returns
    /// whether the bounds are constants, as they must be.
    pub(in crate::text) fn assumed_of_elements(
        &mut self,
        buffer: BufferId,
        low: &Term,
        high: &Term,
    ) -> bool {
        let Some((low, high)) = low.as_constant().zip(high.as_constant()) else {
            return false;
        };
        let range = self.loads.ranges.entry(buffer).or_insert((low, high));
        *range = (range.0.max(low), range.1.min(high));
        true
    }

    /// The positions of a term's loads, each with its generated name; their statements are put
    /// before the one with the term. The list is empty if there are no loads.
    fn name_loads(&mut self, end: usize) -> Read<Vec<(Range<usize>, VariableId)>> {
        let start = self.cursor.at;
        let mut named = Vec::new();
        while let Some(found) = self
            .cursor
            .text
            .get(self.cursor.at..end)
            .and_then(|rest| rest.find("load"))
        {
            let at = self.cursor.at + found;
            let inside = at > start && self.cursor.is_in_name(at - 1);
            self.cursor.at = at;
            if inside || !self.at_load() {
                self.cursor.at += "load".len();
                continue;
            }
            let line = self.cursor.line_of(at);
            let source = self.load()?;
            if self.loads.refused {
                let message = "the blocks of a window cannot depend on what is loaded inside its grid: give it a name before, `let n = load(...)`";
                return Err(self.cursor.error_at(at, self.cursor.at, message));
            }
            let variable = self.made_up();
            let range = self.range_of_load(variable, &source);
            let load = StatementKind::Load { variable, source };
            let kinds = std::iter::once(load).chain(range);
            self.loads
                .before
                .extend(kinds.map(|kind| Statement { kind, line }));
            named.push((at..self.cursor.at, variable));
        }
        self.cursor.at = start;
        Ok(named)
    }

    /// A variable with a generated name that is not in use.
    fn made_up(&mut self) -> VariableId {
        let name = loop {
            let name = format!("load_{}", self.loads.names);
            self.loads.names += 1;
            if self.variable(&name).is_none() {
                break name;
            }
        };
        self.program.variables.push(Variable { name, range: None })
    }

    /// Parses the term from here to `end` at most, with names in place of loads. Places in errors
    /// refer to the kernel's text.
    pub(in crate::text) fn term_with_loads(
        &mut self,
        end: usize,
    ) -> Read<Result<(Term, usize), ParseError>> {
        let start = self.cursor.at;
        let named = self.name_loads(end)?;
        let text = self.cursor.text;
        let made_up = |name: &str| {
            let mut own = named.iter().map(|(_, variable)| *variable);
            own.find(|&variable| self.program.variables[variable].name == name)
        };
        let names = |name: &str| -> Option<Var> {
            let variable = made_up(name).or_else(|| self.variable(name));
            variable.map(VariableId::var)
        };
        if named.is_empty() {
            return Ok(parse_prefix(text.get(..end).unwrap_or(""), start, &names));
        }
        // Each load is replaced by a name of the same length, so that positions stay.
        let mut piece = String::with_capacity(end - start);
        let mut at = start;
        for (place, variable) in &named {
            piece += text.get(at..place.start).unwrap_or("");
            let name = &self.program.variables[*variable].name;
            piece += &format!("{name:<width$}", width = place.len());
            at = place.end;
        }
        piece += text.get(at..end).unwrap_or("");
        Ok(match parse_prefix(&piece, 0, &names) {
            Ok((term, used)) => Ok((term, start + used)),
            Err(mut error) => {
                error.offset += start;
                Err(error)
            }
        })
    }
}
