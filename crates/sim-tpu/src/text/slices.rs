//! The parser for terms, slices and references to semaphores.

use super::cursor::Read;
use super::statements::Reader;
use crate::program::{BufferId, Comparison, SemaphoreRef, Slice, SliceEntry, TpuProgram};
use tegula_expr::{Cmp, Term};
use tegula_ir::ArrayShape;

impl Slice {
    /// The element type and dimensions of the slice, as if nothing were clipped; `None` if the
    /// entries do not fit the buffer's dimensions, or a size is known only at run time.
    pub fn shape(&self, program: &TpuProgram) -> Option<ArrayShape> {
        let shape = &program.buffers.get(self.buffer)?.shape;
        let dims = shape.static_dims()?;
        let sized = |entry: &SliceEntry| matches!(entry, SliceEntry::Sized { .. });
        if dims.len() != self.entries.len() || self.entries.iter().any(sized) {
            return None;
        }
        let pairs = self.entries.iter().zip(&dims);
        let kept = pairs.filter_map(|(entry, &whole)| match entry {
            SliceEntry::Whole => Some(whole),
            SliceEntry::Element(_) | SliceEntry::Sized { .. } => None,
            SliceEntry::Range { size, .. } => Some(*size),
        });
        let dims: Vec<i64> = kept.collect();
        Some(ArrayShape::new(shape.element_type, &dims))
    }
}

impl Reader<'_> {
    /// Parses a term that ends at one of the symbols, a closing bracket, or the end of the line.
    pub(super) fn term(&mut self, stops: &[&str], one_line: bool) -> Read<Term> {
        self.cursor.space();
        let end = self.cursor.piece_end(stops, one_line);
        let read = self.term_with_loads(end)?;
        let wrong = |at: usize, message: String| self.cursor.error_at(at, at + 1, message);
        let (term, used) = read.map_err(|error| wrong(error.offset, error.message))?;
        let rest = self.cursor.text.get(used..end).unwrap_or("");
        if !rest.trim().is_empty() {
            let at = used + (rest.len() - rest.trim_start().len());
            return Err(wrong(
                at,
                "expected an operator or the end of the term".to_owned(),
            ));
        }
        self.cursor.at = end;
        Ok(term)
    }

    /// Parses `TERM CMP TERM`, up to `{`.
    pub(super) fn comparison(&mut self) -> Read<Comparison> {
        self.cursor.space();
        let operators = ["==", "!=", "<=", ">=", "<", ">"];
        let stops = ["==", "!=", "<=", ">=", "<", ">", "{"];
        let mut left = self.term(&stops, false)?;
        let found = operators.into_iter().find(|op| self.cursor.eat(op));
        let Some(found) = found else {
            return Err(self
                .cursor
                .error("expected a comparison: ==, !=, <, <=, > or >="));
        };
        let mut right = self.term(&stops, false)?;
        let cmp = match found {
            "==" => Cmp::Eq,
            "!=" => Cmp::Ne,
            "<" | ">" => Cmp::Lt,
            _ => Cmp::Le,
        };
        if found.starts_with('>') {
            std::mem::swap(&mut left, &mut right);
        }
        Ok(Comparison { left, cmp, right })
    }

    /// Parses `NAME[entries]`; a buffer without dimensions is `NAME[]`.
    pub(super) fn slice(&mut self) -> Read<Slice> {
        self.cursor.space();
        let start = self.cursor.at;
        let name = self.cursor.name("a buffer")?;
        let end = start + name.len();
        let Some(&buffer) = self.buffers.get(name) else {
            let message = format!("buffer `{name}` is not declared");
            return Err(self.cursor.error_at(start, end, message));
        };
        self.cursor.expect("[")?;
        let rank = self.program.buffers[buffer].shape.rank();
        let mut entries = Vec::new();
        if !self.cursor.eat("]") {
            loop {
                entries.push(self.entry(buffer, entries.len(), start)?);
                if self.cursor.eat("]") {
                    break;
                }
                self.cursor.expect(",")?;
            }
        }
        if entries.len() != rank {
            let message = format!(
                "`{name}` has {rank} dimensions, but {} entries are given",
                entries.len()
            );
            return Err(self.cursor.error_at(start, self.cursor.at, message));
        }
        Ok(Slice { buffer, entries })
    }

    fn entry(&mut self, buffer: BufferId, position: usize, start: usize) -> Read<SliceEntry> {
        if position >= self.program.buffers[buffer].shape.rank() {
            let message = "more entries than the buffer has dimensions";
            return Err(self.cursor.error_at(start, self.cursor.at, message));
        }
        if self.cursor.eat(":") {
            return Ok(SliceEntry::Whole);
        }
        let first = self.term(&[",", "+:"], false)?;
        if !self.cursor.eat("+:") {
            return Ok(SliceEntry::Element(first));
        }
        self.cursor.space();
        let at = self.cursor.at;
        let size = self.cursor.integer("how many elements there are")?;
        if size < 1 {
            let message = "expected a slice of at least one element";
            return Err(self.cursor.error_at(at, self.cursor.at, message));
        }
        Ok(SliceEntry::Range {
            start: first,
            size,
            clipped: self.cursor.eat_word("clipped"),
        })
    }

    /// Parses `NAME` or `NAME[t]`.
    pub(super) fn semaphore(&mut self) -> Read<SemaphoreRef> {
        self.cursor.space();
        let start = self.cursor.at;
        let name = self.cursor.name("a semaphore")?;
        let end = start + name.len();
        let Some(&array) = self.semaphores.get(name) else {
            let message = format!("semaphore `{name}` is not declared");
            return Err(self.cursor.error_at(start, end, message));
        };
        let count = self.program.semaphores[array].count;
        let indexed = self.cursor.same_line() && self.cursor.eat("[");
        let index = if indexed {
            let term = self.term(&[], false)?;
            self.cursor.expect("]")?;
            term
        } else {
            Term::constant(0)
        };
        let outside = |index: i64| !(0..count).contains(&index);
        if !indexed && count > 1 || index.as_constant().is_some_and(outside) {
            let message = format!("`{name}` has {count} semaphores: add an index, from 0");
            return Err(self.cursor.error_at(start, self.cursor.at, message));
        }
        Ok(SemaphoreRef { array, index })
    }
}
