//! The parser for declarations of buffers and semaphores.

use super::cursor::Read;
use super::statements::Reader;
use crate::program::{Buffer, BufferId, Role, Semaphores, Space, StatementKind};
use tegula_ir::{ArrayShape, Shape, Span, parse_shape};

/// The most buffers of a kernel.
const MAX_BUFFERS: usize = 1 << 16;
/// The most semaphores of a kernel.
const MAX_SEMAPHORES: i64 = 1 << 16;
/// The most dimensions of a buffer.
const MAX_RANK: usize = 16;

impl Space {
    /// The name of the memory in the text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hbm => "hbm",
            Self::Vmem => "vmem",
            Self::Smem => "smem",
            Self::Cmem => "cmem",
        }
    }

    /// The memory of this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Hbm, Self::Vmem, Self::Smem, Self::Cmem];
        all.into_iter().find(|space| space.name() == name)
    }
}

impl<'a> Reader<'a> {
    /// Parses `NAME : SHAPE [= parameter(k) | = result(k)] [at BYTE] [program]` after the name of
    /// the memory.
    pub(super) fn buffer(&mut self, space: Space) -> Read<StatementKind> {
        let (name, start) = self.new_name("a buffer")?;
        self.cursor.expect(":")?;
        let shape = self.shape()?;
        let role = if self.cursor.eat("=") {
            self.role(space)?
        } else {
            Role::Scratch
        };
        let mut offset = None;
        let mut program_lifetime = false;
        while self.cursor.same_line() {
            if self.cursor.eat_word("at") {
                offset = Some(self.first_byte()?);
            } else if self.cursor.eat_word("program") {
                program_lifetime = true;
            } else {
                break;
            }
        }
        let buffer = self.add_buffer(
            start,
            Buffer {
                name: name.to_owned(),
                space,
                shape,
                role,
                offset,
                program_lifetime,
            },
        )?;
        Ok(StatementKind::Declare(buffer))
    }

    /// Parses the offset of a buffer, after `at`.
    pub(super) fn first_byte(&mut self) -> Read<i64> {
        self.cursor.space();
        let start = self.cursor.at;
        let byte = self.cursor.integer("the first byte")?;
        if byte < 0 {
            let message = "the first byte cannot be negative";
            return Err(self.cursor.error_at(start, self.cursor.at, message));
        }
        Ok(byte)
    }

    pub(super) fn add_buffer(&mut self, start: usize, buffer: Buffer) -> Read<BufferId> {
        if self.program.buffers.len() >= MAX_BUFFERS {
            let message = format!("a kernel has at most {MAX_BUFFERS} buffers");
            return Err(self.cursor.error_at(start, start + 1, message));
        }
        let name = buffer.name.clone();
        let id = self.program.buffers.push(buffer);
        self.buffers.insert(name, id);
        Ok(id)
    }

    /// Parses a new name for a buffer or an array of semaphores.
    pub(super) fn new_name(&mut self, what: &str) -> Read<(&'a str, usize)> {
        self.cursor.space();
        let start = self.cursor.at;
        let name = self.cursor.name(what)?;
        if self.buffers.contains_key(name) || self.semaphores.contains_key(name) {
            let message = format!("`{name}` is already declared");
            return Err(self.cursor.error_at(start, start + name.len(), message));
        }
        Ok((name, start))
    }

    fn shape(&mut self) -> Read<ArrayShape> {
        self.cursor.space();
        let start = self.cursor.at;
        self.cursor.name("an element type")?;
        self.cursor.bracketed("[")?;
        if self.cursor.behind_word() == Some(b'{') {
            self.cursor.bracketed("{")?;
        }
        let end = self.cursor.at;
        let text = self.cursor.text.get(start..end).unwrap_or("");
        let shape = parse_shape(text).map_err(|error| {
            let Span {
                start: from,
                end: to,
            } = error.span();
            let message = error.message().to_owned();
            let place = |at: u32| start + at as usize;
            self.cursor.error_at(place(from), place(to), message)
        })?;
        match shape {
            Shape::Array(array) if array.rank() > MAX_RANK => {
                let message = format!("a buffer has at most {MAX_RANK} dimensions");
                Err(self.cursor.error_at(start, end, message))
            }
            Shape::Array(array) if array.static_dims().is_some() => Ok(array),
            _ => Err(self
                .cursor
                .error_at(start, end, "a buffer is an array of fixed sizes")),
        }
    }

    fn role(&mut self, space: Space) -> Read<Role> {
        self.cursor.space();
        let start = self.cursor.at;
        let word = self.cursor.name("`parameter` or `result`")?;
        let make: fn(usize) -> Role = match word {
            "parameter" => Role::Parameter,
            "result" => Role::Result,
            _ => {
                let message = "expected `parameter(k)` or `result(k)`";
                return Err(self.cursor.error_at(start, start + word.len(), message));
            }
        };
        self.cursor.expect("(")?;
        let number = self.cursor.integer("its number")?;
        self.cursor.expect(")")?;
        let end = self.cursor.at;
        if space != Space::Hbm {
            let message = "only buffers in HBM are parameters and results";
            return Err(self.cursor.error_at(start, end, message));
        }
        let role = usize::try_from(number).ok().map(make);
        let taken = |role: &Role| self.program.buffers.values().any(|b| b.role == *role);
        match role {
            Some(role) if number < 1 << 16 && !taken(&role) => Ok(role),
            _ => {
                let message = "this number is used by another buffer, or out of range";
                Err(self.cursor.error_at(start, end, message))
            }
        }
    }

    /// Parses `NAME[n], ...` after `sem`.
    pub(super) fn semaphore_arrays(&mut self) -> Read<()> {
        loop {
            let (name, start) = self.new_name("a semaphore")?;
            let count = if self.cursor.eat("[") {
                let count = self.cursor.integer("how many there are")?;
                self.cursor.expect("]")?;
                count
            } else {
                1
            };
            let total: i64 = self.program.semaphores.values().map(|s| s.count).sum();
            if count < 1 || count > MAX_SEMAPHORES - total {
                let message = format!("a kernel has between 1 and {MAX_SEMAPHORES} semaphores");
                return Err(self.cursor.error_at(start, start + name.len(), message));
            }
            let array = Semaphores {
                name: name.to_owned(),
                count,
            };
            let id = self.program.semaphores.push(array);
            self.semaphores.insert(name.to_owned(), id);
            if !self.cursor.eat(",") {
                return Ok(());
            }
        }
    }
}
