//! Reads source locations: `loc(...)`.

use super::{MAX_DEPTH, Parser};
use crate::Error;
use crate::mlir::{Attribute, LEVELS_OF_A_PLACE, Location};
use std::sync::Arc;

impl Parser<'_> {
    /// Reads `loc(...)`, if it comes next.
    pub(super) fn optional_location(&mut self) -> Result<Option<Arc<Location>>, Error> {
        if !self.scanner.eat_word("loc") {
            return Ok(None);
        }
        self.scanner.expect("(")?;
        let location = self.location()?;
        self.scanner.expect(")")?;
        Ok(Some(location))
    }

    fn location(&mut self) -> Result<Arc<Location>, Error> {
        self.nested(Self::location_here)
    }

    fn location_here(&mut self) -> Result<Arc<Location>, Error> {
        match self.scanner.peek() {
            Some(b'#') => match self.attribute()? {
                Attribute::Location(location) => Ok(location),
                _ => Err(self.scanner.error("this alias is not a location")),
            },
            Some(b'"') => {
                let name: Arc<str> = self.scanner.string()?.into();
                self.named_location(name)
            }
            _ => self.location_of_kind(),
        }
    }

    /// Reads the place of a call, up to the bracket that closes its call site. Of a deep stack of
    /// calls, as programs with their own stacks of Python calls have it, the outermost are left
    /// out.
    fn caller(&mut self) -> Result<Arc<Location>, Error> {
        if self.depth + LEVELS_OF_A_PLACE > MAX_DEPTH {
            self.scanner.balanced(b')')?;
            return Ok(Arc::new(Location::Unknown));
        }
        let caller = self.location()?;
        self.scanner.expect(")")?;
        Ok(caller)
    }

    fn named_location(&mut self, name: Arc<str>) -> Result<Arc<Location>, Error> {
        if self.scanner.eat("(") {
            let child = self.location()?;
            self.scanner.expect(")")?;
            return Ok(Arc::new(Location::Name { name, child }));
        }
        if !self.scanner.eat(":") {
            let child = Arc::new(Location::Unknown);
            return Ok(Arc::new(Location::Name { name, child }));
        }
        // The form is "file":line:column, optionally followed by `to line:column` or `to :column`.
        let mut range = [self.line_number()?, 0, 0, 0];
        self.scanner.expect(":")?;
        range[1] = self.line_number()?;
        if self.scanner.eat_word("to") {
            range[2] = range[0];
            if self.scanner.peek() != Some(b':') {
                range[2] = self.line_number()?;
            }
            self.scanner.expect(":")?;
            range[3] = self.line_number()?;
        }
        Ok(Arc::new(Location::File { file: name, range }))
    }

    fn line_number(&mut self) -> Result<u32, Error> {
        let number = self.scanner.integer()?;
        u32::try_from(number).map_err(|_| self.scanner.error("expected a line or column"))
    }

    fn location_of_kind(&mut self) -> Result<Arc<Location>, Error> {
        if self.scanner.eat_word("unknown") {
            return Ok(Arc::new(Location::Unknown));
        }
        if self.scanner.eat_word("callsite") {
            self.scanner.expect("(")?;
            let callee = self.location()?;
            self.scanner.expect_word("at")?;
            let caller = self.caller()?;
            return Ok(Arc::new(Location::CallSite { callee, caller }));
        }
        if self.scanner.eat_word("fused") {
            let metadata = match self.scanner.eat("<") {
                true => {
                    let metadata = self.attribute()?;
                    self.scanner.expect(">")?;
                    Some(metadata)
                }
                false => None,
            };
            let locations = self.list("[", "]", Self::location)?.into();
            return Ok(Arc::new(Location::Fused {
                locations,
                metadata,
            }));
        }
        Err(self.scanner.error("expected a location"))
    }
}
