//! The parser for grids and their windows.

use super::cursor::Read;
use super::statements::Reader;
use crate::program::{Buffer, Grid, GridDimension, Role, Space, StatementKind, Window};
use tegula_ir::ArrayShape;

/// The most buffers of a window.
const MAX_BLOCKS: i64 = 64;

impl Reader<'_> {
    /// Parses `[parallel] i in 0..8, ... { windows and statements }` after `grid`.
    pub(super) fn grid(&mut self) -> Read<StatementKind> {
        let scope = self.variables.len();
        let mut dimensions = Vec::new();
        loop {
            let parallel = self.cursor.eat_word("parallel");
            self.cursor.space();
            let start = self.cursor.at;
            let (variable, low, high) = self.range(&["{", ","])?;
            let own = |d: &GridDimension| {
                let var = d.variable.var();
                low.mentions(var) || high.mentions(var)
            };
            if dimensions.iter().any(own) {
                let message = "the bounds of a grid must not depend on its own variables";
                return Err(self.cursor.error_at(start, self.cursor.at, message));
            }
            dimensions.push(GridDimension {
                variable,
                low,
                high,
                parallel,
            });
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect("{")?;
        let mut windows = Vec::new();
        loop {
            while self.cursor.eat(";") {}
            if self.cursor.word() == "window" && self.cursor.behind_word() != Some(b'[') {
                self.cursor.at += "window".len();
                windows.push(self.window()?);
            } else {
                break;
            }
        }
        let body = self.statements_to_brace()?;
        self.variables.truncate(scope);
        Ok(StatementKind::Grid(Box::new(Grid {
            dimensions,
            windows,
            body,
        })))
    }

    /// Parses `[out] NAME = ARRAY block (sizes) at (indices) [buffers n] [at BYTE]` after `window`.
    fn window(&mut self) -> Read<Window> {
        let line = self.cursor.line_of(self.cursor.at);
        // Before `=`, `out` is a name like any other.
        let at = self.cursor.at;
        let output = self.cursor.eat_word("out") && self.cursor.peek() != Some(b'=');
        if !output {
            self.cursor.at = at;
        }
        let (name, start) = self.new_name("a window")?;
        self.cursor.expect("=")?;
        self.cursor.space();
        let at = self.cursor.at;
        let array_name = self.cursor.name("an array in HBM")?;
        let array = self.buffers.get(array_name).copied();
        let array = array.filter(|&id| self.program.buffers[id].space == Space::Hbm);
        let Some(array) = array else {
            let message = format!("array `{array_name}` is not declared in HBM");
            let end = at + array_name.len();
            return Err(self.cursor.error_at(at, end, message));
        };
        if !self.cursor.eat_word("block") {
            return Err(self.cursor.error("expected `block` and the block's sizes"));
        }
        let sizes = self.list(|reader| {
            let size = reader.cursor.integer("a size")?;
            if size < 1 {
                return Err(reader.cursor.error("expected block sizes of at least 1"));
            }
            Ok(size)
        })?;
        if !self.cursor.eat_word("at") {
            return Err(self
                .cursor
                .error("expected `at` and the block's number along each dimension"));
        }
        self.loads.refused = true;
        let indices = self.list(|reader| reader.term(&[","], false))?;
        self.loads.refused = false;
        let rank = self.program.buffers[array].shape.rank();
        if sizes.len() != rank || indices.len() != rank {
            let message = format!(
                "`{array_name}` has {rank} dimensions, but {} sizes and {} indices are given",
                sizes.len(),
                indices.len()
            );
            return Err(self.cursor.error_at(start, self.cursor.at, message));
        }
        let mut buffers = 2;
        if self.cursor.eat_word("buffers") {
            buffers = self.cursor.integer("how many blocks there is room for")?;
            if !(1..=MAX_BLOCKS).contains(&buffers) {
                let message = format!("a window has between 1 and {MAX_BLOCKS} blocks");
                return Err(self.cursor.error_at(start, self.cursor.at, message));
            }
        }
        let mut offset = None;
        if self.cursor.eat_word("at") {
            offset = Some(self.first_byte()?);
        }
        let element_type = self.program.buffers[array].shape.element_type;
        let block = self.add_buffer(
            start,
            Buffer {
                name: name.to_owned(),
                space: Space::Vmem,
                shape: ArrayShape::new(element_type, &sizes),
                role: Role::Scratch,
                offset,
                program_lifetime: false,
            },
        )?;
        Ok(Window {
            steps: Vec::new(),
            transform: Vec::new(),
            block,
            array,
            sizes,
            indices,
            buffers,
            output,
            line,
        })
    }

    /// Parses `(item, ...)`.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        self.cursor.expect("(")?;
        let mut items = Vec::new();
        if self.cursor.eat(")") {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.cursor.eat(")") {
                return Ok(items);
            }
            self.cursor.expect(",")?;
        }
    }
}
